"""What is defined: tables, plain views and materialized views. Immutable; a change makes a new catalog.

Immutable dictionaries that grow: one with another entry shares what it has with the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TypeAlias, TypeVar

from tidemark.algebra.expressions import Expression, Value
from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import Plan, Scan
from tidemark.algebra.types import Schema
from tidemark.datalog.program import Program
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.rules import IMMEDIATE, INDEPENDENT, Activation, Rule
from tidemark.sql.parse.lagging import Lag

T = TypeVar("T")


class Growing(Mapping[str, T]):
    """A dictionary by name, in the order in which the names came.

    The entries lie in one dictionary, of which each mapping sees as many as it had when it was made. So one more costs
    no copy, unless the mapping is not the latest any more, or has the name already.

    >>> one = Growing[int]().with_entry("a", 1)
    >>> two = one.with_entry("b", 2)
    >>> dict(one), dict(two), dict(one.with_entry("c", 3))
    ({'a': 1}, {'a': 1, 'b': 2}, {'a': 1, 'c': 3})
    """

    __slots__ = ("_entries", "_length")

    def __init__(self, entries: Mapping[str, T] | None = None) -> None:
        self._entries = {name: (place, value) for place, (name, value) in enumerate((entries or {}).items())}
        self._length = len(self._entries)

    def with_entry(self, name: str, value: T) -> Growing[T]:
        """This mapping and one entry more, or another one under a name that it has."""
        if len(self._entries) != self._length or name in self:
            return Growing({**self, name: value})
        grown = Growing[T]()
        self._entries[name] = (self._length, value)
        grown._entries, grown._length = self._entries, self._length + 1
        return grown

    def __getitem__(self, name: str) -> T:
        place, value = self._entries[name]
        if place >= self._length:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(list(islice(self._entries, self._length)))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return repr(dict(self))


RULE_TABLES = ("_firings", "_detached")
"""The tables in which the database keeps what rules did and what they have yet to do."""


class Token:
    """Something that is only ever the same as itself."""


@dataclass(frozen=True)
class Check:
    """A CHECK constraint: violated by rows for which the condition is false."""

    text: str
    condition: Expression


@dataclass(frozen=True)
class Table:
    """A table. ``defaults`` are what columns become that an INSERT does not name.

    ``alterations`` are the ALTER statements since it was created, with their dialects. A table that was altered has
    the ``identity`` that it had: what is stored of it goes on.
    """

    name: str
    schema: Schema
    text: str
    dialect: str = "postgres"
    primary_key: tuple[int, ...] = ()
    checks: tuple[Check, ...] = ()
    defaults: tuple[Value, ...] = ()
    alterations: tuple[tuple[str, str], ...] = ()
    identity: Token = field(default_factory=Token, compare=False, repr=False)

    @property
    def definition(self) -> str:
        """The statements that made the table what it is."""
        return ";\n".join((self.text, *(text for text, _ in self.alterations)))


@dataclass(frozen=True)
class View:
    """A view: its plan reads tables and materialized views; plain views in it were expanded.

    ``seen`` is how many columns each relation that it names had when it was defined: a view sees no column that came
    later, so that ``*`` and names mean what they meant. A view that was replaced by one with the same columns has
    the ``identity`` that it had, because its content and its log go on; its ``meaning`` is another.
    ``approximate`` are the positions of columns that hold sums of floats, or what was computed from such. An
    ``external`` view is expanded where it is used, as a plain one, but its changes are derived and logged. ``program``
    has the clauses of a view that is written in Datalog. One with a ``lag`` is a snapshot or a continual query: stored,
    but not brought up to date by each transaction.
    """

    name: str
    plan: Plan
    text: str
    dialect: str = "postgres"
    materialized: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    depends_on: frozenset[str] = frozenset()
    seen: Mapping[str, int] = field(default_factory=dict)
    approximate: frozenset[int] = frozenset()
    external: bool = False
    program: Program | None = field(default=None, compare=False, repr=False)
    lag: Lag | None = None
    identity: Token = field(default_factory=Token, compare=False, repr=False)
    meaning: Token = field(default_factory=Token, compare=False, repr=False)

    @property
    def definition(self) -> str:
        return self.text

    @property
    def is_logged(self) -> bool:
        """Whether its changes are derived and kept in the log; those of a plain view are not."""
        return self.materialized or self.external

    @property
    def schema(self) -> Schema:
        return self.plan.schema


Relation: TypeAlias = Table | View


def kind_of(relation: Relation) -> str:
    """What a relation is, in words: table, view, materialized view, assertion, snapshot or continual query."""
    if isinstance(relation, Table):
        return "table"
    if relation.external:
        return "external view"
    if relation.options.get("assertion"):
        return "assertion"
    if relation.lag is not None and not relation.lag.is_read_through:
        return relation.lag.kind
    return "materialized view" if relation.materialized else "view"


@dataclass(frozen=True)
class Catalog:
    """All relations by name, in order of creation."""

    relations: Growing[Relation] = field(default_factory=Growing)
    folded: Growing[str] = field(default_factory=Growing, compare=False, repr=False)
    """The names as they are, by what they are in lower case."""
    rules: Mapping[str, Rule] = field(default_factory=dict)

    def get(self, name: str) -> Relation | None:
        return self.relations.get(name)

    def with_relation(self, relation: Relation) -> Catalog:
        name = relation.name
        relations, folded = self.relations.with_entry(name, relation), self.folded.with_entry(name.lower(), name)
        return replace(self, relations=relations, folded=folded)

    def with_rule(self, rule: Rule) -> Catalog:
        return replace(self, rules={**self.rules, rule.name: rule})

    def without_rule(self, name: str) -> Catalog:
        return replace(self, rules={key: rule for key, rule in self.rules.items() if key != name})

    def rules_on(self, name: str) -> tuple[Rule, ...]:
        """The rules that name the relation."""
        return tuple(rule for rule in self.rules.values() if name in rule.depends_on)

    @cached_property
    def activations(self) -> tuple[Activation, ...]:
        """What is watched, in the order in which it gets its turn: by priority, then by creation."""
        return tuple(a for rule in sorted(self.rules.values(), key=lambda rule: -rule.priority) for a in rule.active)

    @cached_property
    def immediately_watched(self) -> frozenset[str]:
        """The tables whose change can matter to a rule that is considered after each statement."""
        rules = [rule for rule in self.rules.values() if rule.active and rule.coupling == IMMEDIATE]
        return self.tables_below(name for rule in rules for name in (*rule.reads, *rule.event_relations))

    @cached_property
    def watched_events(self) -> frozenset[str]:
        """The relations on which there are events that rules are watched for."""
        return frozenset(name for rule in self.rules.values() if rule.active for name in rule.event_relations)

    @cached_property
    def views_in_sequences(self) -> frozenset[str]:
        """The views whose changes begin or end sequences and closures that rules are watched for."""
        rules = (rule for rule in self.rules.values() if rule.active and rule.last)
        return frozenset(n for rule in rules for n in rule.event_relations if isinstance(self.get(n), View))

    @cached_property
    def followed_in_sequences(self) -> frozenset[str]:
        """The tables below such views."""
        return self.tables_below(self.views_in_sequences)

    def tables_below(self, names: Iterable[str]) -> frozenset[str]:
        """The tables that the relations stand on, and those among them."""
        found: set[str] = set()
        for name in names:
            relation = self.get(name)
            found |= self.tables_below(relation.depends_on) if isinstance(relation, View) else {name}
        return frozenset(found)

    @cached_property
    def has_independent(self) -> bool:
        """Whether a rule is watched whose condition is independent of the transaction."""
        return any(rule.active and rule.coupling == INDEPENDENT for rule in self.rules.values())

    @cached_property
    def assertions(self) -> tuple[View, ...]:
        """The views of violations that are refused."""
        return tuple(view for view in self.views if view.options.get("assertion") == "reject")

    def without(self, *names: str) -> Catalog:
        kept = {key: value for key, value in self.relations.items() if key not in names}
        return replace(self, relations=Growing(kept), folded=Growing({name.lower(): name for name in kept}))

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        return tuple(r for r in self.relations.values() if isinstance(r, Table))

    @cached_property
    def views(self) -> tuple[View, ...]:
        return tuple(r for r in self.relations.values() if isinstance(r, View))

    @cached_property
    def materialized_views(self) -> tuple[View, ...]:
        """The views that each transaction brings up to date."""
        return tuple(view for view in self.views if view.materialized and view.lag is None)

    @cached_property
    def lagging_views(self) -> tuple[View, ...]:
        """The stored views that are brought up to date when their time comes."""
        return tuple(view for view in self.views if view.lag is not None)

    @cached_property
    def read_through(self) -> frozenset[str]:
        """The names of views that are brought up to date when they are read."""
        return frozenset(v.name for v in self.lagging_views if v.lag is not None and v.lag.is_read_through)

    @cached_property
    def external_views(self) -> tuple[View, ...]:
        return tuple(view for view in self.views if view.external)

    def dependents(self, name: str) -> tuple[View, ...]:
        """The views that name the relation in their definition, in order of creation."""
        return tuple(view for view in self.views if name in view.depends_on)

    def above(self, name: str) -> tuple[View, ...]:
        """The views that stand on the relation, directly or not, each after those that it stands on."""
        found = {name}
        for view in self.views:
            if view.depends_on & found:
                found.add(view.name)
        return tuple(view for view in self.views if view.name in found - {name})

    def scan(self, name: str) -> Plan:
        """How a query reads the relation: plain views are expanded, everything else is scanned."""
        relation = self.relations[name]
        if isinstance(relation, View) and not relation.materialized:
            return relation.plan
        return Scan(name, relation.schema)

    def must_be_new(self, name: str) -> None:
        """Refuse a name that is taken, also when it differs only in case (stores may not tell them apart)."""
        existing = self.folded.get(name.lower())
        if existing is not None:
            raise TidemarkError(
                "exists",
                f"there is already a relation named {existing!r}",
                hint="drop it first, or choose another name",
            )

    def suggestions(self, name: str) -> str:
        known = sorted(name for name in self.relations if name != CLOCK and name not in RULE_TABLES)
        return "relations: " + ", ".join(known) if known else "there are no relations yet: CREATE TABLE first"
