"""Reading a relation's Parquet files in this process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.algebra.types import Schema
from tidemark.engines.spark.records import DataFile


def read_rows(folder: Path, files: Iterable[DataFile], schema: Schema) -> pa.Table:
    """The plain rows of base files."""
    return _read(folder, files, schema.arrow)


def read_entries(folder: Path, files: Iterable[DataFile], schema: Schema) -> pa.Table:
    """The weighted entries of change files."""
    return _read(folder, files, schema.weighted)


def _read(folder: Path, files: Iterable[DataFile], schema: pa.Schema) -> pa.Table:
    # One file at a time: a dataset would take folders named like a=1 for partitions.
    tables = [pq.ParquetFile(folder / file.path).read().rename_columns(schema.names) for file in files]
    return pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])
