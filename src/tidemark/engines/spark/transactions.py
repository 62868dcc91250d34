"""The transactions table: the lake's own Delta table, in which one append is the commit point.

Each row is one record (a transaction or a merge) under a sequence number, with its small deltas inline as Arrow. A
row is there or it is not, so a transaction over many relations is committed whole or not at all; everything that
its record names was written before.

What the records of a lake say, without what later ones have replaced.

Notes and what is kept of forgotten logs are written anew each time; only the last of each counts. Without this a lake
would grow with every subscriber that says how far it has come, and with every cut of a log with lagging consumers.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import Schema as DeltaSchema

from tidemark.engines.spark import inline
from tidemark.engines.spark.delta_log import (
    LOG,
    Action,
    Append,
    Standing,
    checkpoint_path,
    checkpoints,
    entries,
    entry_path,
    epoch_of,
    read_append,
    stamped,
    standing_from,
)
from tidemark.engines.spark.inline import Log, Small
from tidemark.engines.spark.lake import Lake, explained
from tidemark.engines.spark.records import (
    Committed,
    Merged,
    Noted,
    Record,
    are_commits,
    are_plain,
    may_name_files,
    naming_files,
    record_from_json,
    record_to_json,
)
from tidemark.engines.spark.seals import (
    Seal,
    seal_tail,
    tail_of,
    take_back,
    verify_parts,
    verify_transactions,
)
from tidemark.engines.spark.session import Options
from tidemark.errors import TidemarkError, is_fenced
from tidemark.storage.commit import Logged
from tidemark.storage.disk import sync
from tidemark.storage.store import Store
from tidemark.storage.streams import from_bytes, read_many, runs_of, to_bytes


def condensed(records: Sequence[Record]) -> list[Record | None]:
    """For each record what still counts of it: all of them together say the same as before. None if nothing does.

    A note that was taken away need not be said to be: whatever noted it says so no longer.
    """
    later_notes: set[str] = set()
    later_marks: set[str] = set()
    traces = 0
    result: list[Record | None] = []
    for record in reversed(records):
        if isinstance(record, Merged):
            result.append(record)
            continue
        notes = _last(record.notes, later_notes)
        later_notes |= record.notes.keys()
        if isinstance(record, Committed):
            later_marks |= {*record.dropped, *(created.relation for created in record.created)}
            result.append(replace(record, notes=notes))
            continue
        marks = {name: up_to for name, up_to in record.forgotten.items() if name not in later_marks}
        later_marks |= record.forgotten.keys()
        reach, traces = (record.traces if record.traces > traces else 0), max(traces, record.traces)
        is_said = bool(notes or marks or reach)
        result.append(replace(record, notes=notes, forgotten=marks, traces=reach) if is_said else None)
    return result[::-1]


def _last(notes: Mapping[str, str | None], later: Collection[str]) -> dict[str, str | None]:
    return {name: text for name, text in notes.items() if text is not None and name not in later}


_logger = logging.getLogger("tidemark.spark")
COMMIT_UNKNOWN: Final = "commit_unknown"
COMPACTED_BYTES: Final = 16 * 1024 * 1024
"""Files of this size are left alone, so that compaction stays cheap however long the log grows."""

_SCHEMA: Final = pa.schema(
    [
        pa.field("sequence", pa.int64()),
        pa.field("version", pa.int64()),
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("record", pa.string()),
        pa.field("trace", pa.string()),
        pa.field("relations", pa.list_(pa.string())),
        pa.field("deltas", pa.list_(pa.binary())),
    ]
)
_ATTEMPTS: Final = 100
_CHECKED: Final = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
"""Pages are compared with their checksums, as the files were when the lake was opened."""


@dataclass(frozen=True)
class TransactionRow:
    """One row of the table; ``trace`` is None for a merge."""

    sequence: int
    version: int
    time: dt.datetime
    record: Record
    trace: str | None = None


@dataclass(frozen=True)
class _Recent:
    row: TransactionRow
    deltas: Mapping[str, pa.Table]
    size_bytes: int


class StoredTransactions:
    """The table as it is read, as of one entry of its log."""

    def __init__(self, path: Path, options: Options, standing: Standing, store: Store) -> None:
        self._path, self._store = path, store
        self._options = options
        self._standing = standing
        self.sequence = standing.sequence
        self._recent: deque[_Recent] = deque()
        self._recent_bytes = 0

    @property
    def parts(self) -> Collection[str]:
        """The files that hold the rows, by name."""
        return self._standing.parts

    def version(self) -> int:
        """The version of the last transaction."""
        found = self._read(["version", "record"])
        last: int | None = pc.max(found.column("version").filter(are_commits(found.column("record")))).as_py()
        return last or 0

    def times(self) -> pa.Table:
        """The versions and times of the transactions that are there."""
        found = self._read(["version", "time", "record"])
        found = found.filter(are_commits(found.column("record"))).select(["version", "time"]).sort_by("version")
        return found.set_column(1, "time", found.column("time").cast(pa.timestamp("us")))

    def rows(self) -> list[TransactionRow]:
        """The rows in order, without traces and deltas, and without those that have nothing but small deltas."""
        found = self._read(["sequence", "version", "time", "record"])
        found = found.filter(pc.invert(are_plain(found.column("record")))).sort_by("sequence")
        return [
            TransactionRow(r["sequence"], r["version"], r["time"], record_from_json(r["record"]))
            for r in found.to_pylist()
        ]

    def small_deltas(self, settled: Mapping[str, int]) -> dict[str, list[Small]]:
        """The small deltas of each relation in and after the row where it is settled, in order."""
        columns = ["sequence", "version", "record", "relations"]
        changed = inline.of_transactions(self._read(columns)).select(["sequence", "relation"])
        sequences, names = (column.to_pylist() for column in changed.columns)
        needed = (number for number, name in zip(sequences, names, strict=True) if number >= settled.get(name, 0))
        first = next(needed, None)
        found: dict[str, list[Small]] = {}
        if first is None:
            return found
        later = inline.of_transactions(self._read([*columns, "deltas"], [("sequence", ">=", first)]))
        for number, version, name, data in zip(*(column.to_pylist() for column in later.columns), strict=True):
            if number >= settled.get(name, 0):
                found.setdefault(name, []).append(Small(number, version, data))
        return found

    def cells(self, sequence: int) -> dict[str, bytes]:
        """What stands inline in one row, by relation."""
        found = self._read(["relations", "deltas"], [("sequence", "=", sequence)]).to_pylist()
        return {n: data for r in found for n, data in zip(r["relations"] or (), r["deltas"] or (), strict=True)}

    def log(self, relation: str, since: int) -> Log:
        """What the transactions after version ``since`` logged of the relation."""
        if self._recent and self._recent[0].row.version <= since + 1 and not self._starts_inside(since + 1):
            recent = [one for one in self._recent if one.row.version > since and isinstance(one.row.record, Committed)]
            filed = naming_files(relation, (one.row.record for one in recent))
            tables = [(one.row.version, one.deltas[relation]) for one in recent if relation in one.deltas]
            return Log.of(tables, filed, runs_of, lambda delta: delta)
        found = self._read(["sequence", "version", "record", "relations", "deltas"], [("version", ">", since)])
        filed = naming_files(relation, map(record_from_json, _naming_files(found).to_pylist()))
        small = inline.of_transactions(found)
        small = small.filter(pc.equal(small.column("relation"), relation))
        streams = zip(small.column("version").to_pylist(), small.column("delta").to_pylist(), strict=True)
        return Log.of(streams, filed, read_many, from_bytes)

    def _starts_inside(self, version: int) -> bool:
        """Whether the oldest row in memory is a merge, so that the transaction of its version is not there."""
        first = self._recent[0].row
        return first.version == version and first.trace is None

    def trace(self, version: int) -> str | None:
        for recent in self._recent:
            if recent.row.version == version and recent.row.trace is not None:
                return recent.row.trace
        found = self._read(["trace"], [("version", "=", version)])
        return next((text for text in found.column("trace").to_pylist() if text is not None), None)

    def _remember(self, row: TransactionRow, deltas: Mapping[str, pa.Table], encoded: Mapping[str, bytes]) -> None:
        size = sum(len(data) for data in encoded.values()) + len(row.trace or "") + 200
        self._recent.append(_Recent(row, deltas, size))
        self._recent_bytes += size
        while self._recent_bytes > self._options.recent_bytes and len(self._recent) > 1:
            self._recent_bytes -= self._recent.popleft().size_bytes

    def logged(self) -> list[Logged]:
        """How much each transaction logs of each relation: inline, and in files."""
        found = self._read(["sequence", "version", "record", "relations", "deltas"])
        small = inline.of_transactions(found)
        sizes = pc.binary_length(small.column("delta"))
        logged = map(Logged, small["relation"].to_pylist(), small["version"].to_pylist(), sizes.to_pylist())
        filed = (record_from_json(text) for text in _naming_files(found).to_pylist())
        return [
            *logged,
            *(
                Logged(changed.relation, record.version, sum(file.size_bytes for file in changed.files))
                for record in filed
                if isinstance(record, Committed)
                for changed in record.changed
                if changed.files
            ),
        ]

    def _read(self, columns: list[str], filters: list[tuple[str, str, int]] | None = None) -> pa.Table:
        """Some columns of the rows, in no order."""
        if not self._standing.parts:
            return pa.schema([_SCHEMA.field(name) for name in columns]).empty_table()
        paths = [str(self._path / name) for name in self._standing.parts]
        chosen = None if filters is None else pq.filters_to_expression(filters)

        def read() -> pa.Table:
            return ds.dataset(paths, schema=_SCHEMA, format=_CHECKED).to_table(columns=columns, filter=chosen)

        try:
            return read()
        except (OSError, pa.ArrowInvalid):
            if self._store.is_local or not all((self._path / name).exists() for name in self._standing.parts):
                raise
        # What is wrong in the cache need not be wrong in the bucket.
        self._store.fetch(((self._path / name, size) for name, size in self._standing.parts.items()), is_stale=True)
        return read()


class Transactions(StoredTransactions):
    """The open table of the writer of an epoch. It is of no use to two threads at once."""

    def __init__(self, lake: Lake, options: Options) -> None:
        path, is_sealed = lake.transactions, lake.is_sealed
        if lake.epoch and not lake.store.is_local:
            lake.seals = lake.read_seals()  # the log is brought anew with them
        if not lake.epoch:
            _take_epoch(lake)
            if is_sealed:
                seal_tail(path, lake.seals)
        base = verify_transactions(path, lake.seals) if is_sealed else max(checkpoints(path), default=-1)
        super().__init__(path, options, standing_from(path, base), lake.store)
        self._lake, self._epoch, self._seals = lake, lake.epoch, lake.seals
        self.must_hold()
        if is_sealed:
            lake.seals.owe(tail_of(path, lake.seals).whole)  # what an interrupt has kept from being sealed
            verify_parts(path, self._standing.parts, lake.seals)
        self._must_seal = True
        if not is_sealed:
            self._seals.add(checkpoints(path).values())
        self._sealed({})
        self._uncompacted = max(len(self._standing.parts), self._standing.entry - base)

    def append(
        self, record: Record, time: dt.datetime, trace: str | None = None, deltas: Mapping[str, pa.Table] | None = None
    ) -> int:
        """Append one row: the commit point. When it raises a TidemarkError, the row is not there, unless that says that
        it is not known. After any other exception it may be there or not."""
        sequence = self.sequence + 1
        deltas = deltas or {}
        encoded = {name: to_bytes(delta) for name, delta in deltas.items()}
        moment = time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
        cells = [sequence, record.version, moment, record_to_json(record), trace, list(encoded), list(encoded.values())]
        table = pa.table([pa.array([cell], f.type) for cell, f in zip(cells, _SCHEMA, strict=True)], schema=_SCHEMA)
        self._write(table, sequence)
        self.sequence = sequence
        self._uncompacted += 1
        self._remember(TransactionRow(sequence, record.version, moment, record, trace), deltas, encoded)
        return sequence

    def append_merges(self, merges: Sequence[Merged], time: dt.datetime) -> None:
        """Append a row for each of some merges, all at once."""
        first = self.sequence + 1
        rows = [TransactionRow(first + place, merged.version, time, merged) for place, merged in enumerate(merges)]
        cells = [
            {"sequence": row.sequence, "version": row.version, "time": time, "record": record_to_json(row.record)}
            | {"relations": [], "deltas": []}
            for row in rows
        ]
        self._write(pa.Table.from_pylist(cells, schema=_SCHEMA), rows[-1].sequence)
        self.sequence = rows[-1].sequence
        self._uncompacted += 1
        for row in rows:
            self._remember(row, {}, {})

    def must_hold(self, *, is_asked: bool = False) -> None:
        """Refuse to go on if another writer has taken the place of this one. A bucket is asked if it ``is_asked``: else
        what is known of it counts, since its next entry is refused in any case."""
        if self._lake.is_lost:
            raise self._fenced()
        entry = entry_path(self._path, self._standing.entry + 1)
        if is_asked and not self._store.is_local:
            with suppress(FileNotFoundError):
                self._store.keep(entry, self._store.read(entry))
        if self._standing.epoch > self._epoch or (entry.exists() and _epoch_at(entry) != self._epoch):
            raise self._fenced()
        if (is_asked or self._store.is_local) and not self._has_last():
            raise self._fenced()

    def _has_last(self) -> bool:
        """Whether the last entry that this writer knows is there. A successor that has made checkpoints removes it, and
        only then the next one, so that its place would be free again."""
        return self._store.about(entry_path(self._path, self._standing.entry)) is not None

    def _fenced(self) -> TidemarkError:
        """The error, which is told in the program's log the first time."""
        said = f"another writer has taken over {self._store.url}: this connection changes nothing there any more"
        if not self._lake.is_lost:
            self._lake.is_lost = True
            _logger.warning("%s", said)
        return TidemarkError("fenced", said, hint="close it, and connect again: what was committed before is there")

    def know_own(self) -> None:
        """Know all entries of this writer; ``fenced`` if another one has taken its place after them."""
        try:
            while True:
                self.must_hold(is_asked=True)
                entry = entry_path(self._path, self._standing.entry + 1)
                if not entry.exists():
                    return
                self._standing = self._standing.after(entry.read_bytes())
                self._recent.clear()  # what it adds is not among them
                self._recent_bytes = 0
        finally:
            self.sequence = self._standing.sequence

    @property
    def is_followed(self) -> bool:
        """Whether the next place of the log is taken, so that nothing more of this writer can be there."""
        return entry_path(self._path, self._standing.entry + 1).exists()

    def _write(self, table: pa.Table, sequence: int, removed: tuple[str, ...] = ()) -> None:
        """Put rows at the next place of the log, and nowhere else, in the place of those of some files. Then they are
        on the disk, since what they replace goes."""
        part: Path | None = None
        rows = b""
        if table.num_rows or not removed:
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
            rows = sink.getvalue().to_pybytes()
            part = self._path / f"{stamped('part-', self._epoch, uuid.uuid4().hex)}.parquet"
        name = None if part is None else part.name
        said = Append(name, len(rows), zlib.crc32(rows), sequence, table.num_rows, self._epoch, removed)
        self._skip_own()
        entry, data = entry_path(self._path, self._standing.entry + 1), said.encoded()
        try:
            is_synced = self._options.power or bool(removed)
            if part is not None:
                self._store.put_new(part, rows, is_synced=is_synced)
            self._store.put_new(entry, data, is_synced=is_synced)
        except BaseException as error:
            # The append may have happened although the call failed: only the log itself knows.
            nothing = Append(None, 0, 0, self.sequence, 0, self._epoch).encoded()
            if not self._store.came_to_be(entry, data, error, nothing):
                self._must_seal = True  # what was put instead, if anything was
                if part is not None:
                    self._discard(part)
                if isinstance(error, OSError):
                    self.must_hold(is_asked=True)
                    raise TidemarkError("storage_failed", f"the commit could not be written: {error}") from error
                raise
            if not isinstance(error, OSError):
                raise  # it is committed, and whoever interrupts is told so by what is read again
        try:
            has_last = self._has_last()
        except TidemarkError as error:
            raise TidemarkError(
                COMMIT_UNKNOWN, f"it is not known whether the transaction was committed: {error.message}"
            ) from error
        if not has_last:  # nobody reads what was put: it is before the checkpoint of a successor
            self._store.remove([entry, *([] if part is None else [part])])
            raise self._fenced()
        self._standing = self._standing.after(data)
        seals = {} if part is None else {part: Seal(said.size, said.checksum)}
        self._sealed({**seals, entry: Seal(len(data), zlib.crc32(data))})

    def _discard(self, part: Path) -> None:
        try:
            self._store.remove([part])
        except TidemarkError:  # the next compaction finds it
            _logger.warning("%s could not be removed", part.name, exc_info=True)

    def _skip_own(self) -> None:
        """Know entries of this writer that an interrupt has kept from being known."""
        while (entry := entry_path(self._path, self._standing.entry + 1)).exists():
            self.must_hold()
            self._standing = self._standing.after(entry.read_bytes())

    def _sealed(self, written: dict[Path, Seal]) -> None:
        """Seal an append, or what has no seal yet. It is committed, and tells by its own checksums that it is whole:
        this need not succeed."""
        try:
            if self._must_seal:
                self._seal()
            else:
                self._seals.put(written)
        except OSError as error:
            self._must_seal = True
            if not is_fenced(explained(error, self.must_hold)):  # which is told once
                _logger.warning("the last commit could not be sealed", exc_info=True)

    def _seal(self) -> None:
        """Seal all that belongs to the table and has no seal: entries, checkpoints and files of rows.

        It is on the disk before it is sealed, since what it replaces goes next.
        """
        self._must_seal = True
        # In this order: an entry that has a seal adds nothing that has none, wherever the write is cut short.
        new = [path for path in self.files() if path not in self._seals]
        for path in (*new, *((self._path, self._path / LOG) if new else ())):
            sync(path)
        self._seals.add(new)
        self._must_seal = False

    def files(self) -> list[Path]:
        """All files that the table needs: those of rows, entries of its log in order, and checkpoints."""
        parts = [self._path / name for name in self._standing.parts]
        written = {version: path for version, path in entries(self._path).items() if version <= self._standing.entry}
        return [*parts, *(written[version] for version in sorted(written)), *self._points().values()]

    def _points(self) -> dict[int, Path]:
        """The checkpoints that have a seal, by entry."""
        return {entry: path for entry, path in checkpoints(self._path).items() if path in self._seals}

    def compact_if_due(self) -> bool:
        """Put the many one-row files into a larger one; without this commits get slower and slower.

        It is an entry at the next place, as any other. What it replaces is let go of at the next time, so that who
        follows need not begin anew: files, by names that are never used twice, of this epoch or earlier ones; and
        entries before the checkpoint of the last time, the oldest first, so that where one is, the next one is.
        """
        if self._uncompacted < self._options.compact_every:
            return False
        self._skip_own()
        kept = max(self._points(), default=-1)
        small = [name for name, size in self._standing.parts.items() if size < COMPACTED_BYTES]
        if len(small) > 1:
            self._replace(small, self._rows_of(small))
        self._checkpoint()
        self._clean(kept, {*small})
        self._uncompacted = 0
        return True

    def _rows_of(self, names: Iterable[str]) -> pa.Table:
        tables = [pq.ParquetFile(self._path / name, page_checksum_verification=True).read() for name in names]
        return pa.concat_tables([table.cast(_SCHEMA) for table in tables])

    def _replace(self, names: Iterable[str], rows: pa.Table) -> None:
        self._write(rows, self.sequence, tuple(names))
        self._must_seal = True
        self._seal()

    def _checkpoint(self) -> None:
        path = checkpoint_path(self._path, self._standing.entry)
        if not path.exists():
            self._store.put_new(path, self._standing.checkpoint(), is_synced=True)
        self._seals.add([path])

    def _clean(self, before: int, replaced: Collection[str]) -> None:
        """Remove files that are named no more, but for those that were replaced just now, and entries and checkpoints
        before an entry that a checkpoint has.

        Whoever is stopped here and overtaken removes nothing that the successor needs: its files are of a later epoch,
        and it begins at a checkpoint that had its seal before the epoch was taken, or this is never reached.
        """
        self.must_hold(is_asked=True)
        needed = {*self._standing.parts, *replaced}
        gone = [path for path in self._path.glob("*.parquet") if path.name not in needed]
        self._store.remove(path for path in gone if epoch_of(path.name) <= self._epoch)
        for found in (entries(self._path), checkpoints(self._path)):
            for version in sorted(found):  # in this order: see ``_has_last``
                if version < before:
                    self._store.remove([found[version]])
        self._seals.forget_missing(self._path)

    def forget(self, is_needed: Callable[[str, int, int], bool], oldest: int) -> None:
        """Rewrite the table without the deltas that nobody needs, by relation, sequence and version, without what later
        records have replaced, forgotten traces, and rows before the ``oldest`` version that then say nothing.

        It is one Delta commit, which is there or is not.
        """
        found = self._read(_SCHEMA.names).sort_by("sequence").to_pylist()
        records = [record_from_json(r["record"]) for r in found]
        traces = max((record.traces for record in records if isinstance(record, Noted)), default=0)
        rows = []
        for r, record in zip(found, condensed(records), strict=True):
            if record is None:
                continue
            cells = zip(r["relations"] or (), r["deltas"] or (), strict=True)
            if isinstance(record, Noted):
                kept = [(name, data) for name, data in cells if name in record.forgotten]
            else:
                kept = [(name, data) for name, data in cells if is_needed(name, r["sequence"], r["version"])]
            parts = {"relations": [n for n, _ in kept], "deltas": [d for _, d in kept]}
            trace = None if r["version"] <= traces else r["trace"]
            rows.append({**r, **parts, "record": record_to_json(record), "trace": trace})
        rewritten = _saying_something(pa.Table.from_pylist(rows, schema=_SCHEMA), min(oldest, self.version()))
        self._replace(list(self._standing.parts), rewritten)
        self._recent.clear()
        self._recent_bytes = 0
        self._uncompacted = self._options.compact_every


def _saying_something(rows: pa.Table, oldest: int) -> pa.Table:
    """The rows without those of older transactions of which nothing is kept. Others say when they were committed, and
    that of the last version which it is."""
    is_empty = pc.equal(pc.list_value_length(rows.column("relations")), 0)
    is_untraced = pc.is_null(rows.column("trace"))
    is_plain = pc.and_(are_plain(rows.column("record")), pc.less(rows.column("version"), oldest))
    return rows.filter(pc.invert(pc.and_(is_plain, pc.and_(is_empty, is_untraced))))


def _naming_files(rows: pa.Table) -> pa.ChunkedArray:
    """The records among the rows that are worth reading for the files that they name."""
    texts = rows.column("record")
    return texts.filter(may_name_files(texts))


def _take_epoch(lake: Lake) -> None:
    """Take the next epoch, by an entry at the next place of the log. From here on nobody of an earlier one can append.

    The number is one more than all that are known from names and from entries without a seal: what was sealed belongs
    to an epoch that has a file of seals.
    """
    path = lake.transactions
    lake.must_know_epochs()
    for _ in range(_ATTEMPTS):
        with lake.taking_place():
            if not (path / LOG).is_dir():
                _must_be_new(path)
                (path / LOG).mkdir(parents=True)
            for draft in (path / LOG).glob(".*.draft"):
                draft.unlink(missing_ok=True)
            last, epoch = max(entries(path), default=-1), 0
            if lake.is_sealed:
                tail = tail_of(path, lake.read_seals())
                take_back(tail.torn)
                last, epoch = tail.last, tail.epoch
            epoch = 1 + max(epoch, lake.last_epoch())
            data = Append(None, 0, 0, None, 0, epoch).encoded(_beginning() if last < 0 else ())
            try:
                lake.store.put_new(entry_path(path, last + 1), data, is_synced=True)
            except FileExistsError:
                continue  # the writer that is overtaken has committed meanwhile, or somebody else takes over
        lake.take(epoch)
        return
    raise TidemarkError("in_use", f"{lake.store.url} changes hands too fast", hint="try again")


def _must_be_new(path: Path) -> None:
    if path.exists() and any(path.glob("*.parquet")):
        raise TidemarkError("not_a_database", f"{path} has lost its Delta log", hint="restore it from a backup")


def _beginning() -> list[Action]:
    """What a new table is. Nobody reads old versions of it."""
    metadata = {
        "id": str(uuid.uuid4()),
        "name": "transactions",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": DeltaSchema.from_arrow(_SCHEMA).to_json(),
        "partitionColumns": [],
        "configuration": {},
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def _epoch_at(entry: Path) -> int:
    """The epoch of the writer of an entry; of one that is not ours, none."""
    found = read_append(entry.read_bytes())
    return -1 if found is None else found.epoch
