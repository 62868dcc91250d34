"""Binding subqueries inside expressions: EXISTS, IN, ANY, SOME, ALL and scalar subqueries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from tidemark.algebra.aggregates import AggregateCall, AggregateFunction
from tidemark.algebra.expressions import Expression, Literal, conjunction
from tidemark.algebra.plans import Aggregate, Plan, Sort, SortKey, Values
from tidemark.algebra.types import BOOLEAN, Field, Schema
from tidemark.sql.bind.expressions import ExpressionBinder, Outer, refuse_other_parts
from tidemark.sql.bind.parameters import AnyRow, Exists, Parameter, Scalar, change_parameters
from tidemark.sql.parse.lists import Listed
from tidemark.sql.parse.text import Source

_COMPARISONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("eq", "ne"),
    exp.NEQ: ("ne", "eq"),
    exp.LT: ("lt", "ge"),
    exp.LTE: ("le", "gt"),
    exp.GT: ("gt", "le"),
    exp.GTE: ("ge", "lt"),
}
"""Each comparison and its opposite: x op ALL (Q) is NOT x opposite ANY (Q)."""
_QUERIES = (exp.Select, exp.Subquery, exp.SetOperation, exp.Values)


@dataclass
class Frame:
    """The query around a subquery, as the subquery sees it: it gives columns, which become the arguments."""

    around: ExpressionBinder
    arguments: list[Expression] = field(default_factory=list)

    def column(self, node: exp.Column) -> Expression | None:
        """The parameter for a column of the query around, or of one further out."""
        if not self.around.can_see(node):
            return None
        return self.parameter(self.around.bind(node))

    def parameter(self, argument: Expression) -> Expression:
        if argument not in self.arguments:
            self.arguments.append(argument)
        name = getattr(argument, "name", "outer")
        return Parameter(self.arguments.index(argument), str(name), argument.type, argument.nullable)

    def inside(self, plan: Plan, home: Outer | None) -> Plan:
        """A plan that was bound further out, in the subquery of ``home``, as this subquery reads it."""
        if home is self:
            return plan
        outer = self.around.frame
        if outer is not None:
            plan = outer.inside(plan, home)
        return change_parameters(plan, self.parameter)


class Queries(Protocol):
    """Binds the query inside a subquery."""

    def inner_query(self, node: exp.Expr, frame: Frame) -> Plan: ...

    def ordered_query(self, node: exp.Expr, frame: Frame) -> Plan:
        """The same, with a ``Sort`` at its end if the query has an order."""


@dataclass(frozen=True)
class SubqueryBinder:
    """Binds subqueries that stand in the expressions of one query."""

    source: Source
    queries: Queries

    def bind(self, node: exp.Expr, around: ExpressionBinder) -> Expression | None:
        """The bound subquery, or None if the node is not one."""
        match node:
            case exp.Exists():
                refuse_other_parts(node, ("this",), self.source)
                return self._exists(node, around)
            case exp.In() if node.args.get("query") is not None or _only_values(node):
                refuse_other_parts(node, ("this", "query", "expressions"), self.source)
                return self._any("eq", node.this, node.args.get("query") or node.expressions[0], node, around)
            case exp.In() if (listed := Listed.of(node.expressions, self.source)) and _decides_rows(node):
                return self._among(listed, node, around)
            case exp.Subquery() | exp.Select() | exp.SetOperation():
                return self._scalar(node, around)
            case exp.Array(expressions=[query]) if _is_array_of(node, query, self.source):
                return self._array(query, around)
        if type(node) in _COMPARISONS:
            quantifier = _quantifier(node.expression)
            if quantifier is not None:
                refuse_other_parts(node, ("this", "expression"), self.source)
                return self._quantified(node, quantifier, around)
        return None

    def _among(self, listed: Listed, node: exp.In, around: ExpressionBinder) -> Expression | None:
        """``x IN (1, 2, …)`` as a row of VALUES that is equal; None if the members are not plainly of the type of x."""
        operand = around.bind(node.this)
        members = listed.members(operand.type)
        if members is None:
            return None
        rows = tuple((value,) for value in dict.fromkeys(members))
        plan, frame = Values(rows, Schema((Field("member", operand.type, nullable=False),))), Frame(around)
        condition = around.call("eq", (frame.parameter(operand), plan.column(0)), node)
        return AnyRow(plan, tuple(frame.arguments), condition)

    def _exists(self, node: exp.Exists, around: ExpressionBinder) -> Expression:
        frame = Frame(around)
        plan = self.queries.inner_query(_without_limit(node.this), frame)
        return Exists(plan, tuple(frame.arguments))

    def _scalar(self, node: exp.Expr, around: ExpressionBinder) -> Expression:
        frame = Frame(around)
        plan = self.queries.inner_query(node, frame)
        if len(plan.schema) != 1:
            message = f"a subquery in an expression gives one column, this one gives {len(plan.schema)}"
            raise self.source.error("type", message, node)
        return Scalar(plan, tuple(frame.arguments))

    def _array(self, node: exp.Expr, around: ExpressionBinder) -> Expression:
        """``ARRAY(SELECT …)``: the values of the one column in the order of the query, and none without a row."""
        frame = Frame(around)
        plan = self.queries.ordered_query(node, frame)
        if len(plan.schema) != 1:
            message = f"ARRAY(SELECT …) takes one column, this query gives {len(plan.schema)}"
            raise self.source.error("type", message, node)
        if not plan.schema[0].type.can_be_part:
            raise self.source.error("type", "the elements of an array are values of a simple type", node)
        rows, order = _rows_in_order(plan)
        values = AggregateCall(AggregateFunction.ARRAY_AGG, rows.column(0), order=order)
        gathered = Scalar(Aggregate(rows, ("array",), (), (values,)), tuple(frame.arguments))
        return around.call("coalesce", (gathered, Literal((), gathered.type)), node)

    def _quantified(self, node: exp.Expr, quantifier: exp.Any | exp.All, around: ExpressionBinder) -> Expression:
        refuse_other_parts(quantifier, ("this",), self.source)
        comparison, opposite = _COMPARISONS[type(node)]
        if isinstance(quantifier, exp.Any):
            return self._any(comparison, node.this, quantifier.this, node, around)
        return around.call("not", (self._any(opposite, node.this, quantifier.this, node, around),), node)

    def _any(
        self, comparison: str, operand: exp.Expr, query: exp.Expr, node: exp.Expr, around: ExpressionBinder
    ) -> Expression:
        frame = Frame(around)
        plan = self.queries.inner_query(query, frame)
        cells = list(operand.expressions) if isinstance(operand, exp.Tuple) else [operand]
        if len(cells) != len(plan.schema):
            message = f"the subquery gives {len(plan.schema)} columns to compare with {len(cells)}"
            raise self.source.error("type", message, node)
        if len(cells) > 1 and comparison not in ("eq", "ne"):
            raise self.source.error("unsupported", "rows can be compared by = and <> only", node)
        bound = [around.bind(cell) for cell in cells]
        outer = [cell if isinstance(cell, Literal) else frame.parameter(cell) for cell in bound]
        parts = [
            around.call("eq" if len(cells) > 1 else comparison, (cell, column), node)
            for cell, column in zip(outer, plan.columns(), strict=True)
        ]
        condition = conjunction(tuple(parts))
        if len(cells) > 1 and comparison == "ne":
            condition = around.call("not", (condition,), node)
        assert condition.type == BOOLEAN
        return AnyRow(plan, tuple(frame.arguments), condition)


def _quantifier(node: exp.Expr) -> exp.Any | exp.All | None:
    """ANY, SOME or ALL of a subquery; None if this is something else: of an array they are functions.

    More parentheses around the subquery mean nothing, as in PostgreSQL. The parser takes ALL for the name of a function
    when it sees them.
    """
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.upper() == "ALL":
        inner = node.expressions
        return exp.All(this=inner[0]) if len(inner) == 1 and isinstance(inner[0], _QUERIES) else None
    if isinstance(node, exp.Any | exp.All) and isinstance(node.this, _QUERIES):
        return node
    return None


def _is_array_of(node: exp.Array, query: exp.Expr, source: Source) -> bool:
    """Whether this is ``ARRAY(SELECT …)``; ``ARRAY[(SELECT …)]`` and Spark's ``array((SELECT …))`` list elements."""
    if not isinstance(query, _QUERIES) or node.args.get("value_constructor"):
        return False
    return not isinstance(query, exp.Subquery) or source.dialect == "postgres"


def _rows_in_order(plan: Plan) -> tuple[Plan, tuple[SortKey, ...]]:
    """The rows of a query, with the columns that its order is by, and the order."""
    if not isinstance(plan, Sort):
        return plan, ()
    is_cut = plan.limit is not None or plan.offset
    return replace(plan, visible=None) if is_cut else plan.input, plan.keys


def _only_values(node: exp.In) -> bool:
    return len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Values)


def _decides_rows(node: exp.Expr) -> bool:
    """Whether a row must meet the condition to pass WHERE."""
    while isinstance(node.parent, exp.And | exp.Paren):
        node = node.parent
    return isinstance(node.parent, exp.Where)


def _without_limit(node: exp.Expr) -> exp.Expr:
    """The query without a LIMIT of at least one row, which EXISTS does not notice."""
    limit = node.args.get("limit")
    if limit is None or node.args.get("offset") is not None:
        return node
    count = limit.args.get("expression")
    if not isinstance(count, exp.Literal) or not count.name.isdigit() or int(count.name) < 1:
        return node
    shorter = node.copy()
    shorter.set("limit", None)
    return shorter
