"""Projection push-down (ERA's transformations 9 and 10), for bags.

    9   π[A](R ⋈ S)  = π[A](π[B] R ⋈ π[C] S)        B and C keep what A and the join condition read of R and of S
    10  π[A](R ⊎ S)  = π[A] R ⊎ π[A] S

The text asks of 9 that B and C be parts of A; without the join columns that is not enough, and columns of A that
are neither in B nor in C would be lost: A = B ∪ C, with every join column kept on its side. For sets 3 and 10 hold
under an outermost Distinct only; the projections here keep duplicates.

Only unions are narrowed, which are read part by part. A scan is read by column anyway, and a projection between joins
of scans would only stand in the way of engines, which take such joins as one block.
"""

from __future__ import annotations

from tidemark.algebra.expressions import Column, Expression, columns_in, substitute
from tidemark.algebra.plans import Filter, Join, Negate, Plan, Project, Union
from tidemark.passes.facts import bottom_up, node_can_fail


def push_projections(plan: Plan) -> Plan:
    return bottom_up(plan, _pushed)


def _pushed(plan: Plan) -> Plan:
    if not isinstance(plan, Project) or node_can_fail(plan) or node_can_fail(plan.input):
        return plan
    match plan.input:
        case Union(parts=parts):
            return Union(tuple(_pushed(Project(part, plan.names, plan.expressions)) for part in parts))
        case Join() as join:
            return _through_join(plan, join)
    return plan


def _through_join(plan: Project, join: Join) -> Plan:
    width = len(join.left.schema)
    read = columns_in((*plan.expressions, join.predicate))
    left = _wanted(join.left, {index for index in read if index < width})
    right = _wanted(join.right, {index - width for index in read if index >= width})
    wanted = left + [index + width for index in right]
    if len(wanted) == len(join.schema):
        return plan
    sides = (_narrowed(join.left, left), _narrowed(join.right, right))
    product = sides[0].schema + sides[1].schema
    columns = tuple(Column(i, f.name, f.type, f.nullable) for i, f in enumerate(product.fields))
    predicate = _renumbered(join.predicate, columns, wanted)
    narrow = Join(*sides, predicate)
    return Project(narrow, plan.names, _moved(plan.expressions, narrow, wanted))


def _wanted(side: Plan, read: set[int]) -> list[int]:
    """The columns that a side keeps: those that are read, or all if it is not narrowed. One at least."""
    return sorted(read or {0}) if _can_narrow(side) else list(range(len(side.schema)))


def _can_narrow(plan: Plan) -> bool:
    match plan:
        case Union():
            return len(plan.schema) > 0
        case Negate(input=source) | Filter(input=source):
            return _can_narrow(source)
        case Join(left=left, right=right):
            return not node_can_fail(plan) and (_can_narrow(left) or _can_narrow(right))
    return False


def _narrowed(plan: Plan, wanted: list[int]) -> Plan:
    if len(wanted) == len(plan.schema):
        return plan
    columns = tuple(plan.column(index) for index in wanted)
    return _pushed(Project(plan, tuple(column.name for column in columns), columns))


def _moved(expressions: tuple[Expression, ...], source: Plan, wanted: list[int]) -> tuple[Expression, ...]:
    return tuple(_renumbered(expression, source.columns(), wanted) for expression in expressions)


def _renumbered(expression: Expression, columns: tuple[Column, ...], wanted: list[int]) -> Expression:
    """The expression over the narrower row, in which the old column ``wanted[i]`` stands at i."""
    highest = max(wanted, default=-1) + 1
    places: list[Expression] = [columns[wanted.index(i)] if i in wanted else columns[0] for i in range(highest)]
    return substitute(expression, tuple(places))
