"""Keeping the results of parts over relations that do not change (``passes.factor_unchanged``), where it pays.

It pays if a part has far fewer rows than what it is made of, if no look-ups lead from the delta to the few rows of it
that matter (``engines.local.lookups``: they are as fast), and if it is needed again before one of its relations
changes. So a part is evaluated when it is asked for the second time while nothing under it has changed, and let go when
something has. Whoever asks for the same part, of whatever query, is given the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tidemark.algebra.aggregates import AggregateCall, AggregateFunction
from tidemark.algebra.cache import PerPlan, leaves_read
from tidemark.algebra.plans import Aggregate, Plan, Stored
from tidemark.engines.engine import Engine
from tidemark.engines.local.lookups import out_of_reach
from tidemark.passes.factor_unchanged import Decomposed, decomposed
from tidemark.storage.delta import Tables, as_rows

MOST_KEPT: Final = 64


@dataclass(frozen=True)
class Terms:
    """When it pays: over at least so many stored rows, for at most so many rows and such a share of those, and for
    parts ``in_reach`` of look-ups or only for others."""

    worth_rows: int = 20_000
    most_rows: int = 20_000
    share: int = 4
    in_reach: bool = False


@dataclass
class _Part:
    """A part: how often it was asked for since something under it changed, its rows, and how many rows were below it
    when it had too many."""

    relations: frozenset[str]
    asked: int = 0
    rows: pa.Table | None = None
    too_large_over: int = 0


class KeptParts:
    """The parts that are known, by their plans."""

    def __init__(self) -> None:
        self._parts: dict[Plan, _Part] = {}
        self.terms = Terms()

    def rows(self, plan: Plan, engine: Engine) -> pa.Table | None:
        """The rows of a part, if it pays to have them."""
        part = self._parts.get(plan)
        if part is None:
            self._make_room()
            part = self._parts[plan] = _Part(_relations(plan))
        part.asked += 1
        if part.rows is None and part.asked > 1:
            part.rows = self._evaluated(plan, part, engine)
        return part.rows

    def _evaluated(self, plan: Plan, part: _Part, engine: Engine) -> pa.Table | None:
        below = sum(engine.rows(leaf.relation) * times for leaf, times in leaves_read(plan) if isinstance(leaf, Stored))
        if below < self.terms.worth_rows or below <= 2 * part.too_large_over:
            return None
        count = Aggregate(plan, ("rows",), (), (AggregateCall(AggregateFunction.COUNT_ROWS),))
        rows = engine.fetch(count, {}).column(0)[0].as_py()
        if rows > min(self.terms.most_rows, below // self.terms.share):
            part.too_large_over = below
            return None
        return engine.evaluate(plan, {})

    def changed(self, relations: Iterable[str]) -> None:
        """Let go of the rows that are made of these relations."""
        others = frozenset(relations)
        for part in self._parts.values():
            if part.relations & others:
                part.rows, part.asked = None, 0

    def clear(self) -> None:
        self._parts.clear()

    def _make_room(self) -> None:
        while len(self._parts) >= MOST_KEPT:
            del self._parts[next(iter(self._parts))]


@dataclass
class Unchanged:
    """What the differentials of one network can take from kept parts. ``relations`` are those below it."""

    kept: KeptParts
    relations: frozenset[str]

    def __post_init__(self) -> None:
        self._decomposed: PerPlan[Decomposed] = PerPlan(self._parts_of)

    def _parts_of(self, plan: Plan) -> Decomposed:
        """The parts of a plan that would be read as a whole each time."""
        found, far = decomposed(plan, self.relations), out_of_reach(plan)
        worth = frozenset(name for name, part in found.parts if far & _relations(part) or self.kept.terms.in_reach)
        parts = tuple((name, part) for name, part in found.parts if name in worth)
        return Decomposed(found.keeping(worth) if parts else plan, parts)

    def over_parts(self, plan: Plan, given: Mapping[str, pa.Table], engine: Engine) -> Over:
        """The plan over what is kept of its parts."""
        found = self._decomposed(plan)
        if not found.parts:
            return Over(plan, given)
        tables = {name: rows for name, part in found.parts if (rows := self.kept.rows(part, engine)) is not None}
        if not tables:
            return Over(plan, given)
        kept = frozenset(relation for name, part in found.parts if name in tables for relation in _relations(part))
        return Over(found.keeping(frozenset(tables)), Tables({**as_rows(given), **as_rows(tables)}), kept)


@dataclass(frozen=True)
class Over:
    """A plan, what it is given, and the relations that kept rows stand for."""

    plan: Plan
    given: Mapping[str, pa.Table]
    kept: frozenset[str] = frozenset()


def _relations(plan: Plan) -> frozenset[str]:
    return frozenset(leaf.relation for leaf, _ in leaves_read(plan) if isinstance(leaf, Stored))
