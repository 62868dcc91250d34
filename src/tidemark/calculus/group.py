"""IncrGroup: grouping, in two forms.

Without stored counts, only touched groups are evaluated again, old against new:

    Δ γ(E) = γ(E_new ⋉ K) − γ(E_old ⋉ K),   K = π[keys](ΔE)

With stored counts (a *state* S that the network keeps for γ), the input is not read at all:

    P   = γ±(ΔE)                            the signed partial counts and sums of the change
    Δ S = merge((S_old ⋉ K) ⊎ P) − (S_old ⋉ K)

where merge adds counts and sums group by group and drops groups whose row count reached zero. COUNT and SUM of exact
types are groups under addition, which is why this is exact; a sum is NULL when its count of values is zero, so that
count is kept beside it. MIN and MAX need a look at the input when an extremum goes (``extrema.py``); what is neither
is evaluated again for touched groups (``touched.py``).

Aggregates of distinct values, from groupings that are merged.

    γ[k; f(x), count(DISTINCT y)](E) = γ[k; f(x)](E) ⋈[k] γ[k; count(y)](δ π[k, y] E)

Each group of E is a group of both sides, also when y is NULL throughout, so the join loses none. Counts of δ are kept,
hence a value counts as long as any row has it, and nothing is read again.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.expressions import Call, Case, Cast, Column, Expression, Literal, conjunction
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Filter,
    Join,
    Negate,
    Plan,
    Project,
    Touched,
    union,
)
from tidemark.algebra.types import BIGINT, BOOLEAN
from tidemark.calculus.as_of import new, old

ROWS = "_rows"


def incremental_group(plan: Aggregate, delta: Plan) -> Plan:
    """The law without stored counts."""
    prepared = with_column_keys(plan)
    if not plan.keys:
        return union((new(plan), Negate(old(plan))), plan.schema)
    delta_input = prepared.input.with_inputs((delta,))
    positions = tuple(range(len(plan.keys)))
    before = prepared.with_inputs((Touched(old(prepared.input), delta_input, positions),))
    after = prepared.with_inputs((Touched(new(prepared.input), delta_input, positions),))
    return union((after, Negate(before)), plan.schema)


def with_column_keys(plan: Aggregate) -> Aggregate:
    """The same aggregate over a projection that computes keys and arguments first: its keys are columns 0, 1, …."""
    arguments = tuple(dict.fromkeys(part for call in plan.aggregates for part in call.expressions()))
    names = tuple(f"k{i}" for i in range(len(plan.keys))) + tuple(f"a{i}" for i in range(len(arguments)))
    source = Project(plan.input, names, plan.keys + arguments)
    places = {argument: source.column(len(plan.keys) + i) for i, argument in enumerate(arguments)}
    calls = tuple(call.with_expressions(tuple(places[part] for part in call.expressions())) for call in plan.aggregates)
    return Aggregate(source, plan.names, _columns(source, tuple(range(len(plan.keys)))), calls, plan.signed)


def is_merged(plan: Aggregate) -> bool:
    """Whether the grouping's state follows from the state before and the change."""
    return all(call.is_merged for call in plan.aggregates)


def state_of(plan: Aggregate) -> Aggregate:
    """The aggregate that the network stores for γ: its keys, the count of rows, and for each COUNT(x) the count of
    values, for each other aggregate its value and, if it is merged, the count of values. Names are canonical, so equal
    groupings share a state."""
    calls: list[AggregateCall] = [AggregateCall(AggregateFunction.COUNT_ROWS)]
    names = [f"k{i}" for i in range(len(plan.keys))] + [ROWS]
    merged = is_merged(plan)
    for call in plan.aggregates:
        for needed in _kept(call) if merged else (call,):
            if needed not in calls:
                names.append(needed.row.letter + str(len(calls)))
                calls.append(needed)
    return Aggregate(plan.input, tuple(names), plan.keys, tuple(calls))


def visible(plan: Aggregate, state: Aggregate, source: Plan) -> Project:
    """γ itself, as a projection of its stored state."""
    offset = len(plan.keys)
    wanted = tuple(range(offset)) + tuple(offset + state.aggregates.index(call) for call in plan.aggregates)
    return Project(source, plan.names, _columns(source, wanted))


def partial_sums(state: Aggregate, delta: Plan) -> Aggregate:
    """P = γ±(ΔE): what the change adds to counts and sums, one row for each touched group."""
    return Aggregate(delta, state.names, state.keys, state.aggregates, signed=True)


def touched_before(state: Aggregate, stored: Plan, partial: Plan) -> Plan:
    """S_old ⋉ K: the stored counts of the touched groups; without keys there is one group, always touched."""
    keys = tuple(range(len(state.keys)))
    return Touched(stored, partial, keys) if keys else stored


def merged_delta(state: Aggregate, before: Plan, partial: Plan) -> Plan:
    """Δ S from the counts of the touched groups before the block and the partial sums of the change."""
    keys = tuple(range(len(state.keys)))
    both = union((before, partial), state.schema)
    sums = tuple(
        AggregateCall(AggregateFunction.SUM, both.column(index)) for index in range(len(keys), len(state.schema))
    )
    total = Aggregate(both, state.names, _columns(both, keys), sums, signed=True)
    after: Plan = Project(total, state.names, normal_form(state, total))
    if keys:
        rows = after.column(len(keys))
        after = Filter(after, Call("gt", (rows, Literal(0, BIGINT)), BOOLEAN, rows.nullable))
    return union((after, Negate(before)), state.schema)


def normal_form(state: Aggregate, total: Plan) -> tuple[Expression, ...]:
    """Totals cast back to the state's types; a sum without values is NULL, as SQL has it."""
    offset = len(state.keys)
    result: list[Expression] = list(_columns(total, tuple(range(offset))))
    for position, call in enumerate(state.aggregates):
        value = _as(total.column(offset + position), state.schema[offset + position].type)
        if call.is_count:
            result.append(Call("coalesce", (value, Literal(0, BIGINT)), BIGINT, nullable=False))
            continue
        values = total.column(offset + state.aggregates.index(count_of(call)))
        nothing = Call("eq", (values, Cast(Literal(0, BIGINT), values.type)), BOOLEAN, values.nullable)
        result.append(Case(((nothing, Literal(None, value.type)),), value, value.type))
    return tuple(result)


def _kept(call: AggregateCall) -> tuple[AggregateCall, ...]:
    return (call,) if call.is_count else (call, count_of(call))


def count_of(call: AggregateCall) -> AggregateCall:
    """The count of the values that a SUM, MIN or MAX looks at; the count of rows if none of them can be NULL."""
    if call.argument is None or not call.argument.nullable:
        return AggregateCall(AggregateFunction.COUNT_ROWS)
    return AggregateCall(AggregateFunction.COUNT, call.argument)


def _as(expression: Expression, target: object) -> Expression:
    return expression if expression.type == target else Cast(expression, target)  # type: ignore[arg-type]


def _columns(plan: Plan, positions: tuple[int, ...]) -> tuple[Column, ...]:
    return tuple(plan.column(position) for position in positions)


def split_distinct(plan: Aggregate) -> Plan | None:
    """The grouping as a join of groupings without DISTINCT; None if that does not help.

    It does not if another aggregate has to be evaluated again anyway, from all rows of its group.
    """
    distinct = tuple(dict.fromkeys(call.argument for call in plan.aggregates if _is_split(call)))
    if not distinct or not all(call.is_merged or _is_split(call) for call in plan.aggregates):
        return None
    plain = tuple(call for call in plan.aggregates if call.is_merged)
    sides: list[tuple[Plan, tuple[AggregateCall, ...]]] = []
    if plain:
        sides.append((_grouped(plan, plan.input, plan.keys, plain), plain))
    for value in distinct:
        assert value is not None
        calls = tuple(call for call in plan.aggregates if call.argument == value and _is_split(call))
        sides.append((_of_values(plan, value, calls), calls))
    return _joined(plan, sides)


def _is_split(call: AggregateCall) -> bool:
    """DISTINCT makes a difference, and without it the call would be merged."""
    return not call.is_merged and replace(call, distinct=False).is_merged


def _grouped(
    plan: Aggregate, source: Plan, keys: tuple[Expression, ...], calls: tuple[AggregateCall, ...]
) -> Aggregate:
    names = plan.names[: len(keys)] + tuple(f"a{i}" for i in range(len(calls)))
    return Aggregate(source, names, keys, calls)


def _of_values(plan: Aggregate, value: Expression, calls: tuple[AggregateCall, ...]) -> Aggregate:
    names = (*plan.names[: len(plan.keys)], "value")
    values = Distinct(Project(plan.input, names, (*plan.keys, value)))
    *keys, column = values.columns()
    plain = tuple(replace(call, argument=column, distinct=False) for call in calls)
    return _grouped(plan, values, tuple(keys), plain)


def _joined(plan: Aggregate, sides: list[tuple[Plan, tuple[AggregateCall, ...]]]) -> Plan:
    """The sides joined on the keys, NULL matching NULL, and the columns in the order of the grouping."""
    width = len(plan.keys)
    joined, _ = sides[0]
    places = {call: width + i for i, call in enumerate(sides[0][1])}
    for side, calls in sides[1:]:
        offset = len(joined.schema)
        pairs = tuple(_same(joined.column(i), side.column(i), offset + i) for i in range(width))
        joined = Join(joined, side, conjunction(pairs))
        places |= {call: offset + width + i for i, call in enumerate(calls)}
    wanted = (*range(width), *(places[call] for call in plan.aggregates))
    return Project(joined, plan.names, tuple(joined.column(place) for place in wanted))


def _same(left: Column, right: Column, position: int) -> Expression:
    moved = replace(right, index=position)
    nullable = left.nullable or right.nullable
    return Call("is_not_distinct" if nullable else "eq", (left, moved), BOOLEAN, nullable=False)
