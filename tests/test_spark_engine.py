"""The Spark engine by itself: its lake, its commit point, and what it asks of Spark.

That its answers are right is the conformance suite's business. Here stand the promises that only this engine makes:
a commit is whole or not there, whatever dies when; foreign readers see whole versions; small work starts no Spark
job; and large stored relations are not shuffled to meet a few rows.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tidemark as tm
import tidemark.storage.store as store_module
from tests.spark_support import (
    ITEMS,
    KINDS,
    NOON,
    bag,
    call,
    commit,
    create,
    entries,
    equal,
    join,
    literal,
    open_engine,
)
from tidemark.algebra.expressions import Cast
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Filter,
    Given,
    Project,
    Sort,
    SortKey,
    Stored,
    Touched,
    union,
)
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
    decimal,
)
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.lake import Lake, column_names, directory_name, local_path
from tidemark.engines.spark.publish import Publisher
from tidemark.engines.spark.records import Merged
from tidemark.engines.spark.session import ON_SPARK, require_java
from tidemark.errors import TidemarkError
from tidemark.storage.commit import Commit, Creation

pytestmark = pytest.mark.spark

items, kinds = Stored("items", ITEMS), Stored("kinds", KINDS)
ROWS: list[tuple[Any, ...]] = [(number, number % 3, f"item {number}") for number in range(12)]


@pytest.fixture
def engine(spark: Any, tmp_path: Path) -> Iterator[SparkEngine]:
    """An engine with two tables, at version 2; merges happen only when a test asks for them."""
    opened = open_engine(tmp_path / "lake", spark)
    commit(opened, created=(Creation("items", ITEMS), Creation("kinds", KINDS)), catalog=('{"made": 1}',))
    kinds_rows = entries(KINDS, [(0, "zero"), (1, "one"), (2, None)])
    commit(opened, {"items": entries(ITEMS, ROWS), "kinds": kinds_rows}, trace='["first"]')
    yield opened
    opened.close()


def reopened(engine: SparkEngine, spark: Any, **options: Any) -> SparkEngine:
    path = engine.path
    engine.close()
    return open_engine(Path(path), spark, **options)


def content(engine: SparkEngine, relation: str = "items", schema: Schema = ITEMS) -> dict[tuple[Any, ...], int]:
    return bag(engine.evaluate(Stored(relation, schema), {}))


# Commits and the log


def test_a_commit_is_there_after_reopening(engine: SparkEngine, spark: Any) -> None:
    commit(engine, {"items": entries(ITEMS, ROWS[:2], weight=-1)})
    before = content(engine)
    again = reopened(engine, spark)
    assert content(again) == before == dict.fromkeys(ROWS[2:], 1)
    assert (again.rows("items"), again.version) == (10, 3)
    assert again.trace(2) == '["first"]'
    again.close()


def test_the_catalog_records_come_back_in_order(engine: SparkEngine, spark: Any) -> None:
    commit(engine, catalog=("b", "c"))
    commit(engine, catalog=("d",))
    path = engine.path
    engine.close()
    again = SparkEngine(path, session=spark)
    assert again.load().catalog == ('{"made": 1}', "b", "c", "d")
    again.close()


@pytest.mark.parametrize("again", [False, True], ids=["in memory", "after reopening"])
def test_changes_are_net_per_version_and_since_is_exclusive(engine: SparkEngine, spark: Any, again: bool) -> None:
    commit(engine, {"items": entries(ITEMS, [(99, 1, "new")])})
    commit(engine, {"items": entries(ITEMS, [(99, 1, "new")], weight=-1)})
    if again:
        engine = reopened(engine, spark)
    found = engine.changes("items", 2).to_pylist()
    assert [(row["id"], row["_version"], row["_weight"]) for row in found] == [(99, 3, 1), (99, 4, -1)]
    assert engine.changes("items", 0).num_rows == 14
    assert engine.changes("items", 4).num_rows == 0
    engine.close()


def test_large_deltas_go_through_files_and_come_back(engine: SparkEngine, spark: Any) -> None:
    engine = reopened(engine, spark, inline_rows=3, merge_minimum=10**9, merge_rows=10**9)
    more: list[tuple[Any, ...]] = [(number, None, "more") for number in range(100, 120)]
    commit(engine, {"items": entries(ITEMS, more)})
    mixed = pa.concat_tables([entries(ITEMS, more[:5], -1), entries(ITEMS, [(7, None, "twice")], 2)])
    commit(engine, {"items": mixed})
    expected = dict.fromkeys(ROWS + more[5:], 1) | {(7, None, "twice"): 2}
    assert content(engine) == expected
    engine = reopened(engine, spark)
    assert content(engine) == expected
    assert engine.changes("items", 3).num_rows == 6
    assert engine.rows("items") == 29
    engine.close()


def test_a_commit_that_fails_leaves_nothing(engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    before, files = content(engine), sorted(Path(engine.path).rglob("*.parquet"))
    monkeypatch.setattr(store_module, "write_new", fail)
    with pytest.raises(TidemarkError, match="disk full"):
        commit(engine, {"items": entries(ITEMS, [(99, 1, "new")])}, created=(Creation("v", ITEMS, items),))
    monkeypatch.undo()
    assert (content(engine), engine.version) == (before, 2)
    assert sorted(Path(engine.path).rglob("*.parquet")) == files
    assert not (Path(engine.path) / "tables" / "v").exists()
    commit(engine, {"items": entries(ITEMS, [(99, 1, "new")])})
    assert engine.rows("items") == 13


def test_a_relation_can_be_dropped_and_made_again_at_once(engine: SparkEngine, spark: Any) -> None:
    other = Schema((Field("x", BIGINT),))
    engine.commit(Commit(3, NOON, created=(Creation("items", other),), dropped=("items",)))
    commit(engine, {"items": entries(other, [(5,)])})
    engine = reopened(engine, spark)
    assert content(engine, "items", other) == {(5,): 1}
    assert engine.changes("items", 0).to_pylist() == [{"x": 5, "_version": 4, "_weight": 1}]
    engine.close()


def test_the_transactions_table_is_compacted(engine: SparkEngine, spark: Any) -> None:
    engine = reopened(engine, spark, compact_every=5)
    for number in range(12):
        commit(engine, {"items": entries(ITEMS, [(1000 + number, None, None)])})
    assert len(list((Path(engine.path) / "_tidemark" / "transactions").glob("*.parquet"))) < 10
    engine = reopened(engine, spark)
    assert engine.version == 14
    assert engine.changes("items", 2).num_rows == 12
    engine.close()


# Views, merging and foreign readers


def test_a_relation_is_filled_from_its_plan_before_the_deltas(engine: SparkEngine, spark: Any) -> None:
    joined = join(items, kinds, 1, 0)
    schema = Schema((Field("name", ITEMS[2].type), Field("label", KINDS[1].type)))
    plan = Project(joined, schema.names, (joined.column(2), joined.column(4)))
    create(engine, "v", schema, plan)
    assert engine.rows("v") == 12
    assert content(engine, "v", schema)[("item 3", "zero")] == 1
    assert read_delta(engine, "v").num_rows == 12
    engine = reopened(engine, spark)
    assert engine.rows("v") == 12
    engine.close()


MERGERS: list[dict[str, Any]] = [{}, {"local_rows": 0}]
in_both_ways = pytest.mark.parametrize("options", MERGERS, ids=["in this process", "on Spark"])


@in_both_ways
def test_a_merge_changes_neither_content_nor_log(engine: SparkEngine, spark: Any, options: dict[str, Any]) -> None:
    engine = reopened(engine, spark, **options)
    engine.merge("items")
    twins = entries(ITEMS, [(50, 1, "twin")], weight=3)
    commit(engine, {"items": twins})
    engine.merge("items")
    commit(engine, {"items": pa.concat_tables([entries(ITEMS, [(50, 1, "twin"), *ROWS[:2]], -1)])})
    expected, log = content(engine), engine.changes("items", 0).to_pylist()
    engine.merge("items")
    assert expected[(50, 1, "twin")] == 2
    assert content(engine) == expected
    assert read_delta(engine, "items").num_rows == engine.rows("items") == 12
    engine = reopened(engine, spark)
    assert content(engine) == expected
    assert sorted(map(str, engine.changes("items", 0).to_pylist())) == sorted(map(str, log))
    engine.close()


@in_both_ways
def test_a_merge_keeps_every_type_as_it_is(spark: Any, tmp_path: Path, options: dict[str, Any]) -> None:
    """NULLs, equal rows of which some go, and a column named like what DuckDB calls a row's place in its file."""
    types = (BOOLEAN, SMALLINT, INT, BIGINT, decimal(15, 2), decimal(38, 4), DOUBLE, VARCHAR, DATE, TIMESTAMP)
    schema = Schema(tuple(Field(f"c{i}", type) for i, type in enumerate(types)))
    first = (True, -5, 7, 2**40, Decimal("1.50"), Decimal("-2.0001"), 0.1, "ä'", dt.date(1969, 2, 3))
    one = (*first, dt.datetime(2024, 2, 29, 1, 2, 3, 456789))
    rows = [one, (None,) * 10, (*one[:7], "other", *one[8:])]
    hidden = Schema((Field("file_row_number", INT), Field("x", INT)))
    engine = open_engine(tmp_path / "lake", spark, **options)
    commit(engine, created=(Creation("t", schema), Creation("hidden", hidden)))
    commit(engine, {"t": entries(schema, rows, 3), "hidden": entries(hidden, [(7, 1), (0, 2)])})
    for relation in ("t", "hidden"):
        engine.merge(relation)
    commit(engine, {"t": entries(schema, rows[:2], -2), "hidden": entries(hidden, [(7, 1)], -1)})
    for relation in ("t", "hidden"):
        engine.merge(relation)
    assert content(engine, "t", schema) == {rows[0]: 1, rows[1]: 1, rows[2]: 3}
    assert content(engine, "hidden", hidden) == {(0, 2): 1}
    assert not engine._relations["t"].tail
    engine = reopened(engine, spark, **ON_SPARK)
    assert content(engine, "t", schema) == {rows[0]: 1, rows[1]: 1, rows[2]: 3}
    assert read_delta(engine, "t").num_rows == 5
    assert [field.type for field in read_delta(engine, "t").schema] == [type.arrow for type in types]
    engine.close()


def test_a_merge_of_rows_that_are_not_there_is_refused(engine: SparkEngine, spark: Any) -> None:
    engine.merge("items")
    for options in MERGERS:
        engine = reopened(engine, spark, **options)
        relation = engine._relations["items"]
        engine._relations = {**engine._relations, "items": replace(relation, tail=(entries(ITEMS, ROWS[:1], -2),))}
        with pytest.raises(TidemarkError) as caught:
            engine.merge("items")
        assert caught.value.code == "damaged"
    engine.close()


def test_one_commit_waits_for_one_merge_at_most(engine: SparkEngine, spark: Any) -> None:
    engine = reopened(engine, spark, merge_rows=2)
    commit(engine, {"items": entries(ITEMS, [(99, 1, "new")]), "kinds": entries(KINDS, [(9, "nine")])})
    assert [bool(engine._relations[name].tail) for name in ("items", "kinds")] == [False, True]
    commit(engine)
    assert not engine._relations["kinds"].tail
    engine.close()


def test_foreign_readers_see_the_last_merged_version_and_which_it_is(engine: SparkEngine) -> None:
    assert read_delta(engine, "items").num_rows == 0
    engine.merge("items")
    commit(engine, {"items": entries(ITEMS, [(99, 1, "new")])})
    assert sorted(read_delta(engine, "items").column("id").to_pylist()) == list(range(12))
    history = DeltaTable(f"{engine.path}/tables/items").history(1)[0]
    assert (history["tidemark.version"], history["tidemark.relation"]) == ("2", "items")


def test_a_checkpoint_brings_the_last_version_to_foreign_readers(engine: SparkEngine) -> None:
    commit(engine, {"items": entries(ITEMS, [(99, 1, "new")])})
    assert read_delta(engine, "items").num_rows == 0
    assert engine.checkpoint()
    assert sorted(read_delta(engine, "items").column("id").to_pylist()) == [*range(12), 99]
    assert read_delta(engine, "kinds").num_rows == 3
    assert not any(relation.tail for relation in engine._relations.values())
    versions = DeltaTable(f"{engine.path}/tables/items").version()
    assert engine.checkpoint()
    assert DeltaTable(f"{engine.path}/tables/items").version() == versions, "there was nothing left to do"


def test_merges_happen_by_themselves(engine: SparkEngine, spark: Any) -> None:
    engine = reopened(engine, spark, merge_rows=20)
    commit(engine, {"items": entries(ITEMS, [(number, None, None) for number in range(100, 130)])})
    assert not engine._relations["items"].tail
    assert read_delta(engine, "items").num_rows == 42
    engine.close()


def test_many_small_files_become_few(engine: SparkEngine, spark: Any) -> None:
    engine = reopened(engine, spark, inline_rows=0, many_files=4)
    for number in range(6):
        commit(engine, {"items": entries(ITEMS, [(200 + number, None, "small")])})
    assert len(engine._relations["items"].files) <= 4
    assert engine.rows("items") == 18 == read_delta(engine, "items").num_rows
    engine.close()


def test_a_crash_between_commit_and_publishing_is_rolled_forward(
    engine: SparkEngine, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise OSError("killed")

    monkeypatch.setattr(Publisher, "publish", die)
    create(engine, "copy", ITEMS, items)
    engine.merge("items")
    monkeypatch.undo()
    assert read_delta(engine, "items").num_rows == 0
    engine = reopened(engine, spark)
    assert read_delta(engine, "items").num_rows == 12
    assert read_delta(engine, "copy").num_rows == 12
    assert DeltaTable(f"{engine.path}/tables/items").version() == 1
    engine = reopened(engine, spark)
    assert DeltaTable(f"{engine.path}/tables/items").version() == 1
    engine.close()


def test_staged_files_of_a_dead_process_are_swept_later_but_not_at_once(engine: SparkEngine, spark: Any) -> None:
    orphan = Path(engine.path) / "tables" / "items" / "part-orphan.parquet"
    orphan.write_bytes(b"half")
    engine = reopened(engine, spark)
    assert orphan.exists()
    os.utime(orphan, (0, 0))
    engine = reopened(engine, spark)
    assert not orphan.exists()
    assert engine.rows("items") == 12
    engine.close()


@pytest.mark.slow
@in_both_ways
def test_nothing_is_lost_when_the_process_is_killed_while_it_merges_deletions(
    spark: Any, tmp_path: Path, options: dict[str, Any]
) -> None:
    """A child deletes rows that lie in base files, so that every commit rewrites files, and is killed in that."""
    merges = 0
    for attempt in range(4):
        said = killed(DELETING_CHILD, tmp_path / "lake", json.dumps(options), after=0.05 + 0.21 * attempt)
        engine = open_engine(tmp_path / "lake", spark)
        last, merges = int(said[-1]), sum(isinstance(row.record, Merged) for row in engine._transactions.rows())
        assert last <= engine.version <= last + 1
        gone = engine.version - 2
        expected = dict.fromkeys([(number, "x") for number in range(gone, 3000)], 1)
        assert content(engine, "a", KINDS) == content(engine, "b", KINDS) == expected
        assert engine.changes("a", 0).num_rows == 3000 + gone
        assert read_delta(engine, "a").num_rows >= engine.rows("a")
        engine.close()
    assert merges > 4, "hardly anything was merged: the test proves nothing"


def killed(program: str, lake: Path, *arguments: str, after: float) -> list[str]:
    """Run a program until it has said something, and a moment longer; the whole lines that it said."""
    command = [sys.executable, "-c", program, str(lake), *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=os.getcwd())
    assert child.stdout is not None
    said = child.stdout.readline() + child.stdout.readline()
    time.sleep(after)
    child.send_signal(signal.SIGKILL)
    said += child.stdout.read()
    child.wait()
    return [line for line in said.splitlines(keepends=True) if line.endswith("\n")]


DELETING_CHILD = """
import json, sys
from tests.spark_support import KINDS, commit, entries
from tidemark.engines.spark import SparkEngine
from tidemark.storage.commit import Creation
engine = SparkEngine(sys.argv[1], merge_rows=0, compact_every=7, **json.loads(sys.argv[2]))
engine.load()
if not engine.version:
    commit(engine, created=(Creation("a", KINDS), Creation("b", KINDS)))
if engine.version == 1:
    delta = entries(KINDS, [(number, "x") for number in range(3000)])
    commit(engine, {"a": delta, "b": delta})
print(engine.version, flush=True)
while True:
    delta = entries(KINDS, [(engine.version - 2, "x")], -1)
    commit(engine, {"a": delta, "b": delta})
    print(engine.version, flush=True)
"""


@pytest.mark.slow
def test_no_commit_is_lost_or_torn_when_the_process_is_killed(spark: Any, tmp_path: Path) -> None:
    """A child commits the same row to two tables, in merges and compactions, and says which commits returned."""
    for attempt in range(4):
        last = int(killed(CHILD, tmp_path / "lake", after=0.25 + 0.17 * attempt)[-1])
        engine = open_engine(tmp_path / "lake", spark)
        assert engine.version >= last
        assert content(engine, "a", KINDS) == content(engine, "b", KINDS)
        assert engine.rows("a") == engine.version - 1
        assert engine.changes("a", 0).num_rows == engine.version - 1
        engine.close()


CHILD = """
import sys
from tests.spark_support import KINDS, commit, entries
from tidemark.engines.spark import SparkEngine
from tidemark.storage.commit import Creation
engine = SparkEngine(sys.argv[1], merge_rows=5, compact_every=7)
engine.load()
if not engine.version:
    commit(engine, created=(Creation("a", KINDS), Creation("b", KINDS)))
print(engine.version, flush=True)
while True:
    delta = entries(KINDS, [(engine.version, "x")])
    commit(engine, {"a": delta, "b": delta})
    print(engine.version, flush=True)
"""


# What runs where

LONG_NAME = "a rather long name, so that the files are not small"


def test_plans_over_deltas_alone_start_no_spark_statement(engine: SparkEngine) -> None:
    delta = Given("delta", ITEMS)
    counted = Aggregate(
        join(delta, Given("kinds", KINDS), 1, 0),
        ("kind", "rows"),
        (delta.column(1),),
        (AggregateCall(AggregateFunction.COUNT_ROWS),),
        signed=True,
    )
    given = {"delta": entries(ITEMS, ROWS[:4]), "kinds": entries(KINDS, [(0, "zero")], -1)}
    assert bag(engine.evaluate(counted, given)) == {(0, -2): 1}
    assert engine.statements == 0


def test_point_reads_start_no_spark_statement(engine: SparkEngine) -> None:
    engine.merge("items")
    started = engine.statements
    commit(engine, {"items": entries(ITEMS, ROWS[:1], -1)})
    hit = Filter(items, equal(items.column(1), literal(0)))
    assert bag(engine.evaluate(hit, {})) == dict.fromkeys(ROWS[3::3], 1)
    keys = Project(Given("delta", ITEMS), ("id",), (Given("delta", ITEMS).column(0),))
    touched = Touched(items, keys, (0,))
    assert bag(engine.evaluate(touched, {"delta": entries(ITEMS, ROWS[:3])})) == dict.fromkeys(ROWS[1:3], 1)
    ordered = engine.fetch(Sort(hit, (SortKey(items.column(0), descending=True),), limit=2), {})
    assert ordered.column("id").to_pylist() == [9, 6]
    assert engine.statements == started


def test_spark_sees_every_part_of_a_given_table(spark: Any, tmp_path: Path) -> None:
    """Tables that were put together have several chunks, of which some may be empty: Spark reads no further than to an
    empty one."""
    one, two = entries(ITEMS, ROWS[:1], weight=-1), entries(ITEMS, ROWS[1:3])
    engine = open_engine(tmp_path / "lake", spark, **ON_SPARK)
    create(engine, "items", ITEMS)
    commit(engine, {"items": entries(ITEMS, ROWS[:1])})
    given = {"x": pa.concat_tables([one.slice(0, 0), one, one.slice(0, 0), one.slice(0, 0), two])}
    assert bag(engine.evaluate(union((items, Given("x", ITEMS)), ITEMS), given)) == dict.fromkeys(ROWS[1:3], 1)
    engine.close()


def test_joins_and_groupings_of_stored_relations_run_on_spark(engine: SparkEngine, spark: Any) -> None:
    engine = reopened(engine, spark, by_statements=True)
    engine.merge("items")
    commit(engine, {"items": entries(ITEMS, ROWS[:1], -1)})
    started = engine.statements
    joined = join(items, kinds, 1, 0)
    named = Filter(joined, equal(joined.column(4), literal("one", KINDS[1].type)))
    assert sorted(row[0] for row in bag(engine.evaluate(named, {}))) == [1, 4, 7, 10]
    grouped = Aggregate(
        items,
        ("kind", "rows", "total"),
        (items.column(1),),
        (AggregateCall(AggregateFunction.COUNT_ROWS), AggregateCall(AggregateFunction.SUM, items.column(0))),
    )
    assert bag(engine.evaluate(grouped, {})) == {(0, 3, 18): 1, (1, 4, 22): 1, (2, 4, 26): 1}
    assert engine.statements == started + 2
    engine.close()


def changed_join(engine: SparkEngine) -> tuple[dict[tuple[Any, ...], int], int]:
    """A differential of a join of three, and how many statements it started on Spark."""
    joined = join(join(Given("delta", KINDS), items, 0, 1), kinds, 3, 0)
    plan = Project(joined, ("id", "old", "new"), (joined.column(2), joined.column(6), joined.column(1)))
    started = engine.statements
    found = engine.evaluate(plan, {"delta": entries(KINDS, [(1, "new"), (2, "new")], -1)})
    return bag(found), engine.statements - started


def test_a_small_differential_runs_in_this_process_unless_it_would_read_too_much(
    engine: SparkEngine, spark: Any
) -> None:
    engine.merge("items")
    commit(engine, {"items": entries(ITEMS, ROWS[:2], -1)})
    interpreted, none = changed_join(engine)
    engine = reopened(engine, spark, by_statements=True)
    by_duckdb, still_none = changed_join(engine)
    engine = reopened(engine, spark, by_statements=True, local_rows=11)
    by_spark, one = changed_join(engine)
    assert (none, still_none, one) == (0, 0, 1)
    assert interpreted == by_duckdb == by_spark
    assert len(by_spark) == 7
    assert set(by_spark.values()) == {-1}
    engine.close()


def test_what_is_arranged_in_memory_is_not_read_from_the_lake(spark: Any, tmp_path: Path) -> None:
    with tm.connect(spark, lake=str(tmp_path / "lake")) as db:
        db.execute(
            "CREATE TABLE item (id INT PRIMARY KEY, kind INT, price DECIMAL(6,2));"
            "CREATE TABLE kind (k INT, name VARCHAR);"
            "CREATE MATERIALIZED VIEW v AS SELECT id, name, price FROM item JOIN kind ON kind = k"
        )
        db.insert("item", [(n, n % 200, n) for n in range(600)])
        db.insert("kind", [(n, f"k{n}") for n in range(200)])
        for n in range(8):
            db.execute(f"UPDATE item SET price = {n}, kind = 9 WHERE id = {n}")
        engine: Any = db._store.engine
        used = [row["hits"] for row in db.execute("SHOW ARRANGEMENTS").to_pylist()]  # type: ignore[union-attr]
        with db.transaction() as tx, pytest.MonkeyPatch.context() as patched:
            patched.setattr(engine, "evaluate_plainly", never)
            patched.setattr(engine, "evaluate", never)  # compiled steps follow it from the statement on
            tx.execute("UPDATE item SET price = 7, kind = 3 WHERE id = 5")
            tx.commit()
        assert [row["hits"] for row in db.execute("SHOW ARRANGEMENTS").to_pylist()] > used  # type: ignore[union-attr]
        assert not db.audit("v").num_rows
        engine.merge("item")
        db.execute("UPDATE item SET kind = 4 WHERE id = 5; DELETE FROM kind WHERE k = 3")
        assert not db.audit("v").num_rows
        assert not db.query("SELECT * FROM v WHERE name = 'k3'").num_rows


def never(*_: object) -> Any:
    raise AssertionError("a statement ran")


def test_an_error_in_this_process_is_not_tried_again_on_spark(engine: SparkEngine, spark: Any) -> None:
    engine = reopened(engine, spark, by_statements=True)
    joined = join(Given("delta", KINDS), items, 0, 1)
    divided = Project(joined, ("x",), (call("divide", joined.column(2), literal(0), type=INT),))
    with pytest.raises(TidemarkError) as caught:
        engine.evaluate(divided, {"delta": entries(KINDS, [(1, "new")])})
    assert (caught.value.code, engine.statements) == ("division_by_zero", 0)
    engine.close()


def test_a_differential_shuffles_no_stored_relation(spark: Any, tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "lake", spark)
    size = 200_000
    commit(engine, created=(Creation("items", ITEMS), Creation("kinds", KINDS)))
    ids = pa.array(range(size), pa.int32())
    names = pa.array([LONG_NAME] * size)
    weights = pa.array([1] * size, pa.int64())
    commit(
        engine,
        {
            "items": pa.table([ids, ids, names, weights], schema=ITEMS.weighted),
            "kinds": pa.table([ids, names, weights], schema=KINDS.weighted),
        },
    )
    commit(engine, {"items": entries(ITEMS, [(number, number, LONG_NAME) for number in range(12)], -1)})
    changed = Given("delta", KINDS)
    plan = join(join(changed, items, 0, 1), kinds, 2, 0)
    given = {"delta": entries(KINDS, [(number, "new") for number in range(100)])}
    shown = engine.explain(plan, given)
    assert shown.count("BroadcastHashJoin") == 2
    assert "Exchange hashpartitioning" not in shown
    assert "SortMergeJoin" not in shown
    assert engine.evaluate(plan, given).num_rows == 88
    engine.close()


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        (lambda row: call("divide", row.column(0), literal(0), type=INT), "division_by_zero"),
        (lambda row: call("add", row.column(0), literal(2**31 - 1), type=INT), "overflow"),
        (lambda row: Cast(row.column(2), INT), "invalid_value"),
        (lambda row: Cast(call("add", row.column(0), literal(40_000), type=INT), SMALLINT), "overflow"),
    ],
    ids=["division", "addition", "text", "narrowing"],
)
def test_errors_of_spark_come_in_our_words(engine: SparkEngine, spark: Any, expression: Any, code: str) -> None:
    engine = reopened(engine, spark, **ON_SPARK)
    joined = join(items, kinds, 1, 0)
    computed = expression(joined)
    with pytest.raises(TidemarkError) as caught:
        engine.evaluate(Project(joined, ("x",), (computed,)), {})
    assert caught.value.code == code
    assert len(caught.value.message) < 200
    assert "\n" not in caught.value.message
    with pytest.raises(TidemarkError) as caught:
        create(engine, "v", Schema((Field("x", computed.type),)), Project(joined, ("x",), (computed,)))
    assert caught.value.code == code
    assert not (Path(engine.path) / "tables" / "v").exists()
    assert content(engine) == dict.fromkeys(ROWS, 1)
    engine.close()


# Java and the folder


@pytest.mark.parametrize(
    ("java", "words"), [(None, "no Java was found"), ("1.8.0_402", "is Java 8"), ("11.0.2", "is Java 11")]
)
def test_without_a_java_that_serves_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: str | None, words: str
) -> None:
    if java is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{java}\"' >&2\n")
        (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TidemarkError, match=words) as caught:
        require_java()
    assert caught.value.code == "java_missing"
    assert "openjdk-17" in (caught.value.hint or "")


def test_a_second_opener_is_refused_here_and_in_another_process(engine: SparkEngine, spark: Any) -> None:
    with pytest.raises(TidemarkError, match="in use") as caught:
        SparkEngine(engine.path, session=spark)
    assert caught.value.code == "in_use"
    program = f"from tidemark.engines.spark.lake import Lake; Lake({engine.path!r})"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "[in_use]" in other.stderr


def test_a_folder_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(TidemarkError, match="other things") as caught:
        Lake(tmp_path)
    assert caught.value.code == "not_a_database"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("marker", "code"),
    [
        ("{", "not_a_database"),
        ("[]", "not_a_database"),
        ('{"tidemark": "bottle", "format": 1}', "not_a_database"),
        (json.dumps({"tidemark": "lake", "format": 999}), "format"),
    ],
)
def test_a_marker_that_we_do_not_understand_is_refused(tmp_path: Path, marker: str, code: str) -> None:
    Lake(tmp_path).close()
    (tmp_path / "_tidemark" / "lake.json").write_text(marker)
    with pytest.raises(TidemarkError) as caught:
        Lake(tmp_path)
    assert caught.value.code == code


def test_damaged_transactions_are_refused(engine: SparkEngine, spark: Any) -> None:
    path = Path(engine.path)
    engine.close()
    for file in (path / "_tidemark" / "transactions" / "_delta_log").glob("*.json"):
        file.write_text("not json")
    with pytest.raises(TidemarkError) as caught:
        open_engine(path, spark)
    assert caught.value.code == "damaged"
    Lake(path).close()


def test_a_temporary_lake_is_gone_after_closing(spark: Any) -> None:
    engine = open_engine(None, spark)
    create(engine, "items", ITEMS)
    path = Path(engine.path)
    assert path.is_dir()
    engine.close()
    engine.close()
    assert not path.exists()


@pytest.mark.parametrize("path", ["s3://bucket/lake", "hdfs://host/lake", "file://host/lake", "/tmp/100%"])
def test_a_lake_that_is_not_local_is_refused(path: str) -> None:
    with pytest.raises(TidemarkError, match="not supported") as caught:
        local_path(path)
    assert caught.value.code == "unsupported"


def test_any_identifier_makes_a_safe_folder_and_safe_columns(spark: Any, tmp_path: Path) -> None:
    assert directory_name("..") == "~2e~2e"
    assert directory_name("A") != directory_name("a")
    assert len(directory_name("x" * 500)) < 200
    for first, names in ((0, ("a", "A_2", "a_b", "a_b_2")), (4, ("a", "A_2", "a_b_2", "a_b"))):
        assert column_names(["a", "A", "a=b", "a_b"], first) == names
    assert column_names([""], 1) == ("_",)
    odd = Schema((Field("a b", INT), Field("A B", INT), Field("`q`\"'", INT)))
    engine = open_engine(tmp_path / "my lake ü", spark)
    create(engine, "../Weird `\"name' =1", odd)
    commit(engine, {"../Weird `\"name' =1": entries(odd, [(1, 2, None)])})
    engine.merge("../Weird `\"name' =1")
    stored = Stored("../Weird `\"name' =1", odd)
    assert content(engine, stored.relation, odd) == {(1, 2, None): 1}
    grouped = Aggregate(stored, ("n",), (), (AggregateCall(AggregateFunction.COUNT_ROWS),))
    assert bag(engine.evaluate(grouped, {})) == {(1,): 1}
    engine.close()


def read_delta(engine: SparkEngine, table: str) -> pa.Table:
    """The table as a foreign Delta reader sees it."""
    return DeltaTable(f"{engine.path}/tables/{table}").to_pyarrow_table()
