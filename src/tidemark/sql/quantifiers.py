"""Conditions with quantifiers: conjuncts behind NOT; when a comparison with ANY row is true, and when NULL."""

from __future__ import annotations

from tidemark.algebra.expressions import Call, Expression, conjuncts
from tidemark.algebra.plans import Filter
from tidemark.algebra.types import BOOLEAN
from tidemark.sql.parameters import AnyRow, Exists, has_subquery


def conditions_of(condition: Expression) -> tuple[Expression, ...]:
    """The conjuncts, also those that NOT … OR … hides; as conditions of rows, where NULL counts as false."""
    result: list[Expression] = []
    for part in conjuncts(condition):
        inner = part.children()[0] if isinstance(part, Call) and part.function == "not" else None
        if inner is None or not has_subquery(inner) or not isinstance(inner, Call):
            result.append(part)
        elif inner.function == "not":
            result.extend(conditions_of(inner.arguments[0]))
        elif inner.function == "or":
            for each in inner.arguments:
                result.extend(conditions_of(Call("not", (each,), BOOLEAN, each.nullable)))
        else:
            result.append(part)
    return tuple(result)


def match_of(node: AnyRow) -> Exists:
    return Exists(Filter(node.plan, node.condition), node.arguments)


def unknown_of(node: AnyRow) -> tuple[Exists, ...]:
    """When the answer is NULL, unless there is a match: subqueries of which one has a row."""
    if not node.condition.nullable:
        return ()
    condition = node.condition
    unknown: tuple[Expression, ...] = (condition,)
    if isinstance(condition, Call) and condition.function in ("eq", "ne", "lt", "le", "gt", "ge"):
        # A comparison is unknown if a side is: conditions on one side alone make cheaper joins.
        unknown = tuple(side for side in condition.arguments if side.nullable)
    return tuple(
        Exists(Filter(node.plan, Call("is_null", (side,), BOOLEAN, nullable=False)), node.arguments) for side in unknown
    )
