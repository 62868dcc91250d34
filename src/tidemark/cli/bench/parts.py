"""Where the time of a transaction goes: its parts, one after the other, as the database announces them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

CHANGES: Final = "changes"
CHECKS: Final = "key checks"
COMMIT: Final = "commit"
_PROPAGATING: Final = "propagating to "


class Parts:
    """Listens to the steps of one transaction, and knows how long each part took.

    The time before the first step is that of the statements themselves: taking the rows over, finding those to delete.
    The inner nodes that serve a view count as the view.

    >>> moments = iter([0.0, 0.001, 0.003, 0.007, 0.008, 0.010])
    >>> parts = Parts(lambda: next(moments))
    >>> for step in ("checking constraints", "propagating to v2/counts-e6af", "propagating to v2", "committing"):
    ...     parts(step)
    >>> {part: round(spent, 3) for part, spent in parts.milliseconds().items()}
    {'changes': 1.0, 'key checks': 2.0, 'v2': 5.0, 'commit': 2.0}
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._begun = [(CHANGES, clock())]

    def __call__(self, step: str) -> None:
        self._begun.append((_part(step), self._clock()))

    def milliseconds(self) -> dict[str, float]:
        """How long each part took, up to now for the last one."""
        spent: dict[str, float] = {}
        ends = [moment for _, moment in self._begun[1:]] + [self._clock()]
        for (part, begun), end in zip(self._begun, ends, strict=True):
            spent[part] = spent.get(part, 0.0) + (end - begun) * 1000
        return spent


def _part(step: str) -> str:
    if step.startswith(_PROPAGATING):
        return step.removeprefix(_PROPAGATING).partition("/")[0]
    return CHECKS if step == "checking constraints" else COMMIT
