"""The Spark engine: plans run on Spark or, when they need no Spark, in this process; commits go to a lake."""

from __future__ import annotations

import datetime as dt
import logging
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.algebra.plans import Plan
from tidemark.engines.base import Iteration
from tidemark.engines.spark.changes import later_than, logged_changes
from tidemark.engines.spark.committing import Stager
from tidemark.engines.spark.inprocess import InProcess
from tidemark.engines.spark.lake import Lake
from tidemark.engines.spark.loading import kept_after, replay, settled_at
from tidemark.engines.spark.merging import Merger, most_due
from tidemark.engines.spark.options import Options
from tidemark.engines.spark.publishing import publish
from tidemark.engines.spark.records import Committed, Merged, Noted, forgotten_after
from tidemark.engines.spark.relations import Relation, Relations, apply
from tidemark.engines.spark.routing import iterates_in_process, runs_in_process, without_empty
from tidemark.engines.spark.session import local_session, require_java
from tidemark.engines.spark.staging import Staging
from tidemark.engines.spark.statements import Statements
from tidemark.engines.spark.sweeping import sweep
from tidemark.engines.spark.tiny import Tiny
from tidemark.engines.spark.transactions import Transactions
from tidemark.errors import TidemarkError
from tidemark.log import deltas
from tidemark.log.commit import Commit, Forgetting, Loaded, Logged, take_notes

_logger = logging.getLogger("tidemark.spark")


class SparkEngine:
    """Evaluates on Spark, stores in a lake folder (``lake_path=None``: a temporary one).

    The Spark session begins when the first plan needs it. ``options`` override ``Options`` by name.
    """

    name = "spark"

    def __init__(
        self,
        lake_path: str | os.PathLike[str] | None = None,
        session: SparkSession | None = None,
        **options: Any,
    ) -> None:
        if session is None and SparkSession.getActiveSession() is None:
            require_java()
        self.options = Options(**options)
        self.version = 0
        self._relations: Relations = {}
        self._notes: dict[str, str] = {}
        self._forgotten: dict[str, int] = {}
        self._unforgotten = 0
        self._kept: dict[str, pa.Table] = {}
        self._lock = threading.RLock()
        self._lake = Lake(lake_path)
        try:
            self._transactions = Transactions(self._lake.transactions, self.options)
            self._in_process = InProcess(self._lake.root, self._lake.spill)
        except BaseException:
            self._lake.close()
            raise
        start: Callable[[], SparkSession] = local_session if session is None else lambda: session
        self._statements = Statements(start, self._lake.root, self.options)
        self._merger = Merger(self._lake.root, self.options, self._in_process, self._statements)
        self._tiny = Tiny(self._lake.root)
        self._closed = False

    @property
    def statements(self) -> int:
        """How many statements were started on Spark."""
        return self._statements.count

    @property
    def path(self) -> str:
        return str(self._lake.root)

    def load(self) -> Loaded:
        with self._lock:
            rows = self._transactions.rows()
            small = self._transactions.small_deltas(settled_at(rows))
            self._relations = replay(self._lake.root, rows, small)
            committed = [row.record for row in rows if isinstance(row.record, Committed)]
            self.version = self._transactions.version()
            for relation in self._relations.values():
                publish(self._lake.root, relation)
            sweep(self._lake.root, self._relations, rows, self.options)
            for row in rows:
                if not isinstance(row.record, Merged):
                    take_notes(self._notes, row.record.notes)
            self._forgotten = forgotten_after(row.record for row in rows)
            self._kept = kept_after(rows, self._transactions.cells)
            return Loaded(self.version, tuple(text for record in committed for text in record.catalog), self._notes)

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        with self._lock:
            plan = self._reading(plan)
            tiny = None if self.options.by_statements else self._tiny.evaluate(plan, given, self._relations)
            if tiny is not None:
                return tiny
            runner = self._in_process if self._is_local(plan, given) else self._statements
            result = runner.weighted(plan, given, self._relations)
        return result.rename_columns(plan.schema.weighted.names).cast(plan.schema.weighted)

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

    def explain(self, plan: Plan, given: Mapping[str, pa.Table]) -> str:
        """Spark's physical plan for a differential."""
        with self._lock:
            return self._statements.explain(self._reading(plan), given, self._relations)

    def commit(self, commit: Commit) -> None:
        with self._lock:
            if commit.version <= self.version:
                raise ValueError(f"version {commit.version} is not after {self.version}")
            staging = Staging(self._lake.root)
            stager = Stager(self._lake, self.options, staging, self._statements, self._in_process)
            try:
                staged = stager.stage(commit, self._relations)
                after = apply(self._relations, staged.record, lambda _, changed: staged.entries.get(changed.relation))
                self._transactions.append(staged.record, commit.time, commit.trace, staged.inline)
            except BaseException:
                staging.discard()
                raise
            before, self._relations = self._relations, after
            self.version = commit.version
            take_notes(self._notes, commit.notes)
            for name in (*commit.dropped, *(creation.relation for creation in commit.created)):
                self._forgotten.pop(name, None)
                self._kept.pop(name, None)
            self._after_commit(staged.record, before)

    def changes(self, relation: str, since: int) -> pa.Table:
        with self._lock:
            stored = self._relations[relation]
            forgotten = self._forgotten.get(relation, 0)
            log = self._transactions.log(relation, max(since, stored.created_at - 1, forgotten))
            kept = self._kept.get(relation)
            return logged_changes(self._lake.root, stored, log, None if kept is None else later_than(kept, since))

    def note(self, notes: Mapping[str, str | None]) -> None:
        self.forget({}, 0, notes)

    def forget(self, log: Mapping[str, Forgetting], traces: int, notes: Mapping[str, str | None]) -> None:
        with self._lock:
            marks = {name: forgetting.up_to for name, forgetting in log.items()}
            record = Noted(self.version, dict(notes), marks, traces)
            kept = {name: part.kept for name, part in log.items() if part.kept is not None and part.kept.num_rows}
            self._transactions.append(record, dt.datetime.now(dt.UTC), deltas=kept)
            take_notes(self._notes, notes)
            self._forgotten.update(marks)
            self._kept = {**{name: rows for name, rows in self._kept.items() if name not in log}, **kept}
            if log:
                self._try("drop what is forgotten", self._drop_forgotten)
            self._try("compact the transactions", self._transactions.compact_if_due)

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

    def _drop_forgotten(self) -> None:
        """Remove what no reader asks for any more from the rows of transactions: rarely, as it rewrites all of them."""
        self._unforgotten += 1
        if self._unforgotten < self.options.forget_every:
            return
        self._unforgotten = 0
        for relation in [relation for relation in self._relations.values() if relation.tail]:
            self._merge(relation)  # what was merged needs no deltas when the lake is opened
        settled = settled_at(self._transactions.rows())

        def is_needed(name: str, sequence: int, version: int) -> bool:
            relation = self._relations.get(name)
            if relation is None:
                return False
            is_read = relation.logged and version > self._forgotten.get(name, 0)
            return is_read or sequence >= settled.get(name, 0)

        self._transactions.forget(is_needed)
        sweep(self._lake.root, self._relations, self._transactions.rows(), self.options)

    def trace(self, version: int) -> str | None:
        with self._lock:
            return self._transactions.trace(version)

    def rows(self, relation: str) -> int:
        return self._relations[relation].rows

    def merge(self, relation: str) -> None:
        """Fold the relation's tail into its base files now, so that foreign readers see the last version."""
        with self._lock:
            if self._relations[relation].tail:
                self._merge(self._relations[relation])

    def interrupt(self) -> None:
        # Without the lock, which the thread that works is holding.
        self._in_process.interrupt()
        self._statements.interrupt()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._statements.close()
            self._in_process.close()
            self._lake.close()

    # What is read where

    def _rows_by_relation(self) -> dict[str, int]:
        return {name: relation.rows for name, relation in self._relations.items()}

    def _reading(self, plan: Plan) -> Plan:
        if self._closed:
            raise TidemarkError("closed", "the database is closed", hint="connect again")
        return without_empty(plan, self._rows_by_relation())

    def _is_local(self, plan: Plan, given: Mapping[str, pa.Table]) -> bool:
        return runs_in_process(plan, given, self._relations, self.options)

    # After the commit point: nothing here changes what the database holds, so nothing here may fail the commit.

    def _after_commit(self, record: Committed, before: Relations) -> None:
        for name in record.dropped:
            self._try(f"remove the folder of {name}", partial(self._remove_folder, before[name]))
        names = [part.relation for parts in (record.created, record.altered, record.changed) for part in parts]
        for name in dict.fromkeys(names):
            relation, known = self._relations[name], before.get(name)
            if known is None or known.directory != relation.directory:
                known = None  # another relation of the same name
            if known is None or known.published is not relation.published or known.schema != relation.schema:
                self._try(f"publish {name}", partial(publish, self._lake.root, relation))
        due = most_due(self._relations, self.options)
        if due is not None:
            self._try(f"merge {due.name}", partial(self._merge, due))
        self._try("compact the transactions", self._transactions.compact_if_due)
        for kept in (self._statements, self._in_process, self._tiny):
            self._try("let go of what is no longer stored", partial(kept.keep_only, self._relations))

    def _merge(self, relation: Relation) -> None:
        staging = Staging(self._lake.root)
        try:
            record = self._merger.merge(relation, self.version, staging)
            after = apply(self._relations, record, lambda *_: None)
            self._transactions.append(record, dt.datetime.now(dt.UTC))
        except BaseException:
            staging.discard()
            raise
        self._relations = after
        publish(self._lake.root, after[relation.name])

    def _remove_folder(self, relation: Relation) -> None:
        shutil.rmtree(self._lake.root / relation.directory)

    def _try(self, what: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception:
            # It is tried again after a later commit or at the next opening.
            _logger.warning("could not %s", what, exc_info=True)
