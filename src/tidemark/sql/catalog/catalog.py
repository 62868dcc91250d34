"""What is defined: tables, plain views and materialized views. Immutable; a change makes a new catalog.

Immutable dictionaries that grow: one with another entry shares what it has with the one before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar, cast

from tidemark.algebra.expressions import Expression, Value
from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import Plan, Scan
from tidemark.algebra.types import Schema
from tidemark.datalog.program import Program
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.rules import IMMEDIATE, INDEPENDENT, Activation, Rule
from tidemark.sql.catalog.sources import Origin, SourceDefinition
from tidemark.sql.parse.lagging import Lag

T = TypeVar("T")


class _Entries(Generic[T]):
    """What growing dictionaries share: entries by name, the names in order, and what was chosen among them."""

    __slots__ = ("by_name", "chosen", "names")

    def __init__(self, entries: Mapping[str, T]) -> None:
        self.by_name = {name: (place, value) for place, (name, value) in enumerate(entries.items())}
        self.names = list(entries)
        self.chosen: dict[str, tuple[int, tuple[int, ...], tuple[T, ...]]] = {}


class Growing(Mapping[str, T]):
    """A dictionary by name, in the order in which the names came.

    The entries lie in one dictionary, of which each mapping sees as many as it had when it was made. So one more costs
    no copy, unless the mapping is not the latest any more, or has the name already.

    >>> one = Growing[int]().with_entry("a", 1)
    >>> two = one.with_entry("b", 2)
    >>> dict(one), dict(two), dict(one.with_entry("c", 3)), two.since(one)
    ({'a': 1}, {'a': 1, 'b': 2}, {'a': 1, 'c': 3}, (2,))
    """

    __slots__ = ("_entries", "_length")

    def __init__(self, entries: Mapping[str, T] | None = None) -> None:
        self._entries = _Entries(entries or {})
        self._length = len(self._entries.names)

    def with_entry(self, name: str, value: T) -> Growing[T]:
        """This mapping and one entry more, or another one under a name that it has."""
        entries = self._entries
        if len(entries.names) != self._length or name in self:
            return Growing({**self, name: value})
        grown = Growing.__new__(Growing)
        entries.names.append(
            name
        )  # first, so that an exception between the two leaves a mapping that is not the latest
        entries.by_name[name] = (self._length, value)
        grown._entries, grown._length = entries, self._length + 1
        return grown

    def since(self, before: Growing[T]) -> tuple[T, ...] | None:
        """What this mapping has more than one that it has grown from; None if it has not grown from that."""
        if self._entries is not before._entries or self._length < before._length:
            return None
        return tuple([self[name] for name in self._entries.names[before._length : self._length]])

    def chosen(self, kind: str, is_chosen: Callable[[T], bool]) -> tuple[T, ...]:
        """The values of one kind, in order. The entries that were looked at before are not looked at again."""
        entries = self._entries
        seen, places, found = entries.chosen.get(kind, (0, (), ()))
        if seen < self._length:
            more = [entries.by_name[name] for name in entries.names[seen : self._length]]
            more = [(place, value) for place, value in more if is_chosen(value)]
            places += tuple([place for place, _ in more])
            found += tuple([value for _, value in more])
            entries.chosen[kind] = (self._length, places, found)
        return found[: bisect_left(places, self._length)]

    def __getitem__(self, name: str) -> T:
        place, value = self._entries.by_name[name]
        if place >= self._length:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries.names[: self._length])

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
    """A table. ``defaults`` are what columns become that an INSERT does not name. One with an ``origin`` follows a
    relation of a source, and nothing else changes it.

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
    origin: Origin | None = None
    identity: Token = field(default_factory=Token, compare=False, repr=False)

    @property
    def definition(self) -> str:
        """The statements that made the table what it is."""
        from_source = "" if self.origin is None else f" FROM {self.origin}"
        return ";\n".join((f"{self.text}{from_source}", *(text for text, _ in self.alterations)))


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
    program: Program | None = field(default_factory=lambda: None, compare=False, repr=False)
    lag: Lag | None = None
    identity: Token = field(default_factory=Token, compare=False, repr=False)
    meaning: Token = field(default_factory=Token, compare=False, repr=False)
    known: str | None = field(default=None, compare=False, repr=False)
    """What was stored with its definition, from which the network knows it without its plan."""

    @staticmethod
    def later(bind: Callable[[], View], schema: Schema, **said: Any) -> View:
        """A view whose definition is bound when somebody asks for its plan or its program; the rest is ``said``."""
        view = object.__new__(View)
        standard = {"external": False, "lag": None, "identity": Token(), "meaning": Token()}
        view.__dict__.update(standard, **said, _bind=bind, _schema=schema)
        return view

    def __getattr__(self, name: str) -> Any:
        bind = self.__dict__.get("_bind")
        if bind is None or name not in ("plan", "program"):
            raise AttributeError(name)
        bound = bind()
        self.__dict__.update(plan=bound.plan, program=bound.program)
        return getattr(bound, name)

    @property
    def definition(self) -> str:
        return self.text

    @property
    def is_assertion(self) -> bool:
        """Whether its rows are violations that are refused."""
        return self.options.get("assertion") == "reject"

    @property
    def is_logged(self) -> bool:
        """Whether its changes are derived and kept in the log; those of a plain view are not."""
        return self.materialized or self.external

    @property
    def schema(self) -> Schema:
        known: Schema | None = self.__dict__.get("_schema")
        return self.plan.schema if known is None else known


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
    sources: Mapping[str, SourceDefinition] = field(default_factory=dict)

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

    def with_source(self, source: SourceDefinition) -> Catalog:
        return replace(self, sources={**self.sources, source.name: source})

    def without_source(self, name: str) -> Catalog:
        return replace(self, sources={key: one for key, one in self.sources.items() if key != name})

    def tables_from(self, source: str) -> tuple[Table, ...]:
        """The tables that follow relations of a source."""
        return tuple(t for t in self.tables if t.origin is not None and t.origin.source == source)

    def rules_on(self, name: str) -> tuple[Rule, ...]:
        """The rules that name the relation."""
        return tuple(rule for rule in self.rules.values() if name in rule.depends_on)

    @cached_property
    def activations(self) -> tuple[Activation, ...]:
        """What is watched, in the order in which it gets its turn: by priority, then by creation."""
        return tuple(a for rule in sorted(self.rules.values(), key=lambda rule: -rule.priority) for a in rule.active)

    @cached_property
    def has_immediate(self) -> bool:
        """Whether a rule is watched that is considered after each statement."""
        return any(rule.active and rule.coupling == IMMEDIATE for rule in self.rules.values())

    @cached_property
    def conditions(self) -> Mapping[str, int]:
        """Where in ``activations`` those are that have nothing to do before the commit unless their condition has
        changed, by the nodes of these."""
        found: dict[str, int] = {}
        for place, one in enumerate(self.activations):
            rule = self.rules[one.rule]
            if one.is_condition and not (one.transitions or rule.events or rule.last or rule.coupling == IMMEDIATE):
                found[one.node] = place
        return found

    @cached_property
    def beside_conditions(self) -> tuple[int, ...]:
        """Where in ``activations`` the others are."""
        return tuple(place for place, one in enumerate(self.activations) if one.node not in self.conditions)

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
        return self._views("assertion", lambda view: view.is_assertion)

    def without(self, *names: str) -> Catalog:
        kept = {key: value for key, value in self.relations.items() if key not in names}
        return replace(self, relations=Growing(kept), folded=Growing({name.lower(): name for name in kept}))

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        found = self.relations.chosen("table", lambda relation: isinstance(relation, Table))
        return tuple([relation for relation in found if isinstance(relation, Table)])

    @cached_property
    def views(self) -> tuple[View, ...]:
        return self._views("view", lambda view: True)

    def _views(self, kind: str, is_chosen: Callable[[View], bool]) -> tuple[View, ...]:
        found = self.relations.chosen(kind, lambda relation: isinstance(relation, View) and is_chosen(relation))
        return cast("tuple[View, ...]", found)

    @cached_property
    def materialized_views(self) -> tuple[View, ...]:
        """The views that each transaction brings up to date."""
        return self._views("materialized", lambda view: view.materialized and view.lag is None)

    @cached_property
    def lagging_views(self) -> tuple[View, ...]:
        """The stored views that are brought up to date when their time comes."""
        return self._views("lagging", lambda view: view.lag is not None)

    @cached_property
    def read_through(self) -> frozenset[str]:
        """The names of views that are brought up to date when they are read."""
        return frozenset(v.name for v in self.lagging_views if v.lag is not None and v.lag.is_read_through)

    @cached_property
    def external_views(self) -> tuple[View, ...]:
        return self._views("external", lambda view: view.external)

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
