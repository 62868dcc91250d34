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
    choice = random.Random(name)
    with tm.connect(engine) as db:
        db.execute(SCHEMA)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name]}")
        columns = ", ".join(f"{f.name} {f.type}" for f in db._store.catalog.relations["v"].schema)
        db.execute(f"CREATE TABLE copy ({columns}); INSERT INTO copy SELECT * FROM v")
        db.execute(db.as_rules("v", "copy"))
        for rule in db.execute("SHOW RULES")["name"].to_pylist():  # type: ignore[index]
            db.execute(f"ACTIVATE RULE {rule}")
        for _ in range(8):
            with db.transaction() as tx:
                for _ in range(choice.randint(1, 3)):
                    tx.execute(statement(choice))
            assert bag_of(db.query("SELECT * FROM copy")) == bag_of(db.query("SELECT * FROM v"))


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_generated_rules_see_updates_of_relations_with_a_key(engine: str) -> None:
    with tm.connect(engine) as db:
        db.execute("CREATE TABLE k (id INT PRIMARY KEY, a INT); CREATE TABLE copy (a INT, n BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM k GROUP BY a")
        db.execute(db.as_rules("v", "copy"))
        db.execute("ACTIVATE RULE keep_copy_by_k; INSERT INTO k VALUES (1, 1), (2, 1), (3, 2)")
        for change in ("UPDATE k SET a = 2 WHERE id = 1", "UPDATE k SET a = a + 1", "DELETE FROM k WHERE id = 3"):
            db.execute(change)
            assert bag_of(db.query("SELECT * FROM copy")) == bag_of(db.query("SELECT * FROM v"))


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
