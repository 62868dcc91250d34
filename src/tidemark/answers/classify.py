"""What a statement, or a transaction of several, is to a view, before it runs: ``classify`` and EXPLAIN EFFECT.

From the cheapest on (BLAKELEY 7.2): *untouched*, the view does not depend on the table; *irrelevant*, the statement
cannot change it, whatever the tables hold; *autonomous*, its new content follows from its old one and the change;
*conditional*, that is so for some changes, which is seen when the change is there; *differential*, tables are read.
Nothing is run and nothing that is stored is read.

A transaction is as its weakest statement is (Definitions 7.1 and 7.2): statements of different classes are not mixed.
What is run is its net change, so that nothing is autonomous if several relations of the view change in it. Between its
statements constraints may be violated: of a table that several of them change only the types are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from tidemark.algebra.expressions import TRUE, Literal, Value
from tidemark.algebra.plans import Aggregate, relations_of
from tidemark.analysis.autonomy.classes import Class, class_of, decides
from tidemark.analysis.autonomy.criteria import Autonomy, autonomy, rules_of
from tidemark.analysis.autonomy.stored import Kept
from tidemark.analysis.facts import Facts
from tidemark.analysis.relevance.dml import (
    cells_of,
    changed_cells,
    condition_of,
    delete_verdict,
    insert_verdict,
    update_verdict,
)
from tidemark.analysis.relevance.shapes import Shape, is_within, shape_of
from tidemark.analysis.rendering import FALSE
from tidemark.calculus.extrema import has_extrema
from tidemark.calculus.group import is_merged
from tidemark.network import Node, NodeKind, build
from tidemark.network.build import Definition
from tidemark.sql.bind.changes import BoundChange, DeleteRows, InsertRows, UpdateRows
from tidemark.sql.catalog.catalog import Catalog, View
from tidemark.state.facts import Boundaries, ViewBoundaries, analysed
from tidemark.strategy.autonomous import KnownFacts
from tidemark.strategy.nodes import COMPLETE, expand

KINDS: Final = ("untouched", "irrelevant", "autonomous", "conditional", "differential")
"""From the cheapest on."""
_NAMES: Final = {
    Class.AUTONOMOUS: "autonomous",
    Class.CONDITIONAL: "conditional",
    Class.DIFFERENTIAL: "differential",
}

_OF_TEXT: Final = "proved of the statement; the run tries that only where tables of a million rows would be read"


@dataclass(frozen=True)
class Classification:
    """What a statement is to a view, the strongest that is true, and why."""

    kind: str
    reason: str


def classify(
    view: View, changes: Iterable[BoundChange], catalog: Catalog, known: KnownFacts, kept: Boundaries
) -> Classification:
    """The class of a transaction of these statements, with the boundaries that are kept with the views."""
    asked = list(changes)
    loose = _between_statements([change.table.name for change in asked], known)
    # What is kept rests on all that is known.
    boundaries = kept if loose is known else Boundaries()
    found = [_classified(view, change, catalog, loose, boundaries) for change in asked]
    if not found:
        return Classification("untouched", "no statement changes a table")
    weakest = max(found, key=lambda one: KINDS.index(one.kind))
    if len(found) == 1:
        return weakest
    pairs = zip(asked, found, strict=True)
    changed = sorted({change.table.name for change, one in pairs if one.kind not in ("untouched", "irrelevant")})
    if weakest.kind != "differential" and len(changed) > 1:
        return Classification("differential", f"it reads {' and '.join(changed)}, which change together")
    number = found.index(weakest) + 1
    return Classification(weakest.kind, f"statement {number} of {len(found)}: {weakest.reason}")


def _between_statements(tables: Sequence[str], known: KnownFacts) -> KnownFacts:
    """What is known of rows at each point of a transaction that changes these tables, one with each statement.

    A table that is changed once is as it was before that, and as it will be committed after it. Keys are asked of net
    changes only.
    """
    loose = {name: known.facts[name].columns for name in tables if tables.count(name) > 1}
    if not loose:
        return known
    facts = {name: Facts(tuple(replace(f, nullable=True) for f in columns)) for name, columns in loose.items()}
    return replace(known, facts={**known.facts, **facts})


def _classified(
    view: View, change: BoundChange, catalog: Catalog, known: KnownFacts, kept: Boundaries
) -> Classification:
    table = change.table.name
    definitions = {
        other.name: other.plan for other in catalog.relations.values() if isinstance(other, View) and other.lag is None
    }
    whole = expand(view.plan, definitions)
    if table not in relations_of(whole):
        return Classification("untouched", f"{view.name} does not depend on {table}")
    irrelevant = why_irrelevant(change, kept.of(view.name, whole, known.facts))
    if irrelevant is not None:
        return Classification("irrelevant", irrelevant)
    if view.external:
        return Classification("differential", f"{view.name} is not stored: its change is derived from its tables")
    if not view.materialized:
        return Classification("differential", f"{view.name} is not stored: it is evaluated when it is read")
    if view.options.get("strategy") == COMPLETE:
        return Classification("differential", f"{view.name} is declared with strategy = 'complete'")
    return _ClassOfNodes(view, change, catalog, known).classification()


def why_irrelevant(change: BoundChange, kept: ViewBoundaries) -> str | None:
    """Why a statement cannot change a view; None if it may. Only what no boundary decides has to be proved."""
    effect = kept.influence(change.table.name)
    if effect.filter == FALSE:
        return effect.reason
    is_proved = _is_within_boundary(change, kept)
    match change:
        case InsertRows(rows=rows):
            verdict = insert_verdict(effect, rows, is_proved=is_proved)
        case DeleteRows(plan=rows):
            # A condition that asks other tables may hold for any row.
            verdict = delete_verdict(effect, condition_of(rows) or TRUE, is_proved=is_proved)
        case UpdateRows(plan=rows, coming=coming):
            cells = cells_of(coming)
            if cells is None:
                return None
            verdict = update_verdict(effect, condition_of(rows) or TRUE, cells, is_proved=is_proved)
        case _:
            return None
    return verdict.reason if verdict.irrelevant else None


def _is_within_boundary(change: BoundChange, kept: ViewBoundaries) -> bool:
    """Whether the boundary of the statement's shape, which is kept with the view, says that it is irrelevant."""
    found = _shape_of(change)
    return found is not None and is_within(kept.boundary(found[0]), found[1])


def _shape_of(change: BoundChange) -> tuple[Shape, tuple[Value, ...]] | None:
    name, types = change.table.name, change.table.schema.types
    match change:
        case InsertRows(rows=[row]):
            return shape_of("insert", name, len(types), cells=dict(enumerate(map(Literal, row, types))))
        case DeleteRows(plan=rows):
            return shape_of("delete", name, len(types), condition_of(rows) or TRUE)
        case UpdateRows(plan=rows, coming=coming):
            cells = cells_of(coming)
            if cells is not None:
                return shape_of("update", name, len(types), condition_of(rows) or TRUE, changed_cells(cells))
    return None


class _ClassOfNodes:
    """The class of a statement by the nodes that serve a view, as they would be without other views.

    The statement itself meets the nodes that read its table; those above them meet the change of a node below.
    """

    def __init__(self, view: View, change: BoundChange, catalog: Catalog, known: KnownFacts) -> None:
        self._view, self._known = view, known
        self._table = change.table.name
        self._statement, self._is_whole = analysed(change)
        self._checks = {name: facts.checks for name, facts in known.facts.items()}
        self._nodes = build([Definition(view.name, view.plan)]).nodes
        above = _views_above(self._table, catalog)
        self._changed = {other.name for other in above if other.materialized} - {view.name} | {self._table}

    def classification(self) -> Classification:
        reasons: dict[Class, str] = {}
        for node in self._nodes.values():
            touched = node.influents & self._changed
            if touched:
                kind, reason = self._of(node, touched)
                reasons.setdefault(kind, reason)
                self._changed.add(node.name)
        weakest = min(reasons)
        return Classification(_NAMES[weakest], reasons[weakest])

    def _of(self, node: Node, touched: Set[str]) -> tuple[Class, str]:
        shared = {name for name, other in self._nodes.items() if other.kind is NodeKind.SHARED}
        if node.name in shared or touched & shared:
            return Class.DIFFERENTIAL, "a join that stands in several parts of it is evaluated for all of them"
        if node.reads_everything:
            return Class.DIFFERENTIAL, "its input is read again as a whole"
        if isinstance(node.plan, Aggregate) and (not is_merged(node.plan) or has_extrema(node.plan)):
            return Class.DIFFERENTIAL, "an aggregate is not merged from the change alone: its groups may be read again"
        if node.kind is not NodeKind.VIEW and not isinstance(node.plan, Aggregate):
            return Class.DIFFERENTIAL, "the partitions or first rows that the change touches are evaluated again"
        if len(touched) > 1:
            return Class.DIFFERENTIAL, f"it reads {' and '.join(sorted(touched))}, which change together"
        [relation] = touched
        if relation != self._table:
            return _of_rules(autonomy(node.name, node.plan, relation, self._known.keys))
        return self._of_statement(Kept.of(node.name, node.plan))

    def _of_statement(self, kept: Kept) -> tuple[Class, str]:
        if self._statement is not None and self._is_whole:
            verdict = class_of(kept, self._statement, self._known.keys, self._checks)
            by_rows = rules_of(kept, self._table, self._known.keys).rules
            if verdict.kind is Class.AUTONOMOUS and not set(verdict.rules) <= set(by_rows):
                return verdict.kind, f"{verdict.reason} ({_OF_TEXT})"
            return verdict.kind, verdict.reason
        # Which rows the statement changes is not known from its text; rules about any change still hold.
        rules = autonomy(kept.name, self._nodes[kept.name].plan, self._table, self._known.keys)
        for rule in rules.rules:
            if self._statement is not None and decides(rule, self._statement, self._known.facts[self._table]):
                return Class.AUTONOMOUS, rule.reason
        return _of_rules(rules)


def _views_above(table: str, catalog: Catalog) -> list[View]:
    """The views that read a table, themselves or through others. Snapshots that lag follow by themselves."""
    views = [other for other in catalog.relations.values() if isinstance(other, View) and other.lag is None]
    readers: dict[str, list[View]] = {}
    for view in views:
        for relation in relations_of(view.plan):
            readers.setdefault(relation, []).append(view)
    found: dict[str, View] = {}
    waiting = [table]
    while waiting:
        new = [reader for reader in readers.pop(waiting.pop(), ()) if reader.name not in found]
        found.update((reader.name, reader) for reader in new)
        waiting.extend(reader.name for reader in new)
    return list(found.values())


def _of_rules(rules: Autonomy) -> tuple[Class, str]:
    """The class of any change of a relation for which these rules hold."""
    if rules.always is not None:
        return Class.AUTONOMOUS, rules.always.reason
    if rules.rules:
        return Class.CONDITIONAL, f"for some changes only: {rules.rules[0].reason}"
    return Class.DIFFERENTIAL, "; ".join(dict.fromkeys(refusal.reason for refusal in rules.refusals))
