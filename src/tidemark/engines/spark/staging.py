"""Writing the files that a commit names, before the commit: invisible until then, removed when it fails."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tidemark.algebra.types import WEIGHT
from tidemark.engines.spark.records import DataFile
from tidemark.log import deltas

ROW_GROUP: Final = 128 * 1024
BLOCK_BYTES: Final = 16 * 1024 * 1024
"""Of the row groups that Spark writes: short ones can be passed over one by one, and read side by side."""
CHANGES: Final = "_changes"
"""The folder of weighted entries within a relation's; Delta readers pass over names that begin with ``_``."""


class Staging:
    """The files staged for one commit or merge."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._written: list[Path] = []
        self._directories: list[Path] = []

    def begin(self, directory: str) -> None:
        """Make the folder of a relation to be created."""
        path = self._root / directory
        path.mkdir(parents=True)
        self._directories.append(path)

    def rows(self, directory: str, rows: pa.Table) -> tuple[DataFile, ...]:
        """Stage plain rows. They are sorted by nothing: files keep the order of arrival, which prunes well enough."""
        if not rows.num_rows:
            return ()
        return (self._write(directory, f"part-{uuid.uuid4().hex}.parquet", rows),)

    def weighted(self, directory: str, entries: pa.Table) -> tuple[DataFile, ...]:
        if not entries.num_rows:
            return ()
        return (self._write(directory, f"{CHANGES}/{uuid.uuid4().hex}.parquet", entries),)

    def written(self, directory: str, write: Callable[[Path], None]) -> tuple[DataFile, ...]:
        """Stage a file of rows that ``write`` makes at the path that it gets."""
        name = f"part-{uuid.uuid4().hex}.parquet"
        path = self._root / directory / name
        self._written.append(path)
        write(path)
        return (DataFile(name, pq.read_metadata(path).num_rows, path.stat().st_size),)

    def frame(self, directory: str, frame: DataFrame) -> tuple[DataFile, ...]:
        """Stage what Spark computes: it writes a folder of files, and those that hold rows are named."""
        folder = f"part-{uuid.uuid4().hex}"
        path = self._root / directory / folder
        self._written.append(path)
        writer = frame.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer = writer.option("parquet.block.size", str(BLOCK_BYTES))
        writer.parquet(path.as_posix())
        files = []
        for found in sorted(path.glob("*.parquet")):
            rows = pq.read_metadata(found).num_rows
            if rows:
                files.append(DataFile(f"{folder}/{found.name}", rows, found.stat().st_size))
        return tuple(files)

    def discard(self) -> None:
        """Remove everything, because the commit failed."""
        for path in (*self._written, *self._directories):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _write(self, directory: str, name: str, table: pa.Table) -> DataFile:
        path = self._root / directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._written.append(path)
        pq.write_table(table, path, row_group_size=ROW_GROUP, compression="zstd", store_schema=False)
        return DataFile(name, table.num_rows, path.stat().st_size)


def expand(entries: pa.Table) -> pa.Table:
    """The rows of positive weight, each as often as its weight says, without the weight."""
    inserted = deltas.inserted(entries)
    weights = inserted.column(WEIGHT)
    rows = inserted.select(list(range(inserted.num_columns - 1)))
    if not inserted.num_rows or pc.max(weights).as_py() == 1:
        return rows
    indices = [position for position, weight in enumerate(weights.to_pylist()) for _ in range(weight)]
    return rows.take(pa.array(indices, pa.int64()))
