"""What is shipped to those who evaluate a view: see ``source``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from tidemark.algebra.columns import columns_read
from tidemark.analysis.relevance.filters import influence
from tidemark.client.definitions import Part, catalog_of, reduced
from tidemark.client.messages import BASE_CHANGES, FIRST, NOTHING, STATEMENTS, Message, digest, packed
from tidemark.client.origin import Origin
from tidemark.client.texts import LocalStatements, Said
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import Catalog

MOST_STATEMENTS: Final = 100
"""So many statements are looked at, one by one."""


@dataclass(frozen=True)
class Since:
    """What happened to the tables since a version, as far as it matters, if the log tells; what was said of them, if
    that is known, over which definitions; and what matters of all that they hold, if that can be the smallest."""

    since: int
    version: int
    catalog: Catalog
    changes: Mapping[str, pa.Table] | None
    said: list[Said] | None
    first: Message | None


class ForLocalViews:
    """Ships what matters of the tables below a view, and what becomes of it."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    @cached_property
    def _parts(self) -> dict[str, Part]:
        """What of each table matters, derived when it is first asked for: proofs take their time."""
        origin = self._origin
        view = origin.view
        if view.lag is not None and not origin.is_read_through:
            raise TidemarkError(
                "unsupported",
                f"{view.name!r} lags: evaluated elsewhere it would be ahead of the source",
                hint="a ViewHolder has what it has; or make a materialized view of its definition local",
            )
        facts, read = origin.store.refreshes.known.facts, columns_read(origin.plan)
        parts = {}
        for name in origin.below.tables:
            schema = origin.below.schema(origin.catalog, name)
            parts[name] = Part(schema, read.get(name, frozenset()), influence(origin.plan, name, facts).filter)
        return parts

    @cached_property
    def _definitions(self) -> dict[str, Any]:
        columns = {name: part.columns for name, part in self._parts.items()}
        listed = reduced(self._origin.definitions["listed"], columns)
        filters = {name: part.words for name, part in self._parts.items()}
        return {"for": "local views", **self._origin.definitions, "listed": listed, "filters": filters}

    @cached_property
    def _identity(self) -> int:
        return digest(self._definitions)

    @cached_property
    def _running(self) -> LocalStatements:
        return LocalStatements(self._origin.dialect, catalog_of(self._definitions["listed"]), self._parts)

    def first(self) -> Message:
        with self._origin.store.lock:
            self._origin.check()
            return self._first()

    def fewest(self, since: int) -> Message:
        found = self._since(since)
        if found.changes is not None and not found.changes:
            return self._nothing(found)
        listed = [message for message in (self._changes(found), found.first) if message is not None]
        best = min(listed, key=_size)
        statements = self._statements(found)
        return best if statements is None or _size(statements) >= _size(best) else statements

    def choices(self, since: int) -> list[Message]:
        found = self._since(since)
        if found.changes is not None and not found.changes:
            return [self._nothing(found)]
        listed = (self._changes(found), found.first, self._statements(found))
        return [message for message in listed if message is not None]

    # At the database

    def _first(self) -> Message:
        origin, engine = self._origin, self._origin.store.engine
        version = origin.store.version
        bodies = {name: packed(part.of(origin.content(name), engine)) for name, part in self._parts.items()}
        return Message(FIRST, self._identity, version, version, bodies, {"definitions": self._definitions})

    def _since(self, since: int) -> Since:
        origin, engine = self._origin, self._origin.store.engine
        with origin.store.lock:
            origin.check()
            origin.must_be_there(since)
            changes, said = None, None
            if all(origin.reaches(name, since) for name in self._parts):
                found = {name: part.of(origin.net(name, since), engine) for name, part in self._parts.items()}
                changes = {name: change for name, change in found.items() if change.num_rows}
                said = origin.heard.since(since)
            # What is there of tables is never smaller than what has changed, unless it has fewer rows.
            first = (
                self._first() if changes is None or self._rows() < sum(c.num_rows for c in changes.values()) else None
            )
            return Since(since, origin.store.version, origin.catalog, changes, said, first)

    def _rows(self) -> int:
        return sum(self._origin.store.engine.rows(name) for name in self._parts)

    # Of what was asked

    def _nothing(self, found: Since) -> Message:
        return Message(NOTHING, self._identity, found.since, found.version)

    def _changes(self, found: Since) -> Message | None:
        if found.changes is None:
            return None
        bodies = {name: packed(change) for name, change in found.changes.items()}
        return Message(BASE_CHANGES, self._identity, found.since, found.version, bodies)

    def _statements(self, found: Since) -> Message | None:
        if found.said is None:
            return None
        said = [one.texts for one in found.said if one.texts is not None]
        if len(said) < len(found.said) or sum(len(about) for one in said for about in one.values()) > MOST_STATEMENTS:
            return None
        texts = self._running.texts(said, found.catalog)
        if texts is None:
            return None
        return Message(STATEMENTS, self._identity, found.since, found.version, more={"sql": texts})


def _size(message: Message) -> int:
    return len(message.to_bytes())
