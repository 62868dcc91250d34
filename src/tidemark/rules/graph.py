"""The triggering graph: which rules can set which off, and which pairs depend on their order.

    r → s            if r's action changes a table below what s watches
    non-termination  possible, if the graph has a cycle
    non-confluence   possible, if of two rules with the same priority one changes what the other watches or what its
                     condition or action reads, or both change the same table other than by insertions alone

Both are said of what could happen; whether it does depends on the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemark.sql.activerules import Rule
from tidemark.sql.catalog import Catalog


def warnings(rule: Rule, catalog: Catalog) -> list[str]:
    """What to say of a rule, beside those that there are."""
    return [*_cycles(rule, catalog), *_conflicts(rule, catalog)]


def watched(rule: Rule, catalog: Catalog) -> frozenset[str]:
    """The tables whose change can set a rule off: those below its events, or below its condition if it has none."""
    named = rule.event_relations if rule.events else rule.reads
    return catalog.tables_below(named)


def _sets_off(rule: Rule, catalog: Catalog) -> list[Rule]:
    return [other for other in catalog.rules.values() if rule.writes & watched(other, catalog)]


def _cycles(rule: Rule, catalog: Catalog) -> Iterator[str]:
    """The shortest way from a rule back to itself."""
    paths = [[rule.name]]
    seen: set[str] = set()
    while paths:
        path = paths.pop(0)
        for other in _sets_off(catalog.rules[path[-1]], catalog):
            if other.name == rule.name:
                tables = ", ".join(sorted(catalog.rules[path[-1]].writes & watched(rule, catalog)))
                chain = " → ".join([*path, rule.name])
                yield f"may not terminate: {chain} ({path[-1]!r} changes {tables}, which {rule.name!r} watches)"
                return
            if other.name not in seen:
                seen.add(other.name)
                paths.append([*path, other.name])


def _conflicts(rule: Rule, catalog: Catalog) -> Iterator[str]:
    for other in catalog.rules.values():
        if other.name == rule.name or other.priority != rule.priority:
            continue
        why = _why_ordered(rule, other, catalog)
        if why:
            yield f"the order of {other.name!r} and {rule.name!r} may matter: {why}; give them different priorities"


def _why_ordered(rule: Rule, other: Rule, catalog: Catalog) -> str:
    """The first reason, if there is one."""
    for one, two in ((rule, other), (other, rule)):
        tables = catalog.tables_below(two.reads) & one.writes
        if tables:
            return f"{one.name!r} changes {_listed(tables)}, which the condition of {two.name!r} reads"
    both = _both(rule, other)
    if both:
        return f"both change {_listed(both)}"
    for one, two in ((rule, other), (other, rule)):
        for what, relations in (("the action of {} reads", two.action_reads), ("{} watches", two.event_relations)):
            tables = catalog.tables_below(relations) & one.writes
            if tables:
                return f"{one.name!r} changes {_listed(tables)}, which {what.format(repr(two.name))}"
    return ""


def _listed(tables: Iterable[str]) -> str:
    return ", ".join(sorted(tables))


def _both(rule: Rule, other: Rule) -> set[str]:
    return {
        table
        for kind, table in rule.changes
        for other_kind, other_table in other.changes
        if table == other_table and (kind, other_kind) != ("insert", "insert")
    }
