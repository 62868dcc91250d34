"""The side of the database: what is shipped to whoever holds or evaluates a view.

What a holder needs to be brought up to date, from nothing to everything (BLAKELEY, Table 7.1):

    the view did not change                       nothing
    statements that it can follow by itself       the statements
    anything else                                 its net changes, or its new state, whichever is smaller

Among all that would do, the fewest bytes are shipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidemark.algebra.clock import CLOCK
from tidemark.algebra.plans import Filter, Given, Stored, relations_of
from tidemark.algebra.reading import Columns, columns_read
from tidemark.analysis.relevance import influence
from tidemark.client import definitions
from tidemark.client.messages import BASE_CHANGES, CHANGES, FIRST, NOTHING, STATE, STATEMENTS, Message
from tidemark.client.statements import step_of
from tidemark.database import Database
from tidemark.database.history import net_since
from tidemark.database.reading import first_principle
from tidemark.engines.schema_json import schema_to_json
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.network.relevance import ROWS, passing
from tidemark.sql.catalog import View


@dataclass(frozen=True)
class Part:
    """What of a table matters to a view: some columns, and only rows that pass the filter."""

    columns: Columns
    filter: Filter | None


class ViewSource:
    """Ships a view of a database. ``shipped`` counts the bytes by kind."""

    def __init__(self, database: Database, view: str) -> None:
        self._db, self._store = database, database._store
        found = database._stored_relation(view)
        if not isinstance(found, View):
            raise TidemarkError("not_a_view", f"{found.name!r} is a table: subscribe() ships its changes")
        self._view = found
        catalog = self._store.catalog
        self._tables, self._views = definitions.below(catalog, found)
        plan = first_principle(found.plan, catalog)
        if CLOCK in relations_of(plan):
            raise TidemarkError(
                "unsupported",
                f"{found.name!r} names NOW(), which passes by the source's clock",
                hint="subscribe() ships its changes",
            )
        facts, read = self._store.refreshes.known.facts, columns_read(plan)
        self._parts = {}
        for name in self._tables:
            condition = influence(plan, name, facts).filter
            rows = Given(ROWS, catalog.relations[name].schema)
            self._parts[name] = Part(read[name], None if condition is None else Filter(rows, condition))
        self._statements: dict[int, str] = {}
        self.shipped: dict[str, int] = {}

    # For those who evaluate it

    def first(self) -> bytes:
        """All that a local view begins with: definitions, and of each table what matters."""
        with self._store.lock:
            catalog, store = self._store.catalog, self._store
            listed = definitions.shown(catalog, self._tables, self._views)
            tables = {}
            for one in listed:
                if "table" not in one:
                    continue
                name, part = one["table"], self._parts[one["table"]]
                schema = catalog.relations[name].schema
                one["schema"] = schema_to_json(definitions.reduced(schema, part.columns))
                one["key"] = one["key"] if set(one["key"]) <= part.columns else []
                content = store.engine.evaluate(Stored(name, schema), {})
                tables[name] = self._part(content, part)
            return self._sent(Message(FIRST, store.version, tables, {"view": self._view.name, "definitions": listed}))

    def changes(self, since: int) -> bytes:
        """What matters of the changes of the tables below, net, since a version: for a local view to evaluate."""
        with self._store.lock:
            found = {name: self._part(net_since(self._store, name, since), self._parts[name]) for name in self._tables}
            found = {name: delta for name, delta in found.items() if delta.num_rows}
            return self._sent(Message(BASE_CHANGES if found else NOTHING, self._store.version, found))

    def _part(self, entries: pa.Table, part: Part) -> pa.Table:
        """The entries that matter, with NULL in columns that do not, net."""
        if part.filter is not None:
            entries = passing(entries, part.filter, self._store.engine)
        for position in range(entries.num_columns - 1):
            if position not in part.columns:
                field = entries.schema.field(position)
                empty = pa.nulls(entries.num_rows, field.type)
                entries = entries.set_column(position, pa.field(field.name, field.type), empty)
        return delta_tables.net(entries)

    # For those who hold it

    def state(self) -> bytes:
        """The content, for a holder to begin with."""
        with self._store.lock:
            listed = definitions.shown(self._store.catalog, self._tables, self._views)
            return self._sent(self._content({"view": self._view.name, "definitions": listed}))

    def refresh(self, since: int) -> bytes:
        """What brings a holder up to date that has come to a version: the fewest bytes of what would do (Table 7.1)."""
        with self._store.lock:
            return self._sent(min(self.choices(since), key=lambda message: len(message.to_bytes())))

    def choices(self, since: int) -> list[Message]:
        """Everything that would do."""
        with self._store.lock:
            version = self._store.version
            delta = net_since(self._store, self._view.name, since)
            if not delta.num_rows:
                return [Message(NOTHING, version)]
            found = [Message(CHANGES, version, {self._view.name: delta}), self._content({})]
            statements = self._since(since)
            if statements:
                found.append(Message(STATEMENTS, version, more={"sql": statements, "dialect": self._db._dialect}))
            return found

    def execute(self, sql: str) -> None:
        """Run a statement, and keep it, if a holder of the view can follow it by itself."""
        can_follow = step_of(self._view.name, sql, self._db._dialect, self._store.catalog) is not None
        self._db.execute(sql)
        if can_follow:
            self._statements[self._store.version] = sql

    def _since(self, since: int) -> list[str] | None:
        """The statements that changed the view since a version, if all of them are known."""
        logged = self._db.changes(self._view.name, since=since)
        versions = sorted(set(logged.column("_version").to_pylist()))
        found = [self._statements.get(version) for version in versions]
        return None if None in found else [text for text in found if text is not None]

    def _content(self, more: dict[str, object]) -> Message:
        view = self._view
        content = self._store.engine.evaluate(Stored(view.name, view.schema), {})
        return Message(STATE, self._store.version, {view.name: content}, more)

    def _sent(self, message: Message) -> bytes:
        data = message.to_bytes()
        self.shipped[message.kind] = self.shipped.get(message.kind, 0) + len(data)
        return data
