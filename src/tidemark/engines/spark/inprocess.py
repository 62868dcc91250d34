"""Plans that run in this process, on an embedded DuckDB over the same Parquet files and Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from tidemark.algebra.plans import Given, Plan, Stored, walk
from tidemark.algebra.types import WEIGHT
from tidemark.engines.duckdb.dialect import DuckDBDialect, quote, text_literal
from tidemark.engines.duckdb.errors import translated
from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.relations import Relation, Relations
from tidemark.engines.sqltext import Compiler, Source


class LakeDialect(DuckDBDialect):
    """DuckDB's SQL with stored relations that lie in a lake: Parquet files, and tails registered under names."""

    def __init__(self, root: Path, relations: Relations, given_names: Mapping[str, str]) -> None:
        super().__init__(lambda relation: relation, given_names)
        self._root = root
        self._relations = relations

    def stored(self, plan: Stored) -> Source:
        relation = self._relations[plan.relation]
        names = tuple(f"c{i}" for i in range(len(plan.schema)))
        base = self._base(relation) if relation.files else None
        if base is not None and not relation.tail:
            return Source(f"({base})", names)
        listed = ", ".join(names)
        parts = [f"SELECT {listed}, {WEIGHT} FROM {quote(name)}" for name in tail_names(relation)]
        if base is not None:
            parts.insert(0, f"SELECT *, CAST(1 AS BIGINT) AS {WEIGHT} FROM ({base})")
        if not parts:
            nulls = (f"CAST(NULL AS {self.type_name(f.type)}) AS c{i}" for i, f in enumerate(plan.schema))
            return Source(f"(SELECT {', '.join(nulls)} WHERE FALSE)", names)
        return Source(f"({' UNION ALL '.join(parts)})", names, WEIGHT)

    def _base(self, relation: Relation) -> str:
        shown = ", ".join(f"{quote(column)} AS c{i}" for i, column in enumerate(relation.columns))
        return f"SELECT {shown} FROM {scan(self._root / relation.directory, relation.files)}"


class InProcess:
    """The embedded DuckDB of a Spark engine. It stores nothing."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET parquet_metadata_cache = true")

    def weighted(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> pa.Table:
        return self._run(plan, given, relations, weighted=True)

    def rows(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> pa.Table:
        return self._run(plan, given, relations, weighted=False)

    def _run(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations, *, weighted: bool) -> pa.Table:
        needed = tuple(dict.fromkeys(part.name for part in walk(plan) if isinstance(part, Given)))
        names = {name: f"given_{position}" for position, name in enumerate(needed)}
        compiler = Compiler(LakeDialect(self._root, relations, names))
        text = compiler.weighted(plan) if weighted else compiler.rows(plan)
        tables = {names[name]: given[name] for name in needed}
        for relation in {part.relation for part in walk(plan) if isinstance(part, Stored)}:
            tables.update(zip(tail_names(relations[relation]), relations[relation].tail, strict=True))
        with self._registered(tables):
            return self._execute(text)

    def files_with(self, relation: Relation, entries: pa.Table) -> tuple[DataFile, ...]:
        """The base files in which any of the rows occurs."""
        if not entries.num_rows or not relation.files:
            return ()
        folder = self._root / relation.directory
        matches = " AND ".join(
            # '=' wherever the entries hold no NULL: DuckDB prunes by it, and cannot by IS NOT DISTINCT FROM.
            f"r.{quote(name)} {'IS NOT DISTINCT FROM' if column.null_count else '='} d.c{i}"
            for i, (name, column) in enumerate(zip(relation.columns, entries.columns[:-1], strict=True))
        )
        with self._registered({"leaving": entries}):
            found = self._execute(
                f"SELECT DISTINCT r.filename AS f FROM {scan(folder, relation.files, filename=True)} AS r "
                f"SEMI JOIN leaving AS d ON {matches}"
            )
        paths = set(found.column(0).to_pylist())
        return tuple(file for file in relation.files if str(folder / file.path) in paths)

    def close(self) -> None:
        self._connection.close()

    def _execute(self, text: str) -> pa.Table:
        try:
            return self._connection.sql(text).to_arrow_table()
        except duckdb.Error as error:
            raise translated(error) from error

    @contextmanager
    def _registered(self, tables: Mapping[str, pa.Table]) -> Iterator[None]:
        for name, table in tables.items():
            columns = [f"c{i}" for i in range(table.num_columns - 1)]
            self._connection.register(name, table.rename_columns([*columns, WEIGHT]))
        try:
            yield
        finally:
            for name in tables:
                self._connection.unregister(name)


def scan(folder: Path, files: tuple[DataFile, ...], *, filename: bool = False) -> str:
    """The files as a table function; nothing is guessed from the names of folders."""
    paths = ", ".join(text_literal(str(folder / file.path)) for file in files)
    return f"read_parquet([{paths}], hive_partitioning = false{', filename = true' if filename else ''})"


def tail_names(relation: Relation) -> tuple[str, ...]:
    return tuple(f"tail {position} of {relation.name}" for position in range(len(relation.tail)))
