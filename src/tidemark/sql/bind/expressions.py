"""Binding expressions, casts and literals: from syntax to calls of the function table, with every type settled. A text
or a list under CAST is read as the type, everything else is converted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from tidemark.algebra.coerce import (
    Placeholder,
    Step,
    adapt_text_literals,
    coerce,
    common_of,
    days_beside_dates,
    fits_implicitly,
    folded,
    is_text_literal,
)
from tidemark.algebra.expressions import Call, Case, Cast, Expression, Literal
from tidemark.algebra.functions import FUNCTIONS, explicit_cast_allowed
from tidemark.algebra.plans import Plan
from tidemark.algebra.types import BOOLEAN, DATE, DOUBLE, INT, NULL, TIMESTAMP, TIMESTAMPTZ, VARCHAR, Kind, Type
from tidemark.errors import TidemarkError
from tidemark.sql.bind.scope import Binder, Scope, called
from tidemark.sql.bind.syntax import bind_row_comparison, bind_row_in, members
from tidemark.sql.bind.types import BARE_NUMERIC, bind_type, length_limit, number, read_text
from tidemark.sql.functions.arrays import (
    bind_array,
    bind_array_cat,
    bind_array_length,
    bind_array_to_string,
    bind_contained_by,
    bind_dot,
    bind_null_test,
    bind_place,
    bind_quantified,
    bind_row,
    bind_string_to_array,
    bind_struct,
    field_of,
)
from tidemark.sql.functions.date_formats import bind_to_char
from tidemark.sql.functions.date_texts import bind_to_date, bind_to_timestamp
from tidemark.sql.functions.intervals import is_interval
from tidemark.sql.functions.moments import (
    ALONE,
    bind_at_zone,
    bind_date_add,
    bind_date_bin,
    bind_extract,
    bind_from_epoch,
    bind_interval_comparison,
    bind_shift,
    bind_truncate,
    refuse_difference,
    refuse_interval,
)
from tidemark.sql.functions.nodes import BINARY, BY_PARTS, NAMED, VARIADIC
from tidemark.sql.functions.numbers import bind_div, bind_log, bind_round, bind_trunc, cast_to_numeric, is_bare_numeric
from tidemark.sql.functions.texts import (
    bind_chr,
    bind_collate,
    bind_concat,
    bind_concat_ws,
    bind_dpipe,
    bind_escape,
    bind_format,
    bind_initcap,
    bind_like,
    bind_overlay,
    bind_pad,
    bind_regexp_count,
    bind_regexp_like,
    bind_regexp_replace,
    bind_regexp_substr,
    bind_similar,
    bind_substring,
    bind_trim,
)
from tidemark.sql.parse.lists import Listed
from tidemark.sql.parse.text import Source, fold


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
    if isinstance(argument, Placeholder) and argument.is_text:
        return argument.brought(Step.READ, target)
    if argument.type == target:
        return argument
    if not explicit_cast_allowed(argument.type, target):
        raise binder.source.error("type", f"a {argument.type} cannot be cast to {target}", node)
    return Cast(argument, target)


def bind_literal(binder: Binder, node: exp.Expr) -> Expression:
    assert isinstance(node, exp.Literal)
    return Literal(str(node.this), VARCHAR) if node.is_string else number(str(node.this))


def bind_parameter(binder: Binder, node: exp.Expr) -> Expression:
    """``$n``; other ways to write a parameter are brought to this one before."""
    values = binder.source.values
    if not values or not isinstance(node.this, exp.Literal):
        raise no_value(node, binder.source)
    return values[int(node.name)]


def no_value(node: exp.Expr, source: Source) -> TidemarkError:
    written = f":{node.this}" if isinstance(node, exp.Placeholder) and node.this else "a parameter"
    return source.error("parameter", f"{written} has no value here", node, hint="hand it over, or write it")


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
    if isinstance(inner, exp.Parameter):
        bound = binder.bind(inner)
        if isinstance(bound, Placeholder) and bound.type.is_numeric and not bound.handed:
            return bound.brought(Step.NEGATE, bound.type)
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


_COMPARISONS = frozenset(["eq", "ne", "lt", "le", "gt", "ge", "is_distinct", "is_not_distinct"])
_ADAPTING = _COMPARISONS | {"add", "subtract", "coalesce", "greatest", "least", "nullif", "in_list"}
_OF_TIMES = ("extract_", "date_trunc_", "add_months", "add_days", "add_microseconds", "microseconds_between", "age_")
_LEAVES = (exp.Column, exp.Literal, exp.Null, exp.Boolean)


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
        if self.subqueries is not None and not _is_plain(node):
            subquery = self.subqueries.bind(node, self)
            if subquery is not None:
                return subquery
        try:
            return self._bind(node)
        except TidemarkError as error:
            if error.place is not None:
                raise
            # Errors from the function table know no places: give them this node's.
            raise error.restated(place=self.source.place_of(node)) from error

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
        if kind in BINARY:
            refuse_other_parts(node, ("this", "expression"), self.source)
            return self._binary(BINARY[kind], node)
        if kind in BY_PARTS:
            name, parts = BY_PARTS[kind]
            refuse_other_parts(node, parts, self.source)
            return called(self, name, [node.args[part] for part in parts if node.args.get(part) is not None], node)
        if kind in VARIADIC:
            refuse_other_parts(node, ("this", "expressions", "ignore_nulls"), self.source)
            listed = [node.this, *node.expressions] if node.args.get("this") else list(node.expressions)
            return called(self, VARIADIC[kind], listed, node)
        if kind in _HANDLERS:
            handler, parts = _HANDLERS[kind]
            refuse_other_parts(node, parts, self.source)
            return handler(self, node)
        raise self._refused(node)

    def _refused(self, node: exp.Expr) -> TidemarkError:
        if isinstance(node, exp.Select | exp.Subquery | exp.Exists | exp.SetOperation):
            return self.source.error("unsupported", "a subquery cannot stand here", node)
        if isinstance(node, exp.Func):
            name = node.name if isinstance(node, exp.Anonymous) else self._written_name(node)
            if name.lower() in _NOT_DETERMINISTIC:
                return self.source.error(
                    "not_deterministic",
                    f"{name}() is not deterministic: what is derived from it has no well-defined content",
                    node,
                    hint="compute the value in your program and insert it",
                )
            return self.source.error(
                "unknown_function",
                f"the function {name!r} is not supported",
                node,
                hint="docs/reference/functions.md lists the functions",
            )
        if isinstance(node, exp.Placeholder | exp.Parameter):
            return no_value(node, self.source)
        return self.source.error("unsupported", f"{node.sql('postgres')[:60]!r} is not supported", node)

    def _written_name(self, node: exp.Func) -> str:
        """The name of a function as it was written: the parser has names of its own for some."""
        if "start" not in node.meta:
            return node.sql_name().lower()
        return self.source.text[node.meta["start"] : node.meta["end"] + 1].lower()

    # Calls

    def _binary(self, name: str, node: exp.Expr) -> Expression:
        if name in _COMPARISONS and not _is_plain(node):
            found = (
                bind_row_comparison(self, name, node)
                or bind_interval_comparison(self, name, node)
                or bind_quantified(self, name, node)
            )
            if found is not None:
                return found
        if name in ("add", "subtract", "multiply"):
            shifted = bind_shift(self, name, node)
            if shifted is not None:
                return shifted
        pair = (self.bind(node.this), self.bind(node.expression))
        if name == "subtract":
            refuse_difference(self, pair, node)
        return self.call(name, pair, node)

    def call(self, name: str, arguments: tuple[Expression, ...], node: exp.Expr) -> Expression:
        """A call of the function table, with its arguments brought to the types of the signature."""
        function = FUNCTIONS[name]
        if name in _ADAPTING:
            arguments = days_beside_dates(adapt_text_literals(arguments))
        signature = function.resolve(tuple(argument.type for argument in arguments))
        if signature is None and name.startswith(_OF_TIMES) and any(a.type == TIMESTAMPTZ for a in arguments):
            return self._in_utc(name, arguments, node)
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

    def _in_utc(self, name: str, arguments: tuple[Expression, ...], node: exp.Expr) -> Expression:
        """A function of times, for points in time: of the times that they are in UTC, and so is what it gives."""
        times = tuple(folded(Cast(a, TIMESTAMP)) if a.type == TIMESTAMPTZ else a for a in arguments)
        if FUNCTIONS[name].resolve(tuple(argument.type for argument in times)) is None:
            given = ", ".join(str(argument.type) for argument in arguments)
            shown = FUNCTIONS[name].infix or name
            raise self.source.error("type", f"{shown} does not take ({given})", node, hint="CAST converts")
        found = self.call(name, times, node)
        return coerce(found, TIMESTAMPTZ) if found.type == TIMESTAMP else found

    # Special forms

    def _column(self, node: exp.Expr) -> Expression:
        assert isinstance(node, exp.Column)
        if isinstance(node.this, exp.Star):
            raise self.source.error("unsupported", "* cannot stand inside an expression", node)
        of_struct = self._field_by_dots(node)
        if of_struct is not None:
            return of_struct
        if node.args.get("db"):
            raise self.source.error("unsupported", "schema names are not supported", node)
        if self.frame is not None and not self.scope.sees(node):
            outer = self.frame.column(node)
            if outer is not None:
                return outer
        return self.scope.resolve(node, self.source)

    def _field_by_dots(self, node: exp.Column) -> Expression | None:
        """``s.x`` and ``t.s.x`` of a struct column s, or None. A relation that is named s goes before the column."""
        column, relation = node.args.get("table"), node.args.get("db")
        if column is None or (relation is None and self._knows(fold(column))):
            return None
        whole = exp.Column(this=column.copy(), table=None if relation is None else relation.copy())
        if not self.can_see(whole):
            return None
        bound = self.bind(whole)
        return field_of(self, bound, fold(node.this), node) if bound.type.fields else None

    def _knows(self, relation: str) -> bool:
        return relation in self.scope.relations or (self.frame is not None and self.frame.around._knows(relation))

    def can_see(self, node: exp.Column) -> bool:
        """Whether the name means something here or further out."""
        return self.scope.sees(node) or (self.frame is not None and self.frame.around.can_see(node))

    def _is(self, node: exp.Expr) -> Expression:
        right, operand = node.expression, self.bind(node.this)
        prefix = "is_not_" if node.args.get("negate") else "is_"
        if isinstance(right, exp.Null) and operand.type.fields:
            return bind_null_test(self, operand, node, negate=bool(node.args.get("negate")))
        if isinstance(right, exp.Null):
            return self.call(f"{prefix}null", (operand,), node)
        if isinstance(right, exp.Boolean):
            return self.call(f"{prefix}{'true' if right.this else 'false'}", (operand,), node)
        raise self._refused(node)

    def _between(self, node: exp.Expr) -> Expression:
        if is_interval(node.this) and not node.args.get("symmetric"):
            above = self._binary("ge", exp.GTE(this=node.this.copy(), expression=node.args["low"].copy()))
            below = self._binary("le", exp.LTE(this=node.this.copy(), expression=node.args["high"].copy()))
            return self.call("and", (above, below), node)
        operand = self.bind(node.this)
        low = self.call("ge", (operand, self.bind(node.args["low"])), node)
        high = self.call("le", (operand, self.bind(node.args["high"])), node)
        inside = self.call("and", (low, high), node)
        if not node.args.get("symmetric"):
            return inside
        above = self.call("ge", (operand, self.bind(node.args["high"])), node)
        below = self.call("le", (operand, self.bind(node.args["low"])), node)
        return self.call("or", (inside, self.call("and", (above, below), node)), node)

    def _in(self, node: exp.Expr) -> Expression:
        if node.args.get("query") is not None or node.args.get("unnest") is not None:
            raise self.source.error("unsupported", "IN with a subquery cannot stand here", node)
        listed = Listed.of(node.expressions, self.source)
        if listed is not None:
            node = exp.In(this=node.this, expressions=listed.rows()[0].expressions)
        return bind_row_in(self, node) or called(self, "in_list", [node.this, *node.expressions], node)

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
        return self.case_of(conditions, values, node)

    def case_of(self, conditions: list[Expression], values: list[Expression], node: exp.Expr) -> Expression:
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

    def _anonymous(self, node: exp.Expr) -> Expression:
        name = node.name.lower()
        if name in NAMED:
            return NAMED[name](self, node)
        if name not in FUNCTIONS or not FUNCTIONS[name].usage.startswith(f"{name}("):
            raise self._refused(node)
        return called(self, name, list(node.expressions), node)

    def _if(self, node: exp.Expr) -> Expression:
        """if(condition, a, b), as other dialects write CASE."""
        condition = self.condition(node.this, "IF")
        otherwise = node.args.get("false")
        last = Literal(None, NULL) if otherwise is None else self.bind(otherwise)
        return self.case_of([condition], [self.bind(node.args["true"]), last], node)

    def _paren(self, node: exp.Expr) -> Expression:
        return self.bind(node.this)


_NOT_DETERMINISTIC = frozenset(
    (
        "rand",
        "random",
        "setseed",
        "uuid",
        "gen_random_uuid",
        "uuid_generate_v4",
        "clock_timestamp",
        "timeofday",
        "nextval",
        "txid_current",
    )
)
CURRENT = (exp.CurrentTimestamp, exp.CurrentDate, exp.Localtimestamp)
_HARMLESS = frozenset({"big_int", "safe", "typed", "dialect", "coerce", "nested", "is_string", "quoted"})


def _is_plain(node: exp.Expr) -> bool:
    """Whether this is a leaf, or an operator over two: no subquery, row or interval can be written there."""
    if type(node) in BINARY:
        return isinstance(node.this, _LEAVES) and isinstance(node.expression, _LEAVES)
    return isinstance(node, _LEAVES)


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
    exp.Literal: (bind_literal, ("this",)),
    exp.Parameter: (bind_parameter, ("this",)),
    exp.RawString: (bind_raw_string, ("this",)),
    exp.Null: (bind_null, ()),
    **{kind: (bind_current, ()) for kind in CURRENT},
    exp.Boolean: (bind_boolean, ("this",)),
    exp.Paren: (ExpressionBinder._paren, ("this",)),
    exp.Cast: (bind_cast, ("this", "to")),
    exp.Is: (ExpressionBinder._is, ("this", "expression", "negate")),
    exp.Between: (ExpressionBinder._between, ("this", "low", "high", "symmetric")),
    exp.In: (ExpressionBinder._in, ("this", "expressions", "query", "unnest")),
    exp.Like: (bind_like, ("this", "expression", "negate")),
    exp.ILike: (bind_like, ("this", "expression", "negate")),
    exp.Escape: (bind_escape, ("this", "expression")),
    exp.SimilarTo: (bind_similar, ("this", "expression")),
    exp.RegexpLike: (bind_regexp_like, ("this", "expression", "flag")),
    exp.RegexpILike: (bind_regexp_like, ("this", "expression")),
    exp.RegexpReplace: (bind_regexp_replace, ("this", "expression", "replacement", "modifiers", "single_replace")),
    exp.RegexpSubstr: (bind_regexp_substr, ("this", "expression")),
    exp.RegexpCount: (bind_regexp_count, ("this", "expression")),
    exp.Array: (bind_array, ("expressions", "value_constructor", "bracket_notation")),
    exp.Bracket: (bind_place, ("this", "expressions")),
    exp.ArrayConcat: (bind_array_cat, ("this", "expressions")),
    exp.ArraySize: (bind_array_length, ("this", "expression")),
    exp.ArrayContainedBy: (bind_contained_by, ("this", "expression")),
    exp.ArrayToString: (bind_array_to_string, ("this", "expression", "null")),
    exp.StringToArray: (bind_string_to_array, ("this", "expression", "null")),
    exp.Struct: (bind_struct, ("expressions",)),
    exp.Tuple: (bind_row, ("expressions",)),
    exp.Dot: (bind_dot, ("this", "expression")),
    exp.Round: (bind_round, ("this", "decimals")),
    exp.Trunc: (bind_trunc, ("this", "decimals")),
    exp.Log: (bind_log, ("this", "expression")),
    exp.TimeToStr: (bind_to_char, ("this", "format")),
    exp.StrToDate: (bind_to_date, ("this", "format")),
    exp.StrToTime: (bind_to_timestamp, ("this", "format")),
    exp.UnixToTime: (bind_from_epoch, ("this",)),
    exp.DateBin: (bind_date_bin, ("this", "expression", "unit")),
    exp.Format: (bind_format, ("this", "expressions")),
    exp.DateAdd: (bind_date_add, ("this", "expression")),
    exp.DateSub: (bind_date_add, ("this", "expression")),
    exp.Substring: (bind_substring, ("this", "start", "length")),
    exp.Overlay: (bind_overlay, ("this", "expression", "from_", "for_")),
    exp.DPipe: (bind_dpipe, ("this", "expression")),
    exp.ConcatWs: (bind_concat_ws, ("expressions", "coalesce")),
    exp.Pad: (bind_pad, ("this", "expression", "fill_pattern", "is_left")),
    exp.Chr: (bind_chr, ("expressions",)),
    exp.Initcap: (bind_initcap, ("this", "expression")),
    exp.Pi: (bind_pi, ()),
    exp.Collate: (bind_collate, ("this", "expression")),
    exp.ByteString: (bind_raw_string, ("this",)),
    exp.Case: (ExpressionBinder._case, ("this", "ifs", "default")),
    exp.AtTimeZone: (bind_at_zone, ("this", "zone")),
    exp.Extract: (bind_extract, ("this", "expression")),
    exp.TimestampTrunc: (bind_truncate, ("this", "unit")),
    exp.DateTrunc: (bind_truncate, ("this", "unit")),
    exp.Trim: (bind_trim, ("this", "expression", "position")),
    exp.Concat: (bind_concat, ("expressions", "coalesce")),
    exp.Anonymous: (ExpressionBinder._anonymous, ("this", "expressions")),
    exp.If: (ExpressionBinder._if, ("this", "true", "false")),
    exp.Interval: (refuse_interval, ("this", "unit")),
    exp.MakeInterval: (refuse_interval, tuple(exp.MakeInterval.arg_types)),
    exp.Neg: (bind_negative, ("this",)),
}
