"""Pulling: a subquery Q(p) with parameters as a plan without any, and conditions above it that read them.

``pull(Q)`` gives a plan P, conditions c and outputs o with Q(p) = π[o(p)] σ[c(p)] P for every p. Conditions rise
through filters, projections and joins. Through ⊎, δ and γ rise equalities only: for one p the column that equals it
has one value, so that grouping by it as well changes nothing. What cannot be pulled has a domain (``domains.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Expression,
    Literal,
    columns_of,
    conjunction,
    conjuncts,
    shift,
    substitute,
)
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Filter,
    Join,
    Negate,
    Plan,
    Project,
    Union,
)
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.semijoins import EQUALITIES, filtered_by
from tidemark.algebra.types import BOOLEAN, INT
from tidemark.sql.bind.parameters import change_call, parameters_in, parameters_of

Cells = tuple[Expression, ...]


@dataclass(frozen=True)
class Pulled:
    """Q(p) = π[outputs] σ[conditions] plan. Only conditions and outputs read parameters."""

    plan: Plan
    conditions: Cells
    outputs: Cells

    def links(self) -> tuple[Link, ...] | None:
        """The conditions as equalities between parameters and columns, or None if one is something else."""
        found = [link_of(condition) for condition in self.conditions]
        links = tuple(link for link in found if link is not None)
        return links if len(links) == len(found) else None


@dataclass(frozen=True)
class Link:
    """An equality of an expression of parameters and one of the plan's columns."""

    function: str
    outer: Expression
    inner: Expression
    nullable: bool

    def on(self, column: Expression) -> Expression:
        return Call(self.function, (self.outer, column), BOOLEAN, self.nullable)


def link_of(condition: Expression) -> Link | None:
    if not isinstance(condition, Call) or condition.function not in EQUALITIES or can_fail(condition):
        return None
    one, other = condition.arguments
    for outer, inner in ((one, other), (other, one)):
        if parameters_in(outer) and not columns_of(outer) and columns_of(inner) and not parameters_in(inner):
            return Link(condition.function, outer, inner, condition.nullable)
    return None


def pull(plan: Plan) -> Pulled | None:
    """Q as a plan without parameters, and what reads them above it; None if that is not possible."""
    if not parameters_of(plan):
        return Pulled(plan, (), plan.columns())
    match plan:
        case Filter(input=source, predicate=predicate):
            base = pull(source)
            return None if base is None else _with_conditions(base, conjuncts(predicate))
        case Project(input=source, expressions=expressions):
            base = pull(source)
            if base is None:
                return None
            return replace(base, outputs=tuple(substitute(e, base.outputs) for e in expressions))
        case Join(left=left, right=right, predicate=predicate):
            one, other = pull(left), pull(right)
            return None if one is None or other is None else _joined(one, other, conjuncts(predicate))
        case Negate(input=source):
            base = pull(source)
            return None if base is None else replace(base, plan=Negate(base.plan))
        case Distinct(input=source):
            return _distinct(pull(source))
        case Union(parts=parts):
            return _union(tuple(pull(part) for part in parts))
        case Aggregate(input=source) if plan.keys:
            return _grouped(plan, pull(source))
    return None


def _with_conditions(base: Pulled, conditions: Cells) -> Pulled:
    """What reads no parameter and cannot fail filters the plan; everything else rises."""
    bound = tuple(substitute(c, base.outputs) for c in conditions)
    rising = tuple(c for c in bound if parameters_in(c) or can_fail(c))
    staying = tuple(c for c in bound if c not in rising and c != TRUE)
    plan = base.plan
    if isinstance(plan, Join) and staying:
        own = tuple(c for c in conjuncts(plan.predicate) if c != TRUE)
        plan = replace(plan, predicate=conjunction(own + staying))
    else:
        plan = filtered_by(plan, staying)
    return replace(base, plan=plan, conditions=base.conditions + rising)


def _joined(left: Pulled, right: Pulled, conditions: Cells) -> Pulled:
    width = len(left.plan.schema)
    both = Pulled(
        Join(left.plan, right.plan, TRUE),
        left.conditions + tuple(shift(c, width) for c in right.conditions),
        left.outputs + tuple(shift(e, width) for e in right.outputs),
    )
    return _with_conditions(both, conditions)


def _distinct(base: Pulled | None) -> Pulled | None:
    links = None if base is None else base.links()
    if base is None or links is None or not _settled(base.outputs):
        return None
    return _over_links(lambda: Distinct(_listed(base, links)), base.outputs, links)


def _union(parts: tuple[Pulled | None, ...]) -> Pulled | None:
    bases = [part for part in parts if part is not None]
    links = [links for links in (base.links() for base in bases) if links is not None]
    if len(bases) < len(parts) or len(links) < len(parts) or not all(_settled(base.outputs) for base in bases):
        return None
    if len({tuple((link.function, link.outer) for link in part) for part in links}) > 1:
        return None
    listed = tuple(_listed(base, part) for base, part in zip(bases, links, strict=True))
    return _over_links(lambda: Union(listed), bases[0].outputs, links[0])


def _grouped(plan: Aggregate, base: Pulled | None) -> Pulled | None:
    grouped = None if base is None else grouped_by_links(plan, base)
    if grouped is None:
        return None
    result, links = grouped
    keys = len(plan.keys)
    columns = result.columns()
    placed = tuple(columns[:keys]) + tuple(columns[keys + len(links) :])
    conditions = tuple(link.on(columns[keys + i]) for i, link in enumerate(links))
    return Pulled(result, conditions, placed)


def grouped_by_links(plan: Aggregate, base: Pulled) -> tuple[Aggregate, tuple[Link, ...]] | None:
    """γ grouped by its own keys, then by the columns that equal parameters; None if other conditions decide, or if
    an expression that can fail would see rows that no parameter asks for."""
    links = base.links()
    keys = tuple(substitute(key, base.outputs) for key in plan.keys)
    calls = tuple(change_call(call, lambda e: substitute(e, base.outputs)) for call in plan.aggregates)
    if links is None or not _settled(keys + tuple(part for call in calls for part in call.expressions())):
        return None
    count = len(plan.keys)
    names = plan.names[:count] + tuple(f"p{i}" for i in range(len(links))) + plan.names[count:]
    return Aggregate(base.plan, names, keys + tuple(link.inner for link in links), calls), links


def _settled(cells: Cells) -> bool:
    return not any(parameters_in(cell) or can_fail(cell) for cell in cells)


def _listed(base: Pulled, links: tuple[Link, ...]) -> Plan:
    cells = base.outputs + tuple(link.inner for link in links)
    return Project(base.plan, tuple(f"c{i}" for i in range(len(cells))), cells)


def _over_links(make: Callable[[], Plan], outputs: Cells, links: tuple[Link, ...]) -> Pulled:
    plan = make()
    columns = plan.columns()
    conditions = tuple(link.on(columns[len(outputs) + i]) for i, link in enumerate(links))
    return Pulled(plan, conditions, tuple(columns[: len(outputs)]))


def with_asked_groups(groups: Aggregate, links: tuple[Link, ...], asked: Plan) -> Aggregate:
    """γ with a group for each asked value too: γ[k; f](E ⊎ asked × NULLs), where f counts no NULL.

    Rows of E whose value '=' cannot find, because it is NULL, are left out, since groups are found NULL by NULL.
    """
    keys = groups.keys
    arguments = tuple(call.argument or Literal(1, INT) for call in groups.aggregates)
    present = tuple(
        Call("is_not_null", (key,), BOOLEAN, nullable=False)
        for key, link in zip(keys, links, strict=True)
        if link.function == "eq" and key.nullable
    )
    names = tuple(f"k{i}" for i in range(len(keys))) + tuple(f"a{i}" for i in range(len(arguments)))
    rows = Project(filtered_by(groups.input, present), names, keys + arguments)
    nothing = tuple(Literal(None, argument.type) for argument in arguments)
    source = Union((rows, Project(asked, names, (*asked.columns(), *nothing))))
    columns = source.columns()
    calls = tuple(
        AggregateCall(AggregateFunction.COUNT, column) if call.argument is None else replace(call, argument=column)
        for call, column in zip(groups.aggregates, columns[len(keys) :], strict=True)
    )
    return Aggregate(source, groups.names, columns[: len(keys)], calls)
