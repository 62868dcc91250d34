"""Text to syntax tree: what the grammar reads, and where it points when it cannot."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from tidemark.datalog.grammar import parse
from tidemark.datalog.syntax import (
    AggregateTerm,
    Atom,
    Comparison,
    Constant,
    Negated,
    Operation,
    ProgramSource,
    Variable,
    Wildcard,
)
from tidemark.errors import TidemarkError


def test_a_program_is_clauses_with_several_parts() -> None:
    program = parse(
        """-- the closure
        closure(x, y) :- edge(x, y).
        closure(x, y) :- edge(x, z), closure(z, y). /* and
        more */ start('a', 1).
        """
    )
    assert program.predicates == ("closure", "start")
    assert [len(clause.body) for clause in program.clauses] == [1, 2, 0]
    assert [atom.predicate for atom in program.clauses[1].atoms] == ["edge", "closure"]
    assert len(program.clauses_of("closure")) == 2


def test_constants_have_values_and_types() -> None:
    (clause,) = parse(
        "p(1, -2, 3000000000, 1.50, 1e3, 'it''s', \"x\", true, FALSE, "
        "DATE '2024-01-31', TIMESTAMP '2024-01-31 10:00:00')."
    ).clauses
    literals = [term.literal for term in clause.head.terms if isinstance(term, Constant)]
    assert [literal.value for literal in literals] == [
        1,
        -2,
        3000000000,
        Decimal("1.50"),
        1000.0,
        "it's",
        "x",
        True,
        False,
        dt.date(2024, 1, 31),
        dt.datetime(2024, 1, 31, 10),
    ]
    types = "INT INT BIGINT DECIMAL(3,2) DOUBLE VARCHAR VARCHAR BOOLEAN BOOLEAN DATE TIMESTAMP"
    assert " ".join(str(literal.type) for literal in literals) == types


@pytest.mark.parametrize(
    ("text", "function"),
    [("=", "eq"), ("<>", "ne"), ("!=", "ne"), ("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge")],
)
def test_comparisons(text: str, function: str) -> None:
    (clause,) = parse(f"p(x) :- q(x, y), x {text} y + 1.").clauses
    (comparison,) = clause.comparisons
    assert comparison.function == function
    assert isinstance(comparison.right, Operation)


def test_arithmetic_binds_as_in_sql() -> None:
    (clause,) = parse("p(x + y * 2 - -z % 3) :- q(x, y, z).").clauses
    whole = clause.head.terms[0]
    assert isinstance(whole, Operation) and whole.function == "subtract"
    first, second = whole.arguments
    assert isinstance(first, Operation) and first.function == "add"
    assert isinstance(second, Operation) and second.function == "modulo"
    (clause,) = parse("p((x + y) * 2) :- q(x, y).").clauses
    assert isinstance(clause.head.terms[0], Operation) and clause.head.terms[0].function == "multiply"


def test_negation_wildcards_and_quoted_predicates() -> None:
    (clause,) = parse('Top(x) :- "Mixed"(x, _), NOT below(_, x).').clauses
    assert clause.head.predicate == "top"
    first, second = clause.body
    assert isinstance(first, Atom) and first.predicate == "Mixed" and isinstance(first.terms[1], Wildcard)
    assert isinstance(second, Negated) and second.atom.predicate == "below"


def test_aggregates_stand_in_heads() -> None:
    (clause,) = parse("total(x, sum(y * 2), count(*)) :- r(x, y).").clauses
    assert clause.aggregates
    _, total, count = clause.head.terms
    assert isinstance(total, AggregateTerm) and total.function == "sum" and isinstance(total.argument, Operation)
    assert isinstance(count, AggregateTerm) and count.argument is None


def test_a_relation_may_be_named_like_an_aggregate() -> None:
    (clause,) = parse("p(x) :- count(x), sum(x, y).").clauses
    assert [atom.predicate for atom in clause.atoms] == ["count", "sum"]


def test_programs_compare_by_structure_and_not_by_place() -> None:
    assert parse("p(x) :- q(x).").clauses[0].head == parse("\n\n  p( x )  :- q(x).").clauses[0].head


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("p(x) :- q(x)", 1, 12, "ends inside a clause"),
        ("p(x) :-\n  q(x) r(x).", 2, 8, "'r' cannot stand here"),
        ("p(x) :-\n  q(X).", 2, 5, "'X' is neither a variable nor a constant"),
        ("p(x) :- q(x), r.", 1, 15, "cannot be a lone term"),
        ("p(x) :- q(x), sum(x) = 3.", 1, 15, "stand in heads"),
        ("p(f(x)) :- q(x).", 1, 3, "cannot be used as a value"),
        ("p(x) :- q('a).", 1, 11, "cannot stand here"),
        ("p() :- q(x).", 1, 1, "has no argument"),
        ("", 1, 1, "has no clause"),
        ("-- nothing", 1, 1, "has no clause"),
        ("p(max(x, y)) :- q(x, y).", 1, 3, "takes one argument"),
        ("p(sum(*)) :- q(x).", 1, 3, "count(*) only"),
        ("p(x) :- q(*).", 1, 11, "count(*) only"),
        ("p(x) :- q(null).", 1, 11, "NULL is no constant"),
        ("not(x) :- q(x).", 1, 1, "not is no predicate"),
        ("p(x) :- q(x), not = x.", 1, 19, "cannot stand here"),
        ("p(x) :- q(x), x = day '2024-01-01'.", 1, 19, "is no type"),
        ("p(x) :- q(x), x = date '2024-02-30'.", 1, 19, "is not a DATE"),
        ("3 :- q(x).", 1, 1, "cannot be a lone term"),
    ],
)
def test_what_is_no_program_is_refused_at_its_place(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(TidemarkError) as raised:
        parse(text)
    error = raised.value
    assert words in error.message
    assert error.place is not None
    assert (error.place.line, error.place.column) == (line, column)


def test_places_count_in_the_text_around_the_program() -> None:
    text = "CREATE MATERIALIZED VIEW v (x) AS DATALOG $$\n  v(x) :- q(X). $$;"
    start, end = text.index("$$") + 2, text.rindex("$$")
    with pytest.raises(TidemarkError) as raised:
        parse(ProgramSource(text, start, end))
    assert raised.value.place is not None
    assert (raised.value.place.line, raised.value.place.column) == (2, 13)
    assert raised.value.place.pointer().splitlines()[1].strip() == "v(x) :- q(X). $$;"


def test_deep_nesting_is_refused_in_words() -> None:
    with pytest.raises(TidemarkError, match="nested too deeply"):
        parse("p(" + "-(" * 20000 + "x" + ")" * 20000 + ") :- q(x).")


def test_variables_and_comparisons_know_their_text() -> None:
    source = "p(x) :- q(x, y), x < y."
    (clause,) = parse(source).clauses
    (comparison,) = clause.comparisons
    assert source[comparison.span.begin : comparison.span.end] == "x < y"
    assert isinstance(comparison, Comparison) and comparison.left == Variable("x", comparison.span)
