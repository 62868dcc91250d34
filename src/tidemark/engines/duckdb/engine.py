"""The DuckDB engine: plans become one statement each, a commit is one DuckDB transaction."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import duckdb
import pyarrow as pa

from tidemark.algebra.plans import Plan, Stored, walk
from tidemark.engines.arrow_joins import joined
from tidemark.engines.base import Iteration
from tidemark.engines.duckdb import changelog, commits, notes
from tidemark.engines.duckdb.applying import Applying
from tidemark.engines.duckdb.errors import translated
from tidemark.engines.duckdb.given import GivenTables
from tidemark.engines.duckdb.lookups import Lookups
from tidemark.engines.duckdb.opening import opened, release
from tidemark.engines.duckdb.statements import Statements
from tidemark.engines.duckdb.storage import StoredRelation, alter, create, drop
from tidemark.engines.nearby import near
from tidemark.engines.small import evaluate_few
from tidemark.engines.sqlrecursion import given_to
from tidemark.log import deltas as delta_tables
from tidemark.log.commit import Commit, Creation, Forgetting, Loaded, Logged

_logger = logging.getLogger("tidemark.duckdb")
GATHER_AT = 128
GATHERED_AT_ONCE = 4
CHECKPOINT_EVERY = 4
"""After so many times that something was forgotten the file is brought up to date."""
COUNTED_AT_ONCE = 50
FEW_GIVEN = 32
"""Of more given rows than these Arrow joins and restricts in less time than the interpreter, where it can."""
FEW_BELOW = 300
"""Recursion over so few rows is mostly over before a statement has begun."""


class DuckDBEngine:
    """Embedded, in memory (``path=None``) or durable in one file.

    A handful of rows is evaluated in this process, by the interpreter and point reads; ``by_statements`` runs every
    plan as a statement instead, so that tests see both ways. A relation's small deltas in the log are gathered when
    there are ``gather_at`` of them.
    """

    name = "duckdb"

    def __init__(self, path: str | None = None, *, by_statements: bool = False, gather_at: int = GATHER_AT) -> None:
        self.path = None if path is None else os.path.realpath(path)
        self._by_statements = by_statements
        self._relations: dict[str, StoredRelation] = {}
        self._rows: dict[str, int] = {}
        self._forgotten = 0
        self._gather_at, self._inline = gather_at, Counter[str]()
        self._connection = opened(path)
        self._given = GivenTables(self._connection)
        self._statements = Statements(self._connection, self._given, lambda relation: self._relations[relation].table)
        self._lookups = Lookups(self._connection, self._given, lambda relation: self._relations[relation])

    def load(self) -> Loaded:
        version, records, self._relations = commits.read(self._connection)
        self._count()
        self._inline = Counter(changelog.counted(self._connection))
        return Loaded(version, tuple(records), notes.read(self._connection))

    def _count(self) -> None:
        """Count the rows of all relations: many with one statement, since there may be thousands of relations."""
        names = [name for name, relation in self._relations.items() if relation.kept]
        for start in range(0, len(names), COUNTED_AT_ONCE):
            some = names[start : start + COUNTED_AT_ONCE]
            counts = (f"SELECT {i} AS place, count(*) FROM {self._relations[n].table}" for i, n in enumerate(some))
            for place, rows in self._connection.execute(" UNION ALL ".join(counts)).fetchall():
                self._rows[some[place]] = rows

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        if self._by_statements:
            return self._statements.weighted(plan, given)
        reached, rows = near(plan, given, self._lookups)
        # What is given comes as Arrow, what was looked up often as rows.
        by_arrow = reached is plan and any(part.count > FEW_GIVEN for part in rows.values())
        few = evaluate_few(reached, rows) if not by_arrow else None
        if few is not None:
            return few
        tables = {name: part.table for name, part in rows.items()}
        found = joined(reached, tables)
        if found is None and by_arrow:
            found = evaluate_few(reached, rows)
        return self._statements.weighted(reached, tables) if found is None else found

    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._statements.rows(plan, given)

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        return self._by_statements or self._rows_below(iteration, given_to(iteration, given)) > FEW_BELOW

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._statements.iterated(iteration, given)

    def _rows_below(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> int:
        stored = {part.relation for plan in iteration.plans for part in walk(plan) if isinstance(part, Stored)}
        handed: int = sum(table.num_rows for table in given.values())
        return handed + sum(self._rows[name] for name in stored)

    def commit(self, commit: Commit) -> None:
        kept = self._kept(commit)
        if commit.created or commit.dropped or commit.altered:
            self._statements.forget()
            self._lookups.forget_needs()
        self._connection.execute("BEGIN")
        try:
            inline = self._apply(commit)
            self._connection.execute("COMMIT")
            self._given.release()
        except BaseException as error:
            self._relations, self._rows = kept()
            self._rollback()
            if isinstance(error, duckdb.Error):
                raise translated(error) from error
            raise
        finally:
            self._lookups.forget((*commit.deltas, *commit.dropped, *(change.relation for change in commit.altered)))
        self._inline.update(inline)
        self._gather([name for name in inline if self._inline[name] >= self._gather_at][:GATHERED_AT_ONCE])

    def _gather(self, names: Sequence[str]) -> None:
        """Make the log of relations with many small deltas quick to read. What is committed does not depend on it."""
        if not names:
            return
        self._connection.execute("BEGIN")
        try:
            for name in names:
                changelog.gather(self._connection, self._relations[name])
            self._connection.execute("COMMIT")
        except duckdb.Error:
            self._rollback()
            _logger.exception("the log could not be gathered")
            return
        for name in names:
            del self._inline[name]

    def _kept(self, commit: Commit) -> Callable[[], tuple[dict[str, StoredRelation], dict[str, int]]]:
        """What is known of the relations now. There may be many: unless definitions change, none is copied."""
        relations, rows = self._relations, self._rows
        if commit.created or commit.dropped or commit.altered:
            copies = dict(relations), dict(rows)
            return lambda: copies
        before = {name: rows[name] for name in commit.deltas if name in rows}
        return lambda: (relations, {**rows, **before})

    def _apply(self, commit: Commit) -> list[str]:
        """Store everything, and say of which relations small deltas were logged."""
        for name in commit.dropped:
            relation = self._relations.pop(name)
            changelog.forget(self._connection, relation)
            drop(self._connection, relation)
            self._rows.pop(name, None)
            self._inline.pop(name, None)
        for alteration in commit.altered:
            before = self._relations[alteration.relation]
            self._relations[before.name] = alter(self._connection, before, alteration)
        for creation in commit.created:
            self._create(creation, commit.given)
        for name, delta in commit.deltas.items():
            if delta.num_rows and self._relations[name].kept:
                key = commit.keys.get(name, ())
                applying = Applying(self._connection, self._relations[name], delta, self._given.name_of, key)
                applying.run(self._lookups.of(name))
                self._rows[name] += delta_tables.growth(delta)
        inline = changelog.append(self._connection, self._relations, commit.deltas, commit.version)
        commits.write(self._connection, commit, self._relations)
        notes.write(self._connection, commit.notes)
        return inline

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
        # DuckDB may have ended the transaction itself when the failure was fatal.
        try:
            self._connection.execute("ROLLBACK")
        except duckdb.TransactionException:
            return

    def changes(self, relation: str, since: int) -> pa.Table:
        return changelog.read(self._connection, self._relations[relation], since)

    def note(self, notes_: Mapping[str, str | None]) -> None:
        self.forget({}, 0, notes_)

    def forget(self, log: Mapping[str, Forgetting], traces: int, notes_: Mapping[str, str | None]) -> None:
        self._connection.execute("BEGIN")
        try:
            notes.forget(self._connection, {self._relations[name]: part for name, part in log.items()})
            commits.forget_traces(self._connection, traces)
            notes.write(self._connection, notes_)
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._rollback()
            if isinstance(error, duckdb.Error):
                raise translated(error) from error
            raise
        self._forgotten += bool(log)
        if self.path is not None and log and self._forgotten % CHECKPOINT_EVERY == 0:
            with suppress(duckdb.Error):  # what was deleted gives its room back only then; if not now, later
                self._connection.execute("CHECKPOINT")

    def logged(self) -> list[Logged]:
        return notes.logged(self._connection, [relation for relation in self._relations.values() if relation.logged])

    def trace(self, version: int) -> str | None:
        return commits.trace(self._connection, version)

    def rows(self, relation: str) -> int:
        return self._rows[relation]

    def interrupt(self) -> None:
        with suppress(duckdb.ConnectionException):  # closed
            self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()
        if self.path is not None:
            release(self.path)
