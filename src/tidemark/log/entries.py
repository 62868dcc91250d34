"""The entries of a log: the columns of a relation, ``_version`` and ``_weight``, in the order of versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.log import deltas


def log_schema(schema: Schema) -> pa.Schema:
    return schema.arrow.append(pa.field(VERSION, pa.int64())).append(pa.field(WEIGHT, pa.int64()))


def entries(
    versions: Iterable[int], runs: Iterable[tuple[list[int], pa.Table]], schema: Schema, added: Sequence[Value]
) -> Iterator[pa.Table]:
    """The entries of versions from their deltas, which come several in one table with the number of rows of each.

    Deltas from before the relation got its last columns are filled up with the values ``added``.
    """
    remaining = iter(versions)
    for counts, table in runs:
        each = zip(islice(remaining, len(counts)), counts, strict=True)
        stamp = pa.array([version for version, count in each for _ in range(count)], pa.int64())
        delta = deltas.extended(table, schema, added)
        columns = [*delta.columns[:-1], stamp, delta.columns[-1]]
        yield pa.table(columns, names=log_schema(schema).names).cast(log_schema(schema))


def runs_of(tables: Iterable[pa.Table]) -> Iterator[tuple[list[int], pa.Table]]:
    """Deltas that follow each other and have the same columns, as one table with the number of rows of each."""
    for _, alike in groupby(tables, lambda table: table.schema):
        run = list(alike)
        yield [table.num_rows for table in run], pa.concat_tables(run)
