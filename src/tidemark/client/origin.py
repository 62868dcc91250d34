"""A view at its database, as it was defined when it began to be shipped."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import Plan, relations_of
from tidemark.client.definitions import Below, shown
from tidemark.client.texts import Heard
from tidemark.errors import TidemarkError
from tidemark.session import Database
from tidemark.sql.catalog.catalog import View
from tidemark.state.history import content, net_since, retained
from tidemark.state.names import logged_named, must_be_view
from tidemark.state.point import first_principle
from tidemark.storage.retention import Cut
from tidemark.strategy.settle import settle


class Origin:
    """A view with all that it stands on, and the statements that were heard since. Ask it under the store's lock."""

    def __init__(self, database: Database, view: str) -> None:
        self.database, self.store = database, database._store
        self.store.must_be_open()
        found = must_be_view(logged_named(view, self.store.catalog), "subscribe() ships its changes")
        self.view, self.catalog = found, self.store.catalog
        self.plan: Plan = first_principle(found.plan, self.catalog)
        if CLOCK in relations_of(self.plan):
            raise TidemarkError(
                "unsupported",
                f"{found.name!r} names NOW(), which passes by the source's clock",
                hint="subscribe() ships its changes",
            )
        self.below = Below.of(self.catalog, found)
        self.definitions = self._definitions(found)
        self.heard = Heard(frozenset(self.below.tables), self.store.version)
        self.store.events.hearers.add(self.heard)

    @property
    def dialect(self) -> str:
        return self.database._dialect

    @property
    def is_read_through(self) -> bool:
        return self.view.lag is not None and self.view.lag.is_read_through

    def _definitions(self, view: View) -> dict[str, Any]:
        """What whoever holds or evaluates the view rests on: the definitions, and since when there is what they name.

        Columns that come later are not seen by views, and change nothing here."""
        catalog, created = self.store.catalog, self.store.created
        below = Below.of(catalog, view)
        born = [created[name] for name in (*below.tables, *(one.name for one in below.views))]
        return {"view": view.name, "dialect": self.dialect, "created": born, "listed": shown(catalog, below)}

    def check(self) -> None:
        """Refuse to go on if the view is not the one that it was."""
        store, name = self.store, self.view.name
        store.must_be_open()
        if store.catalog is not self.catalog:
            found = store.catalog.get(name)
            if not isinstance(found, View):
                raise TidemarkError("unknown_relation", f"{name!r} was dropped while it was shipped")
            if self._definitions(found) != self.definitions:
                raise TidemarkError(
                    "redefined",
                    f"{name!r}, or what it stands on, was redefined while it was shipped",
                    hint="make a new ViewSource, and let holders and local views begin anew",
                )
            self.catalog, self.view = store.catalog, found
            self.plan = first_principle(found.plan, store.catalog)

    def must_be_there(self, since: int) -> None:
        """Refuse to tell what happened since a version that there is not."""
        last = self.store.version
        if not isinstance(since, int) or isinstance(since, bool) or not 0 <= since <= last:
            raise TidemarkError("version", f"there is no version {since!r}", hint=f"the last one is {last}")

    def reaches(self, relation: str, since: int) -> bool:
        """Whether the log tells what happened to a relation since a version."""
        return since >= self.store.created[relation] and self._cut(relation).reaches(since)

    def has_each_version(self, relation: str, since: int) -> bool:
        """Whether the log tells in which versions that was, and not only the net effect of several."""
        return since >= self._cut(relation).full

    def _cut(self, relation: str) -> Cut:
        return retained(self.store).of(relation, self.store.created[relation])

    def net(self, relation: str, since: int) -> pa.Table:
        """What happened to a relation since a version, net."""
        return net_since(self.store, relation, since)

    def content(self, relation: str) -> pa.Table:
        """The rows of a relation now, with their weights."""
        found, engine = self.store.catalog.relations[relation], self.store.engine
        return engine.evaluate(*settle(content(found), {}, engine))
