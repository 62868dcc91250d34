"""Time under the clock and time of the processors, which a busy machine disturbs less."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")
SYNC: Final = getattr(os, "fdatasync", os.fsync)
CHANGES: Final = "changes"
CHECKS: Final = "key checks"
COMMIT: Final = "commit"
_PROPAGATING: Final = "propagating to "


@dataclass(frozen=True)
class Spent:
    """What something took: by the clock, and of all processors, of this process alone."""

    milliseconds: float
    processor_milliseconds: float


def answered(action: Callable[[], T]) -> tuple[T, Spent]:
    """What an action gives, and what it takes."""
    processors, started = time.process_time(), time.perf_counter()
    given = action()
    return given, Spent((time.perf_counter() - started) * 1000, (time.process_time() - processors) * 1000)


def spent_on(action: Callable[[], object]) -> Spent:
    """What an action takes.

    >>> spent_on(lambda: None).milliseconds >= 0
    True
    """
    return answered(action)[1]


def timed(action: Callable[[], object]) -> float:
    """How many milliseconds an action takes."""
    return spent_on(action).milliseconds


def median(spent: Iterable[Spent]) -> Spent:
    """The median of each."""
    found = list(spent)
    return Spent(middle(found, "milliseconds"), middle(found, "processor_milliseconds"))


def middle(samples: Iterable[object], figure: str) -> float:
    """The median of a figure, by its name.

    >>> middle([Spent(1.0, 5.0), Spent(9.0, 7.0), Spent(2.0, 6.0)], "milliseconds")
    2.0
    """
    return float(statistics.median(getattr(sample, figure) for sample in samples))


class Parts:
    """Where the time of a transaction goes: listens to its steps, and knows how long each part took.

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


def spent_by_all(action: Callable[[], object]) -> Spent:
    """What an action takes, with the processors' time of all processes that descend from this one, such as Spark's.

    >>> spent_by_all(lambda: None).processor_milliseconds >= 0
    True
    """
    processors, started = family_seconds(), time.perf_counter()
    action()
    return Spent((time.perf_counter() - started) * 1000, (family_seconds() - processors) * 1000)


def family_seconds() -> float:
    """The processors' time of this process and of those that descend from it and live; of this one alone where the
    system does not tell about others."""
    spent, parents = dict[int, float](), dict[int, int]()
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            shown = place.read_text().rpartition(")")[2].split()
            number = int(place.parent.name)
            parents[number], spent[number] = int(shown[1]), (int(shown[11]) + int(shown[12])) / os.sysconf("SC_CLK_TCK")
    family = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(spent.get(number, 0.0) for number in family) if os.getpid() in spent else time.process_time()
