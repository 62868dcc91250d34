"""Formulas over doubles that are written once and mean the same, to the last bit, in Python and in every engine's SQL.

The engines' own logarithms and sines differ from one another in the last digit. But IEEE 754 fixes the result of each
sum, product, quotient and square root to the last bit, so a formula that is made of these alone, in a fixed order,
has one result everywhere. A ``Term`` is a part of such a formula: a number, or the SQL that computes it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidemark.algebra.functions.table import Engine, let
from tidemark.errors import TidemarkError

Constant: TypeAlias = "Term | float"


@dataclass(frozen=True)
class Term:
    """A part of a formula: a number if there is no engine, else SQL. ``depth`` counts the names that it may use."""

    value: Any
    engine: Engine | None = None
    depth: int = 0

    def __add__(self, other: Constant) -> Term:
        return self._with(other, "+", operator.add)

    def __sub__(self, other: Constant) -> Term:
        return self._with(other, "-", operator.sub)

    def __mul__(self, other: Constant) -> Term:
        return self._with(other, "*", operator.mul)

    def __truediv__(self, other: Constant) -> Term:
        return self._with(other, "/", operator.truediv)

    def __lt__(self, other: Constant) -> Term:
        return self._with(other, "<", operator.lt)

    def __gt__(self, other: Constant) -> Term:
        return self._with(other, ">", operator.gt)

    def __le__(self, other: Constant) -> Term:
        return self._with(other, "<=", operator.le)

    def __ge__(self, other: Constant) -> Term:
        return self._with(other, ">=", operator.ge)

    def equals(self, other: Constant) -> Term:
        return self._with(other, "=", operator.eq)

    def both(self, other: Term) -> Term:
        return self._with(other, "AND", lambda left, right: left and right)

    def either(self, other: Term) -> Term:
        return self._with(other, "OR", lambda left, right: left or right)

    def nearest(self) -> Term:
        """The nearest whole number, ties to the even one."""
        return self._apply("round_even({0}, 0)", "rint({0})", _nearest)

    def size(self) -> Term:
        return self._apply("abs({0})", "abs({0})", abs)

    def root(self) -> Term:
        return self._apply("sqrt({0})", "sqrt({0})", math.sqrt)

    def is_nan(self) -> Term:
        return self._apply("isnan({0})", "isnan({0})", math.isnan)

    def power_of_two(self) -> Term:
        """2 to a whole number; powers of two are doubles, and every engine's power finds them exactly."""
        return self._apply("pow(2e0, {0})", "power(2D, {0})", lambda k: math.ldexp(1.0, int(k)))

    def exponent_guess(self) -> Term:
        """About the logarithm to the base 2: engines may differ by little, so it is only a start."""
        return self._apply(
            "floor(log2({0}))", "CAST(floor(log2({0})) AS DOUBLE)", lambda x: float(math.floor(math.log2(x)))
        )

    def like(self, value: float) -> Term:
        """A constant beside this term."""
        return Term(value if self.engine is None else _literal(value), self.engine, self.depth)

    def _with(self, other: Constant, symbol: str, meaning: Callable[[Any, Any], Any]) -> Term:
        right = other if isinstance(other, Term) else self.like(other)
        depth = max(self.depth, right.depth)
        if self.engine is None:
            return Term(meaning(self.value, right.value))
        return Term(f"({self.value} {symbol} {right.value})", self.engine, depth)

    def _apply(self, duckdb: str, spark: str, meaning: Callable[[Any], Any]) -> Term:
        if self.engine is None:
            return Term(meaning(self.value))
        text = duckdb if self.engine is Engine.DUCKDB else spark
        return Term(text.format(self.value), self.engine, self.depth)


def _nearest(value: float) -> float:
    return float(round(value)) if math.isfinite(value) else value


Formula: TypeAlias = Callable[..., Term]


def _literal(value: float) -> str:
    return f"CAST('{value!r}' AS DOUBLE)"


def named(body: Formula, *parts: Term) -> Term:
    """The body of the parts, each computed once, however often the body uses it."""
    engine = parts[0].engine
    if engine is None:
        return body(*parts)
    depth = max(part.depth for part in parts) + 1
    names = {f"p{place}": part.value for place, part in enumerate(parts)}
    inner = body(*(Term(f"w{depth}.{name}", engine, depth) for name in names))
    return Term(let(engine, f"w{depth}", names, inner.value), engine, inner.depth)


def choose(*cases: tuple[Term, Callable[[], Term]], otherwise: Callable[[], Term]) -> Term:
    """The first case whose condition holds; nothing else is evaluated."""
    engine = cases[0][0].engine
    if engine is None:
        return next((result for condition, result in cases if condition.value), otherwise)()
    results = [(condition, result()) for condition, result in cases]
    last = otherwise()
    whens = " ".join(f"WHEN {condition.value} THEN {result.value}" for condition, result in results)
    depth = max([last.depth, *(max(condition.depth, result.depth) for condition, result in results)])
    return Term(f"(CASE {whens} ELSE {last.value} END)", engine, depth)


def fails(beside: Term, code: str, message: str) -> Term:
    """An error, as a case."""
    if beside.engine is None:
        raise TidemarkError(code, message)
    return Term(f"{beside.engine.raising}('{code}: {message}')", beside.engine, beside.depth)


def product(x: Term, count: Term) -> Term:
    """x times itself, multiplied one by one; 1 if the count is 0."""
    if x.engine is None:
        return Term(math.prod([x.value] * int(count.value), start=1.0))
    if x.engine is Engine.DUCKDB:
        factors = f"list_transform(range(CAST({count.value} AS BIGINT)), lambda i: {x.value})"
        text = f"list_reduce({factors}, lambda a, b: a * b, 1e0)"
    else:
        text = f"aggregate(array_repeat({x.value}, CAST({count.value} AS INT)), 1D, (a, b) -> a * b)"
    return Term(text, x.engine, max(x.depth, count.depth))


def polynomial(x: Term, coefficients: tuple[float, ...]) -> Term:
    """Horner's rule, the highest coefficient first."""
    result = x.like(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


INFINITY: Final = math.inf
