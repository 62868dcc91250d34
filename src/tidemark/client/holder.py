"""A remote holder of a view: it has the content and nothing below it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import TracebackType

import pyarrow as pa

from tidemark.client.definitions import catalog_of
from tidemark.client.messages import STATE, Message, begins, readable, received
from tidemark.client.texts import Following
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.errors import TidemarkError
from tidemark.state.boundary import bounded
from tidemark.storage import delta as delta_tables


@bounded
class ViewHolder:
    """Made of what ``ViewSource.state`` ships, and brought up to date by what ``ViewSource.refresh`` does.

    ``tidemark`` is the source's version up to which it is true, and ``received`` counts bytes. A message that it
    refuses changes nothing."""

    def __init__(self, state: bytes) -> None:
        message = begins(state, STATE, "a holder")
        self._definitions = message.more["definitions"]
        self.view: str = self._definitions["view"]
        self._catalog = readable(lambda: catalog_of(self._definitions["listed"]))
        self._identity, self._schema = message.identity, self._catalog.relations[self.view].schema
        self._content = self._rows(message)
        self._engine: DuckDBEngine | None = None
        self.tidemark, self.received = message.version, len(state)

    @cached_property
    def _following(self) -> Following:
        return Following(self.view, self._definitions["dialect"], self._catalog)

    def apply(self, data: bytes) -> str:
        """Take in what the source has shipped; its kind."""
        message = received(data, self._identity, self.tidemark, anew=STATE)
        match message.kind:
            case "nothing":
                content = self._content
            case "changes":
                content = delta_tables.combine(self._content, self._rows(message))
            case "state":
                content = self._rows(message)
            case "statements":
                content = self._followed(message.texts())
            case _:
                raise TidemarkError("message", f"a holder cannot take in {message.kind!r}")
        self._content = content
        self.tidemark, self.received = message.version, self.received + len(data)
        return message.kind

    def _rows(self, message: Message) -> pa.Table:
        return message.rows(self.view, self._schema.weighted)

    def _followed(self, texts: Sequence[str]) -> pa.Table:
        self._engine = self._engine or DuckDBEngine()
        content = self._content
        for text in texts:
            step = self._following.step(text)
            if step is None:
                raise TidemarkError("message", f"this statement cannot be followed by the view alone: {text}")
            content = step.of(content, self._engine)
        return content

    @property
    def content(self) -> pa.Table:
        """The rows of the view, in no order."""
        return delta_tables.expand(self._content)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def __enter__(self) -> ViewHolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
