"""Binding FROM: relations, subqueries, VALUES, and joins of all kinds.

Outer joins are made in ``semijoins.py``, dependent joins (LATERAL) in ``lowering.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.algebra.expressions import TRUE, Expression, columns_of, conjunction, conjuncts
from tidemark.algebra.plans import Join, Plan, Values
from tidemark.algebra.semijoins import joined, padded, with_padding
from tidemark.algebra.types import Schema
from tidemark.sql.bind.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.bind.lowering import filtered, lateral
from tidemark.sql.bind.parameters import has_subquery
from tidemark.sql.bind.scope import Scope, Visible
from tidemark.sql.bind.subqueries import Frame
from tidemark.sql.bind.syntax import no_aggregates
from tidemark.sql.functions.arrays import bind_unnest, unnest_node
from tidemark.sql.parse.text import Source, fold, tokenize

_SIDES = {"": (False, False), "LEFT": (True, False), "RIGHT": (False, True), "FULL": (True, True)}
"""Which sides of a join keep rows without a partner."""


class Relations(Protocol):
    """Binds what stands in FROM, apart from joins."""

    source: Source

    def binder(self, scope: Scope) -> ExpressionBinder: ...
    def table(self, node: exp.Expr) -> tuple[Plan, Scope]: ...
    def lateral(self, node: exp.Lateral, frame: Frame) -> tuple[Plan, Scope]: ...


@dataclass(frozen=True)
class Item:
    """A part of FROM between commas, as far as it is bound."""

    plan: Plan
    scope: Scope


@dataclass(frozen=True)
class FromBinder:
    """Binds one FROM clause."""

    relations: Relations

    @property
    def source(self) -> Source:
        return self.relations.source

    def bind(self, node: exp.Select) -> tuple[Plan, Scope]:
        clause = node.args.get("from_")
        if clause is None:
            return Values(((),), Schema(())), Scope()
        before: Item | None = None
        unnested = unnest_node(clause.this)
        if unnested is not None:
            item = self._unnested(Item(Values(((),), Schema(())), Scope()), unnested, None)
        elif isinstance(clause.this, exp.Lateral):
            item = Item(*self.relations.lateral(clause.this, Frame(self.relations.binder(Scope()))))
        else:
            item = Item(*self.relations.table(clause.this))
        merged, joins = False, node.args.get("joins") or ()
        for left, join in zip((clause.this, *joins), joins, strict=False):
            unnested = unnest_node(join.this)
            comma = unnested is None and self._is_comma(left, join)
            is_lateral = unnested is not None or isinstance(join.this, exp.Lateral)
            if is_lateral and before is not None:
                # What stands left of LATERAL can be named in it, so it is joined first.
                item, before, merged = self._product(before, item, join.this), None, True
            if comma and not is_lateral:
                before = item if before is None else self._product(before, item, join.this)
                item, merged = Item(*self.relations.table(join.this)), False
                self._no_name_twice(before.scope, item.scope, join.this)
                continue
            if merged and _side(join) in ("RIGHT", "FULL"):
                message = f"{_side(join)} JOIN behind a comma and LATERAL is not supported"
                raise self.source.error("unsupported", message, join, hint="put it first, or into a subquery")
            merged = merged or comma
            item = self.join(item, join) if unnested is None else self._unnested(item, unnested, join)
        if before is not None:
            item = self._product(before, item, clause.this)
        return item.plan, item.scope

    def _unnested(self, left: Item, node: exp.Unnest, join: exp.Join | None) -> Item:
        """UNNEST after a comma, CROSS JOIN or [LEFT] JOIN … ON TRUE; each row before it gives its elements."""
        refuse_other_parts(node, ("expressions", "alias", "offset"), self.source)
        side = "" if join is None else _side(join)
        if join is not None:
            refuse_other_parts(join, ("this", "kind", "on", "side"), self.source)
            on = join.args.get("on")
            if side not in ("", "LEFT") or (side and on is None):
                raise self.source.error("unsupported", "UNNEST is joined by JOIN or LEFT JOIN … ON TRUE", join)
            if on is not None and not (isinstance(on, exp.Boolean) and on.this):
                raise self.source.error("unsupported", "UNNEST is joined ON TRUE", join, hint="put conditions in WHERE")
        binder = self.relations.binder(left.scope)
        return Item(*bind_unnest(binder, node, left.plan, left.scope, self.source, keep=bool(side)))

    def _product(self, left: Item, right: Item, node: exp.Expr) -> Item:
        self._no_name_twice(left.scope, right.scope, node)
        scope = left.scope.beside(right.scope.shifted(len(left.plan.schema)))
        return Item(Join(left.plan, right.plan, TRUE), scope)

    def _is_comma(self, left: exp.Expr, join: exp.Join) -> bool:
        """Whether a join without kind and condition was written as a comma. JOIN binds tighter than a comma does, and
        needs a condition; sqlglot's tree does not tell the two apart, so the tokens are asked."""
        if any(join.args.get(part) for part in ("kind", "on", "using", "side", "method")):
            return False
        operator = self._operator(left, join.this)
        if operator.token_type is TokenType.JOIN:
            raise self.source.error("syntax", "JOIN needs ON or USING", operator, hint="CROSS JOIN makes all pairs")
        return True

    def _operator(self, left: exp.Expr, right: exp.Expr) -> Token:
        """The comma or JOIN between two relations. Not all parts of either know their places, so some of them may
        stand between the places that are known; but those are in parentheses, deeper than the operator."""
        start, end = self.source.end_offset(left), self.source.place_offset(right)
        depth, found = 0, list[tuple[int, Token]]()
        for token in tokenize(self.source):
            if not start <= token.start < end:
                continue
            depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
            if token.token_type in (TokenType.COMMA, TokenType.JOIN):
                found.append((depth, token))
        outermost = min(depth for depth, _ in found)
        return [token for depth, token in found if depth == outermost][-1]

    def _no_name_twice(self, left: Scope, right: Scope, node: exp.Expr) -> None:
        shared = left.relations & right.relations
        if shared:
            raise self.source.error(
                "ambiguous_name",
                f"{sorted(shared)[0]!r} is named twice in FROM",
                node,
                hint="give one of them an alias",
            )

    # Joins

    def join(self, left: Item, node: exp.Join) -> Item:
        refuse_other_parts(node, ("this", "on", "using", "kind", "side", "method"), self.source)
        kind = str(node.args.get("kind") or "").upper()
        method = str(node.args.get("method") or "").upper()
        side = _side(node)
        if kind == "CROSS" and (node.args.get("on") or node.args.get("using") or side):
            raise self.source.error("syntax", "CROSS JOIN takes no condition", node)
        natural = method == "NATURAL" and kind != "CROSS"
        known = kind in ("", "CROSS") or (kind == "INNER" and not side) or (kind == "OUTER" and side)
        if not known or side not in _SIDES or (method and not natural):
            asked = " ".join(word for word in (method, side, kind) if word)
            raise self.source.error("unsupported", f"{asked} JOIN is not supported yet", node)
        if isinstance(node.this, exp.Lateral):
            return self._lateral(left, node, side)
        right = Item(*self.relations.table(node.this))
        self._no_name_twice(left.scope, right.scope, node.this)
        right_scope = right.scope.shifted(len(left.plan.schema))
        using = self._common(left.scope, right_scope, node) if natural else node.args.get("using")
        if using:
            return self._using(left, Item(right.plan, right_scope), using, side)
        scope = left.scope.beside(right_scope)
        if node.args.get("on") is None and side and not natural:
            raise self.source.error("syntax", f"{side} JOIN needs ON or USING", node)
        parts = self._on(node, scope)
        plain = tuple(part for part in parts if not has_subquery(part))
        asking = tuple(part for part in parts if has_subquery(part))
        keep_left, keep_right = _SIDES[side]
        if not asking:
            plan = padded(left.plan, right.plan, plain, keep_left=keep_left, keep_right=keep_right)
        else:
            pairs = filtered(joined(left.plan, right.plan, plain), conjunction(asking))
            plan = with_padding(pairs, left.plan, right.plan, keep_left=keep_left, keep_right=keep_right)
        return Item(plan, scope.over(plan) if side else scope)

    def _on(self, node: exp.Join, scope: Scope) -> tuple[Expression, ...]:
        on = node.args.get("on")
        if on is None:
            return ()
        no_aggregates(on, "ON", self.source)
        return tuple(p for p in conjuncts(self.relations.binder(scope).condition(on, "ON")) if p != TRUE)

    def _lateral(self, left: Item, node: exp.Join, side: str) -> Item:
        if side not in ("", "LEFT") or node.args.get("using") or node.args.get("method"):
            raise self.source.error(
                "unsupported", "LATERAL stands behind a comma, CROSS JOIN, JOIN … ON or LEFT JOIN … ON", node
            )
        frame = Frame(self.relations.binder(left.scope))
        right, right_scope = self.relations.lateral(node.this, frame)
        self._no_name_twice(left.scope, right_scope, node.this)
        arguments = tuple(frame.arguments)
        if any(map(has_subquery, arguments)):
            raise self.source.error("unsupported", "LATERAL cannot refer to a column that is a subquery", node)
        scope = left.scope.beside(right_scope.shifted(len(left.plan.schema)))
        pairs = lateral(left.plan, right, arguments)
        parts = self._on(node, scope)
        plan = filtered(pairs, conjunction(parts)) if parts else pairs
        if side:
            read = {i for e in (*arguments, *parts) for i in columns_of(e) if i < len(left.plan.schema)}
            plan = with_padding(plan, left.plan, right, keep_left=True, read=tuple(sorted(read)))
        return Item(plan, scope.over(plan))

    def _common(self, left: Scope, right: Scope, node: exp.Join) -> list[exp.Expr]:
        """The columns of a NATURAL join: those that both sides list, in the order of the left side."""
        refuse_other_parts(node, ("this", "kind", "method", "side"), self.source)
        there = {visible.name for visible in right.listed}
        names = dict.fromkeys(visible.name for visible in left.listed if visible.name in there)
        common: list[exp.Expr] = [exp.to_identifier(name, quoted=True) for name in names]
        place = next((part.meta for part in node.walk() if "start" in part.meta), {})
        for identifier in common:  # so that an error points at the joined relation
            identifier.meta.update(place)
        return common

    def _using(self, left: Item, right: Item, using: list[exp.Expr], side: str) -> Item:
        names = [fold(column) for column in using]
        if len(set(names)) < len(names):
            raise self.source.error("duplicate_column", "a column is named twice in USING", using[-1])
        both = ExpressionBinder(self.source, Scope())
        equalities = []
        for column in using:
            node = exp.Column(this=column)
            pair = (left.scope.resolve(node, self.source), right.scope.resolve(node, self.source))
            equalities.append(both.call("eq", pair, node))
        keep_left, keep_right = _SIDES[side]
        plan = padded(left.plan, right.plan, tuple(equalities), keep_left=keep_left, keep_right=keep_right)
        # The merged column has the type in which the two are compared, and the value of a side that has one.
        merged = tuple(
            Visible(None, name, _merged(equal, side, lambda pair: both.call("coalesce", pair, using[0])))
            for name, equal in zip(names, equalities, strict=True)
        )
        rest = tuple(v for v in left.scope.listed + right.scope.listed if v.name not in names)
        scope = Scope(left.scope.qualified + right.scope.qualified, merged + rest)
        return Item(plan, scope.over(plan))


def _merged(
    equality: Expression, side: str, either: Callable[[tuple[Expression, Expression]], Expression]
) -> Expression:
    left, right = equality.children()
    if side == "FULL":
        return either((left, right))
    return right if side == "RIGHT" else left


def _side(join: exp.Join) -> str:
    return str(join.args.get("side") or "").upper()
