"""Binding ORDER BY, LIMIT and OFFSET of a query that somebody reads."""

from __future__ import annotations

from sqlglot import exp

from tidemark.algebra.expressions import Column, Expression
from tidemark.algebra.plans import Distinct, Plan, Project, Sort, SortKey
from tidemark.sql.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.text import Source, fold


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
        descending = bool(entry.args.get("desc"))
        keys.append(SortKey(expression, descending, bool(entry.args.get("nulls_first"))))
    if hidden and isinstance(plan, Project):
        names = plan.names + tuple(f"hidden{i}" for i in range(len(hidden)))
        plan = Project(plan.input, names, plan.expressions + tuple(hidden))
    return Sort(plan, tuple(keys), _count(limit, source), _count(offset, source) or 0, visible)


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
    bound = inner.bind(node)
    if bound.type.element is not None:
        raise source.error("ordering", "arrays have no order", node)
    if bound in listed.expressions:
        return plan.column(listed.expressions.index(bound))
    if isinstance(plan, Distinct):
        raise _only_results(node, source)
    hidden.append(bound)
    return Column(len(plan.schema) + len(hidden) - 1, "hidden", bound.type, bound.nullable)


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
    return int(value.name)
