"""Decorrelation by a domain: a subquery Q(p) evaluated for all values of its parameters at once.

D has every p once, D = δ π[arguments](A). ``dependent(Q, D)`` is the relation of all (p, row of Q(p)):

    D ⋈→ Q               = D × Q                                  if Q has no parameters
    D ⋈→ σ[c(p)] Q       = σ[c(D)] (D ⋈→ Q),     π alike          p becomes a column of D
    D ⋈→ (Q ⋈ R)         = (D ⋈→ Q) ⋈[D = D] (D ⋈→ R)             one side is enough if the other has no parameters
    D ⋈→ (Q ⊎ R)         = (D ⋈→ Q) ⊎ (D ⋈→ R),  −, ∸, ∩ alike
    D ⋈→ δ Q             = δ (D ⋈→ Q)
    D ⋈→ γ[k; f] Q       = γ[D, k; f] (D ⋈→ Q) = G                if there are keys
    D ⋈→ ω[k; f] Q       = ω[D, k; f] (D ⋈→ Q),   first[n] alike, by the number of a row
    D ⋈→ γ[; f] Q        = G ⊎ (D − π[D] G) × f(∅)                COUNT of nothing is 0, other aggregates are NULL
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    conjunction,
    conjuncts,
    shift,
    substitute,
    transform,
)
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    Difference,
    Distinct,
    Filter,
    Intersection,
    Join,
    Negate,
    Plan,
    Project,
    Sort,
    SortKey,
    Union,
    Unnest,
    Window,
    WindowCall,
)
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.semijoins import filtered_by, same
from tidemark.algebra.types import BIGINT, BOOLEAN
from tidemark.algebra.windows import WindowFunction
from tidemark.sql.bind.parameters import Parameter, change_call, not_decorrelated, parameters_of


def dependent(plan: Plan, domain: Plan) -> Plan:
    """D ⋈→ Q: the columns of D, then those of Q. D is a set whose columns are the parameters in order."""
    width = len(domain.schema)

    def moved(expression: Expression) -> Expression:
        return transform(expression, lambda e: _of_domain(e, domain, width))

    if not parameters_of(plan):
        return Join(domain, plan, TRUE)
    names = domain.schema.names
    match plan:
        case Filter(input=source, predicate=predicate):
            return _narrowed(dependent(source, domain), moved(predicate))
        case Project(input=source, expressions=expressions):
            below = dependent(source, domain)
            return Project(below, names + plan.names, below.columns()[:width] + tuple(map(moved, expressions)))
        case Join():
            return _dependent_join(plan, domain, moved)
        case Unnest(input=source, array=array):
            return replace(plan, input=dependent(source, domain), array=moved(array))
        case Union(parts=parts):
            return Union(tuple(dependent(part, domain) for part in parts))
        case Difference() | Intersection() | Negate() | Distinct():
            return plan.with_inputs(tuple(dependent(child, domain) for child in plan.inputs()))
        case Aggregate(input=source, keys=keys, aggregates=aggregates):
            below = dependent(source, domain)
            calls = tuple(change_call(call, moved) for call in aggregates)
            cells = below.columns()[:width] + tuple(map(moved, keys))
            grouped = Aggregate(below, names + plan.names, cells, calls, plan.signed)
            return grouped if keys else with_empty_groups(grouped, domain)
        case Window(input=source, partition=partition, order=order, calls=window_calls):
            below = dependent(source, domain)
            by = below.columns()[:width] + tuple(below.column(part.index + width) for part in partition)
            moved_calls = tuple(call.with_arguments(tuple(map(moved, call.arguments))) for call in window_calls)
            return Window(below, plan.names, by, _moved_keys(order, moved), moved_calls)
        case Sort(input=source, keys=sort_keys):
            return _first_of_each(plan, dependent(source, domain), width, _moved_keys(sort_keys, moved))
    raise not_decorrelated(plan)


def _moved_keys(keys: tuple[SortKey, ...], moved: Callable[[Expression], Expression]) -> tuple[SortKey, ...]:
    return tuple(replace(key, expression=moved(key.expression)) for key in keys)


def _first_of_each(plan: Sort, below: Plan, width: int, keys: tuple[SortKey, ...]) -> Plan:
    """The first rows for each p, by their numbers: D ⋈→ first[n] Q = σ[number ≤ n] ω[D; number](D ⋈→ Q)."""
    call = WindowCall(WindowFunction.ROW_NUMBER)
    numbered = Window(below, ("number",), below.columns()[:width], keys, (call,))
    number = numbered.column(len(below.schema))
    conditions = [Call("gt", (number, Literal(plan.offset, BIGINT)), BOOLEAN, nullable=False)]
    if plan.limit is not None:
        last = Literal(plan.offset + plan.limit, BIGINT)
        conditions.append(Call("le", (number, last), BOOLEAN, nullable=False))
    chosen = Filter(numbered, conjunction(tuple(conditions)))
    columns = chosen.columns()[: width + len(plan.schema)]
    return Project(chosen, tuple(column.name for column in columns), columns)


def _of_domain(expression: Expression, domain: Plan, width: int) -> Expression | None:
    if isinstance(expression, Parameter):
        return domain.column(expression.index)
    return shift(expression, width) if isinstance(expression, Column) else None


def _narrowed(plan: Plan, predicate: Expression) -> Plan:
    """σ[predicate], in the join itself if it is over one."""
    parts = tuple(part for part in conjuncts(predicate) if part != TRUE)
    if isinstance(plan, Join) and not any(map(can_fail, parts)):
        own = tuple(part for part in conjuncts(plan.predicate) if part != TRUE)
        return replace(plan, predicate=conjunction(own + parts))
    return filtered_by(plan, parts)


def _dependent_join(plan: Join, domain: Plan, moved: Callable[[Expression], Expression]) -> Plan:
    width, left = len(domain.schema), len(plan.left.schema)
    predicate = moved(plan.predicate)
    if not parameters_of(plan.right):
        return _narrowed(Join(dependent(plan.left, domain), plan.right, TRUE), predicate)
    right = dependent(plan.right, domain)
    names = domain.schema.names + plan.schema.names
    if not parameters_of(plan.left):
        both = Join(plan.left, right, TRUE)
        columns = both.columns()
        cells = columns[left : left + width] + columns[:left] + columns[left + width :]
    else:
        first = dependent(plan.left, domain)
        both = Join(first, right, same(first.columns()[:width], right, width + left))
        columns = both.columns()
        cells = columns[: width + left] + columns[width + left + width :]
    return filtered_by_columns(both, names, cells, predicate)


def filtered_by_columns(plan: Join, names: tuple[str, ...], cells: tuple[Column, ...], predicate: Expression) -> Plan:
    """π[cells] of the join, narrowed by a predicate over those cells."""
    return Project(_narrowed(plan, substitute(predicate, cells)), names, cells)


def with_empty_groups(grouped: Aggregate, domain: Plan) -> Plan:
    """G ⊎ (D − π[D] G) × f(∅)."""
    width = len(domain.schema)
    there = Project(grouped, domain.schema.names, grouped.columns()[:width])
    missing = Union((domain, Negate(there)))
    cells = missing.columns() + tuple(map(of_nothing, grouped.aggregates))
    return Union((grouped, Project(missing, grouped.names, cells)))


def of_nothing(call: AggregateCall) -> Literal:
    """The aggregate over no rows."""
    return Literal(call.row.empty, call.type)
