"""Databases that earlier Tidemarks wrote: this one opens them, finds what they held and told, and goes on."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.golden.database import BEGAN, HERE, contents, history
from tests.support import check_invariant, rows
from tidemark.algebra.types import Field, Kind, Schema, Type
from tidemark.engines.engine import Engine
from tidemark.storage.commit import Commit, Creation
from tidemark.strategy.nodes import NodeKind

WRITTEN = sorted(folder.name for folder in HERE.iterdir() if folder.is_dir() and folder.name.isdecimal())
GOLDEN = [
    pytest.param((number, kind), id=f"{number}-{kind}", marks=[pytest.mark.spark] if kind == "lake" else [])
    for number in WRITTEN
    for kind in ("duckdb", "lake")
]
LATER = BEGAN + dt.timedelta(days=1)


@pytest.fixture(params=GOLDEN)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """The target of a copy of a golden database, and what it held when it was written."""
    number, kind = request.param
    shutil.unpack_archive(HERE / number / f"{kind}.zip", tmp_path)
    held = json.loads((HERE / number / f"{kind}.json").read_text())
    target = f"duckdb:{tmp_path}/golden.duckdb" if kind == "duckdb" else f"spark:{tmp_path}/golden"
    return target, held


def opened(target: str) -> tm.Database:
    return tm.connect(target, clock=lambda: LATER)


def test_an_older_database_holds_and_tells_what_it_did(golden: tuple[str, dict[str, Any]]) -> None:
    target, held = golden
    with opened(target) as db:
        assert db.version == held["version"]
        assert contents(db) == held["contents"]
        assert history(db) == held["changes"]
        check_invariant(db)


def test_an_older_database_tells_when_it_was_changed(golden: tuple[str, dict[str, Any]]) -> None:
    """The times of commits were stored before changes told them."""
    target, held = golden
    with opened(target) as db:
        assert {row["_time"] for row in db.changes("sale").to_pylist()} == {BEGAN}
        assert db.query(f"SELECT * FROM sale AS OF TIMESTAMP '{BEGAN}'").num_rows == len(held["contents"]["sale"])
        with pytest.raises(tm.TidemarkError, match="the oldest version is 1"):
            db.query("SELECT * FROM sale AS OF TIMESTAMP '2026-10-31'")
        versions = db.execute("SHOW VERSIONS")
        assert versions is not None and versions["version"].to_pylist() == list(range(held["version"], 0, -1))
        db.execute("DELETE FROM sale WHERE id = 1")
        assert db.changes("sale", since=held["version"])["_time"].to_pylist() == [LATER]
        assert rows(db.query(f"SELECT id FROM sale AS OF TIMESTAMP '{BEGAN}' WHERE id = 1")) == [(1,)]


def test_an_older_database_goes_on(golden: tuple[str, dict[str, Any]]) -> None:
    """Joins, groupings, recursion, rules, snapshots, continual queries and consumers follow what is changed now."""
    target, _ = golden
    told: list[list[Any]] = []
    with opened(target) as db:
        db.listen("prices", lambda channel, found: told.append(rows(found)))
        ledger = db.subscribe("total", name="ledger")
        while ledger.poll(0) is not None:
            pass
        with db.transaction() as tx:
            tx.execute(
                "INSERT INTO sale VALUES (10, 1, 'pot', 50, NULL), (11, 1, 'pot', 60, NULL), (12, 9, 'pot', 2, NULL)"
            )
            tx.execute("DELETE FROM sale WHERE id = 1")
            tx.execute("INSERT INTO edge VALUES (4, 6), (6, 2)")
            tx.execute("DELETE FROM edge WHERE x = 3 AND y = 1")
        db.execute("UPDATE sale SET amount = 3 WHERE id = 10")
        db.execute("REFRESH owners")
        assert ("pot", 4) in rows(db.query("SELECT * FROM orders"))
        assert told == [[(10,)]]
        assert [change.version for change in iter(lambda: ledger.poll(0), None)]
        assert rows(db.query("SELECT city, n FROM owners WHERE city = 'Rome'")) == [("Rome", 1)]
        assert db.results("rich", after=0).poll(0) is not None
        with pytest.raises(tm.TidemarkError) as refused:
            db.execute("UPDATE customer SET credit = -1 WHERE id = 1")
        assert refused.value.code == "assertion"
        check_invariant(db)
        now = contents(db), db.version
    with opened(target) as db:
        assert (contents(db), db.version) == now
        check_invariant(db)


def engine_of(target: str) -> Engine:
    kind, _, path = target.partition(":")
    if kind == "duckdb":
        from tidemark.engines.duckdb import DuckDBEngine

        return DuckDBEngine(path)
    from tidemark.engines.spark import SparkEngine

    return SparkEngine(path)


def with_other_states(target: str) -> tuple[int, set[str]]:
    """Leave a database as a Tidemark would that names all of its inner states otherwise: none is found under the name
    that is looked for, and one is there that nobody looks for. How many there were, and the logs, which stay."""
    engine = engine_of(target)
    try:
        version = engine.load().version
        logs = {name for name in engine.internal() if name == "outside" or name.startswith("_moved ")}
        states = sorted(engine.internal() - logs)
        number = Schema((Field("n", Type(Kind.INT)),))
        orphan = Creation("_state_of_nothing", number, logged=False, internal=True)
        engine.commit(Commit(version + 1, BEGAN, dropped=tuple(states), created=(orphan,)))
    finally:
        engine.close()
    return len(states), logs


def kept_for_rules(target: str) -> int:
    """How many states serve rules and assertions alone, which go without them until definitions change."""
    with opened(target) as db:
        nodes = db._store.network.nodes
        states = [node for node in nodes.values() if node.kind is NodeKind.STATE]
        return sum(not any(nodes[user].is_stored for user in node.views) for node in states)


def test_inner_states_that_are_not_found_are_filled_again_and_told(
    golden: tuple[str, dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    target, held = golden
    spared = kept_for_rules(target)
    lost, logs = with_other_states(target)
    lost -= spared
    assert lost > 5
    with opened(target) as db:
        assert len([one for one in caplog.records if "filled again" in one.message]) == lost
        assert db.version == held["version"] + 2
        told = rows(db.trace(db.version).select(["strategy", "reason"]))
        assert told == [("complete", "its state was not found under its name, and is filled again")] * lost
        assert contents(db) == held["contents"]
        assert history(db) == held["changes"]
        db.execute("INSERT INTO sale VALUES (10, 1, 'pot', 50, NULL), (11, 9, 'jar', 60, NULL)")
        db.execute("DELETE FROM sale WHERE id IN (1, 3)")
        db.execute("UPDATE customer SET city = 'Bern' WHERE id = 1")
        db.execute("REFRESH owners")
        assert ("Bern", 1) in rows(db.query("SELECT city, n FROM owners"))
        check_invariant(db)
        now = contents(db), db.version
    caplog.clear()
    with opened(target) as db:
        assert not caplog.records
        assert (contents(db), db.version) == now
    engine = engine_of(target)
    try:
        engine.load()
        assert "_state_of_nothing" not in engine.internal()
        assert logs <= engine.internal()
    finally:
        engine.close()


def test_a_view_whose_content_is_not_found_is_refused_by_name(golden: tuple[str, dict[str, Any]]) -> None:
    target, _ = golden
    engine = engine_of(target)
    engine.commit(Commit(engine.load().version + 1, BEGAN, dropped=("total",)))
    engine.close()
    with pytest.raises(tm.TidemarkError, match="'total'") as refused:
        opened(target)
    assert refused.value.code == "format"


def test_a_newer_format_is_refused_by_name(golden: tuple[str, dict[str, Any]]) -> None:
    target, _ = golden
    kind, _, path = target.partition(":")
    if kind == "duckdb":
        import duckdb

        with duckdb.connect(path) as file:
            file.execute("UPDATE _tidemark.format SET version = 99")
    else:
        (mark,) = Path(path).glob("*/lake.json")
        mark.write_text(json.dumps({"tidemark": "lake", "format": 99}))
    with pytest.raises(tm.TidemarkError, match="format 99, this Tidemark reads") as refused:
        opened(target)
    assert refused.value.code == "format"
