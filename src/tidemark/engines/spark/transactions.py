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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from tidemark.engines.spark import inline
from tidemark.engines.spark.delta_log import LOG, Append, checkpoints, entries, entry_path, nothing_said
from tidemark.engines.spark.inline import Log, Small
from tidemark.engines.spark.integrity import maintaining, mirror
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
from tidemark.engines.spark.seals import LAST_CHECKPOINT, Seal, Seals, no_panic, verify_parts, verify_transactions
from tidemark.engines.spark.session import Options
from tidemark.errors import TidemarkError
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
APPLICATION: Final = "tidemark"
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
_CONFIGURATION: Final = {
    "delta.logRetentionDuration": "interval 0 seconds",
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
}
"""Nobody reads old versions of this table. Delta would keep its log for a month and the names of removed files for a
week, and look through them at each commit: a busy lake would get slower from hour to hour."""
_NO_HOOKS: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""Checkpoints are made when the table is compacted, not in the middle of somebody's commit."""


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


class Transactions:
    """The open table. Not safe for two writers: the lake's lock sees to that."""

    def __init__(self, path: Path, options: Options, seals: Seals, store: Store, *, is_sealed: bool = True) -> None:
        self._path = path
        self._store = store
        mirror(store, path, parts=True)
        self._options = options
        self._seals = seals
        is_sealed = is_sealed and store.is_local  # what was brought from a bucket was looked at, and is sealed here
        if not store.is_local:
            seals.drop(path)
        if is_sealed:
            verify_transactions(path, seals)
        with maintaining(store, path):
            self._table = _opened(path)
        if is_sealed:
            verify_parts(path, self._parts(), seals)
        self._must_seal = True
        self._sealed({})
        self.sequence = self._table.transaction_version(APPLICATION) or 0
        self._recent: deque[_Recent] = deque()
        self._recent_bytes = 0
        self._uncompacted = len(self._table.file_uris())

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

    def _write(self, table: pa.Table, sequence: int) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        rows = sink.getvalue().to_pybytes()
        part = self._path / f"part-{uuid.uuid4().hex}.parquet"
        said = Append(part.name, len(rows), zlib.crc32(rows), sequence, table.num_rows)
        # By the names that are there, not by memory, which an interrupt may have left behind.
        entry, data = entry_path(self._path, max(entries(self._path)) + 1), said.encoded(APPLICATION)
        try:
            self._store.put_new(part, rows, is_synced=self._options.power)
            self._store.put_new(entry, data, is_synced=self._options.power)
        except BaseException as error:
            # The append may have happened although the call failed: only the log itself knows.
            if not self._store.came_to_be(entry, data, error, nothing_said()):
                self._discard(part)
                if isinstance(error, OSError):
                    raise TidemarkError("storage_failed", f"the commit could not be written: {error}") from error
                raise
            if not isinstance(error, OSError):
                raise  # it is committed, and whoever interrupts is told so by what is read again
        self._sealed({part: Seal(said.size, said.checksum), entry: Seal(len(data), zlib.crc32(data))})

    def _discard(self, part: Path) -> None:
        try:
            self._store.remove([part])
        except TidemarkError:  # the next compaction finds it
            _logger.warning("%s could not be removed", part.name, exc_info=True)

    def _sealed(self, written: dict[Path, Seal]) -> None:
        """Seal an append, or what has no seal yet. It is committed, and tells by its own checksums that it is whole:
        this need not succeed."""
        try:
            if self._must_seal:
                self._seal()
            else:
                self._seals.put(written)
        except OSError:
            self._must_seal = True
            _logger.warning("the last commit could not be sealed", exc_info=True)

    def _seal(self) -> None:
        """Seal all that belongs to the table and has no seal: entries, checkpoints and files of rows.

        What delta-rs wrote is on the disk before it is sealed, since what it replaces goes next.
        """
        self._must_seal = True
        # In this order: an entry that has a seal adds nothing that has none, wherever the write is cut short.
        new = [path for path in self.files() if path not in self._seals]
        for path in (*new, *((self._path, self._path / LOG) if new else ())):
            sync(path)
        self._seals.add(new)
        self._must_seal = False

    def _parts(self) -> list[str]:
        """The files that hold the rows of the table, by name."""
        self._current()
        return [unquote(uri.rsplit("/", 1)[1]) for uri in self._table.file_uris()]

    def files(self) -> list[Path]:
        """All files that the table needs: those of rows, entries of its log in order, and checkpoints."""
        parts = [self._path / name for name in self._parts()]
        written = entries(self._path)
        return [*parts, *(written[version] for version in sorted(written)), *checkpoints(self._path).values()]

    def _current(self) -> DeltaTable:
        """The table with what was appended since it was last read."""
        self._table.update_incremental()
        return self._table

    def _remember(self, row: TransactionRow, deltas: Mapping[str, pa.Table], encoded: Mapping[str, bytes]) -> None:
        size = sum(len(data) for data in encoded.values()) + len(row.trace or "") + 200
        self._recent.append(_Recent(row, deltas, size))
        self._recent_bytes += size
        while self._recent_bytes > self._options.recent_bytes and len(self._recent) > 1:
            self._recent_bytes -= self._recent.popleft().size_bytes

    def compact_if_due(self) -> bool:
        """Rewrite the many one-row files into a large one; without this commits get slower and slower."""
        if self._uncompacted < self._options.compact_every:
            return False
        table = self._current()
        with self._maintaining():
            table.optimize.compact(target_size=COMPACTED_BYTES)
            self._seal()
            table.create_checkpoint()
            self._seal()
            # All files that are not in the table, because the names of removed ones are not remembered.
            table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
            table.cleanup_metadata()
        self._seals.forget_missing(self._path)
        self._uncompacted = 0
        return True

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
        properties = CommitProperties(app_transactions=[Transaction(APPLICATION, self.sequence)])
        rewritten = _saying_something(pa.Table.from_pylist(rows, schema=_SCHEMA), min(oldest, self.version()))
        with self._maintaining():
            write_deltalake(
                self._current(),
                rewritten,
                mode="overwrite",
                commit_properties=properties,
                post_commithook_properties=_NO_HOOKS,
            )
            self._table = _opened(self._path)
        self._recent.clear()
        self._recent_bytes = 0
        self._uncompacted = self._options.compact_every

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
        return self._current().to_pyarrow_table(columns=columns, filters=filters)

    @contextmanager
    def _maintaining(self) -> Iterator[None]:
        """While delta-rs writes to the log: whatever of it comes to be is sealed."""
        try:
            with maintaining(self._store, self._path):
                yield
        finally:
            (self._path / LOG / LAST_CHECKPOINT).unlink(missing_ok=True)
            self._must_seal = True
            self._seal()


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


def _opened(path: Path) -> DeltaTable:
    try:
        with no_panic(path.name):
            if DeltaTable.is_deltatable(path.as_uri()):
                return _configured(DeltaTable(path.as_uri()))
            if path.exists() and any(path.glob("*.parquet")):
                raise TidemarkError("not_a_database", f"{path} has lost its Delta log", hint="restore it from a backup")
            return DeltaTable.create(path.as_uri(), _SCHEMA, name="transactions", configuration=_CONFIGURATION)
    except DeltaError as error:
        raise TidemarkError(
            "not_a_database",
            f"the transactions of the lake cannot be read: {str(error).splitlines()[0]}",
            hint="the lake is damaged; restore it from a backup",
        ) from error


def _configured(table: DeltaTable) -> DeltaTable:
    if not _CONFIGURATION.items() <= table.metadata().configuration.items():
        table.alter.set_table_properties(_CONFIGURATION)
    return table
