"""Time under the clock and time of the processors, which a busy machine disturbs less."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Spent:
    """What something took: by the clock, and of all processors, of this process alone."""

    milliseconds: float
    processor_milliseconds: float


def spent_on(action: Callable[[], object]) -> Spent:
    """What an action takes.

    >>> spent_on(lambda: None).milliseconds >= 0
    True
    """
    processors, started = time.process_time(), time.perf_counter()
    action()
    return Spent((time.perf_counter() - started) * 1000, (time.process_time() - processors) * 1000)


def median(spent: Iterable[Spent]) -> Spent:
    """The median of each."""
    found = list(spent)
    return Spent(
        statistics.median(one.milliseconds for one in found),
        statistics.median(one.processor_milliseconds for one in found),
    )
