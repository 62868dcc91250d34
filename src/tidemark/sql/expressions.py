"""Binding expressions: from syntax to calls of the function table, with every type settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from tidemark.algebra.expressions import Call, Case, Expression, Literal
from tidemark.algebra.functions import FUNCTIONS
from tidemark.algebra.plans import Plan
from tidemark.algebra.types import BOOLEAN, NULL, Kind, Type
from tidemark.errors import TidemarkError
from tidemark.sql.arrays import (
    bind_array,
    bind_array_cat,
    bind_array_length,
    bind_array_to_string,
    bind_contained_by,
    bind_place,
    bind_quantified,
    bind_string_to_array,
)
from tidemark.sql.binding import called
from tidemark.sql.casting import bind_cast
from tidemark.sql.coerce import (
    adapt_text_literals,
    coerce,
    common_of,
    days_beside_dates,
    fits_implicitly,
)
from tidemark.sql.constants import (
    bind_boolean,
    bind_current,
    bind_literal,
    bind_negative,
    bind_null,
    bind_pi,
    bind_raw_string,
)
from tidemark.sql.formats import bind_to_char
from tidemark.sql.function_nodes import BINARY, BY_PARTS, VARIADIC
from tidemark.sql.intervals import is_interval
from tidemark.sql.matching import (
    bind_escape,
    bind_like,
    bind_regexp_count,
    bind_regexp_like,
    bind_regexp_replace,
    bind_regexp_substr,
    bind_similar,
)
from tidemark.sql.moments import (
    bind_date_add,
    bind_date_bin,
    bind_from_epoch,
    bind_interval_comparison,
    bind_shift,
    refuse_difference,
    refuse_interval,
)
from tidemark.sql.named import NAMED
from tidemark.sql.quoting import bind_format
from tidemark.sql.rounding import bind_log, bind_round, bind_trunc
from tidemark.sql.rowvalues import bind_row_comparison, bind_row_in
from tidemark.sql.scope import Scope
from tidemark.sql.structs import bind_dot, bind_null_test, bind_row, bind_struct, field_of
from tidemark.sql.text import Source, fold
from tidemark.sql.texts import (
    bind_chr,
    bind_collate,
    bind_concat,
    bind_concat_ws,
    bind_dpipe,
    bind_initcap,
    bind_overlay,
    bind_pad,
    bind_substring,
    bind_trim,
)
from tidemark.sql.timetexts import bind_to_date, bind_to_timestamp
from tidemark.sql.units import bind_extract, bind_truncate

_COMPARISONS = frozenset(["eq", "ne", "lt", "le", "gt", "ge", "is_distinct", "is_not_distinct"])
_ADAPTING = _COMPARISONS | {"add", "subtract", "coalesce", "greatest", "least", "nullif", "in_list"}


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
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name().lower()
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
        return self.source.error("unsupported", f"{node.sql('postgres')[:60]!r} is not supported", node)

    # Calls

    def _binary(self, name: str, node: exp.Expr) -> Expression:
        if name in _COMPARISONS:
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
