"""Evaluate a plan on bags, operator by operator, as the definitions say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidemark.algebra.expressions import Value
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Filter,
    Given,
    Intersection,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Sort,
    Stored,
    Touched,
    Union,
    Unnest,
    Values,
    Window,
)
from tidemark.algebra.scalar import Row, value_of
from tidemark.engines.reference.grouping import Bag as Bag
from tidemark.engines.reference.grouping import aggregated, first_rows, repeated, windowed

Relations = Mapping[str, Mapping[Row, int]]


def evaluate(plan: Plan, stored: Relations, given: Relations) -> Bag:
    """The net weighted rows of the plan. A part that stands in several places is evaluated once."""
    known: dict[int, Bag] = {}

    def of(part: Plan) -> Bag:
        if id(part) not in known:
            known[id(part)] = _evaluated(part, stored, given, of)
        return known[id(part)]

    return of(plan)


def _evaluated(plan: Plan, stored: Relations, given: Relations, of: Callable[[Plan], Bag]) -> Bag:
    match plan:
        case Stored(relation=relation):
            return dict(stored[relation])
        case Given(name=name):
            return dict(given[name])
        case Values(rows=rows):
            return _sum((row, 1) for row in rows)
        case Filter(input=source, predicate=predicate):
            return {row: weight for row, weight in of(source).items() if value_of(predicate, row) is True}
        case Project(input=source, expressions=expressions):
            return _sum((tuple(value_of(e, row) for e in expressions), w) for row, w in of(source).items())
        case Join(left=left, right=right, predicate=predicate):
            others = of(right)
            pairs = ((a + b, v * w) for a, v in of(left).items() for b, w in others.items())
            return _sum((row, weight) for row, weight in pairs if value_of(predicate, row) is True)
        case Union(parts=parts):
            return _sum(entry for part in parts for entry in of(part).items())
        case Net(input=source):
            return of(source)
        case Negate(input=source):
            return {row: -weight for row, weight in of(source).items()}
        case Distinct(input=source):
            return {row: 1 for row, weight in of(source).items() if weight > 0}
        case Difference(left=left, right=right):
            mine, others = _present(of(left)), _present(of(right))
            return {row: w - others.get(row, 0) for row, w in mine.items() if w > others.get(row, 0)}
        case Intersection(left=left, right=right):
            mine, others = _present(of(left)), _present(of(right))
            return {row: min(w, others[row]) for row, w in mine.items() if row in others}
        case Repeat(input=source, times=times):
            return _sum((row, w * _number(value_of(times, row))) for row, w in of(source).items())
        case Unnest(input=source):
            return _sum((row + added, w) for row, w in of(source).items() for added in _elements(plan, row))
        case Touched(input=source, touched=touched, keys=keys):
            wanted = {row[: len(keys)] for row in of(touched)}
            return {row: w for row, w in of(source).items() if tuple(row[key] for key in keys) in wanted}
        case Aggregate(input=source):
            return aggregated(plan, of(source))
        case Window(input=source):
            return _sum((row, 1) for row in windowed(plan, repeated(of(source))))
        case Sort(input=source):
            return _sum((row[: plan.visible], 1) for row in first_rows(plan, repeated(of(source))))
    raise TypeError(f"no meaning for {type(plan).__name__}")


def _elements(plan: Unnest, row: Row) -> list[Row]:
    array = value_of(plan.array, row)
    assert array is None or isinstance(array, tuple), "an array is a tuple of its elements"
    return [(element, place)[: 1 + plan.places] for place, element in enumerate(array or (), 1)]


def _present(bag: Bag) -> Bag:
    return {row: weight for row, weight in bag.items() if weight > 0}


def _number(value: Value) -> int:
    assert isinstance(value, int), "rows are repeated a whole number of times"
    return value


def ordered(plan: Plan, stored: Relations, given: Relations) -> list[Row]:
    """The rows of a query as a person reads them."""
    if not isinstance(plan, Sort):
        return repeated(evaluate(plan, stored, given))
    return [row[: plan.visible] for row in first_rows(plan, repeated(evaluate(plan.input, stored, given)))]


def _sum(entries: Iterable[tuple[Row, int]]) -> Bag:
    result: Bag = {}
    for row, weight in entries:
        result[row] = result.get(row, 0) + weight
    return {row: weight for row, weight in result.items() if weight}
