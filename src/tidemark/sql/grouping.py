"""Binding GROUP BY: keys, aggregates, and the rule that everything else must be made of them."""

from __future__ import annotations

from sqlglot import exp

from tidemark.algebra.expressions import Cast, Column, Expression
from tidemark.algebra.plans import Aggregate, AggregateCall, AggregateFunction, Filter, Plan
from tidemark.algebra.types import BIGINT, VARCHAR, Kind
from tidemark.sql.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.scope import Scope
from tidemark.sql.selectlist import Item, output_name, star_of
from tidemark.sql.text import Source, fold


def is_grouped(node: exp.Select) -> bool:
    """Whether the query has GROUP BY, HAVING or an aggregate in its select list."""
    if node.args.get("group") is not None or node.args.get("having") is not None:
        return True
    return any(_aggregates_in(entry) for entry in node.expressions)


def _aggregates_in(entry: exp.Expr) -> bool:
    return entry.find(exp.AggFunc) is not None


class GroupBinder:
    """Collects the aggregates of one grouped query and binds expressions over keys and aggregates."""

    def __init__(self, scope: Scope, source: Source, keys: tuple[Expression, ...], names: tuple[str, ...]) -> None:
        self.source, self.keys, self.names = source, keys, names
        self.aggregates: list[AggregateCall] = []
        self._inner = ExpressionBinder(source, scope)
        self.outer = ExpressionBinder(source, scope, self._hook)

    def _hook(self, node: exp.Expr) -> Expression | None:
        """An aggregate or a grouping key as a column of the grouping; a bare column that is neither is refused."""
        if isinstance(node, exp.AggFunc):
            return self._aggregate(node)
        if isinstance(node, exp.Filter | exp.WithinGroup | exp.Window):
            raise self.source.error("unsupported", f"{node.key.upper()} of an aggregate is not supported yet", node)
        if _aggregates_in(node) or isinstance(node, exp.Literal | exp.Null | exp.Boolean):
            return None
        bound = self._inner.bind(node)
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
        if bound.type.kind is Kind.ARRAY:
            raise self.source.error("type", "an aggregate does not take an array", node)
        return Cast(bound, VARCHAR) if bound.type.kind is Kind.NULL else bound


def bind_grouped(
    node: exp.Select, plan: Plan, scope: Scope, source: Source
) -> tuple[Plan, list[Item], ExpressionBinder]:
    """The grouping, the select list over it, and a binder for ORDER BY."""
    keys = _keys(node, scope, source)
    names = tuple(f"key{i + 1}" if not isinstance(k, Column) else k.name for i, k in enumerate(keys))
    groups = GroupBinder(scope, source, keys, names)
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
    result: Plan = Aggregate(plan, names + tuple(call.function.value for call in calls), keys, calls)
    return (result if condition is None else Filter(result, condition)), items, groups.outer


def _keys(node: exp.Select, scope: Scope, source: Source) -> tuple[Expression, ...]:
    group = node.args.get("group")
    if group is None:
        return ()
    refuse_other_parts(group, ("expressions",), source)
    keys: list[Expression] = []
    binder = ExpressionBinder(source, scope)
    for entry in group.expressions:
        chosen = _chosen(entry, node, scope, source)
        found = chosen.find(exp.AggFunc)
        if found is not None:
            raise source.error("grouping", "an aggregate cannot stand in GROUP BY", found)
        bound = binder.bind(chosen)
        if bound.type.kind is Kind.NULL:
            raise source.error("type", "NULL cannot be a grouping key", entry)
        if bound.type.kind is Kind.ARRAY:
            raise source.error("type", "an array cannot be a grouping key", entry)
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
