"""Deletes and updates of lines, and the rungs of the ladder that they are for.

- *autonomous*: lines that V1's own filter lets pass. V1 shows their keys, so its content and the change are enough.
- *irrelevant*: lines that were shipped too early for V1. Its filter throws them away.
"""

from __future__ import annotations

import datetime as dt
import random
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.cli.bench.changes import TableChange, Work, a_cent_dearer

RUNGS: Final = ("autonomous", "irrelevant")
SHIPPED: Final = dt.date(1995, 6, 1)
"""V1 has the lines that were shipped then or later."""


class Lines:
    """Makes the same transactions for the same seed. A line is used once at most."""

    def __init__(self, lines: pa.Table, rung: str, seed: int = 7) -> None:
        late = pc.greater_equal(lines["l_shipdate"], SHIPPED)
        self._lines = lines.filter(late if rung == "autonomous" else pc.invert(late))
        self._order = list(range(self._lines.num_rows))
        random.Random(seed).shuffle(self._order)
        self._made = 0

    def left(self, size: int) -> int:
        """How many transactions of a size the lines are enough for."""
        return len(self._order) // size

    def transaction(self, size: int) -> Work:
        """So many changed lines, half of them updated and half deleted. Where there is one, two transactions update and
        two delete, so that both rivals get both kinds."""
        taken = pa.array([self._order.pop() for _ in range(size)], pa.int64())
        lines = self._lines.take(taken)
        updated = size // 2 if size > 1 else int(self._made % 4 < 2)
        self._made += 1
        return {"lineitem": TableChange(lines, a_cent_dearer(lines.slice(0, updated)))}
