"""The rules of autonomy are sound: on every small instance what they derive is the change by first principle.

Families: every rule of many views on all tiny instances and on larger ones by chance; which changes each rule
decides; and regressions for the texts' conditions that do not hold for bags.
"""

from __future__ import annotations

import pytest

from tests.analysis.instances import World, check, derived, random_transitions, transitions, undecided
from tests.bags import Bag, changes, plus
from tidemark.algebra.plans import relations_of
from tidemark.analysis.autonomy.criteria import Autonomy, autonomy
from tidemark.network import Node

TABLES = """
CREATE TABLE r (k INT PRIMARY KEY, a INT, b INT);
CREATE TABLE s (j INT PRIMARY KEY, c INT);
CREATE TABLE heap (a INT, b INT);
"""

VIEWS = {
    "one table": "SELECT a, b + 1 AS c FROM r WHERE a > 0",
    "one table, distinct": "SELECT DISTINCT a FROM r WHERE b = 1",
    "one table, counts and sums": "SELECT a, COUNT(*) AS n, SUM(b) AS t FROM r GROUP BY a",
    "one table, total": "SELECT COUNT(*) AS n, SUM(b) AS t FROM r WHERE a = 1",
    "one table, extrema": "SELECT a, MIN(b) AS m, MAX(k) AS n FROM r GROUP BY a",
    "key, all links": "SELECT r.k, r.a, r.b, s.c FROM r JOIN s ON r.a = s.j",
    "key, hidden link": "SELECT r.k, r.b, s.c FROM r JOIN s ON r.a = s.j",
    "key, inequality": "SELECT r.k, s.c FROM r JOIN s ON r.a < s.c",
    "key, local conditions": "SELECT r.k, r.a, s.c FROM r JOIN s ON r.a = s.j WHERE r.b > 0 AND s.c IS NOT NULL",
    "key through the join": "SELECT s.j, s.c, r.b FROM r JOIN s ON r.k = s.j",
    "links only": "SELECT r.a, r.b, s.c FROM r JOIN s ON r.a = s.j",
    "links through the partner": "SELECT s.j, s.c, r.b FROM r JOIN s ON r.a = s.j",
    "neither": "SELECT r.b, s.c FROM r JOIN s ON r.a = s.j",
    "mixed column": "SELECT r.k, r.b, COALESCE(r.a, 0) + COALESCE(s.c, 0) AS x FROM r JOIN s ON r.b = s.j",
    "product": "SELECT r.k, r.a, s.c FROM r CROSS JOIN s",
    "heap": "SELECT heap.a, heap.b, s.c FROM heap JOIN s ON heap.a = s.j",
    "heap as partner": "SELECT r.k, r.a, r.b, heap.b AS x FROM r JOIN heap ON r.a = heap.a",
    "distinct": "SELECT DISTINCT r.a, s.c FROM r JOIN s ON r.a = s.j",
    "distinct, hidden partner": "SELECT DISTINCT r.k, r.a FROM r JOIN heap ON r.a = heap.a",
    "distinct, key": "SELECT DISTINCT r.k, r.a, s.c FROM r JOIN s ON r.a >= s.c",
    "groups of a key": "SELECT r.k, r.b, COUNT(*) AS n, SUM(s.c) AS t FROM r JOIN s ON r.a >= s.j GROUP BY r.k, r.b",
    "groups, own sums": "SELECT s.j, s.c, SUM(r.b) AS t, COUNT(*) AS n FROM r JOIN s ON r.a = s.j GROUP BY s.j, s.c",
    "groups, extrema": "SELECT r.k, MIN(s.c) AS m, MAX(r.b) AS n FROM r JOIN s ON r.a >= s.j GROUP BY r.k",
    "groups, list": "SELECT r.k, r.b, STRING_AGG(CAST(s.c AS VARCHAR), ',' ORDER BY s.c) AS t "
    "FROM r JOIN s ON r.a = s.j GROUP BY r.k, r.b",
    "left join": "SELECT r.k, r.b, s.c FROM r LEFT JOIN s ON r.a = s.j AND r.b > 0",
    "left join, padded side": "SELECT s.j, s.c, r.a FROM s LEFT JOIN r ON r.a = s.j",
    "full join": "SELECT r.k, s.j, r.b FROM r FULL JOIN s ON r.a = s.j",
    "exists": "SELECT k, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.j = r.a)",
    "exists, link": "SELECT b, a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.c = r.a)",
    "semi join with itself": "SELECT k, b FROM r WHERE EXISTS (SELECT 1 FROM r x WHERE x.b = r.a)",
    "not exists": "SELECT k, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.j = r.a)",
    "union": "SELECT k, a FROM r UNION ALL SELECT k, b FROM r WHERE b > 0",
    "union of tables": "SELECT k, a FROM r UNION ALL SELECT j, c FROM s",
    "self join": "SELECT x.k, y.k AS l, y.b FROM r x JOIN r y ON x.a = y.b",
    "self join, one key": "SELECT x.k, y.b FROM r x JOIN r y ON x.a = y.b",
    "scalar subquery": "SELECT k, b, (SELECT COUNT(*) FROM s WHERE s.c = r.a) AS n FROM r",
    "values": "SELECT r.k, r.a, x.v FROM r JOIN (VALUES (0, 'zero'), (1, 'one')) AS x (n, v) ON x.n = r.a",
    "three tables": "SELECT r.k, r.b, s.j, s.c, heap.b AS h FROM r JOIN s ON r.a = s.j JOIN heap ON heap.a = s.c",
    "chain of keys": "SELECT heap.b, r.k, s.j, s.c FROM heap JOIN r ON heap.a = r.k JOIN s ON r.a = s.j",
}


def world_of(query: str) -> World:
    return World.of(f"{TABLES} CREATE MATERIALIZED VIEW v AS {query};")


def rules_of(world: World, table: str) -> list[tuple[Node, Autonomy]]:
    return [(n, autonomy(n.name, n.plan, table, world.keys)) for n in world.nodes(table)]


@pytest.mark.parametrize("name", VIEWS)
def test_what_a_rule_derives_is_the_change_by_first_principle(name: str) -> None:
    world = world_of(VIEWS[name])
    for table in world.tables:
        for node, found in rules_of(world, table):
            for rule in found.rules:
                for tables, after in random_transitions(world, table, (None, 0, 1, 2), 4, 90):
                    check(world, table, node, rule, tables, after)


@pytest.mark.parametrize(
    "name", ["key, hidden link", "links only", "distinct", "heap", "groups, own sums", "left join"]
)
def test_on_every_tiny_instance(name: str) -> None:
    """Two rows at most in each table and two values in each column: no instance is left out."""
    world = world_of(VIEWS[name])
    used = {table for table in world.tables if world.nodes(table)}
    small = World({name: world.tables[name] for name in used}, world.network, world.keys, world.catalog)
    decided = 0
    for table in sorted(used):
        for node, found in rules_of(world, table):
            for rule in found.rules:
                for tables, after in transitions(small, table, (0, 1), 2, 1):
                    decided += check(small, table, node, rule, tables, after)
    assert decided > 100


SHOP = """
CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR, town VARCHAR);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount INT, note VARCHAR);
"""
CONTENT: dict[str, Bag] = {
    "customer": {(1, "Ann", "Oslo"): 1, (2, "Bob", "Rome"): 1, (3, "Cy", "Rome"): 1},
    "orders": {(10, 1, 5, "a"): 1, (11, 1, 7, "b"): 1, (12, 2, 5, "c"): 1, (13, None, 9, "d"): 1},
}


def decides(query: str, table: str, change: Bag) -> list[bool]:
    """Which of the rules that hold decide a change of the shop, each checked to be right if it does."""
    world = World.of(f"{SHOP} CREATE MATERIALIZED VIEW v AS {query};")
    after = {row: w for row, w in {**CONTENT[table], **change}.items() if w > 0}
    (node,) = world.nodes(table)
    rules = autonomy(node.name, node.plan, table, world.keys).rules
    return [check(world, table, node, rule, CONTENT, after) for rule in rules]


BY_KEY = "SELECT o.id, c.name, o.amount FROM orders o JOIN customer c ON o.customer = c.id WHERE o.amount < 9"
BY_LINKS = "SELECT c.id, c.name, o.amount FROM orders o JOIN customer c ON o.customer = c.id WHERE o.amount < 9"
TOTALS = (
    "SELECT c.id, c.town, COUNT(*) AS n, SUM(o.amount) AS total "
    "FROM orders o JOIN customer c ON o.customer = c.id GROUP BY c.id, c.town"
)


@pytest.mark.parametrize(
    ("query", "table", "change", "expected"),
    [
        (BY_KEY, "orders", {(10, 1, 5, "a"): 0}, [True]),  # deleted
        (BY_KEY, "orders", {(10, 1, 5, "a"): 0, (10, 1, 6, "a"): 1}, [True]),  # a column that is shown
        (BY_KEY, "orders", {(10, 1, 5, "a"): 0, (10, 1, 9, "a"): 1}, [True]),  # fails a condition now
        (BY_KEY, "orders", {(10, 1, 5, "a"): 0, (10, 2, 5, "a"): 1}, [False]),  # another partner
        (BY_KEY, "orders", {(13, None, 9, "d"): 0, (13, None, 8, "d"): 1}, [True]),  # NULL joins with nothing
        (BY_KEY, "orders", {(14, 1, 5, "e"): 1}, [False]),  # inserted
        (BY_KEY, "orders", {(14, 1, 9, "e"): 1}, [True]),  # inserted, but fails a condition
        (BY_KEY, "customer", {}, []),
        (BY_LINKS, "orders", {(10, 1, 5, "a"): 0}, [True]),
        (BY_LINKS, "orders", {(14, 1, 5, "e"): 1}, [True]),  # inserted, and the customer can be seen
        (BY_LINKS, "orders", {(14, 3, 5, "e"): 1}, [False]),  # inserted for a customer without orders
        (BY_LINKS, "orders", {(10, 1, 5, "a"): 0, (10, 2, 6, "a"): 1}, [True]),
        (BY_LINKS, "customer", {(1, "Ann", "Oslo"): 0, (1, "Eve", "Oslo"): 1}, [True]),
        (BY_LINKS, "customer", {(1, "Ann", "Oslo"): 0}, [True]),
        (BY_LINKS, "customer", {(4, "Di", "Rome"): 1}, [False]),
        (TOTALS, "orders", {(14, 1, 5, "e"): 1, (11, 1, 7, "b"): 0}, [True]),
        (TOTALS, "orders", {(12, 2, 5, "c"): 0}, [True]),  # the group goes
        (TOTALS, "orders", {(14, 3, 5, "e"): 1}, [False]),
        (TOTALS, "customer", {(1, "Ann", "Oslo"): 0, (1, "Ann", "Rome"): 1}, [True]),  # groups move
    ],
)
def test_which_changes_are_decided(query: str, table: str, change: Bag, expected: list[bool]) -> None:
    assert decides(query, table, change) == expected


def test_a_column_that_is_not_shown_is_asked_for() -> None:
    world = World.of(f"{SHOP} CREATE MATERIALIZED VIEW v AS {BY_KEY};")
    (node,) = world.nodes("customer")
    refusals = autonomy(node.name, node.plan, "customer", world.keys).refusals
    assert [refusal.missing for refusal in refusals] == [(), ("customer.id",), ("customer.id",)]


def test_weights_follow_where_equal_rows_come_from_several_rows() -> None:
    """Without keys, one of two equal rows leaves and one of their two equal results with it."""
    world = world_of("SELECT heap.a, heap.b, s.c FROM heap JOIN s ON heap.a = s.j")
    (node,) = world.nodes("heap")
    (rule,) = autonomy("v", node.plan, "heap", world.keys).rules
    stored: Bag = {(1, 5, 7): 2, (1, 6, 7): 1}
    assert derived(rule, node, stored, "heap", {(1, 5): -1}) == {(1, 5, 7): -1}
    assert derived(rule, node, stored, "heap", {(1, 6): 2, (1, 5): -2}) == {(1, 6, 7): 2, (1, 5, 7): -2}
    assert undecided(rule, node, stored, "heap", {(2, 5): 2, (1, 6): 1}) == {(2, 5): 2}


def test_what_is_undecided_can_be_split_off() -> None:
    """The effects of two parts of a change add up: the undecided entries may be derived in another way."""
    world = world_of(VIEWS["links only"])
    (node,) = world.nodes("r")
    (rule,) = autonomy("v", node.plan, "r", world.keys).rules
    for tables, after in random_transitions(world, "r", (None, 0, 1), 3, 200):
        stored, change = world.content(node, tables), changes(tables["r"], after)
        rest = undecided(rule, node, stored, "r", change)
        part = changes(rest, change)
        middle = {**tables, "r": plus(tables["r"], part)}
        expected = changes(stored, world.content(node, middle))
        assert derived(rule, node, stored, "r", part) == expected


def test_a_self_join_needs_the_relation_itself() -> None:
    """Theorem 4.1 as printed asks only that no other relation is joined: a row that comes would meet the others."""
    world = world_of("SELECT x.b, y.b AS c FROM r x JOIN r y ON x.a = y.a")
    (node,) = world.nodes("r")
    assert autonomy("v", node.plan, "r", world.keys).rules == ()


def test_the_count_of_a_distinct_row_follows_from_its_partners_only_if_they_are_told_apart() -> None:
    """Two rows of the heap stand behind one row of the view: how many go with a row of r is not known."""
    world = world_of("SELECT DISTINCT r.a FROM r JOIN heap ON r.a = heap.a")
    (node,) = world.nodes("r")
    assert autonomy(node.name, node.plan, "r", world.keys).rules == ()


def test_nothing_below_is_read() -> None:
    for query in VIEWS.values():
        world = world_of(query)
        for table in world.tables:
            for node, found in rules_of(world, table):
                for rule in found.rules:
                    assert relations_of(rule.delta) <= {node.name, table}
