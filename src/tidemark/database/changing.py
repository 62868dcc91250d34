"""What a change does to its table: the delta of an INSERT, UPDATE or DELETE, or of rows that are handed over.

Whoever asks says how plans are evaluated, over what is stored and over what is given to them by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import pyarrow as pa

from tidemark.algebra.expressions import Column
from tidemark.algebra.plans import Given, Plan, Project, Scan, Touched
from tidemark.database.rows import Rows, as_table
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.sql.catalog import Table
from tidemark.sql.changes import LEAVING, Change, DeleteRows, InsertQuery, InsertRows, UpdateRows

NOTHING: Final[Mapping[str, pa.Table]] = {}
WANTED: Final = "wanted"


class Evaluate(Protocol):
    """The net rows of a plan with their weights, over what is stored and what is given by name."""

    def __call__(self, plan: Plan, named: Mapping[str, pa.Table] = NOTHING) -> pa.Table: ...


def delta_of(bound: Change, evaluate: Evaluate) -> pa.Table:
    """The delta of a bound statement."""
    match bound:
        case InsertRows(table=table, rows=rows):
            return added(table, rows)
        case InsertQuery(plan=plan):
            return evaluate(plan)
        case DeleteRows(plan=plan):
            return delta_tables.negated(evaluate(plan))
        case UpdateRows(plan=plan, coming=coming):
            leaving = evaluate(plan)
            return delta_tables.combine(delta_tables.negated(leaving), evaluate(coming, {LEAVING: leaving}))


def added(table: Table, rows: Rows) -> pa.Table:
    """The delta of rows that come."""
    return delta_tables.net(delta_tables.weighted(as_table(rows, table.schema, table.name)))


def removed(table: Table, rows: Rows, evaluate: Evaluate) -> pa.Table:
    """The delta of whole rows that leave, one equal row for each; all of them must be there."""
    wanted = added(table, rows)
    missing = delta_tables.inserted(delta_tables.combine(wanted, delta_tables.negated(_found(table, wanted, evaluate))))
    if missing.num_rows:
        row = missing.select(range(missing.num_columns - 1)).slice(0, 1).to_pylist()[0]
        raise TidemarkError(
            "absent",
            f"{table.name!r} does not hold the row that is to be deleted (or not as often): {row}",
            hint="delete takes whole rows, as they are stored",
        )
    return delta_tables.negated(wanted)


def _found(table: Table, wanted: pa.Table, evaluate: Evaluate) -> pa.Table:
    """The rows that have the key of a wanted row (or, without a key, equal one), with their weights."""
    keys = table.primary_key or tuple(range(len(table.schema)))
    given = Given(WANTED, table.schema)
    wanted_keys = Project(given, tuple(table.schema.names), _first(keys, given.columns()))
    return evaluate(Touched(Scan(table.name, table.schema), wanted_keys, keys), {WANTED: wanted})


def _first(positions: tuple[int, ...], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns with the given ones in front."""
    return tuple(columns[p] for p in positions) + tuple(c for c in columns if c.index not in positions)
