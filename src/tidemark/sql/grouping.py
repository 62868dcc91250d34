"""Binding GROUP BY: keys, aggregates, and the rule that everything else must be made of them."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.expressions import Cast, Column, Expression, columns_of
from tidemark.algebra.plans import Aggregate, AggregateCall, AggregateFunction, Plan
from tidemark.algebra.types import BIGINT, VARCHAR, Kind
from tidemark.sql.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.lowering import attached, filtered
from tidemark.sql.parameters import Parameter, change_call, has_subquery, parameters_in
from tidemark.sql.scope import Scope
from tidemark.sql.selectlist import Item, output_name, star_of
from tidemark.sql.text import Source, fold


def is_grouped(node: exp.Select) -> bool:
    """Whether the query has GROUP BY, HAVING or an aggregate in its select list."""
    if node.args.get("group") is not None or node.args.get("having") is not None:
        return True
    return any(_aggregates_in(entry) for entry in node.expressions)


def _aggregates_in(entry: exp.Expr) -> bool:
    return _aggregate_in(entry) is not None


def _aggregate_in(entry: exp.Expr) -> exp.Expr | None:
    """The first aggregate of the query itself: those inside a subquery are the subquery's."""
    parts = entry.walk(prune=lambda part: isinstance(part, exp.Query))
    return next((part for part in parts if isinstance(part, exp.AggFunc)), None)


def no_aggregates(node: exp.Expr, where: str, source: Source) -> None:
    """Refuse an aggregate in a clause that is evaluated before rows are grouped."""
    found = _aggregate_in(node)
    if found is not None:
        raise source.error("grouping", f"an aggregate cannot stand in {where}", found, hint="use HAVING")


class GroupBinder:
    """Collects the aggregates of one grouped query and binds expressions over keys and aggregates."""

    def __init__(self, inner: ExpressionBinder, keys: tuple[Expression, ...], names: tuple[str, ...]) -> None:
        self.source, self.keys, self.names = inner.source, keys, names
        self.aggregates: list[AggregateCall] = []
        self._inner = inner
        self.outer = replace(inner, hook=self._hook)

    def _hook(self, node: exp.Expr) -> Expression | None:
        """An aggregate or a grouping key as a column of the grouping; a bare column that is neither is refused."""
        if isinstance(node, exp.AggFunc):
            return self._aggregate(node)
        if isinstance(node, exp.Filter | exp.WithinGroup | exp.Window):
            raise self.source.error("unsupported", f"{node.key.upper()} of an aggregate is not supported yet", node)
        if _aggregates_in(node) or isinstance(node, exp.Literal | exp.Null | exp.Boolean):
            return None
        if node.find(exp.Query) is not None and not any(map(has_subquery, self.keys)):
            return None
        bound = self._inner.bind(node)
        if isinstance(bound, Parameter):
            return bound
        if bound in self.keys:
            position = self.keys.index(bound)
            return Column(position, self.names[position], bound.type, bound.nullable)
        if isinstance(node, exp.Column):
            raise self.source.error(
                "grouping",
                f"the column {fold(node.this)!r} is neither grouped nor aggregated",
                node,
                hint="add it to GROUP BY, or use it inside an aggregate",
            )
        return None

    def _aggregate(self, node: exp.AggFunc) -> Expression:
        call = self._aggregate_call(node)
        if call not in self.aggregates:
            self.aggregates.append(call)
        position = len(self.keys) + self.aggregates.index(call)
        column = Column(position, call.function.value, call.type, call.nullable)
        if call.argument is not None and call.argument.type.kind is Kind.BIGINT and call.type != BIGINT:
            return Cast(column, BIGINT)
        return column

    def _aggregate_call(self, node: exp.AggFunc) -> AggregateCall:
        refuse_other_parts(node, ("this", "expressions", "distinct"), self.source)
        if isinstance(node, exp.Count):
            if isinstance(node.this, exp.Star):
                return AggregateCall(AggregateFunction.COUNT_ROWS)
            return AggregateCall(AggregateFunction.COUNT, self._argument(node))
        if isinstance(node, exp.Sum):
            argument = self._argument(node)
            if not argument.type.is_exact:
                kind = "is approximate" if argument.type.is_numeric else "is not a number"
                raise self.source.error(
                    "unsupported" if argument.type.is_numeric else "type",
                    f"SUM of {argument.type} is not supported: it {kind}",
                    node,
                    hint="cast the argument to a DECIMAL",
                )
            return AggregateCall(AggregateFunction.SUM, argument)
        raise self.source.error(
            "unsupported",
            f"the aggregate {node.sql_name()} is not supported yet",
            node,
            hint="aggregates: COUNT, SUM",
        )

    def _argument(self, node: exp.AggFunc) -> Expression:
        if isinstance(node.this, exp.Distinct) or node.args.get("distinct"):
            raise self.source.error("unsupported", f"{node.sql_name()}(DISTINCT …) is not supported yet", node)
        if node.this is None or node.expressions:
            raise self.source.error("type", f"{node.sql_name()} takes one argument", node)
        if _aggregates_in(node.this):
            raise self.source.error("grouping", "aggregates cannot be nested", node.this)
        bound = self._inner.bind(node.this)
        if parameters_in(bound) and not columns_of(bound):
            message = f"{node.sql_name()} of outer columns alone belongs to the query around, which is not supported"
            raise self.source.error("unsupported", message, node, hint="aggregate in the outer query itself")
        return Cast(bound, VARCHAR) if bound.type.kind is Kind.NULL else bound


def bind_grouped(node: exp.Select, plan: Plan, inner: ExpressionBinder) -> tuple[Plan, list[Item], ExpressionBinder]:
    """The grouping, the select list over it, and a binder for ORDER BY."""
    source = inner.source
    keys = _keys(node, inner)
    names = tuple(f"key{i + 1}" if not isinstance(k, Column) else k.name for i, k in enumerate(keys))
    groups = GroupBinder(inner, keys, names)
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
    calls = tuple(groups.aggregates)
    plan, keys, calls = _without_subqueries(plan, keys, calls)
    result: Plan = Aggregate(plan, names + tuple(call.function.value for call in calls), keys, calls)
    return (result if condition is None else filtered(result, condition)), items, groups.outer


def _without_subqueries(
    plan: Plan, keys: tuple[Expression, ...], calls: tuple[AggregateCall, ...]
) -> tuple[Plan, tuple[Expression, ...], tuple[AggregateCall, ...]]:
    """Subqueries in keys and arguments as columns of the plan below."""
    arguments = tuple(call.argument for call in calls if call.argument is not None)
    plan, cells = attached(plan, keys + arguments)
    rest = iter(cells[len(keys) :])
    return plan, cells[: len(keys)], tuple(change_call(call, lambda _: next(rest)) for call in calls)


def _keys(node: exp.Select, binder: ExpressionBinder) -> tuple[Expression, ...]:
    scope, source = binder.scope, binder.source
    group = node.args.get("group")
    if group is None:
        return ()
    refuse_other_parts(group, ("expressions",), source)
    keys: list[Expression] = []
    for entry in group.expressions:
        chosen = _chosen(entry, node, scope, source)
        found = _aggregate_in(chosen)
        if found is not None:
            raise source.error("grouping", "an aggregate cannot stand in GROUP BY", found)
        bound = binder.bind(chosen)
        if bound.type.kind is Kind.NULL:
            raise source.error("type", "NULL cannot be a grouping key", entry)
        if bound not in keys:
            keys.append(bound)
    return tuple(keys)


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
