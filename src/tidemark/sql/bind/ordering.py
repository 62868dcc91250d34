"""Binding ORDER BY, LIMIT and OFFSET of a query that somebody reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from tidemark.algebra.expressions import Call, Column, Expression, Literal
from tidemark.algebra.plans import Distinct, Filter, Plan, Project, Sort, SortKey, Window, WindowCall
from tidemark.algebra.types import BIGINT, BOOLEAN
from tidemark.algebra.windows import WindowFunction
from tidemark.sql.bind.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.bind.parameters import has_subquery
from tidemark.sql.bind.windows import attached, computed
from tidemark.sql.functions.arrays import refuse_array
from tidemark.sql.parse.text import Source, fold

_ALL: Final = 2**61
"""More rows than there are anywhere; that of LIMIT and that of OFFSET can be added."""


def bind_order(node: exp.Expr, plan: Plan, inner: ExpressionBinder | None, source: Source) -> Plan:
    """The plan in the asked order. Keys name result columns, by position or name, or else columns below the select
    list (``inner``), which are then carried along and dropped at the end."""
    order, limit, offset = (node.args.get(part) for part in ("order", "limit", "offset"))
    if order is None and limit is None and offset is None:
        return plan
    visible = len(plan.schema)
    listed = plan.input if isinstance(plan, Distinct) else plan
    hidden: list[Expression] = []
    keys = []
    for entry in order.expressions if order is not None else ():
        if not isinstance(entry, exp.Ordered):
            raise source.error("unsupported", "this ORDER BY is not supported", entry)
        refuse_other_parts(entry, ("this", "desc", "nulls_first"), source)
        expression = _key(entry.this, plan, listed, inner, hidden, source)
        refuse_array(expression, entry.this, source)
        descending = bool(entry.args.get("desc"))
        keys.append(SortKey(expression, descending, bool(entry.args.get("nulls_first"))))
    if hidden and isinstance(plan, Project):
        names = plan.names + tuple(f"hidden{i}" for i in range(len(hidden)))
        below, cells = attached(plan.input, tuple(hidden))
        plan = Project(below, names, plan.expressions + cells)
    return Sort(plan, tuple(keys), _count(limit, source), _count(offset, source) or 0, visible)


def bind_distinct_on(
    node: exp.Select, plan: Project, inner: ExpressionBinder, source: Source, *, outermost: bool
) -> Plan:
    """DISTINCT ON (a, b): of the rows with equal a and b the first in the order, which begins with them.

    Those are the rows with number 1 of their partition; where the order leaves ties, all columns decide.
    """
    on = node.args["distinct"].args["on"]
    distinct = tuple(_entry(part, plan, inner, source) for part in _listed(on))
    order = node.args.get("order")
    keys = []
    for entry in order.expressions if order is not None else ():
        refuse_other_parts(entry, ("this", "desc", "nulls_first"), source)
        bound = _entry(entry.this, plan, inner, source)
        refuse_array(bound, entry.this, source)
        keys.append(SortKey(bound, bool(entry.args.get("desc")), bool(entry.args.get("nulls_first"))))
    first = {key.expression for key in keys[: len(set(distinct))]}
    if keys and not first <= set(distinct):
        raise source.error(
            "ordering", "ORDER BY must begin with the expressions of DISTINCT ON", order, hint="as PostgreSQL asks for"
        )
    width = len(plan.schema)
    below, cells = attached(plan.input, (*distinct, *(key.expression for key in keys)))
    hidden = tuple(f"hidden{i}" for i in range(len(cells)))
    wide = Project(below, plan.names + hidden, plan.expressions + cells)
    partition = wide.columns()[width : width + len(distinct)]
    columns = wide.columns()[width + len(distinct) :]
    sorting = tuple(SortKey(c, k.descending, k.nulls_first) for c, k in zip(columns, keys, strict=True))
    numbered = Window(wide, ("number",), partition, sorting, (WindowCall(WindowFunction.ROW_NUMBER),))
    number = numbered.column(len(wide.schema))
    chosen = Filter(numbered, Call("eq", (number, Literal(1, BIGINT)), BOOLEAN, nullable=False))
    limit, offset = _count(node.args.get("limit"), source), _count(node.args.get("offset"), source) or 0
    if limit is None and not offset and not (outermost and sorting):
        return Project(chosen, plan.names, chosen.columns()[:width])
    return Sort(chosen, sorting, limit, offset, width)


def _listed(node: exp.Expr) -> list[exp.Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _entry(node: exp.Expr, plan: Project, inner: ExpressionBinder, source: Source) -> Expression:
    """A result column by position or name, or an expression below the select list."""
    if isinstance(node, exp.Paren):
        return _entry(node.this, plan, inner, source)
    if isinstance(node, exp.Literal) and node.name.isdigit() and 1 <= int(node.name) <= len(plan.schema):
        return plan.expressions[int(node.name) - 1]
    if isinstance(node, exp.Column) and node.args.get("table") is None and fold(node.this) in plan.names:
        return plan.expressions[plan.names.index(fold(node.this))]
    bound = computed(plan.input, inner.bind(node))
    if has_subquery(bound):
        raise source.error("unsupported", "a subquery cannot stand here", node, hint="select it, and use its name")
    return bound


def _key(
    node: exp.Expr, plan: Plan, listed: Plan, inner: ExpressionBinder | None, hidden: list[Expression], source: Source
) -> Expression:
    if isinstance(node, exp.Literal) and not node.is_string:
        position = int(node.name) if node.name.isdigit() else 0
        if not 1 <= position <= len(plan.schema):
            raise source.error("ordering", f"ORDER BY {node.name} names no result column", node)
        return plan.column(position - 1)
    if isinstance(node, exp.Column) and node.args.get("table") is None:
        positions = [i for i, name in enumerate(plan.schema.names) if name == fold(node.this)]
        if len(positions) == 1:
            return plan.column(positions[0])
        if len(positions) > 1:
            raise source.error("ambiguous_name", f"ORDER BY {fold(node.this)!r} is ambiguous", node)
    if inner is None or not isinstance(listed, Project):
        raise _only_results(node, source)
    bound = computed(listed.input, _naming_results(inner, listed).bind(node))
    if has_subquery(bound):
        raise source.error(
            "unsupported", "a subquery in ORDER BY is not supported", node, hint="select it, and order by its name"
        )
    if bound in listed.expressions:
        return plan.column(listed.expressions.index(bound))
    if isinstance(plan, Distinct):
        raise _only_results(node, source)
    hidden.append(bound)
    return Column(len(plan.schema) + len(hidden) - 1, "hidden", bound.type, bound.nullable)


def _naming_results(inner: ExpressionBinder, listed: Project) -> ExpressionBinder:
    """The binder, for which a name that means nothing below the select list means the result column of that name."""

    def result(node: exp.Expr) -> Expression | None:
        if not isinstance(node, exp.Column) or node.args.get("table") is not None or inner.scope.sees(node):
            return None
        places = [place for place, name in enumerate(listed.names) if name == fold(node.this)]
        return listed.expressions[places[0]] if len(places) == 1 else None

    def hook(node: exp.Expr) -> Expression | None:
        found = result(node)
        if found is not None or inner.hook is None:
            return found
        # What a result column stands in is no expression of what is below, and is bound part by part.
        is_mixed = any(result(column) is not None for column in node.find_all(exp.Column))
        return None if is_mixed else inner.hook(node)

    return replace(inner, hook=hook)


def _only_results(node: exp.Expr, source: Source) -> Exception:
    return source.error(
        "ordering", "here ORDER BY can name result columns only", node, hint="add the column to the select list"
    )


def _count(node: exp.Expr | None, source: Source) -> int | None:
    if node is None:
        return None
    refuse_other_parts(node, ("expression",), source)
    value = node.args.get("expression")
    if not isinstance(value, exp.Literal) or not value.name.isdigit():
        raise source.error("unsupported", "LIMIT and OFFSET take a literal number", node)
    count = int(value.name)
    if count >= 2**63:
        raise source.error("overflow", f"{count} is out of range for BIGINT", node)
    return min(count, _ALL)
