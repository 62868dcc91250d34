"""Joins of what is given, done by Arrow.

What is near a delta is some thousands of rows at most. Arrow joins those in less time than a database takes to plan the
statement. Only what means the same everywhere is done here: choosing columns and rows, joins on equal columns,
restrictions to touched keys, signs, unions, and each row once. A comparison is one between a column and a literal of
its own type; floating point, with its NaN, is left out, and so are arrays.

Conditions that Arrow decides for whole columns, where it means the same as every engine.

These are comparisons between a column and a literal, or another column, of the same type, whether a column is NULL, and
AND and OR of such. Floating point, with its NaN, is left out, and so are types that Arrow does not compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.cache import PerPlan
from tidemark.algebra.expressions import Call, Column, Expression, Literal, columns_of, conjuncts
from tidemark.algebra.plans import Distinct, Filter, Given, Join, Negate, Net, Plan, Project, Touched, Union, walk
from tidemark.algebra.types import BOOLEAN, WEIGHT, Kind
from tidemark.storage import delta as delta_tables

_COMPARISONS: Final = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}

_OTHER: Final = "_other"
"""The weight of the right side of a join."""


def joined(plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table | None:
    """The plan's net rows, or None if it is not a matter of such joins."""
    if not _is_plain(plan):
        return None
    rows = _rows(plan, given, frozenset(range(len(plan.schema))))
    ordered = rows.select([*(str(i) for i in range(len(plan.schema))), WEIGHT])
    return delta_tables.net(ordered.rename_columns(plan.schema.weighted.names).cast(plan.schema.weighted))


def _rows(plan: Plan, given: Mapping[str, pa.Table], wanted: frozenset[int]) -> pa.Table:
    """The wanted columns of a plan's rows, under their positions as names; perhaps several entries for one row."""
    match plan:
        case Given(name=name):
            positions = sorted(wanted)
            chosen = given[name].select([*positions, given[name].num_columns - 1])
            return chosen.rename_columns([*map(str, positions), WEIGHT])
        case Filter(input=source, predicate=predicate):
            rows = _rows(source, given, wanted | columns_of(predicate))
            for condition in conjuncts(predicate):
                rows = rows.filter(_holds(condition, rows))
            return rows.select([*map(str, sorted(wanted)), WEIGHT])
        case Project(input=source, expressions=expressions):
            origins = {i: e.index for i, e in enumerate(expressions) if isinstance(e, Column) and i in wanted}
            rows = _rows(source, given, frozenset(origins.values()))
            columns = [*(rows.column(str(origin)) for origin in origins.values()), rows.column(WEIGHT)]
            return pa.Table.from_arrays(columns, names=[*map(str, origins), WEIGHT])
        case Negate(input=source):
            return delta_tables.negated(_rows(source, given, wanted))
        case Union(parts=parts):
            found = [_rows(part, given, wanted) for part in parts]
            return pa.concat_tables([part.select(found[0].column_names) for part in found])
        case Net(input=source):
            rows = _rows(source, given, wanted).select([*map(str, sorted(wanted)), WEIGHT])
            return delta_tables.net(rows) if wanted else rows
        case Join():
            return _join(plan, given, wanted)
        case Touched():
            return _touched(plan, given, wanted)
        case Distinct(input=source):
            rows = delta_tables.net(_rows(source, given, frozenset(range(len(source.schema)))))
            there = rows.filter(pc.greater(rows.column(WEIGHT), 0)).select([*map(str, sorted(wanted))])
            return there.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), there.num_rows))
    raise TypeError(f"Arrow does not evaluate {type(plan).__name__} here")


def _join(plan: Join, given: Mapping[str, pa.Table], wanted: frozenset[int]) -> pa.Table:
    width, pairs = len(plan.left.schema), _equal_columns(plan)
    assert pairs is not None
    needed = wanted | columns_of(plan.predicate)
    left = _rows(plan.left, given, frozenset(i for i in needed if i < width))
    right = _rows(plan.right, given, frozenset(i - width for i in needed if i >= width))
    moved = [str(int(name) + width) if name != WEIGHT else _OTHER for name in right.column_names]
    found = left.join(
        right.rename_columns(moved),
        keys=[str(a) for a, _ in pairs],
        right_keys=[str(b + width) for _, b in pairs],
        join_type="inner",
        coalesce_keys=False,
        use_threads=False,
    )
    weight = pc.multiply_checked(found.column(WEIGHT), found.column(_OTHER))
    return found.select(list(map(str, sorted(wanted)))).append_column(WEIGHT, weight)


def _touched(plan: Touched, given: Mapping[str, pa.Table], wanted: frozenset[int]) -> pa.Table:
    rows = _rows(plan.input, given, wanted | frozenset(plan.keys))
    touched = _rows(plan.touched, given, frozenset(range(len(plan.keys))))
    found = rows.join(
        touched,
        keys=[str(key) for key in plan.keys],
        right_keys=[str(position) for position in range(len(plan.keys))],
        join_type="left semi",
        use_threads=False,
    )
    return found.select([*map(str, sorted(wanted)), WEIGHT])


def _holds(condition: Expression, rows: pa.Table) -> pa.ChunkedArray:
    assert isinstance(condition, Call)
    left, right = (
        rows.column(str(side.index)) if isinstance(side, Column) else pa.scalar(side.value, side.type.arrow)  # type: ignore[attr-defined]
        for side in condition.arguments
    )
    return _COMPARISONS[condition.function](left, right)


def _is_plain_plan(plan: Plan) -> bool:
    return any(isinstance(part, Join | Touched) for part in walk(plan)) and all(map(_is_plain_part, walk(plan)))


_is_plain = PerPlan(_is_plain_plan)


def _is_plain_part(plan: Plan) -> bool:
    match plan:
        case Given(schema=schema):
            return not any(type_.is_nested for type_ in schema.types)  # Arrow does not join lists
        case Negate() | Union() | Net():
            return True
        case Distinct(schema=schema):
            return bool(schema.types) and not any(type_.kind is Kind.DOUBLE for type_ in schema.types)
        case Touched(input=source, touched=touched, keys=keys):
            # Arrow joins no NULL, which here matches NULL.
            cells = (*(source.schema[key] for key in keys), *touched.schema.fields[: len(keys)])
            return bool(keys) and not any(cell.nullable or cell.type.kind is Kind.DOUBLE for cell in cells)
        case Filter(predicate=predicate):
            return all(map(_is_comparison, conjuncts(predicate)))
        case Project(expressions=expressions):
            return bool(expressions) and all(isinstance(expression, Column) for expression in expressions)
        case Join():
            return _equal_columns(plan) is not None
    return False


def _is_comparison(condition: Expression) -> bool:
    match condition:
        case (
            Call(function=function, arguments=(Column(type=one), Literal(type=other)))
            | Call(function=function, arguments=(Literal(type=one), Column(type=other)))
        ):
            return function in _COMPARISONS and one == other and one.kind is not Kind.DOUBLE
    return False


def _equal_columns(plan: Join) -> tuple[tuple[int, int], ...] | None:
    """The pairs of columns that a join wants to be equal; None if it wants anything else, or nothing."""
    width, pairs = len(plan.left.schema), list[tuple[int, int]]()
    for condition in conjuncts(plan.predicate):
        match condition:
            case Call(function="eq", arguments=(Column(index=a, type=one), Column(index=b, type=other))) if (
                one == other and one.kind is not Kind.DOUBLE and min(a, b) < width <= max(a, b)
            ):
                pairs.append((min(a, b), max(a, b) - width))
            case _:
                return None
    return tuple(pairs) or None


COMPARISONS: Final = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
_COMPARED: Final = (Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.VARCHAR, Kind.DATE, Kind.TIMESTAMP)


def passing(rows: pa.Table, condition: Expression) -> pa.Table | None:
    """The rows for which a condition on their first columns is true; None if it is not such a condition.

    >>> from tidemark.algebra.types import INT
    >>> above = Call("gt", (Column(0, "a", INT), Literal(1, INT)), BOOLEAN)
    >>> passing(pa.table({"a": pa.array([1, 2, None], pa.int32())}), above).to_pylist()
    [{'a': 2}]
    """
    if not _is_plain_filter(condition):
        return None
    if isinstance(condition, Literal):
        return rows if condition.value is True else rows.slice(0, 0)
    return rows.filter(_truth(condition, rows))


def _is_plain_filter(condition: Expression) -> bool:
    match condition:
        case Literal(type=type):
            return type == BOOLEAN
        case Call(function="and" | "or", arguments=arguments):
            return all(_is_plain_filter(argument) and not isinstance(argument, Literal) for argument in arguments)
        case Call(function="is_null" | "is_not_null", arguments=(Column(),)):
            return True
        case Call(function=function, arguments=(Column() | Literal() as one, Column() | Literal() as other)):
            are_both_literals = isinstance(one, Literal) and isinstance(other, Literal)
            is_comparable = one.type == other.type and one.type.kind in _COMPARED
            return function in COMPARISONS and is_comparable and not are_both_literals
    return False


def _truth(condition: Expression, rows: pa.Table) -> pa.ChunkedArray:
    assert isinstance(condition, Call)
    match condition.function:
        case "and" | "or":
            connect = pc.and_kleene if condition.function == "and" else pc.or_kleene
            first, *others = (_truth(argument, rows) for argument in condition.arguments)
            for other in others:
                first = connect(first, other)
            return first
        case "is_null" | "is_not_null":
            [column] = condition.arguments
            assert isinstance(column, Column)
            test = pc.is_null if condition.function == "is_null" else pc.is_valid
            return test(rows.column(column.index))
    one, other = (_operand(argument, rows) for argument in condition.arguments)
    return COMPARISONS[condition.function](one, other)


def _operand(operand: Expression, rows: pa.Table) -> pa.ChunkedArray | pa.Scalar:
    if isinstance(operand, Column):
        return rows.column(operand.index)
    assert isinstance(operand, Literal)
    return pa.scalar(operand.value, operand.type.arrow)
