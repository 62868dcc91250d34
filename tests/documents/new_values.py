"""Refreshing a snapshot from new values alone: Procedures 7.1 and 7.2 of BLAKELEY 7.3.2, corrected.

Each relation has a tuple-id and the time at which each of its rows was last written; the snapshot shows the
tuple-ids of the rows that each of its rows is made of. Nothing is known of old values. With τ the time of the last
refresh:

    r_1 = σ[TS < τ](r)              the rows that were there       r_2 = r − r_1        those written since
    T_d = π[TID](r_2)  ∪  (π[TID](s) − π[TID](r))                  for each relation
    T_i = the combinations with at least one row of an r_2         by the differential, with r_1 as the old state
    s'  = (s − the rows with a tuple-id in T_d) ∪ T_i

In the text T_1 has only the tuple-ids of rows that were *modified*. A tuple-id that was freed and given to a new row
would then leave the rows of the old one in the snapshot; so it is all of r_2 here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemark.algebra.expressions import Call, Expression, Literal, Value
from tidemark.algebra.plans import (
    Difference,
    Distinct,
    Filter,
    Negate,
    Plan,
    Project,
    Scan,
    State,
    Stored,
    Touched,
    transform,
    union,
)
from tidemark.algebra.types import BOOLEAN, Schema
from tidemark.calculus.chain import differentiate


@dataclass(frozen=True)
class Stamped:
    """A relation whose rows have a tuple-id and the time at which they were last written, by position; ``shown`` is the
    column of the snapshot with the tuple-id."""

    relation: str
    schema: Schema
    tid: int
    stamp: int
    shown: int


def refresh(definition: Plan, snapshot: Plan, sources: Sequence[Stamped], tau: Value) -> Plan:
    """The change of the snapshot (Procedure 7.2): T_i − the rows with a tuple-id in T_d."""
    leaving = []
    staying = snapshot
    for source in sources:
        ids = deleted_ids(snapshot, source, tau)
        going = Touched(staying, ids, (source.shown,))
        leaving.append(Negate(going))
        staying = union((staying, Negate(going)), snapshot.schema)
    return union((new_rows(definition, sources, tau), *leaving), snapshot.schema)


def deleted_ids(snapshot: Plan, source: Stamped, tau: Value) -> Plan:
    """T_d of one relation: the tuple-ids of what was written since, and those that are gone."""
    relation = Stored(source.relation, source.schema)
    written = _ids(Filter(relation, _written(relation, source, tau)), source.tid)
    gone = Difference(Distinct(_ids(snapshot, source.shown)), Distinct(_ids(relation, source.tid)))
    return Distinct(union((written, gone), written.schema))


def new_rows(definition: Plan, sources: Sequence[Stamped], tau: Value) -> Plan:
    """T_i (Procedure 7.1, step 5): the differential of the definition, with what was written since as insertions."""
    known = {source.relation: source for source in sources}
    return transform(differentiate(definition, frozenset(known)), lambda part: _split(part, known, tau))


def _split(part: Plan, known: Mapping[str, Stamped], tau: Value) -> Plan | None:
    if not isinstance(part, Scan):
        return None
    source, stored = known[part.relation], Stored(part.relation, part.schema)
    if part.state is State.NEW:
        return stored
    written = _written(stored, source, tau)
    if part.state is State.DELTA:
        return Filter(stored, written)
    return Filter(stored, Call("not", (written,), BOOLEAN, nullable=False))


def _written(relation: Plan, source: Stamped, tau: Value) -> Expression:
    """Whether a row was written at τ or later."""
    stamp = relation.column(source.stamp)
    return Call("ge", (stamp, Literal(tau, stamp.type)), BOOLEAN, nullable=stamp.nullable)


def _ids(plan: Plan, position: int) -> Plan:
    return Project(plan, ("tid",), (plan.column(position),))
