"""Evaluating again what was touched, for operators that cannot be merged from a change.

    Δ op(E) = op(E_new ⋉ K) − S_old ⋉ K,    K = the keys in ΔE,    S = what is stored of op(E)

``op`` is a grouping, whose keys are those of its groups, or a window, whose keys are those of its partitions. Without
keys everything is one group. The old rows are those that are stored, and not what evaluating the old state would give
now: approximate sums need not come out the same twice.
"""

from __future__ import annotations

from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Given,
    Negate,
    Plan,
    Window,
    union,
)
from tidemark.calculus.group import with_column_keys
from tidemark.calculus.restrict import restrict
from tidemark.calculus.states import new


def with_keys(plan: Plan) -> tuple[Plan, tuple[int, ...]]:
    """The operator over an input that has its keys as columns, and which columns those are."""
    match plan:
        case Aggregate():
            prepared = with_column_keys(plan)
            return prepared, tuple(range(len(prepared.keys)))
        case Window(partition=partition):
            return plan, tuple(part.index for part in partition)
    return plan, ()


def keys_of_output(plan: Plan) -> tuple[int, ...]:
    """Where the keys stand in what the operator gives."""
    return tuple(range(len(plan.keys))) if isinstance(plan, Aggregate) else with_keys(plan)[1]


def touched_keys(delta: Plan, keys: tuple[int, ...]) -> Plan:
    """K: each key that occurs in a change once, whatever the signs; the count of its entries stands behind."""
    columns = tuple(delta.column(key) for key in keys)
    names = (*(column.name for column in columns), "entries")
    return Aggregate(delta, names, columns, (AggregateCall(AggregateFunction.COUNT_ROWS),), signed=True)


def evaluated_again(plan: Plan, touched: Plan) -> Plan:
    """op(E_new ⋉ K)."""
    prepared, keys = with_keys(plan)
    source = prepared.inputs()[0]
    return prepared.with_inputs((restrict(new(source), touched, keys),))


def replaced(before: Given, after: Given) -> Plan:
    """The change from what is stored of the touched keys to what they are now."""
    return union((after, Negate(before)), after.schema)
