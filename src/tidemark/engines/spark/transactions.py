"""The transactions table: the lake's own Delta table, in which one append is the commit point.

Each row is one record (a transaction or a merge) under a sequence number, with its small deltas inline as Arrow. A
row is there or it is not, so a transaction over many relations is committed whole or not at all; everything that
its record names was written before.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from tidemark.engines.spark import inline
from tidemark.engines.spark.condensing import condensed
from tidemark.engines.spark.inline import Log, Small
from tidemark.engines.spark.options import Options
from tidemark.engines.spark.records import (
    Committed,
    Noted,
    Record,
    are_commits,
    are_plain,
    may_name_files,
    naming_files,
    record_from_json,
    record_to_json,
)
from tidemark.errors import TidemarkError
from tidemark.log.commit import Logged
from tidemark.log.entries import runs_of
from tidemark.log.streams import from_bytes, read_many, to_bytes

APPLICATION: Final = "tidemark"
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
class Row:
    """One row of the table; ``trace`` is None for a merge."""

    sequence: int
    version: int
    time: dt.datetime
    record: Record
    trace: str | None = None


@dataclass(frozen=True)
class _Recent:
    row: Row
    deltas: Mapping[str, pa.Table]
    size_bytes: int


class Transactions:
    """The open table. Not safe for two writers: the lake's lock sees to that."""

    def __init__(self, path: Path, options: Options) -> None:
        self._path = path
        self._options = options
        self._table = _opened(path)
        self.sequence = self._table.transaction_version(APPLICATION) or 0
        self._recent: deque[_Recent] = deque()
        self._recent_bytes = 0
        self._uncompacted = len(self._table.file_uris())

    def version(self) -> int:
        """The version of the last transaction."""
        found = self._read(["version", "record"])
        last: int | None = pc.max(found.column("version").filter(are_commits(found.column("record")))).as_py()
        return last or 0

    def rows(self) -> list[Row]:
        """The rows in order, without traces and deltas, and without those that have nothing but small deltas."""
        found = self._read(["sequence", "version", "time", "record"])
        found = found.filter(pc.invert(are_plain(found.column("record")))).sort_by("sequence")
        return [Row(r["sequence"], r["version"], r["time"], record_from_json(r["record"])) for r in found.to_pylist()]

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
        """Append one row: the commit point. When it raises, the row is not there."""
        sequence = self.sequence + 1
        deltas = deltas or {}
        encoded = {name: to_bytes(delta) for name, delta in deltas.items()}
        moment = time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
        cells = [sequence, record.version, moment, record_to_json(record), trace, list(encoded), list(encoded.values())]
        table = pa.table([pa.array([cell], f.type) for cell, f in zip(cells, _SCHEMA, strict=True)], schema=_SCHEMA)
        self._write(table, sequence)
        self.sequence = sequence
        self._uncompacted += 1
        self._remember(Row(sequence, record.version, moment, record, trace), deltas, encoded)
        return sequence

    def _write(self, table: pa.Table, sequence: int) -> None:
        properties = CommitProperties(app_transactions=[Transaction(APPLICATION, sequence)])
        try:
            write_deltalake(
                self._table,
                table,
                mode="append",
                commit_properties=properties,
                post_commithook_properties=_NO_HOOKS,
            )
        except BaseException as error:
            # The append may have happened although the call failed: only the table itself knows.
            self._table = _opened(self._path)
            if self._table.transaction_version(APPLICATION) == sequence:
                return
            if isinstance(error, DeltaError | OSError):
                raise TidemarkError("storage_failed", f"the commit could not be written: {error}") from error
            raise

    def _remember(self, row: Row, deltas: Mapping[str, pa.Table], encoded: Mapping[str, bytes]) -> None:
        size = sum(len(data) for data in encoded.values()) + len(row.trace or "") + 200
        self._recent.append(_Recent(row, deltas, size))
        self._recent_bytes += size
        while self._recent_bytes > self._options.recent_bytes and len(self._recent) > 1:
            self._recent_bytes -= self._recent.popleft().size_bytes

    def compact_if_due(self) -> bool:
        """Rewrite the many one-row files into a large one; without this commits get slower and slower."""
        if self._uncompacted < self._options.compact_every:
            return False
        self._table.optimize.compact(target_size=COMPACTED_BYTES)
        self._table.create_checkpoint()
        # All files that are not in the table, because the names of removed ones are not remembered.
        self._table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
        self._table.cleanup_metadata()
        self._uncompacted = 0
        return True

    def forget(self, is_needed: Callable[[str, int, int], bool]) -> None:
        """Rewrite the table without the deltas that nobody needs, by relation, sequence and version, without what later
        records have replaced, forgotten traces, and rows that then say nothing.

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
        rewritten = _saying_something(pa.Table.from_pylist(rows, schema=_SCHEMA), self.version())
        write_deltalake(
            self._table,
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
        return self._table.to_pyarrow_table(columns=columns, filters=filters)


def _saying_something(rows: pa.Table, last: int) -> pa.Table:
    """The rows without those of transactions of which nothing is kept; that of the last version says which it is."""
    is_empty = pc.equal(pc.list_value_length(rows.column("relations")), 0)
    is_untraced = pc.is_null(rows.column("trace"))
    is_plain = pc.and_(are_plain(rows.column("record")), pc.not_equal(rows.column("version"), last))
    return rows.filter(pc.invert(pc.and_(is_plain, pc.and_(is_empty, is_untraced))))


def _naming_files(rows: pa.Table) -> pa.ChunkedArray:
    """The records among the rows that are worth reading for the files that they name."""
    texts = rows.column("record")
    return texts.filter(may_name_files(texts))


def _opened(path: Path) -> DeltaTable:
    try:
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
