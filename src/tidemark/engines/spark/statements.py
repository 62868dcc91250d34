"""Statements on Spark: temporary views for files and Arrow tables, SQL text in, Arrow or files out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tidemark.algebra.functions import spark_type
from tidemark.algebra.plans import Given, Plan, Stored, walk
from tidemark.algebra.types import WEIGHT
from tidemark.engines.spark.dialect import SparkCompiler, SparkDialect, StoredViews, quote
from tidemark.engines.spark.errors import translated
from tidemark.engines.spark.options import Options
from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.relations import Relation, Relations
from tidemark.engines.spark.routing import Sizes, is_small
from tidemark.engines.spark.session import own_session
from tidemark.log import deltas

Result = TypeVar("Result")


class Statements:
    """Runs statements in a session of its own, which begins with the first of them.

    Views of stored relations are kept from statement to statement, since making one costs more than many a
    statement; those of given relations go with theirs.
    """

    def __init__(self, session: Callable[[], SparkSession], root: Path, options: Options) -> None:
        self.count = 0
        self._start = session
        self._session: SparkSession | None = None
        self._root = root
        self._options = options
        self._numbered = 0
        self._bases: dict[tuple[str, tuple[DataFile, ...]], str] = {}
        self._tails: dict[int, tuple[pa.Table, str]] = {}

    @property
    def session(self) -> SparkSession:
        if self._session is None:
            self._session = own_session(self._start())
        return self._session

    def weighted(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> pa.Table:
        """The plan's net rows with their weights.

        What is expected to be small is added up here: that saves Spark a shuffle, which costs more.
        """
        with self._compiler(plan, given, relations) as compiler:
            if is_small(plan, compiler.dialect.sizes):
                return deltas.net(self._collected(compiler.entries(plan)).combine_chunks())
            return self._collected(compiler.weighted(plan))

    def rows(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> pa.Table:
        with self._compiler(plan, given, relations) as compiler:
            return self._collected(compiler.rows(plan))

    def write(
        self,
        plan: Plan,
        given: Mapping[str, pa.Table],
        relations: Relations,
        store: Callable[[DataFrame], Result],
    ) -> Result:
        """Let ``store`` write the plan's rows."""
        with self._compiler(plan, given, relations) as compiler:
            return self._ran(compiler.rows(plan), store)

    def run(self, text: str, use: Callable[[DataFrame], Result]) -> Result:
        """Run a statement of the engine's own, over views from ``file_view`` and ``table_views``."""
        return self._ran(text, use)

    def explain(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> str:
        """The physical plan of a differential, as Spark tells it; for tests and for people who wonder."""
        with self._compiler(plan, given, relations) as compiler:
            shown = self.session.sql(f"EXPLAIN {compiler.entries(plan)}").toArrow()
        return str(shown.column(0)[0].as_py())

    @contextmanager
    def table_views(self, tables: Mapping[str, pa.Table]) -> Iterator[dict[str, str]]:
        """Temporary views of weighted Arrow tables, with positional column names, for one statement."""
        names: dict[str, str] = {}
        try:
            for name, table in tables.items():
                names[name] = self._table_view("given", table)
            yield names
        finally:
            self._drop(names.values())

    @contextmanager
    def file_view(self, relation: Relation, files: tuple[DataFile, ...]) -> Iterator[str]:
        """A temporary view of some base files of a relation."""
        name = self._file_view(relation, files)
        try:
            yield name
        finally:
            self._drop([name])

    def keep_only(self, relations: Relations) -> None:
        """Drop the views of what is no longer stored."""
        if self._session is None:
            return
        bases = {(relation.directory, relation.files) for relation in relations.values()}
        tails = {id(part) for relation in relations.values() for part in relation.tail}
        stale = [view for key, view in self._bases.items() if key not in bases]
        stale += [view for key, (_, view) in self._tails.items() if key not in tails]
        self._bases = {key: view for key, view in self._bases.items() if key in bases}
        self._tails = {key: kept for key, kept in self._tails.items() if key in tails}
        self._drop(stale)

    def interrupt(self) -> None:
        """Let the statement fail that another thread runs. All that the session runs is ours, so no tag is needed."""
        session = self._session
        if session is not None:
            with suppress(Exception):  # a Spark that is gone has nothing to interrupt; the statement says what happened
                session.interruptAll()

    def close(self) -> None:
        if self._session is not None:
            self.keep_only({})
            self._session = None

    @contextmanager
    def _compiler(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> Iterator[SparkCompiler]:
        parts = list(walk(plan))
        tables = {part.name: given[part.name] for part in parts if isinstance(part, Given)}
        stored = {part.relation for part in parts if isinstance(part, Stored)}
        views = {name: self._stored_views(relations[name]) for name in stored}
        sizes = Sizes({name: table.num_rows for name, table in tables.items()}, self._options.broadcast_rows)
        with self.table_views(tables) as names:
            yield SparkCompiler(SparkDialect(views, names, sizes))

    def _stored_views(self, relation: Relation) -> StoredViews:
        base = None
        if relation.files:
            key = (relation.directory, relation.files)
            if key not in self._bases:
                self._bases[key] = self._file_view(relation, relation.files)
            base = self._bases[key]
        tail = []
        for part in relation.tail:
            if id(part) not in self._tails:
                # The table is kept with its view, so that its identity cannot be taken by another one.
                self._tails[id(part)] = (part, self._table_view("tail", part))
            tail.append(self._tails[id(part)][1])
        return StoredViews(base, tuple(tail))

    def _file_view(self, relation: Relation, files: tuple[DataFile, ...]) -> str:
        fields = zip(relation.columns, relation.schema.types, strict=True)
        schema = ", ".join(f"{quote(name)} {spark_type(type)}" for name, type in fields)
        paths = [(self._root / relation.directory / file.path).as_posix() for file in files]
        with _translating():
            frame = self.session.read.schema(schema).parquet(*paths)
            return self._view("base", frame.toDF(*(f"c{i}" for i in range(len(relation.columns)))))

    def _table_view(self, kind: str, table: pa.Table) -> str:
        named = table.rename_columns([*(f"c{i}" for i in range(table.num_columns - 1)), WEIGHT])
        with _translating():
            # Spark Connect takes no schema from a table without rows.
            if not named.num_rows:
                schema = from_arrow_schema(named.schema, prefer_timestamp_ntz=True)
                return self._view(kind, self.session.createDataFrame([], schema))
            return self._view(kind, self.session.createDataFrame(_without_empty_parts(named)))

    def _view(self, kind: str, frame: DataFrame) -> str:
        self._numbered += 1
        name = f"tidemark_{kind}_{self._numbered}"
        frame.createOrReplaceTempView(name)
        return name

    def _drop(self, names: Iterable[str]) -> None:
        with _translating():
            for name in names:
                self.session.catalog.dropTempView(name)

    def _collected(self, text: str) -> pa.Table:
        return self._ran(text, lambda frame: frame.toArrow())

    def _ran(self, text: str, use: Callable[[DataFrame], Result]) -> Result:
        self.count += 1
        with _translating():
            return use(self.session.sql(text))


def _without_empty_parts(table: pa.Table) -> pa.Table:
    """The table in parts that have rows. Spark takes an empty one for the end, and loses all that comes after it."""
    return pa.Table.from_batches([batch for batch in table.to_batches() if batch.num_rows], table.schema)


@contextmanager
def _translating() -> Iterator[None]:
    """Around everything that Spark is asked: with Spark Connect making and dropping a view may be interrupted too."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise translated(error) from error
