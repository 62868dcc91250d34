"""The tail of a DuckDB database: committed transactions that its tables do not have yet.

A small commit is a record appended to the tide beside the file, and an entry here. The tables follow in batches: a
merge is one DuckDB transaction that applies the net change of each relation, however many commits it comes from, and
adds every commit to the log. The last version in the table of commits is the one merged to, so that nothing is applied
twice.

Whoever reads a relation by a statement has the tail merged first, and so has idle time (``session/idle.py``); look-ups
of few rows read the table and the tail. All that writes to the DuckDB file does so with the lock of the tail, and
merges before it does anything that takes long: so a reader waits for a merge at most.

A merge writes about what the tail holds, some times over, and must not fail because the disk is full: then nobody could
read what was committed. So each commit keeps room for it, or is refused.

While a file may have a tail it has another format number, and an earlier Tidemark refuses it.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from tidemark.algebra.cache import lazy
from tidemark.algebra.expressions import Value
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import Schema
from tidemark.engines.duckdb import commits
from tidemark.engines.duckdb import log as changelog
from tidemark.engines.duckdb.apply import Applying
from tidemark.engines.duckdb.embedded import GivenTables
from tidemark.engines.duckdb.tables import CLOSED, OPEN, OWN_SCHEMA, StoredRelation, identity
from tidemark.engines.engine import Memory
from tidemark.engines.limits import DuckDBLimits
from tidemark.errors import TidemarkError
from tidemark.storage import delta as deltas
from tidemark.storage.commit import Commit
from tidemark.storage.delta import Bag, Rows, Tables, as_rows
from tidemark.storage.disk import Room, storage_trouble, sync
from tidemark.storage.streams import (
    Listed,
    entries,
    from_bytes,
    listed,
    log_schema,
    rows_listed,
    runs_of_rows,
    to_bytes,
)
from tidemark.storage.tide import SUFFIX, Tide

EARLIER_MARK: Final = ".mark"
"""The mark of a database that an earlier Tidemark left open: its last version, and a checksum."""
ROOM: Final = ".room"
MERGED_SIZE: Final = 4
"""How many times its bytes a merge of the tail writes at most: to the log, the relations and DuckDB's own log."""
GATHERED_AT_ONCE: Final = 4
STREAM_BYTES: Final = 512
COLUMN_BYTES: Final = 160
VALUE_BYTES: Final = 32
"""What a stream of Arrow takes, about: each column beside its values, and each value."""
_logger = logging.getLogger("tidemark.duckdb")


@dataclass(frozen=True)
class Entry:
    """One committed transaction, and the relations that it changed."""

    commit: Commit
    changed: Mapping[str, Rows]

    @lazy
    def count(self) -> int:
        """How many entries its deltas have."""
        return sum([rows.count for rows in self.changed.values()])

    @lazy
    def nbytes(self) -> int:
        """About what its deltas and its trace take in the log, rather more than less."""
        streams = [
            STREAM_BYTES + len(rows.arrow) * (COLUMN_BYTES + rows.count * VALUE_BYTES)
            if rows.is_few
            else rows.table.nbytes
            for rows in self.changed.values()
        ]
        return sum(streams) + len(self.commit.trace)


def entry_of(commit: Commit, limits: DuckDBLimits) -> Entry | None:
    """What a commit is in the tail; None if its definitions or its size are for DuckDB at once."""
    if commit.created or commit.dropped or commit.altered or commit.catalog:
        return None
    deltas_ = as_rows(commit.deltas)
    if sum([rows.count for rows in deltas_.values()]) > limits.inline_rows:
        return None
    # Many rows take several times as much memory as a bag: of those the table alone is kept.
    are_tables = {name: rows.is_table and rows.count > deltas.FEW for name, rows in deltas_.items() if rows.count}
    changed = {
        name: Rows.of(deltas_[name].table) if is_table else deltas_[name] for name, is_table in are_tables.items()
    }
    return Entry(replace(commit, deltas=Tables(changed)) if any(are_tables.values()) else commit, changed)


def encoded(entry: Entry, schema_of: Callable[[str], Schema]) -> bytes:
    """The body of a record: the length of its head, the head (JSON), and streams of Arrow one after the other. The rows
    of small deltas stand in the head."""
    commit, streams, few = entry.commit, dict[str, bytes](), dict[str, Listed]()
    for name, rows in entry.changed.items():
        found = listed(rows, schema_of(name))
        if found is None:
            streams[name] = to_bytes(rows.table)
        else:
            few[name] = found
    said = {
        "time": commit.time.replace(tzinfo=None).isoformat(),
        "trace": commit.trace,
        "notes": dict(commit.notes),
        "deltas": [(name, len(stream)) for name, stream in streams.items()],
        "rows": few,
    }
    head = json.dumps(said).encode()
    return b"".join((len(head).to_bytes(4, "little"), head, *streams.values()))


def decoded(version: int, body: bytes, schema_of: Callable[[str], Schema]) -> Entry:
    place = 4 + int.from_bytes(body[:4], "little")
    said = json.loads(body[4:place])
    changed: dict[str, Rows] = {}
    for name, length in said["deltas"]:
        changed[name] = Rows.of(from_bytes(body[place : place + length]))
        place += length
    # A tide that an earlier Tidemark began has streams alone.
    changed.update((name, rows_listed(found, schema_of(name))) for name, found in said.get("rows", {}).items())
    time = dt.datetime.fromisoformat(said["time"])
    return Entry(Commit(version, time, deltas=Tables(changed), trace=said["trace"], notes=said["notes"]), changed)


class Tail:
    """What was committed since the last merge. ``relations`` are those that the file has; deltas of one of them are
    gathered in its own log when there are ``gather_at`` small ones. ``power``: DuckDB's own log has its name on the
    disk before a commit is acknowledged."""

    def __init__(
        self,
        path: str | None,
        relations: Callable[[], Mapping[str, StoredRelation]],
        limits: DuckDBLimits,
        *,
        gather_at: int = 0,
        power: bool = False,
    ) -> None:
        self._path, self._relations, self._limits = path, relations, limits
        self._gather_at, self._power = gather_at, power
        self.lock = threading.RLock()
        self.entries: list[Entry] = []
        """Entries are added to it, and with a merge another list begins: who holds it has what was there."""
        self._touched: frozenset[str] = frozenset()
        self._rows = self._bytes = 0
        self._indexes: dict[tuple[str, tuple[int, ...]], tuple[int, dict[Row, Bag]]] = {}
        """Net changes of a relation by what rows have in some columns, and of how many entries they are."""
        self._inline = Counter[str]()
        """How many small deltas each relation has logged."""
        self._tide: Tide | None = None
        self._room = None if path is None else Room(Path(f"{path}{SUFFIX}{ROOM}"))
        self._is_unsure = False
        """Whether a merge was under way, and nobody knows whether it became durable."""
        self._is_open = self._is_loaded = False
        """Whether the file says that there may be a tail, and whether all that is stored was found."""
        self._synced: int | None = None

    def use(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Merge by this connection, which nobody else has."""
        self._connection, self._given = connection, GivenTables(connection)

    def release(self) -> None:
        """Let go of the connection: DuckDB has a file open as long as anybody has one to it."""
        self._connection.close()

    def load(self, stored: int, *, is_new: bool) -> int:
        """Find what the tide has beyond the version that the file has, and merge it; the last version of all."""
        with self.lock:
            self._is_loaded = False
            self._inline = Counter(changelog.counted(self._connection))
            if self._path is None:
                self._settle()
            else:
                self._read(self._path, stored, is_new=is_new)
            try:
                self.merge()
            except TidemarkError:
                _logger.exception("what was committed last does not fit what is stored")
            self._is_loaded = True
            return commits.last(self._connection)

    def _read(self, path: str, stored: int, *, is_new: bool) -> None:
        self._roll_back()
        self._drop()
        self._is_unsure = False
        if self._room is not None:
            self._room.give()
        id_, self._is_open = identity(self._connection)
        if self._tide is not None:
            self._tide.close()
        tide = self._tide = Tide(Path(path + SUFFIX), id_)
        if tide.path.exists():
            for record in tide.read(stored):
                self._take(decoded(record.version, record.body, self._schema_of))
        elif self._is_open:
            raise TidemarkError(
                "damaged",
                f"{tide.path} is missing: it has what was committed to {path} last",
                hint="put it back, or restore the database from a backup",
            )
        marked = None if is_new else _marked_by_earlier(path)
        if marked is not None and marked > stored:
            raise TidemarkError(
                "damaged",
                f"{path} is at version {stored}, but version {marked} was committed: its write-ahead log is damaged, "
                "or an older copy was put in its place",
                hint=f"restore it from a backup; to go on from version {stored}, remove {path}{EARLIER_MARK}",
            )

    # Reading

    def must_not_touch(self, relations: Iterable[str]) -> None:
        """Merge, if these have a tail."""
        if self._is_unsure or not self._touched.isdisjoint(relations):
            self.merge()

    def settled(self) -> None:
        """Merge, if there is anything to merge."""
        if self._is_unsure or self.entries:
            self.merge()

    def since(self, relation: StoredRelation, version: int) -> pa.Table | None:
        """The changes of a relation after a version, if all of them are here."""
        known = self.entries
        if not known or known[0].commit.version > version + 1:
            return None
        later = known[max(0, version + 1 - known[0].commit.version) :]
        return _stamped(relation, [entry for entry in later if relation.name in entry.changed])

    def some(self, relation: str, fixed: Mapping[int, Value], most: int) -> Bag | None:
        """Of the net change of a relation since the last merge the rows that have these values in some columns; None if
        there is no change, or if these are more than so many. It holds while the lock is held."""
        if self._is_unsure:
            self.merge()
        if relation not in self._touched:
            return None
        found = self.recent(relation, tuple(fixed), [tuple(fixed.values())])
        return found if len(found) <= most else None

    def recent(self, relation: str, columns: tuple[int, ...], keys: Iterable[Row]) -> Bag:
        """The net change of a relation since the last merge, of the rows that have one of the keys in some columns. It
        holds while the lock is held."""
        if self._is_unsure:
            self.merge()
        if relation not in self._touched:
            return {}
        # Taken away while it grows: one that an exception left half done would count some entries twice.
        seen, by_key = self._indexes.pop((relation, columns), (0, {}))
        for entry in self.entries[seen:]:
            if relation in entry.changed:
                for row, weight in _bag_in(entry, relation).items():
                    found = by_key.setdefault(tuple(row[column] for column in columns), {})
                    found[row] = found.get(row, 0) + weight
        self._indexes[relation, columns] = len(self.entries), by_key
        return {row: weight for key in keys for row, weight in by_key.get(key, {}).items() if weight}

    def trace(self, version: int) -> str | None:
        """The trace of a version, if it is here."""
        known = self.entries
        if not known or not known[0].commit.version <= version <= known[-1].commit.version:
            return None
        return known[version - known[0].commit.version].commit.trace

    @property
    def memory(self) -> Memory:
        """What is kept here until it is merged."""
        return Memory("tail", self._bytes, self._limits.tail_bytes, len(self.entries))

    # Committing

    def begin(self) -> None:
        """Have a tide, before anything is committed, and have the file say so. What was merged is in the tail no more:
        the end of a merge that was interrupted would not be known by the last version any longer."""
        self._settle()
        if self._tide is None:
            return
        if not self._tide.is_there:
            self._tide.begin(commits.last(self._connection))
        if not self._is_open:
            self._connection.execute(f"UPDATE {OWN_SCHEMA}.format SET version = {OPEN}")
            self._is_open = True
            self.sync_names()
            Path(f"{self._path}{EARLIER_MARK}").unlink(missing_ok=True)

    def append(self, entry: Entry) -> None:
        """The commit point of a small transaction."""
        if self._tide is not None:
            body = encoded(entry, self._schema_of)
            self._keep_room(entry.nbytes)
            self._tide.append(entry.commit.version, body)
        self._take(entry)
        self.acknowledge(entry.commit.version)

    def _keep_room(self, more: int) -> None:
        """Keep room for the next merge, with so many bytes more in it."""
        assert self._room is not None, "what has a tide has a path"
        try:
            self._room.keep(MERGED_SIZE * (self._bytes + more))
        except OSError as error:
            trouble = storage_trouble(error, self._path)
            if trouble is None:
                raise
            raise trouble from error

    def _schema_of(self, relation: str) -> Schema:
        return self._relations()[relation].schema

    def _take(self, entry: Entry) -> None:
        if not entry.changed.keys() <= self._touched:
            self._touched = self._touched.union(entry.changed)
        self._rows += entry.count
        self._bytes += entry.nbytes
        self.entries.append(entry)

    def acknowledge(self, version: int) -> None:
        """Move the mark: a version is durable, in the tide or in DuckDB."""
        if self._tide is not None:
            self._tide.mark(version)

    def sync_names(self) -> None:
        """DuckDB syncs its write-ahead log at each commit, but not the folder in which it creates one."""
        if self._path is None or not self._power:
            return
        try:
            log = os.stat(f"{self._path}.wal").st_ino
        except FileNotFoundError:
            return  # a checkpoint has taken it into the file, which was there before
        if log != self._synced:
            sync(Path(self._path).parent)
            self._synced = log

    # Merging

    def merge_if_large(self) -> None:
        """Merge what has become so much that it should not wait for a reader. What is committed does not depend on
        it."""
        limits = self._limits
        if (
            len(self.entries) < limits.tail_commits
            and self._rows < limits.tail_rows
            and self._bytes < limits.tail_bytes
        ):
            return
        try:
            self.merge()
        except (duckdb.Error, TidemarkError):
            _logger.exception("what was committed last could not be merged")

    def merge(self, *, is_last: bool = False) -> None:
        """Have the tables follow; ``is_last`` says in the file that there is no tail any more.

        Rows that should leave and are not there, because somebody else has changed the tables, are told after all else
        is merged: what was committed is true, and reading must go on."""
        with self.lock:
            self._settle()
            if not self.entries and not (is_last and self._is_open):
                return
            inline, damage = list[str](), list[TidemarkError]()
            if self._room is not None:
                self._room.give()
            self._is_unsure = True
            self._connection.execute("BEGIN")
            try:
                if self.entries:
                    inline = self._apply(self.entries, damage)
                if is_last:
                    self._connection.execute(f"UPDATE {OWN_SCHEMA}.format SET version = {CLOSED}")
            except BaseException:
                self._roll_back()
                raise
            self._connection.execute("COMMIT")
            self._is_open = self._is_open and not is_last
            self._drop()
            self._is_unsure = False
            self._given.release()
            self.sync_names()
            if self._tide is not None and self._tide.is_there and self._tide.end > self._limits.tide_bytes:
                self._tide.cut()
            self.gather(inline)
            if damage:
                raise damage[0]

    def _settle(self) -> None:
        """After a merge whose end is not known: what the file has is not in the tail."""
        if not self._is_unsure:
            return
        self._roll_back()
        self._is_open = identity(self._connection)[1]
        if self.entries and self.entries[-1].commit.version <= commits.last(self._connection):
            self._drop()
        self._is_unsure = False

    def _drop(self) -> None:
        self.entries, self._touched, self._rows, self._bytes = [], frozenset(), 0, 0
        self._indexes = {}

    def _roll_back(self) -> None:
        self._given.rolled_back()
        roll_back(self._connection)

    def _apply(self, merged: Sequence[Entry], damage: list[TidemarkError]) -> list[str]:
        """Store everything, and say of which relations small deltas were logged, and what was not there."""
        relations, keys, small = self._relations(), merged[-1].commit.keys, list[tuple[int, str, bytes]]()
        for name in dict.fromkeys(name for entry in merged for name in entry.changed):
            relation, changing = relations[name], [entry for entry in merged if name in entry.changed]
            if relation.kept:
                delta = _net([entry.changed[name] for entry in changing], relation.schema)
                found = Applying(self._connection, relation, delta, self._given.name_of, keys.get(name, ())).run()
                damage += [found] if found is not None else []
            if relation.logged and len(changing) < self._gather_at:
                small += [(entry.commit.version, name, to_bytes(entry.changed[name].table)) for entry in changing]
            elif relation.logged:
                changelog.append_rows(self._connection, relation, _stamped(relation, changing))
        changelog.append_streams(self._connection, small)
        commits.write_plain(self._connection, [entry.commit for entry in merged])
        notes = {name: text for entry in merged for name, text in entry.commit.notes.items()}
        commits.write_notes(self._connection, notes)
        return [name for _, name, _ in small]

    def gather(self, logged: Sequence[str]) -> None:
        """Small deltas of these relations were logged: make the log of those with many quick to read. What is
        committed does not depend on it."""
        self._inline.update(logged)
        names = [name for name in dict.fromkeys(logged) if self._inline[name] >= self._gather_at][:GATHERED_AT_ONCE]
        if not names:
            return
        relations = self._relations()
        self._is_unsure = True
        self._connection.execute("BEGIN")
        try:
            for name in names:
                changelog.gather(self._connection, relations[name])
            self._connection.execute("COMMIT")
        except duckdb.Error:
            self._roll_back()
            _logger.exception("the log could not be gathered")
        else:
            for name in names:
                self._inline.pop(name, None)
        self._is_unsure = False

    def forget(self, dropped: str) -> None:
        """A relation is dropped, with its log."""
        self._inline.pop(dropped, None)

    # Closing

    def complete(self) -> bool:
        """Have one file that is complete, as after closing; false if somebody reads what was before the last merge, so
        that DuckDB's own log cannot go into the file."""
        with self.lock:
            self.merge(is_last=True)
            if self._path is None:
                return True
            try:
                self._connection.execute("CHECKPOINT")
            except duckdb.TransactionException:
                return False
            if self._tide is not None and not self._is_open and not os.path.exists(f"{self._path}.wal"):
                self._tide.remove()
            return True

    def finish(self) -> None:
        """The last merge, before the file is closed. If it fails, the tide stays, and is read at the next opening."""
        if not self._is_loaded:
            return
        try:
            self.merge(is_last=True)
        except (duckdb.Error, TidemarkError):
            _logger.exception("what was committed last could not be merged")

    def close(self) -> None:
        """The file was closed. Without a write-ahead log everything is in it, and it has its own checksums."""
        if self._room is not None:
            self._room.give()
        if self._tide is None:
            return
        if self._is_loaded and not self._is_open and not os.path.exists(f"{self._path}.wal"):
            self._tide.remove()
            Path(f"{self._path}{EARLIER_MARK}").unlink(missing_ok=True)
        self._tide.close()


def combined(tables: Sequence[pa.Table], schema: Schema, *, is_net: bool = True) -> pa.Table:
    """Deltas that follow each other as one net delta; one that is alone ``is_net`` or not. Arrow takes zeros of either
    sign, and numbers that are none, for different values."""
    if len(tables) == 1 and is_net:
        return tables[0]
    if not any(deltas.has_forms(type_.arrow) for type_ in schema.types):
        return deltas.combine(*tables)
    total = Counter[Row]()
    for table in tables:
        for row, weight in deltas.to_bag(table).items():
            total[row] += weight
    return deltas.from_bag({row: weight for row, weight in total.items() if weight}, schema)


def _net(changes: Sequence[Rows], schema: Schema) -> pa.Table:
    """Deltas that follow each other as one net delta."""
    if len(changes) == 1:
        return changes[0].table
    return combined([table for _, table in runs_of_rows(changes, schema)], schema, is_net=False)


def _bag_in(entry: Entry, relation: str) -> Bag:
    return entry.changed[relation].bag


def _stamped(relation: StoredRelation, changing: Sequence[Entry]) -> pa.Table:
    """The deltas of a relation with their versions."""
    versions = [entry.commit.version for entry in changing]
    runs = runs_of_rows((entry.changed[relation.name] for entry in changing), relation.schema)
    parts = entries(versions, runs, relation.schema, relation.added)
    return pa.concat_tables([log_schema(relation.schema).empty_table(), *parts]).combine_chunks()


def _marked_by_earlier(path: str) -> int | None:
    """The version that an earlier Tidemark has marked, if there is a mark that can be read."""
    try:
        said, _, checksum = Path(path + EARLIER_MARK).read_bytes().strip().partition(b" ")
    except OSError:
        return None
    return int(said) if b"%08x" % zlib.crc32(said) == checksum and said.isdigit() else None


def must_have_no_tide(path: str) -> None:
    """Refuse to make a database where one has lost its file."""
    if os.path.exists(path + SUFFIX):
        raise TidemarkError(
            "damaged",
            f"{path}{SUFFIX} is there, and {path}, to which it belongs, is not",
            hint=f"put {path} back, or remove {path}{SUFFIX}: what it has is lost then",
        )


def roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    """End a transaction, if there is one."""
    while True:
        try:
            connection.execute("ROLLBACK")
            return
        except duckdb.TransactionException:
            return  # DuckDB may have ended it itself when the failure was fatal
        except duckdb.InterruptException:
            continue  # meant for what is being rolled back
