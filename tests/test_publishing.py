"""Published tables are true: other readers of a lake's Delta tables see a committed version of each, and its rows,
whatever happens, and the change data feed of each publication is the net change since the one before.

delta-rs is the other reader. It reads the rows, the feed, and each published version again.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import tidemark as tm
from tests.effort import examples
from tests.test_crash import killed_after
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark import records as records_module
from tidemark.engines.spark import stage as stage_module
from tidemark.engines.spark.publish import Publisher
from tidemark.engines.spark.records import Created
from tidemark.engines.spark.seals import Seals
from tidemark.engines.spark.transactions import Transactions
from tidemark.storage import store as store_module
from tidemark.storage.publishing import Rhythm, statistics

pytestmark = pytest.mark.spark

TYPES = (
    "id INT, small SMALLINT, big BIGINT, flag BOOLEAN, price DECIMAL(12,2), wide DECIMAL(38,4), f DOUBLE, "
    'name VARCHAR, day DATE, at TIMESTAMP, tags VARCHAR[], "odd name" INT'
)
SETUP = f"""
CREATE TABLE item ({TYPES});
CREATE TABLE kind (id INT PRIMARY KEY, label VARCHAR);
CREATE MATERIALIZED VIEW total AS SELECT name, COUNT(*) AS n, SUM(price) AS price FROM item GROUP BY name;
CREATE MATERIALIZED VIEW labelled AS SELECT i.id, k.label FROM item i JOIN kind k ON k.id = i.small;
"""
Rows = Counter[tuple[Any, ...]]


def opened(lake: Path, publish: Any = "commit") -> tm.Database:
    return tm.connect(f"spark:{lake}", options={"publish": publish})


def plain(value: Any) -> Any:
    return tuple(map(plain, value)) if isinstance(value, list) else value


def counted(table: pa.Table) -> Rows:
    return Counter(tuple(map(plain, row.values())) for row in table.to_pylist())


def table_of(lake: Path, name: str, version: int | None = None) -> DeltaTable:
    return DeltaTable(str(lake / "tables" / name), version=version)


def seen(lake: Path, name: str, version: int | None = None) -> tuple[int, Rows]:
    """The version that another reader is told of, and the rows."""
    table = table_of(lake, name, version)
    return table.transaction_version("tidemark") or 0, counted(table.to_pyarrow_table())


def fed(lake: Path, name: str, first: int, last: int) -> Rows:
    """The change data of some entries, with their signs."""
    signs = {"insert": 1, "delete": -1}
    found: Rows = Counter()
    table = pa.table(table_of(lake, name).load_cdf(starting_version=first, ending_version=last).read_all())
    for row in table.to_pylist():
        sign = signs[row.pop("_change_type")]
        del row["_commit_version"], row["_commit_timestamp"]
        found[tuple(map(plain, row.values()))] += sign
    return found


def difference(after: Rows, before: Rows) -> Rows:
    result = Counter(after)
    result.subtract(before)
    return Counter({row: count for row, count in result.items() if count})


def shown(db: tm.Database) -> dict[str, dict[str, Any]]:
    """What SHOW PUBLICATIONS says, by relation."""
    found = db.execute("SHOW PUBLICATIONS")
    assert found is not None
    return {one["name"]: one for one in found.to_pylist()}


def said_of(lake: Path, name: str) -> list[dict[str, Any]]:
    """The actions of the last entry."""
    log = lake / "tables" / name / "_delta_log"
    entry = log / f"{table_of(lake, name).version():020d}.json"
    return [json.loads(line) for line in entry.read_text().splitlines()]


class History:
    """Random transactions over a few tables, and what another reader should see after each publication."""

    def __init__(self, seed: int, lake: Path, publish: Any) -> None:
        self.random, self.lake, self.publish = random.Random(seed), lake, publish
        self.db = opened(lake, publish)
        self.db.execute(SETUP)
        self.names = ["item", "kind", "total", "labelled"]
        self.published: dict[str, list[tuple[int, int, Rows]]] = {}

    def step(self) -> None:
        steps = [
            self.insert,
            self.insert,
            self.double,
            self.update,
            self.delete,
            self.label,
            self.several,
            self.nothing,
        ]
        self.random.choice(steps)()

    def row(self) -> str:
        pick = self.random.choice
        return (
            f"({pick(range(8))}, {pick(['NULL', '1', '2', '3'])}, {pick(['NULL', '9000000000', '-1'])}, "
            f"{pick(['NULL', 'TRUE', 'FALSE'])}, {pick(['NULL', '1.50', '-2.25', '0.00'])}, "
            f"{pick(['NULL', '9999999999999999999999999999999999.0001', '-0.0001'])}, "
            f"{pick(['NULL', '0.5', '-1e300'])}, "
            f"{pick(['NULL', chr(39) * 2, repr('ä' * 40), repr('b'), repr('𝄞')])}, "
            f"{pick(['NULL', repr('2020-02-29'), repr('0001-01-01')])}, "
            f"{pick(['NULL', repr('2020-01-01 12:00:00.000001'), repr('1582-10-10 00:00:00')])}, "
            f"{pick(['NULL', 'ARRAY[]::VARCHAR[]', 'ARRAY[' + repr('x') + ', NULL]'])}, {pick(['NULL', '1'])})"
        )

    def insert(self) -> None:
        rows = ", ".join(self.row() for _ in range(self.random.randint(1, 4)))
        self.db.execute(f"INSERT INTO item VALUES {rows}")

    def double(self) -> None:
        row = self.row()
        self.db.execute(f"INSERT INTO item VALUES {row}, {row}, {row}")

    def update(self) -> None:
        chosen = self.random.randint(0, 7)
        self.db.execute(f"UPDATE item SET price = COALESCE(price, 0) + 1, name = 'b' WHERE id = {chosen}")

    def delete(self) -> None:
        self.db.execute(f"DELETE FROM item WHERE id = {self.random.randint(0, 7)}")

    def label(self) -> None:
        number = self.random.randint(1, 3)
        self.db.execute(f"DELETE FROM kind WHERE id = {number}")
        self.db.execute(f"INSERT INTO kind VALUES ({number}, '{self.random.choice('xyz')}')")

    def several(self) -> None:
        with self.db.transaction() as tx:
            tx.execute(f"INSERT INTO item VALUES {self.row()}, {self.row()}")
            tx.execute(f"DELETE FROM item WHERE id = {self.random.randint(0, 7)}")

    def nothing(self) -> None:
        self.db.execute("UPDATE item SET id = id WHERE id = 1")

    def reopen(self) -> None:
        self.db.close()
        self.db = opened(self.lake, self.publish)

    def check(self) -> None:
        """What another reader sees is what the database has, and the feed says how it came to be."""
        for name in self.names:
            version, rows = seen(self.lake, name)
            assert rows == counted(self.db.query(f"SELECT * FROM {name}")), name
            entry = table_of(self.lake, name).version()
            known = self.published.setdefault(name, [(-1, 0, Counter())])
            if entry > known[-1][0]:
                last, before, content = known[-1]
                assert version > before
                found = fed(self.lake, name, last + 1, entry)
                assert found == difference(rows, content), (name, version)
                known.append((entry, version, rows))
            else:
                assert rows == known[-1][2]

    def check_past(self) -> None:
        """Each published version is still there, and is told to be the version that it is."""
        for name, known in self.published.items():
            for entry, version, rows in known[1:]:
                assert seen(self.lake, name, entry) == (version, rows)
                assert counted(self.db.query(f"SELECT * FROM {name} AS OF VERSION {version}")) == rows


@pytest.mark.parametrize("seed", range(examples(10)))
def test_every_commit_is_published(seed: int, tmp_path: Path) -> None:
    history = History(seed, tmp_path / "lake", "commit")
    history.check()
    for number in range(25):
        version, entries = history.db.version, {n: table_of(history.lake, n).version() for n in history.names}
        history.step()
        history.check()
        for name in history.names:
            changes = history.db.changes(name, version)
            changed = set(changes["_version"].to_pylist())
            assert table_of(history.lake, name).version() == entries[name] + len(changed), "one entry for each version"
        if number % 9 == 8:
            history.reopen()
            history.check()
    history.check_past()
    assert not any(history.db.audit(name).num_rows for name in ("total", "labelled"))
    history.db.close()


@pytest.mark.parametrize("seed", range(examples(5)))
@pytest.mark.parametrize("publish", [3, "close"])
def test_a_publication_is_net_over_the_versions_that_it_covers(publish: Any, seed: int, tmp_path: Path) -> None:
    history = History(100 + seed, tmp_path / "lake", publish)
    for number in range(24):
        history.step()
        if number % 4 == 3:
            way = history.random.choice(["PUBLISH", "CHECKPOINT", "close"])
            history.reopen() if way == "close" else history.db.execute(way)
            history.check()
            assert all((one["behind"], one["error"]) == (0, None) for one in shown(history.db).values())
    history.check_past()
    history.db.close()
    for name in history.names:
        log = pa.table(table_of(history.lake, name).load_cdf(starting_version=0).read_all()).to_pylist()
        kinds: dict[tuple[Any, ...], set[str]] = {}
        for row in log:
            key = (*(plain(v) for k, v in row.items() if not k.startswith("_c")), row["_commit_version"])
            kinds.setdefault(key, set()).add(row["_change_type"])
        assert all(len(found) == 1 for found in kinds.values()), "no row comes and leaves in one publication"


def test_an_interval_publishes_in_the_background_and_is_a_lower_bound(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with opened(lake, "200ms") as db:
        db.execute("CREATE TABLE t (a INT)")
        assert seen(lake, "t") == (1, Counter())
        for number in range(30):
            db.execute(f"INSERT INTO t VALUES ({number})")
        one = shown(db)["t"]
        assert one["behind"] == db.version - one["version"]
        until = time.monotonic() + 30
        while seen(lake, "t")[0] < db.version and time.monotonic() < until:
            time.sleep(0.02)
        assert seen(lake, "t") == (db.version, Counter((n,) for n in range(30)))
        assert table_of(lake, "t").version() < 30, "not each version was published"


def test_an_interval_is_kept_while_somebody_commits_without_a_pause(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with opened(lake, "50ms") as db:
        db.execute("CREATE TABLE t (a INT)")
        until = time.monotonic() + 30
        for number in itertools.count():
            db.execute(f"INSERT INTO t VALUES ({number})")
            version, rows = seen(lake, "t")
            assert len(rows) == version - 1
            if table_of(lake, "t").version() >= 3 or time.monotonic() > until:
                break
        assert table_of(lake, "t").version() >= 3


def test_readers_see_a_committed_version_at_every_moment(tmp_path: Path) -> None:
    lake, done, problems = tmp_path / "lake", threading.Event(), list[str]()
    db = opened(lake, "commit")
    db.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM t")
    base = db.version

    def read() -> None:
        while not done.is_set():
            version, rows = seen(lake, "t")
            if len(rows) != version - base and version >= base:
                problems.append(f"{version}: {len(rows)} rows")
            version, rows = seen(lake, "n")
            if version > base and rows != Counter([(version - base,)]):
                problems.append(f"{version}: {rows}")

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(60):
        db.execute(f"INSERT INTO t VALUES ({number})")
    done.set()
    reader.join()
    db.close()
    assert not problems


def test_what_a_file_holds_is_said_in_full(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with opened(lake) as db:
        db.execute(SETUP)
        db.execute(
            "INSERT INTO item VALUES (1, 1, 1, TRUE, 1.50, 2.0001, 0.5, 'a', DATE '2020-01-01', "
            "TIMESTAMP '2020-01-01 00:00:00.000001', ARRAY['x'], 1), "
            f"(2, NULL, 5, FALSE, -1.5, 9999999999999999999999999999999999.0001, 2.5, '{'z' * 50}', DATE '2021-01-01', "
            "TIMESTAMP '2022-01-01 00:00:00', NULL, NULL)"
        )
    added = next(action["add"] for action in said_of(lake, "item") if "add" in action)
    stats = json.loads(added["stats"], parse_float=Decimal)
    assert stats["numRecords"] == 2
    assert stats["minValues"] == {
        **{"id": 1, "small": 1, "big": 1, "price": Decimal("-1.50"), "wide": Decimal("2.0001"), "f": Decimal("0.5")},
        **{"name": "a", "day": "2020-01-01", "at": "2020-01-01T00:00:00.000001", "odd_name": 1},
    }
    assert stats["maxValues"]["wide"] == Decimal("9999999999999999999999999999999999.0001")
    assert stats["maxValues"]["name"] == "z" * 32 + "\U0010ffff"
    nulls = dict.fromkeys(("id", "big", "flag", "price", "wide", "f", "name", "day", "at"), 0)
    assert stats["nullCount"] == nulls | {"small": 1, "odd_name": 1}
    found = QueryBuilder().register("item", table_of(lake, "item"))
    for condition in ("wide > 3", "name > 'y'", "at < TIMESTAMP '2020-01-01 00:00:01'", "small IS NULL", "price < 0"):
        assert pa.table(found.execute(f"SELECT id FROM item WHERE {condition}").read_all()).num_rows == 1, condition


def test_of_not_a_number_no_bound_is_said(tmp_path: Path) -> None:
    table = pa.table({"f": [1.0, float("nan")], "g": [1.0, None], "s": [None, None]})
    pq.write_table(table, tmp_path / "x.parquet")
    stats = json.loads(statistics(tmp_path / "x.parquet"))
    assert (stats["minValues"], stats["maxValues"]) == ({"g": 1.0}, {"g": 1.0})


def test_bounds_are_json_and_hold_whatever_is_cut_off(tmp_path: Path) -> None:
    last, start = "\U0010ffff", "p" * 32
    texts = ["a" * 40, start + last * 2 + "z", start]
    table = pa.table({"f": [1.0, math.inf, None], "g": [-math.inf, 2.0, 3.0], "s": texts, "w": [start + last] * 3})
    pq.write_table(table, tmp_path / "x.parquet")

    def refused(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    stats = json.loads(statistics(tmp_path / "x.parquet"), parse_constant=refused)
    assert stats["minValues"] == {"s": "a" * 32, "w": start}
    assert stats["maxValues"] == {"s": start + last * 3, "w": start + last}
    assert stats["nullCount"] == {"f": 1, "g": 0, "s": 0, "w": 0}


def test_texts_and_names_beyond_the_usual_planes_are_found_by_other_readers(tmp_path: Path) -> None:
    """delta-rs reads escaped pairs of surrogates as other characters, so that nothing of a log is escaped."""
    lake, name, longer = tmp_path / "lake", "\U00020bb7野屋", "\U00020bb7" * 40
    with opened(lake) as db:
        db.execute(f"""CREATE TABLE "\U00020bb7" (k INT, name VARCHAR, "\U00020bb7" VARCHAR);
            INSERT INTO "\U00020bb7" VALUES (1, 'Ada', ''), (2, '{name}', '{longer}')""")
        for _ in ("entries", "a checkpoint"):
            directory = lake / shown(db)["\U00020bb7"]["path"]
            table = DeltaTable(str(directory))
            assert [field.name for field in table.schema().fields] == ["k", "name", "\U00020bb7"]
            found = QueryBuilder().register("t", table)
            for column, value in (("name", name), ("\U00020bb7", longer)):
                rows = pa.table(found.execute(f"SELECT k FROM t WHERE \"{column}\" = '{value}'").read_all())
                assert rows.to_pydict() == {"k": [2]}, column
                assert table.to_pyarrow_table(filters=[(column, "=", value)])["k"].to_pylist() == [2]
            stats = pa.table(table.get_add_actions(flatten=True)).to_pylist()[0]
            assert stats["max.name"] == name and stats["max.\U00020bb7"] == "\U00020bb7" * 32 + "\U0010ffff"
            table.create_checkpoint()


NAMES = (
    ('"b c", b_c', ["b_c_2", "b_c"]),
    ('"a b", "a,b", "a;b"', ["a_b", "a_b_2", "a_b_3"]),
    ('"a b", "A_b", a_b_2', ["a_b_3", "A_b", "a_b_2"]),
    ('"b c", "B_C", b_c_2, "b=c"', ["b_c_3", "B_C", "b_c_2", "b_c_4"]),
    ('"p.q", "q""q", "b`t", "x{y}", "t\tt", "sélect"', ["p.q", 'q"q', "b`t", "x_y_", "t_t", "sélect"]),
)


@pytest.mark.parametrize(("columns", "published"), NAMES)
def test_a_name_that_others_can_read_stays_and_others_get_numbers(
    columns: str, published: list[str], tmp_path: Path
) -> None:
    lake, count = tmp_path / "lake", len(published)
    with opened(lake) as db:
        db.execute(f"CREATE TABLE t ({', '.join(f'{name} INT' for name in columns.split(', '))})")
        db.execute(f"INSERT INTO t VALUES ({', '.join(map(str, range(count)))})")
        db.execute('ALTER TABLE t ADD COLUMN "x y" INT DEFAULT 7; ALTER TABLE t ADD COLUMN x_y INT DEFAULT 8')
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    with opened(lake) as db:
        db.execute("INSERT INTO t SELECT * FROM t; DELETE FROM t WHERE x_y = 9; CHECKPOINT")
        wanted = Counter({(*range(count), 7, 8): 2})
        assert counted(db.query("SELECT * FROM t")) == wanted
        assert seen(lake, "t") == (db.version - 1, wanted) and seen(lake, "v")[1] == wanted
        names = {name: table_of(lake, name).to_pyarrow_table().column_names for name in ("t", "v")}
        assert names["t"] == [*published, "x_y", "x_y_2"], "columns that are there keep their names"
        db.execute('CREATE TABLE o ("x y" INT); INSERT INTO o VALUES (1); ALTER TABLE o ADD COLUMN x_y INT DEFAULT 2')
        assert table_of(lake, "o").to_pyarrow_table().to_pydict() == {"x_y": [1], "x_y_2": [2]}
        assert counted(db.query('SELECT x_y, "x y" FROM o')) == Counter([(2, 1)])
        assert db.changes("t", since=1).num_rows == 2 and not db.audit("v").num_rows


def test_a_lake_of_an_earlier_tidemark_keeps_the_names_in_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = records_module._created_to_json

    def earlier(created: Any) -> dict[str, Any]:
        return {key: value for key, value in whole(created).items() if key != "named"}

    lake, rows = tmp_path / "lake", Counter([(1, 2)])
    monkeypatch.setattr(records_module, "_created_to_json", earlier)
    monkeypatch.setattr(stage_module, "Created", partial(Created, named=False))
    with opened(lake) as db:
        db.execute('CREATE TABLE t ("b c" INT, b_c INT); INSERT INTO t VALUES (1, 2)')
    monkeypatch.undo()
    with opened(lake) as db:
        assert counted(db.query('SELECT "b c", b_c FROM t')) == rows
        db.execute("INSERT INTO t VALUES (1, 2); CHECKPOINT")
        assert seen(lake, "t")[1] == rows + rows
        assert table_of(lake, "t").to_pyarrow_table().column_names == ["b_c", "b_c_2"]


def test_definitions_are_followed(tmp_path: Path) -> None:
    """A table that is dropped is gone; what replaces another lies in its place, and goes on from there."""
    lake = tmp_path / "lake"
    with opened(lake) as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a, a * 2 AS b FROM t WHERE a > 1")
        assert seen(lake, "v") == (db.version, Counter([(2, 4)]))
        db.execute("INSERT INTO t VALUES (3)")
        assert seen(lake, "v") == (db.version, Counter([(2, 4), (3, 6)]))
        assert fed(lake, "v", table_of(lake, "v").version(), table_of(lake, "v").version()) == Counter([(3, 6)])
        db.execute("ALTER TABLE t ADD COLUMN c INT")
        assert seen(lake, "t") == (db.version, Counter([(n, None) for n in (1, 2, 3)]))
        assert not any(action.get("add", {}).get("dataChange") for action in said_of(lake, "t")), "no row was changed"
        db.execute("ALTER TABLE t ADD COLUMN d INT DEFAULT 7")
        assert seen(lake, "t") == (db.version, Counter([(n, None, 7) for n in (1, 2, 3)]))
        db.execute("DROP VIEW v")
        assert not (lake / "tables" / "v").exists()
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT c FROM t")
        assert seen(lake, "v") == (db.version, Counter([(None,)] * 3))
        assert table_of(lake, "v").version() == 0
        assert [one["path"] for one in shown(db).values()] == ["tables/t", "tables/v"]
    with opened(lake) as db:
        assert seen(lake, "v")[1] == counted(db.query("SELECT * FROM v"))


def test_a_publication_that_fails_fails_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    with opened(lake) as db:
        db.execute("CREATE TABLE t (a INT); CREATE TABLE u (a INT); INSERT INTO t VALUES (1)")
        original = Publisher._put

        def refuse(self: Publisher, table: Path, entry: int, data: bytes) -> None:
            if table.name == "t":
                raise OSError(28, "No space left on device")
            original(self, table, entry, data)

        monkeypatch.setattr(Publisher, "_put", refuse)
        with db.transaction() as tx:
            tx.execute("INSERT INTO t VALUES (2)")
            tx.execute("INSERT INTO u VALUES (2)")
        db.execute("DELETE FROM t WHERE a = 1")
        assert seen(lake, "u")[1] == Counter([(2,)]), "others are published"
        assert "No space left" in shown(db)["t"]["error"]
        assert shown(db)["t"]["behind"] == 2
        with pytest.raises(OSError, match="No space left"), monkeypatch.context():
            db._store.engine.publish("t")
        monkeypatch.undo()
        until = time.monotonic() + 30
        while seen(lake, "t")[0] < db.version and time.monotonic() < until:
            time.sleep(0.05)
        assert seen(lake, "t") == (db.version, Counter([(2,)])), "it was tried again, although nobody committed"
        last = table_of(lake, "t").version()
        assert fed(lake, "t", last, last) == Counter({(2,): 1, (1,): -1}), "of both versions"
        assert (shown(db)["t"]["behind"], shown(db)["t"]["error"]) == (0, None)


def test_what_somebody_else_writes_is_noticed_and_put_right(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = tmp_path / "lake"
    with opened(lake) as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")
        before = table_of(lake, "t").version()
        table_of(lake, "t").delete("a = 1")
        assert "somebody else" in shown(db)["t"]["error"]
        with tm.connect(f"spark:{lake}", read_only=True) as reader:
            assert "somebody else" in shown(reader)["t"]["error"]
        db.execute("INSERT INTO t VALUES (3)")
        assert seen(lake, "t") == (db.version, Counter([(1,), (2,), (3,)])), "readers miss no row that is committed"
        assert shown(db)["t"]["error"] is None
        assert fed(lake, "t", before + 1, table_of(lake, "t").version()) == Counter([(3,)])
        db.execute("DELETE FROM t WHERE a = 2")
        assert seen(lake, "t") == (db.version, Counter([(1,), (3,)]))
    told = [record for record in caplog.records if record.name.startswith("tidemark")]
    assert [record.exc_info for record in told] == [None] and "somebody else has written" in told[0].getMessage()


@pytest.mark.parametrize("publish", ["commit", "1h", "close"])
@pytest.mark.parametrize("way", ["PUBLISH", "PUBLISH t", "CHECKPOINT", "close"])
def test_what_somebody_else_writes_is_put_right_although_nothing_has_changed(
    way: str, publish: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = tmp_path / "lake"
    with opened(lake, publish) as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); PUBLISH")
        row = pa.table({"a": pa.array([67], pa.int32())})
        for _ in range(2):
            write_deltalake(str(lake / "tables" / "t"), row, mode="append")
        assert "somebody else" in shown(db)["t"]["error"]
        db.close() if way == "close" else db.execute(way)
        assert seen(lake, "t") == (db.version if way != "close" else 2, Counter([(1,)]))
        if way != "close":
            assert (shown(db)["t"]["behind"], shown(db)["t"]["error"]) == (0, None)
            entry = table_of(lake, "t").version()
            db.execute(way)
            assert table_of(lake, "t").version() == entry, "there was nothing to do"
    told = [record for record in caplog.records if record.name.startswith("tidemark")]
    assert [record.exc_info for record in told] == [None]


def test_what_an_overtaken_writer_publishes_undoes_nothing(tmp_path: Path) -> None:
    """It finds entries of its successor, which are no foreign ones."""
    lake = tmp_path / "lake"
    late = SparkEngine(lake, publish=Rhythm(versions=1))
    with tm.Database(late) as before:
        before.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
        with tm.connect(f"spark:{lake}", options={"publish": "commit"}, takeover=True) as db:
            db.execute("INSERT INTO t VALUES (2)")
            with pytest.raises(tm.TidemarkError) as error:
                before.execute("PUBLISH")
            assert error.value.code == "fenced"
            assert seen(lake, "t")[1] == Counter([(1,), (2,)])


def test_somebody_who_writes_again_and_again_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, original = tmp_path / "lake", Publisher._put
    with opened(lake) as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")

        def late(self: Publisher, table: Path, entry: int, data: bytes) -> None:
            if table.name == "t":
                write_deltalake(str(table), pa.table({"a": pa.array([66], pa.int32())}), mode="append")
            original(self, table, entry, data)

        monkeypatch.setattr(Publisher, "_put", late)
        db.execute("INSERT INTO t VALUES (2)")
        assert "somebody else" in shown(db)["t"]["error"]
        with pytest.raises(tm.StorageError, match="somebody else"):
            db.execute("PUBLISH t")
        monkeypatch.undo()
        db.execute("PUBLISH t")
        assert seen(lake, "t") == (db.version, Counter([(1,), (2,)]))


def test_a_long_history_leaves_a_short_log_and_few_files(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    options: dict[str, Any] = {
        "checkpoint_every": 8,
        "keep_publications": 20,
        "keep_merged_seconds": 0,
        "sweep_after_seconds": 0,
    }
    options |= {"keep_feed_seconds": 3600, "many_files": 6}
    engine = SparkEngine(lake, publish=Rhythm(versions=1), **options)
    with tm.Database(engine) as db:
        db.execute("CREATE TABLE t (a INT, b INT); CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM t")
        for number in range(120):
            db.execute(
                f"INSERT INTO t VALUES ({number}, 0)" if number % 3 else f"UPDATE t SET b = {number} WHERE a = 1"
            )
            assert len(table_of(lake, "t").file_uris()) <= 8
        assert seen(lake, "t")[1] == counted(db.query("SELECT * FROM t"))
        log = lake / "tables" / "t" / "_delta_log"
        entries = sorted(int(path.stem) for path in log.glob("*.json"))
        assert 20 <= len(entries) <= 40
        assert entries[0] > 60
        first = max(
            int(path.name[:20]) for path in log.glob("*.checkpoint.parquet") if int(path.name[:20]) <= entries[0]
        )
        assert first == entries[0], "whoever begins at the oldest entry finds its checkpoint"
        for entry in entries[-20:]:
            assert table_of(lake, "t", entry).transaction_version("tidemark")
        assert len(list((lake / "tables" / "n" / "_change_data").iterdir())) <= 60
        last = table_of(lake, "n").version()
        found = fed(lake, "n", last - 14, last)
        assert sorted(count for count in found.values() if count) == [-1, 1], "one number for another, over all"
    with opened(lake) as db:
        assert seen(lake, "t")[1] == counted(db.query("SELECT * FROM t"))
        assert not any(one["error"] for one in shown(db).values())


def test_a_log_is_cut_behind_what_is_published(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with opened(lake, "close") as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2), (3)")
    with opened(lake, "close") as db:
        for number in range(4):
            db.execute(f"UPDATE t SET a = a + 10 WHERE a = {10 * number + 1}")
        first = table_of(lake, "t").version()
        engine: Any = db._store.engine
        engine._publications._held.clear()  # as if it had been too much to hold
        db.execute("ALTER LOG SET (versions = 1)")
        db.execute("DELETE FROM t WHERE a = 2")
    last = table_of(lake, "t").version()
    assert last > first
    assert fed(lake, "t", first + 1, last) == Counter({(1,): -1, (41,): 1, (2,): -1})


def test_compaction_is_no_change(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with tm.Database(SparkEngine(lake, publish=Rhythm(versions=1), inline_rows=0, many_files=3)) as db:
        db.execute("CREATE TABLE t (a INT)")
        for number in range(12):
            before = table_of(lake, "t").version()
            db.execute(f"INSERT INTO t VALUES ({number})")
            after = table_of(lake, "t").version()
            assert fed(lake, "t", before + 1, after) == Counter([(number,)])


def test_a_lake_that_dies_while_it_publishes_is_rolled_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each write of some commits the lake is copied: what a process leaves that is killed there."""
    lake, copies = tmp_path / "lake", list[Path]()
    contents: dict[str, dict[int, Rows]] = {"item": {}, "total": {}}

    def keep(what: str) -> None:
        copies.append(tmp_path / "copies" / f"{len(copies)} {what}")
        shutil.copytree(lake, copies[-1])

    def copying(owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def wrapped(*arguments: Any, **named: Any) -> Any:
            keep(f"before {name}")
            result = original(*arguments, **named)
            keep(f"after {name}")
            return result

        monkeypatch.setattr(owner, name, wrapped)

    with opened(lake) as db:
        db.execute("CREATE TABLE item (a INT, b INT)")
        db.execute("CREATE MATERIALIZED VIEW total AS SELECT b, COUNT(*) AS n FROM item GROUP BY b")
        db.execute("INSERT INTO item VALUES (1, 1), (2, 1), (3, 2)")
        copying(Seals, "put")
        copying(Transactions, "append_merges")
        copying(store_module, "write_new")
        copying(Publisher, "_fed")
        for text in ("INSERT INTO item VALUES (4, 2), (4, 2)", "DELETE FROM item WHERE a = 4", "UPDATE item SET b = 9"):
            for name, known in contents.items():
                known[db.version] = counted(db.query(f"SELECT * FROM {name}"))
            db.execute(text)
        for name, known in contents.items():
            known[db.version] = counted(db.query(f"SELECT * FROM {name}"))
    monkeypatch.undo()
    assert len(copies) > 30
    for copy in copies[:: max(1, len(copies) // 24)]:
        for name, known in contents.items():
            version, rows = seen(copy, name)
            assert rows == known[version], copy.name
        with opened(copy) as db:
            for name, known in contents.items():
                assert seen(copy, name)[1] == known[db.version] == counted(db.query(f"SELECT * FROM {name}")), copy.name
                last = table_of(copy, name).version()
                assert fed(copy, name, 0, last) == known[db.version], copy.name


@pytest.mark.slow
@pytest.mark.parametrize("publish", ["commit", "20ms"])
def test_a_process_that_is_killed_leaves_tables_that_can_be_read(publish: str, tmp_path: Path) -> None:
    lake, last, chance = tmp_path / "lake", 0, random.Random(20261119)
    names = ("done", "line", "totals", "summary")
    for _ in range(4):
        killed_after(f"spark:{lake}", last + 1, chance.randint(2, 12), chance.uniform(0, 0.2), options=(publish,))
        left = {name: seen(lake, name) for name in names}
        with opened(lake, publish) as db:
            last = db.query("SELECT * FROM done").num_rows
            for name, (version, rows) in left.items():
                assert rows == counted(db.query(f"SELECT * FROM {name} AS OF VERSION {version}")), name
                now = counted(db.query(f"SELECT * FROM {name}"))
                assert seen(lake, name)[1] == now
                assert fed(lake, name, 0, table_of(lake, name).version()) == now
    assert last > 8


@pytest.mark.parametrize("value", ["now", "", 0, -1, True, "0s", "5", 1.5, None, "-1s"])
def test_what_is_no_rhythm_is_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(tm.TidemarkError, match="publish is") as caught:
        opened(tmp_path / "lake", value)
    assert caught.value.code == "option"
    assert not (tmp_path / "lake").exists()


def test_only_lakes_publish() -> None:
    with pytest.raises(tm.TidemarkError, match="publishes nothing"):
        tm.connect("duckdb", options={"publish": "1s"})
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT)")
        assert not shown(db)
        with pytest.raises(tm.TidemarkError, match="only the relations of a lake"):
            db.execute("PUBLISH")


def test_a_relation_that_is_not_stored_cannot_be_published(tmp_path: Path) -> None:
    with opened(tmp_path / "lake", "close") as db:
        db.execute("CREATE TABLE t (a INT); CREATE VIEW v AS SELECT * FROM t; INSERT INTO t VALUES (1)")
        with pytest.raises(tm.TidemarkError, match="v is not stored"):
            db.execute("PUBLISH v")
        with pytest.raises(tm.TidemarkError, match="nobody"):
            db.execute("PUBLISH nobody")
        assert seen(tmp_path / "lake", "t")[1] == Counter()
        db.execute("PUBLISH t")
        assert seen(tmp_path / "lake", "t") == (db.version, Counter([(1,)]))


def test_times_before_delta_are_no_trouble(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with opened(lake) as db:
        db.execute("CREATE TABLE t (d DATE, at TIMESTAMP)")
        db.insert("t", [(dt.date(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999))])
        assert seen(lake, "t")[1] == counted(db.query("SELECT * FROM t"))
