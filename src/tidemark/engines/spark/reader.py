"""A lake as a process sees it that only reads, while another one writes.

It follows the table of transactions: new rows change the stored relations in memory as they did in the writer. Files
that the writer removes meanwhile, because a merge has replaced them, are missed by whoever reads a version that had
them; then that version is made of what is there now: the content of a later version minus what the log says has changed
since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.algebra.plans import Plan
from tidemark.algebra.types import VERSION
from tidemark.engines.engine import Iteration, Lending, read_only
from tidemark.engines.limits import SPARK
from tidemark.engines.spark.delta_table import standing_of
from tidemark.engines.spark.engine import Current, Place, SparkEngine, SparkSnapshot, Tiny
from tidemark.engines.spark.following import ATTEMPTS, FollowedTransactions, News
from tidemark.engines.spark.in_process import InProcess, read_entries
from tidemark.engines.spark.inline import Log, logged_changes
from tidemark.engines.spark.integrity import Verified, mirror
from tidemark.engines.spark.lake import Lake
from tidemark.engines.spark.load import kept_after, replay, settled_at
from tidemark.engines.spark.publish import is_published, publication_of
from tidemark.engines.spark.records import Changed, Committed, Merged, Noted, forgotten_after
from tidemark.engines.spark.relations import Relation, Relations, apply
from tidemark.engines.spark.session import Options, local_session, require_java
from tidemark.engines.spark.statements import Statements
from tidemark.engines.spark.transactions import StoredTransactions
from tidemark.errors import TidemarkError
from tidemark.storage import delta as deltas
from tidemark.storage.arrangements import shared
from tidemark.storage.commit import Commit, Followed, Forgetting, Loaded, take_notes
from tidemark.storage.publishing import Publication
from tidemark.storage.streams import from_bytes

T = TypeVar("T")


class LakeReader(SparkEngine):
    """Reads a lake that is there. It takes no lock, and writes nothing below the lake."""

    def __init__(
        self, lake_path: str | os.PathLike[str], session: SparkSession | None = None, **options: Any
    ) -> None:  # what an engine does that writes is not done
        if session is None and SparkSession.getActiveSession() is None:
            require_java()
        self.options, self.limits = Options(**options), SPARK
        self.version = 0
        self._relations: Relations = {}
        self._notes: dict[str, str] = {}
        self._forgotten: dict[str, int] = {}
        self._kept: dict[str, pa.Table] = {}
        self._lock = Place(self._must_hold)
        self._lake = Lake(lake_path, dict(self.options.storage), read_only=True)
        try:
            self._verified = Verified(self._lake.store)
            self._transactions = self._followed = FollowedTransactions(self._lake, self.options)  # type: ignore[assignment]
            self._in_process = InProcess(self._verified, self._lake.spill, shared(self.options.memory).engine)
        except BaseException:
            self._lake.close()
            raise
        has_s3a = dict(self.options.storage).get("spark") == "s3a"
        self._start: Callable[[], SparkSession] = (
            partial(local_session, has_s3a=has_s3a) if session is None else lambda: session
        )
        self._statements = Statements(self._start, self._verified, self.options)
        self._tiny = Tiny(self._verified)
        self._lending = Lending(lambda: ReaderSnapshot(self), SparkSnapshot.release)
        self._current = Current()
        self.arrangements = None
        self._is_loaded = self._is_unsure = self._closed = False
        self._named = None

    @property
    def idle_after(self) -> float | None:
        return None

    def _must_hold(self) -> None:
        """It has no place that anybody could take."""

    def must_hold(self) -> None:
        """The same."""

    def load(self) -> Loaded:
        with self._lock:
            rows, found, notes, version = self._latest()
            self._notes, self.version = notes, version
            self._relations, self._forgotten, self._kept = found.relations, dict(found.forgotten), dict(found.kept)
            self._announce()
            catalog = [text for one in rows for text in one.catalog]
            return Loaded(self.version, tuple(catalog), dict(self._notes))

    def keep_up(self, foretell: Callable[[Followed], None]) -> bool:
        """Move on to the last version that is there; whether it is a later one. ``foretell`` is told what has changed
        before anybody can begin to read it."""
        with self._lock:
            self._must_be_open()
            news = None if self._is_unsure else self._followed.news()
            if news is not None and not news:
                return False
            self._is_unsure = True
            try:
                is_later = self._moved(foretell) if news is None else self._take(news, foretell)
            except (TidemarkError, OSError):
                is_later = self._moved(foretell)  # what a row names is gone by now
            self._is_unsure = False
            return is_later

    def _take(self, news: Sequence[News], foretell: Callable[[Followed], None]) -> bool:
        """Go on by some rows, as the writer did."""
        relations, notes = self._relations, dict(self._notes)
        forgotten, kept = dict(self._forgotten), dict(self._kept)
        version, commits = self.version, list[tuple[int, Any, tuple[str, ...]]]()
        for one in news:
            record = one.row.record
            relations = apply(relations, record, partial(self._entries, one))
            if isinstance(record, Merged):
                continue
            take_notes(notes, record.notes)
            if isinstance(record, Noted):
                forgotten.update(record.forgotten)
                given = {name: from_bytes(cell) for name, cell in one.cells.items()}
                kept = {**{n: rows for n, rows in kept.items() if n not in record.forgotten}, **given}
                continue
            for name in (*record.dropped, *(created.relation for created in record.created)):
                forgotten.pop(name, None)
                kept.pop(name, None)
            version = record.version
            commits.append((version, one.row.time.replace(tzinfo=None), record.catalog))
        foretell(Followed(version, tuple(commits), notes))
        self._relations, self._notes, self._forgotten, self._kept = relations, notes, forgotten, kept
        is_later, self.version = version > self.version, version
        self._announce()
        return is_later

    def _entries(self, one: News, relation: Relation, changed: Changed) -> pa.Table | None:
        if changed.inline:
            return from_bytes(one.cells[relation.name])
        return read_entries(self._verified, relation.directory, changed.weighted, relation.schema)

    def _moved(self, foretell: Callable[[Followed], None]) -> bool:
        """The same after an absence, from all that is there."""
        before = self.version
        rows, found, notes, version = self._latest()
        texts = {record.version: record.catalog for record in rows}
        times = self._followed.times().to_pylist()
        later = [(one["version"], one["time"]) for one in times if before < one["version"] <= version]
        commits = tuple((number, moment, texts.get(number, ())) for number, moment in later)
        foretell(Followed(version, commits, notes))
        self._relations, self._forgotten, self._kept = found.relations, dict(found.forgotten), dict(found.kept)
        self._notes, self.version = notes, version
        self._announce()
        return version > before

    def _latest(self) -> tuple[list[Committed], Current, dict[str, str], int]:
        """What is there now, as a whole: transactions that say more than small deltas, relations, notes, version."""
        for attempt in range(ATTEMPTS):
            stored = self._followed.begin_anew()
            try:
                return self._replayed(stored)
            except (TidemarkError, OSError, pa.ArrowInvalid):
                if attempt == ATTEMPTS - 1:
                    raise  # else files have gone while they were read
        raise AssertionError("one of the attempts is the last")

    def _replayed(self, stored: StoredTransactions) -> tuple[list[Committed], Current, dict[str, str], int]:
        rows = stored.rows()
        notes: dict[str, str] = {}
        for row in rows:
            if not isinstance(row.record, Merged):
                take_notes(notes, row.record.notes)
        relations = replay(self._verified, rows, stored.small_deltas(settled_at(rows)))
        forgotten, kept = forgotten_after(row.record for row in rows), kept_after(rows, stored.cells)
        version = stored.version()
        commits = [row.record for row in rows if isinstance(row.record, Committed)]
        return commits, Current(version, relations, forgotten, kept), notes, version

    def latest(self) -> Current:
        """What is there now, for who misses files of the version that is followed; that stays as it is."""
        with self._lock:
            for attempt in range(ATTEMPTS):
                try:
                    return self._replayed(self._followed.as_it_is_now())[1]
                except (TidemarkError, OSError, pa.ArrowInvalid):
                    if attempt == ATTEMPTS - 1:
                        raise
            raise AssertionError("one of the attempts is the last")

    def log_until(self, relation: str, since: int, version: int) -> Log:
        """What transactions after one version, up to another that may not be followed yet, logged of a relation."""
        for attempt in range(ATTEMPTS):
            try:
                return self._followed.as_it_is_now().log(relation, since).until(version)
            except (OSError, pa.ArrowInvalid):
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("one of the attempts is the last")

    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        with self.snapshot() as found:
            return found.fetch(plan, given)

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        with self.snapshot() as found:
            return found.evaluate(plan, given)

    def changes(self, relation: str, since: int) -> pa.Table:
        with self.snapshot() as found:
            return found.changes(relation, since)

    def commit(self, commit: Commit) -> None:
        raise read_only("a commit")

    def forget(
        self, log: Mapping[str, Forgetting], traces: int, notes: Mapping[str, str | None], oldest: int = 0
    ) -> None:
        raise read_only("a note")

    def backup(self, target: str) -> Callable[[], None]:
        raise read_only("a backup, which holds on to files of the lake,")

    def checkpoint(self) -> bool:
        raise read_only("CHECKPOINT")

    def publish(self, relation: str | None = None) -> None:
        raise read_only("PUBLISH")

    def merge(self, relation: str) -> None:
        raise read_only("a merge")

    def publications(self) -> list[Publication]:
        with self._lock:
            found = [one for one in self._relations.values() if is_published(one)]
            for one in found:
                mirror(self._lake.store, self._lake.root / one.directory, parts=False)
            return [publication_of(one, self.version, standing_of(self._lake.root / one.directory)) for one in found]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            try:
                self._lending.close(SparkSnapshot.interrupt)
                self._statements.close()
            finally:
                self._in_process.close()
                self._lake.close()


class ReaderSnapshot(SparkSnapshot):
    """One version, read again from what is there now when files of it have gone."""

    _engine: LakeReader

    def _again(self, action: Callable[[], T]) -> T:
        for _ in range(ATTEMPTS):
            try:
                return action()
            except Exception:
                lost = self._lost()
                if not lost:
                    raise
            self._rewind(lost)
        raise TidemarkError("busy", "files are replaced faster than they can be read", hint="read again")

    def _lost(self) -> list[Relation]:
        """The relations of which files are not there any more."""
        store = self._lake.store
        return [
            relation
            for relation in self._relations.values()
            if not all(store.is_there(store.root / relation.directory / file.path) for file in relation.files)
        ]

    def _rewind(self, lost: Sequence[Relation]) -> None:
        """Let relations hold what they held, in files that are there: later content, minus what changed since."""
        latest = self._engine.latest()
        changed = {relation.name: self._rewound(relation, latest) for relation in lost}
        self._relations = {**self._relations, **changed}

    def _rewound(self, relation: Relation, latest: Current) -> Relation:
        found = latest.relations.get(relation.name)
        if found is None or (found.created_at, found.schema) != (relation.created_at, relation.schema):
            raise TidemarkError(
                "version", f"{relation.name} was dropped or altered while version {self.version} of it was read"
            )
        if latest.version == self.version:
            return found
        if not relation.logged or latest.forgotten.get(relation.name, 0) > self.version:
            raise TidemarkError(
                "version",
                f"the log of {relation.name} was cut while version {self.version} of it was read",
                hint="read again, which is the last version, or keep more of the log: ALTER LOG SET",
            )
        log = self._engine.log_until(relation.name, self.version, latest.version)
        later = logged_changes(self._verified, found, log).drop_columns([VERSION])
        net = deltas.net(later.rename_columns(found.schema.weighted.names).cast(found.schema.weighted))
        return found.with_change((), deltas.negated(net), relation.changed_at)

    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._again(lambda: SparkSnapshot.fetch(self, plan, given))

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._again(lambda: SparkSnapshot.evaluate(self, plan, given))

    def evaluate_plainly(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._again(lambda: SparkSnapshot.evaluate_plainly(self, plan, given))

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._again(lambda: SparkSnapshot.iterate(self, iteration, given))

    def changes(self, relation: str, since: int) -> pa.Table:
        try:
            return self._again(lambda: SparkSnapshot.changes(self, relation, since))
        except Exception as error:
            if self._engine.latest().forgotten.get(relation, 0) <= max(since, self._forgotten.get(relation, 0)):
                raise
            raise TidemarkError(
                "version", f"the log of {relation!r} was cut while it was read", hint="read again"
            ) from error
