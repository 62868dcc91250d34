"""Specs of Difference, Intersection and Repeat: how they print, what they refuse, and how a view of them is kept."""

from __future__ import annotations

import pytest

import tidemark as tm
from tidemark.algebra.expressions import Literal
from tidemark.algebra.plans import Difference, Distinct, Intersection, Repeat, Scan
from tidemark.algebra.printing import show_algebra, show_plan
from tidemark.algebra.set_operations import by_counts
from tidemark.algebra.types import BIGINT, INT, VARCHAR, Field, Schema
from tidemark.calculus.chain import differentiate

A = Scan("a", Schema((Field("x", INT),)))
B = Scan("b", Schema((Field("z", INT),)))


def test_they_print_as_trees_and_on_one_line() -> None:
    plan = Difference(Intersection(A, B), Repeat(B, Literal(2, BIGINT)))
    assert show_plan(plan) == (
        """
Difference
├─ Intersection
│  ├─ a
│  └─ b
└─ Repeat 2 times
   └─ b
""".strip()
    )
    assert show_algebra(plan) == "((a ∩ b) ∸ repeat[2] b)"
    assert plan.schema.names == ("x",)


def test_they_refuse_to_be_built_wrong() -> None:
    other = Scan("c", Schema((Field("x", VARCHAR),)))
    for operation in (Difference, Intersection):
        with pytest.raises(ValueError, match="different types"):
            operation(A, other)
    with pytest.raises(ValueError, match="BIGINT"):
        Repeat(A, Literal(1, INT))
    with pytest.raises(ValueError, match="does not exist"):
        Repeat(A, Scan("d", Schema((Field("x", INT), Field("n", BIGINT)))).column(1))


def test_the_law_restricts_both_sides_to_the_touched_rows_of_either() -> None:
    assert show_algebra(differentiate(Difference(A, B), {"a", "b"})) == (
        "(((a ⋉ (π[x, TRUE AS left] Δa ⊎ π[z, FALSE AS left] Δb))"
        " ∸ (b ⋉ (π[x, TRUE AS left] Δa ⊎ π[z, FALSE AS left] Δb)))"
        " ⊎ −((a_old ⋉ (π[x, TRUE AS left] Δa ⊎ π[z, FALSE AS left] Δb))"
        " ∸ (b_old ⋉ (π[x, TRUE AS left] Δa ⊎ π[z, FALSE AS left] Δb))))"
    )
    one = show_algebra(differentiate(Intersection(A, B), {"b"}))
    assert "Δa" not in one and one.startswith("(((a ⋉ π[z, FALSE AS left] Δb) ∩ (b ⋉")


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (Difference(A, B), "π[x] repeat[(left - right)] σ[(left > right)] γ"),
        (Intersection(A, B), "π[x] repeat[least(left, right)] σ[((left > 0) AND (right > 0))] γ"),
        (Difference(Distinct(A), Distinct(B)), "π[x] σ[((left > 0) AND (right = 0))] γ"),
        (Intersection(Distinct(A), Distinct(B)), "π[x] σ[((left > 0) AND (right > 0))] γ"),
        (Difference(A, Distinct(B)), "π[x] repeat[(left - right)] σ[(left > right)] γ"),
    ],
)
def test_all_of_them_are_linear_over_the_counts_of_both_sides(plan: Difference | Intersection, text: str) -> None:
    counts = "[x, count(left), count(right)] (π[x, TRUE AS left, NULL AS right] a ⊎ π[z, NULL AS left, TRUE AS right] "
    assert show_algebra(by_counts(plan)).startswith(text + counts)


def test_explain_shows_the_counts_below_the_view() -> None:
    with tm.connect("reference") as db:
        db.execute("CREATE TABLE a (x INT); CREATE TABLE b (x INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT x FROM a EXCEPT ALL SELECT x FROM b")
        text = db.explain("v")
    assert "keeps k0, _rows, n1, n2 for each group" in text
    assert "ΔE/Δ+b = π[x, NULL AS left, TRUE AS right] Δ+b" in text
    assert "Δv/Δ+v/counts-" in text and "repeat[(left - right)] σ[(left > right)]" in text
