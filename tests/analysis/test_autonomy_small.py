"""Statements that are autonomous for the content that a small view has: Theorems 4.4 and 4.5, examples and
soundness."""

from __future__ import annotations

import random

import pytest

from tests.analysis.instances import Row, Tables, World
from tests.bags import Bag, bag, plus
from tidemark.analysis.autonomy.content import Coming, deleted_from, inserted_into
from tidemark.analysis.autonomy.dml import Deletion
from tidemark.analysis.autonomy.stored import Kept

R1 = "CREATE TABLE r1 (h INT NOT NULL, i INT NOT NULL);"
R1_KEYED = "CREATE TABLE r1 (h INT PRIMARY KEY, i INT NOT NULL);"
R2 = "CREATE TABLE r2 (j INT NOT NULL, k INT NOT NULL, l INT NOT NULL);"
R3 = "CREATE TABLE r3 (m INT NOT NULL, n INT NOT NULL);"


def view(query: str, tables: str = R1 + R2 + R3) -> tuple[World, Kept]:
    world = World.of(f"{tables} CREATE MATERIALIZED VIEW v AS SELECT DISTINCT {query};")
    return world, Kept.of("v", world.catalog.relations["v"].plan)  # type: ignore[union-attr]


def inserted(query: str, content: list[Row], table: str, row: Row, tables: str = R1 + R2 + R3) -> set[Row] | None:
    world, kept = view(query, tables)
    coming = inserted_into(kept, content, table, row, world.keys, world.checks)
    return None if coming is None else set(coming.rows)


def test_example_4_7_rows_are_assembled_from_what_the_view_shows() -> None:
    content = [(1, 10, 25), (1, 10, 26), (2, 20, 31)]
    found = inserted("h, i, l FROM r1, r2 WHERE i = j", content, "r1", (4, 10))
    assert found == {(4, 10, 25), (4, 10, 26)}
    assert inserted("h, i, l FROM r1, r2 WHERE i = j", content, "r1", (4, 11)) is None


E1 = [(1, 20, 22, 15, 10), (1, 20, 23, 50, 30), (2, 22, 23, 50, 30)]
E2 = [(1, 22, 15, 10), (1, 23, 50, 30), (2, 23, 50, 30)]


def test_example_4_9_i_an_inequality_is_covered() -> None:
    query = "h, i, j, k, l FROM r1, r2 WHERE i < j"
    assert inserted(query, E1, "r1", (4, 21)) == {(4, 21, 22, 15, 10), (4, 21, 23, 50, 30)}
    assert inserted(query, E1, "r1", (4, 19)) is None  # a row of r2 with j = 20 would not be seen


def test_example_4_9_ii_also_if_the_column_is_hidden() -> None:
    query = "h, j, k, l FROM r1, r2 WHERE i < j"
    assert inserted(query, E2, "r1", (4, 21)) == {(4, 22, 15, 10), (4, 23, 50, 30)}
    assert inserted(query, E2, "r1", (4, 20)) is None


def test_example_4_9_iii_two_relations_are_covered() -> None:
    query = "h, i, j, k, l, m, n FROM r1, r2, r3 WHERE i = j AND l = m"
    content: list[Row] = [(2, 22, 22, 15, 10, 10, 2), (3, 23, 23, 50, 30, 30, 4)]
    assert inserted(query, content, "r2", (22, 60, 30)) == {(2, 22, 22, 60, 30, 30, 4)}
    assert inserted(query, content, "r2", (24, 60, 30)) is None
    assert inserted(query, content, "r2", (22, 60, 31)) is None


def test_example_4_10_a_disjunction_with_a_hidden_column() -> None:
    query = "h, i, j, k FROM r1, r2 WHERE (h = 2 AND i < j) OR (h = 5 AND i > l) OR i = k"
    content = [(2, 24, 26, 50), (5, 21, 17, 14), (4, 25, 3, 25)]
    assert inserted(query, content, "r1", (2, 25)) == {(2, 25, 26, 50), (2, 25, 3, 25)}


DELETED = [(2, 17, 18, 23), (2, 19, 14, 25), (3, 19, 14, 25)]


@pytest.mark.parametrize(("tables", "expected"), [(R1_KEYED + R2, {(3, 19, 14, 25)}), (R1 + R2, None)])
def test_examples_4_11_and_4_12_need_the_key(tables: str, expected: set[Row] | None) -> None:
    """Without the key of R1, other rows with h = 2 may stand behind the first row of the view."""
    world, kept = view("h, j, k, l FROM r1, r2 WHERE j < i AND i < l", tables)
    statement = world.statement("DELETE FROM r1 WHERE i < 20 OR i > 22")
    assert isinstance(statement, Deletion)
    found = deleted_from(kept, DELETED, statement, world.keys, world.checks)
    assert found == (None if expected is None else frozenset(expected))


def test_without_the_key_the_counterexample_is_real() -> None:
    """Two databases without a key give the view of 4.11, and the deletion leaves different rows of it."""
    world, _ = view("h, j, k, l FROM r1, r2 WHERE j < i AND i < l", R1 + R2)
    statement = world.statement("DELETE FROM r1 WHERE i < 20 OR i > 22")
    r2 = bag([(17, 18, 23), (19, 14, 25), (24, 18, 33)])
    outcomes = []
    for r1 in ([(2, 20), (3, 24)], [(2, 18), (2, 24), (3, 24)]):
        tables: Tables = {"r1": bag(r1), "r2": r2}
        assert set(_content(world, tables)) == set(DELETED)
        after = world.after(statement, tables["r1"])
        assert after is not None
        outcomes.append(_content(world, {"r1": after, "r2": r2}))
    assert outcomes[0] != outcomes[1]


TABLES = """
CREATE TABLE r (k INT PRIMARY KEY CHECK (k BETWEEN 0 AND 2), a INT NOT NULL CHECK (a BETWEEN 0 AND 2));
CREATE TABLE s (c INT NOT NULL CHECK (c BETWEEN 0 AND 2), d INT CHECK (d BETWEEN 0 AND 2));
"""
VIEWS = {
    "all": "SELECT k, a, c, d FROM r, s WHERE a < c",
    "hidden link": "SELECT k, c, d FROM r, s WHERE a < c",
    "hidden partner": "SELECT k, a, d FROM r, s WHERE a <= c",
    "no key": "SELECT a, d FROM r, s WHERE a <= c OR k = d",
    "equality": "SELECT DISTINCT a, d FROM r, s WHERE a = c",
    "one hidden": "SELECT c, d FROM r, s WHERE k + 1 = c AND a < 2",
    "three": "SELECT r.k, x.d, y.c FROM r, s x, s y WHERE r.a = x.c AND x.d >= y.c",
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_decided_from_the_content_is_right_for_every_instance(name: str) -> None:
    world = World.of(f"{TABLES} CREATE MATERIALIZED VIEW v AS {VIEWS[name]};")
    plan = world.catalog.relations["v"].plan  # type: ignore[union-attr]
    kept = Kept.of("v", plan)
    chance, decided, values = random.Random(name), 0, (None, 0, 1, 2)
    for _ in range(200):
        tables = {table: world.random_content(table, values, 3, chance) for table in world.tables}
        before = _content(world, tables)
        if len(before) > 4:
            continue
        text = f"DELETE FROM r WHERE {chance.choice('ka')} {chance.choice('<=>')} {chance.randrange(3)}"
        statement = world.statement(text)
        assert isinstance(statement, Deletion)
        going = deleted_from(kept, list(before), statement, world.keys, world.checks)
        if going is not None:
            decided += 1
            after = world.after(statement, tables["r"])
            assert after is not None
            left = {row: weight for row, weight in before.items() if row not in going}
            assert _content(world, {**tables, "r": after}) == left, (text, tables)
        table = chance.choice(sorted(world.tables))
        row = chance.choice(world.rows(table, values))
        grown = plus(tables[table], {row: 1})
        if not world._is_allowed(table, grown):
            continue
        coming = inserted_into(kept, list(before), table, row, world.keys, world.checks)
        if coming is not None:
            decided += 1
            after = _content(world, {**tables, table: grown})
            _check_coming(before, coming, after, (table, row, tables), is_set=kept.is_grouped)
    assert decided > 5


def _check_coming(before: Bag, coming: Coming, after: Bag, what: object, *, is_set: bool) -> None:
    assert set(after) == set(before) | coming.rows, what
    if is_set or coming.weights_known:
        new = coming.rows - set(before) if is_set else coming.rows
        assert after == plus(before, dict.fromkeys(new, 1)), what


def _content(world: World, tables: Tables) -> Bag:
    """The rows of the view itself."""
    node = world.network.nodes["v"]
    return world.content(node, tables)
