"""The ladder of strategies: what is irrelevant, what is autonomous, and that neither is ever wrong, on every engine.

After each test the invariant of DESIGN §1 is checked for every view (the ``db`` fixture).
"""

from __future__ import annotations

from typing import Any

import pytest

import tidemark as tm
from tests.support import changes_at, rows

SPARK_VARIANTS = ("spark forced",)


def step(db: tm.Database, node: str, version: int | None = None) -> dict[str, Any]:
    """The line of the trace about one node; a node that keeps something for a view is named up to its digest."""
    lines: list[dict[str, Any]] = db.trace(db.version if version is None else version).to_pylist()
    [found] = [line for line in lines if line["node"].partition("-")[0] == node]
    return found


def strategies(db: tm.Database) -> dict[str, str]:
    """The strategy of each node in the last transaction."""
    return {line["node"].partition("-")[0]: line["strategy"] for line in db.trace(db.version).to_pylist()}


class TestWhatIsKnownMustBeTrueBeforeAndAfter:
    """Relevance and autonomy rest on CHECK, NOT NULL and keys. Rows that leave or come may not obey them yet, or never
    did."""

    def test_a_view_read_while_a_check_is_violated_shows_the_row(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT CHECK (a >= 0))")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, a FROM t WHERE a < 0")
        with db.transaction() as tx:
            tx.execute("INSERT INTO t VALUES (1, -5)")
            assert rows(tx.query("SELECT * FROM v")) == [(1, -5)]
            tx.execute("UPDATE t SET a = 5")
            assert rows(tx.query("SELECT * FROM v")) == []
        assert strategies(db) == {"v": "irrelevant"}
        assert step(db, "v")["reason"] == "no row of t can matter"

    def test_a_view_read_while_a_key_stands_twice_shows_both_rows(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT, j INT); CREATE TABLE s (j INT, y INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT t.k, t.a, s.y FROM t JOIN s ON t.j = s.j")
        db.execute("INSERT INTO s VALUES (1, 10), (1, 20); INSERT INTO t VALUES (7, 1, 1)")
        with db.transaction() as tx:
            tx.execute("INSERT INTO t VALUES (7, 2, 1)")
            assert rows(tx.query("SELECT * FROM v")) == [(7, 1, 10), (7, 1, 20), (7, 2, 10), (7, 2, 20)]
            tx.execute("DELETE FROM t WHERE a = 1")
            assert rows(tx.query("SELECT * FROM v")) == [(7, 2, 10), (7, 2, 20)]
        assert strategies(db) == {"v": "autonomous"}

    def test_rows_that_leave_need_not_obey_a_check_that_the_transaction_adds(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT, a INT); INSERT INTO t VALUES (1, 5), (2, 2)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t WHERE a > 3")
        with db.transaction() as tx:
            tx.execute("ALTER TABLE t ADD COLUMN c INT DEFAULT 0 CHECK (a < 3)")
            tx.execute("DELETE FROM t WHERE a = 5")
            assert rows(tx.query("SELECT * FROM v")) == []
        assert changes_at(db, "v") == {(1,): -1}
        db.execute("INSERT INTO t VALUES (3, 1, 0)")
        assert step(db, "v")["reason"] == "no row of t can matter"

    def test_a_partner_that_leaves_need_not_obey_a_new_check_either(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT, a INT); CREATE TABLE u (b INT)")
        db.execute("INSERT INTO t VALUES (1, 5), (2, 2); INSERT INTO u VALUES (2), (3)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT t.k, u.b FROM t, u WHERE a > b")
        with db.transaction() as tx:
            tx.execute("ALTER TABLE t ADD COLUMN c INT DEFAULT 0 CHECK (a <= 2)")
            tx.execute("ALTER TABLE u ADD COLUMN c INT DEFAULT 0 CHECK (b > 2)")
            tx.execute("DELETE FROM t WHERE a = 5; DELETE FROM u WHERE b = 2")
        assert changes_at(db, "v") == {(1, 2): -1, (1, 3): -1}

    def test_rows_that_were_there_may_be_null_in_a_column_that_is_added_not_null(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT); INSERT INTO t VALUES (1)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t WHERE k < 9")
        with db.transaction() as tx:
            tx.execute("ALTER TABLE t ADD COLUMN c INT NOT NULL CHECK (c > k)")
            tx.execute("DELETE FROM t")
            tx.execute("INSERT INTO t VALUES (2, 3)")
        assert changes_at(db, "v") == {(1,): -1, (2,): 1}

    @pytest.mark.parametrize(
        "definition",
        [
            "SELECT w.k, w.a, s.y FROM w JOIN s ON w.a = s.a",
            "SELECT w.k, s.y FROM w JOIN s ON w.k = s.a",
            "SELECT w.k, COUNT(*) AS n FROM w JOIN s ON w.a = s.a GROUP BY w.k",
            "SELECT DISTINCT w.k FROM w JOIN s ON w.a = s.a",
            "SELECT x.k, y.k AS l FROM w x JOIN w y ON x.a = y.a",
            "SELECT w.k, s.y FROM w LEFT JOIN s ON w.a = s.a",
        ],
    )
    def test_a_view_that_gets_a_key_by_being_replaced_had_none_before(self, db: tm.Database, definition: str) -> None:
        db.execute("CREATE TABLE t (k INT, a INT); CREATE TABLE s (a INT, y INT)")
        db.execute("INSERT INTO t VALUES (1, 1), (1, 2), (2, 2), (3, 5); INSERT INTO s VALUES (1, 1), (2, 1), (2, 2)")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT k, a FROM t")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {definition}")
        with db.transaction() as tx:
            tx.execute("CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT k, MAX(a) AS a FROM t WHERE k < 3 GROUP BY k")
            inside = rows(tx.query("SELECT * FROM v"))
        assert rows(db.query("SELECT * FROM v")) == inside
        db.execute("DELETE FROM t WHERE a = 2")


def test_what_a_part_of_a_change_meets_is_told_from_what_all_of_it_meets(db: tm.Database) -> None:
    """One row goes, and of another one a column changes that the view does not read: only the first one's rows go."""
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT, note VARCHAR)")
    db.execute("INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 1, 'c'), (4, 2, 'd')")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT x.k AS k, y.k AS l FROM t x JOIN t y ON x.a = y.a")
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE k = 1")
        tx.execute("UPDATE t SET note = 'z' WHERE k = 2")
    assert changes_at(db, "v") == {(1, 1): -1, (1, 2): -1, (1, 3): -1, (2, 1): -1, (3, 1): -1}
    assert strategies(db) == {"v": "autonomous"}
    assert step(db, "v")["rows_filtered"] == 2


@pytest.fixture
def shop(db: tm.Database) -> tm.Database:
    db.execute(
        """
        CREATE TABLE customer (id INT PRIMARY KEY, town VARCHAR, name VARCHAR, since DATE);
        CREATE TABLE sale (id INT PRIMARY KEY, customer INT, amount INT CHECK (amount >= 0), note VARCHAR);
        CREATE TABLE visit (customer INT, minutes INT);
        CREATE MATERIALIZED VIEW large AS
          SELECT sale.id, customer.name, sale.amount FROM sale JOIN customer ON sale.customer = customer.id
          WHERE sale.amount > 100 AND customer.town = 'Oslo';
        CREATE MATERIALIZED VIEW per_customer AS
          SELECT customer, COUNT(*) AS n, SUM(amount) AS t FROM sale GROUP BY customer;
        CREATE MATERIALIZED VIEW long_visits AS SELECT customer, minutes FROM visit WHERE minutes > 30;
        INSERT INTO customer VALUES (1, 'Oslo', 'Ann', NULL), (2, 'Rome', 'Bob', DATE '2020-01-01'),
          (3, NULL, 'Cy', NULL);
        INSERT INTO sale VALUES (10, 1, 150, 'a'), (11, 1, 20, NULL), (12, 2, 500, 'c'), (13, NULL, 900, 'd');
        INSERT INTO visit VALUES (1, 5), (1, 45), (1, 45), (NULL, 60);
        """
    )
    return db


class TestIrrelevant:
    """Rows that cannot reach a view are filtered out first, and nothing is done if none remains."""

    def test_rows_that_miss_the_condition(self, shop: tm.Database) -> None:
        shop.execute("INSERT INTO sale VALUES (20, 1, 99, 'x'), (21, 1, 100, 'y')")
        found = step(shop, "large")
        assert found["strategy"] == "irrelevant"
        assert "only rows of sale with amount > 100" in found["reason"]
        assert (found["rows_in"], found["rows_out"], found["rows_read"], found["rows_filtered"]) == (2, 0, 0, 2)

    def test_some_rows_of_a_change_are_filtered_and_the_others_go_on(self, shop: tm.Database) -> None:
        shop.execute("INSERT INTO sale VALUES (20, 1, 99, 'x'), (21, 1, 101, 'y'), (22, NULL, 300, 'z')")
        found = step(shop, "large")
        assert (found["rows_in"], found["rows_out"], found["rows_filtered"]) == (3, 1, 2)
        assert changes_at(shop, "large") == {(21, "Ann", 101): 1}

    def test_a_null_meets_no_condition(self, shop: tm.Database) -> None:
        shop.execute("UPDATE customer SET town = NULL WHERE id = 3; UPDATE customer SET name = 'Di' WHERE id = 3")
        assert step(shop, "large")["strategy"] == "irrelevant"

    @pytest.mark.small
    def test_a_whole_transaction_over_several_tables(self, shop: tm.Database) -> None:
        with shop.transaction() as tx:
            tx.execute("DELETE FROM sale WHERE amount < 50")
            tx.execute("INSERT INTO customer VALUES (9, 'Rome', 'Eve', NULL)")
            tx.execute("INSERT INTO visit VALUES (1, 30)")
        found = step(shop, "large")
        assert found["strategy"] == "irrelevant"
        assert "only rows of customer with town = 'Oslo'" in found["reason"]
        assert "only rows of sale with amount > 100" in found["reason"]
        assert found["rows_filtered"] == found["rows_in"] == 2
        assert step(shop, "long_visits")["strategy"] == "irrelevant"
        assert strategies(shop)["per_customer"] == "autonomous"

    def test_changes_that_cancel_within_the_transaction_reach_nobody(self, shop: tm.Database) -> None:
        with shop.transaction() as tx:
            tx.execute("DELETE FROM sale WHERE id = 10")
            tx.execute("INSERT INTO sale VALUES (10, 1, 150, 'a')")
        assert shop.trace(shop.version).num_rows == 0

    def test_a_filter_never_hides_an_error_of_the_definition(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT, a INT, b INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t WHERE a > 3 AND 10 / b > 1")
        db.execute("INSERT INTO t VALUES (1, 3, 0)")  # the division is not reached, here and there
        assert step(db, "v")["strategy"] == "irrelevant"
        with pytest.raises(tm.TidemarkError, match="the view 'v' cannot be brought up to date") as caught:
            db.execute("INSERT INTO t VALUES (2, 4, 0)")
        assert caught.value.code == "division_by_zero"
        db.execute("INSERT INTO t VALUES (2, 4, 1)")
        assert changes_at(db, "v") == {(2,): 1}

    def test_a_failing_column_above_an_outer_join_is_still_computed(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT, b INT); CREATE TABLE s (k INT)")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT t.k, 10 / t.b AS q FROM t LEFT JOIN s ON t.k = s.k AND t.k > 5"
        )
        with pytest.raises(tm.TidemarkError) as caught:
            db.execute("INSERT INTO t VALUES (1, 0)")
        assert caught.value.code == "division_by_zero"

    def test_a_condition_of_on_does_not_filter_the_side_that_is_kept(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT, a INT); CREATE TABLE s (k INT, c INT)")
        db.execute(
            """
            CREATE MATERIALIZED VIEW lefts AS SELECT t.k, s.c FROM t LEFT JOIN s ON t.k = s.k AND t.a > 5 AND s.c > 7;
            CREATE MATERIALIZED VIEW missing AS
              SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = t.k AND t.a > 5 AND s.c > 7)
            """
        )
        db.execute("INSERT INTO t VALUES (1, 1), (1, 9)")
        assert changes_at(db, "lefts") == {(1, None): 2}
        assert changes_at(db, "missing") == {(1,): 2}
        db.execute("INSERT INTO s VALUES (1, 7)")
        assert set(strategies(db).values()) == {"irrelevant"}
        db.execute("INSERT INTO s VALUES (1, 8)")
        assert changes_at(db, "lefts") == {(1, None): -1, (1, 8): 1}
        assert changes_at(db, "missing") == {(1,): -1}

    def test_a_relation_that_stands_in_a_shared_join_and_beside_it(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE r (k INT, a INT); CREATE TABLE s (k INT, b INT)")
        db.execute(
            """
            CREATE MATERIALIZED VIEW one AS
              SELECT r.a, s.b, x.a AS other FROM r JOIN s ON r.k = s.k JOIN r x ON x.a > 50 WHERE r.a < 10;
            CREATE MATERIALIZED VIEW two AS SELECT r.a, s.b FROM r JOIN s ON r.k = s.k;
            INSERT INTO s VALUES (1, 1), (2, 2);
            """
        )
        db.execute("INSERT INTO r VALUES (1, 5), (1, 20), (7, 60)")
        assert changes_at(db, "one") == {(5, 1, 60): 1}
        db.execute("INSERT INTO r VALUES (2, 20), (2, 30)")
        assert changes_at(db, "one") == {}
        db.execute("UPDATE r SET a = 100 - a WHERE a IN (5, 60)")
        assert changes_at(db, "one") == {(5, 1, 60): -1}

    @pytest.mark.parametrize("rows_inserted", [1, 40])
    def test_among_many_views_only_those_are_visited_that_a_change_can_matter_to(
        self, db: tm.Database, rows_inserted: int
    ) -> None:
        db.execute("CREATE TABLE t (k INT, a INT); CREATE TABLE s (k INT)")
        with db.transaction() as tx:
            for n in range(20):
                tx.execute(
                    f"CREATE MATERIALIZED VIEW v{n} AS SELECT k FROM t WHERE a BETWEEN {n * 10} AND {n * 10 + 9}"
                )
            tx.execute("CREATE MATERIALIZED VIEW j AS SELECT t.k FROM t JOIN s ON t.k = s.k WHERE t.a = 45")
        with db.transaction() as tx:
            tx.insert("t", [(n, 45) for n in range(rows_inserted)])
        assert strategies(db) == {"19 other nodes": "irrelevant", "v4": "autonomous", "j": "differential"}
        found = step(db, "19 other nodes")
        assert found["reason"] == "found by their filters: no changed row of t can matter to them"
        assert found["rows_filtered"] == rows_inserted
        db.execute("INSERT INTO t VALUES (1, NULL), (2, -3)")
        assert strategies(db) == {"21 other nodes": "irrelevant"}


class TestAutonomous:
    """Steps that read the view and the change alone: of relations below, no row is read."""

    def test_nothing_else_is_joined(self, shop: tm.Database) -> None:
        shop.execute("DELETE FROM visit WHERE minutes = 45")
        found = step(shop, "long_visits")
        assert (found["strategy"], found["rows_read"], found["rows_out"]) == ("autonomous", 0, 2)
        assert changes_at(shop, "long_visits") == {(1, 45): -2}

    @pytest.mark.small
    def test_counts_and_sums(self, shop: tm.Database) -> None:
        shop.execute("UPDATE sale SET customer = 2 WHERE id = 11")
        assert step(shop, "per_customer/counts")["strategy"] == "autonomous"
        assert step(shop, "per_customer/counts")["rows_read"] == 0
        assert changes_at(shop, "per_customer") == {(1, 2, 170): -1, (1, 1, 150): 1, (2, 1, 500): -1, (2, 2, 520): 1}

    def test_a_deleted_row_is_found_by_its_key(self, shop: tm.Database) -> None:
        shop.execute("DELETE FROM sale WHERE id = 10")
        found = step(shop, "large")
        assert (found["strategy"], found["rows_read"]) == ("autonomous", 0)
        assert found["reason"].startswith("the key of 'sale' (id) can be seen")
        assert changes_at(shop, "large") == {(10, "Ann", 150): -1}

    def test_an_update_of_what_is_not_joined_by(self, shop: tm.Database) -> None:
        shop.execute("UPDATE sale SET amount = amount + 1, note = 'up' WHERE id = 10")
        assert (step(shop, "large")["strategy"], step(shop, "large")["rows_read"]) == ("autonomous", 0)
        assert changes_at(shop, "large") == {(10, "Ann", 150): -1, (10, "Ann", 151): 1}

    def test_an_update_that_leaves_the_condition(self, shop: tm.Database) -> None:
        shop.execute("UPDATE sale SET amount = 7 WHERE id = 10")
        assert (step(shop, "large")["strategy"], step(shop, "large")["rows_read"]) == ("autonomous", 0)
        assert changes_at(shop, "large") == {(10, "Ann", 150): -1}

    def test_an_update_that_enters_the_condition_needs_the_partners(self, shop: tm.Database) -> None:
        shop.execute("UPDATE sale SET amount = 200 WHERE id = 11")
        assert step(shop, "large")["strategy"] == "differential"
        assert step(shop, "large")["rows_read"] > 0
        assert changes_at(shop, "large") == {(11, "Ann", 200): 1}

    def test_an_update_of_the_join_column_needs_the_partners(self, shop: tm.Database) -> None:
        shop.execute("UPDATE sale SET customer = 1 WHERE id = 12")
        assert step(shop, "large")["strategy"] == "differential"
        assert changes_at(shop, "large") == {(12, "Ann", 500): 1}

    def test_a_key_deleted_and_inserted_again_in_one_transaction(self, shop: tm.Database) -> None:
        with shop.transaction() as tx:
            tx.execute("DELETE FROM sale WHERE id = 10")
            tx.execute("INSERT INTO sale VALUES (10, 1, 170, 'again')")
        assert step(shop, "large")["strategy"] == "autonomous"
        assert changes_at(shop, "large") == {(10, "Ann", 150): -1, (10, "Ann", 170): 1}

    def test_keys_that_trade_places(self, shop: tm.Database) -> None:
        shop.execute("INSERT INTO sale VALUES (14, 1, 300, NULL)")
        shop.execute("UPDATE sale SET id = 24 - id WHERE id IN (10, 14)")
        assert changes_at(shop, "large") == {
            (10, "Ann", 150): -1, (14, "Ann", 300): -1, (14, "Ann", 150): 1, (10, "Ann", 300): 1,
        }  # fmt: skip

    def test_a_view_that_is_read_between_two_statements(self, shop: tm.Database) -> None:
        with shop.transaction() as tx:
            tx.execute("DELETE FROM sale WHERE id = 10")
            assert rows(tx.query("SELECT * FROM large")) == []
            tx.execute("INSERT INTO sale VALUES (10, 1, 101, NULL)")
            assert rows(tx.query("SELECT * FROM large")) == [(10, "Ann", 101)]
            tx.execute("UPDATE customer SET name = 'Anna' WHERE id = 1")
            assert rows(tx.query("SELECT * FROM large")) == [(10, "Anna", 101)]
        assert changes_at(shop, "large") == {(10, "Ann", 150): -1, (10, "Anna", 101): 1}

    def test_beside_a_change_of_another_table_that_is_irrelevant(self, shop: tm.Database) -> None:
        with shop.transaction() as tx:
            tx.execute("UPDATE sale SET amount = 160 WHERE id = 10")
            tx.execute("UPDATE customer SET since = DATE '2024-02-29' WHERE town = 'Rome'")
        assert (step(shop, "large")["strategy"], step(shop, "large")["rows_read"]) == ("autonomous", 0)

    def test_not_beside_a_change_of_another_table_that_matters(self, shop: tm.Database) -> None:
        with shop.transaction() as tx:
            tx.execute("UPDATE sale SET amount = 160 WHERE id = 10")
            tx.execute("UPDATE customer SET name = 'Anna' WHERE id = 1")
        assert step(shop, "large")["strategy"] == "differential"
        assert changes_at(shop, "large") == {(10, "Ann", 150): -1, (10, "Anna", 160): 1}

    def test_partners_that_can_be_seen_serve_rows_that_come(self, db: tm.Database) -> None:
        """By links: the town of a customer is in the view already."""
        db.execute("CREATE TABLE c (id INT PRIMARY KEY, town VARCHAR); CREATE TABLE o (c INT, amount INT)")
        db.execute("INSERT INTO c VALUES (1, 'Oslo'), (2, NULL); INSERT INTO o VALUES (1, 5), (1, 5), (2, 7)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT o.c, o.amount, c.town FROM o JOIN c ON o.c = c.id")
        db.execute("INSERT INTO o VALUES (1, 5), (2, 8), (NULL, 1)")
        assert (step(db, "v")["strategy"], step(db, "v")["rows_read"]) == ("autonomous", 0)
        assert changes_at(db, "v") == {(1, 5, "Oslo"): 1, (2, 8, None): 1}
        db.execute("DELETE FROM o WHERE c = 2")
        db.execute("INSERT INTO o VALUES (2, 9)")  # the view shows nothing of customer 2 any more
        assert step(db, "v")["strategy"] == "differential"

    def test_partners_that_cannot_be_told_apart_are_read(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE c (id INT, town VARCHAR); CREATE TABLE o (c INT, amount INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT o.c, o.amount, c.town FROM o JOIN c ON o.c = c.id")
        db.execute("INSERT INTO c VALUES (1, 'Oslo'), (1, 'Oslo'); INSERT INTO o VALUES (1, 5)")
        db.execute("INSERT INTO o VALUES (1, 6)")
        assert step(db, "v")["strategy"] == "differential"
        assert changes_at(db, "v") == {(1, 6, "Oslo"): 2}

    def test_an_attempt_that_failed_is_not_made_again_at_once_but_later(self, db: tm.Database) -> None:
        """Whether an autonomous step is tried is a matter of cost alone: what comes out is the same."""
        db.execute("CREATE TABLE c (id INT PRIMARY KEY, town VARCHAR); CREATE TABLE o (c INT, amount INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT o.c, o.amount, c.town FROM o JOIN c ON o.c = c.id")
        db.execute("INSERT INTO c VALUES (1, 'Oslo'), (2, 'Rome'); INSERT INTO o VALUES (1, 5)")
        db.execute("INSERT INTO o VALUES (2, 1)")
        taken = []
        for n in range(18):
            db.execute(f"INSERT INTO o VALUES (1, {n})")
            taken.append(step(db, "v")["strategy"])
        assert taken[0] == "differential"
        assert taken[-1] == "autonomous"

    def test_what_the_change_alone_decides_never_waits(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE c (id INT PRIMARY KEY, town VARCHAR); CREATE TABLE o (c INT, amount INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT o.c, o.amount, c.town FROM o JOIN c ON o.c = c.id")
        db.execute("INSERT INTO c VALUES (1, 'Oslo'), (2, 'Rome')")
        db.execute("INSERT INTO o VALUES (1, 5), (1, 6), (2, 7)")
        assert step(db, "v")["strategy"] == "differential"
        db.execute("UPDATE o SET amount = amount + 1 WHERE c = 1")
        assert (step(db, "v")["strategy"], step(db, "v")["rows_read"]) == ("autonomous", 0)
        db.execute("DELETE FROM o WHERE amount = 6")
        assert (step(db, "v")["strategy"], step(db, "v")["rows_read"]) == ("autonomous", 0)

    def test_doubles_are_never_looked_for(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k DOUBLE PRIMARY KEY, a INT, f DOUBLE); CREATE TABLE s (f DOUBLE, y INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT t.k, t.a, s.y FROM t JOIN s ON t.f = s.f")
        db.execute("CREATE MATERIALIZED VIEW g AS SELECT a, SUM(f) AS t, COUNT(*) AS n FROM t GROUP BY a")
        with db.transaction() as tx:
            tx.insert("s", [(0.0, 1), (float("nan"), 2)])
            tx.insert("t", [(1.5, 1, -0.0), (float("nan"), 1, float("nan")), (0.1, 2, None)])
        db.execute("UPDATE t SET a = a + 1")
        assert step(db, "v")["strategy"] == "differential"
        db.execute("DELETE FROM t WHERE k = 1.5")

    @pytest.mark.small
    def test_an_extremum_that_goes_is_looked_for_below(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (g INT, a INT); INSERT INTO t VALUES (1, 5), (1, 7), (2, 1)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, MIN(a) AS lo, COUNT(*) AS n FROM t GROUP BY g")
        db.execute("DELETE FROM t WHERE a = 5")
        assert changes_at(db, "v") == {(1, 5, 2): -1, (1, 7, 1): 1}
        assert strategies(db)["v/counts"] == "differential"

    def test_a_view_declared_complete_takes_no_other_step(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT)")
        db.execute("CREATE MATERIALIZED VIEW v WITH (strategy = 'complete') AS SELECT k FROM t WHERE a > 3")
        db.execute("INSERT INTO t VALUES (1, 1)")
        assert strategies(db) == {"v": "complete"}


def effect(db: tm.Database, view: str, dml: str) -> tuple[str, str]:
    found = db.classify(view, dml)
    table = db.execute(f'EXPLAIN EFFECT OF {dml} ON "{view}"') if ";" not in dml else None
    assert table is None or table.to_pylist() == [{"kind": found.kind, "reason": found.reason}]
    return found.kind, found.reason


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
class TestClassify:
    """What a statement is to a view before it runs, with the reason in words; EXPLAIN EFFECT says the same.

    It is proved from text and definitions: no engine has a say in it.
    """

    @pytest.mark.parametrize(
        ("view", "dml", "kind", "reason"),
        [
            ("large", "DELETE FROM visit", "untouched", "large does not depend on visit"),
            (
                "large",
                "DELETE FROM sale WHERE amount <= 100",
                "irrelevant",
                "the view needs customer = id and amount > 100 and town = 'Oslo', "
                "the statement deletes only amount <= 100",
            ),
            (
                "large",
                "INSERT INTO sale VALUES (1, NULL, 500, ''), (2, 1, 100, '')",
                "irrelevant",
                "the view needs customer = id and amount > 100 and town = 'Oslo', no inserted row can meet that",
            ),
            (
                "large",
                "UPDATE sale SET amount = amount - 1 WHERE amount < 50",
                "irrelevant",
                "rows that the statement updates, amount < 50, meet that as before or not at all",
            ),
            ("large", "UPDATE sale SET note = 'x'", "irrelevant", "the view does not read the columns"),
            ("large", "DELETE FROM sale WHERE amount > 100", "autonomous", "the key of 'sale' (id) can be seen"),
            ("large", "UPDATE sale SET amount = 10 WHERE id = 10", "autonomous", "the key of 'sale' (id) can be seen"),
            ("large", "UPDATE sale SET amount = 500", "conditional", "for some changes only: the key of 'sale' (id)"),
            ("large", "INSERT INTO sale VALUES (1, 1, 500, '')", "conditional", "for some changes only: "),
            (
                "large",
                "DELETE FROM customer WHERE since IS NULL",
                "differential",
                "it does not show which rows the deletion is about: customer.since; 'customer' is joined with 'sale'; ",
            ),
            ("large", "DELETE FROM customer", "autonomous", "it shows which of its rows come from rows of 'customer'"),
            (
                "large",
                "DELETE FROM customer WHERE name = 'Ann'",
                "autonomous",
                "it shows which of its rows come from rows of 'customer' that are deleted (proved of the statement; ",
            ),
            ("per_customer", "DELETE FROM sale WHERE amount > 5", "autonomous", "and its counts and sums add up"),
            ("long_visits", "INSERT INTO visit SELECT id, 31 FROM sale", "autonomous", "from one row of it alone"),
        ],
    )  # fmt: skip
    def test_a_statement(self, shop: tm.Database, view: str, dml: str, kind: str, reason: str) -> None:
        found = effect(shop, view, dml)
        assert found[0] == kind
        assert reason in found[1]

    def test_a_transaction_is_as_its_weakest_statement(self, shop: tm.Database) -> None:
        cheap, dear = "DELETE FROM sale WHERE amount < 9", "INSERT INTO customer VALUES (7, 'Oslo', 'Eve', NULL)"
        assert shop.classify("large", f"{cheap}; {cheap}").kind == "irrelevant"
        found = shop.classify("large", f"{cheap}; {dear}; DELETE FROM visit")
        assert found.kind == "differential"
        assert found.reason.startswith("statement 2 of 3: ")
        assert shop.classify("large", "").kind == "untouched"

    def test_two_relations_that_change_together_are_not_autonomous(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT); CREATE TABLE o (x INT PRIMARY KEY, y INT)")
        db.execute("CREATE MATERIALIZED VIEW j AS SELECT t.k, o.x FROM t JOIN o ON t.a = o.x")
        db.execute("INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO o VALUES (1, 1), (2, 2)")
        both = "DELETE FROM t WHERE k = 1; DELETE FROM o WHERE x = 2"
        assert {db.classify("j", one).kind for one in both.split("; ")} == {"autonomous"}
        found = db.classify("j", both)
        assert (found.kind, found.reason) == ("differential", "it reads o and t, which change together")
        with db.transaction() as tx:
            tx.execute(both)
        assert strategies(db) == {"j": "differential"}

    def test_constraints_may_be_violated_between_two_statements(self, db: tm.Database) -> None:
        """Alone, neither could matter: no row with a < 0 is ever committed."""
        db.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT CHECK (a >= 0))")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, a FROM t WHERE a > 3")
        first, second = "INSERT INTO t VALUES (7, -5)", "UPDATE t SET a = 5 WHERE a = -5"
        assert db.classify("v", first).kind == db.classify("v", second).kind == "irrelevant"
        assert db.classify("v", f"{first}; {second}").kind == "autonomous"
        with db.transaction() as tx:
            tx.execute(f"{first}; {second}")
        assert changes_at(db, "v") == {(7, 5): 1}

    def test_a_join_that_stands_in_several_parts_of_a_view(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (k INT, a INT); CREATE TABLE s (k INT, b INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT t.a, s.b FROM t FULL JOIN s ON t.k = s.k AND t.a < s.b")
        assert effect(db, "v", "DELETE FROM t WHERE a = 1") == (
            "differential", "a join that stands in several parts of it is evaluated for all of them",
        )  # fmt: skip
        db.execute("INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO s VALUES (1, 2), (3, 3)")

    def test_a_view_on_views(self, shop: tm.Database) -> None:
        shop.execute("CREATE VIEW plain AS SELECT * FROM sale WHERE amount > 10")
        shop.execute("CREATE MATERIALIZED VIEW top AS SELECT id FROM large WHERE amount > 400")
        shop.execute("CREATE MATERIALIZED VIEW through AS SELECT id FROM plain WHERE amount < 20")
        assert effect(shop, "top", "DELETE FROM sale WHERE amount < 300")[0] == "irrelevant"
        assert effect(shop, "top", "DELETE FROM sale WHERE amount > 300")[0] == "autonomous"
        assert effect(shop, "through", "DELETE FROM sale WHERE amount > 20")[0] == "irrelevant"
        assert effect(shop, "plain", "DELETE FROM sale WHERE amount = 5")[0] == "irrelevant"
        assert effect(shop, "plain", "DELETE FROM sale") == (
            "differential", "plain is not stored: it is evaluated when it is read",
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("sql", "code", "message", "place"),
        [
            ("EXPLAIN EFFECT OF DELETE FROM sale ON nothing", "unknown_relation", "no relation 'nothing'", None),
            ("EXPLAIN EFFECT OF DELETE FROM sale ON sale", "not_a_view", "'sale' is a table", None),
            ("EXPLAIN EFFECT OF DELETE FROM sale", "syntax", "needs a statement and ON a view", (1, 9)),
            ("EXPLAIN EFFECT OF INSERT INTO visit VALUES ('on')", "syntax", "needs a statement and ON a view", (1, 9)),
            ("EXPLAIN EFFECT OF ON large", "syntax", "needs a statement and ON a view", (1, 9)),
            ("EXPLAIN EFFECT OF SELECT 1 ON large", "syntax", "INSERT, UPDATE or DELETE is expected here", (1, 19)),
            ("EXPLAIN EFFECT OF DROP TABLE sale ON large", "syntax", "INSERT, UPDATE or DELETE is expected", (1, 19)),
            ("EXPLAIN EFFECT OF DELETE FROM sale ON large too", "syntax", "nothing more is expected here", (1, 45)),
            ("EXPLAIN EFFECT OF DELETE FROM large ON large", "not_a_table", "'large' is a view", (1, 31)),
            ("SELECT 1;\nEXPLAIN EFFECT OF\nDELETE FROM sale\n  WHERE x = 1 ON large", "unknown_column", "'x'", (4, 9)),
            ("SELECT 1;\nEXPLAIN EFFECT OF DELETE FROM nowhere ON large", "unknown_relation", "'nowhere'", (2, 31)),
        ],
    )  # fmt: skip
    def test_what_is_refused(
        self, shop: tm.Database, sql: str, code: str, message: str, place: tuple[int, int] | None
    ) -> None:
        with pytest.raises(tm.TidemarkError) as caught:
            shop.execute(sql)
        assert caught.value.code == code
        assert message in caught.value.message
        found = caught.value.place
        assert (None if found is None else (found.line, found.column)) == place

    def test_a_view_named_on_and_a_text_that_says_on(self, db: tm.Database) -> None:
        db.execute("CREATE TABLE t (a VARCHAR); CREATE MATERIALIZED VIEW \"on\" AS SELECT a FROM t WHERE a = 'on'")
        assert effect(db, "on", "INSERT INTO t VALUES ('off')")[0] == "irrelevant"
        assert effect(db, "on", "INSERT INTO t VALUES ('on')")[0] == "autonomous"

    def test_classify_takes_statements_that_change_tables(self, shop: tm.Database) -> None:
        for dml in ("SELECT 1", "BEGIN; DELETE FROM sale; COMMIT", "DROP TABLE sale"):
            with pytest.raises(tm.TidemarkError, match="INSERT, UPDATE or DELETE is expected here"):
                shop.classify("large", dml)
        with pytest.raises(tm.TidemarkError, match="dml is a text, not None"):
            shop.classify("large", None)  # type: ignore[arg-type]

    def test_nothing_is_run(self, shop: tm.Database) -> None:
        version = shop.version
        shop.classify("large", "DELETE FROM sale")
        shop.execute("EXPLAIN EFFECT OF DELETE FROM sale ON large")
        assert shop.version == version
        assert len(rows(shop.query("SELECT id FROM sale"))) == 4


def test_explain_shows_the_filters_and_the_autonomous_steps(shop: tm.Database) -> None:
    text = shop.explain("large")
    assert (
        "only rows of sale with amount > 100 and customer IS NOT NULL can matter; others are filtered out first" in text
    )
    assert "only rows of customer with town = 'Oslo' can matter; others are filtered out first" in text
    assert "autonomous for changes of sale alone: the key of 'sale' (id) can be seen" in text
    assert "autonomous for changes of customer" not in text
    assert "autonomous for changes of visit alone: the change alone is enough" in shop.explain("long_visits")
