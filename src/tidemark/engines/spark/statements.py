"""Statements on Spark: temporary views for files and Arrow tables, SQL text in, Arrow or files out.

Evaluating for audits: Spark without the rules that an answer does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tidemark.algebra.functions import spark_type
from tidemark.algebra.plans import Given, Plan, Stored, walk
from tidemark.algebra.types import WEIGHT
from tidemark.engines.spark.dialect import SparkCompiler, SparkDialect, StoredViews, quote
from tidemark.engines.spark.integrity import Verified
from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.relations import Relation, Relations
from tidemark.engines.spark.routing import Sizes, is_small
from tidemark.engines.spark.session import Options, own_session, reads_bucket
from tidemark.engines.spark.shield import Shield, translated, unbroken
from tidemark.storage import delta as deltas
from tidemark.storage.delta import Rows, as_rows
from tidemark.storage.filed import FiledRows

_RULES: Final = (
    "ColumnPruning",
    "CollapseProject",
    "CollapseWindow",
    "CombineUnions",
    "ConstantPropagation",
    "ConvertToLocalRelation",
    "CostBasedJoinReorder",
    "DecimalAggregates",
    "EliminateAggregateFilter",
    "EliminateDistinct",
    "EliminateLimits",
    "EliminateOuterJoin",
    "EliminateSorts",
    "FoldablePropagation",
    "GenerateOptimization",
    "InferFiltersFromConstraints",
    "InferFiltersFromGenerate",
    "InferWindowGroupLimit",
    "LimitPushDown",
    "LimitPushDownThroughWindow",
    "MergeScalarSubqueries",
    "MergeSubplans",
    "OptimizeOneRowPlan",
    "OptimizeWindowFunctions",
    "PropagateEmptyRelation",
    "PruneFilters",
    "PushDownLeftSemiAntiJoin",
    "PushLeftSemiLeftAntiThroughJoin",
    "PushProjectionThroughUnion",
    "RemoveNoopOperators",
    "RemoveRedundantAggregates",
    "RemoveRedundantAliases",
    "ReorderJoin",
    "TransposeWindow",
    "UnwrapCastInBinaryComparison",
)
"""Rules that make other joins, groupings, limits and scans of what is written. Those remain that Spark cannot do
without, and those that find the keys of a join in its condition. A name that this Spark does not know changes nothing.
"""

PLAIN: Final = {
    "spark.sql.optimizer.excludedRules": ",".join(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _RULES),
    "spark.sql.adaptive.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.execution.adaptive.{rule}"
        for rule in ("AQEPropagateEmptyRelation", "DynamicJoinSelection")
    ),
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.parquet.filterPushdown": "false",
}
"""Adaptive execution stays on, because it makes many small partitions few, but it may not change the plan."""


@contextmanager
def settings(session: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Meanwhile the session has these settings."""
    before = {key: session.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, earlier)


PART_ROWS: Final = 1_000_000
MOST_PARTS: Final = 1_000
"""Rows that lie in files are moved between tasks in parts of so many, and in no more parts than these."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class InFiles:
    """What rows that lie in files of a relation are to this engine: the files, and what throws them away."""

    relation: Relation
    files: tuple[DataFile, ...]
    staging: Any


class Statements:
    """Runs statements in a session of its own, which begins with the first of them.

    Whatever Spark is asked, it is asked in one thread beside the caller's: Ctrl-C ends a statement, but never breaks
    off the talk with Spark, and what is remembered of views is always what Spark has.

    Views of stored relations are kept from statement to statement, since making one costs more than many a
    statement; those of given relations go with theirs.
    """

    def __init__(self, session: Callable[[], SparkSession], verified: Verified, options: Options) -> None:
        self.count = 0
        self._start = session
        self._given: SparkSession | None = None
        self._session: SparkSession | None = None
        self._shield = Shield(self._cancel)
        self._verified = verified
        self._options = options
        self._numbered = 0
        self._bases: dict[tuple[str, tuple[DataFile, ...]], str] = {}
        self._tails: dict[int, tuple[pa.Table, str]] = {}
        self._plainly = False

    @property
    def session(self) -> SparkSession:
        """Our own session; only for what ``_asked`` runs."""
        if self._session is None:
            assert self._given is not None
            self._session = own_session(self._given)
            self._see_to_the_bucket(self._session)
        return self._session

    def _see_to_the_bucket(self, session: SparkSession) -> None:
        """Let a session get to the lake's bucket, if it reads and writes that itself."""
        store = self._verified.store
        store.is_far = not store.is_local and reads_bucket(session, self._options)
        for name, value in store.spark_settings().items() if store.is_far else ():
            session.conf.set(name, value)

    def _asked(self, ask: Callable[[], Result]) -> Result:
        """Let the thread that speaks with Spark do this."""
        if self._given is None:
            self._given = self._start()  # by the caller's thread, since each has an active session of its own
        return self._shield.call(ask)

    def weighted(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> pa.Table:
        """The plan's net rows with their weights.

        What is expected to be small is added up here: that saves Spark a shuffle, which costs more.
        """

        def ask() -> pa.Table:
            with self._compiler(plan, given, relations) as compiler:
                if is_small(plan, compiler.dialect.sizes):
                    return deltas.net(self._collected(compiler.entries(plan)).combine_chunks())
                return self._collected(compiler.weighted(plan))

        return self._asked(ask)

    def rows(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> pa.Table:
        def ask() -> pa.Table:
            with self._compiler(plan, given, relations) as compiler:
                return self._collected(compiler.rows(plan))

        return self._asked(ask)

    def write(
        self,
        plan: Plan,
        given: Mapping[str, pa.Table],
        relations: Relations,
        store: Callable[[DataFrame], Result],
    ) -> Result:
        """Let ``store`` write the plan's rows."""

        def ask() -> Result:
            with self._compiler(plan, given, relations) as compiler:
                return self._ran(compiler.rows(plan), store)

        return self._asked(ask)

    def write_weighted(
        self,
        plan: Plan,
        given: Mapping[str, pa.Table],
        relations: Relations,
        store: Callable[[DataFrame], Result],
    ) -> Result:
        """Let ``store`` write the plan's net rows, with their weights behind them."""

        def ask() -> Result:
            with self._compiler(plan, given, relations) as compiler:
                return self._ran(compiler.weighted(plan), store)

        return self._asked(ask)

    def ask(self, question: Callable[[], Result]) -> Result:
        """Ask Spark something else, in any session."""

        def ask() -> Result:
            self.count += 1
            with _translating():
                return question()

        return self._asked(ask)

    def run(self, text: str, use: Callable[[DataFrame], Result]) -> Result:
        """Run a statement of the engine's own, over views from ``file_view`` and ``table_views``."""
        return self._asked(lambda: self._ran(text, use))

    def explain(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> str:
        """The physical plan of a differential, as Spark tells it; for tests and for people who wonder."""

        def ask() -> pa.Table:
            with self._compiler(plan, given, relations) as compiler:
                return self.session.sql(f"EXPLAIN {compiler.entries(plan)}").toArrow()

        return str(self._asked(ask).column(0)[0].as_py())

    @contextmanager
    def table_views(self, tables: Mapping[str, pa.Table]) -> Iterator[dict[str, str]]:
        """Temporary views of weighted Arrow tables, with positional column names, for one statement."""
        names: dict[str, str] = {}
        try:
            for name, table in tables.items():
                names[name] = self._asked(partial(self._table_view, "given", table))
            yield names
        finally:
            self._asked(partial(self._drop, names.values()))

    @contextmanager
    def file_view(self, relation: Relation, files: tuple[DataFile, ...]) -> Iterator[str]:
        """A temporary view of some base files of a relation."""
        name = self._asked(partial(self._file_view, relation, files))
        try:
            yield name
        finally:
            self._asked(partial(self._drop, [name]))

    def keep_only(self, relations: Relations) -> None:
        """Drop the views of what is no longer stored."""
        if self._session is not None:
            self._asked(partial(self._keep_only, relations))

    def _keep_only(self, relations: Relations) -> None:
        bases = {(relation.directory, relation.files) for relation in relations.values()}
        tails = {id(part) for relation in relations.values() for part in relation.tail}
        stale = [view for key, view in self._bases.items() if key not in bases]
        stale += [view for key, (_, view) in self._tails.items() if key not in tails]
        self._bases = {key: view for key, view in self._bases.items() if key in bases}
        self._tails = {key: kept for key, kept in self._tails.items() if key in tails}
        self._drop(stale)

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """Meanwhile statements run as for an audit. Where none runs, Spark need not begin."""
        self._plainly = True
        try:
            yield
        finally:
            self._plainly = False

    def interrupt(self) -> None:
        """Let the statement fail that another thread runs. All that the session runs is ours, so no tag is needed."""
        unbroken(self._cancel)

    def _cancel(self) -> None:
        session = self._session
        if session is not None:
            with suppress(Exception):  # a Spark that is gone has nothing to interrupt; the statement says what happened
                session.interruptAll()

    def close(self) -> None:
        if self._session is not None:
            self.keep_only({})
            self._session = None
        self._shield.close()

    @contextmanager
    def _compiler(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> Iterator[SparkCompiler]:
        parts = list(walk(plan))
        rows = as_rows(given)
        tables = {part.name: rows[part.name] for part in parts if isinstance(part, Given)}
        stored = {part.relation for part in parts if isinstance(part, Stored)}
        views = {name: self._stored_views(relations[name]) for name in stored}
        sizes = Sizes({name: table.count for name, table in tables.items()}, self._options.broadcast_rows)
        filed = sum(table.count for table in tables.values() if table.is_by_reference)
        with self._given_views(tables) as names, settings(self.session, self._partitions(filed)):
            yield SparkCompiler(SparkDialect(views, names, sizes))

    def _partitions(self, rows: int) -> Mapping[str, str]:
        """The setting under which so many rows are moved in parts that fit into memory."""
        key = "spark.sql.shuffle.partitions"
        wanted = min(rows // PART_ROWS, MOST_PARTS)
        return {key: str(wanted)} if rows and wanted > int(self.session.conf.get(key) or 0) else {}

    @contextmanager
    def _given_views(self, given: Mapping[str, Rows]) -> Iterator[dict[str, str]]:
        """Temporary views of given rows, for one statement: of those that lie in files, over these."""
        made: list[str] = []
        try:
            names = {}
            for name, rows in given.items():
                if isinstance(rows, FiledRows):
                    made += self._staged_views(rows)
                else:
                    made.append(self._table_view("given", rows.table))
                names[name] = made[-1]
            yield names
        finally:
            self._drop(reversed(made))

    def _staged_views(self, rows: FiledRows) -> list[str]:
        """Views of the files, of the entries that leave, and, the last one, of both."""
        found = [file.named for file in rows.files if file.rows]
        views = [self._file_view(named.relation, named.files) for named in found]
        listed = ", ".join(f"c{i}" for i in range(len(rows.arrow) - 1))
        parts = [f"SELECT {listed}, CAST(1 AS BIGINT) AS {WEIGHT} FROM {view}" for view in views]
        if rows.leaving.num_rows or not parts:
            views.append(self._table_view("given", rows.leaving))
            parts.append(f"SELECT {listed}, {WEIGHT} FROM {views[-1]}")
        with _translating():
            return [*views, self._view("given", self.session.sql(" UNION ALL ".join(parts)))]

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
        paths = self._verified.spark_paths(relation.directory, files)
        with _translating():
            reader = self.session.read.schema(schema).option("parquet.page.verify-checksum.enabled", "true")
            frame = reader.parquet(*paths)
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
        with _translating(), settings(self.session, PLAIN if self._plainly else {}):
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
