"""What the syntax of a query says before anything is bound: names of entries, aggregates, and where they may stand.

Comparison of rows, ``(a, b) = (c, d)``, by expansion into comparisons of their columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from tidemark.algebra.expressions import Expression
from tidemark.sql.bind.scope import Binder
from tidemark.sql.functions.arrays import row_like
from tidemark.sql.parse.text import Source, fold

_WINDOW_ONLY: Final = (
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.PercentRank,
    exp.CumeDist,
    exp.Ntile,
    exp.Lag,
    exp.Lead,
    exp.FirstValue,
    exp.LastValue,
    exp.NthValue,
)


@dataclass(frozen=True)
class Item:
    """An entry of a select list: an output name and the expression behind it."""

    name: str
    node: exp.Expr | None
    expression: Expression


def star_of(entry: exp.Expr) -> str | None:
    """For ``*`` the empty string, for ``t.*`` the name t, for anything else None."""
    if isinstance(entry, exp.Star):
        return ""
    if isinstance(entry, exp.Column) and isinstance(entry.this, exp.Star):
        return fold(entry.args["table"])
    return None


def output_name(entry: exp.Expr, position: int) -> str:
    """The name of a result column: its alias, the column's own name, the function's name, or its number;
    a subquery is named after its column."""
    if isinstance(entry, exp.Alias):
        return fold(entry.args["alias"])
    if isinstance(entry, exp.Column):
        return fold(entry.this)
    if isinstance(entry, exp.Dot):
        return fold(entry.expression)
    if isinstance(entry, exp.Cast | exp.Paren):
        return output_name(entry.this, position)
    if isinstance(entry, exp.Subquery) and isinstance(entry.unnest(), exp.Select):
        return output_name(entry.unnest().expressions[0], position)
    if isinstance(entry, exp.Anonymous):
        return entry.name.lower()
    if isinstance(entry, exp.Func) and not isinstance(entry, exp.Case | exp.And | exp.Or):
        return entry.sql_name().lower()
    return "case" if isinstance(entry, exp.Case) else f"column{position + 1}"


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node itself is an aggregate, perhaps with a FILTER."""
    if isinstance(node, exp.Filter):
        return is_aggregate(node.this)
    if isinstance(node, exp.Anonymous):
        return node.name.lower() == "every"
    return isinstance(node, exp.AggFunc | exp.WithinGroup) and not isinstance(node, _WINDOW_ONLY)


def find_aggregate(node: exp.Expr) -> exp.Expr | None:
    """The first aggregate of this query in an expression; those of subqueries and of OVER are not."""
    if isinstance(node, exp.Query):
        return None
    if is_aggregate(node):
        return node
    inner = node.this if isinstance(node, exp.Window) else None
    if isinstance(inner, exp.Filter):
        inner = inner.this
    parts = node.iter_expressions()
    if inner is not None:
        parts = iter([*inner.iter_expressions(), *(part for part in parts if part is not node.this)])
    return next((found for part in parts if (found := find_aggregate(part)) is not None), None)


def is_grouped(node: exp.Select) -> bool:
    """Whether the query has GROUP BY, HAVING or an aggregate in its select list, ORDER BY or DISTINCT ON."""
    if node.args.get("group") is not None or node.args.get("having") is not None:
        return True
    return any(find_aggregate(entry) is not None for entry in (*node.expressions, *behind(node)))


def behind(node: exp.Select) -> Iterator[exp.Expr]:
    """What ORDER BY and DISTINCT ON name, which is computed from the same groups as the select list."""
    order, distinct = node.args.get("order"), node.args.get("distinct")
    if order is not None:
        yield from (key.this for key in order.expressions)
    if distinct is not None and (on := distinct.args.get("on")) is not None:
        yield from on.expressions if isinstance(on, exp.Tuple) else (on,)


def no_aggregates(node: exp.Expr, where: str, source: Source) -> None:
    """Refuse an aggregate or a window function in a clause that is evaluated before rows are grouped."""
    found = find_aggregate(node)
    if found is not None:
        raise source.error("grouping", f"an aggregate cannot stand in {where}", found, hint="use HAVING")
    refuse_windows(node, where, source)


def refuse_windows(node: exp.Expr, where: str, source: Source) -> None:
    found = node.find(exp.Window)
    if found is not None and found.find_ancestor(exp.Query) is node.find_ancestor(exp.Query):
        raise source.error(
            "grouping",
            f"a window function cannot stand in {where}",
            found,
            hint="compute it in a subquery, and filter that",
        )


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
