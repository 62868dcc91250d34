"""An arrangement finds, after any sequence of deltas, what a dictionary of the relation's rows by key finds.

For every kind of key, NULLs among them, by one key and by many, with runs that are merged all the time, and in a budget
of any size.
"""

from __future__ import annotations

import copy
import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tidemark.algebra.functions import canonical
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    Field,
    Schema,
    Type,
    array_of,
    decimal,
    struct_of,
)
from tidemark.storage import delta as deltas
from tidemark.storage.arrangements import Admission, Arrangement, Arrangements
from tidemark.storage.delta import Rows
from tidemark.storage.whole import Whole

Row = tuple[Any, ...]
Bag = Counter[Row]

VALUES: Mapping[Type, Sequence[Any]] = {
    SMALLINT: (0, -1, 32767, -32768),
    INT: (0, 1, 2, -(2**31), 2**31 - 1),
    BIGINT: (0, 7, -(2**63), 2**63 - 1, 2**31),
    BOOLEAN: (True, False),
    DATE: (dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)),
    TIMESTAMP: (dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
    VARCHAR: ("", "a", "b", "ß", "😀 long enough to be no short text"),
    decimal(6, 2): (Decimal("0.00"), Decimal("-9999.99"), Decimal("1.50")),
    decimal(18, 0): (Decimal(10**18 - 1), Decimal(1 - 10**18)),
    # The second has the low half of the first.
    decimal(38, 2): (
        Decimal("0.01"),
        Decimal(2**64 + 1).scaleb(-2),
        Decimal("-12.00"),
        Decimal("1" + "0" * 35 + ".00"),
    ),
    DOUBLE: (0.0, 1.5, canonical(float("nan")), float("-inf")),
    array_of(INT): ((), (1, None), (2,)),
    struct_of(("a", INT), ("b", VARCHAR)): ((1, None), (None, "x")),
}
KEYS = [type_ for type_ in VALUES if type_ != DOUBLE and not type_.is_nested]


def delta_of(bag: Mapping[Row, int], schema: Schema) -> pa.Table:
    return deltas.from_bag(bag, schema)


def plain(bag: Bag, schema: Schema, columns: Sequence[int]) -> pa.Table:
    table = deltas.from_rows(list(bag.elements()), schema)
    return table.select(list(columns))


def expected(content: Bag, columns: Sequence[int], keys: Sequence[Row], shown: frozenset[int]) -> dict[Row, Bag]:
    """The law, as a dictionary."""
    found: dict[Row, Bag] = {}
    for row, weight in content.items():
        key = tuple(row[column] for column in columns)
        if None not in key and key in keys:
            seen = tuple(value if i in shown else None for i, value in enumerate(row))
            found.setdefault(key, Counter())[seen] += weight
    return found


class World:
    """A relation with random rows, which changes."""

    def __init__(self, seed: int, schema: Schema) -> None:
        self.random, self.schema, self.content = random.Random(seed), schema, Bag()

    def value(self, type_: Type) -> Any:
        return None if self.random.random() < 0.15 else self.random.choice(VALUES[type_])

    def row(self) -> Row:
        return tuple(self.value(type_) for type_ in self.schema.types)

    def change(self, most: int) -> dict[Row, int]:
        """A net delta, after which the content is what it says."""
        before = self.content.copy()
        for _ in range(self.random.randint(0, most)):
            if self.content and self.random.random() < 0.45:
                row = self.random.choice(sorted(self.content, key=repr))
                self.content[row] -= 1
                self.content += Counter()
            else:
                self.content[self.row()] += self.random.choice((1, 1, 2))
        changed = {row: self.content[row] - before[row] for row in self.content.keys() | before.keys()}
        return {row: weight for row, weight in changed.items() if weight}

    def keys(self, columns: Sequence[int]) -> list[Row]:
        some = [tuple(row[column] for column in columns) for row in self.content]
        others = [tuple(self.value(self.schema.types[column]) for column in columns) for _ in range(3)]
        return sorted({*some, *others}, key=repr)


def check(arrangement: Arrangement | Whole, world: World, columns: tuple[int, ...]) -> None:
    keys = world.keys(columns)
    shown = frozenset(arrangement.carried)
    wanted = expected(world.content, columns, keys, shown)
    with pytest.MonkeyPatch.context() as patched:
        for together in (1, 10**6):
            patched.setattr("tidemark.storage.arrangements.TOGETHER", together)
            assert arrangement.matching(columns, keys, 10**6) == wanted
    for key in keys[:4]:
        assert arrangement.matching(columns, [key], 10**6) == {k: bag for k, bag in wanted.items() if k == key}
    arrays = [
        pa.array([key[i] for key in keys * 2], world.schema.types[column].arrow) for i, column in enumerate(columns)
    ]
    found = arrangement.matching_table(columns, arrays, 10**6)
    assert found is not None
    assert found.schema.equals(world.schema.weighted)
    whole = Counter[Row]()
    for bag in wanted.values():
        whole.update(bag)
    assert deltas.to_bag(found) == whole
    check_columns(arrangement, world, columns, [key for key in keys if None not in key], wanted)


def check_columns(
    arrangement: Arrangement | Whole,
    world: World,
    columns: tuple[int, ...],
    keys: Sequence[Row],
    wanted: Mapping[Row, Bag],
) -> None:
    """The same of all keys at once, by column: each row comes with the number of its key."""
    asked = Schema(tuple(Field(f"k{i}", world.schema.types[column]) for i, column in enumerate(columns)))
    vectors = Rows(asked, listed=[(key, 1) for key in keys]).batch.vectors
    answer = arrangement.matching_batch(columns, vectors, 10**6)
    assert answer is not None
    rows = deltas.to_rows(Rows(world.schema, batch=answer[0]).table.select(range(len(world.schema))))
    by_key: dict[Row, Bag] = {}
    for row, weight, owner in zip(rows, answer[0].weights.tolist(), answer[1].tolist(), strict=True):
        by_key.setdefault(keys[owner], Counter())[row] += weight
    assert {key: {row: n for row, n in bag.items() if n} for key, bag in by_key.items()} == wanted


@settings(max_examples=examples(150), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    types=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3),
    carried=st.lists(st.sampled_from(sorted(VALUES, key=str)), max_size=3),
)
def test_an_arrangement_follows_any_deltas(seed: int, types: list[Type], carried: list[Type]) -> None:
    schema = Schema(tuple(Field(f"c{i}", type_) for i, type_ in enumerate([*types, *carried])))
    world = World(seed, schema)
    world.change(world.random.choice((0, 3, 30)))
    columns = tuple(range(len(types)))
    others = [i for i in range(len(types), len(schema)) if world.random.random() < 0.7]
    held = (*columns, *others)
    arrangement = Arrangement(schema, columns, held, plain(world.content, schema, held), newest_rows=4)
    with localcontext() as context:
        context.prec = 3  # a program's own precision is none of an arrangement's business
        for _ in range(8):
            arrangement.feed(Rows.of(delta_of(world.change(world.random.choice((1, 3, 12))), schema)))
            asked = columns[: world.random.randint(1, len(columns))]
            if arrangement.serves(asked):
                check(arrangement, world, tuple(world.random.sample(asked, len(asked))))
    check(arrangement, world, columns)
    assert arrangement.entries <= 8 * 24 + 60, "entries that cancel go when runs become one"


@settings(max_examples=examples(100), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    types=st.lists(st.sampled_from(sorted(VALUES, key=str)), min_size=1, max_size=3),
    others=st.lists(st.sampled_from(sorted(VALUES, key=str)), max_size=2),
)
def test_a_small_relation_is_found_by_any_columns_after_any_deltas(
    seed: int, types: list[Type], others: list[Type]
) -> None:
    schema = Schema(tuple(Field(f"c{i}", type_) for i, type_ in enumerate([*types, *others])))
    world = World(seed, schema)
    world.change(world.random.choice((0, 3, 30)))
    whole = Whole(schema, plain(world.content, schema, range(len(schema))), 1_000)
    for _ in range(8):
        lent = [(found, copy.deepcopy(found)) for found in (all_rows(whole), whole.matching((0,), world.keys((0,)), 0))]
        whole.feed(Rows(schema, bag=world.change(world.random.choice((1, 3, 12)))))
        assert all(found == as_it_was for found, as_it_was in lent), "what was found is not changed any more"
        for _ in range(3):  # where many are asked for as columns, all are held so
            columns = world.random.sample(range(len(types)), world.random.randint(1, len(types)))
            check(whole, world, tuple(columns))
        assert all_rows(whole) == ({(): world.content} if world.content else {})
        assert whole.entries == len(world.content)


def all_rows(whole: Whole) -> Mapping[Row, Mapping[Row, int]] | None:
    return whole.matching((), [()], 0)


def test_an_arrangement_serves_the_first_of_its_columns_while_no_row_was_left_out() -> None:
    schema = Schema((Field("a", INT), Field("b", INT)))
    arrangement = Arrangement(schema, (0, 1), (0, 1), deltas.from_rows([(1, 2), (1, 3)], schema), 4)
    assert arrangement.serves((0,))
    assert not arrangement.serves((1,))
    arrangement.feed(Rows.of(delta_of({(1, None): 1}, schema)))
    assert not arrangement.serves((0,))
    assert arrangement.serves((0, 1))


def test_runs_stay_few() -> None:
    schema = Schema((Field("a", INT), Field("b", VARCHAR)))
    arrangement = Arrangement(schema, (0,), (0, 1), schema.arrow.empty_table(), 4)
    for number in range(600):
        arrangement.feed(Rows.of(delta_of({(number, "x"): 1}, schema)))
    assert len(arrangement.runs) <= 5
    assert arrangement.entries == 600


def test_an_arrangement_that_cannot_make_a_run_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema((Field("a", INT), Field("b", INT)))
    arrangement = Arrangement(schema, (0,), (0, 1), deltas.from_rows([(1, 2)], schema), 8)
    arrangement.feed(Rows.of(delta_of({(5, 6): 1}, schema)))

    def out_of_memory(*_: object) -> None:
        raise MemoryError

    keys = [pa.array([1, 5], pa.int32())]
    with monkeypatch.context() as patched, pytest.raises(MemoryError):
        patched.setattr("tidemark.storage.arrangements.run_of", out_of_memory)
        arrangement.matching_table((0,), keys, 10)
    found = arrangement.matching_table((0,), keys, 10)
    assert found is not None
    assert deltas.to_bag(found) == {(1, 2): 1, (5, 6): 1}


# All of a database


class Relations:
    """Relations of integers, and how often each was scanned."""

    def __init__(self, rows: Mapping[str, list[Row]], width: int = 2) -> None:
        self.schema = Schema(tuple(Field(f"c{i}", INT) for i in range(width)))
        self.rows = {name: Counter(rows) for name, rows in rows.items()}
        self.scans: list[str] = []

    def scan(self, relation: str, columns: Sequence[int]) -> pa.Table:
        self.scans.append(relation)
        return plain(self.rows[relation], self.schema, columns)

    def arranged(self, budget: int, admission: Admission) -> Arrangements:
        return Arrangements(
            self.scan, lambda name: self.rows[name].total(), lambda name: self.schema, budget, admission
        )


AT_ONCE = Admission(rows_per_use=10**9, least_uses=1, rows_at_once=10**9, whole_rows=0)
ROWS = [(n, n % 7) for n in range(100)]


def test_what_is_asked_for_often_enough_is_built_after_the_commit() -> None:
    world = Relations({"r": ROWS})
    held = world.arranged(10**6, Admission(rows_per_use=40, least_uses=1, rows_at_once=10, whole_rows=0))
    for _ in range(2):
        assert held.matching("r", (0,), [(1,)], None) is None
    held.feed(1, {}, ())
    held.build_wanted()
    assert held.matching("r", (0,), [(1,)], None) == {(1,): {(1, 1): 1}}
    assert world.scans == ["r"]
    assert held.shown().to_pylist()[0] | {"bytes": 0} == {
        "relation": "r",
        "columns": "c0",
        "carried": "c0, c1",
        "entries": 100,
        "bytes": 0,
        "hits": 1,
        "built": 1,
    }


def test_one_that_lacks_a_column_is_built_with_it() -> None:
    world = Relations({"r": [tuple(range(12))]}, width=12)
    held = world.arranged(10**6, AT_ONCE)
    assert held.matching("r", (0,), [(0,)], (1,)) == {(0,): {(0, 1, *[None] * 10): 1}}
    assert held.matching("r", (0,), [(0,)], (2,)) == {(0,): {(0, 1, 2, *[None] * 9): 1}}
    assert held.matching("r", (0,), [(0,)], (1,)) == {(0,): {(0, 1, 2, *[None] * 9): 1}}
    assert len(world.scans) == 2


def test_a_starved_budget_builds_nothing() -> None:
    world = Relations({"r": ROWS})
    held = world.arranged(100, AT_ONCE)
    for _ in range(50):
        assert held.matching("r", (0,), [(1,)], None) is None
    assert world.scans == []


def test_two_for_which_there_is_no_room_do_not_take_turns() -> None:
    world = Relations({"r": ROWS, "s": ROWS})
    held = world.arranged(1_000, Admission(rows_per_use=10, least_uses=1, rows_at_once=1_000, whole_rows=0))
    for _ in range(200):
        held.matching("r", (0,), [(1,)], None)
        held.matching("s", (0,), [(1,)], None)
    assert len(world.scans) <= 4
    assert held.nbytes <= 1_000
    for _ in range(200):
        held.matching("s", (0,), [(1,)], None)
    assert {row["relation"] for row in held.shown().to_pylist()} == {"s"}, "the one that is used is there"


def test_one_that_cannot_take_a_delta_is_dropped_and_nothing_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    world = Relations({"r": ROWS, "s": ROWS})
    held = world.arranged(10**6, AT_ONCE)
    for name in ("r", "s"):
        held.matching(name, (0,), [(1,)], None)
    held.feed(1, {"r": pa.table({"wrong": [1]}), "s": delta_of({(1, 1): -1}, world.schema)}, ())
    assert [row["relation"] for row in held.shown().to_pylist()] == ["s"]
    assert held.matching("s", (0,), [(1,)], None) == {}
    assert "is dropped" in caplog.text


def test_an_interrupt_in_the_midst_of_a_delta_leaves_none_that_has_half_of_it() -> None:
    world = Relations({"r": ROWS})
    held = world.arranged(10**6, AT_ONCE)
    held.matching("r", (0,), [(1,)], None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Arrangement, "_feed_newest", interrupted)
        with pytest.raises(KeyboardInterrupt):
            held.feed(1, {"r": delta_of({(1, 1): -1, (2, 2): -1}, world.schema)}, ())
    assert held.shown().num_rows == 0


feed_newest = Arrangement._feed_newest


def interrupted(arrangement: Arrangement, bag: dict[Row, int]) -> None:
    feed_newest(arrangement, dict(list(bag.items())[:1]))
    raise KeyboardInterrupt


@pytest.mark.parametrize("change", [lambda held: held.forget("r"), lambda held: held.feed(1, {}, ("r",))])
def test_nothing_is_known_of_a_relation_that_is_another(change: Callable[[Arrangements], None]) -> None:
    world = Relations({"r": ROWS})
    held = world.arranged(10**6, AT_ONCE)
    held.matching("r", (0,), [(1,)], None)
    world.rows["r"] = Counter({(1, 5): 1})
    change(held)
    assert held.matching("r", (0,), [(1,)], None) == {(1,): {(1, 5): 1}}


def test_a_small_relation_is_held_once_and_arranged_by_key_when_it_has_grown() -> None:
    world = Relations({"r": ROWS})
    admission = Admission(rows_per_use=10**9, least_uses=1, rows_at_once=10**9, whole_rows=200)
    held = world.arranged(10**6, admission)
    assert held.matching("r", (0,), [(1,)], None) == {(1,): {(1, 1): 1}}
    assert held.matching("r", (1, 0), [(1, 1), (2, 1)], None) == {(1, 1): {(1, 1): 1}}
    assert world.scans == ["r"]
    assert held.count == 1
    held.feed(1, {"r": delta_of({(n, n): 1 for n in range(1_000, 2_000)}, world.schema)}, ())
    world.rows["r"].update((n, n) for n in range(1_000, 2_000))
    assert held.count == 0
    assert held.matching("r", (0,), [(1_000,)], None) == {(1_000,): {(1_000, 1_000): 1}}
    assert [row["columns"] for row in held.shown().to_pylist()] == ["c0"]


def test_a_small_relation_for_which_there_is_no_room_as_rows_may_be_arranged_by_key() -> None:
    world = Relations({"r": ROWS})
    admission = Admission(rows_per_use=10**9, least_uses=1, rows_at_once=10**9, whole_rows=200)
    held = world.arranged(20_000, admission)
    for _ in range(3):
        held.matching("r", (0,), [(1,)], None)
    assert [row["columns"] for row in held.shown().to_pylist()] == ["c0"]


def test_one_that_outgrows_the_budget_goes() -> None:
    world = Relations({"r": ROWS[:2]})
    held = world.arranged(2_000, AT_ONCE)
    held.matching("r", (0,), [(1,)], None)
    held.feed(1, {"r": delta_of({(n, n): 1 for n in range(1_000)}, world.schema)}, ())
    assert held.shown().num_rows == 0
