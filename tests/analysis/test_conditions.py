"""Facts about conditions, against trying all values."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.conditions import NUMBERS, all_rows, call, conditions, number, outcome, within
from tests.effort import examples
from tidemark.algebra.expressions import Cast, Expression, Literal, Value, columns_of, conjunction
from tidemark.algebra.printing import show_expression
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    Field,
    Type,
    decimal,
)
from tidemark.analysis.budget import budget
from tidemark.analysis.conditions import Answer, Facts, eliminated, implies, possible, translate
from tidemark.analysis.formulas import TooMany
from tidemark.analysis.solver import Model, OutOfClass, model_by_differences, model_by_solver

ROWS = all_rows(NUMBERS)
KEPT = st.frozensets(st.integers(0, 2))


@given(condition=conditions())
def test_possible_is_what_trying_all_rows_finds(condition: Expression) -> None:
    results = [outcome(condition, row) for row in ROWS]
    assert possible(condition, NUMBERS) is (Answer.YES if True in results else Answer.NO)
    assert not any(isinstance(result, str) for result in results), "these values are too small to overflow"
    assert possible(condition, NUMBERS, or_fails=True) is possible(condition, NUMBERS)


@given(premise=conditions(depth=1), conclusion=conditions(depth=1))
def test_implies_is_what_trying_all_rows_finds(premise: Expression, conclusion: Expression) -> None:
    holds = all(value_of(conclusion, row) is True for row in ROWS if value_of(premise, row) is True)
    assert implies(premise, conclusion, NUMBERS) is (Answer.YES if holds else Answer.NO)


@given(condition=conditions(simple=True))
def test_the_two_procedures_agree(condition: Expression) -> None:
    translation = translate((condition,), NUMBERS)
    formula = translation.with_facts(translation.truth(condition).true)
    expected = Model.SOME if any(value_of(condition, row) is True for row in ROWS) else Model.NONE
    with suppress(OutOfClass, TooMany):
        assert model_by_differences(formula) is expected
    assert model_by_solver(formula) is expected


def passes(found: Expression | None, row: tuple[Value, ...]) -> bool:
    return found is None or value_of(found, row) is True


@given(condition=conditions(), kept=KEPT)
def test_what_is_left_of_a_condition_lets_pass_whatever_matters(condition: Expression, kept: frozenset[int]) -> None:
    found = eliminated(condition, kept, NUMBERS)
    assert found is None or columns_of(found) <= kept
    matters = {key_of(row, kept) for row in ROWS if value_of(condition, row) is True}
    for row in ROWS:
        assert passes(found, row) or key_of(row, kept) not in matters


@given(condition=conditions(simple=True), kept=KEPT)
@settings(max_examples=examples(60))
def test_of_differences_nothing_else_is_left(condition: Expression, kept: frozenset[int]) -> None:
    found = eliminated(condition, kept, NUMBERS)
    matters = {key_of(row, kept) for row in ROWS if value_of(condition, row) is True}
    assert {key_of(row, kept) for row in ROWS if passes(found, row)} == matters


def key_of(row: tuple[Value, ...], kept: frozenset[int]) -> tuple[Value, ...]:
    return tuple(row[index] for index in sorted(kept))


def compare(left: Expression, name: str, value: Value) -> Expression:
    return call(name, left, Literal(value, left.type))


def test_example_3_5_leaves_two_bounds() -> None:
    """H > 10, L < 50, I = K, L > K + 24 with bounded domains, as the thesis has them: H > 10 and I ≤ 24."""
    facts = within(Facts(tuple(Field(name, INT, nullable=False) for name in "hijkl")), 0, 100)
    h, i, _, k, last = facts.all_columns()
    parts = (
        compare(h, "gt", 10),
        compare(last, "lt", 50),
        call("eq", i, k),
        call("gt", last, call("add", k, number(24), type=INT)),
    )
    found = eliminated(conjunction(parts), frozenset({0, 1}), facts)
    assert found is not None
    assert show_expression(found) == "((h > 10) AND (i <= 24))"


def test_where_a_sum_overflows_the_row_matters_too() -> None:
    """Without bounds, k + 24 can be out of range, and that is an error of the view, which must not be lost."""
    facts = Facts(tuple(Field(name, INT) for name in "ikl"))
    i, k, last = facts.all_columns()
    greater = call("gt", last, call("add", k, number(24), type=INT))
    found = eliminated(conjunction((compare(last, "lt", 50), call("eq", i, k), greater)), frozenset({0}), facts)
    assert found is not None
    assert show_expression(found) == "(((i IS NULL) OR (i >= 2147483624)) OR (i <= 24))"
    assert possible(conjunction((compare(k, "gt", 2147483623), greater)), facts) is Answer.NO
    assert possible(conjunction((compare(k, "gt", 2147483623), greater)), facts, or_fails=True) is Answer.YES


def test_a_condition_that_shields_another_keeps_it_from_failing() -> None:
    facts = Facts((Field("a", INT),))
    a = facts.column(0)
    quotient = call("gt", call("divide", number(10), a, type=INT), number(2))
    shielded = conjunction((compare(a, "ne", 0), quotient, compare(a, "lt", -3), compare(a, "gt", 3)))
    assert possible(call("and", compare(a, "eq", 0), shielded), facts, or_fails=True) is Answer.NO
    assert possible(shielded, facts) is Answer.NO
    assert possible(call("and", compare(a, "eq", 0), quotient), facts, or_fails=True) is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("type", "values", "between"),
    [
        (SMALLINT, (3, 4, 5), False),
        (BIGINT, (2**62, 2**62 + 1, 2**62 + 2), False),
        (decimal(5, 2), (Decimal("1.10"), Decimal("1.11"), Decimal("1.12")), False),
        (DATE, (dt.date(2024, 2, 28), dt.date(2024, 2, 29), dt.date(2024, 3, 1)), False),
        (TIMESTAMP, (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1), dt.datetime(2024, 1, 2)), False),
        (VARCHAR, ("a", "b", "c"), True),
    ],
)
def test_every_exact_type_has_its_order(type: Type, values: tuple[Value, ...], between: bool) -> None:
    facts = Facts((Field("x", type), Field("y", type)))
    x, y = facts.all_columns()
    low, middle, high = values
    above, below = compare(x, "gt", low), compare(x, "lt", middle)
    assert possible(call("and", above, below), facts) is (Answer.YES if between else Answer.NO)
    assert possible(call("and", compare(x, "lt", low), compare(x, "gt", high)), facts) is Answer.NO
    assert implies(compare(x, "gt", high), compare(x, "ge", middle), facts) is Answer.YES
    assert implies(compare(x, "ge", middle), compare(x, "gt", high), facts) is Answer.NO
    found = eliminated(conjunction((call("le", x, y), call("lt", y, x), above)), frozenset({0}), facts)
    assert found == Literal(False, BOOLEAN)
    found = eliminated(conjunction((call("le", x, y), compare(y, "le", middle))), frozenset({0}), facts)
    assert found == call("le", x, Literal(middle, type))


def test_an_integer_and_a_decimal_meet_in_their_values() -> None:
    facts = Facts((Field("n", INT), Field("d", decimal(6, 2))))
    n, d = Cast(facts.column(0), decimal(12, 2)), Cast(facts.column(1), decimal(12, 2))
    above = call("gt", d, Literal(Decimal("2.50"), decimal(12, 2)))
    condition = conjunction((call("eq", n, d), above))
    assert possible(condition, facts) is Answer.YES
    assert implies(condition, compare(facts.column(0), "ge", 3), facts) is Answer.YES
    assert implies(condition, compare(facts.column(0), "ge", 4), facts) is Answer.NO


def test_texts_leave_no_room_below_the_empty_one() -> None:
    facts = Facts((Field("t", VARCHAR),))
    t = facts.column(0)
    assert possible(compare(t, "lt", ""), facts) is Answer.NO
    assert possible(compare(t, "lt", "a"), facts) is Answer.YES
    squeezed = call("and", compare(t, "gt", "a"), compare(t, "lt", "a\x00"))
    assert possible(squeezed, facts) is Answer.UNKNOWN  # no text is there, but this is not known here


def test_what_is_not_understood_is_never_answered_with_yes() -> None:
    facts = Facts((Field("d", DOUBLE), Field("n", INT), Field("t", VARCHAR)))
    d, n, t = facts.all_columns()
    like = call("like", t, Literal("a%", VARCHAR))
    assert possible(compare(d, "gt", 1.5), facts) is Answer.UNKNOWN
    assert possible(like, facts) is Answer.UNKNOWN
    assert possible(conjunction((like, call("is_null", t))), facts) is Answer.NO
    assert possible(conjunction((like, call("not", like))), facts) is Answer.NO
    squares = call("lt", call("multiply", n, n, type=INT), number(0))
    assert possible(squares, facts) is Answer.UNKNOWN


def test_a_check_bounds_the_rows_but_not_null() -> None:
    facts = within(Facts((Field("a", INT), Field("b", INT, nullable=False))), 0, 30)
    a, b = facts.all_columns()
    assert possible(compare(a, "gt", 30), facts) is Answer.NO
    assert possible(call("is_null", a), facts) is Answer.YES
    assert implies(Literal(True, BOOLEAN), compare(b, "le", 30), facts) is Answer.YES
    assert implies(Literal(True, BOOLEAN), compare(a, "le", 30), facts) is Answer.NO
    other = Facts(facts.columns, (*facts.checks, call("lt", a, b)))
    assert possible(compare(a, "eq", 30), other) is Answer.NO


def test_two_rows_of_a_relation_lie_side_by_side() -> None:
    row = within(Facts((Field("a", INT, nullable=False),)), 0, 3)
    both_rows = row.beside(row)
    a, primed = both_rows.all_columns()
    assert possible(call("gt", primed, number(3)), both_rows) is Answer.NO
    assert possible(call("ne", a, primed), both_rows) is Answer.YES


def test_sums_of_several_columns_are_left_to_the_solver() -> None:
    facts = within(Facts(tuple(Field(name, INT, nullable=False) for name in "xyz")), 0, 100)
    x, y, z = facts.all_columns()
    total = call("add", x, y, type=INT)
    assert possible(conjunction((call("lt", total, z), compare(x, "gt", 60), compare(y, "gt", 40))), facts) is Answer.NO
    found = eliminated(conjunction((call("lt", total, z), compare(y, "gt", 40))), frozenset({0}), facts)
    assert found is not None
    assert show_expression(found) == "(x <= 58)"


def test_a_distance_between_two_kept_columns_is_added_where_it_cannot_overflow() -> None:
    facts = Facts(tuple(Field(name, BIGINT) for name in "xyz"))
    x, y, z = facts.all_columns()
    near = conjunction((call("lt", x, z), call("lt", z, y)))
    found = eliminated(near, frozenset({0, 1}), facts)
    assert found is not None
    for row, expected in (((1, 3, None), True), ((1, 2, None), False), ((2**63 - 2, 2**63 - 1, None), False)):
        assert (value_of(found, row) is True) is expected


def test_importing_tidemark_does_not_import_the_solver() -> None:
    code = "import sys, tidemark, tidemark.analysis.conditions; sys.exit('z3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_when_the_steps_are_used_up_nothing_is_said() -> None:
    facts = within(Facts(tuple(Field(name, INT) for name in "xyz")), 0, 100)
    x, y, z = facts.all_columns()
    hard = conjunction((call("lt", call("add", x, y, type=INT), z), compare(x, "gt", 60), compare(y, "gt", 40)))
    with budget(100):
        assert possible(hard, facts) is Answer.UNKNOWN
        assert eliminated(call("lt", call("add", x, y, type=INT), z), frozenset({2}), facts) is None
    assert possible(hard, facts) is Answer.NO


def test_rows_that_were_not_checked_may_be_anything() -> None:
    facts = within(Facts((Field("a", INT, nullable=False),)), 0, 30)
    a = facts.column(0)
    for condition in (call("is_null", a), compare(a, "gt", 30)):
        assert possible(condition, facts) is Answer.NO
        assert possible(condition, Facts((Field("a", INT, nullable=True),))) is Answer.YES


@pytest.mark.parametrize("type", [SMALLINT, BIGINT])
def test_the_least_integer_has_no_opposite(type: Type) -> None:
    """Its absolute value, its negative and its quotient by -1 are errors, not rows that are not there."""
    facts = Facts((Field("a", type, nullable=False),))
    a, minus_one = facts.column(0), Literal(-1, type)
    least = compare(a, "eq", -(2**15) if type == SMALLINT else -(2**63))
    for computed in (call("abs", a, type=type), call("divide", a, minus_one, type=type), call("negate", a, type=type)):
        positive = call("gt", computed, Literal(0, type))
        assert possible(call("and", least, positive), facts) is Answer.NO
        assert possible(call("and", least, positive), facts, or_fails=True) is Answer.YES
    remainder = call("eq", call("modulo", a, minus_one, type=type), Literal(0, type))
    assert possible(call("and", least, remainder), facts) is Answer.YES
