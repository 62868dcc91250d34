"""Bringing expressions to the types that their place needs.

A placeholder stands for a value that comes when a statement runs, and is brought to a type by noting how its value will
be. Nothing that binds an expression can look at the value, so what is bound holds for each one of its type.
"""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass, replace
from functools import reduce

from tidemark.algebra.expressions import Call, Cast, Expression, Literal
from tidemark.algebra.functions import cast_value, implicit_cast_allowed
from tidemark.algebra.scalar import value_of
from tidemark.algebra.structure import structural
from tidemark.algebra.text import exact_number, read_text
from tidemark.algebra.types import DATE, TIMESTAMP, VARCHAR, Kind, Type, common_type
from tidemark.errors import TidemarkError


class Step(enum.Enum):
    """How a value is brought to a type: CAST as a literal, READ as a quoted one, TAKE as what a program hands over,
    which is taken whole or refused, and NEGATE."""

    CAST = "cast"
    READ = "read"
    TAKE = "take"
    NEGATE = "negate"


@structural
@dataclass(frozen=True)
class Placeholder(Expression):
    """A value that comes when the statement runs: the one at ``index``, brought to the type by the steps, each from the
    type before it. ``handed`` if it is that of a parameter, and not a constant of the text.

    What a program hands over without a type of its own (None, a list, a dict) has that of NULL until its place says
    which it is.
    """

    index: int
    type: Type
    nullable: bool = False
    handed: bool = False
    steps: tuple[tuple[Step, Type, Type], ...] = ()

    def brought(self, step: Step, target: Type) -> Placeholder:
        return replace(self, type=target, steps=(*self.steps, (step, self.type, target)))

    @property
    def is_text(self) -> bool:
        """Whether it is a text as it came, which other types are read from."""
        return self.type == VARCHAR and not self.steps

    def read(self, target: Type) -> Placeholder:
        """The text as a type beside it. A program hands numbers over as numbers, so no text of its is read as one."""
        return self.brought(Step.TAKE if self.handed else Step.READ, target)


def coerce(expression: Expression, target: Type) -> Expression:
    """The expression as the target type; the caller knows that the cast is allowed."""
    if expression.type == target:
        return expression
    if isinstance(expression, Literal):
        if expression.value is None:
            return Literal(None, target)
        return Literal(cast_value(expression.value, expression.type, target), target)
    if isinstance(expression, Placeholder):
        return expression.brought(Step.TAKE if expression.type.kind is Kind.NULL else Step.CAST, target)
    if isinstance(expression, Call) and expression.function == "struct" and target.fields:
        return replace(expression, arguments=tuple(map(coerce, expression.arguments, target.parts)), type=target)
    return Cast(expression, target)


def folded(expression: Expression) -> Expression:
    """A call or cast of literals as the literal that it gives; one that fails is left to fail where it is evaluated."""
    if not expression.children() or not all(isinstance(part, Literal) for part in expression.children()):
        return expression
    try:
        return Literal(value_of(expression, ()), expression.type)
    except TidemarkError:
        return expression


def days_beside_dates(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """A literal midnight that is compared with a DATE as the DATE that it is, so that the column is not cast."""
    if not any(a.type == DATE and not isinstance(a, Literal) for a in arguments):
        return arguments
    days = tuple(_day_of(a) if a.type == TIMESTAMP else a for a in arguments)
    return arguments if any(day is None for day in days) else tuple(day for day in days if day is not None)


def _day_of(expression: Expression) -> Expression | None:
    value = expression.value if isinstance(expression, Literal) else None
    if not isinstance(value, dt.datetime) or value.time() != dt.time.min:
        return None
    return Literal(value.date(), DATE)


def is_text_literal(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.type == VARCHAR and expression.value is not None


def adapt_text_literals(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """A quoted literal beside values of another type is read as that type, as in ``day = '2024-01-31'``."""
    others = [a.type for a in arguments if not _is_text(a) and a.type.kind is not Kind.NULL]
    if not others or all(other == VARCHAR for other in others):
        return arguments
    target = common_of(others)
    if target is None or target == VARCHAR:
        return arguments
    return tuple(_read_as(a, target) if _is_text(a) else a for a in arguments)


def _is_text(expression: Expression) -> bool:
    return is_text_literal(expression) or (isinstance(expression, Placeholder) and expression.is_text)


def _read_as(expression: Expression, target: Type) -> Expression:
    """The literal as the target type; a number keeps all its digits, since comparing must not round."""
    if isinstance(expression, Placeholder):
        if target.kind is Kind.DECIMAL and not expression.handed:
            raise TidemarkError("type", "the digits of a text decide what number it is")
        return expression.read(target)
    assert isinstance(expression, Literal)
    text = str(expression.value)
    if target.kind is Kind.DECIMAL:
        return exact_number(text)
    return Literal(read_text(text, target), target)


def common_of(types: list[Type]) -> Type | None:
    """The common type of all, or None."""
    return reduce(lambda a, b: common_type(a, b) if a is not None else None, types[1:], types[0])  # type: ignore[arg-type, return-value]


def settle_null(expression: Expression) -> Expression:
    """A bare NULL in the output of a query is text, as in PostgreSQL."""
    return coerce(expression, VARCHAR) if expression.type.kind is Kind.NULL else expression


def fits_implicitly(source: Type, target: Type) -> bool:
    return source == target or implicit_cast_allowed(source, target)
