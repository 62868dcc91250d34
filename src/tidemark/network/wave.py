"""The wave of one block: the deltas of tables and nodes, what of them matters to whom, and the steps taken."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from tidemark.algebra.clock import CLOCK, STEP, STEP_SCHEMA
from tidemark.algebra.plans import Filter, Fixpoint, State
from tidemark.algebra.reading import Columns
from tidemark.analysis.autonomy_updates import Statement
from tidemark.calculus.as_of import delta_name
from tidemark.engines.base import Engine
from tidemark.engines.nearby import whole_name
from tidemark.log import deltas as delta_tables
from tidemark.network.recursion import Followed
from tidemark.network.rederivation import Rederived
from tidemark.network.relevance import passing, relevant

NO_TABLES: Final[Mapping[str, pa.Table]] = {}
SMALL_PART: Final = 4
"""A part of a delta that is smaller by this factor is better looked up by itself than together with others."""
SMALL_WHOLE: Final = 64
"""A delta of so few rows that others read too is looked up as a whole: asking again would cost more than its rows."""


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
    rows_filtered: int = 0
    rows_rederived: int = 0


@dataclass(frozen=True)
class Interest:
    """What of a relation matters to a node: some of its columns, and only rows that pass the filter, if there is
    one."""

    columns: Columns
    filter: Filter | None = None


@dataclass(frozen=True)
class Matter:
    """What of a wave matters to one node: deltas of which nothing does are not there.

    ``wholes`` has the deltas that others may read as a whole: who looks for what they meet asks for the same.
    """

    deltas: dict[str, pa.Table]
    wholes: dict[str, pa.Table]


@dataclass
class Wave:
    """The deltas of a block, of tables and nodes, and the steps that derived them.

    ``strategies`` has those of the nodes that were derived, ``narrowed`` what of a delta matters to who takes an
    interest in it, ``recursions`` what was found for all members of a fixpoint. ``is_checked`` says that no constraint
    is violated.
    """

    deltas: dict[str, pa.Table]
    steps: list[Step] = field(default_factory=list)
    strategies: dict[str, str] = field(default_factory=dict)
    statement: Statement | None = None
    is_checked: bool = False
    narrowed: dict[tuple[str, Interest], pa.Table] = field(default_factory=dict)
    recursions: dict[Fixpoint, Followed] = field(default_factory=dict)
    rederivations: dict[tuple[int, frozenset[str]], Rederived] = field(default_factory=dict)

    def matter(self, interests: Mapping[str, Interest], engine: Engine, read_by_others: Set[str]) -> Matter:
        """What of each delta matters to who takes these interests; some relations are read by others, too."""
        found, wholes = dict(self.deltas), dict[str, pa.Table]()
        for name in self.deltas.keys() & interests.keys():
            whole, part = self.deltas[name], self._part(name, interests[name], engine)
            found[name] = part
            is_small = name in read_by_others and whole.num_rows <= SMALL_WHOLE
            if part is not whole and (is_small or part.num_rows * SMALL_PART > whole.num_rows):
                wholes[name] = whole
        return Matter({name: delta for name, delta in found.items() if delta.num_rows}, wholes)

    def is_read(self, name: str, interest: Interest) -> bool:
        """Whether anything changed in the columns that matter, whatever rows do."""
        return bool(self.narrowed[name, Interest(interest.columns)].num_rows)

    def _part(self, name: str, interest: Interest, engine: Engine) -> pa.Table:
        key = (name, interest)
        if key not in self.narrowed:
            if interest.filter is None:
                self.narrowed[key] = relevant(self.deltas[name], interest.columns)
            else:
                narrowed = self._part(name, Interest(interest.columns), engine)
                self.narrowed[key] = passing(narrowed, interest.filter, engine)
        return self.narrowed[key]


def given_deltas(deltas: Mapping[str, pa.Table], wholes: Mapping[str, pa.Table] = NO_TABLES) -> dict[str, pa.Table]:
    """The deltas under the names by which resolved plans and engines know them."""
    given = {delta_name(relation, State.DELTA): delta for relation, delta in deltas.items()}
    given.update((whole_name(delta_name(relation, State.DELTA)), delta) for relation, delta in wholes.items())
    if CLOCK in deltas:
        given[STEP] = _step(deltas[CLOCK])
    return given


def _step(delta: pa.Table) -> pa.Table:
    """A step of the clock as one row; none when it is set for the first time."""
    before, after = (part(delta).column(0).combine_chunks() for part in (delta_tables.deleted, delta_tables.inserted))
    rows = [before, after[: len(before)], pa.array([1] * len(before), pa.int64())]
    return pa.Table.from_arrays(rows, schema=STEP_SCHEMA.weighted)
