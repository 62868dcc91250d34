"""The transactions table: the lake's own Delta table, in which one append is the commit point.

Each row is one record (a transaction or a merge) under a sequence number, with its small deltas inline as Arrow. A
row is there or it is not, so a transaction over many relations is committed whole or not at all; everything that
its record names was written before.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from tidemark.engines.spark.condensing import condensed
from tidemark.engines.spark.options import Options
from tidemark.engines.spark.records import Committed, Noted, Record, record_from_json, record_to_json
from tidemark.errors import TidemarkError
from tidemark.log.commit import Logged

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

    def rows(self) -> list[Row]:
        """All rows in order, without their traces and deltas."""
        found = self._read(["sequence", "version", "time", "record"])
        rows = [Row(r["sequence"], r["version"], r["time"], record_from_json(r["record"])) for r in found.to_pylist()]
        return sorted(rows, key=lambda row: row.sequence)

    def deltas_after(self, sequence: int) -> dict[int, dict[str, bytes]]:
        """The inline deltas of all later rows, by sequence number and relation."""
        found = self._read(["sequence", "relations", "deltas"], [("sequence", ">", sequence)])
        return {
            r["sequence"]: dict(zip(r["relations"] or (), r["deltas"] or (), strict=True)) for r in found.to_pylist()
        }

    def log(self, relation: str, since: int) -> Iterator[tuple[Row, pa.Table | None]]:
        """The rows after version ``since`` with the inline delta of the relation, in order."""
        if self._recent and self._recent[0].row.version <= since + 1 and not self._starts_inside(since + 1):
            for recent in self._recent:
                if recent.row.version > since:
                    yield recent.row, recent.deltas.get(relation)
            return
        columns = ["sequence", "version", "time", "record", "relations", "deltas"]
        found = self._read(columns, [("version", ">", since)])
        for r in sorted(found.to_pylist(), key=lambda r: int(r["sequence"])):
            inline = dict(zip(r["relations"] or (), r["deltas"] or (), strict=True)).get(relation)
            row = Row(r["sequence"], r["version"], r["time"], record_from_json(r["record"]))
            yield row, None if inline is None else from_bytes(inline)

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
        self._table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        self._table.cleanup_metadata()
        self._uncompacted = 0
        return True

    def forget(self, is_needed: Callable[[str, int, int], bool]) -> None:
        """Rewrite the table without the deltas that nobody needs, by relation, sequence and version, and without what
        later records have replaced and forgotten traces. It is one Delta commit, which is there or is not."""
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
        rewritten = pa.Table.from_pylist(rows, schema=_SCHEMA)
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
        found: list[Logged] = []
        for r in self._read(["version", "record", "relations", "deltas"]).to_pylist():
            record = record_from_json(r["record"])
            if not isinstance(record, Committed):
                continue
            inline = zip(r["relations"] or (), r["deltas"] or (), strict=True)
            found += [Logged(name, r["version"], len(data)) for name, data in inline]
            for changed in record.changed:
                size = sum(file.size_bytes for file in (*changed.inserted, *changed.weighted))
                found += [Logged(changed.relation, r["version"], size)] if size else []
        return found

    def _read(self, columns: list[str], filters: list[tuple[str, str, int]] | None = None) -> pa.Table:
        return self._table.to_pyarrow_table(columns=columns, filters=filters)


def to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def _opened(path: Path) -> DeltaTable:
    try:
        if DeltaTable.is_deltatable(path.as_uri()):
            return DeltaTable(path.as_uri())
        if path.exists() and any(path.glob("*.parquet")):
            raise TidemarkError("not_a_database", f"{path} has lost its Delta log", hint="restore it from a backup")
        configuration = {"delta.logRetentionDuration": "interval 1 days"}
        return DeltaTable.create(path.as_uri(), _SCHEMA, name="transactions", configuration=configuration)
    except DeltaError as error:
        raise TidemarkError(
            "not_a_database",
            f"the transactions of the lake cannot be read: {str(error).splitlines()[0]}",
            hint="the lake is damaged; restore it from a backup",
        ) from error
