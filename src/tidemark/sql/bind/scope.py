"""Which names can be seen in a part of a query, and what binders of its parts ask of each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp

from tidemark.algebra.expressions import Call, Column, Expression, shift
from tidemark.algebra.functions import FUNCTIONS
from tidemark.algebra.plans import Plan
from tidemark.algebra.types import Schema
from tidemark.sql.parse.text import Source, fold


@dataclass(frozen=True)
class Visible:
    """A column that can be named, alone or behind its relation's alias."""

    relation: str | None
    name: str
    column: Expression


@dataclass(frozen=True)
class Scope:
    """The columns of a FROM clause.

    ``qualified`` lists every column of every relation; ``listed`` those that ``*`` shows and that can be named
    alone: a column of USING stands there once.
    """

    qualified: tuple[Visible, ...] = ()
    listed: tuple[Visible, ...] = ()

    @staticmethod
    def of(relation: str | None, schema: Schema) -> Scope:
        visible = tuple(
            Visible(relation, f.name, Column(i, f.name, f.type, f.nullable)) for i, f in enumerate(schema.fields)
        )
        return Scope(visible, visible)

    def shifted(self, offset: int) -> Scope:
        return Scope(_shift(self.qualified, offset), _shift(self.listed, offset))

    def beside(self, other: Scope) -> Scope:
        return Scope(self.qualified + other.qualified, self.listed + other.listed)

    def over(self, plan: Plan) -> Scope:
        """The same names over a plan whose columns may be NULL where they could not before."""

        def renewed(columns: tuple[Visible, ...]) -> tuple[Visible, ...]:
            return tuple(replace(v, column=_over(v.column, plan)) for v in columns)

        return Scope(renewed(self.qualified), renewed(self.listed))

    def sees(self, node: exp.Column) -> bool:
        """Whether the name means something in this scope, so that it is not looked for further out."""
        table = node.args.get("table")
        if table is not None:
            return fold(table) in self.relations
        return any(visible.name == fold(node.this) for visible in self.listed)

    @property
    def relations(self) -> frozenset[str]:
        return frozenset(visible.relation for visible in self.qualified if visible.relation is not None)

    def resolve(self, node: exp.Column, source: Source) -> Expression:
        """The column that a name means, or a precise error."""
        name = fold(node.this)
        table = node.args.get("table")
        if table is None:
            candidates = [visible for visible in self.listed if visible.name == name]
        else:
            relation = fold(table)
            if relation not in self.relations:
                known = ", ".join(sorted(self.relations)) or "none"
                raise source.error(
                    "unknown_relation", f"there is no {relation!r} in FROM", node, hint=f"in FROM: {known}"
                )
            candidates = [v for v in self.qualified if v.name == name and v.relation == relation]
        if not candidates:
            raise source.error("unknown_column", f"there is no column {name!r} here", node, hint=self._columns())
        if len(candidates) > 1:
            where = " and ".join(sorted({str(v.relation) for v in candidates}))
            raise source.error(
                "ambiguous_name",
                f"the name {name!r} is ambiguous: it is in {where}",
                node,
                hint=f"write {candidates[0].relation}.{name}",
            )
        return candidates[0].column

    def star(self, relation: str | None) -> tuple[Visible, ...]:
        if relation is None:
            return self.listed
        return tuple(visible for visible in self.qualified if visible.relation == relation)

    def _columns(self) -> str:
        names = list(dict.fromkeys(visible.name for visible in self.listed))
        shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        return f"columns: {shown}" if names else "there is no FROM clause"


def _over(expression: Expression, plan: Plan) -> Expression:
    if isinstance(expression, Column):
        return plan.column(expression.index)
    children = tuple(_over(child, plan) for child in expression.children())
    renewed = expression.with_children(children) if children else expression
    if isinstance(renewed, Call):
        nullable = FUNCTIONS[renewed.function].nullable(tuple(child.nullable for child in children))
        return replace(renewed, nullable=nullable)
    return renewed


def _shift(columns: Iterable[Visible], offset: int) -> tuple[Visible, ...]:
    return tuple(Visible(v.relation, v.name, shift(v.column, offset)) for v in columns)


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
