"""Specs of the propagation network: which nodes there are, what they share, and what a change sets in motion."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import changes_at, check_invariant
from tidemark.algebra.fingerprint import fingerprint
from tidemark.algebra.plans import Plan
from tidemark.engines.reference import ReferenceEngine
from tidemark.network import NodeKind
from tidemark.storage.commit import Commit


class CountingEngine(ReferenceEngine):
    """The reference engine, which remembers what it was asked to evaluate."""

    def __init__(self) -> None:
        super().__init__()
        self.evaluated: list[tuple[Plan, frozenset[str]]] = []
        self.commits: list[Commit] = []

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        self.evaluated.append((plan, frozenset(given)))
        return super().evaluate(plan, given)

    def commit(self, commit: Commit) -> None:
        self.commits.append(commit)
        super().commit(commit)


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine()


@pytest.fixture
def db(engine: CountingEngine) -> Iterator[tm.Database]:
    with tm.Database(engine) as database:
        database.execute("CREATE TABLE q (x INT, y INT); CREATE TABLE r (y INT, z INT); CREATE TABLE other (a INT)")
        yield database
        check_invariant(database)


def kinds(db: tm.Database) -> list[tuple[NodeKind, int]]:
    return [(node.kind, node.level) for node in db._store.network.nodes.values()]


GROUPED = "SELECT q.x, COUNT(*) AS n FROM q JOIN r ON q.y = r.y GROUP BY q.x"


def test_a_grouping_is_a_node_below_its_view(db: tm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {GROUPED}")
    assert kinds(db) == [(NodeKind.STATE, 1), (NodeKind.VIEW, 2)]


def test_equal_groupings_under_different_names_are_one_node(db: tm.Database, engine: CountingEngine) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {GROUPED}")
    db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT a.x AS k, COUNT(*) AS m FROM q a JOIN r b ON a.y = b.y GROUP BY a.x"
    )
    assert [kind for kind, _ in kinds(db)].count(NodeKind.STATE) == 1
    engine.evaluated.clear()
    db.execute("BEGIN; INSERT INTO q VALUES (1, 1); INSERT INTO r VALUES (1, 5); COMMIT")
    # Four evaluations for the state (input, partial sums, counts before, merge) and one for each view.
    assert len(engine.evaluated) == 6
    assert changes_at(db, "v") == changes_at(db, "w") == {(1, 1): 1}


def test_dropping_one_of_two_views_keeps_what_they_share(db: tm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {GROUPED}; CREATE MATERIALIZED VIEW w AS {GROUPED}")
    db.execute("INSERT INTO q VALUES (1, 1); INSERT INTO r VALUES (1, 5), (1, 6)")
    db.execute("DROP MATERIALIZED VIEW v")
    db.execute("DELETE FROM r WHERE z = 5")
    assert changes_at(db, "w") == {(1, 2): -1, (1, 1): 1}
    db.execute("DROP MATERIALIZED VIEW w")
    assert kinds(db) == []
    db.execute(f"CREATE MATERIALIZED VIEW v AS {GROUPED}")
    assert changes_at(db, "v") == {(1, 1): 1}


def test_a_join_that_stands_in_two_views_is_derived_once(db: tm.Database, engine: CountingEngine) -> None:
    join = "FROM q JOIN r ON q.y = r.y"
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT x, z {join}")
    db.execute(f"CREATE MATERIALIZED VIEW w AS SELECT z {join} WHERE x > 1")
    db.execute(f"CREATE MATERIALIZED VIEW g AS SELECT z, SUM(x) AS s {join} GROUP BY z")
    shared = [node for node in db._store.network.nodes.values() if node.kind is NodeKind.SHARED]
    assert len(shared) == 1 and set(shared[0].views) == {"v", "w", "g"}
    engine.evaluated.clear()
    db.execute("BEGIN; INSERT INTO q VALUES (2, 1); INSERT INTO r VALUES (1, 5); COMMIT")
    stored_reads = [plan for plan, _ in engine.evaluated if "Stored(relation='q'" in repr(plan)]
    assert len(stored_reads) == 1, "only the shared node joins with the stored tables"
    assert (
        changes_at(db, "v") == {(2, 5): 1} and changes_at(db, "w") == {(5,): 1} and changes_at(db, "g") == {(5, 2): 1}
    )
    db.execute("DELETE FROM q")
    assert changes_at(db, "g") == {(5, 2): -1}


def test_the_delta_of_a_shared_node_is_discarded_and_never_stored(db: tm.Database, engine: CountingEngine) -> None:
    join = "FROM q JOIN r ON q.y = r.y"
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT x, z {join}; CREATE MATERIALIZED VIEW w AS SELECT z {join}")
    db.execute("CREATE MATERIALIZED VIEW above AS SELECT DISTINCT x FROM v")
    db.execute("BEGIN; INSERT INTO q VALUES (2, 1); INSERT INTO r VALUES (1, 5); COMMIT")
    given_last = engine.evaluated[-1][1]
    assert not any("shared" in name for name in given_last)
    assert not any(name.startswith("_shared") for name in engine._stored.relations)


def test_views_with_the_same_definition_follow_together(db: tm.Database) -> None:
    for name in ("v", "w"):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT x, z FROM q JOIN r USING (y) WHERE z > x")
    db.execute("BEGIN; INSERT INTO q VALUES (2, 1), (2, 1); INSERT INTO r VALUES (1, 5); COMMIT")
    assert changes_at(db, "v") == changes_at(db, "w") == {(2, 5): 2}


def test_nothing_runs_for_tables_that_no_view_reads(db: tm.Database, engine: CountingEngine) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {GROUPED}")
    engine.evaluated.clear()
    db.execute("INSERT INTO other VALUES (1)")
    assert engine.evaluated == []


def test_only_the_differentials_of_changed_influents_run(db: tm.Database, engine: CountingEngine) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT x, z FROM q JOIN r ON q.y = r.y")
    db.execute("INSERT INTO r VALUES (1, 5)")
    engine.evaluated.clear()
    db.execute("INSERT INTO q VALUES (1, 1)")
    [(plan, given)] = engine.evaluated
    assert given == {"Δq"}
    assert "Stored(relation='q'" not in repr(plan), "the change of q meets r alone"


def test_a_wave_ends_where_nothing_changed(db: tm.Database, engine: CountingEngine) -> None:
    db.execute(
        "CREATE MATERIALIZED VIEW d AS SELECT DISTINCT x FROM q; CREATE MATERIALIZED VIEW e AS SELECT x + 1 AS x FROM d"
    )
    db.execute("INSERT INTO q VALUES (1, 1)")
    engine.evaluated.clear()
    db.execute("INSERT INTO q VALUES (1, 2)")
    assert [row["node"] for row in db.trace(db.version).to_pylist()][-1] == "d"
    assert changes_at(db, "d") == {} and changes_at(db, "e") == {}


def test_levels_grow_with_views_on_views(db: tm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW a AS SELECT x FROM q; CREATE MATERIALIZED VIEW b AS SELECT x FROM a")
    db.execute("CREATE MATERIALIZED VIEW c AS SELECT a.x FROM a JOIN b ON a.x = b.x")
    assert kinds(db) == [(NodeKind.VIEW, 1), (NodeKind.VIEW, 2), (NodeKind.VIEW, 3)]
    db.execute("INSERT INTO q VALUES (1, 1), (1, 2)")
    assert changes_at(db, "c") == {(1,): 4}


def test_a_new_column_of_a_table_keeps_the_counts_of_groupings_over_it(db: tm.Database, engine: CountingEngine) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {GROUPED}; CREATE MATERIALIZED VIEW d AS SELECT DISTINCT * FROM q")
    db.execute("CREATE MATERIALIZED VIEW e AS SELECT DISTINCT y FROM q WHERE x > 0")
    db.execute("CREATE MATERIALIZED VIEW f AS SELECT DISTINCT z + 1 AS z FROM r")
    db.execute("INSERT INTO q VALUES (1, 1); INSERT INTO r VALUES (1, 5)")
    before = list(db._store.network.nodes)
    engine.evaluated.clear()
    db.execute("ALTER TABLE q ADD COLUMN w INT DEFAULT 1; ALTER TABLE r ADD COLUMN v INT")
    assert engine.evaluated == [], "nothing is read: the views mean what they meant"
    assert not any(commit.created or commit.dropped for commit in engine.commits[-2:])
    assert list(db._store.network.nodes) == before
    db.execute("INSERT INTO q VALUES (1, 1, 9), (2, 1, 9)")
    assert changes_at(db, "v") == {(1, 1): -1, (1, 2): 1, (2, 1): 1} and changes_at(db, "d") == {(2, 1): 1}


def test_counts_that_are_not_kept_are_counted_anew_and_their_views_go_on(
    db: tm.Database, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("CREATE MATERIALIZED VIEW d AS SELECT DISTINCT x FROM q; INSERT INTO q VALUES (1, 1), (1, 2)")
    monkeypatch.setattr(sys.modules["tidemark.strategy.cut"], "fingerprint", lambda plan: f"other{fingerprint(plan)}")
    db.execute("BEGIN; ALTER TABLE q ADD COLUMN w INT DEFAULT 1; INSERT INTO q VALUES (7, 7, 7); COMMIT")
    [created] = engine.commits[-1].created
    assert created.internal and db._store.created["d"] == 4
    assert changes_at(db, "d") == {(7,): 1} and len(db.changes("d")) == 2
    db.execute("DELETE FROM q WHERE y = 1; DELETE FROM q WHERE y = 2")
    assert changes_at(db, "d") == {(1,): -1}


def test_what_stands_on_a_replaced_view_follows_from_its_change(db: tm.Database, engine: CountingEngine) -> None:
    db.execute(
        "CREATE MATERIALIZED VIEW a AS SELECT x, y FROM q; CREATE MATERIALIZED VIEW b AS SELECT DISTINCT x FROM a"
    )
    db.execute("INSERT INTO q VALUES (1, 1), (2, 2), (3, 3)")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW a AS SELECT x, y FROM q WHERE y <> 2")
    assert changes_at(db, "a") == {(2, 2): -1} and changes_at(db, "b") == {(2,): -1}
    trace = {step["node"]: (step["strategy"], step["reason"]) for step in db.trace(db.version).to_pylist()}
    assert trace["a"] == ("complete", "its definition was replaced")
    assert trace["b"][0] == "autonomous"
    assert not engine.commits[-1].created and not engine.commits[-1].dropped


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT x, RANK() OVER (ORDER BY y) AS x2 FROM q", "a window has no PARTITION BY"),
        ("SELECT STRING_AGG(CAST(x AS VARCHAR), ',') AS x FROM q", "cannot be merged from a change"),
        ("SELECT x, y FROM q ORDER BY x OFFSET 1", "OFFSET without LIMIT"),
    ],
)
def test_a_view_that_is_declared_incremental_is_refused_where_a_node_would_read_its_whole_input(
    db: tm.Database, query: str, reason: str
) -> None:
    db.execute("CREATE MATERIALIZED VIEW kept WITH (strategy = 'incremental') AS SELECT x, y AS x2 FROM q")
    version = db.version
    for sql in (
        f"CREATE MATERIALIZED VIEW v WITH (strategy = 'incremental') AS {query}",
        f"CREATE OR REPLACE MATERIALIZED VIEW kept WITH (strategy = 'incremental') AS {query}",
    ):
        with pytest.raises(tm.TidemarkError, match=reason) as caught:
            db.execute(sql)
        assert caught.value.code == "not_incremental"
    assert db.version == version
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert "its input is read again as a whole after each change" in db.explain("v")
    db.execute("INSERT INTO q VALUES (1, 1), (2, 2)")
    assert "all of its input" in str(db.trace(db.version).to_pylist())


@pytest.mark.parametrize(
    "query",
    [
        GROUPED,
        "SELECT x, MIN(y) AS low, COUNT(DISTINCT y) AS n FROM q GROUP BY x",
        "SELECT MIN(y) AS low FROM q",
        "SELECT x, RANK() OVER (PARTITION BY x ORDER BY y) AS r FROM q",
        "SELECT x, y FROM q ORDER BY y LIMIT 2",
    ],
)
def test_what_follows_from_kept_rows_may_be_declared_incremental(db: tm.Database, query: str) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'incremental') AS {query}")
    db.execute("INSERT INTO q VALUES (1, 1), (2, 2), (1, 3)")
    assert {step["strategy"] for step in db.trace(db.version).to_pylist()} <= {"differential", "autonomous"}


def test_a_limit_reads_its_input_again_only_if_one_of_its_rows_goes(db: tm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT x, y FROM q ORDER BY y LIMIT 2")
    db.execute("INSERT INTO q VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
    db.execute("DELETE FROM q WHERE y = 4; INSERT INTO q VALUES (0, 0)")
    assert next(step["rows_read"] for step in db.trace(db.version).to_pylist()) == 0
    db.execute("DELETE FROM q WHERE y = 0")
    assert next(step["rows_read"] for step in db.trace(db.version).to_pylist()) > 2
    assert changes_at(db, "v") == {(0, 0): -1, (2, 2): 1}


def test_an_extremum_is_looked_for_again_only_if_it_goes(db: tm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT MAX(y) AS high FROM q")
    db.execute("INSERT INTO q VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
    db.execute("DELETE FROM q WHERE y = 2")
    assert next(step["rows_read"] for step in db.trace(db.version).to_pylist()) == 0
    db.execute("DELETE FROM q WHERE y = 4")
    assert next(step["rows_read"] for step in db.trace(db.version).to_pylist()) > 1
    assert changes_at(db, "v") == {(4,): -1, (3,): 1}


def test_explain_says_of_each_node_how_it_is_kept(db: tm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {GROUPED}")
    db.execute("CREATE MATERIALIZED VIEW w WITH (strategy = 'complete') AS SELECT x FROM q")
    text = db.explain("v")
    assert "differential, from kept counts: only the groups that a change touches are read" in text
    assert "differential: only the differentials of influents that changed are run" in text
    assert "key\n  x" in text
    assert "complete: evaluated again as a whole, because it was declared" in db.explain("w")
    assert "none: 'q' has no key" in db.explain("w")
