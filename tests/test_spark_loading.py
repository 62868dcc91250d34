"""A lake that is opened again holds what it held, whatever was merged, forgotten, dropped or altered before.

Transactions that have nothing but small deltas are read many at a time, without a look at each, so that opening takes
time for what is there and hardly any for how it came about.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tidemark as tm
from tests.golden.database import HERE
from tests.spark_support import ITEMS, KINDS, bag, commit, entries, open_engine
from tidemark.algebra.plans import Stored
from tidemark.algebra.types import INT, Field, Schema
from tidemark.engines.spark import SparkEngine, records
from tidemark.engines.spark.records import (
    Altered,
    Changed,
    Committed,
    Created,
    DataFile,
    Merged,
    Noted,
    Record,
    record_to_json,
)
from tidemark.engines.spark.session import IN_PROCESS
from tidemark.storage.commit import Alteration, Creation, Forgetting

FILE = DataFile("part-0.parquet", 3, 70)
SMALL, LARGE = Changed("a", inline=True), Changed("a", inserted=(FILE,))
EXAMPLES: dict[str, tuple[Record, bool, bool]] = {
    # is it plain, and may it name files
    "small": (Committed(1, (), (), (SMALL,), ()), True, False),
    "two small": (Committed(12, (), (), (SMALL, Changed('odd "name" \\ {}', inline=True)), ()), True, False),
    "nothing": (Committed(1, (), (), (), ()), True, False),
    "large": (Committed(1, (), (), (LARGE,), ()), False, True),
    "weighted": (Committed(1, (), (), (SMALL, Changed("b", weighted=(FILE,))), ()), False, True),
    "both": (Committed(1, (), (), (Changed("a", inserted=(FILE,), inline=True),), ()), False, True),
    "catalog": (Committed(1, ("x",), (), (SMALL,), ()), False, False),
    "created": (Committed(1, (), (Created("a", ITEMS, "d", True, False, (FILE,)),), (SMALL,), ()), False, False),
    "dropped": (Committed(1, (), (), (SMALL,), ("b",)), False, False),
    "altered": (Committed(1, (), (), (SMALL,), (), (Altered("a", ITEMS, (), (), ()),)), False, False),
    "notes": (Committed(1, (), (), (SMALL,), (), notes={"a": "b"}), False, False),
    "noted": (Noted(1, {"version": "1"}), False, False),
    "merged": (Merged(1, "a", (), (FILE,)), False, False),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_a_record_is_is_seen_from_its_text(name: str) -> None:
    record, is_plain, names_files = EXAMPLES[name]
    texts = pa.chunked_array([[record_to_json(record)]])
    assert records.are_plain(texts).to_pylist() == [is_plain]
    assert records.are_commits(texts).to_pylist() == [isinstance(record, Committed)]
    assert records.may_name_files(texts).to_pylist() == [names_files]
    assert records.record_from_json(record_to_json(record)) == record


class History:
    """Random commits to a lake whose sizes are so small that everything happens often."""

    def __init__(self, seed: int, lake: Path) -> None:
        self.random, self.lake = random.Random(seed), lake
        self.schemas: dict[str, Schema] = {}
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.engine = self._opened()

    def _opened(self) -> SparkEngine:
        sizes = {"inline_rows": 4, "merge_rows": 12, "merge_minimum": 6, "compact_every": 5, "forget_every": 2}
        return open_engine(self.lake, None, **(IN_PROCESS | sizes | {"recent_bytes": 2000}))

    def step(self) -> None:
        names = list(self.schemas)
        what = self.random.choices(
            ["change", "create", "drop", "alter", "merge", "note", "forget"], [20, 1, 0.5, 0.7, 1, 1, 1]
        )[0]
        name = self.random.choice(names) if names else None
        if what == "create" or name is None:
            new = self.random.choice(["a", "b", 'c "d" \\'])
            dropped = (new,) if new in self.schemas else ()
            commit(self.engine, created=(Creation(new, KINDS),), catalog=(f"made {new}",), dropped=dropped)
            self.schemas[new], self.rows[new] = KINDS, []
        elif what == "drop":
            commit(self.engine, dropped=(name,))
            del self.schemas[name], self.rows[name]
        elif what == "alter":
            before = self.schemas[name]
            after = Schema((*before.fields, Field(f"more{len(before)}", INT)))
            commit(self.engine, altered=(Alteration(name, before, after, (7,)),))
            self.schemas[name], self.rows[name] = after, [(*row, 7) for row in self.rows[name]]
        elif what == "merge":
            self.engine.merge(name)
        elif what == "note":
            self.engine.note({self.random.choice("xyz"): self.random.choice(["1", "2", None])})
        elif what == "forget":
            up_to = self.random.randint(0, self.engine.version)
            self.engine.forget({name: Forgetting(up_to, self._kept(name, up_to))}, up_to, {})
        else:
            commit(self.engine, {name: self._delta(name) for name in self.random.sample(names, min(2, len(names)))})

    def _kept(self, name: str, up_to: int) -> pa.Table | None:
        logged = self.engine.changes(name, max(0, up_to - 3))
        return logged.filter(pa.compute.less_equal(logged["_version"], up_to)) if self.random.random() < 0.5 else None

    def _delta(self, name: str) -> pa.Table:
        schema, held = self.schemas[name], self.rows[name]
        gone = self.random.sample(held, self.random.choice([0, 0, 1, min(len(held), 6)]) if held else 0)
        for row in gone:
            held.remove(row)
        come = [
            (self.random.randint(0, 4), self.random.choice(["p", None]), *(1 for _ in schema.names[2:]))
            for _ in range(self.random.choice([0, 1, 1, 2, 7]))
        ]
        come = [row for row in dict.fromkeys(come) if row not in gone]
        held += come
        parts = [entries(schema, come)]
        parts += [entries(schema, [row], -gone.count(row)) for row in dict.fromkeys(gone)]
        return pa.concat_tables(parts)

    def said(self) -> dict[str, Any]:
        """Everything that can be asked of the engine."""
        engine, versions = self.engine, range(0, self.engine.version + 1, 3)
        found: dict[str, Any] = {"version": engine.version}
        for name, schema in self.schemas.items():
            found[name] = bag(engine.evaluate(Stored(name, schema), {}))
            found[f"{name} rows"] = engine.rows(name)
            found[f"{name} log"] = [sorted(map(repr, engine.changes(name, since).to_pylist())) for since in versions]
            found[f"{name} order"] = engine.changes(name, 0)["_version"].to_pylist()
        found["logged"] = sorted((one.relation, one.version) for one in engine.logged())
        return found

    def published(self) -> dict[str, int | None]:
        paths = {name: relation.directory for name, relation in self.engine._relations.items()}
        return {
            path: DeltaTable((self.lake / path).as_uri()).transaction_version("tidemark") for path in paths.values()
        }

    def reopen(self) -> None:
        self.engine.close()
        self.engine = self._opened()


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(4))
def test_a_lake_says_after_opening_what_it_said_before(tmp_path: Path, seed: int) -> None:
    history = History(seed, tmp_path / "lake")
    for number in range(48):
        history.step()
        if number % 6 == 5:
            before, shown, notes = history.said(), history.published(), dict(history.engine._notes)
            for name, rows in history.rows.items():
                assert before[name] == {row: rows.count(row) for row in rows}
                assert before[f"{name} order"] == sorted(before[f"{name} order"])
            history.reopen()
            assert history.said() == before
            assert history.engine._notes == notes
            assert all((now or 0) >= (shown[path] or 0) for path, now in history.published().items())
    history.engine.close()


@pytest.mark.spark
def test_rows_that_say_nothing_any_more_go(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "lake", None, **(IN_PROCESS | {"forget_every": 1}))
    commit(engine, created=(Creation("kinds", KINDS),))
    for number in range(30):
        commit(engine, {"kinds": entries(KINDS, [(number, "x")])}, trace="[]")
    engine.forget({"kinds": Forgetting(25, None)}, 25, {}, oldest=24)
    held = engine._transactions._read(["version", "record"])
    plain = held.filter(records.are_plain(held["record"]))
    assert sorted(plain["version"].to_pylist()) == list(range(24, 32)), "from the oldest on they say when they were"
    assert engine.times()["version"].to_pylist() == [1, *range(24, 32)]
    engine.close()
    engine = open_engine(tmp_path / "lake", None, **IN_PROCESS)
    assert (engine.version, engine.rows("kinds")) == (31, 30)
    assert engine.changes("kinds", 25).num_rows == 6
    engine.close()


@pytest.mark.spark
def test_commits_leave_no_trail_behind_them(tmp_path: Path) -> None:
    """The table of transactions has as many files after many commits as after a few: Delta looks through them."""
    engine = open_engine(tmp_path / "lake", None, **(IN_PROCESS | {"compact_every": 10}))
    commit(engine, created=(Creation("kinds", KINDS),))
    counts = []
    for number in range(120):
        commit(engine, {"kinds": entries(KINDS, [(number, "x")])}, trace="[]")
        counts.append(sum(path.is_file() for path in (tmp_path / "lake/_tidemark/transactions").rglob("*")))
    assert max(counts[60:]) <= max(counts[:60])
    engine.close()


@pytest.mark.spark
@pytest.mark.parametrize("form", ["1", "2", "3"])
def test_a_lake_that_kept_a_trail_stops_to(tmp_path: Path, form: str) -> None:
    """Lakes of earlier forms have entries that delta-rs would have kept for a day: they go with the others."""
    shutil.unpack_archive(HERE / form / "lake.zip", tmp_path)
    log = tmp_path / "golden/_tidemark/transactions/_delta_log"
    trail = {path.name for path in log.iterdir()}
    assert len(trail) > 10
    with tm.Database(open_engine(tmp_path / "golden", None, **(IN_PROCESS | {"compact_every": 10}))) as db:
        for number in range(40):
            db.execute(f"INSERT INTO sale VALUES ({100 + number}, 1, 'pot', 1, NULL)")
        assert not trail & {path.name for path in log.iterdir()}
        assert len(list(log.iterdir())) < 40
