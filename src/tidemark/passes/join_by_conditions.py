"""Conditions of WHERE at the joins that they belong to.

    σ[p ∧ j](R × S) = σ[p](R ⋈[j] S)          j reads columns of both sides, p of one alone
    (j ∧ p) ∨ (j ∧ q) = j ∧ (p ∨ q)           first, so that what all alternatives ask for stands at the join

``FROM a, b WHERE a.x = b.x`` names a product and a filter above it. As long as the two are apart, any two views of a
and b seem to share the product. Conditions on one side stay above the join, so that views which differ in those alone
do share it. This pass runs over definitions; ``push_filters`` takes the rest down in differentials.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.expressions import TRUE, Call, Expression, columns_of, conjunction, conjuncts, disjuncts, shift
from tidemark.algebra.plans import Filter, Join, Plan
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import BOOLEAN
from tidemark.passes.facts import bottom_up


def join_by_conditions(plan: Plan) -> Plan:
    return bottom_up(plan, _rule)


def _rule(plan: Plan) -> Plan:
    if not isinstance(plan, Filter) or not isinstance(plan.input, Join) or can_fail(plan.predicate):
        return plan
    parts = list(enumerate(part for whole in conjuncts(plan.predicate) for part in _factored(whole)))
    join, placed = _placed(plan.input, parts)
    kept = [part for number, part in parts if number not in placed]
    return Filter(join, conjunction(tuple(kept))) if kept else join


def _factored(expression: Expression) -> tuple[Expression, ...]:
    """The parts of a conjunction that says the same as a disjunction: what is common to all alternatives, and the rest.

    It holds for unknown truth values too: both sides are the same minimum of maxima.
    """
    alternatives = [conjuncts(alternative) for alternative in disjuncts(expression)]
    common = tuple(part for part in dict.fromkeys(alternatives[0]) if all(part in other for other in alternatives[1:]))
    if len(alternatives) == 1 or not common:
        return (expression,)
    rest = [tuple(part for part in alternative if part not in common) for alternative in alternatives]
    if not all(rest):
        return common
    return (*common, _disjunction(tuple(map(conjunction, rest))))


def _disjunction(parts: tuple[Expression, ...]) -> Expression:
    result, *others = parts
    for part in others:
        result = Call("or", (result, part), BOOLEAN, result.nullable or part.nullable)
    return result


def _placed(join: Join, parts: list[tuple[int, Expression]]) -> tuple[Join, set[int]]:
    """The join with each condition at the lowest join of which it reads both sides, and the numbers of those for which
    there is one. All of them go down together, so that a join gets its conditions at once."""
    width = len(join.left.schema)
    own: list[tuple[int, Expression]] = []
    sides: tuple[list[tuple[int, Expression]], ...] = ([], [])
    for number, part in parts:
        read = columns_of(part)
        if read and min(read) < width <= max(read):
            own.append((number, part))
        elif read:
            on_left = max(read) < width
            sides[0 if on_left else 1].append((number, part if on_left else shift(part, -width)))
    found = {number for number, _ in own}
    inputs: list[Plan] = []
    for side, given in zip(join.inputs(), sides, strict=True):
        if given and isinstance(side, Join):
            side, placed = _placed(side, given)
            found |= placed
        inputs.append(side)
    before = tuple([condition for condition in conjuncts(join.predicate) if condition != TRUE]) if own else ()
    predicate = conjunction((*before, *[part for _, part in own])) if own else join.predicate
    return (replace(join, left=inputs[0], right=inputs[1], predicate=predicate) if found else join), found
