"""Statements that a local view can run on what it holds of a table, instead of taking in what they changed.

It holds  L = π σ[p] T,  the rows that pass the filter p, with NULL in columns that it does not read. A statement S is
run there, as S', only if that is exactly right whatever T holds:  π σ[p] S(T) = S'(L).

    DELETE WHERE w             w reads held columns alone:  π σ[p] (T − σ[w] T) = L − σ[w] L
    UPDATE SET F WHERE w       w, and the values of held columns, read held columns alone, and no column is set that p
                               reads:  σ[p] F = F σ[p], so that π σ[p] (T − σ[w] T ⊎ F σ[w] T) = L − σ[w] L ⊎ F' σ[w] L,
                               where F' sets the held columns; if it sets none, nothing happens to L
    INSERT VALUES              all rows pass the filter, and are the same by the definitions that are known there; if
                               none passes it, nothing happens to L

S has run at the source without an error, and L has no rows of which S did not see the same columns: S' cannot fail.
What asks other tables, or the time, or computes floating point, is not run there.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tidemark.algebra.expressions import Expression, Literal, Value, columns_of
from tidemark.algebra.plans import Project
from tidemark.algebra.reading import Columns
from tidemark.algebra.scalar import value_of
from tidemark.analysis.statements import cells_of, changed_cells, condition_of
from tidemark.client.parts import Part
from tidemark.client.texts import bound, is_exact
from tidemark.errors import TidemarkError
from tidemark.sql.catalog import Catalog
from tidemark.sql.changes import Change, DeleteRows, InsertRows, UpdateRows

MOST_ROWS: Final = 1000
"""Of so many inserted rows each is looked at."""


class Effect(enum.Enum):
    """What is to be done at the local view for a statement."""

    RUN = "run it"
    NOTHING = "nothing"
    UNKNOWN = "it cannot be run there"


class Running:
    """Which statements a local view can run, given the definitions that it has and what it holds of each table."""

    def __init__(self, dialect: str, local: Catalog, parts: Mapping[str, Part]) -> None:
        self._dialect, self._local, self._parts = dialect, local, parts

    def texts(self, said: Iterable[Mapping[str, Sequence[str]]], catalog: Catalog) -> list[str] | None:
        """Of the statements of some transactions those that are to be run, in order; None if some cannot be."""
        found: list[str] = []
        for texts in said:
            for table, about in texts.items():
                for text in about:
                    effect = self.effect(text, table, catalog)
                    if effect is Effect.UNKNOWN:
                        return None
                    if effect is Effect.RUN:
                        found.append(text)
        return found

    def effect(self, text: str, table: str, catalog: Catalog) -> Effect:
        """What is to be done for a statement about a table, which ran over the definitions of a catalog."""
        change, part = bound(text, self._dialect, self._local), self._parts[table]
        match change:
            case DeleteRows(plan=rows):
                where = condition_of(rows)
                return Effect.RUN if _is_held((where,), part.columns) else Effect.UNKNOWN
            case UpdateRows():
                return _of_update(change, part)
            case InsertRows(rows=rows):
                there = bound(text, self._dialect, catalog)
                if isinstance(there, InsertRows) and len(there.rows) <= MOST_ROWS:
                    return _of_rows(rows, there.rows, part)
        return Effect.UNKNOWN


def _of_update(change: UpdateRows, part: Part) -> Effect:
    cells = cells_of(change.coming)
    if cells is None:
        return Effect.UNKNOWN
    changed = changed_cells(cells)
    if changed.keys() & part.filtered_by:
        return Effect.UNKNOWN
    values = [cell for position, cell in changed.items() if position in part.columns]
    if not values:
        return Effect.NOTHING
    return Effect.RUN if _is_held((condition_of(change.plan), *values), part.columns) else Effect.UNKNOWN


def _of_rows(local: Sequence[tuple[Value, ...]], there: Sequence[tuple[Value, ...]], part: Part) -> Effect:
    seen = [row[: len(part.schema)] for row in there]
    try:
        passing = [part.filter is None or value_of(part.filter, row) is True for row in seen]
    except TidemarkError:
        return Effect.UNKNOWN
    if not any(passing):
        return Effect.NOTHING
    is_same = [_nulled(row, part.columns) for row in local] == [_nulled(row, part.columns) for row in seen]
    return Effect.RUN if all(passing) and is_same else Effect.UNKNOWN


def _is_held(expressions: Iterable[Expression | None], columns: Columns) -> bool:
    """Whether expressions are known, exact, and read no other columns."""
    found = list(expressions)
    known = [one for one in found if one is not None]
    return len(known) == len(found) and is_exact(known) and all(columns_of(one) <= columns for one in known)


def local_change(text: str, dialect: str, local: Catalog, columns: Mapping[str, Columns]) -> Change | None:
    """The statement as a local view runs it, on what it holds; None if it is none that it could run."""
    change = bound(text, dialect, local)
    if change is None:
        return None
    held = columns[change.table.name]
    match change:
        case InsertRows(table=table, rows=rows):
            return InsertRows(table, tuple(_nulled(row, held) for row in rows))
        case UpdateRows(coming=Project() as coming):
            fields = change.table.schema.fields
            cells = (
                cell if position in held else Literal(None, fields[position].type)
                for position, cell in enumerate(coming.expressions)
            )
            return replace(change, coming=replace(coming, expressions=tuple(cells)))
        case DeleteRows():
            return change
    return None


def _nulled(row: tuple[Value, ...], columns: Columns) -> tuple[Value, ...]:
    return tuple(value if position in columns else None for position, value in enumerate(row))
