"""The side of the database: what is shipped to whoever holds or evaluates a view.

What a holder needs to be brought up to date, from nothing to everything (BLAKELEY, Table 7.1):

    the view did not change                       nothing
    statements that it can follow by itself       the statements
    anything else                                 its net changes, or its new state, whichever is smaller

and likewise a local view, with the tables below, as far as they matter to it, instead of the view. Among all that would
do, the fewest bytes are shipped. Statements are known whoever ran them, from the source's beginning on.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from tidemark.client.for_holders import ForHolders
from tidemark.client.for_local_views import ForLocalViews
from tidemark.client.messages import Message
from tidemark.client.origin import Origin
from tidemark.session import Database
from tidemark.state.boundary import bounded


@bounded
class ViewSource:
    """Ships a view of a database. ``shipped`` counts the bytes by kind."""

    def __init__(self, database: Database, view: str) -> None:
        self._store, self._counting = database._store, threading.Lock()
        with self._store.lock:
            self._origin = Origin(database, view)
        self._holders, self._local = ForHolders(self._origin), ForLocalViews(self._origin)
        self.shipped: dict[str, int] = {}

    # For those who evaluate it

    def first(self) -> bytes:
        """All that a local view begins with: definitions, and of each table what matters."""
        return self._sent(self._local.first())

    def changes(self, since: int) -> bytes:
        """What brings a local view up to date that has come to a version: the fewest bytes of what would do.

        If the log does not reach back to it, that is all that a local view begins with."""
        return self._sent(self._local.fewest(since))

    def local_choices(self, since: int) -> dict[str, bytes]:
        """What would do for a local view, by kind, as far as it can be the smallest."""
        return {message.kind: self._bytes(message) for message in self._local.choices(since)}

    # For those who hold it

    def state(self) -> bytes:
        """The content, for a holder to begin with."""
        return self._sent(self._holders.first())

    def refresh(self, since: int) -> bytes:
        """What brings a holder up to date that has come to a version: the fewest bytes of what would do (Table 7.1)."""
        return self._sent(self._holders.fewest(since))

    def choices(self, since: int) -> dict[str, bytes]:
        """Everything that would do for a holder, by kind."""
        return {message.kind: self._bytes(message) for message in self._holders.choices(since)}

    def _bytes(self, message: Message) -> bytes:
        """The message, with the time at which its version was committed."""
        return replace(message, time=self._store.times.get(message.version)).to_bytes()

    def _sent(self, message: Message) -> bytes:
        data = self._bytes(message)
        with self._counting:
            self.shipped[message.kind] = self.shipped.get(message.kind, 0) + len(data)
        return data
