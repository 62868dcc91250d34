"""Binding GROUP BY: keys, aggregates, and the rule that everything else must be made of them."""

from __future__ import annotations

from sqlglot import exp

from tidemark.algebra.expressions import Column, Expression
from tidemark.algebra.plans import AggregateCall, Filter, Plan
from tidemark.algebra.types import Kind
from tidemark.sql.aggregates import bind_aggregate, find_aggregate, is_aggregate
from tidemark.sql.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.groupingsets import GroupingSets, sets_of
from tidemark.sql.scope import Scope
from tidemark.sql.selectlist import Item, output_name, star_of
from tidemark.sql.text import Source, fold
from tidemark.sql.windows import windowed


def is_grouped(node: exp.Select) -> bool:
    """Whether the query has GROUP BY, HAVING or an aggregate in its select list."""
    if node.args.get("group") is not None or node.args.get("having") is not None:
        return True
    return any(_aggregates_in(entry) for entry in node.expressions)


def _aggregates_in(entry: exp.Expr) -> bool:
    return find_aggregate(entry) is not None


class GroupBinder:
    """Collects the aggregates of one grouped query and binds expressions over keys and aggregates.

    The grouping's columns are the keys, then the number of the grouping set if there are several, then the calls.
    """

    def __init__(self, scope: Scope, source: Source, sets: GroupingSets, names: tuple[str, ...]) -> None:
        self.source, self.sets, self.keys, self.names = source, sets, sets.keys, names
        self.aggregates: list[AggregateCall] = []
        self._inner = ExpressionBinder(source, scope)
        self.outer = windowed(ExpressionBinder(source, scope, self._hook))

    def _hook(self, node: exp.Expr) -> Expression | None:
        """An aggregate or a grouping key as a column of the grouping; a bare column that is neither is refused."""
        if isinstance(node, exp.Grouping):
            return self._grouping(node)
        if is_aggregate(node):
            return bind_aggregate(node, self._inner, self._call)
        if _aggregates_in(node) or isinstance(node, exp.Literal | exp.Null | exp.Boolean):
            return None
        bound = self._inner.bind(node)
        if bound in self.keys:
            position = self.keys.index(bound)
            return Column(position, self.names[position], bound.type, bound.nullable or self.sets.are_several)
        if isinstance(node, exp.Column):
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
        if call not in self.aggregates:
            self.aggregates.append(call)
        position = self.sets.width + self.aggregates.index(call)
        return Column(position, call.function.value, call.type, call.nullable)


def bind_grouped(
    node: exp.Select, plan: Plan, scope: Scope, source: Source
) -> tuple[Plan, list[Item], ExpressionBinder]:
    """The grouping, the select list over it, and a binder for ORDER BY."""
    sets = _grouping_sets(node, scope, source)
    names = tuple(f"key{i + 1}" if not isinstance(k, Column) else k.name for i, k in enumerate(sets.keys))
    groups = GroupBinder(scope, source, sets, names)
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
    result = sets.grouped(plan, names, tuple(groups.aggregates))
    return (result if condition is None else Filter(result, condition)), items, groups.outer


def _grouping_sets(node: exp.Select, scope: Scope, source: Source) -> GroupingSets:
    group = node.args.get("group")
    if group is None:
        return GroupingSets((), ((),))
    refuse_other_parts(group, ("expressions",), source)
    keys: list[Expression] = []
    binder = ExpressionBinder(source, scope)

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
