"""Recursion, on every engine: programs in Datalog and WITH RECURSIVE, materialized and external alike."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

import tidemark as tm
from tests.support import changes_at, rows_in_order
from tidemark import TidemarkError

SPARK_VARIANTS = ("spark forced",)
KINDS = ("MATERIALIZED", "EXTERNAL")
Edges = list[tuple[int, int]]

EDGE = "CREATE TABLE edge (a INT, b INT)"
CLOSURE = """CREATE {kind} VIEW closure (x, y) AS DATALOG $$
    closure(x, y) :- edge(x, y).
    closure(x, y) :- edge(x, z), closure(z, y).
$$"""
PROGRAMS = {
    "closure": CLOSURE,
    "odd, even": """CREATE {kind} VIEW odd, even AS DATALOG $$
        odd(x, y) :- edge(x, y).
        odd(x, y) :- even(x, z), edge(z, y).
        even(x, y) :- odd(x, z), edge(z, y).
    $$""",
    "unreached": """CREATE {kind} VIEW unreached AS DATALOG $$
        reached(x) :- edge(1, x).
        reached(y) :- reached(x), edge(x, y).
        unreached(x) :- edge(x, _), not reached(x).
    $$""",
    "cousins": """CREATE {kind} VIEW cousins AS DATALOG $$
        same(x, y) :- edge(p, x), edge(p, y).
        same(x, y) :- edge(p, x), same(p, q), edge(q, y).
        cousins(x, y) :- same(x, y), x < y.
    $$""",
    "reaches": """CREATE {kind} VIEW reaches AS DATALOG $$
        far(x, y) :- edge(x, y).
        far(x, y) :- far(x, z), far(z, y).
        reaches(x, count(*), max(y)) :- far(x, y).
    $$""",
}


def content(db: tm.Database, name: str) -> Counter[tuple[object, ...]]:
    return Counter(rows_in_order(db.query(f"SELECT * FROM {name}")))


def closure_of(edges: Edges) -> set[tuple[int, int]]:
    found = set(edges)
    while True:
        more = {(x, y) for x, z in edges for w, y in found if z == w} - found
        if not more:
            return found
        found |= more


def odd_and_even(edges: Edges) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    odd, even = set(edges), set[tuple[int, int]]()
    while True:
        more_even = {(x, y) for x, z in odd for w, y in edges if z == w} - even
        more_odd = {(x, y) for x, z in even for w, y in edges if z == w} - odd
        if not more_even and not more_odd:
            return odd, even
        odd, even = odd | more_odd, even | more_even


def unreached(edges: Edges) -> set[tuple[int, ...]]:
    reached = {y for x, y in closure_of(edges) if x == 1}
    return {(x,) for x, _ in edges if x not in reached}


def cousins(edges: Edges) -> set[tuple[int, int]]:
    same = {(x, y) for p, x in edges for q, y in edges if p == q}
    while True:
        more = {(x, y) for p, x in edges for q, y in edges if (p, q) in same} - same
        if not more:
            return {(x, y) for x, y in same if x < y}
        same |= more


def reaches(edges: Edges) -> set[tuple[int, ...]]:
    found = closure_of(edges)
    return {
        (x, len([1 for a, _ in found if a == x]), max(y for a, y in found if a == x)) for x in {a for a, _ in found}
    }


EXPECTED: dict[str, Callable[[Edges], dict[str, set[tuple[int, ...]]]]] = {
    "closure": lambda edges: {"closure": set(closure_of(edges))},
    "odd, even": lambda edges: dict(zip(("odd", "even"), map(set, odd_and_even(edges)), strict=True)),
    "unreached": lambda edges: {"unreached": unreached(edges)},
    "cousins": lambda edges: {"cousins": set(cousins(edges))},
    "reaches": lambda edges: {"reaches": reaches(edges)},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", list(PROGRAMS))
def test_exact_changes_under_insertions_and_deletions(db: tm.Database, program: str, kind: str, engine: str) -> None:
    db.execute(EDGE)
    chance = random.Random(f"{program}{kind}")
    edges: Edges = [(chance.randint(1, 6), chance.randint(1, 6)) for _ in range(6)]
    db.insert("edge", edges)
    db.execute(PROGRAMS[program].format(kind=kind))
    names = [name.strip() for name in program.split(",")]
    before = EXPECTED[program](edges)
    for name in names:
        assert changes_at(db, name) == dict.fromkeys(before[name], 1)
    for _ in range(3 if "spark" in engine else 12):
        with db.transaction() as tx:
            for _ in range(chance.randint(1, 3)):
                if edges and chance.random() < 0.5:
                    tx.delete("edge", [edges.pop(chance.randrange(len(edges)))])
                else:
                    edges.append((chance.randint(1, 6), chance.randint(1, 6)))
                    tx.insert("edge", [edges[-1]])
        after = EXPECTED[program](edges)
        for name in names:
            expected = Counter(after[name])
            expected.subtract(before[name])
            assert changes_at(db, name) == {row: weight for row, weight in expected.items() if weight}
            assert content(db, name) == Counter(after[name])
        before = after


@pytest.mark.parametrize("kind", KINDS)
def test_example_2_of_rod(db: tm.Database, kind: str) -> None:
    """Deleting bc and inserting hd; the other edges into g are not touched by it (Example 4)."""
    db.execute("CREATE TABLE edge (a VARCHAR, b VARCHAR)")
    elsewhere = [(f"n{i}", f"n{i + 1}") for i in range(20)] + [("n20", "g")]
    db.insert("edge", [*((pair[0], pair[1]) for pair in ("fe", "ed", "ea", "ab", "dc", "bc", "cg")), *elsewhere])
    db.execute(CLOSURE.format(kind=kind))
    with db.transaction() as tx:
        tx.delete("edge", [("b", "c")])
        tx.insert("edge", [("h", "d")])
    gone, come = ("ac", "ag", "bc", "bg"), ("hd", "hc", "hg")
    assert changes_at(db, "closure") == {
        **{(pair[0], pair[1]): -1 for pair in gone},
        **{(pair[0], pair[1]): 1 for pair in come},
    }
    [step] = [step for step in db.trace(db.version).to_pylist() if step["node"] == "closure"]
    assert step["strategy"] == "differential"
    assert step["rows_read"] < 30
    if kind == "EXTERNAL":
        assert 0 < step["rows_rederived"] < 12


def test_with_recursive_is_the_same_recursion(db: tm.Database) -> None:
    db.execute(EDGE)
    db.insert("edge", [(1, 2), (2, 3), (3, 1), (3, 4), (5, 6)])
    db.execute(
        """
        CREATE MATERIALIZED VIEW closure AS
            WITH RECURSIVE c (x, y) AS (
                SELECT a, b FROM edge
                UNION SELECT e.a, c.y FROM edge AS e JOIN c ON e.b = c.x
            )
            SELECT x, y FROM c;
        CREATE MATERIALIZED VIEW steps AS
            WITH RECURSIVE walk (n, d) AS (
                VALUES (1, 0)
                UNION SELECT edge.b, walk.d + 1 FROM walk, edge WHERE edge.a = walk.n AND walk.d < 5
            )
            SELECT n, min(d) AS d FROM walk GROUP BY n;
        """
    )
    assert content(db, "steps") == Counter([(1, 0), (2, 1), (3, 2), (4, 3)])
    with db.transaction() as tx:
        tx.delete("edge", [(3, 1)])
        tx.insert("edge", [(4, 5)])
    assert content(db, "closure") == Counter(closure_of([(1, 2), (2, 3), (3, 4), (5, 6), (4, 5)]))
    assert content(db, "steps") == Counter([(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5)])
    asked = db.query("WITH RECURSIVE r (n) AS (SELECT 4 UNION SELECT b FROM edge JOIN r ON a = n) SELECT n FROM r")
    assert sorted(asked.column(0).to_pylist()) == [4, 5, 6]


def test_a_view_on_a_recursive_view_and_reading_ones_own_writes(db: tm.Database) -> None:
    db.execute(f"{EDGE}; {CLOSURE.format(kind='MATERIALIZED')}")
    db.execute("CREATE MATERIALIZED VIEW pairs AS SELECT x, COUNT(*) AS n FROM closure GROUP BY x")
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2), (2, 3)])
        assert sorted(map(tuple, (row.values() for row in tx.query("SELECT * FROM closure").to_pylist()))) == [
            (1, 2),
            (1, 3),
            (2, 3),
        ]
        tx.delete("edge", [(1, 2)])
        assert [tuple(row.values()) for row in tx.query("SELECT * FROM pairs").to_pylist()] == [(2, 1)]
    assert changes_at(db, "closure") == {(2, 3): 1}


def test_equal_rows_below_count_once_and_null_never_joins(db: tm.Database) -> None:
    db.execute(f"{EDGE}; {CLOSURE.format(kind='MATERIALIZED')}")
    db.insert("edge", [(1, 2), (1, 2), (2, None), (None, 3), (2, 3)])
    assert content(db, "closure") == Counter([(1, 2), (1, 3), (2, 3), (1, None), (2, None), (None, 3)])
    db.delete("edge", [(1, 2)])
    assert changes_at(db, "closure") == {}
    db.delete("edge", [(1, 2)])
    assert changes_at(db, "closure") == {(1, 2): -1, (1, 3): -1, (1, None): -1}


def test_a_recursion_that_does_not_end_is_an_error_and_changes_nothing(db: tm.Database) -> None:
    db.execute("CREATE TABLE seed (n INT); INSERT INTO seed VALUES (1)")
    endless = (
        "CREATE MATERIALIZED VIEW up WITH (max_rounds = 50) AS DATALOG $$ up(n) :- seed(n). up(n + 1) :- up(n). $$"
    )
    with pytest.raises(TidemarkError, match="more than 50 rounds") as caught:
        db.execute(endless)
    assert caught.value.code == "runaway"
    db.execute(endless.replace("up(n).", "up(n), n < 40."))
    assert len(content(db, "up")) == 40
    version = db.version
    with pytest.raises(TidemarkError, match="went on for more than 50 rounds"):
        db.insert("seed", [(-100,)])
    assert db.version == version and len(content(db, "up")) == 40


def test_one_of_several_predicates_can_be_dropped(db: tm.Database) -> None:
    db.execute(f"{EDGE}; {PROGRAMS['odd, even'].format(kind='MATERIALIZED')}")
    db.execute("DROP MATERIALIZED VIEW odd")
    db.insert("edge", [(1, 2), (2, 3)])
    assert content(db, "even") == Counter([(1, 3)])
    with pytest.raises(TidemarkError):
        db.query("SELECT * FROM odd")


def test_a_new_column_below_changes_nothing(db: tm.Database) -> None:
    db.execute(f"{EDGE}; {CLOSURE.format(kind='MATERIALIZED')}; INSERT INTO edge VALUES (1, 2)")
    db.execute("ALTER TABLE edge ADD COLUMN c INT DEFAULT 7")
    db.insert("edge", [(2, 3, 8)])
    assert content(db, "closure") == Counter([(1, 2), (1, 3), (2, 3)])


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        ("CREATE VIEW v AS DATALOG $$ w(x) :- edge(x, _). $$", "unknown_relation", "no clause for 'v'"),
        ("CREATE VIEW v AS DATALOG edge(x)", "syntax", r"in \$\$ … \$\$ is missing"),
        ("CREATE VIEW v, w AS SELECT 1", "syntax", "AS DATALOG"),
        ("CREATE VIEW v AS WITH RECURSIVE q AS (SELECT n FROM q) SELECT * FROM q", "cycle", "nothing to begin with"),
        (
            "CREATE VIEW v AS WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT n FROM q) SELECT * FROM q",
            "unsupported",
            "UNION ALL",
        ),
        (
            "CREATE VIEW v AS WITH RECURSIVE q AS (SELECT a FROM edge UNION SELECT max(a) FROM q) SELECT * FROM q",
            "unsupported",
            "a grouping",
        ),
        ("CREATE VIEW v AS SELECT * FROM v", "cycle", "names itself"),
    ],
)
def test_what_is_refused(db: tm.Database, sql: str, code: str, message: str) -> None:
    db.execute(EDGE)
    with pytest.raises(TidemarkError, match=message) as caught:
        db.execute(sql)
    assert caught.value.code == code


def test_a_snapshot_of_a_recursion_follows_from_the_log(db: tm.Database) -> None:
    db.execute(f"{EDGE}; INSERT INTO edge VALUES (1, 2), (2, 3)")
    db.execute(
        """
        CREATE SNAPSHOT s AS
            WITH RECURSIVE c (x, y) AS (SELECT a, b FROM edge UNION SELECT e.a, c.y FROM edge AS e JOIN c ON e.b = c.x)
            SELECT x, y FROM c
        REFRESH ON DEMAND
        """
    )
    db.execute("INSERT INTO edge VALUES (3, 4); DELETE FROM edge WHERE a = 1; INSERT INTO edge VALUES (4, 1)")
    assert content(db, "s") == Counter(closure_of([(1, 2), (2, 3)]))
    db.execute("REFRESH s")
    assert content(db, "s") == Counter(closure_of([(2, 3), (3, 4), (4, 1)]))
    assert db.audit("s").num_rows == 0


COUNTED = """CREATE OR REPLACE MATERIALIZED VIEW m AS
    WITH RECURSIVE t (x, y) AS (SELECT a, b FROM edge UNION SELECT t.x, e.b FROM t JOIN edge AS e ON e.a = t.y)
    SELECT x, {} AS n FROM t GROUP BY x"""


def test_a_recursion_goes_on_under_a_view_that_means_something_else(db: tm.Database) -> None:
    """Its state serves a view that is not brought up to date, but evaluated anew, in this transaction."""
    db.execute(f"{EDGE}; INSERT INTO edge VALUES (1, 2), (2, 3)")
    db.execute(COUNTED.format("COUNT(*)"))
    with db.transaction() as tx:
        tx.execute(COUNTED.format("MIN(y)"))
        tx.execute("INSERT INTO edge VALUES (3, 4)")
    assert content(db, "m") == Counter([(1, 2), (2, 3), (3, 4)])
    with db.transaction() as tx:
        tx.execute("DROP VIEW m")
        tx.execute(COUNTED.format("MAX(y)"))
        tx.execute("DELETE FROM edge WHERE a = 1")
    assert content(db, "m") == Counter([(2, 4), (3, 4)])


def test_following_a_change_may_take_more_rounds_than_evaluating(db: tm.Database) -> None:
    """All that a deleted seed reached is gone through, and most of it is put back."""
    db.execute(f"{EDGE}; CREATE TABLE seed (n INT); INSERT INTO seed VALUES (0), (20)")
    db.insert("edge", [(i, i + 1) for i in range(40)])
    program = "w(x) :- seed(x). w(y) :- w(x), edge(x, y)."
    db.execute(f"CREATE MATERIALIZED VIEW w (x) WITH (max_rounds = 25) AS DATALOG $$ {program} $$")
    db.execute("DELETE FROM seed WHERE n = 0")
    assert content(db, "w") == Counter([(n,) for n in range(20, 41)])


def test_a_recursion_cannot_grow_beyond_its_limit_of_rows(db: tm.Database) -> None:
    db.execute(f"{EDGE}; {CLOSURE.format(kind='MATERIALIZED').replace('AS DATALOG', 'WITH (max_rows = 8) AS DATALOG')}")
    db.execute("INSERT INTO edge VALUES (1, 2), (2, 3), (3, 4)")
    with pytest.raises(TidemarkError, match="more than 8 rows"):
        db.execute("INSERT INTO edge VALUES (4, 5)")
    assert len(content(db, "closure")) == 6


def test_columns_of_one_name_inside_a_recursion(db: tm.Database) -> None:
    db.execute(f"{EDGE}; INSERT INTO edge VALUES (1, 2), (2, 3)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE t AS"
        " (SELECT a, a FROM edge UNION SELECT e.a, e.b FROM t, edge AS e) SELECT COUNT(*) AS n FROM t"
    )
    db.execute("INSERT INTO edge VALUES (3, 4)")
    assert content(db, "v") == Counter([(6,)])


def test_a_table_may_come_that_is_named_as_a_helper_is(db: tm.Database) -> None:
    db.execute(f"{EDGE}; CREATE VIEW e AS SELECT a, b FROM edge")
    db.execute("CREATE MATERIALIZED VIEW v (x) AS DATALOG $$ h(x) :- e(x, _). v(x) :- h(x). $$")
    db.execute("CREATE TABLE h (a INT); INSERT INTO edge VALUES (1, 2), (5, 6)")
    db.execute("CREATE OR REPLACE VIEW e AS SELECT a, b FROM edge WHERE a > 2")
    assert content(db, "v") == Counter([(5,)])
