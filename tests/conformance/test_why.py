"""EXPLAIN WHY and WHY NOT, and WHY … AT VERSION, on every engine."""

from __future__ import annotations

import pytest

import tidemark as tm
from tests.proofs import check_answer
from tests.support import bag_of
from tidemark.provenance import Cause, Derivation

SPARK_VARIANTS = ("spark",)

TABLES = """
CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR);
CREATE TABLE sale (id INT PRIMARY KEY, customer INT, amount DECIMAL(8,2));
INSERT INTO customer VALUES (1, 'ann'), (2, 'bob'), (3, NULL);
INSERT INTO sale VALUES (7, 1, 50.00), (8, 1, 5.00), (9, NULL, 70.00);
CREATE MATERIALIZED VIEW big AS
    SELECT name, amount FROM customer JOIN sale ON customer.id = sale.customer WHERE amount > 10;
CREATE MATERIALIZED VIEW total AS
    SELECT name, SUM(amount) AS total, MAX(amount) AS most FROM customer JOIN sale ON customer.id = customer
    GROUP BY name;
CREATE VIEW lonely AS SELECT name FROM customer c WHERE NOT EXISTS (SELECT 1 FROM sale s WHERE s.customer = c.id);
CREATE MATERIALIZED VIEW every AS SELECT name FROM big UNION ALL SELECT name FROM lonely;
"""


def lines(db: tm.Database, text: str) -> list[str]:
    table = db.execute(text)
    assert table is not None
    return [str(line) for line in table["explain"].to_pylist()]


@pytest.fixture
def shop(db: tm.Database) -> tm.Database:
    db.execute(TABLES)
    return db


def test_a_join_is_explained_down_to_stored_rows(shop: tm.Database) -> None:
    assert lines(shop, "EXPLAIN WHY ('ann', 50) IN big") == [
        "(name = 'ann', amount = 50.00) is in big",
        "└─ joins customer and sale, where customer.id = customer and amount > 10.00",
        "   ├─ customer (id = 1, name = 'ann')   a stored row",
        "   └─ sale (id = 7, customer = 1, amount = 50.00)   a stored row",
    ]


def test_the_first_condition_that_fails_is_named_with_the_nearest_rows(shop: tm.Database) -> None:
    assert lines(shop, "EXPLAIN WHY NOT ('ann', 5) IN big")[1:] == [
        "└─ customer (id = 1, name = 'ann') and sale (id = 8, customer = 1, amount = 5.00) are there, "
        "but amount > 10.00 is false: amount = 5.00",
    ]
    assert lines(shop, "EXPLAIN WHY NOT ('bob', 5) IN big")[1:] == [
        "└─ customer (id = 2, name = 'bob') is there, but finds no partner in sale",
        "   └─ no row of sale has customer = 2",
    ]
    assert lines(shop, "EXPLAIN WHY NOT ('eve', 5) IN big")[1:] == ["└─ no row of customer has name = 'eve'"]


def test_a_question_the_wrong_way_round_is_answered_all_the_same(shop: tm.Database) -> None:
    assert lines(shop, "EXPLAIN WHY NOT ('ann', 50) IN big") == lines(shop, "EXPLAIN WHY ('ann', 50) IN big")
    assert lines(shop, "EXPLAIN WHY ('eve', 5) IN big")[0] == "(name = 'eve', amount = 5.00) is not in big"


def test_a_group_is_explained_by_its_rows_or_by_its_other_values(shop: tm.Database) -> None:
    there = lines(shop, "EXPLAIN WHY (name = 'ann') IN total")
    assert there[0] == "(name = 'ann', total = 55.00, most = 50.00) is in total"
    assert there[1] == "└─ (name = 'ann', sum = 55.00, max = 50.00) groups customer and sale by name: 2 rows"
    assert "the group (name = 'ann') is there, but with sum = 55.00, not 56.00" in "\n".join(
        lines(shop, "EXPLAIN WHY NOT (name = 'ann', total = 56) IN total")
    )
    assert lines(shop, "EXPLAIN WHY NOT (name = 'bob') IN total")[1:] == [
        "└─ there is no group (name = 'bob')",
        "   └─ customer (id = 2, name = 'bob') is there, but finds no partner in sale",
        "      └─ no row of sale has customer = 2",
    ]


def test_what_has_to_be_missing_is_part_of_the_answer(shop: tm.Database) -> None:
    assert lines(shop, "EXPLAIN WHY ('bob') IN every") == [
        "(name = 'bob') is in every",
        "└─ (id = 2, name = 'bob') is there, and nothing excludes it   part 2 of 2",
        "   ├─ customer (id = 2, name = 'bob')   a stored row",
        "   └─ no row of sale has customer = 2",
    ]
    assert lines(shop, "EXPLAIN WHY NOT (name = 'ann') IN lonely")[1:3] == [
        "└─ (id = 1, name = 'ann') is there, but something excludes it",
        "   └─ (id = 1, name = 'ann') joins customer and sale, where id = customer",
    ]


@pytest.mark.parametrize("engine", ["reference", "duckdb", "duckdb by statements"], indirect=True)
def test_every_row_of_every_view_has_a_proof(shop: tm.Database) -> None:
    for view in ("big", "total", "lonely", "every"):
        content = bag_of(shop.query(f"SELECT * FROM {view}"))
        assert content
        for row in content:
            check_answer(shop, view, row, content)


def test_rows_are_given_in_python_as_tuples_or_by_name(shop: tm.Database) -> None:
    whole, some = shop.why("customer", (1, "ann")), shop.why("customer", {"id": 1})
    assert isinstance(whole, Derivation)
    assert str(whole) == str(some) == "customer (id = 1, name = 'ann')   a stored row"
    assert not shop.why_not("customer", (1, None)).is_there
    with pytest.raises(tm.TidemarkError, match="has no column 'nam'"):
        shop.why("customer", {"nam": 1})
    with pytest.raises(tm.TidemarkError, match="has 1 values"):
        shop.why("customer", (1,))


def test_an_open_transaction_explains_what_it_sees(shop: tm.Database) -> None:
    shop.execute("BEGIN")
    shop.execute("INSERT INTO sale VALUES (10, 2, 99)")
    assert lines(shop, "EXPLAIN WHY ('bob', 99) IN big")[-1] == (
        "   └─ sale (id = 10, customer = 2, amount = 99.00)   a stored row"
    )
    shop.execute("ROLLBACK")
    assert not shop.why("big", ("bob", 99)).is_there


def test_a_version_names_the_changes_that_brought_a_row(shop: tm.Database) -> None:
    with shop.transaction() as transaction:
        transaction.execute("INSERT INTO sale VALUES (10, 2, 60), (11, 2, 7), (12, 1, 1)")
        transaction.execute("DELETE FROM sale WHERE id = 7")
    version = shop.version
    shop.execute("DELETE FROM sale")
    assert lines(shop, f"EXPLAIN WHY ('bob', 60) IN big AT VERSION {version}") == [
        f"(name = 'bob', amount = 60.00) came into big in version {version}, which it would not have without",
        "  + sale (id = 10, customer = 2, amount = 60.00)   inserted",
        "",
        "(name = 'bob', amount = 60.00) is in big",
        "└─ joins customer and sale, where customer.id = customer and amount > 10.00",
        "   ├─ customer (id = 2, name = 'bob')   a stored row",
        "   └─ sale (id = 10, customer = 2, amount = 60.00)   inserted in this version",
    ]
    assert lines(shop, f"EXPLAIN WHY (name = 'ann') IN big AT VERSION {version}")[:2] == [
        f"(name = 'ann', amount = 50.00) left big in version {version}, which it would not have without",
        "  − sale (id = 7, customer = 1, amount = 50.00)   deleted",
    ]
    left = shop.why("lonely", ("bob",), version=version)
    assert isinstance(left, Cause)
    assert (left.before, left.after, left.is_there, left.is_minimal) == (1, 0, False, True)
    assert {change.row[0] for change in left.changes} == {10, 11}
    none = shop.why("big", ("zed", 1), version=version)
    assert str(none) == f"(name = 'zed', amount = 1.00) did not change in big in version {version}: it was not there"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("EXPLAIN WHY 1 IN big", "syntax"),
        ("EXPLAIN WHY (1, 2) big", "syntax"),
        ("EXPLAIN WHY ('ann', 50 IN big", "syntax"),
        ("EXPLAIN WHY ('ann', 50) IN", "syntax"),
        ("EXPLAIN WHY ('ann', 50) IN 7", "syntax"),
        ("EXPLAIN WHY ('ann', 50) IN big AT 3", "syntax"),
        ("EXPLAIN WHY ('ann', 50) IN big AT VERSION soon", "syntax"),
        ("EXPLAIN WHY ('ann', amount = 50) IN big", "syntax"),
        ("EXPLAIN WHY (name = 'ann', name = 'bob') IN big", "syntax"),
        ("EXPLAIN WHY (SELECT 'ann', 50) IN big", "syntax"),
        ("EXPLAIN WHY ('ann') IN big", "columns"),
        ("EXPLAIN WHY (size = 1) IN big", "unknown_column"),
        ("EXPLAIN WHY ('ann', 'much') IN big", "type"),
        ("EXPLAIN WHY ('ann', 50) IN huge", "unknown_relation"),
        ("EXPLAIN WHY ('ann', 50) IN big AT VERSION 99", "version"),
        ("EXPLAIN WHY ('ann', 50) IN big AT VERSION 1", "version"),
        ("EXPLAIN WHY (name = 'bob') IN big AT VERSION 7", "no_change"),
    ],
)
@pytest.mark.parametrize("engine", ["reference"], indirect=True)
def test_what_is_not_a_question_is_refused(shop: tm.Database, text: str, code: str) -> None:
    with pytest.raises(tm.TidemarkError) as caught:
        shop.execute(text)
    assert caught.value.code == code


@pytest.mark.parametrize("engine", ["reference"], indirect=True)
def test_a_view_may_be_named_why(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a INT); CREATE VIEW why AS SELECT a FROM t")
    assert lines(db, "EXPLAIN why")[0] == "view why (a INT)"
    assert lines(db, "EXPLAIN WHY NOT (1) IN why")[0] == "(a = 1) is not in why"


def test_any_row_can_be_asked_for(shop: tm.Database) -> None:
    assert shop.why("big", {}).is_there
    shop.execute("CREATE TABLE empty (a INT); CREATE VIEW nothing AS SELECT a FROM empty WHERE a > 1")
    assert str(shop.why_not("empty", {})) == "empty has no rows"
    assert str(shop.why_not("nothing", {})) == "any row is not in nothing\n└─ empty has no rows"
    assert str(shop.why_not("customer", {"id": 9})) == "no row of customer has id = 9"
