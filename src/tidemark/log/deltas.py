"""Deltas as Arrow tables: the columns of a relation and ``_weight``, one entry per distinct row when net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.log.codes import with_codes, without_codes

FEW: Final = 64
"""Up to so many entries are looked at one by one: calling Arrow costs more than that."""


def no_change(schema: Schema) -> pa.Table:
    return schema.weighted.empty_table()


def extended(table: pa.Table, schema: Schema, values: Sequence[Value], *, is_weighted: bool = True) -> pa.Table:
    """Entries (or plain rows) with the last columns of the schema that they lack, each filled with its value.

    ``values`` are those of the schema's last columns; as many of them are taken as columns are missing.
    """
    width = table.num_columns - (1 if is_weighted else 0)
    for position in range(width, len(schema)):
        field = schema[position]
        filled = pa.repeat(pa.scalar(values[position - len(schema)], field.type.arrow), table.num_rows)
        table = table.add_column(position, field.name, filled)
    return table


def net(table: pa.Table) -> pa.Table:
    """Delta-union in one table: weights of equal rows added up, rows that cancel dropped.

    >>> t = pa.table({"a": [1, 1, 2], "_weight": pa.array([1, -1, 2], pa.int64())})
    >>> net(t).to_pylist()
    [{'a': 2, '_weight': 2}]
    """
    if table.num_rows <= 1:
        return table
    if table.num_rows <= FEW and not any(has_forms(type_) for type_ in table.schema.types):
        return _net_of_few(table)
    # Positional names, because a result may carry the same name twice and Arrow groups by name.
    names = [f"c{i}" for i in range(table.num_columns - 1)]
    positional = table.rename_columns([*names, WEIGHT]).combine_chunks()
    summed = with_codes(positional).group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    summed = summed.select([*names, f"{WEIGHT}_sum"])
    kept = summed.filter(pc.not_equal(summed.column(len(names)), 0))
    return without_codes(kept, positional).rename_columns(table.schema.names).cast(table.schema)


def has_forms(type_: pa.DataType) -> bool:
    """Whether equal values of a type may differ as Python values."""
    return bool(pa.types.is_nested(type_) or pa.types.is_floating(type_))


def _net_of_few(table: pa.Table) -> pa.Table:
    totals: dict[tuple[object, ...], list[int]] = {}
    before = weights(table)
    columns = [column.to_pylist() for column in table.columns[:-1]]
    rows = zip(*columns, strict=True) if columns else ((),) * table.num_rows
    for place, (row, weight) in enumerate(zip(rows, before, strict=True)):
        totals.setdefault(row, [place, 0])[1] += weight
    kept = [(place, weight) for place, weight in totals.values() if weight]
    if [weight for _, weight in kept] == before:
        return table
    chosen = table.take(pa.array([place for place, _ in kept], pa.int64()))
    return chosen.set_column(table.num_columns - 1, WEIGHT, pa.array([weight for _, weight in kept], pa.int64()))


def weights(table: pa.Table) -> list[int]:
    """The weights of a delta's entries."""
    listed: list[int] = table.column(table.num_columns - 1).to_pylist()
    return listed


def combine(*tables: pa.Table) -> pa.Table:
    """The deltas of several blocks, one after the other, as one net delta."""
    return net(pa.concat_tables(tables))


def negated(table: pa.Table) -> pa.Table:
    position = table.num_columns - 1
    return table.set_column(position, WEIGHT, pc.negate(table.column(position)))


def weighted(rows: pa.Table, weight: int = 1) -> pa.Table:
    """The rows, each with the given weight (not yet net)."""
    return rows.append_column(WEIGHT, pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows))


def inserted(table: pa.Table) -> pa.Table:
    """The entries of positive weight, as they are; the same table if all are."""
    if table.num_rows <= FEW:
        return _chosen(table, [weight > 0 for weight in weights(table)])
    return table.filter(pc.greater(table.column(table.num_columns - 1), 0))


def deleted(table: pa.Table) -> pa.Table:
    """The entries of negative weight, as they are; the same table if all are."""
    if table.num_rows <= FEW:
        return _chosen(table, [weight < 0 for weight in weights(table)])
    return table.filter(pc.less(table.column(table.num_columns - 1), 0))


def _chosen(table: pa.Table, choice: list[bool]) -> pa.Table:
    if all(choice):
        return table
    return table.filter(pa.array(choice, pa.bool_())) if any(choice) else table.slice(0, 0)


def expand(table: pa.Table) -> pa.Table:
    """The rows without the weight column, each as often as its weight's absolute value says."""
    weights = pc.abs(table.column(table.num_columns - 1))
    rows = table.select(list(range(table.num_columns - 1)))
    if table.num_rows == 0 or pc.max(weights).as_py() == 1:
        return rows
    return rows.take(pa.array(expanded_positions(table), pa.int64()))


def expanded_positions(table: pa.Table) -> list[int]:
    """The position of each entry, as often as its weight's absolute value says."""
    weights = pc.abs(table.column(table.num_columns - 1)).to_pylist()
    return [position for position, weight in enumerate(weights) for _ in range(weight)]


def by_version(stamped: pa.Table) -> list[tuple[int, pa.Table]]:
    """Logged entries (columns, ``_version``, ``_weight``) as a delta for each version, in order."""
    column = stamped.column(VERSION)
    versions = sorted(pc.unique(column).to_pylist())
    return [(v, stamped.filter(pc.equal(column, v)).drop_columns([VERSION])) for v in versions]


def size(table: pa.Table) -> int:
    """How many rows the delta adds and removes in all."""
    if table.num_rows <= FEW:
        return sum(map(abs, weights(table)))
    return int(pc.sum(pc.abs(table.column(table.num_columns - 1))).as_py() or 0)


def growth(table: pa.Table) -> int:
    """By how many rows the relation grows."""
    if table.num_rows <= FEW:
        return sum(weights(table))
    return int(pc.sum(table.column(table.num_columns - 1)).as_py() or 0)
