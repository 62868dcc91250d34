"""A view that is evaluated where it is needed: it has the definitions, what matters of the tables, and its own engine.

The source ships what has changed in the tables, or the statements that changed them; the local view derives from it, by
the same network and the same laws, what changed in the view. No query goes back to the source.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Final

import pyarrow as pa

from tidemark.algebra.plans import Stored
from tidemark.client.definitions import catalog_of, columns_of, restored, shipped
from tidemark.client.messages import FIRST, STATEMENTS, Message, begins, readable, received
from tidemark.client.texts import local_change
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.errors import TidemarkError
from tidemark.session import Change, Database
from tidemark.session.commit import commit
from tidemark.sql.catalog.catalog import Catalog
from tidemark.state.boundary import bounded
from tidemark.state.draft import Work
from tidemark.storage import delta as delta_tables

VERSIONS_KEPT: Final = "16"
"""Its own log is read once, after each message."""


@bounded
class LocalView:
    """Made of what ``ViewSource.first`` ships. ``tidemark`` is the source's version up to which it is true, and
    ``received`` counts bytes. A message that it refuses changes nothing."""

    def __init__(self, first: bytes) -> None:
        message = begins(first, FIRST, "a local view")
        self._definitions = message.more["definitions"]
        self.view: str = self._definitions["view"]
        self._identity, self._columns = message.identity, columns_of(self._definitions["listed"])
        self._db = self._begun(message)
        self.tidemark, self.received = message.version, len(first)

    def apply(self, data: bytes) -> Change:
        """Take in what the source has shipped, and say what it did to the view."""
        message = received(data, self._identity, self.tidemark, anew=FIRST)
        match message.kind:
            case "nothing":
                change = delta_tables.no_change(self._db._store.catalog.relations[self.view].schema)
            case "first":
                change = self._begin_anew(message)
            case "base changes" | "statements":
                change = self._taken_in(message)
            case _:
                raise TidemarkError("message", f"a local view cannot take in {message.kind!r}")
        self.tidemark, self.received = message.version, self.received + len(data)
        inserted, deleted = delta_tables.inserted(change), delta_tables.deleted(change)
        return Change(self.tidemark, delta_tables.expand(inserted), delta_tables.expand(deleted), time=message.time)

    def _begun(self, message: Message) -> Database:
        """A database with what the source shipped first."""
        catalog = readable(lambda: catalog_of(self._definitions["listed"]))
        pending = self._entries(message, catalog, self._columns)
        database = Database(DuckDBEngine(), self._definitions["dialect"])
        try:
            commit(database._store, Work(catalog, pending, 1))
            database.execute(f"ALTER LOG SET (versions = {VERSIONS_KEPT})")
        except BaseException:
            database.close()
            raise
        return database

    def _begin_anew(self, message: Message) -> pa.Table:
        """Go on from a message that says all; what that does to the view."""
        before, database = self._weighted(self._db), self._begun(message)
        after = self._weighted(database)
        self._db.close()
        self._db = database
        return delta_tables.combine(after, delta_tables.negated(before))

    def _taken_in(self, message: Message) -> pa.Table:
        store = self._db._store
        before = store.version
        if message.kind == STATEMENTS:
            with self._db.transaction() as transaction:
                for text in message.texts():
                    change = local_change(text, self._definitions["dialect"], store.catalog, self._columns)
                    if change is None:
                        raise TidemarkError("message", f"this statement cannot be run here: {text}")
                    transaction.change(change)
        else:
            if not message.bodies:
                raise TidemarkError("message", "this message says nothing about any table")
            commit(store, Work(store.catalog, self._entries(message, store.catalog, message.bodies), 1))
        return self._since(before)

    def _entries(self, message: Message, catalog: Catalog, tables: Iterable[str]) -> dict[str, pa.Table]:
        """What a message says about tables."""
        found: dict[str, pa.Table] = {}
        for name in tables:
            if name not in self._columns:
                raise TidemarkError("message", f"this message is about {name!r}, which is not below {self.view!r}")
            schema, columns = catalog.relations[name].schema, self._columns[name]
            found[name] = restored(message.rows(name, shipped(schema, columns)), schema, columns)
        return {name: entries for name, entries in found.items() if entries.num_rows}

    def _since(self, version: int) -> pa.Table:
        return delta_tables.net(self._db._store.engine.changes(self.view, version).drop_columns(["_version"]))

    def _weighted(self, database: Database) -> pa.Table:
        store = database._store
        return store.engine.evaluate(Stored(self.view, store.catalog.relations[self.view].schema), {})

    @property
    def content(self) -> pa.Table:
        """The rows of the view, in no order."""
        schema = self._db._store.catalog.relations[self.view].schema
        return self._db._store.engine.fetch(Stored(self.view, schema), {})

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> LocalView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
