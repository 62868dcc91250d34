"""Base files without some of their rows, rewritten in this process.

Each row that leaves is looked up once, which gives its file and its place there. A file is then copied without those
places, and files in which nothing leaves stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidemark.algebra.types import WEIGHT
from tidemark.engines.duckdb.dialect import quote, text_literal
from tidemark.engines.duckdb.matching import all_match
from tidemark.engines.spark.inprocess import InProcess, scan
from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.relations import Relation
from tidemark.engines.spark.staging import ROW_GROUP, Staging

FILE, PLACE = quote("tidemark file"), "file_row_number"


@dataclass(frozen=True)
class Rewriter:
    """Finds and removes rows of one relation's base files."""

    in_process: InProcess
    root: Path
    relation: Relation

    @property
    def _folder(self) -> Path:
        return self.root / self.relation.directory

    @property
    def numbers_rows(self) -> bool:
        """Whether places can be asked for: a user's column of that name would hide them."""
        return PLACE not in (column.lower() for column in self.relation.columns)

    def files_with(self, leaving: pa.Table) -> tuple[DataFile, ...]:
        """The base files in which any of the rows occurs."""
        if not leaving.num_rows or not self.relation.files:
            return ()
        found = self.in_process.execute(
            f"SELECT DISTINCT r.{FILE} AS file FROM {scan(self._folder, self.relation.files, names=True)} AS r "
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
            f"FROM {scan(self._folder, self.relation.files, names=True, places=True)} AS r "
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
        source = f"{scan(self._folder, files, names=True, places=True)} AS r"
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
