"""Snapshots: true as of their tidemark, refreshed from the log by logical rollback, on every engine."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import changes_at, rows

SPARK_VARIANTS = ("spark", "spark forced")

SETUP = """
CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR, balance INT);
CREATE TABLE place (owner VARCHAR, town VARCHAR);
CREATE MATERIALIZED VIEW wealth AS SELECT owner, SUM(balance) AS total FROM account GROUP BY owner;
INSERT INTO account VALUES (1, 'Ada', 100), (2, 'Ben', 5), (3, 'Ada', 7);
INSERT INTO place VALUES ('Ada', 'Ulm'), ('Ben', 'Ulm'), ('Cy', 'Bonn');
"""
DEFINITIONS = """
CREATE SNAPSHOT joined AS SELECT a.id, a.balance, p.town FROM account a JOIN place p ON a.owner = p.owner
    REFRESH ON DEMAND;
CREATE SNAPSHOT outer_joined AS SELECT p.owner, a.id FROM place p LEFT JOIN account a ON a.owner = p.owner
    REFRESH ON DEMAND;
CREATE SNAPSHOT towns AS SELECT p.town, COUNT(*) AS n, SUM(a.balance) AS total, MAX(a.balance) AS most
    FROM account a JOIN place p ON a.owner = p.owner GROUP BY p.town REFRESH ON DEMAND;
CREATE SNAPSHOT owners AS SELECT DISTINCT owner FROM account REFRESH ON DEMAND;
CREATE SNAPSHOT pairs AS SELECT a.id AS one, b.id AS two FROM account a JOIN account b ON a.owner = b.owner
    REFRESH ON DEMAND;
CREATE SNAPSHOT rich AS SELECT owner FROM wealth WHERE total > 50 REFRESH ON DEMAND;
CREATE SNAPSHOT first_two AS SELECT id FROM account ORDER BY balance DESC, id LIMIT 2 REFRESH ON DEMAND;
CREATE SNAPSHOT missing AS SELECT owner FROM place EXCEPT SELECT owner FROM account REFRESH ON DEMAND;
"""
NAMES = ("joined", "outer_joined", "towns", "owners", "pairs", "rich", "first_two", "missing")
CHANGES = (
    "INSERT INTO account VALUES (4, 'Cy', 900); INSERT INTO place VALUES ('Ada', 'Bonn'), ('Ben', 'Ulm')",
    "BEGIN; UPDATE account SET owner = 'Ben' WHERE id = 1; DELETE FROM place WHERE town = 'Bonn'; COMMIT",
    "DELETE FROM account WHERE id = 4; INSERT INTO account VALUES (4, 'Cy', 900), (5, NULL, 900)",
    "UPDATE account SET balance = balance + 1 WHERE id = 4; UPDATE account SET balance = balance - 1 WHERE id = 4",
)


def contents(db: tm.Database) -> dict[str, list[tuple[object, ...]]]:
    return {name: rows(db.query(f"SELECT * FROM {name}")) for name in NAMES}


def test_a_refresh_brings_the_net_change_of_all_versions_between(db: tm.Database) -> None:
    db.execute(SETUP + DEFINITIONS)
    before = contents(db)
    for change in CHANGES:
        db.execute(change)
    assert contents(db) == before, "a snapshot does not move by itself"
    for name in NAMES:
        db.execute(f"REFRESH {name}")
        # The change of the refresh is the difference, net, and the content is the definition's value: db.audit says so.
        assert db.audit(name).num_rows == 0
    definitions = {name: DEFINITIONS.split(f"SNAPSHOT {name} AS ")[1].split("REFRESH")[0] for name in NAMES}
    for name in NAMES:
        assert rows(db.query(f"SELECT * FROM {name}")) == rows(db.query(definitions[name])), name
    version = db.version
    db.execute("REFRESH joined")
    assert db.version == version, "nothing has changed, so there is no version"


def test_a_refresh_reaches_the_views_that_stand_on_the_snapshot(db: tm.Database) -> None:
    db.execute(SETUP)
    db.execute("CREATE SNAPSHOT s AS SELECT owner, SUM(balance) AS total FROM account GROUP BY owner REFRESH ON DEMAND")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT p.town, s.total FROM s JOIN place p ON p.owner = s.owner")
    db.execute("CREATE SNAPSHOT upper AS SELECT COUNT(*) AS n FROM v REFRESH ON DEMAND")
    db.execute("INSERT INTO account VALUES (9, 'Cy', 1)")
    assert rows(db.query("SELECT * FROM v")) == [("Ulm", 5), ("Ulm", 107)]
    db.execute("REFRESH s")
    assert changes_at(db, "v") == {("Bonn", 1): 1}
    db.execute("REFRESH upper")
    assert rows(db.query("SELECT * FROM upper")) == [(3,)]
    with pytest.raises(tm.TidemarkError) as error:
        db.execute("DROP TABLE account")
    assert error.value.code == "dependents"
    db.execute("DROP SNAPSHOT s CASCADE")
    assert db.execute("SHOW SNAPSHOTS").num_rows == 0  # type: ignore[union-attr]


def test_a_view_can_be_refreshed_when_it_is_read(db: tm.Database) -> None:
    db.execute(SETUP)
    db.execute(
        "CREATE MATERIALIZED VIEW lazy WITH (refresh = 'on read') AS "
        "SELECT owner, COUNT(*) AS n FROM account GROUP BY owner"
    )
    db.execute("DELETE FROM account WHERE id = 1; INSERT INTO account VALUES (7, 'Cy', 1)")
    assert db.execute("SHOW VIEWS").to_pylist()[1]["rows"] == 2, "not touched yet"  # type: ignore[union-attr]
    version = db.version
    assert rows(db.query("SELECT * FROM lazy")) == [("Ada", 1), ("Ben", 1), ("Cy", 1)]
    assert db.version == version + 1
    assert rows(db.query("SELECT n FROM lazy WHERE owner = 'Cy'")) == [(1,)]
    assert db.version == version + 1, "it was true already"
    with db.transaction() as tx:
        tx.execute("DELETE FROM account WHERE owner = 'Ben'")
        assert rows(tx.query("SELECT * FROM lazy")) == [("Ada", 1), ("Cy", 1)]
    db.refresh("lazy")
    assert changes_at(db, "lazy") == {("Ben", 1): -1}
    with pytest.raises(tm.TidemarkError) as error:
        db.execute("CREATE MATERIALIZED VIEW above AS SELECT * FROM lazy")
    assert error.value.code == "unsupported"


def test_columns_that_come_later_do_not_disturb_a_snapshot(db: tm.Database) -> None:
    db.execute(SETUP)
    db.execute("CREATE SNAPSHOT s AS SELECT owner, COUNT(*) AS n FROM account GROUP BY owner REFRESH ON DEMAND")
    db.execute("INSERT INTO account VALUES (8, 'Cy', 1)")
    db.execute("ALTER TABLE account ADD COLUMN note VARCHAR DEFAULT 'x'")
    db.execute("INSERT INTO account VALUES (9, 'Cy', 1, 'y')")
    db.execute("REFRESH s")
    assert rows(db.query("SELECT * FROM s")) == [("Ada", 2), ("Ben", 1), ("Cy", 2)]


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
def test_a_snapshot_that_is_far_behind_is_evaluated_as_a_whole_and_its_change_is_exact(
    db: tm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute(SETUP)
    query = "SELECT owner, COUNT(*) AS n, SUM(balance) AS total FROM account GROUP BY owner"
    db.execute(f"CREATE SNAPSHOT auto AS {query} REFRESH ON DEMAND")
    db.execute(f"CREATE SNAPSHOT followed WITH (strategy = 'incremental') AS {query} REFRESH ON DEMAND")
    db.execute(f"CREATE SNAPSHOT whole WITH (strategy = 'complete') AS {query} REFRESH ON DEMAND")
    db.execute("CREATE TABLE other (a INT)")
    db.execute("CREATE SNAPSHOT aside AS SELECT a FROM other REFRESH ON DEMAND")
    for number in range(100, 320):
        db.insert("account", [(number, f"p{number % 3}", number)])
    asked: list[str] = []
    read_log = db._store.engine.changes

    def read(relation: str, since: int) -> pa.Table:
        asked.append(relation)
        return read_log(relation, since)

    monkeypatch.setattr(db._store.engine, "changes", read)
    strategies = {}
    for name in ("auto", "whole", "followed"):
        asked.clear()
        db.execute(f"REFRESH {name}")
        assert bool(asked) == (name == "followed"), "what is evaluated as a whole reads no log"
        strategies[name] = set(db.trace(db.version)["strategy"].to_pylist())
        changes = changes_at(db, name)
        assert len(changes) == 3 and all(weight == 1 for weight in changes.values())
    assert strategies["auto"] == strategies["whole"] == {"complete"} and "complete" not in strategies["followed"]
    assert rows(db.query("SELECT * FROM auto")) == rows(db.query("SELECT * FROM followed")) == rows(db.query(query))
    db.execute("REFRESH aside")
    assert "aside" not in db.trace(db.version)["node"].to_pylist(), "nothing below it has changed"
