"""Which expressions can raise an error when they are evaluated."""

from __future__ import annotations

from tidemark.algebra.expressions import Call, Cast, Expression, walk
from tidemark.algebra.functions import FUNCTIONS, cast_fails
from tidemark.algebra.plans import Plan, expressions_of


def can_fail(expression: Expression, code: str = "") -> bool:
    """Whether the expression can raise an error (of the given code, if one is given)."""
    for part in walk(expression):
        if isinstance(part, Call):
            fails = FUNCTIONS[part.function].fails
        elif isinstance(part, Cast):
            fails = cast_fails(part.argument.type, part.type)
        else:
            continue
        if fails is not None and code in fails:
            return True
    return False


def node_can_fail(plan: Plan) -> bool:
    """Whether an expression that stands directly in this node can raise an error."""
    return any(can_fail(expression) for expression in expressions_of(plan))
