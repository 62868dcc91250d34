"""IncrGroup with MIN and MAX: the input is looked at only where an extremum went.

    T = totals of (S_old ⋉ K) ⊎ γ±(ΔE)        sums added up; of extrema the better one of the old and the inserted

A group is *exposed* when a deleted value is at least as good as the extremum of T: then the extremum may be gone, and
the group is evaluated again from E_new. In every other group the extremum of T is right, because whatever was
deleted lies strictly behind it.

    ΔS = σ[not exposed] T  ⊎  γ(E_new ⋉ exposed)  −  S_old ⋉ K
"""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.algebra.aggregates import EXTREMA
from tidemark.algebra.expressions import TRUE, Call, Case, Cast, Expression, Literal, conjunction
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Filter,
    Given,
    Negate,
    Plan,
    Project,
    Union,
    union,
)
from tidemark.algebra.types import BIGINT, BOOLEAN
from tidemark.calculus.group import count_of, normal_form

_FALSE = Literal(False, BOOLEAN)


def has_extrema(state: Aggregate) -> bool:
    return any(call.function in EXTREMA for call in state.aggregates)


def partial_sums(prepared: Aggregate, changed: Given) -> Aggregate:
    """γ±(ΔE) of the counts and sums alone."""
    calls = tuple(call for call in prepared.aggregates if call.function not in EXTREMA)
    names = prepared.schema.names[: len(prepared.keys)] + tuple(f"p{i}" for i in range(len(calls)))
    return Aggregate(changed, names, prepared.keys, calls, signed=True)


def totals(prepared: Aggregate, before: Given, sums: Given, changed: Given) -> Aggregate:
    """T, and behind the columns of the state the best deleted value of each extremum."""
    width = len(prepared.keys)
    extreme = tuple(i for i, call in enumerate(prepared.aggregates) if call.function in EXTREMA)
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
    extreme = tuple(call for call in prepared.aggregates if call.function in EXTREMA)
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
        if call.function not in EXTREMA:
            continue
        gone, best = total.column(beyond + len(branches)), total.column(width + i)
        comparison = "le" if call.function is AggregateFunction.MIN else "ge"
        values = total.column(width + prepared.aggregates.index(count_of(call)))
        beaten = Call(comparison, (gone, best), BOOLEAN, nullable=True)
        branches.append((conjunction((_is_positive(values), beaten)), TRUE))
    return Case(tuple(branches), _FALSE, BOOLEAN)
