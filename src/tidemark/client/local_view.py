"""A view that is evaluated where it is needed: it has the definitions, what matters of the tables, and its own engine.

The source ships what has changed in the tables; the local view derives from it, by the same network and the same
laws, what changed in the view. No query goes back to the source.
"""

from __future__ import annotations

from types import TracebackType

import pyarrow as pa

from tidemark.algebra.plans import Stored
from tidemark.client.definitions import catalog_of
from tidemark.client.messages import FIRST, NOTHING, Message
from tidemark.database import Change, Database
from tidemark.database.store import Work
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.sql.catalog import Catalog


class LocalView:
    """Made of what ``ViewSource.first`` ships. ``tidemark`` is the source's version up to which it is true, and
    ``received`` counts bytes."""

    def __init__(self, first: bytes) -> None:
        message = Message.of_bytes(first)
        if message.kind != FIRST:
            raise TidemarkError("type", f"a local view begins with the first message, not with {message.kind!r}")
        self.view: str = message.more["view"]
        self.tidemark = message.version
        self.received = len(first)
        self._db = Database(DuckDBEngine())
        self._commit(message, catalog_of(message.more["definitions"]))

    def apply(self, data: bytes) -> Change:
        """Take in what the source has shipped, and say what it did to the view."""
        message = Message.of_bytes(data)
        self.received += len(data)
        store = self._db._store
        before = store.version
        if message.kind != NOTHING:
            self._commit(message, store.catalog)
        self.tidemark = message.version
        found = store.engine.changes(self.view, before).drop_columns(["_version"])
        inserted, deleted = delta_tables.inserted(found), delta_tables.deleted(found)
        return Change(self.tidemark, delta_tables.expand(inserted), delta_tables.expand(deleted))

    def _commit(self, message: Message, catalog: Catalog) -> None:
        tables = {table.name: table for table in catalog.tables}
        pending = {name: delta.cast(tables[name].schema.weighted) for name, delta in message.tables.items()}
        self._db._store.commit(Work(catalog, {n: d for n, d in pending.items() if d.num_rows}, 1))

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
