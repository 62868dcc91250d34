"""Statements that are autonomous before they run: Theorems 4.1 to 4.3, their examples, and their soundness for bags."""

from __future__ import annotations

import random

import pytest

from tests.analysis.instances import Tables, World, derived, random_transitions, undecided
from tests.analysis.nonessential import is_nonessential
from tests.bags import Bag, bag, changes, compose
from tidemark.algebra.expressions import Column, Literal, transform
from tidemark.algebra.printing import show_plan
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import INT, Field
from tidemark.analysis.autonomy.classes import Class, advice_of, class_of
from tidemark.analysis.autonomy.criteria import Criterion, boundaries
from tidemark.analysis.autonomy.dml import Deletion, Insertion, Update, deleted_by_condition, updated_by_condition
from tidemark.analysis.autonomy.stored import Kept
from tidemark.analysis.autonomy.visible import Sight
from tidemark.network import Node


def rule_of(world: World, node: Node, statement: Deletion | Update) -> Criterion | None:
    kept = Kept.of(node.name, node.plan)
    by = deleted_by_condition if isinstance(statement, Deletion) else updated_by_condition
    found = by(kept, statement, world.checks)  # type: ignore[arg-type]
    return found if isinstance(found, Criterion) else None


THESIS = """
CREATE TABLE r1 (h INT NOT NULL, i INT NOT NULL);
CREATE TABLE r2 (j INT NOT NULL, k INT NOT NULL, l INT NOT NULL);
"""


def thesis(query: str, tables: str = THESIS) -> tuple[World, Node]:
    """The node that keeps the counts of a DISTINCT view."""
    world = World.of(f"{tables} CREATE MATERIALIZED VIEW v AS {query};")
    (node,) = (n for n in world.network.nodes.values() if n.name != "v" or len(world.network.nodes) == 1)
    return world, node


def test_example_4_3_an_insertion_is_autonomous_without_a_join() -> None:
    world, node = thesis("SELECT DISTINCT h, i FROM r1 WHERE h > 10 AND i = 5")
    verdict = class_of(Kept.of(node.name, node.plan), Insertion("r1"), world.keys, world.checks)
    assert verdict.kind is Class.AUTONOMOUS
    (rule,) = verdict.rules
    assert derived(rule, node, {}, "r1", bag([(6, 10), (12, 5)])) == {(12, 5, 1): 1}


def test_example_4_3_an_insertion_is_not_autonomous_with_a_join() -> None:
    world, node = thesis("SELECT DISTINCT h, i FROM r1, r2 WHERE i = j AND h > 10")
    verdict = class_of(Kept.of(node.name, node.plan), Insertion("r1"), world.keys, world.checks)
    assert verdict.kind is not Class.AUTONOMOUS


def test_example_4_4_a_deletion_whose_hidden_columns_are_nonessential() -> None:
    world, node = thesis("SELECT DISTINCT j, k FROM r1, r2 WHERE i = j AND h < 20")
    statement = world.statement("DELETE FROM r1 WHERE i = 20 AND h < 30")
    rule = rule_of(world, node, statement)
    assert rule is not None
    stored: Bag = {(10, 15, 1): 1, (20, 25, 3): 1}
    assert derived(rule, node, stored, "r1", {}) == {(20, 25, 3): -1}


def test_example_4_4_the_extended_attributes() -> None:
    world, node = thesis("SELECT DISTINCT j, k FROM r1, r2 WHERE i = j AND h < 20")
    kept = Kept.of(node.name, node.plan)
    (term,) = kept.terms("r1")
    sight = Sight.of(term, kept.schema, world.checks)
    names = ("h", "i", "j", "k", "l")
    assert [names[column] for column in sorted(sight.extended)] == ["i", "j", "k"]
    for text, expected in [("h < 30", True), ("h < 10", False), ("h < 30 OR i = 3", True), ("h < 10 OR i = 3", False)]:
        statement = world.statement(f"DELETE FROM r1 WHERE {text}")
        assert is_nonessential(sight, statement.where) is expected
        assert (sight.asked(statement.where) is not None) is expected


def test_example_4_6_an_update_in_four_steps() -> None:
    """{(5,19),(22,16)} becomes {(5,19),(22,23)}; the text prints (5,20) and an L of 29, whose J = 32 is out of
    range."""
    tables = "".join(
        f"CREATE TABLE {name} ({', '.join(f'{c} INT NOT NULL CHECK ({c} BETWEEN 0 AND 30)' for c in columns)});"
        for name, columns in (("r1", "hi"), ("r2", "jkl"))
    )
    world, node = thesis("SELECT DISTINCT i, j FROM r1, r2 WHERE i = k AND l = 20", tables)
    statement = world.statement("UPDATE r2 SET j = l + 3 WHERE k > 5 AND k <= 22")
    rule = rule_of(world, node, statement)
    assert rule is not None
    before: Tables = {
        "r1": bag([(1, 5), (2, 15), (3, 22), (4, 20)]),
        "r2": bag([(19, 5, 20), (10, 15, 27), (16, 22, 20), (18, 20, 27)]),
    }
    stored = world.content(node, before)
    assert set(stored) == {(5, 19, 1), (22, 16, 1)}
    after = world.after(statement, before["r2"])
    assert after is not None
    expected = world.content(node, {**before, "r2": after})
    assert set(expected) == {(5, 19, 1), (22, 23, 1)}
    assert compose(stored, derived(rule, node, stored, "r2", {})) == expected


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("UPDATE r2 SET l = 20 WHERE k > 5", "rows may enter"),  # A
        ("UPDATE r2 SET j = 3 WHERE j > 5 AND h2 > 30", "which rows the update is about"),  # B
        ("UPDATE r2 SET l = h2 WHERE l = 20", "which updated rows remain"),  # C
        ("UPDATE r2 SET j = h2 WHERE k > 5", "the new value of"),  # D
    ],
)
def test_each_step_of_4_3_can_refuse(text: str, step: str) -> None:
    tables = "CREATE TABLE r1 (h INT, i INT); CREATE TABLE r2 (j INT, k INT, l INT, h2 INT);"
    world, node = thesis("SELECT DISTINCT i, j FROM r1, r2 WHERE i = k AND l = 20 AND l <= h2", tables)
    statement = world.statement(text)
    assert isinstance(statement, Update)
    assert step in refusal(world, node, statement)


def refusal(world: World, node: Node, statement: Update) -> str:
    return updated_by_condition(Kept.of(node.name, node.plan), statement, world.checks).reason


TABLES = """
CREATE TABLE r (k INT PRIMARY KEY, a INT, b INT CHECK (b BETWEEN 0 AND 2));
CREATE TABLE s (c INT NOT NULL, d INT);
"""
VIEWS = {
    "hidden link": "SELECT r.b, s.d FROM r JOIN s ON r.a = s.c",
    "shown link": "SELECT r.a, s.d FROM r JOIN s ON r.a = s.c WHERE r.b > 0",
    "constant": "SELECT r.k, s.d FROM r JOIN s ON r.a < s.c WHERE r.b = 1",
    "distinct": "SELECT DISTINCT r.a, r.b FROM r JOIN s ON r.a = s.c",
    "sum": "SELECT r.a, r.b, SUM(s.d) AS t FROM r JOIN s ON r.a = s.c GROUP BY r.a, r.b",
    "equation": "SELECT s.c, s.d FROM r JOIN s ON s.c = r.a + 1 WHERE r.b >= 1",
    "self join": "SELECT x.a, y.b FROM r x JOIN r y ON x.b = y.a",
    "left join": "SELECT r.a, r.b, s.d FROM r LEFT JOIN s ON r.a = s.c",
    "not exists": "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.c = r.a) AND b > 0",
    "union": "SELECT a, b, 1 AS n FROM r UNION ALL SELECT c, d, 2 FROM s",
    "one table": "SELECT a FROM r WHERE b < 2",
    "disjunction": "SELECT r.a, s.c FROM r JOIN s ON r.a = s.c OR r.b = s.d",
}


def conditions(columns: str, chance: random.Random) -> str:
    def part() -> str:
        column, other = chance.choice(columns), chance.choice([*columns, "0", "1", "2"])
        kinds = [f"{column} {chance.choice(['=', '<', '<=', '>', '<>'])} {other}", f"{column} IS NULL"]
        return chance.choice([*kinds[:1], *kinds[:1], *kinds])

    parts = [part() for _ in range(chance.randint(1, 3))]
    return chance.choice([" AND ", " AND ", " OR "]).join(parts)


def statements(chance: random.Random) -> str:
    table, columns = chance.choice([("r", "kab"), ("r", "kab"), ("s", "cd")])
    where = conditions(columns, chance)
    if chance.random() < 0.5:
        return f"DELETE FROM {table} WHERE {where}"
    column = chance.choice(columns[1:])
    value = chance.choice(["0", "1", "2", *columns, f"{chance.choice(columns)} + 1"])
    return f"UPDATE {table} SET {column} = {value} WHERE {where}"


@pytest.mark.parametrize("name", VIEWS)
def test_an_autonomous_statement_is_right_for_every_instance(name: str) -> None:
    world = World.of(f"{TABLES} CREATE MATERIALIZED VIEW v AS {VIEWS[name]};")
    chance = random.Random(name)
    proved = 0
    for _ in range(25):
        text = statements(chance)
        statement = world.statement(text)
        for node in world.nodes(statement.relation):
            rule = rule_of(world, node, statement)
            if rule is None:
                continue
            proved += 1
            for tables, _ in random_transitions(world, statement.relation, (None, 0, 1, 2), 4, 25):
                after = world.after(statement, tables[statement.relation])
                if after is None or world.moves_below(node, tables, statement.relation, after):
                    continue
                stored = world.content(node, tables)
                expected = changes(stored, world.content(node, {**tables, statement.relation: after}))
                found = derived(rule, node, stored, statement.relation, {})
                assert found == expected, f"{text}\n{show_plan(rule.delta)}\n{tables}\n{stored}"
    assert proved > 0


@pytest.mark.parametrize("name", VIEWS)
def test_a_statement_that_a_rule_decides_leaves_nothing_undecided(name: str) -> None:
    """What is called autonomous because of a rule about rows: it is right, and nothing is left undecided."""
    world = World.of(f"{TABLES} CREATE MATERIALIZED VIEW v AS {VIEWS[name]};")
    chance = random.Random(f"{name} rows")
    for _ in range(25):
        statement = world.statement(statements(chance))
        for node in world.nodes(statement.relation):
            verdict = class_of(Kept.of(node.name, node.plan), statement, world.keys, world.checks)
            if verdict.kind is not Class.AUTONOMOUS:
                continue
            (rule,) = verdict.rules
            for tables, _ in random_transitions(world, statement.relation, (None, 0, 1, 2), 3, 15):
                after = world.after(statement, tables[statement.relation])
                if after is None or world.moves_below(node, tables, statement.relation, after):
                    continue
                stored, change = world.content(node, tables), changes(tables[statement.relation], after)
                assert not undecided(rule, node, stored, statement.relation, change)
                expected = changes(stored, world.content(node, {**tables, statement.relation: after}))
                assert derived(rule, node, stored, statement.relation, change) == expected


SHOP = """
CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR, town VARCHAR);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount INT, note VARCHAR);
CREATE MATERIALIZED VIEW v AS
SELECT o.amount, c.name FROM orders o JOIN customer c ON o.customer = c.id WHERE o.amount > 10;
"""


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("DELETE FROM orders WHERE amount > 20", Class.AUTONOMOUS, []),
        ("DELETE FROM orders WHERE amount <= 10", Class.AUTONOMOUS, []),
        ("DELETE FROM orders WHERE amount > 20 AND id > 0", Class.DIFFERENTIAL, [["orders.customer"], ["orders.id"]]),
        (
            "DELETE FROM orders WHERE note = 'x'",
            Class.DIFFERENTIAL,
            [["orders.customer"], ["orders.id"], ["orders.note"]],
        ),
        ("UPDATE orders SET amount = amount + 1 WHERE amount > 20", Class.AUTONOMOUS, []),
        ("UPDATE orders SET amount = amount + 1", Class.DIFFERENTIAL, []),
        ("UPDATE customer SET name = 'Eve' WHERE name = 'Ann'", Class.AUTONOMOUS, []),
        ("UPDATE customer SET name = 'Eve' WHERE id = 7", Class.DIFFERENTIAL, [["customer.id"]]),
    ],
)
def test_what_a_statement_is_to_a_view_and_what_the_view_would_have_to_show(
    text: str, kind: Class, shown: list[list[str]]
) -> None:
    world = World.of(SHOP)
    node, statement = world.network.nodes["v"], world.statement(text)
    verdict = class_of(Kept.of("v", node.plan), statement, world.keys, world.checks)
    given = advice_of(Kept.of("v", node.plan), statement, world.keys, world.checks)
    assert (verdict.kind, [list(a.columns) for a in given if a.kind is Class.AUTONOMOUS]) == (kind, shown)


BOUNDED = """
CREATE TABLE r1 (h INT NOT NULL, i INT NOT NULL);
CREATE TABLE r2 (j INT NOT NULL, k INT NOT NULL CHECK (k BETWEEN 0 AND 30));
CREATE MATERIALIZED VIEW v AS SELECT h, j FROM r1, r2 WHERE i > k AND k > 10 AND i < 20;
"""


@pytest.mark.parametrize(
    ("where", "p", "irrelevant", "autonomous"),
    [
        ("i < 777", 12, True, True),  # i is 12 at least
        ("i < 777", 13, False, False),
        ("i < 777", 19, False, False),
        ("i < 777", 20, False, True),  # all rows go
        ("i < 777 AND h > 5", 20, False, True),
        ("i < 777 OR h = 777", 12, False, True),
        ("i < 777 OR h = 777", 15, False, False),
        ("h < 777", 15, False, True),
    ],
)
def test_the_boundaries_of_a_statement_with_a_parameter(where: str, p: int, irrelevant: bool, autonomous: bool) -> None:
    world = World.of(BOUNDED)
    node = world.network.nodes["v"]
    given = world.statement(f"DELETE FROM r1 WHERE {where}").where
    asked = transform(given, lambda e: Column(2, "p", e.type) if isinstance(e, Literal) and e.value == 777 else None)
    found = boundaries(Kept.of("v", node.plan), "r1", asked, (Field("p", INT),), world.checks)
    assert found is not None
    assert (value_of(found.irrelevant, (p,)), value_of(found.autonomous, (p,))) == (irrelevant, autonomous)
    if not autonomous:
        return
    statement = world.statement(f"DELETE FROM r1 WHERE {where.replace('777', str(p))}")
    chance = random.Random(where)
    for _ in range(100):
        tables: Tables = {
            "r1": bag([(chance.randrange(4, 8), chance.randrange(9, 22)) for _ in range(4)]),
            "r2": bag([(chance.randrange(2), chance.randrange(9, 21)) for _ in range(3)]),
        }
        after = world.after(statement, tables["r1"])
        assert after is not None
        stored = world.content(node, tables)
        left = {row: w for row, w in stored.items() if value_of(found.going, (*row, p)) is not True}
        assert world.content(node, {**tables, "r1": after}) == left
