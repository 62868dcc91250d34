"""IncrGroup with MIN and MAX: the input is looked at only where an extremum went.

    T = totals of (S_old ⋉ K) ⊎ γ±(ΔE)        sums added up; of extrema the better one of the old and the inserted

A group is *exposed* when a deleted value is at least as good as the extremum of T: then the extremum may be gone, and
the group is evaluated again from E_new. In every other group the extremum of T is right, because whatever was
deleted lies strictly behind it.

    ΔS = σ[not exposed] T  ⊎  γ(E_new ⋉ exposed)  −  S_old ⋉ K

The first rows of an order (ORDER BY … LIMIT n), without reading the input again as long as they suffice.

    F = first[n](E),    F_new = first[n](F_old ⊎ ΔE)      unless ΔE deletes a row of F_old and F_old has n rows

What was not among the first n rows cannot get there by an insertion or by a deletion behind them. If one of them goes,
the row that moves up is not known, and E_new is read; if F_old has fewer than n rows, it is all of E_old, and nothing
has to be read at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemark.algebra.expressions import TRUE, Call, Case, Cast, Expression, Literal, conjunction
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Filter,
    Given,
    Join,
    Negate,
    Plan,
    Project,
    Sort,
    Touched,
    Union,
    union,
)
from tidemark.algebra.types import BIGINT, BOOLEAN
from tidemark.calculus.group import count_of, normal_form

_FALSE = Literal(False, BOOLEAN)


def has_extrema(state: Aggregate) -> bool:
    return any(call.is_extremum for call in state.aggregates)


def partial_sums(prepared: Aggregate, changed: Given) -> Aggregate:
    """γ±(ΔE) of the counts and sums alone."""
    calls = tuple(call for call in prepared.aggregates if not call.is_extremum)
    names = prepared.schema.names[: len(prepared.keys)] + tuple(f"p{i}" for i in range(len(calls)))
    return Aggregate(changed, names, prepared.keys, calls, signed=True)


def totals(prepared: Aggregate, before: Given, sums: Given, changed: Given) -> Aggregate:
    """T, and behind the columns of the state the best deleted value of each extremum."""
    width = len(prepared.keys)
    extreme = tuple(i for i, call in enumerate(prepared.aggregates) if call.is_extremum)
    additive = tuple(i for i in range(len(prepared.aggregates)) if i not in extreme)
    beyond = len(prepared.aggregates)
    calls = tuple(prepared.aggregates[i] for i in extreme)
    names = prepared.schema.names[:width] + tuple(f"e{i}" for i in extreme)
    came = Aggregate(Distinct(changed), names, prepared.keys, calls)
    went = Aggregate(Distinct(Negate(changed)), names, prepared.keys, calls)
    both = Union(
        (
            _laid_out(prepared, before, {i: width + i for i in range(beyond)}),
            _laid_out(prepared, sums, {i: width + n for n, i in enumerate(additive)}),
            _laid_out(prepared, came, {i: width + n for n, i in enumerate(extreme)}),
            _laid_out(prepared, went, {beyond + n: width + n for n in range(len(extreme))}),
        )
    )
    functions = [AggregateFunction.SUM if i in additive else prepared.aggregates[i].function for i in range(beyond)]
    functions += [prepared.aggregates[i].function for i in extreme]
    summed = tuple(AggregateCall(f, both.column(width + i)) for i, f in enumerate(functions))
    return Aggregate(both, both.schema.names, both.columns()[:width], summed, signed=True)


def _laid_out(prepared: Aggregate, part: Plan, places: Mapping[int, int]) -> Project:
    """The part's rows as rows of T: where it says nothing stands NULL."""
    width = len(prepared.keys)
    extreme = tuple(call for call in prepared.aggregates if call.is_extremum)
    cells: list[Expression] = list(part.columns()[:width])
    for i, call in enumerate((*prepared.aggregates, *extreme)):
        cells.append(part.column(places[i]) if i in places else Literal(None, call.type))
    names = prepared.schema.names + tuple(f"gone{i}" for i in range(len(extreme)))
    return Project(part, names, tuple(cells))


def exposed_groups(prepared: Aggregate, total: Plan) -> Project:
    """The keys of the exposed groups, and a mark, since there may be no keys."""
    exposed = Filter(total, conjunction((*_is_there(prepared, total), _is_exposed(prepared, total))))
    keys = exposed.columns()[: len(prepared.keys)]
    return Project(exposed, (*(key.name for key in keys), "exposed"), (*keys, TRUE))


def changed_state(prepared: Aggregate, total: Plan, fresh: Given, before: Given) -> Plan:
    """ΔS."""
    settled = Call("not", (_is_exposed(prepared, total),), BOOLEAN, nullable=False)
    kept = Filter(total, conjunction((*_is_there(prepared, total), settled)))
    after = Project(kept, prepared.schema.names, normal_form(prepared, kept))
    return union((after, fresh, Negate(before)), prepared.schema)


def _is_there(prepared: Aggregate, total: Plan) -> tuple[Expression, ...]:
    """A group without rows is gone; without keys there is one group, which always is there."""
    if not prepared.keys:
        return ()
    return (_is_positive(total.column(len(prepared.keys))),)


def _is_positive(count: Expression) -> Expression:
    return Call("gt", (count, Cast(Literal(0, BIGINT), count.type)), BOOLEAN, count.nullable)


def _is_exposed(prepared: Aggregate, total: Plan) -> Expression:
    """Whether a deleted value is as good as the extremum, in a group that has values left."""
    width, beyond = len(prepared.keys), len(prepared.keys) + len(prepared.aggregates)
    branches: list[tuple[Expression, Expression]] = []
    for i, call in enumerate(prepared.aggregates):
        if not call.is_extremum:
            continue
        gone, best = total.column(beyond + len(branches)), total.column(width + i)
        values = total.column(width + prepared.aggregates.index(count_of(call)))
        assert call.row.beats is not None
        beaten = Call(call.row.beats, (gone, best), BOOLEAN, nullable=True)
        branches.append((conjunction((_is_positive(values), beaten)), TRUE))
    return Case(tuple(branches), _FALSE, BOOLEAN)


def kept_first(plan: Sort) -> Sort | None:
    """What is kept for a LIMIT: the rows up to its end, with all columns; None if it has no end."""
    if plan.limit is None:
        return None
    return replace(plan, limit=plan.limit + plan.offset, offset=0, visible=None)


def is_kept_first(plan: Plan) -> bool:
    return isinstance(plan, Sort) and plan.limit is not None and plan == kept_first(plan)


def lost_rows(plan: Sort, before: Given, changed: Given) -> Plan:
    """The rows of F_old that ΔE deletes, if F_old is full; otherwise nothing."""
    assert plan.limit is not None
    columns = tuple(range(len(plan.schema)))
    lost = Touched(before, Distinct(Negate(changed)), columns)
    count = Aggregate(before, ("rows",), (), (AggregateCall(AggregateFunction.COUNT_ROWS),))
    is_full = Call("ge", (count.column(0), Literal(plan.limit, BIGINT)), BOOLEAN, nullable=False)
    return Join(lost, Filter(count, is_full), TRUE)


def merged_first(plan: Sort, before: Given, changed: Given) -> Plan:
    """first[n](F_old ⊎ ΔE)."""
    return plan.with_inputs((union((before, changed), plan.input.schema),))
