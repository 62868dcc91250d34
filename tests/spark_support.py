"""What the tests of the Spark engine share: schemas, deltas, plans, and engines on one session."""

from __future__ import annotations

import datetime as dt
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.algebra.expressions import Call, Column, Expression, Literal, Value
from tidemark.algebra.plans import Join, Plan
from tidemark.algebra.types import BIGINT, BOOLEAN, INT, VARCHAR, WEIGHT, Field, Schema, Type
from tidemark.engines.spark import SparkEngine, local_session
from tidemark.storage.commit import Commit, Creation

ITEMS = Schema((Field("id", INT, nullable=False), Field("kind", INT), Field("name", VARCHAR)))
KINDS = Schema((Field("kind", INT, nullable=False), Field("label", VARCHAR)))
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


LOOPBACK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}


def session_of(kind: str) -> Any:
    """A session as users may bring it: ``local``, ``connect`` (Spark Connect) or ``cluster`` (worker processes)."""
    if kind == "local":
        return local_session()
    if kind == "connect":
        # Any free port instead of a fixed one, which the client then asks the server for.
        os.environ["SPARK_TESTING"] = "1"
        builder = SparkSession.builder.remote("local[2]")
    elif kind == "cluster":
        # Workers are processes of their own, which find each other by this address.
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    else:
        raise ValueError(f"TIDEMARK_TEST_SPARK is {kind!r}, not local, connect or cluster")
    for key, value in LOOPBACK.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # The server has taken all of them when the client tries to set them again and is refused.
        warnings.filterwarnings("ignore", "Failed to set spark")
        return builder.getOrCreate()


def open_engine(path: Path | None, session: Any, **options: Any) -> SparkEngine:
    """An engine, loaded, on a session that the test brings."""
    engine = SparkEngine(path, session=session, **options)
    engine.load()
    return engine


def entries(schema: Schema, rows: Iterable[tuple[Any, ...]], weight: int = 1) -> pa.Table:
    """A delta that gives each row the weight."""
    records = [dict(zip((*schema.names, WEIGHT), (*row, weight), strict=True)) for row in rows]
    return pa.Table.from_pylist(records, schema=schema.weighted)


def commit(engine: SparkEngine, deltas: Mapping[str, pa.Table] | None = None, **parts: Any) -> None:
    """The next version."""
    engine.commit(Commit(engine.version + 1, NOON, deltas or {}, **parts))


def create(engine: SparkEngine, name: str, schema: Schema, plan: Plan | None = None, **parts: Any) -> None:
    commit(engine, created=(Creation(name, schema, plan, **parts),))


def bag(table: pa.Table) -> dict[tuple[Any, ...], int]:
    """A weighted table as a dictionary; a row that comes twice fails, since results are net."""
    result: dict[tuple[Any, ...], int] = {}
    for record in table.to_pylist():
        *row, weight = record.values()
        assert tuple(row) not in result
        assert weight != 0
        result[tuple(row)] = weight
    return result


def equal(left: Expression, right: Expression) -> Call:
    return Call("eq", (left, right), BOOLEAN, left.nullable or right.nullable)


def literal(value: Value, type: Type = INT) -> Literal:
    return Literal(value, type)


def join(left: Plan, right: Plan, left_key: int, right_key: int) -> Join:
    one, other = left.column(left_key), right.column(right_key)
    shifted = Column(len(left.schema) + right_key, other.name, other.type, other.nullable)
    return Join(left, right, equal(one, shifted))


def call(function: str, *arguments: Expression, type: Type = BIGINT) -> Call:
    return Call(function, arguments, type)
