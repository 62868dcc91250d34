"""The DuckDB engine: plans become one statement each, a commit is one DuckDB transaction."""

from __future__ import annotations

import json
import logging
import os
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tidemark.algebra.expressions import Column
from tidemark.algebra.plans import Given, Plan, Project, Stored, walk
from tidemark.engines.arrow_joins import joined
from tidemark.engines.base import Iteration
from tidemark.engines.duckdb import changelog, notes
from tidemark.engines.duckdb.applying import Applying
from tidemark.engines.duckdb.dialect import DuckDBDialect
from tidemark.engines.duckdb.errors import translated
from tidemark.engines.duckdb.given import GivenTables
from tidemark.engines.duckdb.lookups import Lookups
from tidemark.engines.duckdb.storage import OWN_SCHEMA, StoredRelation, alter, create, drop, prepare
from tidemark.engines.nearby import near
from tidemark.engines.schema_json import schema_from_json, schema_to_json, values_from_json, values_to_json
from tidemark.engines.small import evaluate_few
from tidemark.engines.sqlrecursion import given_to, iteration_text
from tidemark.engines.sqltext import Compiler
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.log.commit import Commit, Creation, Forgetting, Loaded, Logged

_logger = logging.getLogger("tidemark.duckdb")
STATEMENTS_KEPT = 512
GATHER_AT = 128
GATHERED_AT_ONCE = 4
CHECKPOINT_EVERY = 4
"""After so many times that something was forgotten the file is brought up to date."""
COUNTED_AT_ONCE = 50
FEW_GIVEN = 32
"""Of more given rows than these Arrow joins and restricts in less time than the interpreter, where it can."""
FEW_BELOW = 300
"""Recursion over so few rows is mostly over before a statement has begun."""
_TOKEN = uuid.uuid4().hex
_Form = Callable[[Compiler, Plan], str]

_open_paths: set[str] = set()
_open_paths_lock = threading.Lock()


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
        self._statements: dict[tuple[int, _Form], tuple[Plan, str, tuple[str, ...]]] = {}
        self._connection = _open(path)
        self._given = GivenTables(self._connection)
        self._lookups = Lookups(self._connection, self._given, lambda relation: self._relations[relation])

    def load(self) -> Loaded:
        records: list[str] = []
        version = 0
        commits = self._connection.execute(
            f"SELECT version, catalog, relations FROM {OWN_SCHEMA}.commits ORDER BY version"
        ).fetchall()
        for number, catalog, relations in commits:
            version = number
            records.extend(catalog)
            change = json.loads(relations)
            for name in change["dropped"]:
                del self._relations[name]
            for created in change["created"]:
                relation = _relation_from_json(created)
                self._relations[relation.name] = relation
            for altered in change.get("altered", ()):
                self._relations[altered["name"]] = _altered_from_json(altered, self._relations[altered["name"]])
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
            return self._weighted(plan, given)
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
        return self._weighted(reached, tables) if found is None else found

    def _weighted(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        """The plan's net rows by one statement."""
        chosen = _columns_given(plan, given)
        if chosen is not None:
            return delta_tables.net(chosen.rename_columns(plan.schema.weighted.names).cast(plan.schema.weighted))
        if not any(isinstance(part, Given) for part in walk(plan)):
            return self._run(plan, given, Compiler.weighted, plan.schema.weighted)
        # What follows from deltas is mostly small: it is made net here, which spares DuckDB the outer grouping.
        return delta_tables.net(self._run(plan, given, Compiler.entries, plan.schema.weighted))

    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._run(plan, given, Compiler.rows, plan.schema.arrow)

    def _run(self, plan: Plan, given: Mapping[str, pa.Table], form: _Form, schema: pa.Schema) -> pa.Table:
        try:
            result = self._connection.sql(self._text(plan, given, form)).to_arrow_table()
        except duckdb.Error as error:
            raise translated(error) from error
        return result.rename_columns(schema.names).cast(schema)

    def _text(self, plan: Plan, given: Mapping[str, pa.Table], form: _Form) -> str:
        """The statement of a plan, with the names under which its deltas are registered now."""
        text, needed = self._statement(plan, form)
        for position, registered in enumerate(self._given.names_of([given[name] for name in needed])):
            text = text.replace(_placeholder(position), registered)
        return text

    def _statement(self, plan: Plan, form: _Form) -> tuple[str, tuple[str, ...]]:
        """The SQL of a plan and the deltas it needs; kept for plans that come again (the network's do)."""
        key = (id(plan), form)
        kept = self._statements.get(key)
        if kept is None:
            needed = tuple(dict.fromkeys(part.name for part in walk(plan) if isinstance(part, Given)))
            text = form(Compiler(self._dialect(needed)), plan)
            if len(self._statements) >= STATEMENTS_KEPT:
                self._statements.clear()
            # The plan is kept too, so that its identity cannot be taken by another one.
            kept = self._statements[key] = (plan, text, needed)
        return kept[1], kept[2]

    def _dialect(self, needed: tuple[str, ...]) -> DuckDBDialect:
        names = {name: _placeholder(position) for position, name in enumerate(needed)}
        return DuckDBDialect(lambda relation: self._relations[relation].table, names)

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        return self._by_statements or self._rows_below(iteration, given_to(iteration, given)) > FEW_BELOW

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        needed = given_to(iteration, given)
        schema = iteration.first.schema.weighted
        names = dict(zip(needed, self._given.names_of(list(needed.values())), strict=True))
        dialect = DuckDBDialect(lambda relation: self._relations[relation].table, names)
        try:
            result = self._connection.sql(iteration_text(Compiler(dialect), iteration, in_place=True)).to_arrow_table()
        except duckdb.Error as error:
            raise translated(error) from error
        return result.rename_columns(schema.names).cast(schema)

    def _rows_below(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> int:
        stored = {part.relation for plan in iteration.plans for part in walk(plan) if isinstance(part, Stored)}
        handed: int = sum(table.num_rows for table in given.values())
        return handed + sum(self._rows[name] for name in stored)

    def commit(self, commit: Commit) -> None:
        kept = self._kept(commit)
        if commit.created or commit.dropped or commit.altered:
            self._statements.clear()
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
        created = [_relation_to_json(self._relations[creation.relation]) for creation in commit.created]
        altered = [_altered_to_json(self._relations[alteration.relation]) for alteration in commit.altered]
        change = json.dumps({"created": created, "dropped": list(commit.dropped), "altered": altered})
        self._connection.execute(
            f"INSERT INTO {OWN_SCHEMA}.commits VALUES (?, ?, ?, ?, ?)",
            [commit.version, commit.time.replace(tzinfo=None), list(commit.catalog), commit.trace, change],
        )
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
            rows = self._text(creation.plan, given, Compiler.rows)
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
            notes.forget_traces(self._connection, traces)
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
        found = self._connection.execute(
            f"SELECT trace FROM {OWN_SCHEMA}.commits WHERE version = ?", [version]
        ).fetchall()
        return found[0][0] if found else None

    def rows(self, relation: str) -> int:
        return self._rows[relation]

    def interrupt(self) -> None:
        with suppress(duckdb.ConnectionException):  # closed
            self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()
        if self.path is not None:
            with _open_paths_lock:
                _open_paths.discard(self.path)


def _columns_given(plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table | None:
    """The rows of a plan that only chooses columns of what is given, and needs no statement for it."""
    match plan:
        case Given(name=name):
            return given[name]
        case Project(input=Given(name=name), expressions=expressions):
            indices = [expression.index for expression in expressions if isinstance(expression, Column)]
            if len(indices) == len(expressions):
                return given[name].select([*indices, given[name].num_columns - 1])
    return None


def _placeholder(position: int) -> str:
    """What stands in a kept statement for a delta's name: nothing that a user's text could hold."""
    return f"given_{_TOKEN}_{position}_"


def _open(path: str | None) -> duckdb.DuckDBPyConnection:
    if path is None:
        connection = duckdb.connect(":memory:")
        prepare(connection, "memory")
        return connection
    real = os.path.realpath(path)
    parent = Path(real).parent
    if not parent.is_dir():
        raise TidemarkError("not_a_database", f"the folder of {path} does not exist", hint=f"create {parent} first")
    with _open_paths_lock:
        if real in _open_paths:
            raise _in_use(path)
        _open_paths.add(real)
    try:
        connection = _connect_file(path)
        try:
            prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    except BaseException:
        with _open_paths_lock:
            _open_paths.discard(real)
        raise
    return connection


def _connect_file(path: str) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(path)
    except duckdb.Error as error:
        text = str(error)
        if "lock" in text.lower():
            raise _in_use(path) from error
        raise TidemarkError(
            "not_a_database",
            f"{path} cannot be opened as a database: {text.splitlines()[0]}",
            hint="give the path of a Tidemark database, or of a file that does not exist yet",
        ) from error


def _in_use(path: str) -> TidemarkError:
    return TidemarkError(
        "in_use",
        f"{path} is in use by another connection",
        hint="close it there first; one process at a time may open a durable database",
    )


def _relation_to_json(relation: StoredRelation) -> dict[str, object]:
    return {
        "name": relation.name,
        "schema": schema_to_json(relation.schema),
        "logged": relation.logged,
        "internal": relation.internal,
        "key": list(relation.key),
        "kept": relation.kept,
    }


def _altered_to_json(relation: StoredRelation) -> dict[str, object]:
    return {
        "name": relation.name,
        "schema": schema_to_json(relation.schema),
        "added": values_to_json(relation.added),
    }


def _altered_from_json(record: dict[str, Any], before: StoredRelation) -> StoredRelation:
    schema = schema_from_json(record["schema"])
    return replace(before, schema=schema, added=values_from_json(record["added"], schema))


def _relation_from_json(record: dict[str, Any]) -> StoredRelation:
    return StoredRelation(
        record["name"],
        schema_from_json(record["schema"]),
        record["logged"],
        record["internal"],
        tuple(record["key"]),
        kept=record.get("kept", True),
    )
