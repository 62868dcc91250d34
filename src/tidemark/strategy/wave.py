"""The wave of one block: the deltas of tables and nodes, what of them matters to whom, and the steps taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from tidemark.algebra.cache import lazy
from tidemark.algebra.columns import Columns
from tidemark.algebra.history import CLOCK, STEP, STEP_SCHEMA
from tidemark.algebra.plans import Filter, Fixpoint, State
from tidemark.analysis.autonomy.dml import AnalysedStatement
from tidemark.calculus.as_of import delta_name
from tidemark.engines.engine import Engine
from tidemark.engines.local.lookups import whole_name
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import Rows, Tables, as_rows
from tidemark.strategy.irrelevant import passing, relevant
from tidemark.strategy.nodes import Node, Refresh
from tidemark.strategy.recursion.maintain import Followed
from tidemark.strategy.recursion.rederive import Rederived


class Step(NamedTuple):
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

    def to_record(self) -> dict[str, str | int | float]:
        """What is stored: the keys are read by later versions, whatever the fields are called."""
        return dict(zip(_STORED_AS, self, strict=True))


_STORED_AS: Final = (
    "node",
    "strategy",
    "reason",
    "rows_in",
    "rows_out",
    "rows_read",
    "milliseconds",
    "rows_filtered",
    "rows_rederived",
)


def trace_of(steps: Iterable[Step]) -> str:
    """The text of a trace, as it is stored with its version."""
    return json.dumps([step.to_record() for step in steps])


@dataclass(frozen=True)
class Interest:
    """What of a relation matters to a node: some of its columns, and only rows that pass the filter, if there is
    one."""

    columns: Columns
    filter: Filter | None = None


class Matter(NamedTuple):
    """What of a wave matters to one node: deltas of which nothing does are not there.

    ``wholes`` has the deltas that others may read as a whole: who looks for what they meet asks for the same.
    """

    rows: Mapping[str, Rows]
    wholes: Mapping[str, Rows]


NO_ROWS: Final[Mapping[str, Rows]] = {}


class Follower(Protocol):
    """Derives what of a wave was left until somebody asks."""

    def follow(self, wave: Wave, node: Node) -> None:
        """Derive the change of a node, and note it in the wave."""

    def may_add(self, wave: Wave, node: Node) -> bool:
        """Whether the wave can add rows to the node."""


class Wave:
    """The deltas of a block, of tables and nodes, and the steps that derived them.

    ``said`` gives the statement that made the deltas, if it is known and was the only one; it is worked out when it is
    asked for. ``strategies`` has those of the nodes that were derived, ``narrowed`` what of a delta matters to who
    takes an interest in it, ``recursions`` what was found for all members of a fixpoint. ``alone`` has the steps of
    nodes that follow without the change of what they share with others, ``anew`` has those that are evaluated as a
    whole without it. The nodes that are ``waiting`` were reached,
    and are not derived until their change is asked for, by the ``follower``.
    """

    def __init__(
        self,
        deltas: Mapping[str, pa.Table],
        steps: Iterable[Step] = (),
        said: Callable[[], AnalysedStatement | None] = lambda: None,
    ) -> None:
        self.rows = {name: rows for name, rows in as_rows(deltas).items() if rows.count}
        self.deltas: Mapping[str, pa.Table] = Tables(self.rows)
        self.steps = list(steps)
        self._said = said
        self.strategies: dict[str, str] = {}
        self.narrowed: dict[tuple[str, Columns, Filter | None], Rows] = {}
        self.recursions: dict[Fixpoint, Followed] = {}
        self.rederivations: dict[tuple[int, frozenset[str]], Rederived] = {}
        self.alone: dict[str, Refresh] = {}
        self.anew: set[str] = set()
        self.waiting: dict[str, Node] = {}
        self.follower: Follower | None = None
        self.in_vain: set[str] = set()

    def change_of(self, name: str) -> pa.Table | None:
        """The change of a relation or node, which is derived now if it waits for that; None if there is none."""
        node = self.waiting.get(name)
        if node is not None:
            assert self.follower is not None, "nodes wait for who follows them"
            self.follower.follow(self, node)
            del self.waiting[name]
        return self.rows[name].table if name in self.rows else None

    def may_add(self, name: str) -> bool:
        """Whether rows may have come to a node; what it takes to be sure is not read."""
        node = self.waiting.get(name)
        if node is None:
            return name in self.rows
        assert self.follower is not None, "nodes wait for who follows them"
        if name not in self.in_vain and not self.follower.may_add(self, node):
            self.in_vain.add(name)
        return name not in self.in_vain

    def is_beside_shared(self, name: str) -> bool:
        """Whether a node follows without the change of what it shares with others."""
        return name in self.alone or name in self.anew

    @lazy
    def statement(self) -> AnalysedStatement | None:
        return self._said()

    def with_others(self, deltas: Mapping[str, pa.Table], gone: Set[str]) -> Wave:
        """The same wave with other deltas of relations that no node reads, and without those that are gone."""
        copy = Wave({}, self.steps, self._said)
        copy.rows.update((name, rows) for name, rows in self.rows.items() if name not in gone)
        copy.rows.update(as_rows(deltas))
        copy.strategies, copy.alone, copy.anew = self.strategies, self.alone, self.anew
        copy.waiting, copy.follower, copy.in_vain = dict(self.waiting), self.follower, set(self.in_vain)
        return copy

    def matter(
        self, reads: Set[str], interests: Mapping[str, Interest], read_by_others: Set[str], engine: Engine
    ) -> Matter:
        """What of each delta matters to who reads these relations and takes these interests in them; some are read by
        others, too."""
        found, wholes = dict[str, Rows](), NO_ROWS
        for name, whole in self.rows.items():
            if name not in reads:
                continue
            interest = interests.get(name)
            part = whole if interest is None else self._part(name, interest.columns, interest.filter)
            if not part.count:
                continue
            found[name] = part
            if part is not whole:
                is_small = name in read_by_others and whole.count <= engine.limits.small_whole
                if is_small or part.count * engine.limits.small_part > whole.count:
                    wholes = {**wholes, name: whole}
        return Matter(found, wholes)

    def is_read(self, name: str, interest: Interest) -> bool:
        """Whether anything changed in the columns that matter, whatever rows do."""
        return bool(self.narrowed[name, interest.columns, None].count)

    def _part(self, name: str, columns: Columns, filter: Filter | None) -> Rows:
        key = (name, columns, filter)
        found = self.narrowed.get(key)
        if found is None:
            if filter is None:
                found = relevant(self.rows[name], columns)
            else:
                found = passing(self._part(name, columns, None), filter)
            self.narrowed[key] = found
        return found


_delta_name: Final = lru_cache(maxsize=4_096)(delta_name)


def given_rows(matter: Matter) -> dict[str, Rows]:
    """What matters, under the names by which resolved plans and engines know it."""
    given = {_delta_name(relation): rows for relation, rows in matter.rows.items()}
    for relation, rows in matter.wholes.items():
        given[whole_name(_delta_name(relation))] = rows
    if CLOCK in matter.rows:
        given[STEP] = Rows.of(_step(matter.rows[CLOCK].table))
    return given


def given_deltas(deltas: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The deltas under the names by which resolved plans and engines know them."""
    given = {delta_name(relation, State.DELTA): delta for relation, delta in deltas.items()}
    if CLOCK in deltas:
        given[STEP] = _step(deltas[CLOCK])
    return given


def named_rows(deltas: Mapping[str, Rows]) -> Tables:
    """The same of rows, none of which is looked at but the clock's."""
    given = {delta_name(relation, State.DELTA): rows for relation, rows in deltas.items()}
    if CLOCK in deltas:
        given[STEP] = Rows.of(_step(deltas[CLOCK].table))
    return Tables(given)


def _step(delta: pa.Table) -> pa.Table:
    """A step of the clock as one row; none when it is set for the first time."""
    before, after = (part(delta).column(0).combine_chunks() for part in (delta_tables.deleted, delta_tables.inserted))
    rows = [before, after[: len(before)], pa.array([1] * len(before), pa.int64())]
    return pa.Table.from_arrays(rows, schema=STEP_SCHEMA.weighted)
