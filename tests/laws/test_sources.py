"""The law of a source: what it says has changed between two positions is the difference of what stands there."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.foreign import SCHEMA, Foreign, Row
from tests.support import Bag, bag_of, check_invariant, rows_in_order, weights_of
from tidemark.algebra.types import WEIGHT
from tidemark.sources import delta_files as netting
from tidemark.sources.delta import DeltaSource
from tidemark.sources.protocol import ChangesLostError, Position

IDS = st.integers(0, 7)
GROUPS = st.sampled_from([None, "a", "b c", "é/%=", ""])
ROWS = st.lists(st.tuples(IDS, GROUPS, st.none() | st.integers(-300, 300)), max_size=5)
Step = Callable[[Foreign], None]


def keyed(rows: list[Row]) -> list[Row]:
    return list({row[0]: row for row in rows}.values())


STEPS: st.SearchStrategy[Step] = st.one_of(
    ROWS.map(lambda rows: lambda t: t.write(rows)),
    ROWS.map(lambda rows: lambda t: t.write(rows, mode="overwrite")),
    IDS.map(lambda i: lambda t: t.delete(f"id = {i}")),
    GROUPS.map(lambda g: lambda t: t.delete("grp IS NULL" if g is None else f"grp = '{g}'")),
    IDS.map(lambda i: lambda t: t.update(f"id <= {i}", amount="amount + 1")),
    st.tuples(IDS, GROUPS).map(
        lambda p: lambda t: t.update(f"id = {p[0]}", grp="NULL" if p[1] is None else f"'{p[1]}'")
    ),
    ROWS.map(lambda rows: lambda t: t.merge(keyed(rows))),
    st.just(lambda t: t.compact()),
    st.integers(0, 3).map(lambda back: lambda t: t.restore(back)),
    st.just(lambda t: t.checkpoint()),
    st.just(lambda t: t.annotate()),
)
HISTORIES = st.lists(st.lists(STEPS, min_size=1, max_size=3), min_size=1, max_size=4)
KINDS = st.tuples(st.booleans(), st.booleans())


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp())
    try:
        yield path
    finally:
        shutil.rmtree(path)


def anywhere(path: str) -> None:
    pass


def read(path: Path, since: Position | None) -> tuple[Position, Bag]:
    """The newest position, and the net change up to it; of nothing, if the source was never read."""
    source = DeltaSource(str(path), anywhere)
    now = source.newest("t", SCHEMA.names)
    if since is None:
        return now, bag_of(source.snapshot("t", now, SCHEMA.names))
    found = source.changes("t", since, now, SCHEMA.names)
    net: Bag = Counter()
    for row, weight in zip(rows_in_order(found.drop_columns([WEIGHT])), found.column(WEIGHT).to_pylist(), strict=True):
        net[row] += weight
    return now, net


@settings(max_examples=examples(60), deadline=None)
@given(KINDS, ROWS, HISTORIES, st.sampled_from([1, 4, netting.MOST_ROWS]))
def test_changes_are_the_difference_of_plain_reads(
    kind: tuple[bool, bool], first: list[Row], history: list[list[Step]], at_once: int
) -> None:
    with folder() as path, mock.patch.object(netting, "MOST_ROWS", at_once):
        table = Foreign(path / "t", *kind)
        table.write(first)
        position, content = read(path, None)
        assert content == table.content()
        for steps in history:
            for step in steps:
                step(table)
            position, change = read(path, position)
            after = Counter(content)
            after.update(change)
            assert {row: n for row, n in after.items() if n} == table.content()
            content = table.content()


@settings(max_examples=examples(25), deadline=None)
@given(KINDS, ROWS, HISTORIES, st.sampled_from(["duckdb", "reference"]))
def test_a_pull_keeps_tables_and_views_true_and_tells_exact_changes(
    kind: tuple[bool, bool], first: list[Row], history: list[list[Step]], engine: str
) -> None:
    with folder() as path:
        table = Foreign(path / "t", *kind)
        table.write(first)
        with tm.connect(engine, allow_paths=[path]) as db:
            db.execute(f"""
                CREATE SOURCE lake TYPE delta OPTIONS (path '{path}');
                CREATE TABLE t FROM SOURCE lake RELATION 't';
                CREATE MATERIALIZED VIEW v AS SELECT grp, COUNT(*) AS n, SUM(amount) AS amount FROM t GROUP BY grp;
            """)
            before: Bag = Counter()
            for steps in [[], *history]:
                for step in steps:
                    step(table)
                version, after = db.version, table.content()
                assert db.pull() == sum((after - before).values()) + sum((before - after).values())
                assert bag_of(db.query("SELECT * FROM t")) == after
                assert db.version == version + (after != before)
                if after != before:
                    change = Counter(after)
                    change.subtract(before)
                    told = {row[:-1]: n for row, n in weights_of(db.changes("t", since=version)).items()}
                    assert told == {row: n for row, n in change.items() if n}
                before = after
            check_invariant(db)


WEIGHTED = pa.schema({"a": pa.int64(), "b": pa.int16(), "c": pa.string(), "d": pa.float64(), WEIGHT: pa.int64()})
PARTS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from([None, 0, 1, -1, 2**63 - 1, -(2**63)]),
            st.sampled_from([None, -32768, 7]),
            st.sampled_from([None, "", "x"]),
            st.sampled_from([None, 0.5, float("inf")]),
            st.sampled_from([1, -1, 2]),
        ),
        max_size=20,
    ),
    max_size=4,
)


@settings(max_examples=examples(60), deadline=None)
@given(PARTS, st.integers(1, 30), st.sampled_from([WEIGHTED.names, ["c", "d", WEIGHT]]))
def test_rows_are_net_whether_they_are_brought_together_in_files_or_at_once(
    parts: list[list[tuple[Any, ...]]], at_once: int, columns: list[str]
) -> None:
    tables = [pa.Table.from_pylist([dict(zip(WEIGHTED.names, row, strict=True)) for row in p], WEIGHTED) for p in parts]
    tables = [table.select(columns) for table in tables]
    with mock.patch.object(netting, "MOST_ROWS", at_once):
        found = netting.netted(iter(tables), tables[0].schema if tables else WEIGHTED, sum(map(len, tables)))
    expected: Counter[tuple[Any, ...]] = Counter()
    for table in tables:
        for row in rows_in_order(table):
            expected[row[:-1]] += row[-1]
    rows = rows_in_order(found)
    assert {row[:-1]: row[-1] for row in rows} == {row: weight for row, weight in expected.items() if weight}
    assert len({row[:-1] for row in rows}) == len(rows)


def test_a_history_that_is_gone_or_another_is_noticed(tmp_path: Path) -> None:
    table = Foreign(tmp_path / "t")
    table.write([(1, "a", 1)])
    first, _ = read(tmp_path, None)
    shutil.copytree(table.path, tmp_path / "copy")
    table.write([(2, "b", 2)])
    second, _ = read(tmp_path, first)
    shutil.rmtree(table.path)
    shutil.copytree(tmp_path / "copy", table.path)
    with pytest.raises(ChangesLostError, match="went back"):
        read(tmp_path, second)
    table.write([(3, "c", 3)])
    with pytest.raises(ChangesLostError, match="is another one now"):
        read(tmp_path, second)
    assert read(tmp_path, first)[1] == {(3, "c", table_amount(3)): 1}
    shutil.rmtree(table.path)
    table.write([(3, "c", 3)])
    with pytest.raises(ChangesLostError, match="another table"):
        read(tmp_path, first)


def table_amount(hundredths: int) -> object:
    return pa.scalar(hundredths).cast(pa.decimal128(19, 0)).as_py().scaleb(-2)
