"""Conditions that Arrow decides for whole columns, where it means the same as every engine.

These are comparisons between a column and a literal, or another column, of the same type, whether a column is NULL, and
AND and OR of such. Floating point, with its NaN, is left out, and so are types that Arrow does not compare.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.expressions import Call, Column, Expression, Literal
from tidemark.algebra.types import BOOLEAN, Kind

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
    if not _is_plain(condition):
        return None
    if isinstance(condition, Literal):
        return rows if condition.value is True else rows.slice(0, 0)
    return rows.filter(_truth(condition, rows))


def _is_plain(condition: Expression) -> bool:
    match condition:
        case Literal(type=type):
            return type == BOOLEAN
        case Call(function="and" | "or", arguments=arguments):
            return all(_is_plain(argument) and not isinstance(argument, Literal) for argument in arguments)
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
