"""A condition over columns lets the same rows pass as the interpreter, which every engine is tested against."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidemark.algebra.expressions import Call, Column, Expression, Literal
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import BOOLEAN, DATE, DOUBLE, INT, VARCHAR, decimal
from tidemark.engines.local.vectors import passing
from tidemark.storage.batches import Batch

TYPES = (INT, INT, VARCHAR, DATE, decimal(9, 2))
VALUES = (
    st.integers(-3, 3),
    st.integers(-3, 3),
    st.sampled_from(["", "a", "B", "ä", "a "]),
    st.dates(dt.date(1999, 12, 30), dt.date(2000, 1, 2)),
    st.sampled_from([Decimal("-1.50"), Decimal("0.00"), Decimal("1.25")]),
)
COLUMNS = tuple(Column(place, f"c{place}", type_) for place, type_ in enumerate(TYPES))
ROWS = st.lists(st.tuples(*(st.none() | values for values in VALUES)), max_size=12)


@st.composite
def comparisons(draw: st.DrawFn) -> Expression:
    place = draw(st.integers(0, len(TYPES) - 1))
    name = draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "is_null", "is_not_null", "columns"]))
    if name.startswith("is_"):
        return Call(name, (COLUMNS[place],), BOOLEAN, nullable=False)
    if name == "columns":
        return Call("lt", (COLUMNS[0], COLUMNS[1]), BOOLEAN)
    literal = Literal(draw(st.none() | VALUES[place]), TYPES[place])
    sides = (COLUMNS[place], literal) if draw(st.booleans()) else (literal, COLUMNS[place])
    return Call(name, sides, BOOLEAN)


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: st.builds(
        lambda name, one, other: Call(name, (one, other), BOOLEAN), st.sampled_from(["and", "or"]), inner, inner
    ),
    max_leaves=5,
)


def passed(condition: Expression, *arrays: pa.Array) -> list[tuple[object, ...]]:
    names = [f"c{place}" for place in range(len(arrays))]
    table = pa.table([*arrays, pa.array([1] * len(arrays[0]), pa.int64())], names=[*names, "_weight"])
    found = passing(condition)(Batch.of(table))
    return list(zip(*(vector.array().to_pylist() for vector in found.vectors), strict=True))


@given(ROWS, CONDITIONS)
def test_columns_let_the_same_rows_pass_as_the_interpreter(
    rows: list[tuple[object, ...]], condition: Expression
) -> None:
    arrays = [pa.array([row[place] for row in rows], type_.arrow) for place, type_ in enumerate(TYPES)]
    wanted = [row for row in rows if value_of(condition, row) is True]  # type: ignore[arg-type]
    assert passed(condition, *arrays) == wanted


def test_constants_let_all_rows_pass_or_none() -> None:
    column = pa.array([1, None], pa.int32())
    assert [len(passed(Literal(value, BOOLEAN), column)) for value in (True, False, None)] == [2, 0, 0]


def test_not_a_number_is_the_greatest_number_and_equal_to_itself() -> None:
    x, column = Column(0, "x", DOUBLE), pa.array([1.0, float("nan"), None])
    assert len(passed(Call("gt", (x, Literal(0.5, DOUBLE)), BOOLEAN), column)) == 2
    assert len(passed(Call("not", (Call("is_null", (x,), BOOLEAN),), BOOLEAN), column)) == 2
    assert len(passed(Call("eq", (x, x), BOOLEAN), column)) == 2
