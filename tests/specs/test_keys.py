"""Which keys are derived from which definition, and what is said where there is none."""

from __future__ import annotations

import pytest

import tidemark as tm
from tidemark.algebra.keys import keys_of, why_no_key
from tidemark.state.pairs import relation_keys

SETUP = """
CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR, town VARCHAR);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount INT);
CREATE TABLE line (orders INT, number INT, item VARCHAR, PRIMARY KEY (orders, number));
CREATE TABLE heap (a INT, b INT);
CREATE MATERIALIZED VIEW totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;
"""


def keys(query: str) -> tuple[list[list[str]], str]:
    """The keys of a query, as names, and why there is none."""
    with tm.connect("reference") as db:
        db.execute(SETUP)
        db.execute(f"CREATE VIEW asked AS {query}")
        catalog = db._store.catalog
        plan = catalog.relations["asked"].plan  # type: ignore[union-attr]
        known = relation_keys(catalog)
        found = sorted(keys_of(plan, known))
        return [[plan.schema.names[i] for i in key] for key in found], "" if found else why_no_key(plan, known)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM customer", [["id"]]),
        ("SELECT id AS a, id AS b, name FROM customer", [["a"]]),
        ("SELECT id FROM customer WHERE town = 'x'", [["id"]]),
        ("SELECT name FROM customer WHERE id = 7", [[]]),
        ("SELECT orders, item FROM line WHERE number = 1", [["orders"]]),
        ("SELECT o.id, c.name FROM orders o JOIN customer c ON c.id = o.customer", [["id"]]),
        ("SELECT l.orders, number, town FROM line l JOIN orders o ON o.id = orders JOIN customer c ON c.id = customer",
         [["orders", "number"]]),
        ("SELECT o.id, l.number FROM line l JOIN orders o ON o.id = l.orders", [["id", "number"]]),
        ("SELECT a.id AS x, b.id AS y FROM customer a JOIN customer b ON a.town = b.town", [["x", "y"]]),
        ("SELECT a.id AS x, b.name FROM customer a JOIN customer b ON a.id = b.id", [["x"]]),
        ("SELECT b.id AS y, a.name FROM customer a JOIN customer b ON a.id = b.id", [["y"]]),
        ("SELECT DISTINCT a FROM heap", [["a"]]),
        ("SELECT DISTINCT c.id, c.town FROM customer c JOIN orders o ON o.customer = c.id", [["id"]]),
        ("SELECT town, COUNT(*) AS n FROM customer GROUP BY town", [["town"]]),
        ("SELECT c.id, c.name, COUNT(*) AS n FROM customer c JOIN orders o ON o.customer = c.id GROUP BY c.id, c.name",
         [["id"]]),
        ("SELECT COUNT(*) AS n FROM heap", [[]]),
        ("SELECT c.name, t.total, c.id FROM totals t JOIN customer c ON c.id = t.customer", [["id"]]),
        ("SELECT a FROM heap UNION SELECT b FROM heap", [["a"]]),
        ("SELECT id FROM customer EXCEPT ALL SELECT a FROM heap", [["id"]]),
        ("SELECT a FROM heap INTERSECT ALL SELECT id FROM customer", [["a"]]),
        ("SELECT a FROM heap EXCEPT SELECT b FROM heap", [["a"]]),
        ("VALUES (1, 2)", [[]]),
    ],
)  # fmt: skip
def test_keys_that_are_derived(query: str, expected: list[list[str]]) -> None:
    assert keys(query)[0] == expected


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT * FROM heap", "'heap' has no key"),
        ("SELECT c.id FROM customer c JOIN heap h ON h.a = c.id", "'heap' has no key"),
        ("SELECT name, town FROM customer", "the select list leaves out what tells its rows apart, (id)"),
        ("SELECT id + 0 AS id FROM customer", "the select list leaves out what tells its rows apart, (id)"),
        ("SELECT id FROM customer UNION ALL SELECT id FROM orders", "rows of a UNION ALL may come from several"),
        ("SELECT c.id FROM customer c JOIN orders o ON o.customer = c.id", "the select list leaves out"),
        ("VALUES (1), (1)", "rows of VALUES may repeat"),
    ],
)
def test_where_no_key_is_derived_the_reason_is_said(query: str, why: str) -> None:
    found, said = keys(query)
    assert found == [] and why in said
