"""Binding NOW(), CURRENT_TIMESTAMP and CURRENT_DATE.

In a statement that runs once they are the time at which it began. In a view they would change all the time; there they
can stand in WHERE, where they mean the time of the database's clock, and the clock's steps change the view.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.expressions import TRUE, Cast, Column, Expression
from tidemark.algebra.history import clock_scan
from tidemark.algebra.plans import Join, Plan
from tidemark.algebra.types import DATE
from tidemark.sql.bind.expressions import CURRENT, ExpressionBinder, refuse_other_parts
from tidemark.sql.functions.intervals import is_age


def names_now(node: exp.Expr) -> bool:
    """Whether an expression of this query names the time; subqueries are queries of their own."""
    if isinstance(node, exp.Query):
        return False
    return _is_now(node) or any(names_now(part) for part in node.iter_expressions())


def _is_now(node: exp.Expr) -> bool:
    return isinstance(node, CURRENT) or (is_age(node) and len(node.expressions) == 1)


def lasts(tree: exp.Expr) -> bool:
    """Whether a statement means the same at another time, and after another version."""
    return not any(_is_now(part) or (isinstance(part, exp.Table) and part.args.get("version")) for part in tree.walk())


def beside_clock(plan: Plan) -> tuple[Plan, Column]:
    """The plan with the clock's time behind its columns."""
    timed = Join(plan, clock_scan(), TRUE)
    return timed, timed.column(len(plan.schema))


def clocked(binder: ExpressionBinder, now: Column) -> ExpressionBinder:
    """The binder, for which the time is a column."""
    inner = binder.hook

    def hook(node: exp.Expr) -> Expression | None:
        if isinstance(node, CURRENT):
            refuse_other_parts(node, (), binder.source)
            return Cast(now, DATE) if isinstance(node, exp.CurrentDate) else now
        return None if inner is None else inner(node)

    return replace(binder, hook=hook)
