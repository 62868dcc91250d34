"""PRIMARY KEY, NOT NULL and CHECK, enforced on the net effect of a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidemark.algebra.expressions import Call, Expression, Literal
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Filter,
    Given,
    Plan,
    Project,
    Stored,
    Touched,
    union,
)
from tidemark.algebra.types import BIGINT, BOOLEAN
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.sql.catalog import Table


def check_constraints(
    tables: Mapping[str, Table], deltas: Mapping[str, pa.Table], stored: frozenset[str], engine: Engine
) -> None:
    """Refuse the transaction if the rows that it adds violate a constraint of their table."""
    for name, delta in deltas.items():
        table = tables[name]
        inserted = delta_tables.inserted(delta)
        if not inserted.num_rows:
            continue
        _check_not_null(table, inserted)
        _check_conditions(table, inserted, engine)
        if table.primary_key:
            _check_key(table, delta, inserted, stored, engine)


def _check_not_null(table: Table, inserted: pa.Table) -> None:
    for position, field in enumerate(table.schema.fields):
        column = inserted.column(position)
        if not field.nullable and column.null_count:
            row = inserted.filter(column.is_null()).slice(0, 1)
            raise TidemarkError(
                "not_null",
                f"column {field.name!r} of {table.name!r} is NOT NULL, but a row has no value there: {_show(row)}",
            )


def _check_conditions(table: Table, inserted: pa.Table, engine: Engine) -> None:
    if not table.checks:
        return
    given = Given("inserted", table.schema)
    violated: Expression | None = None
    for check in table.checks:
        failed = Call("is_false", (check.condition,), BOOLEAN, nullable=False)
        violated = failed if violated is None else Call("or", (violated, failed), BOOLEAN, nullable=False)
    assert violated is not None
    found = engine.evaluate(Filter(given, violated), {"inserted": inserted})
    if not found.num_rows:
        return
    row = found.slice(0, 1)
    for check in table.checks:
        failed = Call("is_false", (check.condition,), BOOLEAN, nullable=False)
        if engine.evaluate(Filter(given, failed), {"inserted": row}).num_rows:
            raise TidemarkError("check", f"a row of {table.name!r} violates CHECK ({check.text}): {_show(row)}")


def _check_key(table: Table, delta: pa.Table, inserted: pa.Table, stored: frozenset[str], engine: Engine) -> None:
    """No key of an inserted row may stand more than once in the table afterwards."""
    names = tuple(table.schema[position].name for position in table.primary_key)

    def keys_of(plan: Plan) -> Project:
        return Project(plan, names, tuple(plan.column(position) for position in table.primary_key))

    added = keys_of(Given("inserted", table.schema))
    parts: list[Plan] = [keys_of(Given("delta", table.schema))]
    positions = tuple(range(len(names)))
    if table.name in stored:
        parts.append(Touched(keys_of(Stored(table.name, table.schema)), added, positions))
    after = union(tuple(parts), added.schema)
    counted = Aggregate(after, (*names, "count"), after.columns(), (AggregateCall(AggregateFunction.COUNT_ROWS),))
    count = counted.column(len(names))
    duplicated = Filter(counted, Call("gt", (count, Literal(1, BIGINT)), BOOLEAN, nullable=False))
    found = engine.evaluate(duplicated, {"inserted": inserted, "delta": delta})
    if found.num_rows:
        key = found.select(range(len(names))).slice(0, 1)
        raise TidemarkError(
            "primary_key",
            f"the key {_show(key, weighted=False)} would stand more than once in {table.name!r}",
            hint="delete or update the row that has it",
        )


def _show(table: pa.Table, *, weighted: bool = True) -> str:
    record: dict[str, Any] = (table.select(range(table.num_columns - 1)) if weighted else table).to_pylist()[0]
    return "(" + ", ".join(f"{name}={value}" for name, value in record.items()) + ")"
