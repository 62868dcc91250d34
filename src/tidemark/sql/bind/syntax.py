"""What the syntax of a query says before anything is bound: names of entries, aggregates, and where they may stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from tidemark.algebra.expressions import Expression
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
