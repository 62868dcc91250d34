"""A remote holder of a view: it has the content and nothing below it."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from tidemark.client.definitions import catalog_of
from tidemark.client.messages import STATE, Message
from tidemark.client.statements import step_of
from tidemark.engines.reference import ReferenceEngine
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.log.commit import Commit, Creation
from tidemark.network.settle import settle

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class ViewHolder:
    """Made of what ``ViewSource.state`` ships, and brought up to date by what ``ViewSource.refresh`` does."""

    def __init__(self, state: bytes) -> None:
        message = Message.of_bytes(state)
        if message.kind != STATE or "definitions" not in message.more:
            raise TidemarkError("type", "a holder begins with the state that the source ships first")
        self.view: str = message.more["view"]
        self._catalog = catalog_of(message.more["definitions"])
        self._schema = self._catalog.relations[self.view].schema
        self._content: pa.Table = message.tables[self.view]
        self.tidemark, self.received = message.version, len(state)

    def apply(self, data: bytes) -> str:
        """Take in what the source has shipped; its kind."""
        message = Message.of_bytes(data)
        self.received += len(data)
        match message.kind:
            case "nothing":
                pass
            case "changes":
                self._content = delta_tables.combine(self._content, message.tables[self.view])
            case "state":
                self._content = message.tables[self.view]
            case "statements":
                for sql in message.more["sql"]:
                    self._follow(sql, message.more["dialect"])
            case _:
                raise TidemarkError("type", f"a holder cannot take in {message.kind!r}")
        self.tidemark = message.version
        return message.kind

    def _follow(self, sql: str, dialect: str) -> None:
        step = step_of(self.view, sql, dialect, self._catalog)
        assert step is not None, "the source ships only statements that can be followed"
        engine = ReferenceEngine()
        filled = {self.view: self._content.cast(self._schema.weighted)}
        engine.commit(Commit(1, _EPOCH, created=(Creation(self.view, self._schema),), deltas=filled))
        delta = engine.evaluate(*settle(step.stages[0].plan, {}, engine))
        self._content = delta_tables.combine(filled[self.view], delta)

    @property
    def content(self) -> pa.Table:
        """The rows of the view, in no order."""
        return delta_tables.expand(self._content.cast(self._schema.weighted))
