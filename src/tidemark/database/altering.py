"""Reading tables as an open transaction has altered them, before anything of it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from tidemark.algebra.plans import Plan, Stored, transform
from tidemark.engines.base import Engine, Iteration
from tidemark.log.commit import Alteration


def as_altered(engine: Engine, altered: Mapping[str, Alteration]) -> Engine:
    """The engine as if the tables had their new columns already. Everything but reading is the engine's own."""
    return cast(Engine, _Altered(engine, altered)) if altered else engine


class _Altered:
    def __init__(self, engine: Engine, altered: Mapping[str, Alteration]) -> None:
        self._engine, self._altered = engine, altered

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._engine.evaluate(self._reading(plan), given)

    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._engine.fetch(self._reading(plan), given)

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        return self._engine.iterates(iteration.over(self._reading), given)

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        return self._engine.iterate(iteration.over(self._reading), given)

    def _reading(self, plan: Plan) -> Plan:
        return transform(plan, lambda part: self._extended(part) if isinstance(part, Stored) else None)

    def _extended(self, stored: Stored) -> Plan | None:
        alteration = self._altered.get(stored.relation)
        return None if alteration is None else alteration.rows
