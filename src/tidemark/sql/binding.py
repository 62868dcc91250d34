"""What the parts of the expression binder ask of it."""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from tidemark.algebra.expressions import Expression
from tidemark.sql.text import Source


class Binder(Protocol):
    """Binds expressions in one scope; each family of functions has a module of its own that is handed this."""

    source: Source

    def bind(self, node: exp.Expr) -> Expression:
        """The expression that a piece of syntax means."""

    def call(self, name: str, arguments: tuple[Expression, ...], node: exp.Expr) -> Expression:
        """A call of the function table, with its arguments brought to the types of the signature."""

    def case_of(self, conditions: list[Expression], values: list[Expression], node: exp.Expr) -> Expression:
        """CASE with as many conditions as values but one, the default."""


def called(binder: Binder, name: str, nodes: list[exp.Expr], node: exp.Expr) -> Expression:
    """A call of the function table on pieces of syntax."""
    return binder.call(name, tuple(binder.bind(part) for part in nodes), node)
