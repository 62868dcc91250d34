"""Conditions of WHERE at the joins that they belong to.

    σ[p ∧ j](R × S) = σ[p](R ⋈[j] S)          j reads columns of both sides, p of one alone
    (j ∧ p) ∨ (j ∧ q) = j ∧ (p ∨ q)           first, so that what all alternatives ask for stands at the join

``FROM a, b WHERE a.x = b.x`` names a product and a filter above it. As long as the two are apart, any two views of a
and b seem to share the product. Conditions on one side stay above the join, so that views which differ in those alone
do share it. This pass runs over definitions; ``push_filters`` takes the rest down in differentials.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.expressions import TRUE, Call, Expression, columns_of, conjunction, conjuncts, shift
from tidemark.algebra.failing import can_fail
from tidemark.algebra.plans import Filter, Join, Plan
from tidemark.algebra.types import BOOLEAN
from tidemark.passes.rewriting import bottom_up


def join_by_conditions(plan: Plan) -> Plan:
    return bottom_up(plan, _rule)


def _rule(plan: Plan) -> Plan:
    if not isinstance(plan, Filter) or not isinstance(plan.input, Join) or can_fail(plan.predicate):
        return plan
    join, kept = plan.input, list[Expression]()
    for part in (part for whole in conjuncts(plan.predicate) for part in _factored(whole)):
        placed = _placed(join, part)
        if placed is None:
            kept.append(part)
        else:
            join = placed
    return Filter(join, conjunction(tuple(kept))) if kept else join


def _factored(expression: Expression) -> tuple[Expression, ...]:
    """The parts of a conjunction that says the same as a disjunction: what is common to all alternatives, and the rest.

    It holds for unknown truth values too: both sides are the same minimum of maxima.
    """
    alternatives = [conjuncts(alternative) for alternative in _disjuncts(expression)]
    common = tuple(part for part in dict.fromkeys(alternatives[0]) if all(part in other for other in alternatives[1:]))
    if len(alternatives) == 1 or not common:
        return (expression,)
    rest = [tuple(part for part in alternative if part not in common) for alternative in alternatives]
    if not all(rest):
        return common
    return (*common, _disjunction(tuple(map(conjunction, rest))))


def _disjuncts(expression: Expression) -> tuple[Expression, ...]:
    if isinstance(expression, Call) and expression.function == "or":
        return tuple(part for argument in expression.arguments for part in _disjuncts(argument))
    return (expression,)


def _disjunction(parts: tuple[Expression, ...]) -> Expression:
    result, *others = parts
    for part in others:
        result = Call("or", (result, part), BOOLEAN, result.nullable or part.nullable)
    return result


def _placed(join: Join, part: Expression) -> Join | None:
    """The join with the condition at the lowest join of which it reads both sides, or None if there is none."""
    width, read = len(join.left.schema), columns_of(part)
    if not read:
        return None
    if min(read) < width <= max(read):
        own = tuple(condition for condition in conjuncts(join.predicate) if condition != TRUE)
        return replace(join, predicate=conjunction((*own, part)))
    on_left = max(read) < width
    side = join.left if on_left else join.right
    placed = _placed(side, part if on_left else shift(part, -width)) if isinstance(side, Join) else None
    if placed is None:
        return None
    return replace(join, left=placed) if on_left else replace(join, right=placed)
