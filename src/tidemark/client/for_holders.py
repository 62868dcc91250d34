"""What is shipped to those who hold a view: see ``source``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from tidemark.client.definitions import catalog_of
from tidemark.client.messages import CHANGES, NOTHING, STATE, STATEMENTS, Message, digest, packed
from tidemark.client.origin import Origin
from tidemark.client.texts import Following, Said
from tidemark.storage import delta as delta_tables

MOST_STATEMENTS: Final = 16
"""That so many statements can be followed is proved, one by one; more are not looked at."""


@dataclass(frozen=True)
class Since:
    """What happened to the view since a version: the net change, if the log tells, its present content, and what was
    said in the versions in which it changed, if that is known."""

    since: int
    version: int
    change: pa.Table | None
    said: list[Said] | None
    content: pa.Table | None


class ForHolders:
    """Ships the content of a view, and what becomes of it. What is asked of the database is asked at one moment."""

    def __init__(self, origin: Origin) -> None:
        self._origin, self._view = origin, origin.view.name
        self.definitions: dict[str, Any] = {"for": "holders", **origin.definitions}
        self._identity = digest(self.definitions)

    @cached_property
    def _following(self) -> Following:
        """The same as the holder's."""
        return Following(self._view, self._origin.dialect, catalog_of(self.definitions["listed"]))

    def first(self) -> Message:
        with self._origin.store.lock:
            self._begin()
            content, version = self._content(), self._origin.store.version
        return self._state(version, version, content, {"definitions": self.definitions})

    def fewest(self, since: int) -> Message:
        found = self._since(since)
        if found.change is not None and not found.change.num_rows:
            return self._nothing(found)
        listed = [message for message in (self._changes(found), self._whole(found)) if message is not None]
        best = min(listed, key=_size)
        statements = self._statements(found)
        if statements is None or _size(statements) >= _size(best) or not self._can_follow(found):
            return best
        return statements

    def choices(self, since: int) -> list[Message]:
        found = self._since(since, is_whole=True)
        if found.change is not None and not found.change.num_rows:
            return [self._nothing(found)]
        listed = [self._changes(found), self._whole(found)]
        if self._can_follow(found):
            listed.append(self._statements(found))
        return [message for message in listed if message is not None]

    # At the database

    def _begin(self) -> None:
        self._origin.check()
        if self._origin.is_read_through:
            self._origin.database._current(self._origin.view, self._origin.store)

    def _since(self, since: int, *, is_whole: bool = False) -> Since:
        origin = self._origin
        with origin.store.lock:
            self._begin()
            origin.must_be_there(since)
            change, said = None, None
            if origin.reaches(self._view, since):
                change, said = origin.net(self._view, since), self._said(since)
            # A state of many more rows than have changed is never smaller than the changes.
            is_small = change is None or self._rows() <= 2 * change.num_rows
            content = self._content() if is_whole or is_small else None
            return Since(since, origin.store.version, change, said, content)

    def _rows(self) -> int:
        view, store = self._origin.view, self._origin.store
        return 0 if view.external else store.engine.rows(view.name)

    def _said(self, since: int) -> list[Said] | None:
        """What was said in the versions in which the view changed."""
        origin = self._origin
        is_known = origin.view.lag is None and origin.has_each_version(self._view, since)
        said = origin.heard.since(since) if is_known else None
        if said is None:
            return None
        logged = origin.store.engine.changes(self._view, since)
        changed = set(logged.column("_version").to_pylist())
        return [one for one in said if one.version in changed]

    def _content(self) -> pa.Table:
        return self._origin.content(self._view).cast(self._origin.view.schema.weighted)

    # Of what was asked

    def _nothing(self, found: Since) -> Message:
        return Message(NOTHING, self._identity, found.since, found.version)

    def _changes(self, found: Since) -> Message | None:
        if found.change is None:
            return None
        body = packed(found.change.cast(self._origin.view.schema.weighted))
        return Message(CHANGES, self._identity, found.since, found.version, {self._view: body})

    def _whole(self, found: Since) -> Message | None:
        return None if found.content is None else self._state(found.since, found.version, found.content, {})

    def _state(self, since: int, version: int, content: pa.Table, more: dict[str, Any]) -> Message:
        body = packed(delta_tables.net(content))
        return Message(STATE, self._identity, since, version, {self._view: body}, more)

    def _statements(self, found: Since) -> Message | None:
        texts = [text for one in _texts(found) or () for about in one.values() for text in about]
        if not texts or len(texts) > MOST_STATEMENTS:
            return None
        return Message(STATEMENTS, self._identity, found.since, found.version, more={"sql": texts})

    def _can_follow(self, found: Since) -> bool:
        texts = _texts(found)
        return texts is not None and self._statements(found) is not None and self._following.can_follow(texts)


def _texts(found: Since) -> list[dict[str, tuple[str, ...]]] | None:
    """What was said in each version, if that is all that happened."""
    if found.said is None or any(one.texts is None for one in found.said):
        return None
    return [dict(one.texts) for one in found.said if one.texts is not None]


def _size(message: Message) -> int:
    return len(message.to_bytes())
