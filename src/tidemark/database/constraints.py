"""PRIMARY KEY, NOT NULL and CHECK, enforced on the net effect of a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.expressions import Call, Expression
from tidemark.algebra.plans import Filter, Given, Net, Plan, Project, Stored, Touched, union
from tidemark.algebra.types import BOOLEAN, WEIGHT
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.log.commit import Alteration
from tidemark.network.settle import settle
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
            _check_key(table, delta, stored, engine)


def check_alterations(
    altered: Iterable[Alteration],
    before: Mapping[str, Table],
    after: Mapping[str, Table],
    deltas: Mapping[str, pa.Table],
    engine: Engine,
) -> None:
    """Refuse the transaction if rows that were there before it violate a constraint of a column that it adds."""
    for alteration in altered:
        table = after[alteration.relation]
        rows: Plan = Stored(table.name, table.schema)
        given: Mapping[str, pa.Table] = {}
        if table.name in deltas:
            # Conditions may fail, so they must not see rows that the transaction removes.
            given = {"delta": deltas[table.name]}
            rows = Net(union((rows, Given("delta", table.schema)), table.schema))
        added = zip(range(len(alteration.before), len(table.schema)), alteration.values, strict=True)
        failed: list[Expression] = [
            Call("is_null", (rows.column(position),), BOOLEAN, nullable=False)
            for position, value in added
            if value is None and not table.schema[position].nullable
        ]
        new_checks = table.checks[len(before[table.name].checks) :]
        failed += [Call("is_false", (check.condition,), BOOLEAN, nullable=False) for check in new_checks]
        for condition in failed:
            found = engine.evaluate(*settle(Filter(rows, condition), given, engine))
            if found.num_rows:
                _check_not_null(table, found)
                _check_conditions(table, found, engine)


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


def _check_key(table: Table, delta: pa.Table, stored: frozenset[str], engine: Engine) -> None:
    """No key may stand more than once in the table afterwards.

    Keys were unique before, so a key can only stand twice if the transaction adds more rows of it than it removes:
    by two, or by one while one is stored. Updates that keep their keys need no look at the table.
    """
    names = [table.schema[position].name for position in table.primary_key]
    grown = delta_tables.inserted(delta_tables.net(delta.select([*names, WEIGHT])))
    if not grown.num_rows:
        return
    twice = grown.filter(pc.greater(grown.column(WEIGHT), 1))
    if not twice.num_rows and table.name in stored:
        source = Stored(table.name, table.schema)
        keys = Project(source, tuple(names), tuple(source.column(position) for position in table.primary_key))
        taken = Touched(keys, Given("grown", keys.schema), tuple(range(len(names))))
        twice = engine.evaluate(taken, {"grown": grown})
    if twice.num_rows:
        raise TidemarkError(
            "primary_key",
            f"the key {_show(twice.slice(0, 1))} would stand more than once in {table.name!r}",
            hint="delete or update the row that has it",
        )


def _show(table: pa.Table) -> str:
    """The first row of a weighted table, for a message."""
    record: dict[str, Any] = table.select(range(table.num_columns - 1)).to_pylist()[0]
    return "(" + ", ".join(f"{name}={value}" for name, value in record.items()) + ")"
