"""The rules that are generated from a view keep a table exactly as the view is."""

from __future__ import annotations

import random

import pytest

import tidemark as tm
from tests.laws.random_queries import SCHEMA, statement
from tests.support import bag_of

VIEWS = {
    "filter": "SELECT a, b FROM r WHERE b > 1",
    "bag": "SELECT a FROM w",
    "star": "SELECT * FROM r",
    "join": "SELECT r.a, s.c FROM r JOIN s ON r.a = s.a",
    "three": "SELECT r.b, t.d AS e FROM r, s, t WHERE r.a = s.a AND s.c = t.d",
    "self": "SELECT x.a, y.b FROM r x JOIN r y ON x.a = y.b",
    "distinct": "SELECT DISTINCT r.a FROM r JOIN s ON r.a = s.a",
    "grouped": """SELECT r.a AS k, COUNT(*) AS n, SUM(s.c) AS t FROM r JOIN s ON r.a = s.a
        GROUP BY r.a HAVING COUNT(*) > 1""",
    "total": "SELECT COUNT(*) AS n FROM r",
    "behind": "SELECT COUNT(*) AS n, a + 1 AS x FROM r GROUP BY x",
    "all": "SELECT a FROM r UNION ALL SELECT a FROM s UNION ALL SELECT b FROM r WHERE a > 1",
    "union": "SELECT r.a, r.b FROM r JOIN s ON r.a = s.a UNION SELECT * FROM s",
    "except": "SELECT a FROM r EXCEPT ALL SELECT a FROM s",
    "intersect": "SELECT a FROM r INTERSECT SELECT c FROM s",
    "mixed": "SELECT a, b FROM r UNION ALL SELECT c, COUNT(*) AS n FROM s GROUP BY c EXCEPT SELECT a, c FROM s",
    "totals": "SELECT a, b FROM r UNION ALL SELECT COUNT(*) AS n, 0 AS z FROM s",
}


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
@pytest.mark.parametrize("name", VIEWS)
def test_generated_rules_keep_a_table_as_the_view_is(engine: str, name: str) -> None:
    """The script runs as it stands: on the database that gave it, and on a fresh one that has the tables."""
    choice = random.Random(name)
    with tm.connect(engine) as db:
        db.execute(f"{SCHEMA}; CREATE MATERIALIZED VIEW v AS {VIEWS[name]}")
        beside, alone = db.as_rules("v", "copy"), db.as_rules("v")
    with tm.connect(engine) as db:
        db.execute(SCHEMA)
        for _ in range(6):
            db.execute(statement(choice))
        db.execute(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name]}")
        db.execute(beside)
        assert bag_of(db.query("SELECT * FROM copy")) == bag_of(db.query("SELECT * FROM v")), "the first fill"
        assert db.query("SELECT * FROM copy").schema == db.query("SELECT * FROM v").schema
        _follows(db, choice, VIEWS[name])
        db.execute("DROP VIEW v")
        db.execute(alone)
        _follows(db, choice, VIEWS[name])


def _follows(db: tm.Database, choice: random.Random, query: str) -> None:
    for _ in range(6):
        with db.transaction() as tx:
            for _ in range(choice.randint(1, 3)):
                tx.execute(statement(choice))
        expected = bag_of(db.query(query))
        assert bag_of(db.query("SELECT * FROM copy")) == bag_of(db.query("SELECT * FROM v")) == expected


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_generated_rules_see_updates_of_tables(engine: str, key: str) -> None:
    with tm.connect(engine) as db:
        db.execute(f"CREATE TABLE k (id INT {key}, a INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM k GROUP BY a")
        db.execute(db.as_rules("v", "copy"))
        db.execute("INSERT INTO k VALUES (1, 1), (2, 1), (3, 2)")
        for change in (
            "UPDATE k SET a = 2 WHERE id = 1",
            "UPDATE k SET a = a + 1, id = id + 1",
            "DELETE FROM k WHERE id = 3",
        ):
            db.execute(change)
            assert bag_of(db.query("SELECT * FROM copy")) == bag_of(db.query("SELECT * FROM v"))


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_names_that_are_words_of_sql_and_types_of_every_kind(engine: str) -> None:
    with tm.connect(engine) as db:
        db.execute('CREATE TABLE "Group" ("order" INT, "a b" DECIMAL(6,2)[], s STRUCT(x INT, "Y" DATE), z TIMESTAMP)')
        db.execute(
            "INSERT INTO \"Group\" VALUES (1, ARRAY[1.5], ROW(1, '2024-01-31'), '2024-01-31'), (2, NULL, NULL, NULL)"
        )
        db.execute('CREATE MATERIALIZED VIEW "Select" AS SELECT * FROM "Group" WHERE "order" > 0')
        db.execute(db.as_rules("Select", "table"))
        for change in ('DELETE FROM "Group" WHERE "order" = 2', 'INSERT INTO "Group" VALUES (3, NULL, NULL, NULL)'):
            db.execute(change)
            assert bag_of(db.query('SELECT * FROM "table"')) == bag_of(db.query('SELECT * FROM "Select"'))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT r.a, s.c FROM r LEFT JOIN s ON r.a = s.a",
        "SELECT * FROM r UNION ALL SELECT c, COUNT(*) FROM s GROUP BY c",
        "SELECT a FROM r UNION (SELECT a FROM s)",
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
        "SELECT COUNT(*) AS n FROM r GROUP BY a",
    ],
)
def test_views_without_such_rules_are_refused(query: str) -> None:
    with tm.connect("reference") as db:
        db.execute(f"{SCHEMA}; CREATE MATERIALIZED VIEW v AS {query}")
        with pytest.raises(tm.TidemarkError, match="no rules are generated for 'v'"):
            db.as_rules("v")
