"""Statements that cannot matter to a plan, whatever the tables hold (Theorems 3.1 to 3.4).

A statement is irrelevant if it has no effect by any way in which its table reaches the plan (``effects.py``). Each
occurrence of the table is a way of its own, with the others in the state before or after. For the views of the thesis,
in which no table occurs twice, the test is also necessary, as far as conditions are decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tidemark.algebra.expressions import TRUE, Column, Expression, Literal, Value
from tidemark.algebra.plans import Filter, Given, Plan, Project, Scan
from tidemark.algebra.scalar import value_of
from tidemark.analysis.effects import Cells, Effect, is_changed, of_deleting, of_inserting, of_updating
from tidemark.analysis.relevance import Influence
from tidemark.analysis.solving import time_limit
from tidemark.analysis.wording import needs, plain

MOST_SECONDS: Final = 0.5
MOST_ROWS: Final = 100
"""So many inserted rows are looked at one by one, beyond the filter."""


@dataclass(frozen=True)
class Verdict:
    """Whether a statement is proved to be irrelevant, and why."""

    irrelevant: bool
    reason: str


def insert_verdict(influence: Influence, rows: Sequence[tuple[Value, ...]], *, is_proved: bool = False) -> Verdict:
    """INSERT of constant rows: irrelevant if none of them can reach the plan; ``is_proved`` if that is known."""
    if influence.ways is None:
        return _relevant(influence)
    passing = [row for row in rows if influence.filter is None or value_of(influence.filter, row) is True]
    if len(passing) > MOST_ROWS:
        return _relevant(influence)
    given = [dict(enumerate(map(Literal, row, (f.type for f in influence.facts.columns)))) for row in passing]
    if not is_proved and not _none(of_inserting(way, cells) for cells in given for way in influence.ways):
        return _relevant(influence)
    return Verdict(True, f"the view needs {needs(influence.ways)}, no inserted row can meet that")


def delete_verdict(influence: Influence, where: Expression, *, is_proved: bool = False) -> Verdict:
    """DELETE: irrelevant if no row that it deletes can have reached the plan."""
    if influence.ways is None:
        return _relevant(influence)
    if not is_proved and not _none(of_deleting(way, where) for way in influence.ways):
        return _relevant(influence)
    return Verdict(True, f"the view needs {needs(influence.ways)}, the statement deletes only {plain(where)}")


def update_verdict(influence: Influence, where: Expression, cells: Cells, *, is_proved: bool = False) -> Verdict:
    """UPDATE: irrelevant if each row, as it leaves and as it comes, has no effect or the same."""
    if influence.ways is None:
        return _relevant(influence)
    changed = changed_cells(cells)
    asking = [way for way in influence.ways if is_changed(way, changed)]
    if not asking:
        return Verdict(True, "the view does not read the columns that the statement sets")
    if not is_proved and not _none(of_updating(way, influence.facts, where, changed) for way in asking):
        return _relevant(influence)
    meets = f"rows that the statement updates, {plain(where)}, meet that as before or not at all"
    return Verdict(True, f"the view needs {needs(asking)}, {meets}")


def changed_cells(cells: Cells) -> dict[int, Expression]:
    """Those of SET that do not leave their column as it was."""
    return {i: cell for i, cell in cells.items() if not (isinstance(cell, Column) and cell.index == i)}


def _none(effects: Iterable[Effect]) -> bool:
    """Whether none of the effects is possible, as far as that is proved in time."""
    with time_limit(MOST_SECONDS):
        return all(effect.impossible for effect in effects)


def condition_of(rows: Plan) -> Expression | None:
    """The WHERE of a DELETE or an UPDATE, given the plan of the rows that it picks; None if it asks other tables."""
    match rows:
        case Scan():
            return TRUE
        case Filter(input=Scan(), predicate=predicate):
            return predicate
    return None


def cells_of(coming: Plan) -> Cells | None:
    """The SET of an UPDATE, given the plan that makes of each row the one that comes; None if it asks tables."""
    if isinstance(coming, Project) and isinstance(coming.input, Given):
        return dict(enumerate(coming.expressions))
    return None


def _relevant(influence: Influence) -> Verdict:
    return Verdict(False, influence.reason)
