"""Conditions whose parts are constants, with the values of those.

    σ[d < DATE '1994-01-01' + INTERVAL '1' YEAR] R = σ[d < TIMESTAMP '1995-01-01'] R

A sum of two dates or numbers can fail in general, and what can fail is not moved; a constant cannot. What does fail
stays as it was written, to fail when it is evaluated. So do approximate numbers, whose last digits are the engines'
own. This pass runs over definitions, before anything is moved.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.expressions import Call, Case, Cast, Expression, Literal, columns_of, transform, walk
from tidemark.algebra.plans import Filter, Join, Plan
from tidemark.algebra.scalar import value_of
from tidemark.errors import TidemarkError
from tidemark.passes.facts import bottom_up


def fold_constants(plan: Plan) -> Plan:
    return bottom_up(plan, _rule)


def _rule(plan: Plan) -> Plan:
    if not isinstance(plan, Filter | Join):
        return plan
    folded = transform(plan.predicate, _folded)
    return plan if folded == plan.predicate else replace(plan, predicate=folded)


def _folded(expression: Expression) -> Expression | None:
    if not isinstance(expression, Call | Case | Cast) or columns_of(expression):
        return None
    if any(part.type.is_float for part in walk(expression)):
        return None
    try:
        return Literal(value_of(expression, ()), expression.type)
    except TidemarkError:
        return None
