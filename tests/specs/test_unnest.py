"""Specs of Unnest: how it prints, what it refuses, and from which text it comes."""

from __future__ import annotations

import pytest

import tidemark as tm
from tidemark.algebra.expressions import Call, Literal
from tidemark.algebra.plans import Scan, Unnest
from tidemark.algebra.printing import show_plan
from tidemark.algebra.types import INT, VARCHAR, Field, Schema, array_of

T = Scan("t", Schema((Field("a", INT), Field("s", VARCHAR))))
ARRAY = Call("array", (T.column(0), Literal(1, INT)), array_of(INT), nullable=False)


def test_it_prints_its_array_and_names() -> None:
    plan = Unnest(T, ARRAY, ("x", "n"), places=True)
    assert show_plan(plan).splitlines()[0] == "Unnest array(a, 1) AS x, n"
    assert str(plan.schema) == "a INT, s VARCHAR, x INT, n BIGINT NOT NULL"


def test_it_refuses_what_is_no_array_and_names_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="only an array"):
        Unnest(T, T.column(0), ("x",))
    with pytest.raises(ValueError, match="name each"):
        Unnest(T, ARRAY, ("x",), places=True)


def test_a_view_of_it_says_so() -> None:
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT, s VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, x FROM t, UNNEST(string_to_array(s, ',')) AS x")
        assert "Unnest string_to_array(s, ',') AS x" in db.explain("v")
