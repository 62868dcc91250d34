"""A condition that Arrow decides lets the same rows pass as the interpreter, which every engine is tested against."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidemark.algebra.expressions import Call, Column, Expression, Literal
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import BOOLEAN, DATE, DOUBLE, INT, VARCHAR, decimal
from tidemark.engines.local.arrow import passing

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


@given(ROWS, CONDITIONS)
def test_arrow_lets_the_same_rows_pass_as_the_interpreter(
    rows: list[tuple[object, ...]], condition: Expression
) -> None:
    arrays = [pa.array([row[place] for row in rows], type_.arrow) for place, type_ in enumerate(TYPES)]
    table = pa.table(arrays, names=[f"c{place}" for place in range(len(TYPES))])
    found = passing(table, condition)
    assert found is not None
    wanted = [row for row in rows if value_of(condition, row) is True]  # type: ignore[arg-type]
    assert [tuple(row.values()) for row in found.to_pylist()] == wanted


def test_constants_let_all_rows_pass_or_none() -> None:
    table = pa.table({"a": pa.array([1, None], pa.int32())})
    passed = [passing(table, Literal(value, BOOLEAN)) for value in (True, False, None)]
    assert [part.num_rows if part is not None else None for part in passed] == [2, 0, 0]


def test_what_arrow_may_see_in_another_way_is_left_to_engines() -> None:
    x, table = Column(0, "x", DOUBLE), pa.table({"x": pa.array([1.0, float("nan")])})
    assert passing(table, Call("gt", (x, Literal(0.5, DOUBLE)), BOOLEAN)) is None
    assert passing(table, Call("not", (Call("is_null", (x,), BOOLEAN),), BOOLEAN)) is None
    either = Call("or", (Call("is_null", (x,), BOOLEAN), Call("eq", (x, x), BOOLEAN)), BOOLEAN)
    assert passing(table, either) is None
