"""Tables that follow Delta tables of others, on every engine: definitions, pulls, what stops a source."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tidemark as tm
from tests.conformance.conftest import open_database
from tests.foreign import Foreign
from tests.support import bag_of, changes_at, check_invariant, rows

SPARK_VARIANTS = ("spark",)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "foreign"
    folder.mkdir()
    return folder


@pytest.fixture
def db(engine: str, request: pytest.FixtureRequest, tmp_path: Path, lake: Path) -> Iterator[tm.Database]:
    database = open_database(engine, request, tmp_path, allowed=[lake])
    yield database
    check_invariant(database)
    database.close()


def script(lake: Path) -> str:
    return f"""
        CREATE OR REPLACE SOURCE lake TYPE delta OPTIONS (path '{lake}');
        CREATE OR REPLACE TABLE sale FROM SOURCE lake RELATION 'sale' KEY (id);
        CREATE TABLE IF NOT EXISTS bonus FROM SOURCE lake RELATION 'bonus';
        CREATE OR REPLACE MATERIALIZED VIEW total AS
            SELECT s.grp, COUNT(*) AS n, SUM(b.amount) AS bonus FROM sale s JOIN bonus b ON b.id = s.id GROUP BY s.grp;
    """


def shown(db: tm.Database) -> dict[str, Any]:
    (row,) = rows_as_dicts(db.execute("SHOW SOURCES"))
    return row


def rows_as_dicts(table: pa.Table | None) -> list[dict[str, Any]]:
    assert table is not None
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def refused(db: tm.Database, sql: str, code: str, told: str = "") -> None:
    with pytest.raises(tm.TidemarkError, match=told or None) as error:
        db.execute(sql)
    assert error.value.code == code


@pytest.mark.parametrize("feed", [True, False])
def test_a_pull_is_one_version_with_all_tables_in_it(db: tm.Database, lake: Path, feed: bool) -> None:
    sale, bonus = Foreign(lake / "sale", feed), Foreign(lake / "bonus", feed)
    sale.write([(1, "a", 100), (2, "a", 200), (3, None, None)])
    bonus.write([(1, "x", 10), (1, "x", 10), (2, "y", 5)])
    db.execute(script(lake))
    version = db.version
    assert db.pull() == 6 and db.version == version + 1
    assert rows(db.query("SELECT * FROM total")) == [("a", 3, Decimal("0.25"))]
    assert db.pull() == 0 and db.version == version + 1
    sale.update("id = 2", grp="'b'")
    sale.delete("id = 3")
    bonus.write([(2, "y", 5)])
    bonus.compact()
    assert db.pull() == 4 and db.version == version + 2
    assert changes_at(db, "sale") == {
        (2, "a", Decimal("2.00")): -1,
        (2, "b", Decimal("2.00")): 1,
        (3, None, None): -1,
    }
    assert changes_at(db, "total") == {
        ("a", 3, Decimal("0.25")): -1,
        ("a", 2, Decimal("0.20")): 1,
        ("b", 2, Decimal("0.10")): 1,
    }
    found = shown(db)
    assert (found["status"], found["tables"], found["version"]) == ("active", "bonus, sale", version + 2)
    assert found["position"] == "sale 2, bonus 2"


def test_the_same_script_again_refills_nothing(db: tm.Database, lake: Path) -> None:
    for name in ("sale", "bonus"):
        Foreign(lake / name).write([(1, "a", 100)])
    db.execute(script(lake))
    db.pull()
    version = db.version
    db.execute(script(lake))
    assert db.pull() == 0
    made = range(version + 1, db.version + 1)
    assert len(made) <= 1 and not any(rows_as_dicts(db.trace(one)) for one in made), "nothing was to be done"
    assert db.changes("sale", since=version).num_rows == db.changes("total", since=version).num_rows == 0
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT grp, 1 AS n, NULL::DECIMAL AS bonus FROM sale")
    assert rows(db.query("SELECT * FROM total")) == [("a", 1, None)]


def test_what_is_refused_stops_its_source_and_no_other(db: tm.Database, lake: Path) -> None:
    sale, other = Foreign(lake / "one" / "sale"), Foreign(lake / "two" / "sale")
    sale.write([(1, "a", 100)])
    other.write([(1, "a", 100)])
    db.execute(f"""
        CREATE SOURCE one TYPE delta OPTIONS (path '{lake / "one"}');
        CREATE SOURCE two TYPE delta OPTIONS (path '{lake / "two"}');
        CREATE TABLE sale FROM SOURCE one RELATION 'sale' KEY (id);
        CREATE TABLE other (id BIGINT, amount DECIMAL(8, 2) CHECK (amount > 0)) FROM SOURCE two RELATION 'sale';
    """)
    assert db.pull() == 2
    sale.write([(1, "b", 1)])
    other.write([(2, "b", 1)])
    with pytest.raises(tm.ConstraintError, match="the source 'one' has stopped: duplicate key"):
        db.pull()
    assert rows(db.query("SELECT id FROM sale")) == [(1,)], "nothing of it was taken"
    assert rows(db.query("SELECT id FROM other")) == [(1,), (2,)], "the other one went on"
    one, two = rows_as_dicts(db.execute("SHOW SOURCES"))
    assert (one["status"], two["status"]) == ("stopped", "active") and "duplicate key" in one["error"]
    other.write([(3, "c", -1)])
    with pytest.raises(tm.ConstraintError, match=r"'one' has stopped.*'two' has stopped"):
        db.pull()
    sale.delete("grp = 'b'")
    other.delete("id = 3")
    assert db.pull() == 0, "it goes on when the reason is gone, and what came and went is no change"
    assert {row["status"] for row in rows_as_dicts(db.execute("SHOW SOURCES"))} == {"active"}


def test_views_and_assertions_can_refuse_a_pull(db: tm.Database, lake: Path) -> None:
    sale = Foreign(lake / "sale")
    sale.write([(1, "a", 100)])
    db.execute(f"""
        CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}');
        CREATE TABLE sale FROM SOURCE lake RELATION 'sale';
        CREATE MATERIALIZED VIEW v AS SELECT id, 100 / id AS part FROM sale;
        CREATE ASSERTION few CHECK (NOT EXISTS (SELECT * FROM sale WHERE id > 10));
    """)
    assert db.pull() == 1
    sale.write([(0, "z", 1)])
    with pytest.raises(tm.EvaluationError, match="'lake' has stopped"):
        db.pull()
    sale.delete("id = 0")
    sale.write([(11, "z", 1)])
    with pytest.raises(tm.ConstraintError, match="the assertion 'few' does not hold"):
        db.pull()
    sale.delete("id = 11")
    sale.write([(5, "z", 1)])
    assert db.pull() == 1
    assert rows(db.query("SELECT * FROM v")) == [(1, 100), (5, 20)]


def test_a_source_is_paused_resumed_and_compared(db: tm.Database, lake: Path) -> None:
    sale = Foreign(lake / "sale")
    sale.write([(1, "a", 100)])
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}')")
    db.execute("CREATE TABLE sale FROM SOURCE lake RELATION 'sale'")
    db.execute("ALTER SOURCE lake PAUSE")
    assert db.pull() == 0 and shown(db)["status"] == "paused"
    db.execute("ALTER SOURCE lake RESUME")
    assert db.pull() == 1 and shown(db)["compared"] is None
    sale.write([(2, "a", 100)])
    db.execute("ALTER SOURCE lake RESYNC")
    assert db.pull() == 1 and shown(db)["compared"] == "sale: RESYNC asks for it"
    assert db.pull() == 0 and changes_at(db, "sale") == {(2, "a", Decimal("1.00")): 1}
    sale.delete("id = 2")
    db.execute("ALTER SOURCE lake PAUSE; ALTER SOURCE lake RESYNC")
    assert shown(db)["status"] == "paused" and db.pull() == 0, "it is compared when it goes on"
    db.execute("ALTER SOURCE lake RESUME")
    assert db.pull() == 1 and shown(db)["compared"] == "sale: RESYNC asks for it"
    sale.path.rename(sale.path.with_name("away"))
    with pytest.raises(tm.StorageError):
        db.pull()
    db.execute("ALTER SOURCE lake PAUSE")
    assert shown(db)["status"] == "paused" and "no Delta table" in shown(db)["error"]
    refused(db, "ALTER SOURCE nobody PAUSE", "unknown_source")
    refused(db, "ALTER SOURCE lake STOP", "syntax", "STOP is nothing that a source does")


@pytest.mark.parametrize("feed", [True, False])
def test_a_vacuumed_version_is_compared_as_a_whole(db: tm.Database, lake: Path, feed: bool) -> None:
    sale = Foreign(lake / "sale", feed)
    sale.write([(1, "a", 100), (2, "a", 200)])
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}')")
    db.execute("CREATE TABLE sale FROM SOURCE lake RELATION 'sale' KEY (id)")
    db.pull()
    sale.update("id = 1", amount="7.5")
    sale.write([(3, "c", 1)])
    sale.compact()
    sale.vacuum()
    for file in (lake / "sale").glob("_change_data/*"):
        file.unlink()  # its retention is over, too
    assert db.pull() == 3
    assert "sale: the file " in shown(db)["compared"] and "vacuumed" in shown(db)["compared"]
    assert changes_at(db, "sale") == {
        (1, "a", Decimal("1.00")): -1,
        (1, "a", Decimal("7.50")): 1,
        (3, "c", Decimal("0.01")): 1,
    }


def test_a_replaced_a_restored_and_a_missing_table(db: tm.Database, lake: Path) -> None:
    sale = Foreign(lake / "sale")
    sale.write([(1, "a", 100), (2, "a", 200)])
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}')")
    db.execute("CREATE TABLE sale FROM SOURCE lake RELATION 'sale' KEY (id)")
    db.pull()
    shutil.rmtree(sale.path)
    with pytest.raises(tm.StorageError, match="the source 'lake' has stopped: there is no Delta table at"):
        db.pull()
    sale.write([(1, "a", 100), (3, "c", 1)])
    assert db.pull() == 2 and "replaced by another table" in shown(db)["compared"]
    sale.write([(4, "d", 1)])
    sale.delete("id = 1")
    db.pull()
    sale.restore(2)
    assert db.pull() == 2 and rows(db.query("SELECT id FROM sale")) == [(1,), (3,)]


def test_a_table_that_is_dropped_begins_anew(db: tm.Database, lake: Path) -> None:
    Foreign(lake / "sale").write([(1, "a", 100)])
    Foreign(lake / "bonus").write([(1, "a", 100)])
    db.execute(script(lake))
    assert db.pull() == 2
    refused(db, "DROP SOURCE lake", "dependents", "sale, bonus")
    with db.transaction() as tx:
        tx.execute("DROP TABLE bonus CASCADE")
        tx.execute("CREATE TABLE bonus FROM SOURCE lake RELATION 'bonus' KEY (id)")
    assert rows(db.query("SELECT * FROM bonus")) == []
    assert db.pull() == 1
    db.execute("CREATE OR REPLACE TABLE bonus (id BIGINT) FROM SOURCE lake RELATION 'bonus'")
    assert db.pull() == 1 and rows(db.query("SELECT * FROM bonus")) == [(1,)]
    db.execute("DROP SOURCE lake CASCADE")
    assert db.execute("SHOW TABLES").num_rows == 0  # type: ignore[union-attr]
    assert db.execute("SHOW SOURCES").num_rows == 0  # type: ignore[union-attr]
    refused(db, "DROP SOURCE lake", "unknown_source")
    db.execute("DROP SOURCE IF EXISTS lake")


def test_a_table_whose_columns_have_other_types_is_really_replaced(db: tm.Database, lake: Path) -> None:
    path, replacing = str(lake / "t"), "CREATE OR REPLACE TABLE t FROM SOURCE lake RELATION 't' KEY (id)"
    write_deltalake(path, pa.table({"id": [1, 2], "more": [7, 8]}))
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}'); {replacing}")
    assert db.pull() == 2
    version = db.version
    db.execute(replacing)
    assert db.version == version
    write_deltalake(path, pa.table({"id": ["x"], "other": [5]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(tm.StatementError, match="'lake' has stopped") as error:
        db.pull()
    assert "CREATE OR REPLACE TABLE t FROM SOURCE" in str(error.value.hint)
    db.execute(replacing)
    assert (rows(db.query("SELECT * FROM t")), db.version) == ([], version + 1)
    assert db.pull() == 1 and rows(db.query("SELECT id, other FROM t")) == [("x", 5)]
    assert changes_at(db, "t") == {("x", 5): 1}
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t; CREATE VIEW w AS SELECT * FROM v")
    write_deltalake(path, pa.table({"id": [3.5], "other": [5]}), mode="overwrite", schema_mode="overwrite")
    for told in (lambda: db.pull(), lambda: db.execute(replacing)):
        with pytest.raises(tm.StatementError) as error:
            told()
        assert "DROP TABLE t CASCADE" in str(error.value.hint)
    refused(db, "CREATE OR REPLACE TABLE t FROM SOURCE lake RELATION 't'", "dependents", "'t' is needed by v, w")
    assert rows(db.query("SELECT id, n FROM t, w")) == [("x", 1)], "what was refused has changed nothing"
    shutil.move(path, lake / "away")
    version = db.version
    db.execute(replacing)
    assert db.version == version, "what cannot be read now is a matter of the pull"
    shutil.move(lake / "away", path)
    db.execute(f"DROP TABLE t CASCADE; {replacing}; CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
    assert db.pull() == 1 and rows(db.query("SELECT id, n FROM t, v")) == [(3.5, 1)]
    refused(db, "CREATE OR REPLACE TABLE t (id BIGINT) FROM SOURCE lake RELATION 't'", "type", "is double")


def test_nothing_else_changes_such_a_table(db: tm.Database, lake: Path) -> None:
    Foreign(lake / "sale").write([(1, "a", 100)])
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}')")
    db.execute("CREATE TABLE sale FROM SOURCE lake RELATION 'sale'; CREATE TABLE own (id BIGINT)")
    db.pull()
    for sql in ("INSERT INTO sale VALUES (1, 'a', 1)", "UPDATE sale SET id = 2", "DELETE FROM sale"):
        refused(db, sql, "read_only", "follows 'sale' of the source 'lake'")
    for call in (
        lambda: db.insert("sale", [(1, "a", 1)]),
        lambda: db.delete("sale", [(1, "a", Decimal(1))]),
        lambda: db.sync("sale", []),
        lambda: db.executemany("DELETE FROM sale WHERE id = ?", [(1,)]),
    ):
        with pytest.raises(tm.StatementError) as error:
            call()
        assert error.value.code == "read_only"
    refused(db, "CREATE RULE r ON INSERT ON own DO DELETE FROM sale", "read_only")
    with pytest.raises(tm.TransactionError), db.transaction():
        db.pull()


def test_new_columns_stop_a_source_until_they_are_added_or_left_out(db: tm.Database, lake: Path) -> None:
    sale = Foreign(lake / "sale", feed=True)
    sale.write([(1, "a", 100), (2, "b", 200)])
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}')")
    db.execute("CREATE TABLE sale FROM SOURCE lake RELATION 'sale' KEY (id)")
    db.execute("CREATE TABLE some (id BIGINT, grp VARCHAR) FROM SOURCE lake RELATION 'sale'")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM sale")
    db.pull()
    more = pa.table({"id": [3], "grp": ["c"], "amount": pa.array([Decimal("1.00")], pa.decimal128(8, 2)), "Tax": [7]})
    write_deltalake(str(sale.path), more, mode="append", schema_mode="merge")
    with pytest.raises(tm.TidemarkError, match=r"new column 'Tax' \(long\)") as error:
        db.pull()
    assert error.value.hint is not None and 'ALTER TABLE "sale" ADD COLUMN "tax" BIGINT;' in error.value.hint
    refused(db, "ALTER TABLE sale ADD COLUMN nothing INT", "columns", "has no column 'nothing'")
    refused(db, "ALTER TABLE sale ADD COLUMN tax INT", "type", "is long in the source")
    db.execute("ALTER TABLE sale ADD COLUMN tax BIGINT")
    assert db.pull() == 2
    assert rows(db.query("SELECT id, tax FROM sale")) == [(1, None), (2, None), (3, 7)]
    assert rows(db.query("SELECT * FROM some")) == [(1, "a"), (2, "b"), (3, "c")]
    assert db.query("SELECT * FROM v").column_names == ["id", "grp", "amount"]
    write_deltalake(str(sale.path), pa.table({"id": [1]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(tm.TidemarkError, match="has no column 'grp'"):
        db.pull()


def test_new_columns_are_added_if_that_is_asked_for(db: tm.Database, lake: Path) -> None:
    sale = Foreign(lake / "sale")
    sale.write([(1, "a", 100), (2, "b", 200)])
    refused(db, f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}', new_columns 'drop')", "option", "'drop'")
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}', new_columns 'add')")
    db.execute("CREATE TABLE sale FROM SOURCE lake RELATION 'sale' KEY (id)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT grp, COUNT(*) AS n FROM sale GROUP BY grp")
    db.pull()
    version = db.version
    more = pa.table({"id": [3], "grp": ["a"], "amount": pa.array([None], pa.decimal128(8, 2)), "Tax": [7]})
    write_deltalake(str(sale.path), more, mode="append", schema_mode="merge")
    sale.delete("id = 1")
    assert db.pull() == 2 and db.version == version + 1, "the column and the rows are one version"
    assert rows(db.query("SELECT id, tax FROM sale")) == [(2, None), (3, 7)]
    assert "columns are other ones" in shown(db)["compared"]
    assert db.changes("v", since=version).num_rows == 0, "one row went and one came in the same group"
    later = pa.table({"id": [4], "data": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
    write_deltalake(str(sale.path), later, mode="append", schema_mode="merge")
    with pytest.raises(tm.TidemarkError, match=r"new column 'data' \(map<string,long>\)"):
        db.pull()


TYPES = {
    "s": pa.array(["x", None]),
    "b": pa.array([1, -128], pa.int8()),
    "h": pa.array([1, None], pa.int16()),
    "i": pa.array([1, None], pa.int32()),
    "l": pa.array([2**62, None], pa.int64()),
    "d": pa.array([0.5, -0.0]),
    "f": pa.array([0.1, -0.0], pa.float32()),
    "y": pa.array([b"\x00\xff", None]),
    "z": pa.array([dt.datetime(2024, 2, 29, 1, 2, 3, 4, dt.UTC), None], pa.timestamp("us", "UTC")),
    "t": pa.array([True, None]),
    "n": pa.array([Decimal("12.34"), None], pa.decimal128(9, 2)),
    "day": pa.array([dt.date(2024, 2, 29), None]),
    "at": pa.array([dt.datetime(2024, 2, 29, 1, 2, 3, 4), None], pa.timestamp("us")),
    "a": pa.array([[1, None], None], pa.list_(pa.int64())),
    "r": pa.array([{"X": 1, "y": "z"}, None], pa.struct([("X", pa.int64()), ("y", pa.string())])),
}


def test_types_are_taken_as_they_are(db: tm.Database, lake: Path) -> None:
    write_deltalake(str(lake / "t"), pa.table(TYPES))
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}'); CREATE TABLE t FROM SOURCE lake RELATION 't'")
    assert db.pull() == 2
    assert db.query("SELECT f, y, z FROM t").schema.types == [pa.float32(), pa.binary(), pa.timestamp("us", "UTC")]
    assert str(db.query("SELECT r FROM t").schema.field("r").type) == "struct<x: int64, y: string>"
    found = rows_as_dicts(db.query("SELECT * FROM t ORDER BY b DESC"))
    first = {name: column[0].as_py() for name, column in TYPES.items()} | {"r": {"x": 1, "y": "z"}}
    assert found[0] == first
    assert found[1] == dict.fromkeys(TYPES) | {"b": -128, "d": 0.0, "f": 0.0}


def test_types_that_are_missing_are_refused_by_column_and_can_be_asked_for(db: tm.Database, lake: Path) -> None:
    zoned = pa.array([dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    columns = {
        "zoned": zoned,
        "real": pa.array([0.5], pa.float32()),
        "bytes": pa.array([b"x"]),
        "pairs": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "deep": pa.array([[{"a": 1}]]),
    }
    for name, column in columns.items():
        write_deltalake(str(lake / name), pa.table({"id": [1], name: column}))
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}')")
    told = {"times": "array<timestamp>", "pairs": "map<string,long>", "deep": "array<"}
    listed = pa.array([zoned.to_pylist()], pa.list_(zoned.type))
    write_deltalake(str(lake / "times"), pa.table({"id": [1], "times": listed}))
    for name, type_ in told.items():
        refused(db, f"CREATE TABLE t FROM SOURCE lake RELATION '{name}'", "unsupported", f"'{name}' .* is {type_}")
        db.execute(f"CREATE TABLE {name} (id BIGINT) FROM SOURCE lake RELATION '{name}'")
    taken = {"zoned": dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC), "real": 0.5, "bytes": b"x"}
    for name in taken:
        db.execute(f"CREATE TABLE {name}_as_it_is FROM SOURCE lake RELATION '{name}' KEY (id, {name})")
    db.execute("CREATE TABLE at (zoned TIMESTAMP) FROM SOURCE lake RELATION 'zoned'")
    db.execute("CREATE TABLE wide (real DOUBLE, id BIGINT) FROM SOURCE lake RELATION 'real'")
    assert db.pull() == 8
    for name, value in taken.items():
        assert rows(db.query(f"SELECT * FROM {name}_as_it_is")) == [(1, value)]
    assert rows(db.query("SELECT * FROM at")) == [(dt.datetime(2024, 1, 1, 12),)]
    assert rows(db.query("SELECT * FROM wide")) == [(0.5, 1)]
    refused(db, "CREATE TABLE t (id INT) FROM SOURCE lake RELATION 'zoned'", "type", "is long .* which is no INT")
    refused(db, "CREATE TABLE t (no INT) FROM SOURCE lake RELATION 'zoned'", "columns", "has no column 'no'")
    for column, said in (
        ("'zoned' (zoned DATE)", "'zoned' can be TIMESTAMPTZ or TIMESTAMP, or be left out"),
        ("'pairs' (pairs VARCHAR)", "map<string,long> has no type here: leave 'pairs' out"),
        ("'deep' (deep INT[])", "leave 'deep' out"),
    ):
        relation, _, listed = column.partition(" ")
        with pytest.raises(tm.TidemarkError) as caught:
            db.execute(f"CREATE TABLE t {listed} FROM SOURCE lake RELATION {relation}")
        assert caught.value.code == "type" and said in str(caught.value.hint)
    refused(db, "CREATE TABLE t (id BIGINT DEFAULT 1) FROM SOURCE lake RELATION 'zoned'", "unsupported", "DEFAULT")
    refused(db, "CREATE TABLE t FROM SOURCE lake RELATION 'deep' KEY (x)", "unsupported")
    refused(db, "CREATE TABLE t (id BIGINT) FROM SOURCE lake RELATION 'deep' KEY (x)", "unknown_column", "names 'x'")


def test_partitions_have_their_values_in_the_log(db: tm.Database, lake: Path) -> None:
    columns = {
        "id": pa.array([1, 2, 3]),
        "s": pa.array(["a b/c=%é", None, "x"]),
        "day": pa.array([dt.date(2024, 2, 29), None, dt.date(1969, 1, 1)]),
        "n": pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(5, 2)),
        "t": pa.array([True, None, False]),
        "i": pa.array([1, None, -1], pa.int32()),
        "at": pa.array([dt.datetime(2024, 1, 1, 1, 1, 1, 5), None, dt.datetime(1969, 1, 1)], pa.timestamp("us")),
        "z": pa.array([dt.datetime(2024, 1, 1, 1, 1, 1, 5, dt.UTC), None, None], pa.timestamp("us", "UTC")),
        "f": pa.array([0.5, None, -1.25], pa.float32()),
    }
    write_deltalake(str(lake / "t"), pa.table(columns), partition_by=["s", "day", "n", "t", "i", "at", "z", "f"])
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}'); CREATE TABLE t FROM SOURCE lake RELATION 't'")
    assert db.pull() == 3
    found = rows_as_dicts(db.query("SELECT id, s, day, n, t, i, at, z, f FROM t ORDER BY id"))
    assert found == pa.table(columns).to_pylist()
    DeltaTable(str(lake / "t")).delete("s IS NULL")
    assert db.pull() == 1 and db.pull() == 0


def test_places_that_nobody_allowed_are_not_read(db: tm.Database, lake: Path, tmp_path: Path) -> None:
    Foreign(lake / "sale").write([(1, "a", 100)])
    Foreign(tmp_path / "secret").write([(9, "s", 1)])
    refused(db, f"CREATE SOURCE s TYPE delta OPTIONS (path '{tmp_path}')", "not_allowed")
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}')")
    refused(db, "CREATE TABLE t FROM SOURCE lake RELATION '../secret'", "not_allowed")
    db.execute("CREATE TABLE sale FROM SOURCE lake RELATION 'sale'")
    (lake / "link").symlink_to(tmp_path / "secret")
    refused(db, "CREATE TABLE t FROM SOURCE lake RELATION 'link'", "not_allowed")
    log = lake / "sale" / "_delta_log"
    (file,) = (tmp_path / "secret").glob("*.parquet")
    add = {"path": str(file), "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    (log / f"{1:020d}.json").write_text(json.dumps({"add": add}))
    with pytest.raises(tm.TidemarkError, match="a source may not read"):
        db.pull()
    assert shown(db)["status"] == "stopped" and rows(db.query("SELECT * FROM sale")) == []


def test_a_relation_lies_below_the_path_of_its_source(db: tm.Database, lake: Path) -> None:
    for name in ("one", "two"):
        Foreign(lake / name / "sale").write([(1, "a", 100)])
    db.execute(f"CREATE SOURCE s TYPE delta OPTIONS (path '{lake / 'one'}')")
    for other in (str(lake / "two" / "sale"), "../two/sale", "sale/../../two/sale", f"{lake}/onesale"):
        refused(db, f"CREATE TABLE t FROM SOURCE s RELATION '{other}'", "not_allowed", "below the path of the source")
    for number, same in enumerate(("sale", "./sale/", "x/../sale", str(lake / "one" / "sale"))):
        db.execute(f"CREATE TABLE t{number} FROM SOURCE s RELATION '{same}'")
    db.execute(f"CREATE SOURCE here TYPE delta OPTIONS (path '{lake / 'two' / 'sale'}')")
    db.execute("CREATE TABLE h FROM SOURCE here RELATION '.'")
    assert db.pull() == 5


def test_definitions_that_are_wrong(db: tm.Database, lake: Path) -> None:
    Foreign(lake / "sale").write([(1, "a", 100)])
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}'); CREATE TABLE own (id INT)")
    refused(db, f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}')", "exists")
    db.execute(f"CREATE SOURCE IF NOT EXISTS lake TYPE delta OPTIONS (path '{lake}')")
    refused(db, "CREATE SOURCE s TYPE postgres OPTIONS (path 'x')", "unsupported", "come with a later version")
    refused(db, "CREATE SOURCE s TYPE soap OPTIONS (path 'x')", "unsupported", "are not known")
    refused(db, "CREATE SOURCE s TYPE delta OPTIONS (place 'x')", "option")
    refused(db, "CREATE SOURCE s TYPE delta OPTIONS (path x)", "syntax")
    refused(db, "CREATE SOURCE s TYPE delta", "syntax")
    refused(db, "CREATE SOURCE s TYPE delta OPTIONS (path 's3://bucket/lake')", "unsupported", "a file system")
    refused(
        db, "CREATE OR REPLACE SOURCE IF NOT EXISTS s TYPE delta OPTIONS (path 'x')", "syntax", "exclude each other"
    )
    refused(db, "CREATE TABLE t FROM SOURCE nobody RELATION 'sale'", "unknown_source", "there is no source 'nobody'")
    refused(db, "CREATE TABLE t FROM SOURCE lake RELATION 'nothing'", "source", "there is no Delta table at")
    refused(db, "CREATE TABLE t FROM SOURCE lake", "syntax", "RELATION is missing")
    refused(db, "CREATE TABLE own FROM SOURCE lake RELATION 'sale'", "exists")
    refused(db, "CREATE OR REPLACE TABLE own FROM SOURCE lake RELATION 'sale'", "wrong_kind")
    refused(db, "CREATE SINK s TYPE postgres", "unsupported")


def test_columns_of_reserved_names_are_left_out_by_a_list(db: tm.Database, lake: Path) -> None:
    for name in ("_time", "_Version", "_weight", "rowid"):
        path = str(lake / name.lower())
        write_deltalake(path, pa.table({"id": [1], name: [5]}))
        db.execute(f"CREATE SOURCE IF NOT EXISTS s TYPE delta OPTIONS (path '{lake}')")
        refused(db, f"CREATE TABLE a FROM SOURCE s RELATION '{name.lower()}'", "reserved_name", name.lower())
        refused(db, f"CREATE TABLE a (\"{name}\" BIGINT) FROM SOURCE s RELATION '{name.lower()}'", "reserved_name")
        db.execute(f"CREATE OR REPLACE TABLE a (id BIGINT) FROM SOURCE s RELATION '{name.lower()}'")
        assert db.pull() == 1
    assert db.changes("a").column_names == ["id", "_version", "_weight", "_time"]


def test_a_new_column_of_a_reserved_name_is_not_added(db: tm.Database, lake: Path) -> None:
    sale = Foreign(lake / "sale")
    sale.write([(1, "a", 100)])
    for policy in ("add", "stop"):
        db.execute(f"CREATE OR REPLACE SOURCE lake TYPE delta OPTIONS (path '{lake}', new_columns '{policy}')")
        db.execute("CREATE OR REPLACE TABLE sale FROM SOURCE lake RELATION 'sale'")
        if policy == "add":
            db.pull()
            more = pa.table({"id": [3], "_time": [5]})
            write_deltalake(str(sale.path), more, mode="append", schema_mode="merge")
        with pytest.raises(tm.StatementError, match=r"the source 'lake' has stopped: .*'_time'") as error:
            db.pull()
        assert "ADD COLUMN" not in str(error.value.hint)


def test_rules_and_pairs_see_what_a_pull_did(db: tm.Database, lake: Path) -> None:
    sale = Foreign(lake / "sale", feed=True)
    sale.write([(1, "a", 100), (2, "b", 200)])
    db.execute(f"""
        CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}');
        CREATE TABLE sale FROM SOURCE lake RELATION 'sale' KEY (id);
        CREATE TABLE moved (id BIGINT, was VARCHAR, now VARCHAR);
        CREATE RULE r ON UPDATE OF grp ON sale DO INSERT INTO moved SELECT new_id, old_grp, new_grp FROM updated;
        ACTIVATE RULE r;
    """)
    assert db.pull() == 2 and rows(db.query("SELECT * FROM moved")) == []
    sale.update("id = 2", grp="'c'")
    sale.delete("id = 1")
    assert db.pull() == 3 and rows(db.query("SELECT * FROM moved")) == [(2, "b", "c")]
    paired = rows_as_dicts(db.changes("sale", since=db.version - 1, paired=True))
    assert sorted(change["_change"] for change in paired) == ["deleted", "updated"]


def test_a_pull_that_takes_too_long_is_ended_and_can_be_done_again(db: tm.Database, lake: Path) -> None:
    Foreign(lake / "sale").write([(1, "a", 100)])
    db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}')")
    db.execute("CREATE TABLE sale FROM SOURCE lake RELATION 'sale'")
    with pytest.raises(tm.TidemarkError) as error:
        db.pull(timeout=1e-9)
    assert error.value.code == "timeout"
    with pytest.raises(tm.TidemarkError, match="is no span of time"):
        db.pull(timeout="soon")
    assert shown(db)["status"] == "active"
    assert db.pull(timeout="1 min") == 1


def test_pulls_go_on_in_another_process_and_in_a_copy(tmp_path: Path, lake: Path) -> None:
    sale, target = Foreign(lake / "sale"), f"duckdb:{tmp_path / 'x.duckdb'}"
    sale.write([(1, "a", 100)])
    with tm.connect(target, allow_paths=[lake]) as db:
        db.execute(f"CREATE SOURCE lake TYPE delta OPTIONS (path '{lake}')")
        db.execute("CREATE TABLE sale (id BIGINT, grp VARCHAR) FROM SOURCE lake RELATION 'sale' KEY (id)")
        db.execute("ALTER TABLE sale ADD COLUMN amount DECIMAL(8, 2)")
        assert db.pull() == 1
        db.backup(tmp_path / "copy.duckdb")
    sale.write([(2, "b", 200)])
    for place in (target, f"duckdb:{tmp_path / 'copy.duckdb'}"):
        with tm.connect(place, allow_paths=[lake]) as db:
            refused(db, "INSERT INTO sale VALUES (1, 'a', 1)", "read_only")
            assert db.pull() == 1
            assert rows(db.query("SELECT * FROM sale")) == [(1, "a", Decimal("1.00")), (2, "b", Decimal("2.00"))]
            assert changes_at(db, "sale") == {(2, "b", Decimal("2.00")): 1}
    with tm.connect(target) as db, pytest.raises(tm.TidemarkError, match="a source may not read"):
        db.pull()


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_a_relative_path_is_that_of_the_folder_where_it_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str
) -> None:
    odd, target = "it's a lake", f"duckdb:{tmp_path / 'x.duckdb'}"
    for number, folder in enumerate(("one", "two"), 1):
        Foreign(tmp_path / folder / odd / "sale").write([(number, "a", 100)])
    said = odd.replace("'", "''" if dialect == "postgres" else "\\'")
    text = f"CREATE OR REPLACE SOURCE lake TYPE delta OPTIONS (path './{said}/', new_columns 'add')"
    monkeypatch.chdir(tmp_path / "one")
    for _ in range(2):
        with tm.connect(target, dialect=dialect, allow_paths=[tmp_path]) as db:
            db.execute(text)
            db.execute("CREATE TABLE IF NOT EXISTS sale FROM SOURCE lake RELATION 'sale'")
            db.pull()
            version = db.version
            db.execute(text)
            assert db.version == version, "an equal definition from the same folder is no other one"
    monkeypatch.chdir(tmp_path / "two")
    with tm.connect(target, dialect=dialect, allow_paths=[tmp_path]) as db:
        assert shown(db)["path"] == str(tmp_path / "one" / odd)
        assert db.pull() == 0 and rows(db.query("SELECT id FROM sale")) == [(1,)]
        assert shown(db)["compared"] is None
        db.execute(text)
        assert shown(db)["path"] == str(tmp_path / "two" / odd), "here it is another folder"
        assert db.pull() == 2 and rows(db.query("SELECT id FROM sale")) == [(2,)]


def test_definitions_are_read_in_other_dialects(tmp_path: Path, lake: Path) -> None:
    Foreign(lake / "sale").write([(1, "a", 100)])
    target = f"duckdb:{tmp_path / 'x.duckdb'}"
    for _ in range(2):
        with tm.connect(target, dialect="spark", allow_paths=[lake]) as db:
            db.execute(f"CREATE OR REPLACE SOURCE lake TYPE delta OPTIONS (path '{lake}')")
            db.execute("CREATE OR REPLACE TABLE sale FROM SOURCE lake RELATION 'sale' KEY (`id`)")
            db.execute(
                "CREATE OR REPLACE TABLE some (`id` BIGINT, grp STRING) FROM SOURCE lake RELATION 'sale' KEY (id)"
            )
            db.pull()
            assert rows(db.query("SELECT `id` FROM sale")) == [(1,)] and db.version == 4
    with tm.connect(target) as db:
        assert rows(db.query("SELECT * FROM some")) == [(1, "a")]


def test_another_job_may_write_during_a_pull(lake: Path) -> None:
    sale, bonus = Foreign(lake / "sale", feed=True), Foreign(lake / "bonus", parts=True)
    for table in (sale, bonus):
        table.write([])

    def work() -> None:
        for number in range(12):
            sale.write([(number, "a", number)])
            bonus.write([(number, "b", number), (number, None, None)])
            if number % 4 == 3:
                bonus.delete(f"id = {number - 1}")
                sale.update("id > 3", amount="amount + 1")
                bonus.compact()

    with tm.connect("duckdb", allow_paths=[lake]) as db:
        db.execute(script(lake))
        job = threading.Thread(target=work)
        job.start()
        while job.is_alive():
            db.pull()
        job.join()
        db.pull()
        for table in (sale, bonus):
            assert bag_of(db.query(f"SELECT * FROM {table.path.name}")) == table.content()
        check_invariant(db)
