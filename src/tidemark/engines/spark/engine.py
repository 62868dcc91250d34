"""The Spark engine: plans run on Spark or, when they need no Spark, in this process; commits go to a lake.

Plans over a handful of rows, stored ones included, evaluated row by row.

The counts of a grouping often are a few dozen rows. Reading such a relation with a statement costs several
milliseconds, so its base rows are kept here, and go to compiled steps together with the plan's deltas.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn, TypeAlias, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemark.algebra.cache import PerPlan
from tidemark.algebra.plans import Given, Plan, Project, Stored, transform, walk
from tidemark.algebra.types import VERSION, Schema
from tidemark.engines.duckdb.settings import bytes_of
from tidemark.engines.engine import (
    ByTables,
    Columns,
    Evaluator,
    Found,
    Index,
    Iteration,
    Keys,
    Lending,
    Memory,
    reads_only,
)
from tidemark.engines.limits import PROCESS, SPARK, EngineLimits
from tidemark.engines.local.columns import followed
from tidemark.engines.local.columns import nothing_stored as no_columns_stored
from tidemark.engines.local.lookups import arranged_by_key, arranged_columns, arranged_rows, near
from tidemark.engines.local.steps import evaluate_few, given_rows, nothing_stored
from tidemark.engines.spark.backup import Needed, begin
from tidemark.engines.spark.delta_log import LOG
from tidemark.engines.spark.following import SharedTransactions
from tidemark.engines.spark.frames import Intake, relation_frame
from tidemark.engines.spark.in_process import InProcess, read_rows
from tidemark.engines.spark.inline import Log, later_than, logged_changes
from tidemark.engines.spark.integrity import Verified
from tidemark.engines.spark.lake import Lake, explained, local_path
from tidemark.engines.spark.load import (
    clear,
    files_of,
    kept_after,
    replay,
    set_aside,
    settled_at,
    sweep,
    sweep_directories,
)
from tidemark.engines.spark.merge import Merger, most_due
from tidemark.engines.spark.publish import Publications, Publisher, is_published
from tidemark.engines.spark.records import Committed, DataFile, Merged, Noted, forgotten_after
from tidemark.engines.spark.relations import Relation, Relations, apply
from tidemark.engines.spark.routing import iterates_in_process, runs_in_process, without_empty
from tidemark.engines.spark.session import Options, local_session, require_java
from tidemark.engines.spark.stage import Stager, Staging
from tidemark.engines.spark.statements import Statements
from tidemark.engines.spark.transactions import COMMIT_UNKNOWN, TransactionRow
from tidemark.errors import TidemarkError, is_fenced
from tidemark.storage import delta as deltas
from tidemark.storage.arrangements import MOST_OF_ONE_KEY, Arrangements, no_arrangements, shared
from tidemark.storage.batches import Batch, Numbers, Vector, empty_batch
from tidemark.storage.commit import Commit, Forgetting, Loaded, Logged, take_notes
from tidemark.storage.delta import Rows, Tables, as_rows
from tidemark.storage.publishing import Pace, Publication

_Key: TypeAlias = tuple[str, tuple[DataFile, ...], tuple[str, ...]]
"""The folder, the base files and the columns, which are more after an alteration."""


class Tiny:
    """Evaluates what is tiny, and remembers the base rows of tiny relations."""

    def __init__(self, verified: Verified) -> None:
        self._verified = verified
        self._bases: dict[_Key, pa.Table] = {}

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> pa.Table | None:
        """The plan's net rows, or None if it is not a matter of a few rows."""
        names = {part.relation for part in walk(plan) if isinstance(part, Stored)}
        if not all(_is_tiny(relations[name]) for name in names):
            return None
        over = _over_given(plan)
        read = {part.name: given[part.name] for part in walk(plan) if isinstance(part, Given)}
        handed = {**read, **{_name(name): self._content(relations[name]) for name in names}}
        found = evaluate_few(over, given_rows(over, handed))
        return None if found is None else found.rows.table

    def keep_only(self, relations: Relations) -> None:
        kept = {_key(relation) for relation in relations.values()}
        self._bases = {key: rows for key, rows in self._bases.items() if key in kept}

    def _content(self, relation: Relation) -> pa.Table:
        key = _key(relation)
        if key not in self._bases:
            rows = read_rows(self._verified, relation.directory, relation.files, relation.schema)
            self._bases[key] = deltas.weighted(rows).cast(relation.schema.weighted)
        return pa.concat_tables([self._bases[key], *relation.tail])


def _key(relation: Relation) -> _Key:
    return relation.directory, relation.files, relation.columns


def _lies_in_files(plan: Plan, given: Mapping[str, pa.Table]) -> bool:
    """Whether something that a plan is given lies in files, which only Spark reads."""
    names = {name for name, found in as_rows(given).items() if found.is_by_reference}
    return bool(names) and any(isinstance(part, Given) and part.name in names for part in walk(plan))


def _is_tiny(relation: Relation) -> bool:
    return sum(file.rows for file in relation.files) + relation.tail_entries <= PROCESS.tiny


def _given_instead(part: Plan) -> Plan | None:
    return Given(_name(part.relation), part.schema) if isinstance(part, Stored) else None


_over_given = PerPlan(lambda plan: transform(plan, _given_instead))


def _name(relation: str) -> str:
    return f"stored {relation}"


_logger = logging.getLogger("tidemark.spark")
_MISSED: Final = frozenset({"damaged", "storage_failed", "evaluation_failed", "internal"})


class Place:
    """The lock of an engine, under which a failure is told for what it is: whoever takes a writer's place removes files
    that the overtaken one still knows of. ``must_hold`` raises ``fenced`` if somebody has."""

    def __init__(self, must_hold: Callable[[], None]) -> None:
        self._lock, self._must_hold, self._is_changing = threading.RLock(), must_hold, False

    @contextmanager
    def changing(self) -> Iterator[None]:
        """The lock, for what changes something: a writer that was overtaken is told so, and readers only what they
        miss."""
        with self._lock:
            before, self._is_changing = self._is_changing, True
            try:
                with self:
                    yield
            finally:
                self._is_changing = before

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            if isinstance(error, OSError) or (isinstance(error, TidemarkError) and error.code in _MISSED):
                self._explain(error)
        finally:
            self._lock.release()

    def _explain(self, error: BaseException) -> None:
        try:
            self._must_hold()
        except TidemarkError as found:
            if not is_fenced(found):
                return
            if self._is_changing:
                raise found from error
            raise TidemarkError(
                "version",
                "what this connection reads is not there any more: another writer has taken over, and has removed it",
                hint="connect again, and read the last version",
            ) from error


@dataclass(frozen=True)
class Current:
    """What is committed, as values that are never changed: the version, the relations, and what of the log is gone."""

    version: int = 0
    relations: Relations = field(default_factory=dict)
    forgotten: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, pa.Table] = field(default_factory=dict)


class SparkEngine:
    """Evaluates on Spark, stores in a lake folder (``lake_path=None``: a temporary one).

    The Spark session begins when the first plan needs it. ``options`` override ``Options`` by name.
    """

    name = "spark"
    ahead = None

    def __init__(
        self,
        lake_path: str | os.PathLike[str] | None = None,
        session: SparkSession | None = None,
        **options: Any,
    ) -> None:
        if session is None and SparkSession.getActiveSession() is None:
            require_java()
        self.options, self.limits = Options(**options), SPARK
        self.version = 0
        self._relations: Relations = {}
        self._notes: dict[str, str] = {}
        self._forgotten: dict[str, int] = {}
        self._unforgotten = 0
        self._kept: dict[str, pa.Table] = {}
        self._lock = Place(self._must_hold)
        self._lake = Lake(lake_path, dict(self.options.storage), takeover=self.options.takeover)
        try:
            self._verified = Verified(self._lake.store)
            self._transactions = self._opened_transactions()
            if not self._lake.is_sealed:
                self._lake.mark()
            shares = shared(self.options.memory)
            self._in_process = InProcess(self._verified, self._lake.spill, shares.engine)
        except BaseException:
            self._lake.close()
            raise
        has_s3a = dict(self.options.storage).get("spark") == "s3a"
        start: Callable[[], SparkSession] = (
            partial(local_session, has_s3a=has_s3a) if session is None else lambda: session
        )
        self._statements = Statements(start, self._verified, self.options)
        self._intake = Intake(self._verified, self._statements, self.options, lambda: self._lake.epoch, [])
        self._merger = Merger(self.options, self._in_process, self._statements)
        self._tiny = Tiny(self._verified)
        publisher = Publisher(self._lake, self.options, self.must_hold, self._must_hold)
        self._publications = Publications(publisher, Pace(self.options.publish), self._net_since)
        self._swept = time.monotonic()
        self._start = start
        self._lending = Lending(lambda: SparkSnapshot(self), SparkSnapshot.release)
        self._current = Current()
        self.arrangements: Arrangements | None = Arrangements(
            self._scanned, self.rows, self._schema_of, shares.arrangements, self.limits.admission
        )
        self._is_loaded = self._is_unsure = self._closed = False
        self._named: tuple[int, Staging] | None = None
        """Files that the record of a sequence number names, if that is there: nobody knows yet."""
        self._sequence = 0
        """That of the last record which memory has followed."""

    @property
    def statements(self) -> int:
        """How many statements were started on Spark."""
        return self._statements.count

    @property
    def path(self) -> str:
        return self._lake.store.url

    def load(self) -> Loaded:
        with self._lock:
            if not self._is_loaded:
                rows, loaded = self._read()
                self._is_loaded = True
                self._drop_state_logs()
                if self.options.publish is None:
                    self._publications.look(self._relations)
                    self._publish_settled(self._relations.values())
                else:
                    self._publish_waiting()
                self._sweep(rows)
                if self._is_unsure:
                    return self.load()
                return loaded
            if self._is_overtaken():
                return self._last_own()
            try:
                self._transactions = self._opened_transactions()
                if self._named is not None and self._transactions.sequence < self._named[0]:
                    self._named[1].discard()
                self._named = None
                return self._read()[1]
            except (TidemarkError, OSError):
                if self._is_overtaken():  # just now
                    return self._last_own()
                raise

    def _is_overtaken(self) -> bool:
        """Whether another writer has taken the place of this one, of whose records then all are known."""
        try:
            self._transactions.know_own()
        except TidemarkError as error:
            if is_fenced(error):
                return True
            raise
        return False

    def _last_own(self) -> Loaded:
        """What this writer has committed, of which nothing changes any more. What cannot be read is told once: memory
        stays as it is."""
        named, self._named = self._named, None
        known, self._sequence = self._sequence, self._transactions.sequence
        self._is_unsure = False
        if known != self._sequence:
            return self._read()[1]
        if named is not None and not self._transactions.is_followed:
            raise TidemarkError(COMMIT_UNKNOWN, "another writer has taken over, and has removed the end of the log")
        return Loaded(self.version, (), dict(self._notes))

    def must_hold(self) -> None:
        self._transactions.must_hold()

    def _must_hold(self) -> None:
        self._transactions.must_hold(is_asked=True)

    def _opened_transactions(self) -> SharedTransactions:
        return SharedTransactions(self._lake, self.options)

    def _read(self) -> tuple[list[TransactionRow], Loaded]:
        """Read the records, and let memory be what they say."""
        rows = self._transactions.rows()
        small = self._transactions.small_deltas(settled_at(rows))
        notes: dict[str, str] = {}
        for row in rows:
            if not isinstance(row.record, Merged):
                take_notes(notes, row.record.notes)
        catalog = [text for row in rows if isinstance(row.record, Committed) for text in row.record.catalog]
        self._relations = replay(self._verified, rows, small)
        self._forgotten = forgotten_after(row.record for row in rows)
        self._kept = kept_after(rows, self._transactions.cells)
        self._notes, self.version = notes, self._transactions.version()
        self._sequence = self._transactions.sequence
        self._is_unsure = False
        self._publications.begin(self.version)
        if self.arrangements is not None:
            self.arrangements.clear(self.version)
        self._announce()
        return rows, Loaded(self.version, tuple(catalog), dict(notes))

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        with self._lock:
            plan = self._reading(plan)
            is_here = not self.options.by_statements and not _lies_in_files(plan, given)
            found = self._evaluate_few(plan, given) if is_here else None
            return self.evaluate_plainly(plan, given) if found is None else found

    def follow(self, plan: Plan, given: Mapping[str, Rows]) -> Found | None:
        """By compiled steps, over what is arranged."""
        if self.options.by_statements or self.arrangements is None or _lies_in_files(plan, Tables(given)):
            return None
        with self._lock:
            self._must_be_open()
            return followed(plan, given, self._found, self._found_columns)

    def look_up(self, leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> Index | None:
        """If they are arranged."""
        if self.options.by_statements or self.arrangements is None:
            return None
        with self._lock:
            self._must_be_open()
            return self._found(leaf, columns, keys, needed)

    def _found(self, leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> Index | None:
        if not self.rows(leaf.relation):
            return {}
        assert self.arrangements is not None
        return arranged_by_key(self.arrangements, leaf, columns, keys, needed, MOST_OF_ONE_KEY)

    def _found_columns(
        self, leaf: Stored, columns: tuple[int, ...], keys: Sequence[Vector], needed: tuple[int, ...] | None
    ) -> tuple[Batch, Numbers | None] | None:
        """The same for compiled steps over columns."""
        if not self.rows(leaf.relation):
            return empty_batch(leaf.schema), None
        assert self.arrangements is not None
        return arranged_columns(self.arrangements, leaf, columns, keys, needed)

    def _evaluate_few(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table | None:
        """What needs no statement over stored rows: they are few, or all that matter are found in memory."""
        tiny = self._tiny.evaluate(plan, given, self._relations)
        held = self.arrangements
        if tiny is not None or held is None:
            return tiny
        reached, rows = near(plan, given, lambda question: arranged_rows(held, question))
        if reached is plan or any(isinstance(part, Stored) for part in walk(reached)):
            return None
        few = followed(reached, rows, nothing_stored, no_columns_stored)
        if few is not None:
            return few.rows.table
        return self.evaluate_plainly(reached, {name: part.table for name, part in rows.items()})

    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        with self._lock:
            plan = self._reading(plan)
            runner = self._in_process if self._is_local(plan, given) else self._statements
            result = runner.rows(plan, given, self._relations)
        return result.rename_columns(plan.schema.arrow.names).cast(plan.schema.arrow)

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        """In this process, if no more is read for it than one process has room for: Spark iterates by many jobs."""
        with self._lock:
            return iterates_in_process(iteration.over(self._reading), self._relations, self.options)

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        with self._lock:
            iteration = iteration.over(self._reading)
            result = self._in_process.iterated(iteration, given, self._relations)
        schema = iteration.first.schema.weighted
        return result.rename_columns(schema.names).cast(schema)

    @contextmanager
    def plainly(self) -> Iterator[Evaluator]:
        with self._lock, self._in_process.plainly(), self._statements.plainly():
            yield _Plain(self)

    def evaluate_plainly(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        """As ``evaluate``, but always by a statement."""
        with self._lock:
            plan = self._reading(plan)
            runner = self._in_process if self._is_local(plan, given) else self._statements
            result = runner.weighted(plan, given, self._relations)
        return result.rename_columns(plan.schema.weighted.names).cast(plan.schema.weighted)

    def explain(self, plan: Plan, given: Mapping[str, pa.Table]) -> str:
        """Spark's physical plan for a differential."""
        with self._lock:
            return self._statements.explain(self._reading(plan), given, self._relations)

    def commit(self, commit: Commit) -> None:
        with self._lock.changing():
            if commit.version <= self.version:
                raise ValueError(f"version {commit.version} is not after {self.version}")
            self._transactions.must_hold()  # before anything is written for it
            staging = Staging(self._verified, self._lake.epoch, power=self.options.power)
            adopt = self._intake.adopt
            stager = Stager(self._lake, self.options, staging, self._statements, self._in_process, adopt)
            with staging.discarded_on_failure():
                staged = stager.stage(commit, self._relations)
                after = apply(self._relations, staged.record, lambda _, changed: staged.entries.get(changed.relation))
                staging.settle()
                staging.is_named = True
                row = (staged.record, commit.time, commit.trace, staged.inline)
                self._append(staging, lambda: self._transactions.append(*row))
            try:
                self._follow(commit, staged.record, after)
            except (TidemarkError, OSError) as error:
                said = error.message if isinstance(error, TidemarkError) else str(error)
                raise TidemarkError(COMMIT_UNKNOWN, f"what follows the commit failed: {said}") from error

    def _follow(self, commit: Commit, record: Committed, after: Relations) -> None:
        """Let memory be what is committed, and do what comes after the commit point."""
        before, self._relations = self._relations, after
        self.version = commit.version
        take_notes(self._notes, commit.notes)
        for name in (*commit.dropped, *(creation.relation for creation in commit.created)):
            self._forgotten.pop(name, None)
            self._kept.pop(name, None)
        self._announce()
        self._sequence = self._transactions.sequence
        others = [*commit.dropped, *(creation.relation for creation in commit.created)]
        others += [alteration.relation for alteration in commit.altered]
        self._publications.committed(commit.deltas, others)
        self._after_commit(record, before)
        if self._is_unsure:
            self.load()
        else:
            self._arrange(commit)

    def _arrange(self, commit: Commit) -> None:
        """Let arrangements follow what is committed, and build those that are wanted."""
        if self.arrangements is None:
            return
        others = (creation.relation for creation in commit.created)
        rows = as_rows(commit.deltas)
        filed = [name for name, change in rows.items() if change.is_by_reference]
        gone = (*commit.dropped, *(change.relation for change in commit.altered), *others, *filed)
        here = Tables({name: change for name, change in rows.items() if not change.is_by_reference})
        self.arrangements.feed(commit.version, here, gone)
        self.arrangements.build_wanted()

    def _scanned(self, relation: str, columns: Sequence[int]) -> pa.Table:
        """Some columns of a relation, as they are stored."""
        stored = Stored(relation, self._relations[relation].schema)
        names = tuple(stored.schema.names[column] for column in columns)
        cells = stored.columns()
        return self.fetch(Project(stored, names, tuple(cells[column] for column in columns)), {})

    def _schema_of(self, relation: str) -> Schema:
        return self._relations[relation].schema

    def _announce(self) -> None:
        """Let snapshots begin at what is committed now."""
        self._current = Current(self.version, self._relations, dict(self._forgotten), dict(self._kept))

    def changes(self, relation: str, since: int) -> pa.Table:
        with self._lock:
            stored = self._relations[relation]
            forgotten = self._forgotten.get(relation, 0)
            log = self._log(relation, max(since, stored.created_at - 1, forgotten))
            kept = self._kept.get(relation)
            return logged_changes(self._verified, stored, log, None if kept is None else later_than(kept, since))

    def _log(self, relation: str, since: int) -> Log:
        return self._transactions.log(relation, since)

    def note(self, notes: Mapping[str, str | None]) -> None:
        self.forget({}, 0, notes)

    def forget(
        self, log: Mapping[str, Forgetting], traces: int, notes: Mapping[str, str | None], oldest: int = 0
    ) -> None:
        with self._lock.changing():
            marks = {name: forgetting.up_to for name, forgetting in log.items()}
            record = Noted(self.version, dict(notes), marks, traces)
            kept = {name: part.kept for name, part in log.items() if part.kept is not None and part.kept.num_rows}
            self._publish_before(marks)
            self._transactions.append(record, dt.datetime.now(dt.UTC), deltas=kept)
            take_notes(self._notes, notes)
            self._forgotten.update(marks)
            self._kept = {**{name: rows for name, rows in self._kept.items() if name not in log}, **kept}
            self._announce()
            self._sequence = self._transactions.sequence
            if log:
                self._try("drop what is forgotten", partial(self._drop_forgotten, oldest), is_risky=True)
            self._try("compact the transactions", self._transactions.compact_if_due, is_risky=True)
            if self._is_unsure:
                self.load()

    def backup(self, target: str) -> Callable[[], None]:
        with self._lock:
            rows = self._transactions.rows()
            return begin(self._lake, local_path(target), self._needed(rows), self._transactions.files())

    @property
    def idle_after(self) -> float | None:
        return self._publications.idle_after(self._relations)

    def catch_up(self) -> None:
        """Publish what waits, when that is due."""
        with self._lock:
            self._publish_waiting()
            if self._is_unsure:
                self.load()

    def checkpoint(self) -> bool:
        """Every tail goes into base files, and every relation's own Delta log says so. Of small rows of transactions
        that have become many one file is made."""
        with self._lock.changing():
            self._must_hold()
            others = [relation for relation in self._relations.values() if not is_published(relation)]
            for error in self._merge_tails(others):
                raise error
            self.publish()
            self._transactions.compact_if_due()
            return True

    def publish(self, relation: str | None = None) -> None:
        with self._lock.changing():
            self._must_hold()
            names = None if relation is None else {relation}
            for error in self._publish_waiting(names):
                raise error

    def staged(self, relation: str, frame: object) -> Rows | None:
        with self._lock.changing():
            self._must_be_open()
            self._transactions.must_hold()
            return self._intake.taken(cast("DataFrame", frame), self._relations[relation])

    def compared(self, relation: str, plan: Plan, given: Mapping[str, pa.Table]) -> Rows:
        with self._lock.changing():
            reached = self._reading(plan)
            return self._intake.compared(reached, given, self._relations[relation], self._relations)

    def frame(self, relation: str, session: object) -> object | None:
        with self._lock:
            self._must_be_open()
            found = self._relations[relation]
            if not self._lake.store.is_local:
                self._statements.ask(lambda: self._statements.session)  # which tells how Spark gets to the bucket
            return relation_frame(cast("SparkSession", session or self._start()), found, self._verified)

    def publications(self) -> list[Publication]:
        return self._publications.shown(self._relations, self.version)

    def _needed(self, rows: list[TransactionRow]) -> list[Needed]:
        """The data files that the last version needs."""
        return [
            Needed(f"{self._relations[name].directory}/{file.path}", file.size_bytes, file.checksum)
            for name, files in files_of(self._relations, rows).items()
            for file in files
        ]

    def logged(self) -> list[Logged]:
        with self._lock:
            kept = [
                Logged(name, version, part.nbytes)
                for name, rows in self._kept.items()
                for version, part in deltas.by_version(rows)
            ]
            later = self._transactions.logged()
            names = {name for name, relation in self._relations.items() if relation.logged}
            return kept + [
                one for one in later if one.relation in names and one.version > self._forgotten.get(one.relation, 0)
            ]

    def _drop_forgotten(self, oldest: int) -> None:
        """Remove what no reader asks for any more from the rows of transactions: rarely, as it rewrites all of them."""
        self._unforgotten += 1
        if self._unforgotten < self.options.forget_every:
            return
        self._unforgotten = 0
        self._merge_tails(list(self._relations.values()))  # what was merged needs no deltas when the lake is opened
        settled = settled_at(self._transactions.rows())

        def is_needed(name: str, sequence: int, version: int) -> bool:
            relation = self._relations.get(name)
            if relation is None:
                return False
            is_read = relation.logged and version > self._forgotten.get(name, 0)
            return is_read or sequence >= settled.get(name, 0)

        self._transactions.forget(is_needed, oldest)
        self._sweep(self._transactions.rows())

    def _sweep(self, rows: list[TransactionRow]) -> None:
        self._swept = time.monotonic()
        self._transactions.must_hold(is_asked=True)
        kept = self._publications.publisher.files() | self._intake.names()
        sweep(self._lake, self._relations, rows, self.options, kept)
        with self._lake.taking_place():
            self._transactions.must_hold(is_asked=True)
            unused = sweep_directories(self._lake, self._relations, self.options)
        clear(unused)

    def times(self) -> pa.Table:
        with self._lock:
            return self._transactions.times()

    def trace(self, version: int) -> str | None:
        with self._lock:
            return self._transactions.trace(version)

    def rows(self, relation: str) -> int:
        return self._relations[relation].rows

    def merge(self, relation: str) -> None:
        """Fold the relation's tail into its base files now, so that foreign readers see the last version."""
        with self._lock.changing():
            for error in self._merge_tails([self._relations[relation]]):
                raise error
            self._publish_settled([self._relations[relation]])

    def arranged(self) -> pa.Table:
        return no_arrangements() if self.arrangements is None else self.arrangements.shown()

    def memory(self) -> list[Memory]:
        return self._memory_with(self._in_process)

    def _memory_with(self, in_process: InProcess) -> list[Memory]:
        """With what works in this process for the thread that asks."""
        held, shares = self.arrangements, shared(self.options.memory)
        of_arrangements = [] if held is None else [Memory("arrangements", held.nbytes, held.budget, held.count)]
        tails = [part for relation in self._relations.values() for part in relation.tail]
        tail = Memory("tail", sum(part.nbytes for part in tails), None, sum(part.num_rows for part in tails))
        return [*of_arrangements, tail, Memory("engine", bytes_of(in_process.connection), shares.engine)]

    def internal(self) -> frozenset[str]:
        return frozenset(name for name, relation in self._relations.items() if relation.internal)

    @contextmanager
    def snapshot(self) -> Iterator[SparkSnapshot]:
        """What is committed, for a thread beside the one that commits: files never change, and tails are values."""
        with self._lending.one() as found:
            found.begin(self._current)
            yield found

    def interrupt(self) -> None:
        # Without the lock, which the thread that works is holding.
        self._in_process.interrupt()
        self._statements.interrupt()
        for lent in self._lending.lent:
            lent.interrupt()

    def close(self) -> None:
        with self._lock:
            # What was interrupted is done when it is closed again.
            is_open, self._closed = not self._closed, True
            try:
                if is_open and self._is_loaded and self.options.publish is not None and not self._lake.is_lost:
                    self._try("publish what waits", self._publish_waiting)
                self._lending.close(SparkSnapshot.interrupt)
                self._statements.close()
            finally:
                self._in_process.close()
                self._lake.close()

    # What is read where

    def _rows_by_relation(self) -> dict[str, int]:
        return {name: relation.rows for name, relation in self._relations.items()}

    def _must_be_open(self) -> None:
        if self._closed:
            raise TidemarkError("closed", "the database is closed", hint="connect again")

    def _reading(self, plan: Plan) -> Plan:
        self._must_be_open()
        return without_empty(plan, self._rows_by_relation())

    def _is_local(self, plan: Plan, given: Mapping[str, pa.Table]) -> bool:
        return not _lies_in_files(plan, given) and runs_in_process(plan, given, self._relations, self.options)

    # After the commit point: nothing here changes what the database holds, so nothing here may fail the commit.

    def _after_commit(self, record: Committed, before: Relations) -> None:
        for name in record.dropped:
            self._try(f"remove the folder of {name}", partial(self._remove_folder, before[name]))
        due = most_due(self._relations, self.options)
        if due is not None:
            self._try(f"merge {due.name}", partial(self._merge_tails, [due], is_due=True), is_risky=True)
        if self._publications.pace.is_due(self.version):
            self._publish_waiting()
        elif self.options.publish is None:
            self._publish_settled(self._relations.values())
        elif record.created:
            self._publish_settled([self._relations[created.relation] for created in record.created])
        self._try("compact the transactions", self._transactions.compact_if_due, is_risky=True)
        for kept in (self._statements, self._in_process, self._tiny):
            self._try("let go of what is no longer stored", partial(kept.keep_only, self._relations))

    def _merge_tails(self, relations: Collection[Relation], *, is_due: bool = False) -> list[Exception]:
        """Fold tails into base files, all of them by one append, and say what failed of those that cannot be merged;
        ``is_due`` are merged even if they have no tail."""
        failures = list[Exception]()
        due = [relation for relation in relations if relation.tail or is_due]
        if due:
            self._transactions.must_hold()
        staging = Staging(self._verified, self._lake.epoch, power=self.options.power)
        with staging.discarded_on_failure():
            records, after = list[Merged](), self._relations
            for relation in due:
                try:
                    records.append(self._merger.merge(relation, self.version, staging))
                except TidemarkError as error:  # others can be merged
                    self._publications.failed(relation.name, error)
                    failures.append(error)
                    continue
                after = apply(after, records[-1], lambda *_: None)
            if not records:
                return failures
            staging.settle()
            staging.is_named = True
            self._append(staging, lambda: self._transactions.append_merges(records, dt.datetime.now(dt.UTC)))
        self._relations = after
        self._announce()
        self._sequence = self._transactions.sequence
        return failures

    # What other readers see (``publish.py``). Of ours nothing depends on it.

    def _publish_waiting(self, names: Collection[str] | None = None) -> list[Exception]:
        """Merge and publish what waits, perhaps of some relations only, and say what failed."""
        began = time.monotonic()
        chosen = [one for one in self._publications.waiting(self._relations) if names is None or one.name in names]
        try:
            failures = self._merge_tails(chosen)
        except Exception as error:
            error = explained(error, self._must_hold)
            self._is_unsure |= not is_fenced(error)  # nobody knows what is stored before it was read again
            for relation in chosen:
                self._publications.failed(relation.name, error)
            failures = [error]
        else:
            failures += self._publish_settled(self._relations[relation.name] for relation in chosen)
        self._publications.pace.ended(began, self.version, has_failed=bool(self._publications.errors))
        if time.monotonic() - self._swept > self.options.sweep_after_seconds:
            self._try("sweep", lambda: self._sweep(self._transactions.rows()))
        return failures

    def _publish_before(self, marks: Mapping[str, int]) -> None:
        """Publish what would ask the log for changes up to these versions, which are to be forgotten."""
        found = {name: relation for name, relation in self._relations.items() if name in marks}
        late = [name for name, one in found.items() if self._publications.needs_log(one, marks[name])]
        if late and self.options.publish is not None:
            self._publish_waiting(late)
        if self._is_unsure:
            self.load()

    def _publish_settled(self, relations: Iterable[Relation]) -> list[Exception]:
        settled = [relation for relation in relations if is_published(relation) and not relation.tail]
        waiting = [relation for relation in settled if self._publications.publisher.is_waiting(relation)]
        return self._publications.publish(waiting, self.version)

    def _net_since(self, relation: Relation, since: int) -> pa.Table | None:
        """What the log says of a relation's change since a version, if it goes back that far."""
        if not relation.logged or self._forgotten.get(relation.name, 0) > since or relation.created_at > since:
            return None
        found = SparkEngine.changes(self, relation.name, since).drop_columns([VERSION])
        return deltas.net(found.rename_columns(relation.schema.weighted.names).cast(relation.schema.weighted))

    def _drop_state_logs(self) -> None:
        """Inner states had Delta logs of their own once."""
        for relation in self._relations.values():
            log = self._lake.root / relation.directory / LOG
            if not is_published(relation) and log.is_dir():
                shutil.rmtree(log, ignore_errors=True)  # a state that is created has none, so that no other comes
                self._lake.seals.drop(log.parent)

    def _append(self, staging: Staging, append: Callable[[], object]) -> None:
        """The commit point. Unless it is certain that there is no record, the files that it names stay."""
        self._named = (self._transactions.sequence + 1, staging)
        try:
            append()
        except TidemarkError as error:
            staging.is_named = error.code == COMMIT_UNKNOWN
            raise
        self._named = None

    def _remove_folder(self, relation: Relation) -> None:
        folder = self._lake.root / relation.directory
        if relation.directory in {one.directory for one in self._relations.values()}:
            # Another relation goes on there. Who reads the files of this one has as long as for what nobody names.
            self._lake.store.touch(folder / file.path for file in relation.files)
        elif not self._lending.lent:  # else somebody may read it: the next opening sweeps it away
            with self._lake.taking_place():
                self._transactions.must_hold(is_asked=True)
                going = set_aside(self._lake, folder)
            clear([going])
            self._publications.publisher.gone(relation.directory)

    def _try(self, what: str, action: Callable[[], object], *, is_risky: bool = False) -> None:
        """Do what may fail. After a failure of what is risky nobody knows what is stored, before it was read again."""
        try:
            action()
        except Exception as error:
            if is_fenced(explained(error, self._must_hold)):  # which is told once, and leaves everything as it was
                return
            # It is tried again after a later commit or at the next opening.
            _logger.warning("could not %s", what, exc_info=True)
            self._is_unsure |= is_risky


@dataclass(frozen=True)
class _Plain(ByTables):
    """The engine without what it does row by row."""

    engine: SparkEngine

    @property
    def limits(self) -> EngineLimits:
        return self.engine.limits

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self.engine.evaluate_plainly(plan, given)

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        return self.engine.iterates(iteration, given)

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        return self.engine.iterate(iteration, given)

    def rows(self, relation: str) -> int:
        return self.engine.rows(relation)


class SparkSnapshot(SparkEngine):
    """What one version holds, read with sessions and connections of its own beside the engine that commits."""

    def __init__(self, engine: SparkEngine) -> None:  # it opens no lake
        self.options, self.limits = engine.options, engine.limits
        self._lake, self._verified = engine._lake, engine._verified
        self._engine, self._transactions, self._start = engine, engine._transactions, engine._start
        self._lock = Place(engine._must_hold)
        spill = self._lake.spill / f"beside-{id(self)}"
        spill.mkdir(parents=True, exist_ok=True)  # two that spill into one folder would take each other's files
        self._in_process = InProcess(self._verified, spill, shared(self.options.memory).engine)
        self.arrangements = None  # they are of the last version, which may not be this one
        self._statements = Statements(engine._start, self._verified, self.options)
        self._tiny = Tiny(self._verified)
        self._closed = False
        self._relations = {}

    def begin(self, current: Current) -> None:
        self._transactions = self._engine._transactions
        if self._relations is not current.relations:
            for kept in (self._statements, self._in_process, self._tiny):
                kept.keep_only(current.relations)
        self.version, self._relations = current.version, current.relations
        self._forgotten, self._kept = dict(current.forgotten), dict(current.kept)

    def release(self) -> None:
        self._statements.close()
        self._in_process.close()

    def arranged(self) -> pa.Table:
        return self._engine.arranged()

    def memory(self) -> list[Memory]:
        return self._engine._memory_with(self._in_process)

    def notes(self) -> Mapping[str, str]:
        return dict(self._engine._notes)

    def changes(self, relation: str, since: int) -> pa.Table:
        with self._transactions.lock:
            if self._engine._forgotten.get(relation, 0) > max(since, self._forgotten.get(relation, 0)):
                raise TidemarkError("version", f"the log of {relation!r} was cut while it was read", hint="read again")
            return super().changes(relation, since)

    def _log(self, relation: str, since: int) -> Log:
        return super()._log(relation, since).until(self.version)

    def interrupt(self) -> None:
        self._in_process.interrupt()
        self._statements.interrupt()

    def load(self) -> Loaded:
        reads_only()

    def commit(self, commit: Commit) -> None:
        reads_only()

    def forget(
        self, log: Mapping[str, Forgetting], traces: int, notes: Mapping[str, str | None], oldest: int = 0
    ) -> None:
        reads_only()

    def checkpoint(self) -> bool:
        reads_only()

    def publish(self, relation: str | None = None) -> None:
        reads_only()

    def publications(self) -> list[Publication]:
        return self._engine.publications()

    def snapshot(self) -> NoReturn:
        reads_only()

    def merge(self, relation: str) -> None:
        reads_only()

    def close(self) -> None:
        reads_only()
