"""The wave of one block: the deltas of tables and nodes, what of them matters to whom, and the steps taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from tidemark.algebra.clock import CLOCK, STEP, STEP_SCHEMA
from tidemark.algebra.plans import State
from tidemark.algebra.reading import Columns
from tidemark.calculus.as_of import delta_name
from tidemark.log import deltas as delta_tables
from tidemark.network.relevance import relevant


@dataclass(frozen=True)
class Step:
    """What was done for one node: a line of the trace."""

    node: str
    strategy: str
    reason: str
    rows_in: int
    rows_out: int
    rows_read: int
    milliseconds: float


@dataclass
class Wave:
    """The deltas of a block, of tables and nodes, and the steps that derived them.

    ``narrowed`` has what of a delta matters to who reads some of its columns.
    """

    deltas: dict[str, pa.Table]
    steps: list[Step] = field(default_factory=list)
    narrowed: dict[tuple[str, Columns], pa.Table] = field(default_factory=dict)

    def relevant(self, read: Mapping[str, Columns]) -> dict[str, pa.Table]:
        """What of each delta matters to who reads these columns; deltas of which nothing matters are not there."""
        found = dict(self.deltas)
        for name in self.deltas.keys() & read.keys():
            key = (name, read[name])
            if key not in self.narrowed:
                self.narrowed[key] = relevant(self.deltas[name], read[name])
            found[name] = self.narrowed[key]
        return {name: delta for name, delta in found.items() if delta.num_rows}


def given_deltas(deltas: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The deltas under the names by which resolved plans know them."""
    given = {delta_name(relation, State.DELTA): delta for relation, delta in deltas.items()}
    if CLOCK in deltas:
        given[STEP] = _step(deltas[CLOCK])
    return given


def _step(delta: pa.Table) -> pa.Table:
    """A step of the clock as one row; none when it is set for the first time."""
    before, after = (part(delta).column(0).combine_chunks() for part in (delta_tables.deleted, delta_tables.inserted))
    rows = [before, after[: len(before)], pa.array([1] * len(before), pa.int64())]
    return pa.Table.from_arrays(rows, schema=STEP_SCHEMA.weighted)
