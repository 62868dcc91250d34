"""Bound statements as the analysis sees them."""

from __future__ import annotations

from tidemark.algebra.expressions import TRUE
from tidemark.analysis.autonomy_updates import Deletion, Insertion, Statement, Update
from tidemark.analysis.statements import cells_of, condition_of
from tidemark.sql.changes import Change, DeleteRows, UpdateRows


def analysed(change: Change) -> tuple[Statement | None, bool]:
    """The statement as far as the analysis can look into it, and whether that is all of it.

    A condition that asks other tables is taken to hold for any row; of an UPDATE whose values come from other tables
    nothing is said.
    """
    table = change.table
    match change:
        case DeleteRows(plan=rows):
            where = condition_of(rows)
            return Deletion(table.name, TRUE if where is None else where), where is not None
        case UpdateRows(plan=rows, coming=coming):
            cells, where = cells_of(coming), condition_of(rows)
            if cells is None:
                return None, False
            values = tuple(cells[position] for position in range(len(table.schema)))
            return Update(table.name, values, TRUE if where is None else where), where is not None
    return Insertion(table.name), True
