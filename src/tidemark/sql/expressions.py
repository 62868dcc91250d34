"""Binding expressions: from syntax to calls of the function table, with every type settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from tidemark.algebra.expressions import Call, Case, Cast, Expression, Literal
from tidemark.algebra.functions import FUNCTIONS, explicit_cast_allowed
from tidemark.algebra.plans import Plan
from tidemark.algebra.types import BOOLEAN, INT, NULL, VARCHAR, Kind, Type
from tidemark.errors import TidemarkError
from tidemark.sql.coerce import adapt_text_literals, coerce, common_of, fits_implicitly, is_text_literal
from tidemark.sql.literals import canonical_pattern, number, read_text
from tidemark.sql.scope import Scope
from tidemark.sql.text import Source
from tidemark.sql.types import bind_type, length_limit

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Mod: "modulo",
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "is_not_distinct",
    exp.NullSafeNEQ: "is_distinct",
    exp.And: "and",
    exp.Or: "or",
    exp.DPipe: "concat",
}
_NAMED: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Abs: ("abs", ("this",)),
    exp.Sign: ("sign", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StrPosition: ("position", ("this", "substr")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.Reverse: ("reverse", ("this",)),
    exp.Repeat: ("repeat", ("this", "times")),
    exp.Nullif: ("nullif", ("this", "expression")),
    exp.DateFromParts: ("make_date", ("year", "month", "day")),
}
_VARIADIC: dict[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Greatest: "greatest",
    exp.Least: "least",
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "trim", "": "trim"}
_ADAPTING = frozenset(
    [
        "add",
        "subtract",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "is_distinct",
        "is_not_distinct",
        "coalesce",
        "greatest",
        "least",
        "nullif",
        "in_list",
    ]
)

Hook = Callable[[exp.Expr], Expression | None]


class Subqueries(Protocol):
    """Binds subqueries (``subqueries.py``)."""

    def bind(self, node: exp.Expr, around: ExpressionBinder) -> Expression | None: ...


class Outer(Protocol):
    """The query around a subquery, which gives the columns that the subquery itself does not have."""

    @property
    def around(self) -> ExpressionBinder: ...
    def column(self, node: exp.Column) -> Expression | None: ...
    def inside(self, plan: Plan, home: Outer | None) -> Plan: ...


@dataclass
class ExpressionBinder:
    """Binds expressions in one scope. ``hook`` sees each node first: groupings use it for keys and aggregates.

    Without ``subqueries`` there can be none here; ``frame`` is there inside a subquery.
    """

    source: Source
    scope: Scope
    hook: Hook | None = None
    subqueries: Subqueries | None = None
    frame: Outer | None = None

    def bind(self, node: exp.Expr) -> Expression:
        if self.hook is not None:
            found = self.hook(node)
            if found is not None:
                return found
        if self.subqueries is not None:
            subquery = self.subqueries.bind(node, self)
            if subquery is not None:
                return subquery
        try:
            return self._bind(node)
        except TidemarkError as error:
            if error.place is not None:
                raise
            # Errors from the function table know no places: give them this node's.
            place = self.source.place_of(node)
            raise TidemarkError(error.code, error.message, place=place, hint=error.hint) from error

    def condition(self, node: exp.Expr, where: str) -> Expression:
        """A BOOLEAN expression, for WHERE, ON, HAVING, CHECK and WHEN."""
        bound = self.bind(node)
        if bound.type.kind is Kind.NULL:
            return coerce(bound, BOOLEAN)
        if bound.type != BOOLEAN:
            raise self.source.error("type", f"{where} needs a condition, this is a {bound.type}", node)
        return bound

    def _bind(self, node: exp.Expr) -> Expression:
        kind = type(node)
        if kind in _BINARY:
            refuse_other_parts(node, ("this", "expression"), self.source)
            return self._call(_BINARY[kind], [node.this, node.expression], node)
        if kind in _NAMED:
            name, parts = _NAMED[kind]
            refuse_other_parts(node, parts, self.source)
            return self._call(name, [node.args[part] for part in parts if node.args.get(part) is not None], node)
        if kind in _VARIADIC:
            refuse_other_parts(node, ("this", "expressions", "ignore_nulls"), self.source)
            listed = [node.this, *node.expressions] if node.args.get("this") else list(node.expressions)
            return self._call(_VARIADIC[kind], listed, node)
        if kind in _HANDLERS:
            handler, parts = _HANDLERS[kind]
            refuse_other_parts(node, parts, self.source)
            return handler(self, node)
        raise self._refused(node)

    def _refused(self, node: exp.Expr) -> TidemarkError:
        if isinstance(node, exp.Select | exp.Subquery | exp.Exists | exp.SetOperation):
            return self.source.error("unsupported", "a subquery cannot stand here", node)
        if isinstance(node, exp.Func):
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name().lower()
            return self.source.error(
                "unknown_function",
                f"the function {name!r} is not supported",
                node,
                hint="docs/reference/functions.md lists the functions",
            )
        return self.source.error("unsupported", f"{node.sql('postgres')[:60]!r} is not supported", node)

    # Calls

    def _call(self, name: str, nodes: list[exp.Expr], node: exp.Expr) -> Expression:
        return self.call(name, tuple(self.bind(part) for part in nodes), node)

    def call(self, name: str, arguments: tuple[Expression, ...], node: exp.Expr) -> Expression:
        """A call of the function table, with its arguments brought to the types of the signature."""
        function = FUNCTIONS[name]
        if name in _ADAPTING:
            arguments = adapt_text_literals(arguments)
        signature = function.resolve(tuple(argument.type for argument in arguments))
        if signature is None:
            given = ", ".join(str(argument.type) for argument in arguments)
            shown = function.infix or name
            raise self.source.error(
                "type",
                f"{shown} does not take ({given})",
                node,
                hint=f"usage: {function.usage}; CAST converts",
            )
        coerced = tuple(coerce(a, wanted) for a, wanted in zip(arguments, signature.arguments, strict=True))
        nullable = function.nullable(tuple(argument.nullable for argument in coerced))
        return Call(name, coerced, signature.result, nullable)

    # Special forms

    def _column(self, node: exp.Expr) -> Expression:
        assert isinstance(node, exp.Column)
        if isinstance(node.this, exp.Star):
            raise self.source.error("unsupported", "* cannot stand inside an expression", node)
        if node.args.get("db"):
            raise self.source.error("unsupported", "schema names are not supported", node)
        if self.frame is not None and not self.scope.sees(node):
            outer = self.frame.column(node)
            if outer is not None:
                return outer
        return self.scope.resolve(node, self.source)

    def can_see(self, node: exp.Column) -> bool:
        """Whether the name means something here or further out."""
        return self.scope.sees(node) or (self.frame is not None and self.frame.around.can_see(node))

    def _literal(self, node: exp.Expr) -> Expression:
        assert isinstance(node, exp.Literal)
        return Literal(str(node.this), VARCHAR) if node.is_string else number(str(node.this))

    def _raw_string(self, node: exp.Expr) -> Expression:
        return Literal(str(node.this), VARCHAR)

    def _negative(self, node: exp.Expr) -> Expression:
        """A minus before a number belongs to the number, so that the smallest integers can be written."""
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return number("-" + str(inner.this))
        return self._call("negate", [inner], node)

    def _cast(self, node: exp.Expr) -> Expression:
        target = bind_type(node.args["to"], self.source)
        limit = length_limit(node.args["to"], self.source)
        if limit is not None:  # CAST cuts to the length, as in PostgreSQL
            text = self._cast_to(node, VARCHAR)
            return self.call("left", (text, Literal(limit, INT)), node)
        return self._cast_to(node, target)

    def _cast_to(self, node: exp.Expr, target: Type) -> Expression:
        argument = self.bind(node.this)
        if argument.type.kind is Kind.NULL:
            return coerce(argument, target)
        if is_text_literal(argument) and isinstance(argument, Literal):
            return Literal(read_text(str(argument.value), target), target)
        if argument.type == target:
            return argument
        if not explicit_cast_allowed(argument.type, target):
            raise self.source.error("type", f"a {argument.type} cannot be cast to {target}", node)
        return Cast(argument, target)

    def _is(self, node: exp.Expr) -> Expression:
        right, operand = node.expression, self.bind(node.this)
        prefix = "is_not_" if node.args.get("negate") else "is_"
        if isinstance(right, exp.Null):
            return self.call(f"{prefix}null", (operand,), node)
        if isinstance(right, exp.Boolean):
            return self.call(f"{prefix}{'true' if right.this else 'false'}", (operand,), node)
        raise self._refused(node)

    def _not(self, node: exp.Expr) -> Expression:
        return self._call("not", [node.this], node)

    def _between(self, node: exp.Expr) -> Expression:
        operand = self.bind(node.this)
        low = self.call("ge", (operand, self.bind(node.args["low"])), node)
        high = self.call("le", (operand, self.bind(node.args["high"])), node)
        return self.call("and", (low, high), node)

    def _in(self, node: exp.Expr) -> Expression:
        if node.args.get("query") is not None or node.args.get("unnest") is not None:
            raise self.source.error("unsupported", "IN with a subquery cannot stand here", node)
        return self._call("in_list", [node.this, *node.expressions], node)

    def _like(self, node: exp.Expr) -> Expression:
        return self._pattern("like", node, "\\")

    def _ilike(self, node: exp.Expr) -> Expression:
        return self._pattern("ilike", node, "\\")

    def _escape(self, node: exp.Expr) -> Expression:
        letter = node.expression
        if not (isinstance(letter, exp.Literal) and letter.is_string and len(letter.name) == 1):
            raise self.source.error("unsupported", "ESCAPE takes one literal character", node)
        if not isinstance(node.this, exp.Like | exp.ILike):
            raise self._refused(node)
        return self._pattern("like" if isinstance(node.this, exp.Like) else "ilike", node.this, letter.name)

    def _pattern(self, name: str, node: exp.Expr, escape: str) -> Expression:
        pattern = self.bind(node.expression)
        if not isinstance(pattern, Literal) or pattern.type not in (VARCHAR, NULL):
            raise self.source.error("unsupported", "LIKE takes a literal pattern", node.expression)
        if pattern.value is not None:
            pattern = Literal(canonical_pattern(str(pattern.value), escape), VARCHAR)
        matched = self.call(name, (self.bind(node.this), pattern), node)
        return self.call("not", (matched,), node) if node.args.get("negate") else matched

    def _case(self, node: exp.Expr) -> Expression:
        operand = node.args.get("this")
        conditions, values = [], []
        for branch in node.args["ifs"]:
            if operand is None:
                conditions.append(self.condition(branch.this, "WHEN"))
            else:
                conditions.append(self.call("eq", (self.bind(operand), self.bind(branch.this)), branch))
            values.append(self.bind(branch.args["true"]))
        default = node.args.get("default")
        values.append(Literal(None, NULL) if default is None else self.bind(default))
        return self._case_of(conditions, values, node)

    def _case_of(self, conditions: list[Expression], values: list[Expression], node: exp.Expr) -> Expression:
        adapted = adapt_text_literals(tuple(values))
        target = self.common(adapted, "the branches of CASE", node)
        *results, default = (coerce(value, target) for value in adapted)
        return Case(tuple(zip(conditions, results, strict=True)), default, target)

    def common(self, parts: tuple[Expression, ...], what: str, node: exp.Expr) -> Type:
        target = common_of([part.type for part in parts])
        if target is None or not all(fits_implicitly(p.type, target) or p.type.is_numeric for p in parts):
            given = ", ".join(str(part.type) for part in parts)
            raise self.source.error("type", f"{what} have no common type: {given}", node)
        return target

    def _extract(self, node: exp.Expr) -> Expression:
        return self._by_unit("extract", str(node.this.name), node.expression, node)

    def _truncate(self, node: exp.Expr) -> Expression:
        return self._by_unit("date_trunc", str(node.args["unit"].name), node.this, node)

    def _by_unit(self, family: str, unit: str, operand: exp.Expr, node: exp.Expr) -> Expression:
        name = f"{family}_{unit.lower()}"
        if name not in FUNCTIONS:
            units = ", ".join(sorted(f.removeprefix(family + "_") for f in FUNCTIONS if f.startswith(family + "_")))
            raise self.source.error(
                "unsupported",
                f"the unit {unit} is not supported by {family.upper()}",
                node,
                hint=f"units: {units}",
            )
        return self._call(name, [operand], node)

    def _trim(self, node: exp.Expr) -> Expression:
        characters = node.args.get("expression")
        if characters is not None and not (isinstance(characters, exp.Literal) and characters.name == " "):
            raise self.source.error("unsupported", "TRIM takes away spaces only", node)
        return self._call(_TRIMS[str(node.args.get("position") or "").upper()], [node.this], node)

    def _concat(self, node: exp.Expr) -> Expression:
        """The function concat(): NULLs count as empty text, other types are written as text."""
        result: Expression = Literal("", VARCHAR)
        for part in node.expressions:
            bound = self.bind(part)
            if bound.type != VARCHAR and not explicit_cast_allowed(bound.type, VARCHAR):
                raise self.source.error("type", f"concat does not take {bound.type}", part)
            text = self.call("coalesce", (coerce(bound, VARCHAR), Literal("", VARCHAR)), part)
            result = text if result == Literal("", VARCHAR) else self.call("concat", (result, text), node)
        return result

    def _anonymous(self, node: exp.Expr) -> Expression:
        name = node.name.lower()
        if name not in FUNCTIONS or FUNCTIONS[name].infix is not None:
            raise self._refused(node)
        return self._call(name, list(node.expressions), node)

    def _interval(self, node: exp.Expr) -> Expression:
        raise self.source.error(
            "unsupported", "intervals are not supported yet", node, hint="add days to a DATE: d + 7"
        )

    def _null(self, node: exp.Expr) -> Expression:
        return Literal(None, NULL)

    def _boolean(self, node: exp.Expr) -> Expression:
        return Literal(bool(node.this), BOOLEAN)

    def _paren(self, node: exp.Expr) -> Expression:
        return self.bind(node.this)


_HARMLESS = frozenset({"big_int", "safe", "typed", "dialect", "coerce", "nested", "is_string", "quoted"})


def refuse_other_parts(node: exp.Expr, consumed: tuple[str, ...], source: Source) -> None:
    """Refuse a node that says more than the binder reads.

    sqlglot keeps a NOT, a zone or a modifier as an extra part of the node that it belongs to, so a part that is
    overlooked silently changes the meaning. What is not read is refused.
    """
    extra = [part for part, value in node.args.items() if value and part not in consumed and part not in _HARMLESS]
    if extra:
        words = ", ".join(part.upper().strip("_").replace("_", " ") for part in extra)
        raise source.error("unsupported", f"{words} of {node.key.upper()} is not supported", node)


_Handler = Callable[[ExpressionBinder, exp.Expr], Expression]
_HANDLERS: dict[type[exp.Expr], tuple[_Handler, tuple[str, ...]]] = {
    exp.Column: (ExpressionBinder._column, ("this", "table", "db")),
    exp.Literal: (ExpressionBinder._literal, ("this",)),
    exp.RawString: (ExpressionBinder._raw_string, ("this",)),
    exp.Null: (ExpressionBinder._null, ()),
    exp.Boolean: (ExpressionBinder._boolean, ("this",)),
    exp.Paren: (ExpressionBinder._paren, ("this",)),
    exp.Cast: (ExpressionBinder._cast, ("this", "to")),
    exp.Is: (ExpressionBinder._is, ("this", "expression", "negate")),
    exp.Between: (ExpressionBinder._between, ("this", "low", "high")),
    exp.In: (ExpressionBinder._in, ("this", "expressions", "query", "unnest")),
    exp.Like: (ExpressionBinder._like, ("this", "expression", "negate")),
    exp.ILike: (ExpressionBinder._ilike, ("this", "expression", "negate")),
    exp.Escape: (ExpressionBinder._escape, ("this", "expression")),
    exp.Case: (ExpressionBinder._case, ("this", "ifs", "default")),
    exp.Extract: (ExpressionBinder._extract, ("this", "expression")),
    exp.TimestampTrunc: (ExpressionBinder._truncate, ("this", "unit")),
    exp.DateTrunc: (ExpressionBinder._truncate, ("this", "unit")),
    exp.Trim: (ExpressionBinder._trim, ("this", "expression", "position")),
    exp.Concat: (ExpressionBinder._concat, ("expressions", "coalesce")),
    exp.Anonymous: (ExpressionBinder._anonymous, ("this", "expressions")),
    exp.Interval: (ExpressionBinder._interval, ("this", "unit")),
    exp.Neg: (ExpressionBinder._negative, ("this",)),
    exp.Not: (ExpressionBinder._not, ("this",)),
}
