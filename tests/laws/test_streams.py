"""Many small Arrow streams read as one hold what they hold one by one; what JSON holds of a few rows are these rows."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidemark as tm
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    TIMESTAMP,
    VARCHAR,
    Field,
    Schema,
    array_of,
    decimal,
)
from tidemark.storage.delta import Rows, from_bag
from tidemark.storage.streams import from_bytes, listed, read_many, rows_listed, runs_of_rows, to_bytes

SCHEMAS = (
    pa.schema([("a", pa.int32()), ("b", pa.string())]),
    pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.list_(pa.float64()))]),
    pa.schema([("a", pa.int64()), ("b", pa.string())]),
)
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "a": st.none() | st.integers(-5, 5),
    "b": st.none() | st.text(max_size=3),
    "c": st.none() | st.lists(st.floats(allow_nan=False), max_size=2),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    schema = draw(st.sampled_from(SCHEMAS))
    row = st.fixed_dictionaries({name: CELLS[name] for name in schema.names})
    rows = draw(st.lists(row, max_size=4))
    if draw(st.booleans()):
        return pa.Table.from_pylist(rows * 500, schema=schema)  # worth compressing
    pieces = [pa.Table.from_pylist(part, schema=schema) for part in (rows[:2], rows[2:])]
    return pa.concat_tables(pieces)


def in_pieces(table: pa.Table) -> bytes:
    """A stream of as many batches as the table has pieces, none if it is empty."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@given(st.lists(tables(), max_size=8), st.booleans())
def test_streams_are_read_together_as_they_are_read_alone(written: list[pa.Table], as_one_batch: bool) -> None:
    streams = [to_bytes(table) if as_one_batch else in_pieces(table) for table in written]
    parts = []
    for counts, table in read_many(streams):
        assert sum(counts) == table.num_rows
        for count in counts:
            parts.append(table.slice(0, count))
            table = table.slice(count)
    assert [part.schema for part in parts] == [table.schema for table in written]
    assert [part.to_pylist() for part in parts] == [table.to_pylist() for table in written]
    assert [from_bytes(stream).to_pylist() for stream in streams] == [table.to_pylist() for table in written]


VALUES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "a": (BOOLEAN, st.booleans()),
    "b": (BIGINT, st.integers(-(2**63), 2**63 - 1)),
    "c": (VARCHAR, st.text(max_size=3)),
    "d": (DATE, st.dates()),
    "e": (TIMESTAMP, st.datetimes()),
    "f": (decimal(38, 3), st.decimals(-(10**35) + 1, 10**35 - 1, places=3)),
    "g": (decimal(5, 2), st.sampled_from((Decimal("0.00"), Decimal("-1.50"), Decimal("7"), None))),
}
WIDE = Schema(tuple(Field(name, type_) for name, (type_, _) in VALUES.items()))
bags = st.dictionaries(
    st.tuples(*(st.none() | values for _, values in VALUES.values())), st.sampled_from((-2, -1, 1, 3)), max_size=4
)


@given(bags)
def test_rows_that_json_holds_are_the_rows_that_arrow_holds(bag: dict[Any, int]) -> None:
    found = listed(Rows(WIDE, bag=bag), WIDE) if bag else None
    if found is None:
        assert not bag
        return
    back = rows_listed(json.loads(json.dumps(found)), WIDE)
    assert back.bag == bag
    assert back.table.equals(from_bag(bag, WIDE))


def test_what_json_may_not_give_back_as_it_was_is_not_listed() -> None:
    for type_, value in ((DOUBLE, 1.5), (array_of(INT), (1, None))):
        schema = Schema((Field("a", INT), Field("b", type_)))
        assert listed(Rows(schema, bag={(1, value): 1}), schema) is None
    many = Schema((Field("a", INT),))
    assert listed(Rows(many, bag={(number,): 1 for number in range(65)}), many) is None


def test_rows_of_other_types_than_the_relation_has_are_damage() -> None:
    one, other = (Schema((Field("a", type_),)) for type_ in (INT, VARCHAR))
    found = listed(Rows(one, bag={(1,): 1}), one)
    assert found is not None
    with pytest.raises(tm.TidemarkError) as refused:
        rows_listed(found, other)
    assert refused.value.code == "damaged"


@given(st.lists(st.tuples(bags, st.booleans()), max_size=5))
def test_rows_are_made_tables_together_as_they_are_alone(changes: list[tuple[dict[Any, int], bool]]) -> None:
    alone = [from_bag(bag, WIDE) for bag, _ in changes]
    rows = [
        Rows(WIDE, bag=bag) if is_bag else Rows.of(table) for (bag, is_bag), table in zip(changes, alone, strict=True)
    ]
    found: list[Any] = []
    for counts, together in runs_of_rows(rows, WIDE):
        for count in counts:
            found.append(together.slice(0, count).to_pylist())
            together = together.slice(count)
        assert not together.num_rows
    assert found == [table.to_pylist() for table in alone]
