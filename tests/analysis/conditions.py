"""Random conditions over columns with few values, and the answers that trying all of them gives."""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from tidemark.algebra.expressions import Call, Case, Expression, Literal, Value
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import BOOLEAN, INT, Field, Type
from tidemark.analysis.conditions import Facts
from tidemark.errors import TidemarkError

HIGHEST = 3

Row = tuple[Value, ...]


def call(name: str, *arguments: Expression, type: Type = BOOLEAN) -> Call:
    return Call(name, arguments, type, any(argument.nullable for argument in arguments))


def number(value: int | None, type: Type = INT) -> Literal:
    return Literal(value, type)


def within(facts: Facts, low: int = 0, high: int = HIGHEST) -> Facts:
    """The facts with CHECK (column BETWEEN low AND high) for each number among the columns."""
    checks = tuple(
        call("and", call("ge", c, number(low, c.type)), call("le", c, number(high, c.type)))
        for c in facts.all_columns()
        if c.type.is_integer
    )
    return Facts(facts.columns, facts.checks + checks)


NUMBERS = within(Facts((Field("a", INT, nullable=False), Field("b", INT), Field("c", INT))))
"""Three columns with the values 0 to 3, two of them with NULL as well."""


def all_rows(facts: Facts, low: int = 0, high: int = HIGHEST) -> list[Row]:
    """Every row that the facts allow, if all numbers are between two bounds and all texts among a few."""
    values: list[list[Value]] = []
    for field in facts.columns:
        own: list[Value] = [*range(low, high + 1)] if field.type.is_integer else [False, True]
        values.append(own + [None] * field.nullable)
    return [row for row in product(*values) if all(value_of(check, row) is not False for check in facts.checks)]


def outcome(condition: Expression, row: Row) -> Value | str:
    """The condition's value for a row; the code of its error if it fails."""
    try:
        return value_of(condition, row)
    except TidemarkError as error:
        return error.code


@st.composite
def operands(draw: st.DrawFn, facts: Facts, *, simple: bool) -> Expression:
    """A column, or a column and a constant; unless it is to be simple, also what needs a definition."""
    column = draw(st.sampled_from([c for c in facts.all_columns() if c.type == INT]))
    kinds = ["column", "column", "shifted"] + ([] if simple else ["case", "coalesce", "sum", "least", "divide", "abs"])
    constant = number(draw(st.integers(-2, 4)))
    match draw(st.sampled_from(kinds)):
        case "shifted":
            return call(draw(st.sampled_from(["add", "subtract"])), column, constant, type=INT)
        case "case":
            condition = draw(conditions(facts, depth=0, simple=True))
            return Case(((condition, column),), draw(st.sampled_from([constant, number(None)])), INT)
        case "coalesce":
            return call("coalesce", column, constant, type=INT)
        case "sum":
            other = draw(st.sampled_from([c for c in facts.all_columns() if c.type == INT]))
            return call("add", column, call("multiply", number(draw(st.integers(-2, 2))), other, type=INT), type=INT)
        case "least":
            return call(draw(st.sampled_from(["least", "greatest"])), column, constant, type=INT)
        case "divide":
            name, by = draw(st.sampled_from(["divide", "modulo"])), draw(st.sampled_from([-2, 2, 3]))
            shifted = call("subtract", column, number(2), type=INT)
            return call(name, shifted, number(by), type=INT)
        case "abs":
            return call("abs", call("subtract", column, number(2), type=INT), type=INT)
    return column


@st.composite
def conditions(draw: st.DrawFn, facts: Facts = NUMBERS, depth: int = 2, *, simple: bool = False) -> Expression:
    kinds = ["compare", "compare", "constant", "null", "distinct", "list"]
    kinds += ["and", "or", "not", "true"] if depth else []
    kind = draw(st.sampled_from(kinds))
    if kind in ("and", "or"):
        sides = [draw(conditions(facts, depth - 1, simple=simple)) for _ in range(2)]
        return call(kind, *sides)
    if kind in ("not", "true"):
        inner = draw(conditions(facts, depth - 1, simple=simple))
        names = ["is_true", "is_not_true", "is_false", "is_not_false"]
        return call("not" if kind == "not" else draw(st.sampled_from(names)), inner)
    left = draw(operands(facts, simple=simple))
    constants = st.one_of(st.integers(-1, HIGHEST + 1), st.none()).map(number)
    match kind:
        case "compare":
            return call(draw(comparisons), left, draw(operands(facts, simple=simple)))
        case "constant":
            return call(draw(comparisons), left, draw(constants))
        case "null":
            return call(draw(st.sampled_from(["is_null", "is_not_null"])), left)
        case "distinct":
            other = draw(st.one_of(operands(facts, simple=True), constants))
            return call(draw(st.sampled_from(["is_distinct", "is_not_distinct"])), left, other)
    return call("in_list", left, draw(constants), draw(constants))


comparisons = st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"])
