"""Which expressions can raise an error when they are evaluated."""

from __future__ import annotations

from tidemark.algebra.expressions import Call, Cast, Expression, walk
from tidemark.algebra.functions import FUNCTIONS, cast_fails
from tidemark.algebra.plans import Plan, expressions_of


def can_fail(expression: Expression, code: str = "") -> bool:
    """Whether the expression can raise an error (of the given code, if one is given)."""
    return any(fails_itself(part, code) for part in walk(expression))


def fails_itself(expression: Expression, code: str = "") -> bool:
    """Whether the outermost operation of the expression can raise an error, apart from its arguments."""
    fails = None
    if isinstance(expression, Call):
        fails = FUNCTIONS[expression.function].fails
    elif isinstance(expression, Cast):
        fails = cast_fails(expression.argument.type, expression.type)
    return fails is not None and code in fails


def node_can_fail(plan: Plan) -> bool:
    """Whether an expression that stands directly in this node can raise an error."""
    return any(can_fail(expression) for expression in expressions_of(plan))
