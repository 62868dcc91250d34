"""The table of transactions for several threads: one that commits, and those that read the log beside it.

The table of transactions as a process follows it that only reads: nothing is written, and nothing is locked.

New entries of the log are read as they come. A writer keeps an entry for as long as it takes to commit many more; who
was away for longer finds that entries are gone, and begins anew at a checkpoint. That is seen without looking at the
names in the folder: entries go in order, the oldest first, so that the entry after one that is still there has never
been written if it is not there.
"""

from __future__ import annotations

import datetime as dt
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.engines.spark.delta_log import Append, Standing, entry_path, is_whole, read_append, standing_from
from tidemark.engines.spark.inline import Log
from tidemark.engines.spark.lake import Lake
from tidemark.engines.spark.records import Merged, Record, record_from_json
from tidemark.engines.spark.seals import tail_of, verify_parts, verify_transactions
from tidemark.engines.spark.session import Options
from tidemark.engines.spark.transactions import StoredTransactions, TransactionRow, Transactions
from tidemark.errors import TidemarkError
from tidemark.storage.commit import Logged
from tidemark.storage.streams import from_bytes

ATTEMPTS: Final = 20
"""So often a lake is looked at again from which files vanish while it is read: each time something has been merged."""


@dataclass(frozen=True)
class News:
    """A row of the table that came after those that are known, with its small deltas by relation."""

    row: TransactionRow
    cells: dict[str, bytes]


class FollowedTransactions(StoredTransactions):
    """The table as of the last entry that was followed."""

    def __init__(self, lake: Lake, options: Options) -> None:
        self._lake = lake
        self.lock = threading.RLock()
        self._options, self._path = options, lake.transactions
        super().__init__(lake.transactions, options, self._found(), lake.store)

    def begin_anew(self) -> StoredTransactions:
        """Look at all that is there now. What is returned is the table as of that moment, of which files may vanish."""
        with self.lock:
            self._standing = self._found()
            self.sequence = self._standing.sequence
            self._recent.clear()
            self._recent_bytes = 0
            return StoredTransactions(self._path, self._options, self._standing, self._lake.store)

    def as_it_is_now(self) -> StoredTransactions:
        """All that is there now; what is followed stays as it is."""
        return StoredTransactions(self._path, self._options, self._found(), self._lake.store)

    def _found(self) -> Standing:
        """What the log says now; what is there is compared with its seals, if it has any."""
        for attempt in range(ATTEMPTS):
            seals = self._lake.read_seals()
            try:
                tail = tail_of(self._path, seals)
                seals.owe(tail.whole)  # in memory: what is whole by itself needs no seal
                standing = standing_from(self._path, verify_transactions(self._path, seals), tail.last)
                verify_parts(self._path, standing.parts, seals)
            except (TidemarkError, OSError):
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                return standing
        raise AssertionError("one of the attempts is the last")

    def news(self) -> list[News] | None:
        """The rows that came since the last time, in order; None if entries were removed before they were read."""
        with self.lock:
            found, standing = list[News](), self._standing
            while True:
                data = self._entry(standing.entry + 1)
                if data is None:
                    if self._entry(standing.entry) is None and standing.entry >= 0:
                        return None
                    break
                said = read_append(data)
                if said is None:
                    if is_whole(data):  # an earlier Tidemark writes, whose upkeep is not ours
                        return None
                    break  # what a writer left when its machine died, which the next one takes back
                if said.path is not None and not said.removed:
                    rows = self._rows(said)
                    if rows is None:
                        return None
                    found += rows
                standing = standing.after(data)
            self._standing = standing
            self.sequence = standing.sequence
            for one in found:
                tables = {name: from_bytes(cell) for name, cell in one.cells.items()}
                self._remember(one.row, tables, one.cells)
            return found

    def _entry(self, number: int) -> bytes | None:
        try:
            return self._lake.store.read(entry_path(self._path, number))
        except FileNotFoundError:
            return None

    def _rows(self, said: Append) -> list[News] | None:
        """The rows that an entry adds, if they are what was written; None if they were put into another file."""
        assert said.path is not None
        store, path = self._lake.store, self._path / said.path
        for is_stale in (False, True):
            store.fetch([(path, said.size)], is_stale=is_stale)
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                return None
            is_right = (len(data), zlib.crc32(data)) == (said.size, said.checksum)
            if is_right or store.is_local:
                break
        if not is_right:
            raise TidemarkError(
                "damaged",
                f"{said.path} is damaged: its checksum is not the one it was written with",
                hint="restore the lake from a backup; tidemark check lists everything that is damaged",
            )
        rows = pq.read_table(pa.BufferReader(data)).sort_by("sequence").to_pylist()
        return [
            News(
                TransactionRow(r["sequence"], r["version"], r["time"], record_from_json(r["record"]), r["trace"]),
                dict(zip(r["relations"] or (), r["deltas"] or (), strict=True)),
            )
            for r in rows
        ]

    def _read(self, columns: list[str], filters: list[tuple[str, str, int]] | None = None) -> pa.Table:
        """The same rows, wherever the writer has put them meanwhile."""
        for _ in range(ATTEMPTS):
            with self.lock:
                before = self._standing
            self._lake.store.fetch((self._path / name, size) for name, size in before.parts.items())
            stored = StoredTransactions(self._path, self._options, before, self._lake.store)
            try:
                return stored._read(columns, filters)
            except (OSError, pa.ArrowInvalid):
                if all((self._path / name).exists() for name in before.parts):
                    raise
            # Which rows are known does not change by that: later ones are read by who asks for news.
            try:
                return self.as_it_is_now()._read(columns, [*(filters or []), ("sequence", "<=", self.sequence)])
            except (OSError, pa.ArrowInvalid):
                continue
        raise TidemarkError("busy", "the transactions of the lake are rewritten faster than they can be read")

    def log(self, relation: str, since: int) -> Log:
        with self.lock:
            return super().log(relation, since)

    def trace(self, version: int) -> str | None:
        with self.lock:
            return super().trace(version)

    def logged(self) -> list[Logged]:
        with self.lock:
            return super().logged()


class SharedTransactions(Transactions):
    """One thread at a time reads or writes it: who reads the log waits for one append at most, or a compaction."""

    def __init__(self, lake: Lake, options: Options) -> None:
        self.lock = threading.RLock()
        super().__init__(lake, options)

    def log(self, relation: str, since: int) -> Log:
        with self.lock:
            return super().log(relation, since)

    def trace(self, version: int) -> str | None:
        with self.lock:
            return super().trace(version)

    def logged(self) -> list[Logged]:
        with self.lock:
            return super().logged()

    def append(
        self, record: Record, time: dt.datetime, trace: str | None = None, deltas: Mapping[str, pa.Table] | None = None
    ) -> int:
        with self.lock:
            return super().append(record, time, trace, deltas)

    def append_merges(self, merges: Sequence[Merged], time: dt.datetime) -> None:
        with self.lock:
            super().append_merges(merges, time)

    def know_own(self) -> None:
        with self.lock:
            super().know_own()

    def compact_if_due(self) -> bool:
        with self.lock:
            return super().compact_if_due()

    def forget(self, is_needed: Callable[[str, int, int], bool], oldest: int) -> None:
        with self.lock:
            super().forget(is_needed, oldest)
