"""Restriction to touched keys, as close to the stored relations as it goes.

    (σ R) ⋉ K = σ(R ⋉ K),   (π R) ⋉ K = π(R ⋉ K),   (R ⊎ S) ⋉ K = (R ⋉ K) ⊎ (S ⋉ K),   (−R) ⋉ K = −(R ⋉ K)
    (R ⋈ S) ⋉ K = (R ⋉ K) ⋈ S                             if K's columns are columns of R
    (R ⋈ S) ⋉ K = ((R ⋉ π[r] K) ⋈ (S ⋉ π[s] K)) ⋉ K       if some are of R and some of S

A key that is computed above a stored relation cannot go below that step. K has only positive weights, so that no
part of it cancels in a projection. Rows that were not touched are not read, so an expression that fails on them does
not fail here; but they are as they were when the last transaction was accepted.

Evaluating again what was touched, for operators that cannot be merged from a change.

    Δ op(E) = op(E_new ⋉ K) − S_old ⋉ K,    K = the keys in ΔE,    S = what is stored of op(E)

``op`` is a grouping, whose keys are those of its groups, or a window, whose keys are those of its partitions. Without
keys everything is one group. The old rows are those that are stored, and not what evaluating the old state would give
now: approximate sums need not come out the same twice.

IncrWindow: partitions that were touched, old against new.

    Δ ω(E) = ω(E_new ⋉ K) − ω(E_old ⋉ K),   K = the partitions that occur in ΔE

Where the network keeps the window's rows, those stand for the old ones.
"""

from __future__ import annotations

from tidemark.algebra.expressions import Column
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Filter,
    Given,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Touched,
    Union,
    Window,
    union,
)
from tidemark.calculus.as_of import new, old
from tidemark.calculus.group import with_column_keys


def restrict(plan: Plan, touched: Plan, keys: tuple[int, ...]) -> Plan:
    """The rows of ``plan`` whose ``keys`` columns occur in the first columns of ``touched``."""
    if not keys:
        return plan
    match plan:
        case Filter(input=source) | Negate(input=source) | Net(input=source) | Repeat(input=source):
            return plan.with_inputs((restrict(source, touched, keys),))
        case Union(parts=parts):
            return plan.with_inputs(tuple(restrict(part, touched, keys) for part in parts))
        case Project(input=source, expressions=expressions):
            origins = {i: expressions[key] for i, key in enumerate(keys)}
            passed = {i: origin.index for i, origin in origins.items() if isinstance(origin, Column)}
            inner = plan.with_inputs((_restrict_by(source, touched, passed),))
            return inner if len(passed) == len(keys) else Touched(inner, touched, keys)
        case Join(left=left, right=right):
            width = len(left.schema)
            on_left = {i: key for i, key in enumerate(keys) if key < width}
            on_right = {i: key - width for i, key in enumerate(keys) if key >= width}
            inner = plan.with_inputs((_restrict_by(left, touched, on_left), _restrict_by(right, touched, on_right)))
            return Touched(inner, touched, keys) if on_left and on_right else inner
    return Touched(plan, touched, keys)


def _restrict_by(plan: Plan, touched: Plan, keys: dict[int, int]) -> Plan:
    """The restriction by some columns of ``touched``, each to a column of the plan."""
    if not keys:
        return plan
    positions = tuple(keys)
    if positions != tuple(range(len(positions))):
        columns = tuple(touched.column(position) for position in positions)
        touched = Project(touched, tuple(column.name for column in columns), columns)
    return restrict(plan, touched, tuple(keys.values()))


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


def incremental_window(plan: Window, delta: Plan) -> Plan:
    keys = tuple(part.index for part in plan.partition)
    touched = touched_keys(delta, keys)
    after = plan.with_inputs((restrict(new(plan.input), touched, keys),))
    before = plan.with_inputs((restrict(old(plan.input), touched, keys),))
    return union((after, Negate(before)), plan.schema)
