"""Writing the files that a commit names, before the commit: invisible until then, removed when it fails.

Staging a commit: everything that its record will name is written first.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tidemark.algebra.plans import Plan, Project, Stored
from tidemark.algebra.types import WEIGHT
from tidemark.engines.spark.delta_log import stamped
from tidemark.engines.spark.in_process import InProcess
from tidemark.engines.spark.integrity import Verified
from tidemark.engines.spark.lake import Lake
from tidemark.engines.spark.records import Altered, Changed, Committed, Created, DataFile
from tidemark.engines.spark.relations import Relation, Relations, begin
from tidemark.engines.spark.routing import reads_nothing, without_empty
from tidemark.engines.spark.session import Options
from tidemark.engines.spark.statements import Statements
from tidemark.errors import TidemarkError
from tidemark.storage import delta as deltas
from tidemark.storage.commit import Alteration, Commit, Creation
from tidemark.storage.delta import Rows, as_rows
from tidemark.storage.disk import checksum_of, sync
from tidemark.storage.filed import FiledRows

ROW_GROUP: Final = 128 * 1024
BLOCK_BYTES: Final = 16 * 1024 * 1024
"""Of the row groups that Spark writes: short ones can be passed over one by one, and read side by side."""
NEW, REWRITTEN = "part-", "base-"
"""How files are called that bring rows, and those of merges, whose rows stood in others before."""
CHANGES: Final = "_changes"
"""The folder of weighted entries within a relation's; Delta readers pass over names that begin with ``_``."""


class Staging:
    """The files staged for one commit or merge."""

    def __init__(self, verified: Verified, epoch: int, *, power: bool = False) -> None:
        self._store, self._root, self._epoch = verified.store, verified.root, epoch
        self._verified = verified
        self._power = power
        self._written: list[Path] = []
        self._far: list[Path] = []
        self._directories: list[Path] = []
        self._is_sent = False
        self.is_named = False
        """Whether a record may name the files. Then they stay until that is known."""

    @contextmanager
    def discarded_on_failure(self) -> Iterator[None]:
        """Remove what was staged if an exception comes before a record can name it."""
        try:
            yield
        except BaseException:
            if not self.is_named:
                self.discard()
            raise

    def begin(self, directory: str) -> None:
        """Make the folder of a relation to be created."""
        path = self._root / directory
        if not path.exists():  # else it is that of a relation of the same name, whose table this one continues
            path.mkdir(parents=True)
            self._directories.append(path)

    def rows(self, directory: str, rows: pa.Table, kind: str = NEW) -> tuple[DataFile, ...]:
        """Stage plain rows. They are sorted by nothing: files keep the order of arrival, which prunes well enough."""
        if not rows.num_rows:
            return ()
        return (self._write(directory, f"{self._new(kind)}.parquet", rows),)

    def weighted(self, directory: str, entries: pa.Table) -> tuple[DataFile, ...]:
        if not entries.num_rows:
            return ()
        return (self._write(directory, f"{self._new(f'{CHANGES}/')}.parquet", entries),)

    def written(self, directory: str, write: Callable[[Path], None]) -> tuple[DataFile, ...]:
        """Stage a file of rows that stood elsewhere, which ``write`` makes at the path that it gets."""
        name = f"{self._new(REWRITTEN)}.parquet"
        path = self._root / directory / name
        self._written.append(path)
        write(path)
        return (self._named(directory, name, pq.read_metadata(path).num_rows),)

    def frame(self, directory: str, frame: DataFrame, kind: str = NEW) -> tuple[DataFile, ...]:
        """Stage what Spark computes: it writes a folder of files, and those that hold rows are named."""
        folder = self._new(kind)
        path = self._root / directory / folder
        (self._far if self._store.is_far else self._written).append(path)
        writer = frame.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer = writer.option("parquet.block.size", str(BLOCK_BYTES))
        writer = writer.option("parquet.page.write-checksum.enabled", "true")
        writer.parquet(self._store.spark_url(path))
        if self._store.is_far:
            return self._found_far(directory, folder)
        files = []
        for found in sorted(path.glob("*.parquet")):
            rows = pq.read_metadata(found).num_rows
            if rows:
                files.append(self._named(directory, f"{folder}/{found.name}", rows))
        for checksums in path.glob(".*.crc"):
            checksums.unlink()  # Hadoop's, which only Hadoop looks at; records have ours
        return tuple(files)

    def adopt(self, other: Staging) -> None:
        """Have what another has staged: it is kept or discarded with this."""
        self._written += other._written
        self._far += other._far
        other._written, other._far = [], []

    def names(self) -> set[str]:
        """The files that were staged, by their paths within the folders of relations."""
        far = (path for folder in self._far for path in self._store.listed(folder))
        return {_within(path.relative_to(self._root)) for path in (*self._files(), *far)}

    def _new(self, kind: str) -> str:
        """A name that was never used, which tells the epoch of the writer."""
        return stamped(kind, self._epoch, uuid.uuid4().hex)

    def _found_far(self, directory: str, folder: str) -> tuple[DataFile, ...]:
        """What Spark has written to the lake's bucket itself. It is not read for a checksum: its pages have some."""
        listed = self._store.listed(self._root / directory / folder)
        found = [path for path in sorted(listed) if path.suffix == ".parquet"]
        rows = [(path, self._store.rows_of(path)) for path in found]
        return tuple(DataFile(f"{folder}/{path.name}", count, listed[path].size) for path, count in rows if count)

    def settle(self) -> None:
        """Before the record that names the files: all of them are where they stay, and on the disk, if that was asked
        for."""
        self._is_sent = True
        if not self._store.is_local:
            self._store.upload(self._files())
        if not self._power:
            return
        files = self._files()
        folders = {parent for path in (*files, *self._directories) for parent in path.parents if self._is_ours(parent)}
        for path in (
            *files,
            *sorted(folders | {*self._directories}, reverse=True),
        ):
            sync(path)

    def _files(self) -> list[Path]:
        found = (path for written in self._written for path in (written.rglob("*") if written.is_dir() else [written]))
        return [path for path in found if path.is_file()]

    def _is_ours(self, folder: Path) -> bool:
        return folder == self._root or self._root in folder.parents

    def _named(self, directory: str, name: str, rows: int) -> DataFile:
        """A file that was just written, as the record names it."""
        file = DataFile(name, rows, *checksum_of(self._root / directory / name))
        self._verified.know(directory, [file])
        return file

    def discard(self) -> None:
        """Remove everything that was written, because the commit failed. A folder of a relation goes only if it is
        empty: a writer that has taken the place of this one may have its own files in it."""
        with suppress(TidemarkError):  # the next sweep finds them
            if self._is_sent and not self._store.is_local:
                self._store.remove(self._files())
            for far in self._far:
                self._store.remove(self._store.listed(far))
        for path in self._written:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        for folder in self._directories:
            for inner in (folder / CHANGES, folder):
                with suppress(OSError):
                    inner.rmdir()

    def _write(self, directory: str, name: str, table: pa.Table) -> DataFile:
        path = self._root / directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._written.append(path)
        pq.write_table(
            table, path, row_group_size=ROW_GROUP, compression="zstd", store_schema=False, write_page_checksum=True
        )
        return self._named(directory, name, table.num_rows)


def _within(path: Path) -> str:
    """A path within the folder of a relation, which is two folders down."""
    return Path(*path.parts[2:]).as_posix()


def expand(entries: pa.Table) -> pa.Table:
    """The rows of positive weight, each as often as its weight says, without the weight."""
    inserted = deltas.inserted(entries)
    weights = inserted.column(WEIGHT)
    rows = inserted.select(list(range(inserted.num_columns - 1)))
    if not inserted.num_rows or pc.max(weights).as_py() == 1:
        return rows
    indices = [position for position, weight in enumerate(weights.to_pylist()) for _ in range(weight)]
    return rows.take(pa.array(indices, pa.int64()))


@dataclass(frozen=True)
class Staged:
    """A record to append, the deltas that go into its row, and all entries that go to the relations' tails."""

    record: Committed
    inline: Mapping[str, pa.Table]
    entries: Mapping[str, pa.Table]


@dataclass
class Stager:
    """Stages one commit."""

    lake: Lake
    options: Options
    staging: Staging
    statements: Statements
    in_process: InProcess
    adopt: Callable[[FiledRows, Staging], tuple[DataFile, ...]]
    """Gives the files of a change that lies in files to the commit."""
    inline: dict[str, pa.Table] = field(default_factory=dict)
    entries: dict[str, pa.Table] = field(default_factory=dict)

    def stage(self, commit: Commit, relations: Relations) -> Staged:
        working = {name: relation for name, relation in relations.items() if name not in commit.dropped}
        altered = []
        for alteration in commit.altered:
            new = self._alter(alteration, working)
            working[alteration.relation] = working[alteration.relation].with_alteration(new, commit.version)
            altered.append(new)
        created = []
        for creation in commit.created:
            record = self._create(creation, commit, working)
            # Later ones may read it: relations are filled in order.
            working[creation.relation] = begin(record, commit.version)
            created.append(record)
        deltas_of = as_rows(commit.deltas).items()
        changed = tuple(self._changed(working[name], delta) for name, delta in deltas_of if delta.count)
        committed = Committed(commit.version, commit.catalog, tuple(created), changed, commit.dropped, tuple(altered))
        committed = replace(committed, notes=dict(commit.notes))
        return Staged(committed, self.inline, self.entries)

    def _create(self, creation: Creation, commit: Commit, working: Relations) -> Created:
        name, version = creation.relation, commit.version
        directory = self.lake.directory(name, internal=creation.internal)
        self.staging.begin(directory)
        empty = Created(name, creation.schema, directory, creation.logged, creation.internal, (), creation.kept)
        return replace(empty, files=self._filled(creation, begin(empty, version), commit.given, working))

    def _alter(self, alteration: Alteration, working: Relations) -> Altered:
        """All rows are written anew, with the new columns: any reader of the files finds them there."""
        before = working[alteration.relation]
        added = before.added + alteration.values
        after = replace(before, schema=alteration.schema, added=added)
        files = self._filled(Creation(before.name, alteration.schema, alteration.rows), after, {}, working)
        return Altered(before.name, alteration.schema, added, files, tuple(file.path for file in before.files))

    def _filled(
        self, creation: Creation, relation: Relation, given: Mapping[str, pa.Table], working: Relations
    ) -> tuple[DataFile, ...]:
        if creation.plan is None:
            return ()
        plan = without_empty(creation.plan, {name: stored.rows for name, stored in working.items()})
        if reads_nothing(plan, working, self.options) or self._is_short(plan, working):
            rows = self.in_process.rows(plan, given, working).rename_columns(creation.schema.arrow.names)
            rows = rows.cast(creation.schema.arrow).rename_columns(list(relation.columns))
            return self.staging.rows(relation.directory, rows)
        return self.statements.write(
            plan,
            given,
            working,
            lambda frame: self.staging.frame(relation.directory, frame.toDF(*relation.columns)),
        )

    def _is_short(self, plan: Plan, working: Relations) -> bool:
        """Whether the plan only copies a relation of a few rows, which Spark need not be asked for."""
        if not isinstance(plan, Project) or not isinstance(plan.input, Stored):
            return False
        return working[plan.input.relation].rows <= min(self.options.local_rows, self.options.merge_rows)

    def _changed(self, relation: Relation, change: Rows) -> Changed:
        if not isinstance(change, FiledRows):
            return self._change(relation, change.table)
        inserted = self.adopt(change, self.staging)
        return self._with_leaving(relation, inserted, change.leaving)

    def _change(self, relation: Relation, delta: pa.Table) -> Changed:
        """A small delta stays in memory and goes into the commit's row; of a large one, new rows become base files."""
        name, directory = relation.name, relation.directory
        delta = delta.rename_columns(relation.schema.weighted.names).cast(relation.schema.weighted)
        if self._is_small(delta):
            self.inline[name] = self.entries[name] = delta
            return Changed(name, inline=True)
        rows = expand(delta).rename_columns(list(relation.columns))
        return self._with_leaving(relation, self.staging.rows(directory, rows), deltas.deleted(delta))

    def _with_leaving(self, relation: Relation, inserted: tuple[DataFile, ...], leaving: pa.Table) -> Changed:
        name, directory = relation.name, relation.directory
        if not leaving.num_rows:
            return Changed(name, inserted)
        self.entries[name] = leaving
        if self._is_small(leaving):
            self.inline[name] = leaving
            return Changed(name, inserted, inline=True)
        return Changed(name, inserted, self.staging.weighted(directory, leaving))

    def _is_small(self, delta: pa.Table) -> bool:
        return bool(delta.num_rows <= self.options.inline_rows and delta.nbytes <= self.options.inline_bytes)
