"""Merging: folding a relation's tail into its base files, and many small files into few.

What was inserted becomes a new file; of what was deleted, only the files in which it occurs are rewritten: in this
process if they are not too large for it, else by Spark. The content does not change and neither does the log, so a
merge may come at any time, or fail.

Base files without some of their rows, rewritten in this process.

Each row that leaves is looked up once, which gives its file and its place there. A file is then copied without those
places, and files in which nothing leaves stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidemark.algebra.types import WEIGHT
from tidemark.engines.duckdb.apply import all_match
from tidemark.engines.duckdb.dialect import quote, text_literal
from tidemark.engines.spark.dialect import SparkDialect
from tidemark.engines.spark.in_process import InProcess, read_rows, scan
from tidemark.engines.spark.records import DataFile, Merged
from tidemark.engines.spark.relations import Relation, Relations
from tidemark.engines.spark.routing import Sizes
from tidemark.engines.spark.session import Options
from tidemark.engines.spark.stage import REWRITTEN, ROW_GROUP, Staging, expand
from tidemark.engines.spark.statements import Statements
from tidemark.errors import TidemarkError
from tidemark.storage import delta as deltas

FILE, PLACE = quote("tidemark file"), "file_row_number"


@dataclass(frozen=True)
class Rewriter:
    """Finds and removes rows of one relation's base files."""

    in_process: InProcess
    relation: Relation

    @property
    def _folder(self) -> Path:
        return self.in_process.verified.root / self.relation.directory

    def _scan(self, files: tuple[DataFile, ...], *, places: bool = False) -> str:
        return scan(self.in_process.verified, self.relation.directory, files, names=True, places=places)

    @property
    def numbers_rows(self) -> bool:
        """Whether places can be asked for: a user's column of that name would hide them."""
        return PLACE not in (column.lower() for column in self.relation.columns)

    def files_with(self, leaving: pa.Table) -> tuple[DataFile, ...]:
        """The base files in which any of the rows occurs."""
        if not leaving.num_rows or not self.relation.files:
            return ()
        found = self.in_process.execute(
            f"SELECT DISTINCT r.{FILE} AS file FROM {self._scan(self.relation.files)} AS r "
            f"SEMI JOIN {self.in_process.name_of(leaving)} AS d ON {self._equal(leaving)}"
        )
        paths = set(found.column(0).to_pylist())
        return tuple(file for file in self.relation.files if str(self._folder / file.path) in paths)

    def places(self, leaving: pa.Table) -> dict[DataFile, pa.Array]:
        """Where the rows that leave stand: for each file that has any, their places in it.

        A row of weight −n takes n places; if fewer equal rows are there, as many as are.
        """
        if not leaving.num_rows or not self.relation.files:
            return {}
        assert self.numbers_rows
        found = self.in_process.execute(
            f"WITH leaving AS (SELECT *, row_number() OVER () AS entry FROM {self.in_process.name_of(leaving)}), "
            f"met AS (SELECT r.{FILE} AS file, r.{PLACE} AS place, d.entry, -d.{WEIGHT} AS copies "
            f"FROM {self._scan(self.relation.files, places=True)} AS r "
            f"JOIN leaving AS d ON {self._equal(leaving)}) "
            "SELECT file, place FROM met QUALIFY row_number() OVER (PARTITION BY entry ORDER BY file, place) <= copies"
        )
        files = {str(self._folder / file.path): file for file in self.relation.files}
        grouped = found.group_by("file").aggregate([("place", "list")])
        named = zip(grouped.column("file").to_pylist(), grouped.column("place_list"), strict=True)
        return {files[name]: places.values for name, places in named}

    def _equal(self, leaving: pa.Table) -> str:
        """The join condition: whole rows are equal."""
        pairs = [(f"r.{quote(name)}", f"d.c{i}") for i, name in enumerate(self.relation.columns)]
        return all_match(pairs, leaving.columns[:-1])

    def without(
        self, files: tuple[DataFile, ...], places: dict[DataFile, pa.Array], staging: Staging
    ) -> tuple[DataFile, ...]:
        """One new file with the rows of the given files, except those at the places."""
        going = [(str(self._folder / file.path), places[file]) for file in files if file in places]
        if sum(file.rows for file in files) == sum(len(taken) for _, taken in going):
            return ()
        shown = ", ".join(f"r.{quote(column)}" for column in self.relation.columns)
        source = f"{self._scan(files, places=True)} AS r"
        if going:
            source += (
                f" ANTI JOIN {self.in_process.name_of(_table(going))} AS g ON r.{FILE} = g.c0 AND r.{PLACE} = g.c1"
            )
        query = f"SELECT {shown} FROM {source}"
        return staging.written(self.relation.directory, lambda path: self._copy(query, path))

    def _copy(self, query: str, path: Path) -> None:
        options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP}"
        self.in_process.execute(f"COPY ({query}) TO {text_literal(str(path))} ({options})")


def _table(going: Iterable[tuple[str, pa.Array]]) -> pa.Table:
    parts = [
        pa.table([pa.array([name] * len(taken), pa.string()), taken], names=["file", "place"]) for name, taken in going
    ]
    joined = pa.concat_tables(parts)
    return joined.append_column(WEIGHT, pa.array([1] * joined.num_rows, pa.int64()))


ROWS_PER_FILE: Final = 2_000_000
FEW_ROWS: Final = 5_000
"""A relation of so many rows is written anew as a whole."""


def most_due(relations: Relations, options: Options) -> Relation | None:
    """The relation to merge next, if one is due. One at a time, so that no commit has to wait for many."""
    due = [relation for relation in relations.values() if is_due(relation, options)]
    return max(due, key=lambda relation: relation.tail_entries, default=None)


def is_due(relation: Relation, options: Options) -> bool:
    entries = relation.tail_entries
    if entries > options.merge_rows:
        return True
    base = sum(file.rows for file in relation.files)
    if entries >= options.merge_minimum and entries > options.merge_share * base:
        return True
    return len(_small_files(relation, options)) > options.many_files


@dataclass(frozen=True)
class Merger:
    """Merges relations of one lake."""

    options: Options
    in_process: InProcess
    statements: Statements

    def merge(self, relation: Relation, version: int, staging: Staging) -> Merged:
        """Stage the files of a merge and say what it replaces."""
        entries = deltas.combine(relation.schema.weighted.empty_table(), *relation.tail)
        leaving = deltas.deleted(entries)
        few = self._few(relation, entries, version, staging) if leaving.num_rows else None
        if few is not None:
            return few
        rewriter = Rewriter(self.in_process, relation)
        here = rewriter.numbers_rows and sum(file.rows for file in relation.files) <= self.options.local_rows
        places = rewriter.places(leaving) if here else {}
        small = _small_files(relation, self.options)
        removed = set(places if here else rewriter.files_with(leaving))
        removed |= set(small if len(small) > self.options.many_files else ())
        replaced = tuple(file for file in relation.files if file in removed)
        staying = sum(file.rows for file in replaced) + deltas.growth(leaving)
        added = staging.rows(relation.directory, expand(entries).rename_columns(list(relation.columns)))
        if here:
            groups = _groups(replaced, self.options)
            written = tuple(file for group in groups for file in rewriter.without(group, places, staging))
        else:
            written = self._by_spark(relation, replaced, leaving, staying, staging)
        if sum(file.rows for file in written) != staying:
            raise _damaged(relation)
        return Merged(version, relation.name, tuple(file.path for file in replaced), added + written)

    def _few(self, relation: Relation, entries: pa.Table, version: int, staging: Staging) -> Merged | None:
        """One new file of all rows, if they are few: less work than finding those that leave. None if some are not
        found so, as numbers that are equal may be written in two ways."""
        if sum(file.rows for file in relation.files) > FEW_ROWS:
            return None
        rows = read_rows(self.in_process.verified, relation.directory, relation.files, relation.schema)
        all_rows = deltas.combine(deltas.weighted(rows).cast(relation.schema.weighted), entries)
        if deltas.deleted(all_rows).num_rows:
            return None
        table = expand(all_rows).rename_columns(list(relation.columns))
        added = staging.rows(relation.directory, table, REWRITTEN)
        return Merged(version, relation.name, tuple(file.path for file in relation.files), added)

    def _by_spark(
        self,
        relation: Relation,
        replaced: tuple[DataFile, ...],
        leaving: pa.Table,
        staying: int,
        staging: Staging,
    ) -> tuple[DataFile, ...]:
        if staying <= 0:
            return ()
        files = 1 + staying // ROWS_PER_FILE
        with (
            self.statements.file_view(relation, replaced) as base,
            self.statements.table_views({"": leaving}) as views,
        ):
            text = _staying_rows(len(relation.columns), base, views[""], any_leave=leaving.num_rows > 0)
            return self.statements.run(
                text,
                lambda frame: staging.frame(
                    relation.directory, frame.toDF(*relation.columns).coalesce(files), REWRITTEN
                ),
            )


def _groups(replaced: tuple[DataFile, ...], options: Options) -> list[tuple[DataFile, ...]]:
    """Which files become one: small ones together, each large one by itself."""
    small = tuple(file for file in replaced if file.rows < options.small_file_rows)
    return [(file,) for file in replaced if file not in small] + ([small] if small else [])


def _damaged(relation: Relation) -> TidemarkError:
    return TidemarkError(
        "damaged",
        f"{relation.name} holds fewer equal rows than were deleted from it",
        hint="run AUDIT on its views; the stored content was changed by somebody else",
    )


def _staying_rows(columns: int, base: str, leaving: str, *, any_leave: bool) -> str:
    names = [f"c{i}" for i in range(columns)]
    listed = ", ".join(names)
    if not any_leave:
        return f"SELECT {listed} FROM {base}"
    equal = " AND ".join(f"b.{name} <=> d.{name}" for name in names)
    keys = f"(SELECT /*+ BROADCAST(l) */ * FROM {leaving} AS l) AS d ON {equal}"
    shown = ", ".join(f"b.{name} AS {name}" for name in names)
    counted = (
        f"SELECT {listed}, CAST(SUM({WEIGHT}) AS BIGINT) AS {WEIGHT} FROM "
        f"(SELECT {shown}, CAST(1 AS BIGINT) AS {WEIGHT} FROM {base} AS b LEFT SEMI JOIN {keys} "
        f"UNION ALL SELECT {listed}, {WEIGHT} FROM {leaving}) GROUP BY {listed} HAVING SUM({WEIGHT}) <> 0"
    )
    copies = SparkDialect({}, {}, Sizes({}, 0)).repeated(counted, "r", WEIGHT)
    repeated = ", ".join(f"r.{name} AS {name}" for name in names)
    return f"SELECT {shown} FROM {base} AS b LEFT ANTI JOIN {keys} UNION ALL SELECT {repeated} FROM {copies}"


def _small_files(relation: Relation, options: Options) -> tuple[DataFile, ...]:
    return tuple(file for file in relation.files if file.rows < options.small_file_rows)
