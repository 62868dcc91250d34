"""A relation that stands in a view many times: what follows a change of one row stays as small as the view.

In its new state an updated row stands as what is stored, without the old row and with the new one: three entries, which
count as one. Each join multiplies them, so of n occurrences there would be 3ⁿ if they were not made net below.
"""

from __future__ import annotations

from math import prod

import pytest

import tidemark as tm
from tests.support import check_invariant, rows
from tidemark.algebra.cache import Once, is_tangled
from tidemark.algebra.expressions import Call, Column
from tidemark.algebra.plans import Given, Join, Net, Plan, Project, Scan, Union, union
from tidemark.algebra.types import BOOLEAN, INT, Field, Schema
from tidemark.calculus.as_of import Block, new, resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.terms import distribute, with_net

T = Scan("t", Schema((Field("a", INT), Field("b", INT))))
BLOCK = Block(changed=frozenset({"t"}))
MOST = 5_000
"""Entries of one row: some for each occurrence in as many terms as there are, and what is below 24 terms."""


def doubled(times: int) -> Plan:
    """A join of 2ⁿ occurrences, as plain views on views make it."""
    plan: Plan = T
    for _ in range(times):
        equal = Call("eq", (Column(0, "a", INT), Column(2, "a", INT)), BOOLEAN)
        joined = Join(plan, plan, equal)
        plan = Project(joined, ("a", "b"), (Column(0, "a", INT), Column(3, "b", INT)))
    return plan


def entries(plan: Plan) -> int:
    """How many entries at most stand for one row of each relation, if one of its rows was updated."""

    def rule(part: Plan, of: Once[int]) -> int:
        match part:
            case Given():
                return 2
            case Net():
                return 1
            case Union(parts=parts):
                return sum(map(of, parts))
        return prod(map(of, part.inputs()))

    return Once(rule)(plan)  # type: ignore[arg-type]


@pytest.mark.parametrize("times", range(1, 8))
def test_the_entries_of_a_row_stay_few(times: int) -> None:
    plan = doubled(times)
    delta = resolve(differentiate(plan, BLOCK.changed), BLOCK)
    assert is_tangled(delta) == (times > 4), "both ways are tried"
    assert entries(distribute(delta)) <= MOST
    assert (
        entries(with_net(resolve(union((new(plan), differentiate(plan, BLOCK.changed)), plan.schema), BLOCK))) <= MOST
    )


@pytest.mark.parametrize("kind", ["MATERIALIZED", "EXTERNAL"])
@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_an_update_reaches_many_occurrences(engine: str, kind: str) -> None:
    with tm.connect(engine) as db:
        db.execute("CREATE TABLE t (a INT, b INT); CREATE VIEW v0 AS SELECT a, b FROM t")
        for level in range(1, 6):
            below = f"v{level - 1}"
            db.execute(f"CREATE VIEW v{level} AS SELECT x.a, y.b FROM {below} x JOIN {below} y ON x.a = y.a")
        db.execute(f"CREATE {kind} VIEW v AS SELECT a, b FROM v5")
        db.execute("INSERT INTO t VALUES (1, 2)")
        db.execute("UPDATE t SET b = b + 1 WHERE a = 1")
        changes = db.changes("v", since=db.version - 1).drop_columns(["_version", "_time"])
        assert rows(changes) == [(1, 2, -1), (1, 3, 1)]
        db.execute("DELETE FROM t")
        check_invariant(db)
