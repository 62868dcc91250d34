"""What rules, and what lags, see of a transaction: a protocol, so that they need not know who implements it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from tidemark.algebra.plans import Plan
from tidemark.errors import TidemarkError
from tidemark.network import Wave
from tidemark.sql.bind.changes import BoundChange
from tidemark.sql.catalog.catalog import Catalog
from tidemark.state.course import Course
from tidemark.state.draft import Work
from tidemark.state.point import Point

Bring = Callable[[Work], None]
"""Commits what brings relations that lag up to date, together with what rules make of it."""


class Host(Point, Protocol):
    """An open transaction: what it did, in order; further changes of it; and its end."""

    course: Course

    def derived_wave(self) -> Wave | None:
        """What the changes so far did, and can be asked for; None if there are none."""

    @property
    def is_open(self) -> bool: ...

    @property
    def is_committed(self) -> bool: ...

    def change(self, bound: BoundChange, named: Mapping[str, pa.Table]) -> None:
        """Run a bound statement over what is given by name."""

    def keep(self, table: str, delta: pa.Table) -> None:
        """Add a change to those of a table that the database keeps for itself."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


@dataclass
class Calls:
    """Which threads stand in a function of the program that a rule calls, by their numbers, and how deep: what other
    threads do meanwhile is not the function's."""

    depths: dict[int, int] = field(default_factory=dict)

    @contextmanager
    def one(self) -> Iterator[None]:
        """While a function is called by this thread."""
        thread = threading.get_ident()
        before = self.depths.get(thread, 0)
        self.depths[thread] = before + 1
        try:
            yield
        finally:
            if before:
                self.depths[thread] = before
            else:
                self.depths.pop(thread, None)

    def forget(self) -> None:
        """No function is called any more by this thread, whatever an exception left behind."""
        self.depths.pop(threading.get_ident(), None)

    def must_be_none(self) -> None:
        """Refuse a change by a function that a rule calls: it would happen inside the transaction of the action, or
        beside it, and could be neither rolled back nor repeated with it."""
        if threading.get_ident() in self.depths:
            raise TidemarkError(
                "transaction",
                "a function that a rule calls cannot change the database",
                hint="put the change into the rule's action, beside CALL; reading is possible",
            )


class Reader(Protocol):
    """Somebody who reads at a point of a transaction."""

    catalog: Catalog

    def evaluate(self, plan: Plan) -> pa.Table:
        """The net rows of a plan, with their weights."""
