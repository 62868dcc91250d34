"""Restriction to touched keys, as close to the stored relations as it goes.

    (σ R) ⋉ K = σ(R ⋉ K),   (π R) ⋉ K = π(R ⋉ K),   (R ⊎ S) ⋉ K = (R ⋉ K) ⊎ (S ⋉ K),   (−R) ⋉ K = −(R ⋉ K)
    (R ⋈ S) ⋉ K = (R ⋉ K) ⋈ S                             if K's columns are columns of R
    (R ⋈ S) ⋉ K = ((R ⋉ π[r] K) ⋈ (S ⋉ π[s] K)) ⋉ K       if some are of R and some of S

A key that is computed above a stored relation cannot go below that step. K has only positive weights, so that no
part of it cancels in a projection. Rows that were not touched are not read, so an expression that fails on them does
not fail here; but they are as they were when the last transaction was accepted.
"""

from __future__ import annotations

from tidemark.algebra.expressions import Column
from tidemark.algebra.plans import Filter, Join, Negate, Net, Plan, Project, Repeat, Touched, Union


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
