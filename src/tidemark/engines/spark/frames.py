"""DataFrames of the user's own session: over a stored relation, or over an Arrow table.

    rows of a relation  =  rows of its base files  −  entries of its tail that leave  +  those that come

The base is read where the files lie, by whoever runs the DataFrame; the tail, which is small, goes with its plan. Of
the base only rows that equal one that leaves are counted, so nothing else is moved between machines.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from tidemark.algebra.functions import spark_type
from tidemark.algebra.types import WEIGHT
from tidemark.engines.spark.dialect import quote
from tidemark.engines.spark.integrity import Verified
from tidemark.engines.spark.relations import Relation
from tidemark.engines.spark.session import local_session
from tidemark.storage import delta as deltas


def session_of(given: Any = None) -> SparkSession:
    """The session that a DataFrame is to be of: the given one, else the active one, else a local one that begins."""
    return local_session() if given is None else given


def local_frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """A DataFrame over an Arrow table, whatever the session takes a time without a zone for."""
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    if not table.num_rows:
        return session.createDataFrame([], schema)
    parts = [batch for batch in table.to_batches() if batch.num_rows]  # Spark takes an empty one for the end
    return session.createDataFrame(pa.Table.from_batches(parts, table.schema), schema)


def relation_frame(session: SparkSession, relation: Relation, verified: Verified) -> DataFrame:
    """A DataFrame over what is stored of a relation. It stays what it is when the relation changes."""
    names = [f"c{i}" for i in range(len(relation.columns))]
    entries = [part.rename_columns([*names, WEIGHT]) for part in relation.tail]
    tail = deltas.combine(*entries) if entries else None
    frame = _base(session, relation, verified, names)
    if tail is not None:
        leaving = deltas.deleted(tail)
        if leaving.num_rows:
            assert frame is not None, "what leaves was in a file"
            frame = _without(frame, local_frame(session, deltas.expand(leaving)), names)
        coming = deltas.inserted(tail)
        if coming.num_rows or frame is None:
            added = local_frame(session, deltas.expand(coming))
            frame = added if frame is None else frame.unionAll(added)
    if frame is None:
        return local_frame(session, relation.schema.arrow.empty_table())
    return frame.toDF(*relation.schema.names)


def _base(session: SparkSession, relation: Relation, verified: Verified, names: list[str]) -> DataFrame | None:
    if not relation.files:
        return None
    fields = zip(relation.columns, relation.schema.types, strict=True)
    schema = ", ".join(f"{quote(name)} {spark_type(type)}" for name, type in fields)
    verified.must_be_whole(relation.directory, relation.files)
    paths = [(verified.root / relation.directory / file.path).as_posix() for file in relation.files]
    reader = session.read.schema(schema)
    for name, value in _READING.items():
        reader = reader.option(name, value)
    return reader.parquet(*paths).toDF(*names)


_READING = {
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
}
"""What of the session's settings decides how files are read."""


def _without(frame: DataFrame, leaving: DataFrame, names: list[str]) -> DataFrame:
    """The rows without those that leave, each as often as it does."""
    gone = leaving.toDF(*(f"gone_{name}" for name in names))
    met = reduce(lambda one, other: one & other, (f.col(name).eqNullSafe(f.col(f"gone_{name}")) for name in names))
    met_once = f.broadcast(gone.distinct())
    untouched = frame.join(met_once, met, "left_anti")
    touched = frame.join(met_once, met, "left_semi")
    return untouched.unionAll(touched.exceptAll(leaving))
