"""What is refused, with the clause and the variable in the message; types, NULL and strata of what is not."""

from __future__ import annotations

import pytest

from tidemark.algebra.types import DATE, DOUBLE, INT, VARCHAR, Field, Schema, decimal
from tidemark.datalog.program import Program, bind_program
from tidemark.errors import TidemarkError

RELATIONS = {
    "edge": Schema((Field("a", INT), Field("b", INT))),
    "node": Schema((Field("n", INT, nullable=False),)),
    "named": Schema((Field("n", INT, nullable=False), Field("name", VARCHAR))),
    "priced": Schema((Field("n", decimal(6, 2)), Field("day", DATE))),
    "measured": Schema((Field("n", INT), Field("value", DOUBLE))),
}


def bind(text: str) -> Program:
    return bind_program(text, RELATIONS)


CLOSURE = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y)."


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("p(x) :- missing(x).", "unknown_relation", ("clause 1", "'missing'")),
        ("p(x) :- edge(x, _), not missing(x).", "unknown_relation", ("clause 1", "'missing'")),
        ("edge(x, y) :- node(x), node(y).", "exists", ("'edge' is a relation already", "clause 1")),
        ("p(x) :- edge(x).", "arity", ("clause 1", "'edge' has 1 argument here", "2 columns")),
        (
            "p(x) :- edge(x, _). p(x, y) :- edge(x, y).",
            "arity",
            ("clause 2", "'p' has 2 arguments", "clause 1 gives it 1"),
        ),
        ("p(x) :- edge(x, _). q(x) :- node(x), not p(x, x).", "arity", ("clause 2", "'p' has 2")),
        ("p(x, y) :- node(x).", "unsafe", ("'y'", "in the head", "clause 1")),
        ("p(x) :- node(x), not edge(x, y).", "unsafe", ("'y'", "under not edge", "clause 1")),
        ("p(x) :- node(x), y < x.", "unsafe", ("'y'", "in a comparison", "clause 1")),
        ("p(x) :- node(x), y = z + 1.", "unsafe", ("'y'", "in a comparison")),
        ("p(x) :- node(x), node(y + 1).", "unsafe", ("'y'", "only inside arithmetic")),
        ("p(_) :- node(x).", "unsafe", ("_ cannot stand in the head",)),
        ("p(x) :- node(x), x < _.", "unsafe", ("_ cannot stand in a comparison",)),
        ("p(x) :- node(x), node(x + _).", "unsafe", ("_ cannot stand in arithmetic",)),
        ("p(x).", "unsafe", ("'x'", "in the head")),
        (
            "win(x) :- edge(x, y), not win(y).",
            "not_stratified",
            ("clause 1", "negation inside a recursion", "win negates win"),
        ),
        (
            "p(x) :- node(x), not q(x). q(x) :- r(x). r(x) :- p(x).",
            "not_stratified",
            ("p negates q, which needs r, which needs p",),
        ),
        (
            "p(x, count(*)) :- q(x). q(x) :- p(x, _).",
            "not_stratified",
            ("an aggregate inside a recursion", "p aggregates q, which needs p"),
        ),
        ("p(x) :- edge(x, _), named(_, x).", "type", ("'x'", "INT in edge (column 1)", "VARCHAR in named (column 2)")),
        ("p(x) :- node(x), measured(_, x).", "type", ("'x'", "DOUBLE in measured")),
        (
            "p(x) :- node(x). p(y) :- named(_, y).",
            "type",
            ("column 1 of 'p' is INT by clause 1 and VARCHAR by clause 2",),
        ),
        ("p(x) :- p(x).", "type", ("column 1 of 'p' has no type",)),
        ("p(x) :- node(x), x = 'a'.", "type", ("not a INT",)),
        ("p(x) :- priced(x, 'tomorrow').", "type", ("'tomorrow'", "DATE", "clause 1")),
        ("p(x) :- node(x), named(_, 3).", "type", ("INT constant in clause 1", "VARCHAR")),
        ("p(x + y) :- named(x, y).", "type", ("+ does not take (INT, VARCHAR)", "clause 1")),
        ("p(sum(y)) :- named(_, y).", "type", ("sum of VARCHAR",)),
        ("p(sum(y)) :- measured(_, y).", "approximate_key", ("a sum of DOUBLE",)),
        ("p(x) :- named(_, x), not node(x).", "type", ("VARCHAR under not node",)),
    ],
)
def test_what_is_wrong_is_named(text: str, code: str, words: tuple[str, ...]) -> None:
    with pytest.raises(TidemarkError) as raised:
        bind(text)
    assert raised.value.code == code
    for word in words:
        assert word in raised.value.message
    assert raised.value.place is not None


def test_names_of_columns_must_fit() -> None:
    with pytest.raises(TidemarkError) as raised:
        bind_program(CLOSURE, RELATIONS, {"closure": ("a",)})
    assert raised.value.code == "arity"
    assert bind_program(CLOSURE, RELATIONS, {"closure": ("source", "target")}).schemas["closure"].names == (
        "source",
        "target",
    )


def test_types_come_from_below_through_recursion() -> None:
    program = bind(CLOSURE + "far(x, y * 1.5) :- closure(x, y), x <> y.")
    assert str(program.schemas["closure"]) == "x INT, y INT"
    assert str(program.schemas["far"]) == "x INT NOT NULL, c2 DECIMAL(12,1) NOT NULL"


def test_types_widen_to_what_all_clauses_give() -> None:
    program = bind("p(x) :- node(x). p(x) :- priced(x, _). q(x) :- p(x), node(x).")
    assert str(program.schemas["p"]) == "x DECIMAL(12,2)"
    assert str(program.schemas["q"]) == "x DECIMAL(12,2) NOT NULL"


def test_sums_in_a_recursion_widen_until_they_settle() -> None:
    program = bind("p(x) :- priced(x, _). p(x + y) :- p(x), priced(y, _), x < 100.")
    assert str(program.schemas["p"]) == "x DECIMAL(38,2)"


def test_mutual_recursion_is_typed_and_one_stratum() -> None:
    program = bind("even(x) :- x = 0. even(x) :- odd(y), edge(y, x). odd(x) :- even(y), edge(y, x).")
    assert str(program.schemas["odd"]) == "x INT"
    assert program.strata[0].predicates == ("even", "odd") and program.strata[0].recursive


def test_strata_are_in_order_whatever_the_order_of_the_text() -> None:
    program = bind("top(x) :- node(x), not closure(x, x). " + CLOSURE)
    assert [(s.predicates, s.recursive) for s in program.strata] == [(("closure",), True), (("top",), False)]


def test_only_a_join_of_columns_that_may_be_null_has_a_condition() -> None:
    program = bind("p(x, y) :- edge(x, z), edge(z, y). q(x) :- node(x), edge(x, _).")
    assert [str(rule) for rule in program.rules] == [
        "p(x, y) :- edge(x, z), edge(z, y), z IS NOT NULL.",
        "q(x) :- node(x), edge(x, _).",
    ]
    assert program.schemas["p"][0].nullable
    assert not program.schemas["q"][0].nullable


def test_what_an_equality_sets_is_not_null() -> None:
    program = bind("p(y) :- edge(x, _), y = x.")
    assert str(program.rules[0]) == "p(y) :- edge(x, _), y := x, y IS NOT NULL."
    assert not program.schemas["p"][0].nullable


def test_aggregates_are_rows_groups_and_what_takes_them() -> None:
    program = bind("total(sum(y), x) :- edge(x, y), node(y).")
    assert str(program) == (
        "(1) total^rows1(x, y) :- edge(x, y), node(y).\n"
        "(1) total(v2, v1) :- total^groups1(v1, v2).\n"
        "total^groups1 groups total^rows1 by its first 1 columns: sum(column 2)."
    )
    assert str(program.schemas["total"]) == "c1 BIGINT NOT NULL, x INT"


def test_text_beside_a_date_is_a_date() -> None:
    program = bind("p(x) :- priced(x, '2024-01-31'). q(d) :- priced(_, d), d > '2024-01-31'.")
    assert [str(rule) for rule in program.rules] == [
        "p(x) :- priced(x, DATE '2024-01-31').",
        "q(d) :- priced(_, d), d > DATE '2024-01-31'.",
    ]
