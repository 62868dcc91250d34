"""The entries of a select list and their names."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidemark.algebra.expressions import Expression
from tidemark.sql.text import fold


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
