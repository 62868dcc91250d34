"""Reading a relation's Parquet files in this process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import Schema
from tidemark.engines.spark.records import DataFile
from tidemark.log import deltas


def read_rows(folder: Path, files: Iterable[DataFile], schema: Schema, added: tuple[Value, ...] = ()) -> pa.Table:
    """The plain rows of base files; what older files lack of the last columns is ``added``."""
    tables = [deltas.extended(table, schema, added, is_weighted=False) for table in _read(folder, files)]
    return _together(tables, schema.arrow)


def read_entries(folder: Path, files: Iterable[DataFile], schema: Schema, added: tuple[Value, ...] = ()) -> pa.Table:
    """The weighted entries of change files; what older files lack of the last columns is ``added``."""
    tables = [deltas.extended(table, schema, added) for table in _read(folder, files)]
    return _together(tables, schema.weighted)


def _read(folder: Path, files: Iterable[DataFile]) -> list[pa.Table]:
    # One file at a time: a dataset would take folders named like a=1 for partitions.
    return [pq.ParquetFile(folder / file.path).read() for file in files]


def _together(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    named = (table.rename_columns(schema.names).cast(schema) for table in tables)
    return pa.concat_tables([schema.empty_table(), *named])
