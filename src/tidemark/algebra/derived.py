"""Things that follow from a plan alone, derived once.

The network's plans come back with every transaction, as the same objects. What is worked out about one is kept beside
it; plans never change, so it cannot go stale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from tidemark.algebra.plans import Plan

MOST_KEPT: Final = 512

T = TypeVar("T")


class PerPlan(Generic[T]):
    """A function of a plan that remembers its results by the plan's identity.

    >>> from tidemark.algebra.plans import Given
    >>> from tidemark.algebra.types import Schema
    >>> width = PerPlan(lambda plan: len(plan.schema))
    >>> width(Given("delta", Schema(())))
    0
    """

    def __init__(self, derive: Callable[[Plan], T]) -> None:
        self._derive = derive
        self._kept: dict[int, tuple[Plan, T]] = {}

    def __call__(self, plan: Plan) -> T:
        kept = self._kept.get(id(plan))
        if kept is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            # The plan is kept too, so that its identity cannot be taken by another one.
            kept = self._kept[id(plan)] = (plan, self._derive(plan))
        return kept[1]
