"""Rules in the catalog: activating, deactivating and dropping them, and the tables that they need.

The triggering graph: which rules can set which off, and which pairs depend on their order.

    r → s            if r's action changes a table below what s watches
    non-termination  possible, if the graph has a cycle
    non-confluence   possible, if of two rules with the same priority one changes what the other watches or what its
                     condition or action reads, or both change the same table other than by insertions alone

Both are said of what could happen; whether it does depends on the data.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tidemark.algebra.history import CLOCK, CLOCK_SCHEMA, CLOCK_TEXT
from tidemark.errors import TidemarkError
from tidemark.rules.actions import FIRINGS, FIRINGS_SCHEMA, FIRINGS_TEXT
from tidemark.rules.detached import DETACHED_SCHEMA, DETACHED_TABLE, DETACHED_TEXT
from tidemark.sql.catalog.catalog import Catalog, Table, View
from tidemark.sql.catalog.rules import Rule
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.rules import SetActive
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.text import Source
from tidemark.state.pairs import key_of
from tidemark.state.records import activation, define_rule


def with_rule_tables(catalog: Catalog, rule: Rule) -> Catalog:
    """The catalog with the tables in which rules leave what they did and have yet to do, and the clock if one asks."""
    if CLOCK in rule.reads and CLOCK not in catalog.relations:
        catalog = catalog.with_relation(Table(CLOCK, CLOCK_SCHEMA, CLOCK_TEXT))
    if FIRINGS in catalog.relations:
        return catalog
    firings = Table(FIRINGS, FIRINGS_SCHEMA, FIRINGS_TEXT, defaults=(None,) * len(FIRINGS_SCHEMA))
    detached = Table(DETACHED_TABLE, DETACHED_SCHEMA, DETACHED_TEXT, defaults=(None,) * len(DETACHED_SCHEMA))
    return catalog.with_relation(firings).with_relation(detached)


def rules_meant(statement: SetActive, catalog: Catalog) -> tuple[Rule, ...]:
    """The rule that is named, or those of the group."""
    if statement.is_group:
        found = tuple(rule for rule in catalog.rules.values() if rule.group == statement.name)
        if not found:
            raise TidemarkError("unknown_rule", f"no rule is in the group {statement.name!r}", hint=_known(catalog))
        return found
    return (rule_named(statement.name, catalog),)


def rule_named(name: str, catalog: Catalog) -> Rule:
    rule = catalog.rules.get(name)
    if rule is None:
        raise TidemarkError("unknown_rule", f"there is no rule {name!r}", hint=_known(catalog))
    return rule


def with_activation(rule: Rule, statement: SetActive, catalog: Catalog, source: Source) -> Rule:
    """The rule, watched or not for the given values; DEACTIVATE without values is for all of them."""
    if statement.arguments and len(statement.arguments) != len(rule.parameters):
        raise TidemarkError(
            "type", f"the rule {rule.name!r} has {len(rule.parameters)} parameters, not {len(statement.arguments)}"
        )
    if not statement.active:
        if statement.arguments and all(a.arguments != statement.arguments for a in rule.active):
            active = ", ".join(a.name for a in rule.active) or "it is not active at all"
            name = f"{rule.name}({', '.join(statement.arguments)})"
            raise TidemarkError("unknown_rule", f"{name} is not active", hint=f"active: {active}")
        kept = tuple(a for a in rule.active if statement.arguments and a.arguments != statement.arguments)
        return replace(rule, active=kept)
    if any(a.arguments == statement.arguments for a in rule.active):
        return rule
    return replace(rule, active=(*rule.active, activation(rule, statement.arguments, catalog)))


def arguments_in(name: str, dialect: str) -> tuple[str, ...]:
    """The values in the name of an activation: low(1, 'a')."""
    _, parenthesis, values = name.partition("(")
    if not parenthesis:
        return ()
    [(statement, _)] = parse_script(Source(f"ACTIVATE RULE r({values}", dialect))
    assert isinstance(statement, SetActive)
    return statement.arguments


def bound_anew(catalog: Catalog, changed: str) -> Catalog:
    """The catalog with the rules bound anew that stand on a relation which has another definition."""
    touched = {changed, *(view.name for view in catalog.above(changed))}
    for rule in catalog.rules.values():
        if rule.depends_on & touched:
            catalog = catalog.with_rule(_bound(rule, catalog, changed))
    return catalog


def _bound(rule: Rule, catalog: Catalog, changed: str) -> Rule:
    try:
        bound = define_rule(rule.text, rule.dialect, catalog, dict(rule.seen))
        active = tuple(activation(bound, a.arguments, catalog) for a in rule.active)
        return replace(bound, active=active, origin=rule.origin)
    except TidemarkError as error:
        raise TidemarkError(
            "dependents",
            f"{changed!r} cannot be changed so, because the rule {rule.name!r} stands on it and would no longer be "
            f"valid: {error.message}",
            hint=f"DROP RULE {rule.name} first",
        ) from error


def without_rule(statement: st.Drop, catalog: Catalog) -> Catalog:
    if statement.name not in catalog.rules and statement.if_exists:
        return catalog
    return catalog.without_rule(rule_named(statement.name, catalog).name)


def without_rules_on(statement: st.Drop, catalog: Catalog) -> Catalog:
    """The catalog without the rules that name a relation which is dropped; without CASCADE there must be none."""
    found = catalog.rules_on(statement.name)
    if found and not statement.cascade:
        names = ", ".join(rule.name for rule in found)
        raise TidemarkError(
            "dependents",
            f"{statement.name!r} is needed by the rule {names}",
            hint="drop it first, or use CASCADE",
        )
    for rule in found:
        catalog = catalog.without_rule(rule.name)
    return catalog


def _known(catalog: Catalog) -> str:
    return f"rules: {', '.join(catalog.rules)}" if catalog.rules else "there are no rules yet: CREATE RULE first"


def must_see_updates(rule: Rule, catalog: Catalog) -> None:
    """Refuse an UPDATE event on a view without a key: what it did looks like a deletion and an insertion there. Of
    a table, statements say which row became which."""
    for event in rule.database_events:
        relation = catalog.relations[event.relation]
        if event.kind == "update" and isinstance(relation, View):
            try:
                key_of(relation, catalog)
            except TidemarkError as error:
                hint = "select a key of each relation that it joins, or name INSERT OR DELETE"
                told = error.within(f"{event} cannot be told from a deletion and an insertion")
                raise told.restated(hint=hint) from error


Tables = frozenset[str]
Index = defaultdict[str, dict[str, None]]
"""The names of rules by table, in the order of creation."""


def warnings(rule: Rule, catalog: Catalog) -> list[str]:
    """What to say of a rule, beside those that there are."""
    return Graph(catalog).warnings(rule)


class Graph:
    """The rules of a catalog by the tables that they change, read and watch, so that only those are compared that
    have one in common."""

    def __init__(self, catalog: Catalog) -> None:
        self._rules = catalog.rules
        self._reads: dict[str, Tables] = {}
        self._action_reads: dict[str, Tables] = {}
        self._events: dict[str, Tables] = {}
        self._readers, self._watchers = Index(dict), Index(dict)
        self._writers, self._others = Index(dict), Index(dict)
        below: dict[frozenset[str], Tables] = {}

        def tables(relations: frozenset[str]) -> Tables:
            if relations not in below:
                below[relations] = catalog.tables_below(relations)
            return below[relations]

        for name, rule in catalog.rules.items():
            self._reads[name], self._action_reads[name] = tables(rule.reads), tables(rule.action_reads)
            self._events[name] = tables(rule.event_relations)
            for table in self._reads[name] | self._action_reads[name] | self._events[name]:
                self._readers[table][name] = None
            for table in self.watched(rule):
                self._watchers[table][name] = None
            for kind, table in rule.changes:
                self._writers[table][name] = None
                if kind != "insert":
                    self._others[table][name] = None

    def watched(self, rule: Rule) -> Tables:
        """The tables whose change can set a rule off: those below its events, or below its condition if it has none."""
        return self._events[rule.name] if rule.events else self._reads[rule.name]

    def warnings(self, rule: Rule) -> list[str]:
        return [*self._cycles(rule), *self._conflicts(rule)]

    def _cycles(self, rule: Rule) -> Iterator[str]:
        """The shortest way from a rule back to itself."""
        paths = deque([[rule.name]])
        seen: set[str] = set()
        while paths:
            path = paths.popleft()
            writes = self._rules[path[-1]].writes
            for name in self._in_order(self._watchers[table] for table in writes):
                if name == rule.name:
                    chain = " → ".join([*path, rule.name])
                    tables = _listed(writes & self.watched(rule))
                    yield f"may not terminate: {chain} ({path[-1]!r} changes {tables}, which {rule.name!r} watches)"
                    return
                if name not in seen:
                    seen.add(name)
                    paths.append([*path, name])

    def _conflicts(self, rule: Rule) -> Iterator[str]:
        found = [self._readers[table] for table in rule.writes]
        found += [
            self._writers[table]
            for table in self._reads[rule.name] | self._action_reads[rule.name] | self._events[rule.name]
        ]
        found += [(self._others if kind == "insert" else self._writers)[table] for kind, table in rule.changes]
        for name in self._in_order(found):
            other = self._rules[name]
            if name == rule.name or other.priority != rule.priority:
                continue
            why = self._why_ordered(rule, other)
            if why:
                yield f"the order of {name!r} and {rule.name!r} may matter: {why}; give them different priorities"

    def _why_ordered(self, rule: Rule, other: Rule) -> str:
        """The first reason, if there is one."""
        for one, two in ((rule, other), (other, rule)):
            tables = self._reads[two.name] & one.writes
            if tables:
                return f"{one.name!r} changes {_listed(tables)}, which the condition of {two.name!r} reads"
        both = _both(rule, other)
        if both:
            return f"both change {_listed(both)}"
        for one, two in ((rule, other), (other, rule)):
            for what, read in (("the action of {} reads", self._action_reads), ("{} watches", self._events)):
                tables = read[two.name] & one.writes
                if tables:
                    return f"{one.name!r} changes {_listed(tables)}, which {what.format(repr(two.name))}"
        return ""

    def _in_order(self, found: Iterable[Iterable[str]]) -> list[str]:
        """Names of rules, the oldest first."""
        names = {name for some in found for name in some}
        return [name for name in self._rules if name in names] if len(names) > 1 else list(names)


def _both(rule: Rule, other: Rule) -> set[str]:
    return {
        table
        for kind, table in rule.changes
        for other_kind, other_table in other.changes
        if table == other_table and (kind, other_kind) != ("insert", "insert")
    }


def _listed(tables: Iterable[str]) -> str:
    return ", ".join(sorted(tables))
