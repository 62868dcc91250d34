"""Comparison of rows, ``(a, b) = (c, d)``, by expansion into comparisons of their columns."""

from __future__ import annotations

from sqlglot import exp

from tidemark.algebra.expressions import Expression
from tidemark.sql.bind.scope import Binder
from tidemark.sql.functions.arrays import row_like


def members(node: exp.Expr) -> list[exp.Expr] | None:
    """The columns of a row that is written out, or None if this is no row."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    if isinstance(node, exp.Anonymous) and node.name.upper() == "ROW":
        return list(node.expressions)
    return None


def bind_row_comparison(binder: Binder, name: str, node: exp.Expr) -> Expression | None:
    """A comparison of two rows, or None if neither side is one."""
    left, right = members(node.this), members(node.expression)
    if left is None and right is None:
        return None
    if left is None or right is None:
        return _with_struct(binder, name, node, left)
    return compare(binder, name, _bound(binder, left, node), _bound(binder, right, node), node)


def _with_struct(binder: Binder, name: str, node: exp.Expr, left: list[exp.Expr] | None) -> Expression | None:
    """A comparison of a struct with a row that is written out; None if the other side is a subquery."""
    other = node.this if left is None else node.expression
    if other.find(exp.Query) is not None or isinstance(other, exp.Any | exp.All):
        return None
    whole = binder.bind(other)
    if not whole.type.fields:
        raise binder.source.error("type", "a row is compared with a row", node)
    row = _row_beside(binder, whole, node.expression if left is None else node.this)
    return binder.call(name, (whole, row) if left is None else (row, whole), node)


def _row_beside(binder: Binder, whole: Expression, node: exp.Expr) -> Expression:
    row = row_like(_bound(binder, members(node), node), whole.type)
    if row is None:
        raise binder.source.error("type", f"the row does not fit {whole.type}", node)
    return row


def bind_row_in(binder: Binder, node: exp.Expr) -> Expression | None:
    """``(a, b) IN ((1, 2), …)``, or None if the left side is no row."""
    left = members(node.this)
    if left is None:
        return _struct_in(binder, node)
    bound = _bound(binder, left, node)
    equal = [compare(binder, "eq", bound, _bound(binder, members(row), node), node) for row in node.expressions]
    return equal[0] if len(equal) == 1 else binder.call("or", tuple(equal), node)


def _struct_in(binder: Binder, node: exp.Expr) -> Expression | None:
    """``s IN (ROW(1, 'a'), …)``, or None if the left side is no struct."""
    whole = binder.bind(node.this)
    if not whole.type.fields:
        return None
    rows = [binder.bind(row) if members(row) is None else _row_beside(binder, whole, row) for row in node.expressions]
    return _all(binder, "or", [binder.call("eq", (whole, row), node) for row in rows], node)


def compare(binder: Binder, name: str, left: list[Expression], right: list[Expression], node: exp.Expr) -> Expression:
    """Equal if all columns are; smaller if the first columns that differ are, as PostgreSQL compares rows."""
    if len(left) != len(right):
        raise binder.source.error("type", f"a row of {len(left)} columns is compared with one of {len(right)}", node)
    pairs = list(zip(left, right, strict=True))
    match name:
        case "eq" | "is_not_distinct":
            return _all(binder, "and", [binder.call(name, pair, node) for pair in pairs], node)
        case "ne" | "is_distinct":
            return _all(binder, "or", [binder.call(name, pair, node) for pair in pairs], node)
    strict = {"le": "lt", "ge": "gt"}.get(name, name)
    result = binder.call(name, pairs[-1], node)
    for pair in reversed(pairs[:-1]):
        rest = binder.call("and", (binder.call("eq", pair, node), result), node)
        result = binder.call("or", (binder.call(strict, pair, node), rest), node)
    return result


def _bound(binder: Binder, row: list[exp.Expr] | None, node: exp.Expr) -> list[Expression]:
    if row is None:
        raise binder.source.error("type", "a row is compared with a row", node)
    return [binder.bind(part) for part in row]


def _all(binder: Binder, connective: str, parts: list[Expression], node: exp.Expr) -> Expression:
    return parts[0] if len(parts) == 1 else binder.call(connective, tuple(parts), node)
