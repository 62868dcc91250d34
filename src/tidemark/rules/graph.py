"""The triggering graph: which rules can set which off, and which pairs depend on their order.

    r → s            if r's action changes a table below what s watches
    non-termination  possible, if the graph has a cycle
    non-confluence   possible, if of two rules with the same priority one changes what the other watches or what its
                     condition or action reads, or both change the same table other than by insertions alone

Both are said of what could happen; whether it does depends on the data.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator

from tidemark.sql.catalog.catalog import Catalog
from tidemark.sql.catalog.rules import Rule

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
