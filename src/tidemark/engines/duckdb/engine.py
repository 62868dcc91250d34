"""The DuckDB engine: plans become one statement each, a commit is one record of the tide or one DuckDB transaction.

Opening the file of a database, once in this process: DuckDB itself keeps other processes out.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

import duckdb
import pyarrow as pa

from tidemark.algebra.cache import PerPlan, leaves_read
from tidemark.algebra.compiled import key_of
from tidemark.algebra.expressions import Call, Column, Literal, Value, conjuncts
from tidemark.algebra.functions import canonical
from tidemark.algebra.plans import Filter, Given, Plan, Project, Stored, transform
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import Schema
from tidemark.engines.duckdb import commits
from tidemark.engines.duckdb import commits as notes
from tidemark.engines.duckdb import log as changelog
from tidemark.engines.duckdb.apply import Ahead, Applying
from tidemark.engines.duckdb.backup import copy_to
from tidemark.engines.duckdb.dialect import damaged, hearing_interrupts, is_damage, translated, translating
from tidemark.engines.duckdb.embedded import GivenTables
from tidemark.engines.duckdb.lookups import Lookups
from tidemark.engines.duckdb.settings import bytes_of, config, configure, lock, real_path
from tidemark.engines.duckdb.statements import Plain, Statements, few_rules, plain
from tidemark.engines.duckdb.tables import StoredRelation, alter, create, drop, prepare
from tidemark.engines.duckdb.tail import Entry, Tail, combined, entry_of, must_have_no_tide, roll_back
from tidemark.engines.engine import (
    Columns,
    Evaluator,
    Found,
    Index,
    Iteration,
    Keys,
    Lending,
    Memory,
    Unpublished,
    reads_only,
)
from tidemark.engines.limits import DUCKDB, PROCESS, DuckDBLimits
from tidemark.engines.local.columns import followed
from tidemark.engines.local.columns import nothing_stored as no_columns_stored
from tidemark.engines.local.lookups import Question, StoredRows, arranged_by_key, arranged_columns, near
from tidemark.engines.local.steps import by_key, evaluate_few, given_rows, nothing_stored
from tidemark.engines.opening import PASSING, must_be_a_place, not_a_database, opening, told
from tidemark.errors import TidemarkError
from tidemark.storage import delta as delta_tables
from tidemark.storage.arrangements import MOST_OF_ONE_KEY, Arrangements, no_arrangements, shared
from tidemark.storage.batches import Batch, Numbers, Vector, once_each
from tidemark.storage.commit import Commit, Creation, Forgetting, Loaded, Logged
from tidemark.storage.delta import Rows
from tidemark.storage.disk import first_line

MAGIC: Final = b"DUCK"
MAGIC_AT: Final = 8
_CONFLICT: Final = "IO Error: Could not set lock on file"
_NEWER: Final = re.compile(r"read a database file with version number|newer version of DuckDB", re.IGNORECASE)
_open_paths: dict[str, object] = {}
_open_paths_lock = threading.Lock()


def release(path: str, owner: object) -> None:
    """The file may be opened again; ``path`` is its real one. Whoever else has opened it meanwhile keeps it."""
    with _open_paths_lock:
        if _open_paths.get(path) is owner:
            del _open_paths[path]


def reopened(path: str) -> duckdb.DuckDBPyConnection:
    """Another connection to a file that this process has open, after DuckDB gave the first one up."""
    connection = _connect_file(path, real_path(path))
    prepare(connection, path)
    lock(connection)
    return connection


def opened(path: str | None, owner: object) -> duckdb.DuckDBPyConnection:
    """A connection to a database that is ready to be used: in a file, or in memory. ``owner`` has the file."""
    if path is None:
        connection = duckdb.connect(":memory:", config=config())
        prepare(connection, "memory")
        lock(connection)
        return connection
    real = real_path(path)
    with opening(path):
        is_there = must_be_a_place(path, folder=False)
        parent = Path(real).parent
        if not parent.is_dir():
            raise TidemarkError("not_a_database", f"the folder of {path} does not exist", hint=f"create {parent} first")
    with _open_paths_lock:
        if real in _open_paths:
            raise _in_use(path)
        _open_paths[real] = owner
    try:
        if is_there:
            _must_be_duckdb(path)
        connection = _connect_file(path, real)
        try:
            with opening(path), translating():
                prepare(connection, path)
                lock(connection)
        except BaseException:
            _leave(connection)
            raise
    except BaseException:
        release(real, owner)
        raise
    return connection


def _connect_file(path: str, real: str) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(real, config=config())
    except duckdb.Error as error:
        if is_damage(error):
            raise damaged(error) from error
        text = first_line(error)
        if isinstance(error, duckdb.IOException) and text.startswith(_CONFLICT):
            raise _in_use(path) from error
        if _NEWER.search(text):
            raise TidemarkError(
                "format",
                f"{path} was written by another version of DuckDB: {text}",
                hint="open it with the version of Tidemark that wrote it, or a newer one",
            ) from error
        raise told(error, path) from error


def _must_be_duckdb(path: str) -> None:
    """Refuse a file that is no database by its first bytes: what DuckDB says of it depends on them, and to a file
    without any it would write its own."""
    with opening(path), open(path, "rb") as file:
        head = file.read(MAGIC_AT + len(MAGIC))
    if not head:
        raise not_a_database(path, "the file is empty")
    if head[MAGIC_AT:] != MAGIC:
        raise not_a_database(path, "it is a file of another kind")


def _leave(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a database that is not ours, or not to be opened, as it is: DuckDB would bring its file up to date."""
    with suppress(duckdb.Error):
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
    connection.close()


def _in_use(path: str) -> TidemarkError:
    return TidemarkError(
        "in_use",
        f"{path} is in use by another connection",
        hint="close it there first; one process at a time may open a durable database",
    )


_logger = logging.getLogger("tidemark.duckdb")
GATHER_AT = 128
CHECKPOINT_EVERY = 4
"""After so many times that something was forgotten the file is brought up to date."""
COUNTED_AT_ONCE = 50
MOST_KNOWN = 64
MOST_ASKED: Final = 64
Asked: TypeAlias = tuple[str, tuple[int, ...], frozenset[Row]]
"""Keys that are looked up in some columns of a relation."""
"""Snapshots know the relations of so many of the last definitions, and begin at the last one in all but a moment."""


class DuckDBEngine(Unpublished):
    """Embedded, in memory (``path=None``) or durable in one file.

    A handful of rows is evaluated in this process, by compiled steps and point reads; ``by_statements`` runs every
    plan as a statement instead, so that tests see both ways. A relation's small deltas in the log are gathered when
    there are ``gather_at`` of them. Each commit waits until the disk has it; with ``power`` it is waited for the names
    of DuckDB's files, too.
    """

    name = "duckdb"

    def __init__(
        self,
        path: str | None = None,
        *,
        by_statements: bool = False,
        gather_at: int = GATHER_AT,
        power: bool = False,
        limits: DuckDBLimits = DUCKDB,
        memory: int | None = None,
    ) -> None:
        self.path = None if path is None else real_path(path)
        self._is_new = self.path is not None and not os.path.exists(self.path)
        if self.path is not None and self._is_new:
            must_have_no_tide(self.path)
        self._by_statements, self.limits = by_statements, limits
        self._asked: dict[Asked, StoredRows] = {}
        self._relations: dict[str, StoredRelation] = {}
        self._rows: dict[str, int] = {}
        self._forgotten = 0
        self._tail = Tail(self.path, lambda: self._relations, limits, gather_at=gather_at, power=power)
        self._owner = object()
        self._audited: duckdb.DuckDBPyConnection | None = None
        self._known: tuple[tuple[int, dict[str, StoredRelation]], ...] = ()
        shares = shared(memory)
        self._memory_limit = shares.engine
        self.arrangements: Arrangements | None = Arrangements(
            self._scanned, self.rows, self._schema_of, shares.arrangements, limits.admission
        )
        self._use(opened(path, self._owner))

    def _use(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        if self._memory_limit is not None:
            connection.execute(f"SET memory_limit = '{self._memory_limit}B'")
        self._given = GivenTables(connection)
        ready = self._tail.must_not_touch
        self._statements = Statements(connection, self._given, lambda relation: self._relations[relation].table, ready)
        self._lookups = Lookups(
            connection, self._given, lambda relation: self._relations[relation], self._tail, self.arrangements
        )
        self._tail.use(connection.cursor())
        self.ahead: Ahead | None = Ahead(self._begin, self._store, self._undo)
        self._rows_before: dict[str, int] = {}
        self._beside = connection.cursor()
        """Makes connections for reading: this one is at work when they are wanted."""
        self._lending = Lending(self._for_reading, DuckDBSnapshot.release)

    @hearing_interrupts()
    def load(self) -> Loaded:
        with translating():
            try:
                return self._load()
            except duckdb.Error:
                if self.path is None:
                    raise
            # After a failure that it calls fatal DuckDB serves a file no more, until it is opened again.
            self._lending.close(DuckDBSnapshot.interrupt)
            self._tail.release()
            self._beside.close()
            self._connection.close()
            self._use(reopened(self.path))
            return self._load()

    def _load(self) -> Loaded:
        self._undo()
        self._statements.forget()
        self._forget_answers()
        self._lookups.forget_needs()
        version, records, self._relations = commits.read(self._connection)
        version = self._tail.load(version, is_new=self._is_new)
        self._known = ((0, self._relations),)
        self._rows = {}
        self._count()
        if self.arrangements is not None:
            self.arrangements.clear(version)
        return Loaded(version, tuple(records), notes.read_notes(self._connection))

    def _count(self) -> None:
        """Count the rows of all relations: many with one statement, since there may be thousands of relations."""
        names = [name for name, relation in self._relations.items() if relation.kept]
        for start in range(0, len(names), COUNTED_AT_ONCE):
            some = names[start : start + COUNTED_AT_ONCE]
            counts = (f"SELECT {i} AS place, count(*) FROM {self._relations[n].table}" for i, n in enumerate(some))
            for place, rows in self._connection.execute(" UNION ALL ".join(counts)).fetchall():
                self._rows[some[place]] = rows

    @hearing_interrupts()
    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        """By compiled steps, perhaps over what look-ups find near the deltas; else by a statement."""
        if self._is_for_statements(plan):
            return self._statements.weighted(plan, given)
        few = followed(plan, given_rows(plan, given), self.look_up, self._look_up_columns, self._is_small)
        if few is not None:
            return few.rows.table
        reached, rows = near(plan, given, self._lookups)
        few = followed(reached, rows, nothing_stored, no_columns_stored) if reached is not plan else None
        if few is not None:
            return few.rows.table
        tables = {name: part.table for name, part in rows.items()}
        found = self._beside_the_tail(reached)
        return self._statements.weighted(reached, tables) if found is None else found

    def follow(self, plan: Plan, given: Mapping[str, Rows]) -> Found | None:
        if self._is_for_statements(plan):
            return None
        return followed(plan, given, self.look_up, self._look_up_columns, self._is_small)

    def _is_small(self, relation: str) -> bool:
        """Whether a relation is held as a whole, or will be."""
        return self.arrangements is not None and self.rows(relation) <= self.limits.admission.whole_rows

    def _is_for_statements(self, plan: Plan) -> bool:
        """Whether no look-up may stand for a statement: what memory has is as it was committed."""
        if self._by_statements:
            return True
        ahead = self.ahead
        return ahead is not None and ahead.is_begun and ahead.reads(leaf.relation for leaf in _stored_in(plan))

    def look_up(self, leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> Index | None:
        """Arranged, if they are, else by a question. Who asks for the same keys again asks the same question."""
        if self._is_for_statements(leaf):
            return None
        if self.arrangements is not None:
            most = PROCESS.met_by_few if columns else MOST_OF_ONE_KEY
            at_once = arranged_by_key(self.arrangements, leaf, columns, keys, needed, most)
            if at_once is not None:
                return at_once
        return self._asked_for(leaf, columns, keys, needed) if columns else None

    @hearing_interrupts()
    def _asked_for(self, leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> Index | None:
        asked = (leaf.relation, columns, frozenset(keys))
        if asked not in self._asked:
            if len(self._asked) >= MOST_ASKED:
                self._asked.clear()
            schema = Schema(tuple(leaf.schema[column] for column in columns))
            self._asked[asked] = StoredRows(schema, bag=dict.fromkeys(keys, 1))
        found = self._lookups(Question(leaf, columns, ((self._asked[asked], tuple(range(len(columns)))),), needed))
        return None if found is None else by_key(found.bag, key_of(columns))

    @hearing_interrupts()
    def _look_up_columns(
        self, leaf: Stored, columns: tuple[int, ...], keys: Sequence[Vector], needed: tuple[int, ...] | None
    ) -> tuple[Batch, Numbers | None] | None:
        """The same for compiled steps over columns."""
        if self.arrangements is not None:
            at_once = arranged_columns(self.arrangements, leaf, columns, keys, needed)
            if at_once is not None:
                return at_once
        if not columns:
            return None
        schema = Schema(tuple(leaf.schema[column] for column in columns))
        asked = Rows(schema, batch=Batch(keys, once_each(len(keys[0])), is_net=True))
        found = self._lookups(Question(leaf, columns, ((asked, tuple(range(len(columns)))),), needed))
        return None if found is None else (found.batch, None)

    def _beside_the_tail(self, plan: Plan) -> pa.Table | None:
        """Some rows of one relation with a tail: those of the table and those of the tail, so that it need not be
        merged. None if the plan asks for something else, or for many rows, or fails for a row that is gone perhaps."""
        read, fixed = _rows_of_one(plan)
        if read is None:
            return None
        with self._tail.lock, translating():
            recent = self._tail.some(read.relation, fixed, self.limits.tail_beside)
            if recent is None:
                return None
            try:
                found = self._statements.as_merged(plan)
                if not recent:
                    return found
                over_tail = transform(plan, lambda part: Given(read.relation, read.schema) if part is read else None)
                later = evaluate_few(over_tail, {read.relation: Rows(read.schema, bag=recent)})
            except TidemarkError as error:
                if error.code in PASSING:
                    raise
                return None
        if later is None or found.num_rows > self.limits.fetched_rows:
            return None
        return combined([found, later.rows.table], plan.schema) if later.rows.count else found

    @hearing_interrupts()
    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._statements.rows(plan, given)

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        return self._by_statements or self._rows_below(iteration, given) > self.limits.few_below

    @hearing_interrupts()
    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._statements.iterated(iteration, given)

    @contextmanager
    def plainly(self) -> Iterator[Evaluator]:
        with translating():
            self._tail.settled()
        beside = self._audited = self._connection.cursor()
        try:
            with plain(beside, lambda name: self._relations[name].table, self.rows, self.limits) as evaluator:
                yield evaluator
        finally:
            self._audited = None

    def _rows_below(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> int:
        handed = delta_tables.as_rows(given)
        return sum(handed[name].count for name in iteration.given if name in handed) + sum(
            map(self.rows, iteration.stored)
        )

    @hearing_interrupts()
    def commit(self, commit: Commit) -> None:
        with self._tail.lock:
            entry = None
            if self.ahead is None or not self.ahead.is_begun:
                with translating():
                    self._tail.begin()
                    entry = entry_of(commit, self.limits)
                    if entry is None:
                        self._tail.merge()
            if entry is None:
                self._commit_at_once(commit)
            else:
                self._append(entry)
        try:
            self._follow_commit(commit)
        except TidemarkError as error:  # whoever asked must not take the commit for undone
            raise TidemarkError("commit_unknown", f"what follows the commit failed: {error.message}") from error

    def _follow_commit(self, commit: Commit) -> None:
        """What memory keeps of stored rows follows what is committed."""
        self._forget_answers()
        self._given.release()
        self._tail.merge_if_large()
        self._arrange(commit)

    def _forget_answers(self) -> None:
        self._lookups.forget()
        self._asked.clear()

    def _append(self, entry: Entry) -> None:
        """A commit that the tables follow later."""
        growing = {
            name: self._rows[name] + rows.growth for name, rows in entry.changed.items() if self._relations[name].kept
        }
        self._tail.append(entry)
        self._rows.update(growing)

    def _commit_at_once(self, commit: Commit) -> None:
        """A commit of definitions or of many rows, which is one DuckDB transaction. There is no tail."""
        kept, ahead = self._kept(commit), self.ahead
        assert ahead is not None, "a snapshot commits nothing"
        if commit.created or commit.dropped or commit.altered:
            self._statements.forget()
            self._lookups.forget_needs()
            self._relations = dict(self._relations)  # snapshots go on with the others
        try:
            if ahead.is_begun:
                ahead.must_be_part_of(commit.deltas)
            else:
                self._connection.execute("BEGIN")
            inline = self._apply(commit, ahead.deltas)
            self._announce(commit.version)
        except BaseException as error:
            self._relations, self._rows = kept()
            self._undo()
            if isinstance(error, duckdb.Error):
                raise translated(error) from error
            raise
        self._make_durable()
        ahead.ended()
        self._rows_before = {}
        self._tail.acknowledge(commit.version)
        self._tail.gather(inline)

    def _arrange(self, commit: Commit) -> None:
        """Let arrangements follow what is committed, and build those that are wanted while no transaction waits."""
        if self.arrangements is None:
            return
        others = (creation.relation for creation in commit.created)
        gone = (*commit.dropped, *(change.relation for change in commit.altered), *others)
        self.arrangements.feed(commit.version, commit.deltas, gone)
        self.arrangements.build_wanted()

    def _scanned(self, relation: str, columns: Sequence[int]) -> pa.Table:
        """Some columns of a relation, as they are stored."""
        stored = Stored(relation, self._relations[relation].schema)
        names = tuple(stored.schema.names[column] for column in columns)
        cells = stored.columns()
        return self._statements.rows(Project(stored, names, tuple(cells[column] for column in columns)), {})

    def _schema_of(self, relation: str) -> Schema:
        return self._relations[relation].schema

    def arranged(self) -> pa.Table:
        return no_arrangements() if self.arrangements is None else self.arrangements.shown()

    def _make_durable(self) -> None:
        """The commit point. If it fails, what is stored is to be looked at: the disk may have all of it."""
        try:
            self._connection.execute("COMMIT")
        except duckdb.Error as error:
            raise TidemarkError("commit_unknown", f"the commit failed: {error}") from error

    def _announce(self, version: int) -> None:
        """Let snapshots know the relations of a version as soon as they can see it."""
        before = tuple(known for known in self._known if known[0] < version)
        if before[-1][1] is not self._relations:
            before = (*before[1 - MOST_KNOWN :], (version, self._relations))
        self._known = before

    def known_at(self, version: int) -> dict[str, StoredRelation]:
        """The relations as of a version."""
        return next(relations for since, relations in reversed(self._known) if since <= version)

    def _kept(self, commit: Commit) -> Callable[[], tuple[dict[str, StoredRelation], dict[str, int]]]:
        """What is known of the relations now. There may be many: unless definitions change, none is copied."""
        relations, rows = self._relations, self._rows
        if commit.created or commit.dropped or commit.altered:
            copies = dict(relations), dict(rows)
            return lambda: copies
        before = {name: rows[name] for name in commit.deltas if name in rows}
        return lambda: (relations, {**rows, **before})

    def _apply(self, commit: Commit, written: Mapping[str, pa.Table]) -> list[str]:
        """Store everything but what is ``written`` already, and say of which relations small deltas were logged."""
        for name in commit.dropped:
            relation = self._relations.pop(name)
            changelog.forget(self._connection, relation)
            drop(self._connection, relation)
            self._rows.pop(name, None)
            self._tail.forget(name)
        for alteration in commit.altered:
            before = self._relations[alteration.relation]
            self._relations[before.name] = alter(self._connection, before, alteration)
        for creation in commit.created:
            self._create(creation, commit.given)
        for name, delta in commit.deltas.items():
            if delta.num_rows and self._relations[name].kept and name not in written:
                self._store(name, delta, commit.keys.get(name, ()))
        inline = changelog.append(self._connection, self._relations, commit.deltas, commit.version)
        commits.write(self._connection, commit, self._relations)
        notes.write_notes(self._connection, commit.notes)
        return inline

    def _begin(self) -> None:
        """Begin a transaction of DuckDB's that follows all that was committed."""
        with self._tail.lock:
            self._tail.begin()
            self._tail.merge()
            self._connection.execute("BEGIN")

    def _store(self, name: str, delta: pa.Table, key: tuple[int, ...]) -> None:
        """Change a relation by its net delta."""
        damage = Applying(self._connection, self._relations[name], delta, self._given.name_of, key).run()
        if damage is not None:
            raise damage
        self._rows_before.setdefault(name, self._rows[name])
        self._rows[name] += delta_tables.growth(delta)

    def _undo(self) -> None:
        """End DuckDB's transaction, with nothing of it."""
        if self.ahead is not None:
            self.ahead.ended()
        self._rows.update(self._rows_before)
        self._rows_before = {}
        self._rollback()

    def _create(self, creation: Creation, given: Mapping[str, pa.Table]) -> None:
        relation = StoredRelation(
            creation.relation, creation.schema, creation.logged, creation.internal, creation.key, kept=creation.kept
        )
        create(self._connection, relation)
        if not relation.kept:
            self._relations[relation.name] = relation
            return
        if creation.plan is not None:
            rows = self._statements.text_of_rows(creation.plan, given)
            if creation.order:
                # Look-ups by these columns then pass over most of what is stored.
                rows = f"SELECT * FROM ({rows}) ORDER BY {', '.join(str(column + 1) for column in creation.order)}"
            self._connection.execute(f"INSERT INTO {relation.table} {rows}")
        self._relations[relation.name] = relation
        count = self._connection.execute(f"SELECT count(*) FROM {relation.table}").fetchall()
        self._rows[relation.name] = count[0][0]

    def _rollback(self) -> None:
        self._given.rolled_back()
        roll_back(self._connection)

    @hearing_interrupts()
    def changes(self, relation: str, since: int) -> pa.Table:
        stored = self._relations[relation]
        recent = self._tail.since(stored, since)
        if recent is not None:
            return recent
        with translating():
            self._tail.must_not_touch((relation,))
            return changelog.read(self._connection, stored, since)

    def note(self, notes_: Mapping[str, str | None]) -> None:
        self.forget({}, 0, notes_)

    @hearing_interrupts()
    def forget(
        self, log: Mapping[str, Forgetting], traces: int, notes_: Mapping[str, str | None], oldest: int = 0
    ) -> None:
        with self._tail.lock:
            self._forget(log, traces, notes_, oldest)
        self._forgotten += bool(log)
        if self.path is not None and log and self._forgotten % CHECKPOINT_EVERY == 0:
            with suppress(duckdb.Error):  # what was deleted gives its room back only then; if not now, later
                self._connection.execute("CHECKPOINT")

    def _forget(
        self, log: Mapping[str, Forgetting], traces: int, notes_: Mapping[str, str | None], oldest: int
    ) -> None:
        with translating():
            self._tail.merge()
        self._connection.execute("BEGIN")
        try:
            notes.forget(self._connection, {self._relations[name]: part for name, part in log.items()})
            commits.forget_traces(self._connection, traces, oldest)
            notes.write_notes(self._connection, notes_)
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._rollback()
            if isinstance(error, duckdb.Error):
                raise translated(error) from error
            raise

    @hearing_interrupts()
    def backup(self, target: str) -> Callable[[], None]:
        with translating():
            self._tail.merge()
        copy_to(self._connection, Path(target).expanduser().absolute())
        return lambda: None

    @property
    def idle_after(self) -> float | None:
        return self.limits.idle_seconds if self.path is not None and self._tail.entries else None

    def catch_up(self) -> None:
        with translating():
            self._tail.settled()

    @hearing_interrupts()
    def checkpoint(self) -> bool:
        with translating():
            return self._tail.complete()

    @hearing_interrupts()
    def logged(self) -> list[Logged]:
        with translating():
            self._tail.settled()
            return notes.logged(
                self._connection, [relation for relation in self._relations.values() if relation.logged]
            )

    @hearing_interrupts()
    def times(self) -> pa.Table:
        with translating():
            self._tail.settled()
            return commits.times(self._connection)

    @hearing_interrupts()
    def trace(self, version: int) -> str | None:
        recent = self._tail.trace(version)
        if recent is not None:
            return recent
        with translating():
            return commits.trace(self._connection, version)

    def rows(self, relation: str) -> int:
        return self._rows[relation]

    @hearing_interrupts()
    def memory(self) -> list[Memory]:
        with translating():
            return self._memory_by(self._connection)

    def _memory_by(self, connection: duckdb.DuckDBPyConnection) -> list[Memory]:
        """As a connection sees it, which the thread that asks may use."""
        held = self.arrangements
        of_arrangements = [] if held is None else [Memory("arrangements", held.nbytes, held.budget, held.count)]
        return [*of_arrangements, self._tail.memory, Memory("engine", bytes_of(connection), self._memory_limit)]

    def internal(self) -> frozenset[str]:
        return frozenset(name for name, relation in self._relations.items() if relation.internal)

    @contextmanager
    def snapshot(self) -> Iterator[DuckDBSnapshot]:
        with self._lending.one() as found:
            try:
                with hearing_interrupts(), translating():
                    self._tail.settled()
                found.begin()
                yield found
            finally:
                found.end()

    def _for_reading(self) -> DuckDBSnapshot:
        return DuckDBSnapshot(self, self._beside.cursor(), by_statements=self._by_statements)

    def interrupt(self) -> None:
        for connection in (self._connection, self._audited):
            if connection is not None:
                with suppress(duckdb.ConnectionException):  # closed
                    connection.interrupt()
        for lent in self._lending.lent:
            lent.interrupt()

    def close(self) -> None:
        self._lending.close(DuckDBSnapshot.interrupt)
        self._tail.finish()
        self._tail.release()
        self._beside.close()
        self._connection.close()
        self._tail.close()
        if self.path is not None:
            release(self.path, self._owner)


_stored_in: Final = PerPlan(lambda plan: tuple(part for part, _ in leaves_read(plan) if isinstance(part, Stored)))


def _rows_of_one(plan: Plan) -> tuple[Stored | None, dict[int, Value]]:
    """The relation of which a plan chooses rows and computes columns, one by one, if that is all it does; and the
    values that some of its columns must have."""
    fixed: dict[int, Value] = {}
    while isinstance(plan, Filter | Project):
        if isinstance(plan, Filter) and isinstance(plan.input, Stored):
            for condition in conjuncts(plan.predicate):
                match condition:
                    case Call(
                        function="eq", arguments=(Column(index=index, type=type), Literal(value=value, type=same))
                    ):
                        if type == same and value is not None:
                            fixed[index] = canonical(value)
        plan = plan.input
    return (plan if isinstance(plan, Stored) else None), fixed


class DuckDBSnapshot(DuckDBEngine):
    """What one version holds, read by a connection of its own beside those who commit.

    The version is read where everything else is read, inside one transaction of DuckDB. So nobody has to tell which
    version it is, and nobody waits for anybody.
    """

    def __init__(
        self, engine: DuckDBEngine, connection: duckdb.DuckDBPyConnection, *, by_statements: bool
    ) -> None:  # it opens nothing
        self.path = None
        self.version = 0
        self._engine, self._by_statements, self.limits = engine, by_statements, engine.limits
        self.arrangements = self.ahead = None  # they are of the last version, or the next, which may not be this one
        self._asked: dict[Asked, StoredRows] = {}
        self._relations: dict[str, StoredRelation] = {}
        self._connection = connection
        configure(self._connection)
        self._given = GivenTables(self._connection)
        self._tail = Tail(None, lambda: self._relations, engine.limits)  # nothing is ever in it
        ready = self._tail.must_not_touch
        self._statements = Statements(
            self._connection, self._given, lambda relation: self._relations[relation].table, ready
        )
        self._lookups = Lookups(self._connection, self._given, lambda relation: self._relations[relation], self._tail)

    def begin(self) -> None:
        self._connection.execute("BEGIN TRANSACTION READ ONLY")
        before, self.version = self.version, commits.last(self._connection)
        if self.version != before:
            self._forget_answers()
        relations = self._engine.known_at(self.version)
        if relations is not self._relations:
            self._statements.forget()
            self._lookups.forget_needs()
        self._relations, self._rows = relations, {}

    def end(self) -> None:
        self._given.rolled_back()
        with suppress(duckdb.Error):  # it may have been ended by an interrupt
            self._connection.execute("ROLLBACK")

    def release(self) -> None:
        self._connection.close()

    @contextmanager
    def plainly(self) -> Iterator[Evaluator]:
        with few_rules(self._connection):
            yield Plain(self._statements, self.rows, self.limits)

    def arranged(self) -> pa.Table:
        return self._engine.arranged()

    def memory(self) -> list[Memory]:
        return self._engine._memory_by(self._connection)

    def notes(self) -> Mapping[str, str]:
        return notes.read_notes(self._connection)

    def rows(self, relation: str) -> int:
        if relation not in self._rows:
            table = self._relations[relation].table
            self._rows[relation] = self._connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
        return self._rows[relation]

    def interrupt(self) -> None:
        with suppress(duckdb.ConnectionException):
            self._connection.interrupt()

    def load(self) -> Loaded:
        reads_only()

    def commit(self, commit: Commit) -> None:
        reads_only()

    def forget(
        self, log: Mapping[str, Forgetting], traces: int, notes_: Mapping[str, str | None], oldest: int = 0
    ) -> None:
        reads_only()

    def catch_up(self) -> None:
        reads_only()

    def checkpoint(self) -> bool:
        reads_only()

    def publish(self, relation: str | None = None) -> None:
        reads_only()

    def snapshot(self) -> NoReturn:
        reads_only()

    def close(self) -> None:
        reads_only()
