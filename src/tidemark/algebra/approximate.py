"""Which columns of a plan are approximate: sums of DOUBLE and what is computed from them.

Engines add floats in no fixed order, so such a value may differ in its last digits from one evaluation to the next.
It is kept as it was computed; an audit compares it within a tolerance; and it cannot be a key, because equal values
need not come out equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set

from tidemark.algebra.cache import Once
from tidemark.algebra.expressions import Call, Expression, columns_in, columns_of, walk
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Filter,
    Fixpoint,
    Intersection,
    Join,
    Plan,
    Project,
    Scan,
    Sort,
    Touched,
    Union,
    Unnest,
    Values,
    Window,
)
from tidemark.algebra.plans import walk as walk_plan
from tidemark.algebra.types import Type

RELATIVE, ABSOLUTE = 1e-9, 1e-9
"""Two approximate values that differ by no more than this, relatively or absolutely, count as the same."""
RELATIVE_OF_REAL = 2.0**-22
"""The same of REALs, of which two beside each other differ by more."""

ApproximateColumns = Mapping[str, Set[int]]
_EQUALITIES = ("eq", "is_not_distinct")


def approximate_columns(plan: Plan, known: ApproximateColumns) -> frozenset[int]:
    """The positions of the plan's approximate columns; ``known`` says which columns of relations are."""
    return _approximate(known)(plan)


def _approximate(known: ApproximateColumns) -> Once[frozenset[int]]:
    return Once(lambda plan, of: _columns_among(plan, known, of))


def _columns_among(plan: Plan, known: ApproximateColumns, of: Callable[[Plan], frozenset[int]]) -> frozenset[int]:
    match plan:
        case Scan(relation=relation):
            return frozenset(known.get(relation, ()))
        case Values():
            return frozenset()
        case Project(input=source, expressions=expressions):
            below = of(source)
            return frozenset(i for i, e in enumerate(expressions) if _is_double(e.type) and _reads(e, below))
        case Join(left=left, right=right):
            width = len(left.schema)
            return of(left) | {i + width for i in of(right)}
        case Union(parts=parts):
            return frozenset(i for part in parts for i in of(part))
        case Aggregate(input=source, keys=keys, aggregates=calls):
            below = of(source)
            own = {len(keys) + i for i, call in enumerate(calls) if call.is_approximate}
            passed = {
                len(keys) + i
                for i, call in enumerate(calls)
                if _is_double(call.type) and any(_reads(e, below) for e in call.expressions())
            }
            return frozenset(own | passed)
        case Window(input=source, calls=window_calls):
            below, width = of(source), len(source.schema)
            own = {width + i for i, call in enumerate(window_calls) if call.is_approximate}
            passed = {
                width + i
                for i, call in enumerate(window_calls)
                if _is_double(call.type) and any(_reads(e, below) for e in call.arguments)
            }
            return below | own | passed
        case Unnest(input=source, array=array):
            below = of(source)
            return below | ({len(source.schema)} if _is_double(array.type) and _reads(array, below) else set())
        case Sort(input=source):
            return frozenset(i for i in of(source) if i < len(plan.schema))
        case Touched(input=source):
            return of(source)
        case Fixpoint():
            return frozenset()
    inputs = plan.inputs()
    return of(inputs[0]) if inputs else frozenset()


def approximate_key(plan: Plan, known: ApproximateColumns) -> tuple[str, str] | None:
    """Where an approximate column serves as a key, and its name; None if none does."""
    approximate = _approximate(known)
    for part in walk_plan(plan):
        for what, source, positions in _keys(part):
            found = sorted(positions & approximate(source))
            if found:
                return what, source.schema[found[0]].name
    return None


def _keys(plan: Plan) -> list[tuple[str, Plan, frozenset[int]]]:
    match plan:
        case Distinct(input=source):
            return [("DISTINCT", source, frozenset(range(len(source.schema))))]
        case Aggregate(input=source, keys=keys, aggregates=calls):
            distinct = [call.argument for call in calls if call.distinct and call.argument is not None]
            modes = [call.argument for call in calls if call.row.compares and call.argument]
            return [
                ("GROUP BY", source, columns_in(keys)),
                ("DISTINCT", source, columns_in(tuple(distinct))),
                ("MODE", source, columns_in(tuple(modes))),
            ]
        case Window(input=source, partition=partition):
            return [("PARTITION BY", source, columns_in(partition))]
        case Difference(left=left, right=right) | Intersection(left=left, right=right):
            return [("a set operation", side, frozenset(range(len(side.schema)))) for side in (left, right)]
        case Fixpoint(parts=parts):
            return [("a recursion", part, frozenset(range(len(part.schema)))) for part in parts]
        case Join(predicate=predicate):
            return [("a join", plan, columns_in(_equalities(predicate)))]
        case Filter(input=source, predicate=predicate):
            joining = tuple(e for e in _equalities(predicate) if len(_leaves(source, columns_of(e))) > 1)
            return [("a join", source, columns_in(joining))]
    return []


def _equalities(predicate: Expression) -> tuple[Expression, ...]:
    return tuple(e for e in walk(predicate) if isinstance(e, Call) and e.function in _EQUALITIES)


def _leaves(plan: Plan, columns: Set[int]) -> frozenset[tuple[int, ...]]:
    """Which of the relations that are joined in the plan give the columns, each by the way down to it."""
    match plan:
        case Filter(input=source):
            return _leaves(source, columns)
        case Project(input=source, expressions=expressions):
            return _leaves(source, columns_in(tuple(expressions[i] for i in columns)))
        case Join(left=left, right=right):
            width = len(left.schema)
            sides = (left, {i for i in columns if i < width}), (right, {i - width for i in columns if i >= width})
            return frozenset((n, *leaf) for n, (side, read) in enumerate(sides) for leaf in _leaves(side, read))
    return frozenset({()}) if columns else frozenset()


def _is_double(type: Type) -> bool:
    """Whether values of the type are made of floats; an array or a struct is as approximate as its parts."""
    return type.is_float or any(part.is_float for part in type.parts)


def _reads(expression: Expression, columns: Set[int]) -> bool:
    return bool(columns_of(expression) & columns)


def are_close(left: object, right: object, relative: float = RELATIVE) -> bool:
    """Whether two approximate values count as the same."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(are_close(value, right[name]) for name, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(are_close, left, right))
    if not isinstance(left, float) or not isinstance(right, float):
        return left == right
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return math.isclose(left, right, rel_tol=relative, abs_tol=ABSOLUTE)
