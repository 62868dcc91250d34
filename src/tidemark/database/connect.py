"""Connecting: from a target to a database on the right engine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from tidemark.database.database import Database
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError

_TARGETS = 'use "duckdb", "duckdb:path", "spark" or "spark:path", or a SparkSession with lake='


def connect(
    target: Any = "spark",
    *,
    lake: str | None = None,
    dialect: str = "postgres",
    clock: Callable[[], dt.datetime] | None = None,
) -> Database:
    """Open a database.

    ``"spark"`` (the default) is local Spark with a temporary lake, ``"spark:path"`` a durable lake, ``"duckdb"`` the
    embedded engine in memory, ``"duckdb:path"`` a durable file. A SparkSession of your own is taken with ``lake=``.

    >>> with connect("duckdb") as db:
    ...     db.version
    0
    """
    engine = _engine(target, lake)
    try:
        return Database(engine, dialect, clock)
    except BaseException:
        engine.close()
        raise


def _engine(target: Any, lake: str | None) -> Engine:
    if not isinstance(target, str):
        if not (hasattr(target, "newSession") and hasattr(target, "createDataFrame")):
            raise TidemarkError("target", f"{target!r} is neither a target nor a SparkSession", hint=_TARGETS)
        return _spark(lake, target)
    if lake is not None:
        raise TidemarkError("target", "lake= goes with a SparkSession", hint='write "spark:path/to/lake"')
    name, _, path = target.partition(":")
    match name:
        case "spark":
            return _spark(path or None, None)
        case "duckdb":
            from tidemark.engines.duckdb import DuckDBEngine

            return DuckDBEngine(path or None)
        case "reference" if not path:
            from tidemark.engines.reference import ReferenceEngine

            return ReferenceEngine()
    raise TidemarkError(
        "target",
        f"there is no engine {target!r}",
        hint='use "duckdb", "duckdb:path", "spark" or "spark:path"',
    )


def _spark(lake: str | None, session: Any) -> Engine:
    from tidemark.engines.spark import SparkEngine

    return SparkEngine(lake, session=session)
