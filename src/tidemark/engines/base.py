"""What an engine is to the rest of the house."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from tidemark.algebra.plans import Plan
from tidemark.log.commit import Commit, Forgetting, Loaded, Logged


@dataclass(frozen=True)
class Iteration:
    """The least set that has the rows of ``first`` and, with every row, those that ``step`` derives from it.

    ``step`` reads ``Given(last)``, some rows of the set, and is linear in it: what follows from two sets of rows
    together follows from one of them alone. So each row need be given to it once. Both plans read the ``parts`` as
    sets, by ``Given`` and the name. Nothing here computes values without end.
    """

    parts: tuple[tuple[str, Plan], ...]
    first: Plan
    step: Plan
    last: str
    most_rows: int
    """When the set has more rows, it need not be found: any rows are an answer, if they are more than these."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        return (*(part for _, part in self.parts), self.first, self.step)

    def over(self, change: Callable[[Plan], Plan]) -> Iteration:
        """The same with each plan changed."""
        parts = tuple((name, change(part)) for name, part in self.parts)
        return replace(self, parts=parts, first=change(self.first), step=change(self.step))

    @property
    def own_names(self) -> frozenset[str]:
        """The names of what is not handed over by the caller."""
        return frozenset({self.last, *(name for name, _ in self.parts)})


class Engine(Protocol):
    """Evaluates plans over stored and given relations, and makes commits durable.

    Plans reach an engine resolved: their leaves are ``Stored`` (the relation at the last committed version),
    ``Given`` (a weighted Arrow table handed over with the plan) and ``Values``. Differentials arrive as unions of
    joins with a given delta in each, so an engine may evaluate them from the delta outward: look the delta's keys
    up in the other relations instead of scanning them. Nothing in this interface asks for a statement per term.
    """

    name: str

    def load(self) -> Loaded:
        """Open the database: its last version and the records of its catalog."""
        ...

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        """The plan's rows with ``_weight``: net, that is, no row twice and no weight zero. In no order."""
        ...

    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        """The plan's rows as a person reads them: equal rows repeated, in the plan's order if it sorts."""
        ...

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        """Whether the engine finds this set by itself; if not, that is better done from outside, round by round."""
        ...

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of the set, each of weight one. Only what the engine ``iterates`` is asked of it."""
        ...

    def commit(self, commit: Commit) -> None:
        """Make all of the commit true and durable, or, when it raises, none of it."""
        ...

    def changes(self, relation: str, since: int) -> pa.Table:
        """The logged changes after version ``since``: columns, ``_version``, ``_weight``; net per version."""
        ...

    def note(self, notes: Mapping[str, str | None]) -> None:
        """Keep notes, or take them away (None), durably and without a version. All of them, or none."""
        ...

    def forget(self, log: Mapping[str, Forgetting], traces: int, notes: Mapping[str, str | None]) -> None:
        """Drop what is logged of relations, and the traces up to a version, and keep notes. All of it, or none.

        No content changes, and no changes after the versions named. Nobody asks for what was dropped again.
        """
        ...

    def logged(self) -> list[Logged]:
        """How much is logged, about: of each relation for each version. It may take long."""
        ...

    def trace(self, version: int) -> str | None:
        """The trace that was committed with the version."""
        ...

    def rows(self, relation: str) -> int:
        """How many rows are stored of the relation."""
        ...

    def interrupt(self) -> None:
        """Called by another thread: let what the engine is doing at this moment fail, as any statement may fail.

        If it is doing nothing, or is closed, nothing happens, and what comes next is not affected. An engine that
        cannot stop within a step ignores it; whoever asks may ask again.
        """
        ...

    def close(self) -> None: ...
