"""A database that is opened knows its views as they were known when they were defined, before anybody binds one.

Definitions come and go at random, in a file. It is opened again; what is known of its views by what is stored beside
their texts is compared with what follows from the texts alone, and then views are followed that nobody has bound yet.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.laws.test_taking_over import STEPS, statement
from tests.support import check_invariant
from tidemark.sql.catalog.catalog import View
from tidemark.state import records
from tidemark.state.facts import known_of
from tidemark.state.transition import network_of
from tidemark.strategy.cache import MOST_ASKED, RefreshCache

TABLES = """
CREATE TABLE r (a INT PRIMARY KEY, b INT CHECK (b BETWEEN 0 AND 30));
CREATE TABLE s (b INT, c INT NOT NULL); CREATE TABLE t (c INT PRIMARY KEY, d INT);
CREATE VIEW plain AS SELECT a, b + 1 AS b FROM r WHERE a <> 7;
CREATE MATERIALIZED VIEW reach (x, y) AS DATALOG $$ reach(x,y) :- s(x,y). reach(x,y) :- s(x,z), reach(z,y). $$;
"""
CHANGES = (
    "INSERT INTO r (a, b) VALUES (1, 2), (4, 5), (7, 5)",
    "INSERT INTO s (b, c) VALUES (2, 3), (5, 8), (3, 4)",
    "INSERT INTO t VALUES (3, 5), (8, 6)",
    "UPDATE r SET b = 2 WHERE a = 4",
    "DELETE FROM s WHERE c = 8",
)


def bound(db: tm.Database) -> set[str]:
    """The views whose plans are there."""
    views = (relation for relation in db._store.catalog.relations.values() if isinstance(relation, View))
    return {view.name for view in views if "plan" in view.__dict__}


def without_known(texts: tuple[str, ...]) -> list[str]:
    """Catalog records as they were before anything was stored beside the texts of views."""
    found = [json.loads(text) for text in texts]
    return [json.dumps({key: value for key, value in record.items() if key != "known"}) for record in found]


@settings(deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=2, max_size=9))
def test_what_is_known_when_a_database_is_opened_is_what_its_texts_say(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]]
) -> None:
    target = f"duckdb:{tmp_path_factory.mktemp('later')}/db.duckdb"
    with tm.connect(target) as db:
        db.execute(TABLES)
        for number, step in enumerate(steps):
            try:
                db.execute(statement(step, number))
            except tm.TidemarkError:
                continue
        held = {name: db.query(f"SELECT * FROM {name}").num_rows for name in db._store.catalog.relations}
    with tm.connect(target) as db:
        store = db._store
        texts = store.engine.load().catalog
        eager, _ = records.restore(without_known(texts))
        anew, fresh = network_of(eager), RefreshCache(known=known_of(eager))
        assert {name for name in held if db.query(f"SELECT * FROM {name}").num_rows != held[name]} == set()
        for view in store.catalog.views:
            other = eager.relations[view.name]
            assert isinstance(other, View)
            assert view.schema == other.schema
            assert (view.depends_on, view.seen, view.approximate) == (other.depends_on, other.seen, other.approximate)
        assert list(store.network.nodes) == list(anew.nodes)
        for name, node in anew.nodes.items():
            found = store.network.nodes[name]
            assert (found.influents, found.level, found.views) == (node.influents, node.level, node.views)
            for relation, filter in found.known.filters.items():
                assert filter.condition == fresh.influence(node, relation).filter
            assert found == node
        for change in CHANGES:
            db.execute(change)
        check_invariant(db)


@pytest.fixture
def many(tmp_path: Path) -> str:
    """A database with so many views on one table that those which a change can matter to are looked up."""
    target = f"duckdb:{tmp_path}/many.duckdb"
    with tm.connect(target) as db:
        db.execute(TABLES)
        with db.transaction() as tx:
            for number in range(MOST_ASKED + 6):
                low = 10 * number
                tx.execute(
                    f"CREATE MATERIALIZED VIEW v{number} AS SELECT a, b FROM r WHERE a BETWEEN {low} AND {low + 9}"
                )
                tx.execute(
                    f"CREATE MATERIALIZED VIEW w{number} AS SELECT r.a, s.c FROM r JOIN s ON s.b = r.b "
                    f"WHERE r.a >= {low} AND r.a < {low + 10}"
                )
                tx.execute(
                    f"CREATE MATERIALIZED VIEW n{number} AS SELECT b, COUNT(*) AS n FROM r "
                    f"WHERE a >= {low} AND a < {low + 10} GROUP BY b"
                )
        db.execute("INSERT INTO s VALUES (4, 9)")
    return target


def test_opening_binds_no_view_and_a_change_only_those_that_it_can_matter_to(many: str) -> None:
    with tm.connect(many) as db:
        assert bound(db) == set()
        db.execute("INSERT INTO r VALUES (25, 4)")
        shared = "w0"  # what all of them join is a part of its plan
        assert bound(db) == {"v2", "w2", "n2", shared}
        db.query("SELECT * FROM v5")
        assert bound(db) == {"v2", "w2", "n2", shared}
        db.execute("INSERT INTO s VALUES (4, 10)")  # nothing tells apart to whom it matters
        check_invariant(db)


def test_one_more_view_binds_no_other(many: str) -> None:
    with tm.connect(many) as db:
        db.execute("CREATE MATERIALIZED VIEW more AS SELECT r.a, s.c FROM r JOIN s ON s.b = r.b WHERE r.a = 25")
        db.execute("CREATE MATERIALIZED VIEW above AS SELECT a FROM more UNION ALL SELECT a FROM v2")
        assert bound(db) == {"more", "above"}
        db.execute("INSERT INTO r VALUES (25, 4)")
        check_invariant(db)
    with tm.connect(many) as db:
        db.execute("DROP MATERIALIZED VIEW v3; DROP MATERIALIZED VIEW w4 CASCADE")
        assert bound(db) == set()
        db.execute("UPDATE r SET a = 26 WHERE a = 25")
        check_invariant(db)


def test_what_was_stored_in_another_way_is_not_read(many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "KNOWN_AS", records.KNOWN_AS + 1)
    with tm.connect(many) as db:
        assert len(bound(db)) == len(db._store.catalog.views)
        db.execute("INSERT INTO r VALUES (25, 4)")
        check_invariant(db)


def test_columns_that_come_later_are_not_seen_by_views_that_nobody_has_bound(many: str) -> None:
    with tm.connect(many) as db:
        db.execute("CREATE MATERIALIZED VIEW everything AS SELECT * FROM r WHERE a = 25")
    with tm.connect(many) as db:
        db.execute("ALTER TABLE r ADD COLUMN e INT; INSERT INTO r VALUES (25, 4, 1)")
        assert db.query("SELECT * FROM everything").column_names == ["a", "b"]
        check_invariant(db)
    with tm.connect(many) as db:
        assert db.query("SELECT * FROM everything").column_names == ["a", "b"]
        db.execute("INSERT INTO s VALUES (4, 10)")
        check_invariant(db)


def said_of(db: tm.Database, name: str) -> dict[str, Any]:
    [record] = [found for text in db._store.engine.load().catalog if (found := json.loads(text)).get("name") == name]
    return dict(record["known"])


def test_what_is_stored_of_a_view_is_what_its_number_says(many: str) -> None:
    """Whoever changes how definitions become plans and nodes sees it here, and raises ``KNOWN_AS``."""
    with tm.connect(many) as db:
        known = said_of(db, "w20")
        assert known.pop("columns") == [
            {"name": "a", "kind": "INT", "precision": 0, "scale": 0, "nullable": False},
            {"name": "c", "kind": "INT", "precision": 0, "scale": 0, "nullable": False},
        ]
        known.pop("outline")
        assert known == {"as": 1, "materialized": True, "options": {}, "depends_on": ["r", "s"], "approximate": []}
        outlines = json.dumps([said_of(db, name)["outline"] for name in ("v20", "w20", "n20")])
        assert hashlib.sha256(outlines.encode()).hexdigest()[:12] == "f506881b7e68", outlines
