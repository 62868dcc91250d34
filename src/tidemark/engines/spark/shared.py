"""The table of transactions for several threads: one that commits, and those that read the log beside it."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from tidemark.engines.spark.inline import Log
from tidemark.engines.spark.records import Merged, Record
from tidemark.engines.spark.seals import Seals
from tidemark.engines.spark.session import Options
from tidemark.engines.spark.transactions import Transactions
from tidemark.storage.commit import Logged
from tidemark.storage.store import Store


class SharedTransactions(Transactions):
    """One thread at a time reads or writes it: who reads the log waits for one append at most, or a compaction."""

    def __init__(self, path: Path, options: Options, seals: Seals, store: Store, *, is_sealed: bool) -> None:
        super().__init__(path, options, seals, store, is_sealed=is_sealed)
        self.lock = threading.RLock()

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

    def compact_if_due(self) -> bool:
        with self.lock:
            return super().compact_if_due()

    def forget(self, is_needed: Callable[[str, int, int], bool], oldest: int) -> None:
        with self.lock:
            super().forget(is_needed, oldest)
