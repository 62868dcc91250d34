"""Evaluate a plan on bags, operator by operator, as the definitions say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, localcontext
from functools import cmp_to_key

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import rank
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
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
    SortKey,
    Stored,
    Touched,
    Union,
    Unnest,
    Values,
)
from tidemark.algebra.scalar import Row, value_of
from tidemark.algebra.types import Kind, Type
from tidemark.errors import TidemarkError

Bag = dict[Row, int]
Relations = Mapping[str, Mapping[Row, int]]


def evaluate(plan: Plan, stored: Relations, given: Relations) -> Bag:
    """The net weighted rows of the plan."""

    def of(part: Plan) -> Bag:
        return evaluate(part, stored, given)

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
            return _aggregate(plan, of(source))
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
        return _repeat(evaluate(plan, stored, given))
    rows = _repeat(evaluate(plan.input, stored, given))
    keys = plan.keys

    def compare(left: Row, right: Row) -> int:
        return _compare(left, right, keys)

    rows.sort(key=cmp_to_key(compare))
    end = None if plan.limit is None else plan.offset + plan.limit
    return [row[: plan.visible] for row in rows[plan.offset : end]]


def _repeat(bag: Bag) -> list[Row]:
    return [row for row, weight in bag.items() for _ in range(weight)]


def _compare(left: Row, right: Row, keys: tuple[SortKey, ...]) -> int:
    for key in keys:
        a, b = value_of(key.expression, left), value_of(key.expression, right)
        if a == b:
            continue
        if a is None or b is None:
            return -1 if (a is None) == key.nulls_first else 1
        smaller = rank(a) < rank(b)
        return -1 if smaller != key.descending else 1
    return 0


def _sum(entries: Iterable[tuple[Row, int]]) -> Bag:
    result: Bag = {}
    for row, weight in entries:
        result[row] = result.get(row, 0) + weight
    return {row: weight for row, weight in result.items() if weight}


def _aggregate(plan: Aggregate, source: Bag) -> Bag:
    groups: dict[Row, Bag] = {} if plan.keys else {(): {}}
    for row, weight in source.items():
        groups.setdefault(tuple(value_of(key, row) for key in plan.keys), {})[row] = weight
    result: Bag = {}
    for key, group in groups.items():
        if plan.keys and not plan.signed and sum(group.values()) <= 0:
            continue
        result[key + tuple(_aggregate_value(call, group) for call in plan.aggregates)] = 1
    return result


def _aggregate_value(call: AggregateCall, group: Bag) -> Value:
    if call.argument is None:
        return sum(group.values())
    values = [(value_of(call.argument, row), weight) for row, weight in group.items()]
    present = [(value, weight) for value, weight in values if value is not None]
    if call.function is AggregateFunction.COUNT:
        return sum(weight for _, weight in present)
    if not present:
        return None
    return exact_sum(present, call.type)


def exact_sum(values: Iterable[tuple[Value, int]], type: Type) -> Value:
    """The weighted sum, exact, refused when it does not fit its type."""
    with localcontext() as context:
        context.prec = 120
        total = sum((Decimal(value) * weight for value, weight in values), Decimal(0))  # type: ignore[arg-type]
        if type.kind is Kind.BIGINT:
            if not -(2**63) <= total < 2**63:
                raise TidemarkError("overflow", "SUM is out of range for BIGINT")
            return int(total)
        if abs(total) >= Decimal(10) ** (type.precision - type.scale):
            raise TidemarkError("overflow", f"SUM is out of range for {type}")
        return total.quantize(Decimal(1).scaleb(-type.scale))
