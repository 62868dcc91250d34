"""The examples of Risch and Sköld's partial differencing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import tidemark as tm
from tests.bags import bag, delta, delta_union, plus, rollback
from tests.support import changes_at, check_invariant, rows
from tidemark.algebra.expressions import Call, shift
from tidemark.algebra.plans import Join, Project, Scan, State
from tidemark.algebra.types import BOOLEAN, INT, Field, Schema
from tidemark.calculus.as_of import Block, delta_name, resolve
from tidemark.calculus.chain import partial_differentials
from tidemark.engines.reference.evaluate import evaluate

Q = Schema((Field("x", INT), Field("y", INT)))
R = Schema((Field("y", INT), Field("z", INT)))


@pytest.fixture(params=["reference", "duckdb"])
def db(request: pytest.FixtureRequest) -> Iterator[tm.Database]:
    with tm.connect(request.param) as database:
        yield database
        check_invariant(database)


def p_plan() -> Project:
    """p(X, Z) ← q(X, Y) ∧ r(Y, Z)."""
    q, r = Scan("q", Q), Scan("r", R)
    same_y = Call("eq", (q.column(1), shift(r.column(0), len(Q))), BOOLEAN)
    pair = Join(q, r, same_y)
    return Project(pair, ("x", "z"), (pair.column(0), pair.column(3)))


def test_p_of_x_and_z(db: tm.Database) -> None:
    db.execute("CREATE TABLE q (x INT, y INT); CREATE TABLE r (y INT, z INT)")
    db.execute("CREATE MATERIALIZED VIEW p AS SELECT x, z FROM q JOIN r USING (y)")
    db.execute("INSERT INTO q VALUES (1, 1); INSERT INTO r VALUES (1, 2), (2, 3)")
    assert rows(db.query("SELECT * FROM p")) == [(1, 2)]
    db.execute("BEGIN; INSERT INTO q VALUES (1, 2); INSERT INTO r VALUES (1, 4); COMMIT")
    assert changes_at(db, "p") == {(1, 3): 1, (1, 4): 1}


def test_each_partial_differential_of_p_gives_its_part() -> None:
    span = Block(changed=frozenset({"q", "r"}))
    stored = {"q": bag([(1, 1)]), "r": bag([(1, 2), (2, 3)])}
    given = {delta_name("q"): bag([(1, 2)]), delta_name("r"): bag([(1, 4)])}
    given |= {delta_name(n, State.INSERTED): given[delta_name(n)] for n in ("q", "r")}
    given |= {delta_name(n, State.DELETED): {} for n in ("q", "r")}
    parts = {
        (p.influent, p.state): evaluate(resolve(p.plan, span), stored, given) for p in partial_differentials(p_plan())
    }
    assert parts == {
        ("q", State.INSERTED): {(1, 3): 1},
        ("q", State.DELETED): {},
        ("r", State.INSERTED): {(1, 4): 1},
        ("r", State.DELETED): {},
    }
    assert plus(*parts.values()) == {(1, 3): 1, (1, 4): 1}


def test_positive_in_the_new_state_and_negative_in_the_old_counts_twice_with_bags() -> None:
    """AMOS's table holds for sets: with bags, Δ+q ⋈ Δ+r is in both ΔP/Δ+q and ΔP/Δ+r. Ours telescopes."""
    span = Block(changed=frozenset({"q", "r"}))
    stored: dict[str, dict[tuple[object, ...], int]] = {"q": {}, "r": {}}
    given = {delta_name("q"): bag([(1, 1)]), delta_name("r"): bag([(1, 5)])}
    given |= {delta_name(n, State.INSERTED): given[delta_name(n)] for n in ("q", "r")}
    given |= {delta_name(n, State.DELETED): {} for n in ("q", "r")}
    terms = [evaluate(resolve(p.plan, span), stored, given) for p in partial_differentials(p_plan())]  # type: ignore[arg-type]
    assert plus(*terms) == {(1, 5): 1}
    plan = p_plan()
    join = plan.input
    assert isinstance(join, Join)
    as_printed = [
        replace(plan, input=replace(join, left=replace(join.left, state=State.INSERTED))),  # type: ignore[type-var]
        replace(plan, input=replace(join, right=replace(join.right, state=State.INSERTED))),  # type: ignore[type-var]
    ]
    assert plus(*(evaluate(resolve(t, span), stored, given) for t in as_printed)) == {(1, 5): 2}  # type: ignore[arg-type]


def test_min_stock_100_to_150_to_100_leaves_nothing() -> None:
    steps = [bag([(1, 100)], -1), bag([(1, 150)]), bag([(1, 150)], -1), bag([(1, 100)])]
    seen = [dict[tuple[object, ...], int]()]
    for step in steps:
        seen.append(delta_union(seen[-1], step))  # type: ignore[arg-type]
    assert seen[1:] == [{(1, 100): -1}, {(1, 100): -1, (1, 150): 1}, {(1, 100): -1}, {}]


def test_logical_rollback_gives_the_old_state() -> None:
    before = bag([(1, 100), (2, 200)])
    change = delta([(1, 150)], [(1, 100)])
    assert rollback(plus(before, change), change) == before


def test_the_inventory_thresholds_and_what_falls_below_them(db: tm.Database) -> None:
    """Thresholds 140 for item 1 and 290 for item 2 (consume_freq × delivery_time + min_stock)."""
    db.execute(
        """
        CREATE TABLE item (id INT PRIMARY KEY, quantity INT, max_stock INT, min_stock INT, consume_freq INT);
        CREATE TABLE supplies (supplier INT, item INT, delivery_time INT);
        CREATE VIEW threshold AS SELECT i.id, consume_freq * delivery_time + min_stock AS level
            FROM item i JOIN supplies s ON s.item = i.id;
        CREATE MATERIALIZED VIEW monitor_items AS
            SELECT i.id, max_stock - quantity AS to_order FROM item i JOIN threshold t ON t.id = i.id
            WHERE quantity < level;
        INSERT INTO item VALUES (1, 5000, 5000, 100, 20), (2, 7500, 7500, 200, 30);
        INSERT INTO supplies VALUES (1, 1, 2), (2, 2, 3);
        """
    )
    assert rows(db.query("SELECT * FROM threshold")) == [(1, 140), (2, 290)]
    db.execute("UPDATE item SET quantity = 140 WHERE id = 1; UPDATE item SET quantity = 290 WHERE id = 2")
    assert changes_at(db, "monitor_items") == {}
    db.execute("UPDATE item SET quantity = 139 WHERE id = 1")
    assert changes_at(db, "monitor_items") == {(1, 4861): 1}
    db.execute(
        "BEGIN; UPDATE item SET min_stock = 150 WHERE id = 2; UPDATE item SET min_stock = 200 WHERE id = 2; COMMIT"
    )
    assert changes_at(db, "monitor_items") == {}
    db.execute("UPDATE supplies SET delivery_time = 4 WHERE item = 2")
    assert changes_at(db, "monitor_items") == {(2, 7210): 1}
