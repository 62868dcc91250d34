"""Connecting: from a target to a database on the right engine."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemark.engines.engine import Engine
from tidemark.engines.opening import opening
from tidemark.errors import TidemarkError, half_character
from tidemark.session.database import Database
from tidemark.session.options import OF_LAKES, AllowedPaths, memory_of, options_of
from tidemark.sql.parse.text import dialect_named
from tidemark.state.boundary import bounded, deep
from tidemark.storage.publishing import Rhythm

_TARGETS = 'use "duckdb", "duckdb:path", "spark" or "spark:path", or a SparkSession with lake='


@bounded
def connect(
    target: Any = "spark",
    *,
    lake: str | None = None,
    dialect: str = "postgres",
    clock: Callable[[], dt.datetime] | None = None,
    allow_paths: Sequence[str | os.PathLike[str]] = (),
    options: Mapping[str, object] | None = None,
    memory: int | str | None = None,
) -> Database:
    """Open a database.

    ``"spark"`` (the default) is local Spark with a temporary lake, ``"spark:path"`` a durable lake, which may lie on an
    object store (``"spark:s3://bucket/lake"``), ``"duckdb"`` the embedded engine in memory, ``"duckdb:path"`` a durable
    file. A SparkSession of your own is taken with ``lake=``.

    ``allow_paths`` are files and folders that statements may write to (``BACKUP TO``); none by default.

    ``options``: ``durability`` is ``"process"`` (a commit survives the death of the process) or ``"power"`` (and a loss
    of power), ``publish`` when other programs see changes in a lake's Delta tables, ``run`` where plans over a lake
    run, ``statement_timeout`` a time such as ``"5s"``, ``storage`` how to reach an object store. ``memory`` is an
    amount such as ``"2GB"``, which rows that are arranged in memory share with the engine. The reference has all of
    them.

    >>> with connect("duckdb") as db:
    ...     db.version
    0
    """
    dialect_named(dialect)
    if clock is not None and not callable(clock):
        raise TidemarkError("type", f"clock is a function, or None, not {clock!r}")
    chosen, allowed = options_of(options), AllowedPaths(allow_paths)
    engine = _engine(target, lake, _Wanted(chosen, frozenset(options or ()), memory_of(memory)))
    try:
        with opening(getattr(engine, "path", None)), deep():
            return Database(engine, dialect, clock, allowed, options)
    except BaseException:
        engine.close()
        raise


@dataclass(frozen=True)
class _Wanted:
    """What the options ask of an engine; ``named`` are those that were asked for by name."""

    options: Mapping[str, Any]
    named: frozenset[str]
    memory: int | None

    @property
    def power(self) -> bool:
        return bool(self.options["durability"] == "power")

    def rhythm(self, path: str | None) -> Rhythm | None:
        """When relations are published. Nobody else reads a temporary lake, unless somebody says so."""
        rhythm: Rhythm = self.options["publish"]
        return rhythm if path or "publish" in self.named else None


def _engine(target: Any, lake: str | None, wanted: _Wanted) -> Engine:
    if not isinstance(target, str):
        if not (hasattr(target, "newSession") and hasattr(target, "createDataFrame")):
            raise TidemarkError("target", f"{target!r} is neither a target nor a SparkSession", hint=_TARGETS)
        _must_name_a_path(lake, "lake=''")
        _must_be_durable(lake or "", "a temporary lake", is_asked=wanted.power)
        return _spark(lake, target, wanted)
    if lake is not None:
        raise TidemarkError("target", "lake= goes with a SparkSession", hint='write "spark:path/to/lake"')
    if half_character(target) is not None:
        raise TidemarkError("target", f"half of a surrogate pair is no character of a path: {target!r}", hint=_TARGETS)
    name, colon, path = target.partition(":")
    _must_name_a_path(path if colon else None, repr(target))
    _must_be_durable(path, repr(target), is_asked=wanted.power)
    if name != "spark":
        _must_be_no_lake_s(wanted, target)
    match name:
        case "spark":
            return _spark(path or None, None, wanted)
        case "duckdb":
            from tidemark.engines.duckdb import DuckDBEngine

            return DuckDBEngine(path or None, power=wanted.power, memory=wanted.memory)
        case "reference" if not path:
            from tidemark.engines.reference import ReferenceEngine

            return ReferenceEngine()
    raise TidemarkError(
        "target",
        f"there is no engine {target!r}",
        hint='use "duckdb", "duckdb:path", "spark" or "spark:path"',
    )


def _must_be_no_lake_s(wanted: _Wanted, target: str) -> None:
    for option, said in OF_LAKES.items():
        if option in wanted.named:
            raise TidemarkError(
                "option", f"{target!r} {said}", hint=f"{option} is an option of lakes: spark:path/to/lake"
            )


def _must_name_a_path(path: str | None, what: str) -> None:
    """A path that was left empty is a mistake: taken for no path, it would be a database that nobody finds again."""
    if path is not None and not path.strip():
        raise TidemarkError("target", f"{what} names no path", hint=_TARGETS)


def _must_be_durable(path: str, what: str, *, is_asked: bool) -> None:
    if is_asked and not path:
        raise TidemarkError(
            "option",
            f"{what} does not survive its process: its durability cannot be 'power'",
            hint='give a path: "duckdb:path", "spark:path", or lake= beside a session',
        )


def _spark(lake: str | None, session: Any, wanted: _Wanted) -> Engine:
    from tidemark.engines.spark import SparkEngine
    from tidemark.engines.spark.session import RUN

    asked = {"power": wanted.power, "memory": wanted.memory, "storage": wanted.options["storage"]}
    with opening(lake):
        return SparkEngine(lake, session=session, publish=wanted.rhythm(lake), **asked, **RUN[wanted.options["run"]])
