"""What tells the derivations of one row apart, for rules that fire whenever one is added.

A derivation of π[e] E is a row of E, in the columns that e and the selections and joins in E read. So an instance that
one derivation leaves and another one enters has a derivation added, though its multiplicity is what it was. Plain
views, queries in FROM and the parts of a UNION are looked into; rows of a DISTINCT, a grouping or a
subquery inside, and those of stored relations, are taken as they are. So is a union of which some parts are taken away
(an outer join has such a one): they must meet what they are taken from.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.algebra.expressions import Expression, Literal, columns_of, substitute
from tidemark.algebra.plans import Distinct, Filter, Join, Negate, Plan, Project, Union, walk
from tidemark.algebra.types import INT


def derivations(plan: Plan) -> Plan:
    """The rows of a query with further columns behind them, which tell their derivations apart."""
    plan = plan.input if isinstance(plan, Distinct) else plan
    return _opened(plan, set(range(len(plan.schema))))


def _opened(plan: Plan, read: set[int]) -> Plan:
    """A plan of which some columns are read, with what tells its rows apart behind them."""
    match plan:
        case Project(input=source, names=names, expressions=expressions):
            used = {i for place in read for i in columns_of(expressions[place])} | _tested(source)
            inner = _opened(source, used)
            more = [*sorted(used), *range(len(source.schema), len(inner.schema))]
            return _wider(inner, names, expressions, [inner.column(i) for i in more])
        case Filter(input=source):
            return plan.with_inputs((_opened(source, read),))
        case Join():
            return _opened_join(plan, read)
        case Union(parts=parts) if not any(isinstance(inner, Negate) for part in parts for inner in walk(part)):
            return _opened_union(plan, [_opened(part, read) for part in parts])
    return plan


def _opened_join(plan: Join, read: set[int]) -> Plan:
    own, both = len(plan.left.schema), len(plan.schema)
    left = _opened(plan.left, {i for i in read if i < own})
    right = _opened(plan.right, {i - own for i in read if i >= own})
    width = len(left.schema)
    if width == own and len(right.schema) == both - own:
        return plan
    places = [*range(own), *range(width, width + both - own)]
    columns = Join(left, right, Literal(True, plan.predicate.type)).columns()
    joined = Join(left, right, substitute(plan.predicate, tuple(columns[i] for i in places)))
    others = [column for i, column in enumerate(columns) if i not in places]
    return _wider(joined, plan.schema.names, tuple(columns[i] for i in places), others)


def _opened_union(plan: Union, parts: list[Plan]) -> Plan:
    """Each part has columns of its own behind those of the union, and the number of the part before them."""
    width = len(plan.schema)
    types = [field.type for part in parts for field in part.schema.fields[width:]]
    wider, start = list[Plan](), 0
    for number, part in enumerate(parts):
        others: list[Expression] = [Literal(None, type_) for type_ in types]
        more = part.columns()[width:]
        others[start : start + len(more)] = more
        start += len(more)
        wider.append(_wider(part, plan.schema.names, part.columns()[:width], [Literal(number, INT), *others]))
    return Union(tuple(wider))


def _wider(plan: Plan, names: tuple[str, ...], own: tuple[Expression, ...], more: Sequence[Expression]) -> Plan:
    further = tuple(f"_{i}" for i in range(len(own), len(own) + len(more)))
    return Project(plan, (*names, *further), (*own, *more))


def _tested(plan: Plan) -> set[int]:
    """The columns that the selections and joins on top of a plan look at."""
    match plan:
        case Filter(input=source, predicate=predicate):
            return _tested(source) | columns_of(predicate)
        case Join(left=left, right=right, predicate=predicate):
            width = len(left.schema)
            return _tested(left) | {i + width for i in _tested(right)} | columns_of(predicate)
    return set()
