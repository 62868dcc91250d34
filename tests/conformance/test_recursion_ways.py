"""Recursion that an engine may iterate by itself: the same rows as rule by rule, under any change.

After each change the rows are compared with the reference's, and with what nested loops derive from the rows that the
test put into the tables: those share nothing with what runs in an engine.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import tidemark as tm
from tests.datalog import naive
from tests.support import DUCKDB_ENGINES, rows
from tidemark.algebra.types import BIGINT, INT, Field, Schema
from tidemark.datalog.program import bind_program
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.engine import Iteration
from tidemark.engines.limits import Budget
from tidemark.strategy.recursion import maintain as recursion

SPARK_VARIANTS = ("spark", "spark in process")

TABLES = """
CREATE TABLE edge (a INT, b INT);
CREATE TABLE link (a INT NOT NULL, b BIGINT NOT NULL, PRIMARY KEY (a, b));
CREATE TABLE node (n INT NOT NULL PRIMARY KEY);
"""
PROGRAMS = {
    "closure": "p(x, y) :- edge(x, y). p(x, y) :- edge(x, z), p(z, y).",
    "closure from the left": "p(x, y) :- link(x, y). p(x, y) :- p(x, z), link(z, y).",
    "both ways": "p(x, y) :- edge(x, y). p(x, y) :- p(x, z), link(z, y). p(x, y) :- edge(x, z), p(z, y).",
    "same generation": "p(x, x) :- node(x). p(x, y) :- edge(x, u), p(u, v), edge(y, v).",
    "negation below": "p(x, y) :- edge(x, y), not link(x, y). p(x, y) :- p(x, z), edge(z, y), not node(z).",
    "negation with a wildcard": "p(x, y) :- edge(x, y). p(x, y) :- p(x, z), edge(z, y), not link(z, _).",
    "constants": "p(x, 1) :- edge(x, _). p(x, y) :- edge(x, 3), p(3, y). p(0, y) :- p(y, y).",
    "a condition": "p(x, y) :- edge(x, y), x < y. p(x, y) :- p(x, z), edge(z, y), z < y.",
    "a condition that can fail": "p(x, y) :- edge(x, y). p(x, y) :- p(x, z), edge(z, y), x + y < 100.",
    "one column": "p(x) :- node(x), x = 0. p(y) :- p(x), edge(x, y). p(y) :- p(x), link(x, y).",
}
WHOLE = {"edge": 2, "link": 2, "node": 1}
SCHEMAS = {
    "edge": Schema((Field("a", INT), Field("b", INT))),
    "link": Schema((Field("a", INT, nullable=False), Field("b", BIGINT, nullable=False))),
    "node": Schema((Field("n", INT, nullable=False),)),
}
VALUES = (0, 1, 2, 3, 4, 5)


def create(db: tm.Database, program: str) -> None:
    columns = "x" if program.startswith("p(x) ") else "x, y"
    db.execute(f"CREATE MATERIALIZED VIEW p ({columns}) AS DATALOG $$ {program} $$")


def random_rows(rng: random.Random, table: str, most: int, values: tuple[int, ...]) -> list[tuple[Any, ...]]:
    if table == "edge":
        return [(rng.choice([*values, None]), rng.choice([*values, None])) for _ in range(rng.randint(0, most))]
    found = {tuple(rng.choice(values) for _ in range(WHOLE[table])) for _ in range(rng.randint(0, most))}
    return sorted(found)


class Twin:
    """The same changes to two databases, of which one is the reference, under a program."""

    def __init__(self, db: tm.Database, rng: random.Random, program: str, values: tuple[int, ...] = VALUES) -> None:
        self.both = (db, tm.connect("reference"))
        self.text, self.program, self.values = program, bind_program(program, SCHEMAS), values
        self.rng = rng
        self.content: dict[str, list[tuple[Any, ...]]] = {name: [] for name in WHOLE}
        for each in self.both:
            each.execute(TABLES)

    def change(self) -> None:
        plans: dict[str, tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {}
        for table, held in self.content.items():
            going = self.rng.sample(held, self.rng.randint(0, min(3, len(held))))
            for row in going:
                held.remove(row)
            coming = [row for row in random_rows(self.rng, table, 4, self.values) if table == "edge" or row not in held]
            held += coming
            plans[table] = (going, coming)
        for each in self.both:
            with each.transaction() as tx:
                for table, (going, coming) in plans.items():
                    tx.delete(table, going)
                    tx.insert(table, coming)

    def create(self) -> None:
        for each in self.both:
            create(each, self.text)
        self.check("when it is created")

    def follow(self, changes: int) -> None:
        for number in range(changes):
            self.change()
            self.check(f"after change {number}")

    def check(self, when: str) -> None:
        found, wanted = (rows(each.query("SELECT * FROM p")) for each in self.both)
        assert found == wanted, when
        base = {name: set(self.content[name]) for name in self.program.base}
        assert Counter(found) == Counter(naive.evaluate(self.program, base)["p"]), when
        assert self.both[0].audit("p").num_rows == 0, when


@pytest.mark.parametrize("name", PROGRAMS)
def test_recursion_is_filled_and_followed_as_by_the_reference(db: tm.Database, engine: str, name: str) -> None:
    twin = Twin(db, random.Random(name), PROGRAMS[name])
    times, changes = (1, 2) if "spark" in engine else (2, 5)
    for time in range(times):
        for _ in range(4):
            twin.change()
        for each in twin.both:
            create(each, PROGRAMS[name])
        twin.check(f"when it is created for the time {time}")
        for number in range(changes):
            twin.change()
            twin.check(f"after change {number} of the time {time}")
        if time < times - 1:
            for each in twin.both:
                each.execute("DROP MATERIALIZED VIEW p")


SHORT = Budget(rounds=None, least=0, share=10**9)


@pytest.mark.parametrize("name", ["both ways", "negation with a wildcard"])
@pytest.mark.parametrize("limit", [SHORT, Budget(rounds=1, least=10**9, share=1)])
def test_what_is_evaluated_again_changes_as_by_rules(
    db: tm.Database, monkeypatch: pytest.MonkeyPatch, name: str, limit: Budget
) -> None:
    monkeypatch.setattr(recursion, "may_iterate", lambda plan: False)
    assert any("evaluated again" in reason for reason in reasons_of(db, monkeypatch, name, limit, 6))


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_an_engine_iterates_changes_as_by_rules(
    db: tm.Database, engine: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    reasons = reasons_of(db, monkeypatch, name, SHORT, 4 if "spark" in engine else 12)
    small = engine in DUCKDB_ENGINES and engine != "duckdb by statements"  # too little is below it for an iteration
    iterates = engine != "reference" and not small and name != "a condition that can fail"
    way = "iterated by the engine" if iterates else "evaluated again"
    assert any(way in reason for reason in reasons), reasons


def reasons_of(db: tm.Database, monkeypatch: pytest.MonkeyPatch, name: str, limit: Budget, changes: int) -> set[str]:
    twin = Twin(db, random.Random(name), PROGRAMS[name])
    for each in twin.both:
        engine = each._store.engine
        limits = replace(engine.limits, beside_an_iteration=limit, beside_rounds=limit)
        monkeypatch.setattr(engine, "limits", limits)
    twin.change()
    for each in twin.both:
        create(each, PROGRAMS[name])
    found = set()
    for number in range(changes):
        twin.change()
        twin.check(f"after change {number}")
        found |= {step["reason"] for step in db.trace(db.version).to_pylist() if step["node"] == "p"}
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_engine_that_can_iterate_does(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    answers: list[pa.Table] = []
    iterate = DuckDBEngine.iterate

    def watched(self: DuckDBEngine, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        answers.append(iterate(self, iteration, given))
        return answers[-1]

    monkeypatch.setattr(DuckDBEngine, "iterate", watched)
    with tm.Database(DuckDBEngine(by_statements=True)) as db:
        twin = Twin(db, random.Random(name), PROGRAMS[name])
        twin.change()
        twin.create()
        assert len(answers) == 1
        twin.follow(4)


NOT_ITERATED = {
    "mutual recursion": "p(x, y) :- edge(x, y). q(x, y) :- p(x, z), edge(z, y). p(x, y) :- q(x, z), edge(z, y).",
    "joined with itself": "p(x, y) :- edge(x, y). p(x, y) :- p(x, z), p(z, y).",
    "computed values": "p(x, 0) :- node(x). p(y, d + 1) :- p(x, d), edge(x, y), d < 3.",
    "failing beside negation": "p(x, y) :- edge(x, y). p(x, y) :- p(x, z), edge(z, y), not node(z), x / y > 0.",
}


@pytest.mark.parametrize("name", NOT_ITERATED)
def test_other_recursion_is_done_from_outside(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def never(*_: object) -> bool:
        raise AssertionError("an engine was asked for what it cannot do")

    monkeypatch.setattr(DuckDBEngine, "iterates", never)
    with tm.Database(DuckDBEngine(by_statements=True)) as db:
        twin = Twin(db, random.Random(name), NOT_ITERATED[name], VALUES[1:])  # no zero, by which one of them divides
        twin.change()
        twin.create()
        twin.follow(4)


def test_too_many_rows_are_an_error(db: tm.Database) -> None:
    db.execute(TABLES)
    db.insert("link", [(n, n + 1) for n in range(40)])
    program = PROGRAMS["closure from the left"]
    with pytest.raises(tm.TidemarkError, match="more than 100 rows") as raised:
        db.execute(f"CREATE MATERIALIZED VIEW p (x, y) WITH (max_rows = 100) AS DATALOG $$ {program} $$")
    assert raised.value.code == "runaway"


def test_a_failing_condition_fails_as_elsewhere(db: tm.Database) -> None:
    db.execute(TABLES)
    db.insert("link", [(0, 1), (1, 0), (1, 2)])
    with pytest.raises(tm.TidemarkError) as raised:
        create(db, "p(x, y) :- link(x, y). p(x, y) :- p(x, z), link(z, y), 10 / y > 0.")
    assert raised.value.code == "division_by_zero"
