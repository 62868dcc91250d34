"""Binding GROUP BY: keys, aggregates, and the rule that everything else must be made of them."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.expressions import Column, Expression, FieldOf, columns_of
from tidemark.algebra.plans import AggregateCall, Plan
from tidemark.algebra.types import Kind
from tidemark.errors import TidemarkError
from tidemark.sql.aggregates import bind_aggregate, find_aggregate, is_aggregate
from tidemark.sql.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.groupingsets import GroupingSets, sets_of
from tidemark.sql.lowering import attached, filtered
from tidemark.sql.parameters import Parameter, has_subquery, parameters_in
from tidemark.sql.scope import Scope
from tidemark.sql.selectlist import Item, output_name, star_of
from tidemark.sql.text import Source, fold
from tidemark.sql.windows import Windows, refuse_windows, windowed


def is_grouped(node: exp.Select) -> bool:
    """Whether the query has GROUP BY, HAVING or an aggregate in its select list."""
    if node.args.get("group") is not None or node.args.get("having") is not None:
        return True
    return any(_aggregates_in(entry) for entry in node.expressions)


def _aggregates_in(entry: exp.Expr) -> bool:
    return find_aggregate(entry) is not None


def no_aggregates(node: exp.Expr, where: str, source: Source) -> None:
    """Refuse an aggregate or a window function in a clause that is evaluated before rows are grouped."""
    found = find_aggregate(node)
    if found is not None:
        raise source.error("grouping", f"an aggregate cannot stand in {where}", found, hint="use HAVING")
    refuse_windows(node, where, source)


class GroupBinder:
    """Collects the aggregates of one grouped query and binds expressions over keys and aggregates.

    The grouping's columns are the keys, then the number of the grouping set if there are several, then the calls.
    """

    def __init__(self, inner: ExpressionBinder, sets: GroupingSets, names: tuple[str, ...], windows: Windows) -> None:
        self.source, self.sets, self.keys, self.names = inner.source, sets, sets.keys, names
        self.aggregates: list[AggregateCall] = []
        self._inner = inner
        self.outer = windowed(replace(inner, hook=self._hook), windows)

    def _hook(self, node: exp.Expr) -> Expression | None:
        """An aggregate or a grouping key as a column of the grouping; a bare column that is neither is refused."""
        if isinstance(node, exp.Grouping):
            return self._grouping(node)
        if is_aggregate(node):
            return bind_aggregate(node, self._inner, self._call)
        if _aggregates_in(node) or isinstance(node, exp.Literal | exp.Null | exp.Boolean):
            return None
        if node.find(exp.Query) is not None and not any(map(has_subquery, self.keys)):
            return None
        bound = self._inner.bind(node)
        if isinstance(bound, Parameter):
            return bound
        if bound in self.keys:
            position = self.keys.index(bound)
            return Column(position, self.names[position], bound.type, bound.nullable or self.sets.are_several)
        if isinstance(node, exp.Column) and not isinstance(bound, FieldOf):  # of a field, the struct is looked at
            raise self.source.error(
                "grouping",
                f"the column {fold(node.this)!r} is neither grouped nor aggregated",
                node,
                hint="add it to GROUP BY, or use it inside an aggregate",
            )
        return None

    def _grouping(self, node: exp.Grouping) -> Expression:
        """GROUPING(a, b): a bit for each argument that the row's grouping set leaves out, the last one lowest."""
        refuse_other_parts(node, ("expressions",), self.source)
        positions = []
        for part in node.expressions:
            bound = self._inner.bind(part)
            if bound not in self.keys:
                raise self.source.error("grouping", "GROUPING takes expressions of GROUP BY", part)
            positions.append(self.keys.index(bound))
        return self.sets.grouping(tuple(positions))

    def _call(self, call: AggregateCall) -> Column:
        """The column in which the grouping gives a call; equal calls are one."""
        if call.argument is not None and parameters_in(call.argument) and not columns_of(call.argument):
            name = call.function.value.upper()
            message = f"{name} of outer columns alone belongs to the query around, which is not supported"
            raise TidemarkError("unsupported", message, hint="aggregate in the outer query itself")
        if call not in self.aggregates:
            self.aggregates.append(call)
        position = self.sets.width + self.aggregates.index(call)
        return Column(position, call.function.value, call.type, call.nullable)


def bind_grouped(node: exp.Select, plan: Plan, inner: ExpressionBinder) -> tuple[Plan, list[Item], ExpressionBinder]:
    """The grouping, the select list over it, and a binder for ORDER BY."""
    source = inner.source
    sets = _grouping_sets(node, inner)
    names = tuple(f"key{i + 1}" if not isinstance(k, Column) else k.name for i, k in enumerate(sets.keys))
    groups = GroupBinder(inner, sets, names, tuple(node.args.get("windows") or ()))
    items = []
    for position, entry in enumerate(node.expressions):
        if star_of(entry) is not None:
            raise source.error(
                "grouping", "* cannot stand beside GROUP BY or aggregates", entry, hint="name the columns"
            )
        items.append(Item(output_name(entry, position), entry, groups.outer.bind(entry.unalias())))
    having = node.args.get("having")
    condition = None if having is None else groups.outer.condition(having.this, "HAVING")
    order = node.args.get("order")
    if order is not None:  # so that aggregates that only ORDER BY names are computed too
        for key in order.expressions:
            if _aggregates_in(key.this):
                groups.outer.bind(key.this)
    plan, keys, calls = _without_subqueries(plan, sets.keys, tuple(groups.aggregates))
    result = replace(sets, keys=keys).grouped(plan, names, calls)
    return (result if condition is None else filtered(result, condition)), items, groups.outer


def _without_subqueries(
    plan: Plan, keys: tuple[Expression, ...], calls: tuple[AggregateCall, ...]
) -> tuple[Plan, tuple[Expression, ...], tuple[AggregateCall, ...]]:
    """Subqueries in keys and arguments as columns of the plan below."""
    read = tuple(part for call in calls for part in call.expressions())
    plan, cells = attached(plan, keys + read)
    rest = iter(cells[len(keys) :])
    changed = tuple(call.with_expressions(tuple(next(rest) for _ in call.expressions())) for call in calls)
    return plan, cells[: len(keys)], changed


def _grouping_sets(node: exp.Select, binder: ExpressionBinder) -> GroupingSets:
    scope, source = binder.scope, binder.source
    group = node.args.get("group")
    if group is None:
        return GroupingSets((), ((),))
    refuse_other_parts(group, ("expressions",), source)
    keys: list[Expression] = []

    def position(entry: exp.Expr) -> int:
        chosen = _chosen(entry, node, scope, source)
        found = find_aggregate(chosen)
        if found is not None:
            raise source.error("grouping", "an aggregate cannot stand in GROUP BY", found)
        bound = binder.bind(chosen)
        if bound.type.kind is Kind.NULL:
            raise source.error("type", "NULL cannot be a grouping key", entry)
        if bound not in keys:
            keys.append(bound)
        return keys.index(bound)

    sets = sets_of(group.expressions, position, source)
    return GroupingSets(tuple(keys), sets)


def _chosen(entry: exp.Expr, node: exp.Select, scope: Scope, source: Source) -> exp.Expr:
    """GROUP BY 1 and GROUP BY alias mean an entry of the select list; a column of FROM goes before an alias."""
    if isinstance(entry, exp.Literal) and not entry.is_string:
        position = int(entry.name) if entry.name.isdigit() else 0
        if not 1 <= position <= len(node.expressions):
            raise source.error("grouping", f"GROUP BY {entry.name} names no entry of the select list", entry)
        chosen: exp.Expr = node.expressions[position - 1].unalias()
        return chosen
    if isinstance(entry, exp.Column) and entry.args.get("table") is None:
        name = fold(entry.this)
        if not any(visible.name == name for visible in scope.listed):
            for candidate in node.expressions:
                if isinstance(candidate, exp.Alias) and fold(candidate.args["alias"]) == name:
                    aliased: exp.Expr = candidate.this
                    return aliased
    return entry
