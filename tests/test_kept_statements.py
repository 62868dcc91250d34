"""Statements are kept for plans that come again; beyond a number, those that were not used for longest are let go."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from tidemark.algebra.expressions import Literal
from tidemark.algebra.plans import Given, Plan, Project
from tidemark.algebra.types import INT, Field, Schema
from tidemark.engines.duckdb import statements
from tidemark.engines.duckdb.embedded import GivenTables
from tidemark.engines.duckdb.statements import Statements
from tidemark.engines.sqltext.compiler import Compiler

ROWS = Given("rows", Schema((Field("a", INT),)))


def plan_of(number: int) -> Plan:
    return Project(ROWS, ("n",), (Literal(number, INT),))


def test_statements_in_use_stay_when_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "STATEMENTS_KEPT", 3)
    written: list[int] = []
    entries = Compiler.entries

    def counted(compiler: Compiler, plan: Plan) -> str:
        assert isinstance(plan, Project)
        literal = plan.expressions[0]
        assert isinstance(literal, Literal)
        assert isinstance(literal.value, int)
        written.append(literal.value)
        return entries(compiler, plan)

    monkeypatch.setattr(Compiler, "entries", counted)
    with duckdb.connect() as connection:
        kept = Statements(connection, GivenTables(connection), lambda name: name, lambda relations: None)
        given = {"rows": pa.table({"a": pa.array([5], pa.int32()), "_weight": pa.array([2], pa.int64())})}
        plans = [plan_of(number) for number in range(6)]
        for number in (0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0):
            assert kept.weighted(plans[number], given).to_pylist() == [{"n": number, "_weight": 2}]
        assert written == [0, 1, 2, 3, 4, 5]
        kept.weighted(plans[5], given)
        assert len(written) == 6
        kept.weighted(plans[1], given)
        assert written[6:] == [1]
