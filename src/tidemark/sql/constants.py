"""Binding what stands for one value wherever it is written: literals, NULL, and the time at which a statement runs."""

from __future__ import annotations

import math

from sqlglot import exp

from tidemark.algebra.expressions import Expression, Literal
from tidemark.algebra.types import BOOLEAN, DATE, DOUBLE, NULL, TIMESTAMP, VARCHAR
from tidemark.sql.binding import Binder, called
from tidemark.sql.literals import number


def bind_literal(binder: Binder, node: exp.Expr) -> Expression:
    assert isinstance(node, exp.Literal)
    return Literal(str(node.this), VARCHAR) if node.is_string else number(str(node.this))


def bind_raw_string(binder: Binder, node: exp.Expr) -> Expression:
    return Literal(str(node.this), VARCHAR)


def bind_null(binder: Binder, node: exp.Expr) -> Expression:
    return Literal(None, NULL)


def bind_boolean(binder: Binder, node: exp.Expr) -> Expression:
    return Literal(bool(node.this), BOOLEAN)


def bind_pi(binder: Binder, node: exp.Expr) -> Expression:
    return Literal(math.pi, DOUBLE)


def bind_negative(binder: Binder, node: exp.Expr) -> Expression:
    """A minus before a number belongs to the number, so that the smallest integers can be written."""
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return number("-" + str(inner.this))
    return called(binder, "negate", [inner], node)


def bind_current(binder: Binder, node: exp.Expr) -> Expression:
    """NOW() and CURRENT_DATE in a statement that runs once: the time at which it began."""
    if binder.source.now is None:
        raise binder.source.error(
            "not_deterministic",
            "in a view NOW() can stand in WHERE alone: elsewhere every row would change all the time",
            node,
            hint="compare a column with it: WHERE t > NOW() - INTERVAL '1 hour'",
        )
    now = binder.source.now
    return Literal(now.date(), DATE) if isinstance(node, exp.CurrentDate) else Literal(now, TIMESTAMP)
