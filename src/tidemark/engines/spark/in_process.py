"""Plans that run in this process, on an embedded DuckDB over the same Parquet files and Arrow tables.

Reading a relation's Parquet files in this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.algebra.expressions import Column, Value
from tidemark.algebra.plans import Given, Plan, Project, Stored, Touched, walk
from tidemark.algebra.types import WEIGHT, Schema
from tidemark.engines.duckdb.apply import all_match
from tidemark.engines.duckdb.dialect import DuckDBDialect, hearing_interrupts, quote, text_literal, translated
from tidemark.engines.duckdb.embedded import Registered
from tidemark.engines.duckdb.settings import configure, connected_within
from tidemark.engines.duckdb.statements import few_rules
from tidemark.engines.engine import Iteration
from tidemark.engines.spark.integrity import Verified
from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.relations import Relation, Relations
from tidemark.engines.sqltext.blocks import FromItem, names_of
from tidemark.engines.sqltext.compiler import Compiler, given_to, iteration_text
from tidemark.storage import delta as deltas

MEMORY_SHARE: Final = "40%"
"""Of the machine's memory: the JVM needs some too. What does not fit is spilled to files in the lake."""


class LakeDialect(DuckDBDialect):
    """DuckDB's SQL with stored relations that lie in a lake: Parquet files, and tails registered under names."""

    def __init__(
        self, verified: Verified, relations: Relations, given: Mapping[str, pa.Table], registered: Registered
    ) -> None:
        super().__init__(lambda relation: relation, {name: registered.name_of(table) for name, table in given.items()})
        self._verified = verified
        self._relations = relations
        self._registered = registered
        self.given_tables = given
        self.touching: list[tuple[pa.ChunkedArray, ...] | None] = []

    def all_equal(self, pairs: tuple[tuple[str, str, bool], ...]) -> str:
        """The condition of a restriction to touched keys; ``touching`` has their values, if they are at hand."""
        columns = self.touching[-1] if self.touching else None
        if columns is not None:
            return all_match([(left, right) for left, right, _ in pairs], columns[: len(pairs)])
        return " AND ".join(f"{a} {'IS NOT DISTINCT FROM' if nulls else '='} {b}" for a, b, nulls in pairs)

    def stored(self, plan: Stored) -> FromItem:
        relation = self._relations[plan.relation]
        names = names_of(len(plan.schema))
        base = self._base(relation) if relation.files else None
        if base is not None and not relation.tail:
            return FromItem(f"({base})", names)
        listed = ", ".join(names)
        parts = [f"SELECT {listed}, {WEIGHT} FROM {self._registered.name_of(part)}" for part in relation.tail]
        if base is not None:
            parts.insert(0, f"SELECT *, CAST(1 AS BIGINT) AS {WEIGHT} FROM ({base})")
        if not parts:
            nulls = (f"CAST(NULL AS {self.type_name(f.type)}) AS c{i}" for i, f in enumerate(plan.schema))
            return FromItem(f"(SELECT {', '.join(nulls)} WHERE FALSE)", names)
        return FromItem(f"({' UNION ALL '.join(parts)})", names, WEIGHT)

    def _base(self, relation: Relation) -> str:
        shown = ", ".join(f"{quote(column)} AS c{i}" for i, column in enumerate(relation.columns))
        return f"SELECT {shown} FROM {scan(self._verified, relation.directory, relation.files)}"


class LakeCompiler(Compiler):
    """The compiler of ``sqltext``, which tells its dialect the values of touched keys."""

    dialect: LakeDialect

    def _touched(self, plan: Touched) -> FromItem:
        self.dialect.touching.append(self._values_of(plan.touched))
        try:
            return super()._touched(plan)
        finally:
            self.dialect.touching.pop()

    def _values_of(self, touched: Plan) -> tuple[pa.ChunkedArray, ...] | None:
        match touched:
            case Given(name=name):
                return tuple(self.dialect.given_tables[name].columns[:-1])
            case Project(input=Given(name=name), expressions=expressions):
                indices = [expression.index for expression in expressions if isinstance(expression, Column)]
                columns = self.dialect.given_tables[name].columns
                return tuple(columns[i] for i in indices) if len(indices) == len(expressions) else None
        return None


class InProcess:
    """The embedded DuckDB of a Spark engine. It stores nothing; ``spill`` is where it may put what is too large."""

    def __init__(self, verified: Verified, spill: Path, memory: int | None = None) -> None:
        """``memory`` is how many bytes it may take, if not its share of the machine's."""
        self.verified = verified
        self.connection = connected_within(verified.root, spill)
        configure(self.connection)
        self.connection.execute("SET parquet_metadata_cache = true")
        self.connection.execute(f"SET memory_limit = '{MEMORY_SHARE if memory is None else f'{memory}B'}'")
        self._registered = Registered(self.connection)

    def weighted(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> pa.Table:
        """The plan's net rows with their weights; what follows from deltas is made net here, which is cheaper."""
        if any(isinstance(part, Given) for part in walk(plan)):
            return deltas.net(self.execute(self._compiler(plan, given, relations).entries(plan)))
        return self.execute(self._compiler(plan, given, relations).weighted(plan))

    def rows(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> pa.Table:
        return self.execute(self._compiler(plan, given, relations).rows(plan))

    def iterated(self, iteration: Iteration, given: Mapping[str, pa.Table], relations: Relations) -> pa.Table:
        """The rows of the set that an iteration finds, with their weights."""
        if self._registered.is_full:
            self.keep_only(relations)
        dialect = LakeDialect(self.verified, relations, given_to(iteration, given), self._registered)
        return self.execute(iteration_text(LakeCompiler(dialect), iteration, in_place=False))

    def _compiler(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> LakeCompiler:
        if self._registered.is_full:
            self.keep_only(relations)
        needed = {part.name: given[part.name] for part in walk(plan) if isinstance(part, Given)}
        return LakeCompiler(LakeDialect(self.verified, relations, needed, self._registered))

    def name_of(self, table: pa.Table) -> str:
        """The name under which a weighted table can be read, until ``keep_only`` lets go of it."""
        return self._registered.name_of(table)

    def keep_only(self, relations: Relations) -> None:
        """Let go of all tables but the tails of stored relations."""
        self._registered.keep_only(part for relation in relations.values() for part in relation.tail)

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """Meanwhile DuckDB runs as for an audit."""
        with few_rules(self.connection):
            yield

    def interrupt(self) -> None:
        """Let the statement fail that another thread runs here."""
        with suppress(duckdb.ConnectionException):  # closed
            self.connection.interrupt()

    def close(self) -> None:
        self.connection.close()

    @hearing_interrupts()
    def execute(self, text: str) -> pa.Table:
        try:
            return self.connection.sql(text).to_arrow_table()
        except duckdb.Error as error:
            raise translated(error) from error


def scan(
    verified: Verified, directory: str, files: tuple[DataFile, ...], *, names: bool = False, places: bool = False
) -> str:
    """The files as a table function, perhaps with the name of a row's file and its place there as further columns.

    They must be whole. Nothing is guessed from the names of folders.
    """
    verified.must_be_whole(directory, files)
    folder = verified.root / directory
    paths = ", ".join(text_literal(str(folder / file.path)) for file in files)
    more = ", filename = 'tidemark file'" if names else ""
    more += ", file_row_number = true" if places else ""
    return f"read_parquet([{paths}], hive_partitioning = false{more})"


def read_rows(
    verified: Verified, directory: str, files: Iterable[DataFile], schema: Schema, added: tuple[Value, ...] = ()
) -> pa.Table:
    """The plain rows of base files; what older files lack of the last columns is ``added``."""
    tables = [deltas.extended(table, schema, added, is_weighted=False) for table in _read(verified, directory, files)]
    return _together(tables, schema.arrow)


def read_entries(
    verified: Verified, directory: str, files: Iterable[DataFile], schema: Schema, added: tuple[Value, ...] = ()
) -> pa.Table:
    """The weighted entries of change files; what older files lack of the last columns is ``added``."""
    tables = [deltas.extended(table, schema, added) for table in _read(verified, directory, files)]
    return _together(tables, schema.weighted)


def _read(verified: Verified, directory: str, files: Iterable[DataFile]) -> list[pa.Table]:
    files = tuple(files)
    verified.must_be_whole(directory, files)
    folder = verified.root / directory
    # One file at a time: a dataset would take folders named like a=1 for partitions.
    return [pq.ParquetFile(folder / file.path, page_checksum_verification=True).read() for file in files]


def _together(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    named = (table.rename_columns(schema.names).cast(schema) for table in tables)
    return pa.concat_tables([schema.empty_table(), *named])
