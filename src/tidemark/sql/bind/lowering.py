"""Lowering: subqueries inside expressions become joins of the plan whose rows the expressions read.

- EXISTS and IN as a conjunct of a condition are semi joins, NOT EXISTS and NOT IN anti joins (``semijoins.py``).
- Elsewhere they are a column, the *mark*: true for rows of the semi join, false for those of the anti join.
- A comparison with ANY row is true if it is true for some row, else NULL if it is unknown for some, else false: two
  marks. A comparison is unknown when either side is NULL; where neither can be, the second mark is not needed.
- A scalar subquery is a column: its value for the row's arguments, NULL if it has no row, an error if it has several.

Conditions with quantifiers: conjuncts behind NOT; when a comparison with ANY row is true, and when NULL.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Case,
    Column,
    Expression,
    Literal,
    columns_in,
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
    Plan,
    Project,
    Values,
)
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.semijoins import Match, distinct_of, filtered_by, first_columns, same, with_cells
from tidemark.algebra.types import BOOLEAN, Schema
from tidemark.sql.bind.domains import dependent, with_empty_groups
from tidemark.sql.bind.parameters import (
    AnyRow,
    Exists,
    Parameter,
    Scalar,
    change_parameters,
    has_subquery,
    parameters_in,
    parameters_of,
    with_arguments,
)
from tidemark.sql.bind.pull import Pulled, grouped_by_links, pull, with_asked_groups


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


FALSE = Literal(False, BOOLEAN)


def filtered(plan: Plan, condition: Expression) -> Plan:
    """The rows of the plan for which a condition, perhaps with subqueries, is true."""
    parts = conditions_of(condition)
    schema = plan.schema
    plan = base = filtered_by(plan, tuple(part for part in parts if not has_subquery(part)))
    for part in parts:
        if not has_subquery(part):
            continue
        negated = isinstance(part, Call) and part.function == "not"
        core = part.children()[0] if negated else part
        if isinstance(core, Exists | AnyRow) and not any(map(has_subquery, core.children())):
            plan = _decided(plan, core, base, negated=negated)
        else:
            wider, (lowered,) = attached(plan, (part,), base)
            plan = Filter(wider, lowered)
        plan = plan if plan.schema == schema else first_columns(plan, schema)
    return plan


def attached(
    plan: Plan, expressions: tuple[Expression, ...], base: Plan | None = None
) -> tuple[Plan, tuple[Expression, ...]]:
    """The plan with columns for each subquery behind its own columns, and the expressions over it."""
    lowering = _Lowering(plan, plan if base is None else base)
    lowered = tuple(lowering.lower(expression) for expression in expressions)
    return lowering.plan, lowered


def lateral(left: Plan, right: Plan, arguments: tuple[Expression, ...]) -> Plan:
    """The pairs of a row of the left plan and a row of the right one for its arguments."""
    width = len(left.schema)
    names = left.schema.names + right.schema.names
    left_wide, arguments = _as_columns(left, arguments)
    pulled = pull(right)
    if pulled is not None:
        match, outputs = _matching(left_wide, pulled, arguments)
        return Project(match.pairs, names, match.pairs.columns()[:width] + outputs)
    domain, columns, renumbered = _domain(left_wide, right, arguments)
    rows = dependent(renumbered, domain)
    pairs = Join(left_wide, rows, same(columns, rows, len(left_wide.schema)))
    return Project(pairs, names, pairs.columns()[:width] + pairs.columns()[len(left_wide.schema) + len(columns) :])


def _decided(plan: Plan, node: Exists | AnyRow, base: Plan, *, negated: bool) -> Plan:
    """The rows for which EXISTS or ANY is true, or for which NOT of it is."""
    if isinstance(node, AnyRow):
        first, others = match_of(node), unknown_of(node) if negated else ()
        plan = _decided(plan, first, base, negated=negated)
        for other in others:
            plan = _decided(plan, other, base, negated=True)
        return plan
    schema = plan.schema
    match = _exists(plan, node, base)
    result = match.anti if negated else match.semi
    return result if result.schema == schema else first_columns(result, schema)


class _Lowering:
    """Adds columns to a plan; equal subqueries are added once. Values for subqueries are taken from the plan as it was
    at first, so that each further subquery adds one join and does not repeat those before it."""

    def __init__(self, plan: Plan, base: Plan) -> None:
        self.plan, self._base = plan, base
        self._known: dict[Expression, Expression] = {}

    def lower(self, expression: Expression) -> Expression:
        if not has_subquery(expression):
            return expression
        if expression in self._known:
            return self._known[expression]
        children = tuple(self.lower(child) for child in expression.children())
        result = expression.with_children(children) if children else expression
        match result:
            case Exists():
                result = self._mark(result)
            case AnyRow():
                result = self._any(result)
            case Scalar():
                result = self._scalar(result)
        self._known[expression] = result
        return result

    def _mark(self, node: Exists) -> Expression:
        self.plan, mark = _exists(self.plan, node, self._base).mark()
        return mark

    def _any(self, node: AnyRow) -> Expression:
        found = self._mark(match_of(node))
        unknown = [self._mark(other) for other in unknown_of(node)]
        if not unknown:
            return found
        either = unknown[0]
        for other in unknown[1:]:
            either = Call("or", (either, other), BOOLEAN, nullable=False)
        return Case(((found, TRUE), (either, Literal(None, BOOLEAN))), FALSE, BOOLEAN)

    def _scalar(self, node: Scalar) -> Expression:
        arguments = node.arguments
        if not any(columns_of(arguments[i]) for i in parameters_of(node.plan)):
            # The same value for all rows, though perhaps not for all rows of a query further out.
            plan = change_parameters(node.plan, lambda p: arguments[p.index])
            self.plan = Join(self.plan, plan if _has_one_row(plan) else _single(plan, ()), TRUE)
            return self.plan.column(len(self.plan.schema) - 1)
        found = self._grouped(node.plan, node.arguments)
        if found is not None:
            return found
        domain, columns, renumbered = _domain(self._base_for(node.arguments), node.plan, node.arguments)
        rows = dependent(renumbered, domain)
        if not _has_one_row(node.plan):
            rows = with_empty_groups(_single(rows, tuple(rows.columns()[: len(columns)])), domain)
        self.plan = Join(self.plan, rows, same(columns, rows, len(self.plan.schema)))
        return self.plan.column(len(self.plan.schema) - 1)

    def _base_for(self, arguments: tuple[Expression, ...]) -> Plan:
        width = len(self._base.schema)
        return self._base if all(i < width for e in arguments for i in columns_of(e)) else self.plan

    def _grouped(self, plan: Plan, arguments: tuple[Expression, ...]) -> Expression | None:
        """A total whose rows are picked by equalities: one group for each value that the equalities ask for.

        The values of the left side themselves are in the groups, as rows that no aggregate counts, so that a value
        without any other row gives the total of nothing.
        """
        above, total = _path(plan)
        base = None if total is None else pull(total.input)
        if base is not None:
            base = _with_constants(base, arguments)
        grouped = None if total is None or base is None else grouped_by_links(total, base)
        # Where rows whose argument is NULL count, none can be added for a group that would be missing.
        if grouped is None or not grouped[1] or any(c.row.sees_nulls or c.order for c in grouped[0].aggregates):
            return None
        outer = tuple(with_arguments(link.outer, arguments) for link in grouped[1])
        groups = with_asked_groups(*grouped, distinct_of(self._base_for(outer), outer))
        width = len(self.plan.schema)
        self.plan = Join(self.plan, groups, same(outer, groups, width))
        cells: tuple[Expression, ...] = tuple(self.plan.columns()[width + len(outer) :])
        conditions: list[Expression] = []
        for step in reversed(above):
            if isinstance(step, Project):
                cells = tuple(with_arguments(substitute(e, cells), arguments) for e in step.expressions)
            elif isinstance(step, Filter):
                conditions.append(with_arguments(substitute(step.predicate, cells), arguments))
        if not conditions:
            return cells[0]
        return Case(((conjunction(tuple(conditions)), cells[0]),), Literal(None, cells[0].type), cells[0].type)


def _with_constants(base: Pulled, arguments: tuple[Expression, ...]) -> Pulled:
    """The conditions that read no column of the left side stay below: they are the same for all its rows."""
    constant = tuple(
        c for c in base.conditions if not any(columns_of(arguments[i]) for i in parameters_in(c)) and not can_fail(c)
    )
    rest = tuple(c for c in base.conditions if c not in constant)
    plan = filtered_by(base.plan, tuple(with_arguments(c, arguments) for c in constant))
    return replace(base, plan=plan, conditions=rest)


def _exists(plan: Plan, node: Exists, base: Plan) -> Match:
    """The rows of the plan beside the rows of the subquery that they find."""
    source = _without_list(node.plan)
    left, arguments = _as_columns(plan, node.arguments, parameters_of(source))
    pulled = pull(source)
    if pulled is not None:
        return _matching(left, pulled, arguments, base)[0]
    read = columns_in(arguments)
    domain, columns, renumbered = _domain(base if all(i < len(base.schema) for i in read) else left, source, arguments)
    rows = dependent(renumbered, domain)
    found = distinct_of(rows, tuple(rows.columns()[: len(columns)]))
    return Match.of(left, found, conjuncts(same(columns, found, len(left.schema))), base)


def _without_list(plan: Plan) -> Plan:
    """A plan that has a row when the given one has, without what does not matter for that."""
    match plan:
        case Project(input=source) | Distinct(input=source):
            return _without_list(source)
        case Aggregate(input=source, keys=keys):
            return _without_list(source) if keys else Values(((),), Schema(()))
    return plan


def _matching(
    left: Plan, pulled: Pulled, arguments: tuple[Expression, ...], base: Plan | None = None
) -> tuple[Match, tuple[Expression, ...]]:
    """The match of the left plan's rows with a pulled subquery's, and the subquery's outputs over the pairs."""
    width = len(left.schema)

    def placed(expression: Expression) -> Expression:
        return with_arguments(shift(expression, width), arguments)

    match = Match.of(left, pulled.plan, tuple(map(placed, pulled.conditions)), base)
    return match, tuple(map(placed, pulled.outputs))


def _as_columns(
    plan: Plan, arguments: tuple[Expression, ...], used: frozenset[int] | None = None
) -> tuple[Plan, tuple[Expression, ...]]:
    """The plan with a column for each argument that has to be computed; the arguments as columns or constants."""
    wanted = range(len(arguments)) if used is None else used
    plain = (Column, Parameter, Literal)
    added = tuple(dict.fromkeys(arguments[i] for i in wanted if not isinstance(arguments[i], plain)))
    if not added:
        return plan, arguments
    wider = with_cells(plan, plan.schema, added)
    places = {cell: wider.column(len(plan.schema) + i) for i, cell in enumerate(added)}
    return wider, tuple(places.get(argument, argument) for argument in arguments)


def _domain(base: Plan, plan: Plan, arguments: tuple[Expression, ...]) -> tuple[Plan, tuple[Expression, ...], Plan]:
    """D with the values of the arguments that the subquery uses, these arguments, and the subquery over them."""
    used = sorted(parameters_of(plan))
    columns = tuple(arguments[i] for i in used)
    renumbered = change_parameters(plan, lambda p: replace(p, index=used.index(p.index)))
    return distinct_of(base, columns), columns, renumbered


def _has_one_row(plan: Plan) -> bool:
    """Whether the plan is a total, which always has one row."""
    while isinstance(plan, Project):
        plan = plan.input
    return isinstance(plan, Aggregate) and not plan.keys


def _single(plan: Plan, keys: tuple[Column, ...]) -> Aggregate:
    """The last column of the one row of each group; several rows are an error."""
    value = plan.column(len(plan.schema) - 1)
    names = (*(key.name for key in keys), value.name)
    return Aggregate(plan, names, keys, (AggregateCall(AggregateFunction.SINGLE, value),))


def _path(plan: Plan) -> tuple[list[Plan], Aggregate | None]:
    """The projections and filters above a total, from the top down, and the total."""
    above: list[Plan] = []
    while isinstance(plan, Project | Filter):
        above.append(plan)
        plan = plan.input
    return above, plan if isinstance(plan, Aggregate) and not plan.keys else None
