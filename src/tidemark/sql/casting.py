"""Binding CAST: what is written as a text or a list is read as the type, everything else is converted."""

from __future__ import annotations

from sqlglot import exp

from tidemark.algebra.expressions import Call, Cast, Expression, Literal
from tidemark.algebra.functions import explicit_cast_allowed
from tidemark.algebra.types import INT, VARCHAR, Kind, Type
from tidemark.sql.binding import Binder
from tidemark.sql.coerce import coerce, is_text_literal
from tidemark.sql.intervals import is_interval
from tidemark.sql.literals import read_text
from tidemark.sql.moments import ALONE
from tidemark.sql.rounding import bind_div, cast_to_numeric, is_bare_numeric
from tidemark.sql.rowvalues import members
from tidemark.sql.types import BARE_NUMERIC, bind_type, length_limit


def bind_cast(binder: Binder, node: exp.Expr) -> Expression:
    if is_interval(node):
        raise binder.source.error("unsupported", ALONE, node)
    if is_bare_numeric(node.args["to"]):
        if isinstance(node.this, exp.IntDiv):  # what sqlglot makes of div(a, b)
            return bind_div(binder, node.this)
        return _cast_to(binder, node, BARE_NUMERIC)
    target = bind_type(node.args["to"], binder.source)
    limit = length_limit(node.args["to"], binder.source)
    if limit is not None:  # CAST cuts to the length, as in PostgreSQL
        text = _cast_to(binder, node, VARCHAR)
        return binder.call("left", (text, Literal(limit, INT)), node)
    return _cast_to(binder, node, target)


def _cast_to(binder: Binder, node: exp.Expr, target: Type) -> Expression:
    if target.element is not None and isinstance(node.this, exp.Array) and not node.this.expressions:
        return Literal((), target)
    parts = members(node.this)
    if target.fields and parts is not None and len(parts) == len(target.fields):
        cast = tuple(_converted(binder, binder.bind(p), t, node) for p, t in zip(parts, target.parts, strict=True))
        return Call("struct", cast, target, nullable=False)
    return _converted(binder, binder.bind(node.this), target, node)


def _converted(binder: Binder, argument: Expression, target: Type, node: exp.Expr) -> Expression:
    if argument.type.kind is Kind.NULL:
        return coerce(argument, target)
    if is_bare_numeric(node.args["to"]) and explicit_cast_allowed(argument.type, target):
        return cast_to_numeric(argument)
    if is_text_literal(argument) and isinstance(argument, Literal):
        return Literal(read_text(str(argument.value), target), target)
    if argument.type == target:
        return argument
    if not explicit_cast_allowed(argument.type, target):
        raise binder.source.error("type", f"a {argument.type} cannot be cast to {target}", node)
    return Cast(argument, target)
