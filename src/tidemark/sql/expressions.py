"""Binding expressions: from syntax to calls of the function table, with every type settled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from tidemark.algebra.expressions import Call, Case, Cast, Expression, Literal
from tidemark.algebra.functions import FUNCTIONS, explicit_cast_allowed
from tidemark.algebra.plans import Plan
from tidemark.algebra.types import BOOLEAN, DATE, DOUBLE, INT, NULL, TIMESTAMP, VARCHAR, Kind, Type
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
    joined_arrays,
)
from tidemark.sql.coerce import (
    adapt_text_literals,
    coerce,
    common_of,
    days_beside_dates,
    fits_implicitly,
    is_text_literal,
)
from tidemark.sql.formats import bind_to_char
from tidemark.sql.intervals import is_interval
from tidemark.sql.literals import number, read_text
from tidemark.sql.matching import (
    bind_escape,
    bind_like,
    bind_regexp_count,
    bind_regexp_like,
    bind_regexp_replace,
    bind_regexp_substr,
    bind_similar,
    bind_substring_from,
)
from tidemark.sql.moments import (
    ALONE,
    bind_date_add,
    bind_date_bin,
    bind_extract_of_interval,
    bind_from_epoch,
    bind_interval_comparison,
    bind_shift,
    refuse_difference,
)
from tidemark.sql.named import NAMED
from tidemark.sql.quoting import bind_format, text_of
from tidemark.sql.rounding import bind_div, bind_log, bind_round, bind_trunc, cast_to_numeric, is_bare_numeric
from tidemark.sql.rowvalues import bind_row_comparison, bind_row_in, members
from tidemark.sql.scope import Scope
from tidemark.sql.structs import bind_dot, bind_null_test, bind_row, bind_struct, field_of
from tidemark.sql.text import Source, fold
from tidemark.sql.timetexts import bind_to_date, bind_to_timestamp
from tidemark.sql.types import BARE_NUMERIC, bind_type, length_limit

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
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseXor: "bit_xor",
    exp.BitwiseLeftShift: "shift_left",
    exp.BitwiseRightShift: "shift_right",
    exp.Pow: "power",
}
_NAMED: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Abs: ("abs", ("this",)),
    exp.Sign: ("sign", ("this",)),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StrPosition: ("position", ("this", "substr")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.EndsWith: ("ends_with", ("this", "expression")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.Translate: ("translate", ("this", "from_", "to")),
    exp.Ascii: ("ascii", ("this",)),
    exp.BitLength: ("bit_length", ("this",)),
    exp.MD5: ("md5", ("this",)),
    exp.BitwiseNot: ("bit_not", ("this",)),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Cbrt: ("cbrt", ("this",)),
    exp.Exp: ("exp", ("this",)),
    exp.Ln: ("ln", ("this",)),
    exp.Sin: ("sin", ("this",)),
    exp.Cos: ("cos", ("this",)),
    exp.Tan: ("tan", ("this",)),
    exp.Asin: ("asin", ("this",)),
    exp.Acos: ("acos", ("this",)),
    exp.Atan: ("atan", ("this",)),
    exp.Atan2: ("atan2", ("this", "expression")),
    exp.Degrees: ("degrees", ("this",)),
    exp.Radians: ("radians", ("this",)),
    exp.Reverse: ("reverse", ("this",)),
    exp.Repeat: ("repeat", ("this", "times")),
    exp.Nullif: ("nullif", ("this", "expression")),
    exp.ArrayPosition: ("array_position", ("this", "expression")),
    exp.ArrayAppend: ("array_append", ("this", "expression")),
    exp.ArrayPrepend: ("array_prepend", ("expression", "this")),
    exp.ArrayRemove: ("array_remove", ("this", "expression")),
    exp.ArrayContainsAll: ("array_contains_all", ("this", "expression")),
    exp.ArrayOverlaps: ("array_overlaps", ("this", "expression")),
    exp.DateFromParts: ("make_date", ("year", "month", "day")),
    exp.TimestampFromParts: ("make_timestamp", ("year", "month", "day", "hour", "min", "sec")),
    exp.Year: ("extract_year", ("this",)),
    exp.Quarter: ("extract_quarter", ("this",)),
    exp.Month: ("extract_month", ("this",)),
    exp.Day: ("extract_day", ("this",)),
    exp.DayOfMonth: ("extract_day", ("this",)),
    exp.Hour: ("extract_hour", ("this",)),
    exp.Minute: ("extract_minute", ("this",)),
    exp.WidthBucket: ("width_bucket", ("this", "min_value", "max_value", "num_buckets")),
    exp.Hex: ("to_hex", ("this",)),
}
_VARIADIC: dict[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Greatest: "greatest",
    exp.Least: "least",
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "trim", "": "trim"}
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
        if kind in _BINARY:
            refuse_other_parts(node, ("this", "expression"), self.source)
            return self._binary(_BINARY[kind], node)
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

    def _call(self, name: str, nodes: list[exp.Expr], node: exp.Expr) -> Expression:
        return self.call(name, tuple(self.bind(part) for part in nodes), node)

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
        if is_interval(node):
            raise self.source.error("unsupported", ALONE, node)
        if is_bare_numeric(node.args["to"]):
            if isinstance(node.this, exp.IntDiv):  # what sqlglot makes of div(a, b)
                return bind_div(self, node.this)
            return self._cast_to(node, BARE_NUMERIC)
        target = bind_type(node.args["to"], self.source)
        limit = length_limit(node.args["to"], self.source)
        if limit is not None:  # CAST cuts to the length, as in PostgreSQL
            text = self._cast_to(node, VARCHAR)
            return self.call("left", (text, Literal(limit, INT)), node)
        return self._cast_to(node, target)

    def _cast_to(self, node: exp.Expr, target: Type) -> Expression:
        if target.element is not None and isinstance(node.this, exp.Array) and not node.this.expressions:
            return Literal((), target)
        parts = members(node.this)
        if target.fields and parts is not None and len(parts) == len(target.fields):
            cast = tuple(self._converted(self.bind(p), t, node) for p, t in zip(parts, target.parts, strict=True))
            return Call("struct", cast, target, nullable=False)
        return self._converted(self.bind(node.this), target, node)

    def _converted(self, argument: Expression, target: Type, node: exp.Expr) -> Expression:
        if argument.type.kind is Kind.NULL:
            return coerce(argument, target)
        if is_bare_numeric(node.args["to"]) and explicit_cast_allowed(argument.type, target):
            return cast_to_numeric(argument)
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
        if isinstance(right, exp.Null) and operand.type.fields:
            return bind_null_test(self, operand, node, negate=bool(node.args.get("negate")))
        if isinstance(right, exp.Null):
            return self.call(f"{prefix}null", (operand,), node)
        if isinstance(right, exp.Boolean):
            return self.call(f"{prefix}{'true' if right.this else 'false'}", (operand,), node)
        raise self._refused(node)

    def _not(self, node: exp.Expr) -> Expression:
        return self._call("not", [node.this], node)

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
        return bind_row_in(self, node) or self._call("in_list", [node.this, *node.expressions], node)

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

    def _extract(self, node: exp.Expr) -> Expression:
        found = bind_extract_of_interval(self, node)
        if found is not None:
            return found
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
        parts = [node.this] if characters is None else [node.this, characters]
        return self._call(_TRIMS[str(node.args.get("position") or "").upper()], parts, node)

    def _substring(self, node: exp.Expr) -> Expression:
        start, length = node.args.get("start"), node.args.get("length")
        if start is not None and start.is_string:
            if length is not None:
                raise self.source.error("unsupported", "substring with an escape is not supported", node)
            return bind_substring_from(self, node)
        parts = [node.args[part] for part in ("this", "start", "length") if node.args.get(part) is not None]
        return self._call("substring", parts, node)

    def _overlay(self, node: exp.Expr) -> Expression:
        """The text before the place, the new text, and the text after as many characters as are replaced."""
        text, new, start = (self.bind(node.args[part]) for part in ("this", "expression", "from_"))
        count = node.args.get("for_")
        length = self.call("length", (new,), node) if count is None else self.bind(count)
        one = Literal(1, INT)
        before = self.call("substring", (text, one, self.call("subtract", (start, one), node)), node)
        after = self.call("substring", (text, self.call("add", (start, length), node)), node)
        return self.call("concat", (self.call("concat", (before, new), node), after), node)

    def _dpipe(self, node: exp.Expr) -> Expression:
        """Text beside text; a value of another type beside a text is written as text. Arrays are joined."""
        sides = [self.bind(node.this), self.bind(node.expression)]
        if any(side.type.element is not None for side in sides):
            return joined_arrays(self, (sides[0], sides[1]), node)
        if any(side.type in (VARCHAR, NULL) for side in sides):
            sides = [text_of(self, side, node) for side in sides]
        return self.call("concat", tuple(sides), node)

    def _concat_ws(self, node: exp.Expr) -> Expression:
        return self.call("concat_ws", tuple(text_of(self, self.bind(part), part) for part in node.expressions), node)

    def _pad(self, node: exp.Expr) -> Expression:
        parts = [node.args[part] for part in ("this", "expression", "fill_pattern") if node.args.get(part) is not None]
        return self._call("lpad" if node.args.get("is_left") else "rpad", parts, node)

    def _chr(self, node: exp.Expr) -> Expression:
        return self._call("chr", list(node.expressions), node)

    def _initcap(self, node: exp.Expr) -> Expression:
        return self._call("initcap", [node.this], node)

    def _pi(self, node: exp.Expr) -> Expression:
        return Literal(math.pi, DOUBLE)

    def _collate(self, node: exp.Expr) -> Expression:
        if node.expression.name != "C":
            raise self.source.error("unsupported", 'text is compared by code points: COLLATE "C" only', node)
        return self.bind(node.this)

    def _concat(self, node: exp.Expr) -> Expression:
        """The function concat(): NULLs count as empty text, other types are written as text."""
        result: Expression = Literal("", VARCHAR)
        for part in node.expressions:
            bound = text_of(self, self.bind(part), part)
            text = self.call("coalesce", (bound, Literal("", VARCHAR)), part)
            result = text if result == Literal("", VARCHAR) else self.call("concat", (result, text), node)
        return result

    def _anonymous(self, node: exp.Expr) -> Expression:
        name = node.name.lower()
        if name in NAMED:
            return NAMED[name](self, node)
        if name not in FUNCTIONS or not FUNCTIONS[name].usage.startswith(f"{name}("):
            raise self._refused(node)
        return self._call(name, list(node.expressions), node)

    def _if(self, node: exp.Expr) -> Expression:
        """if(condition, a, b), as other dialects write CASE."""
        condition = self.condition(node.this, "IF")
        otherwise = node.args.get("false")
        last = Literal(None, NULL) if otherwise is None else self.bind(otherwise)
        return self.case_of([condition], [self.bind(node.args["true"]), last], node)

    def _interval(self, node: exp.Expr) -> Expression:
        raise self.source.error("unsupported", ALONE, node, hint="a + INTERVAL '1 day'")

    def _current(self, node: exp.Expr) -> Expression:
        """NOW() and CURRENT_DATE in a statement that runs once: the time at which it began."""
        if self.source.now is None:
            raise self.source.error(
                "not_deterministic",
                "in a view NOW() can stand in WHERE alone: elsewhere every row would change all the time",
                node,
                hint="compare a column with it: WHERE t > NOW() - INTERVAL '1 hour'",
            )
        now = self.source.now
        return Literal(now.date(), DATE) if isinstance(node, exp.CurrentDate) else Literal(now, TIMESTAMP)

    def _null(self, node: exp.Expr) -> Expression:
        return Literal(None, NULL)

    def _boolean(self, node: exp.Expr) -> Expression:
        return Literal(bool(node.this), BOOLEAN)

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
    exp.Literal: (ExpressionBinder._literal, ("this",)),
    exp.RawString: (ExpressionBinder._raw_string, ("this",)),
    exp.Null: (ExpressionBinder._null, ()),
    **{kind: (ExpressionBinder._current, ()) for kind in CURRENT},
    exp.Boolean: (ExpressionBinder._boolean, ("this",)),
    exp.Paren: (ExpressionBinder._paren, ("this",)),
    exp.Cast: (ExpressionBinder._cast, ("this", "to")),
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
    exp.Substring: (ExpressionBinder._substring, ("this", "start", "length")),
    exp.Overlay: (ExpressionBinder._overlay, ("this", "expression", "from_", "for_")),
    exp.DPipe: (ExpressionBinder._dpipe, ("this", "expression")),
    exp.ConcatWs: (ExpressionBinder._concat_ws, ("expressions", "coalesce")),
    exp.Pad: (ExpressionBinder._pad, ("this", "expression", "fill_pattern", "is_left")),
    exp.Chr: (ExpressionBinder._chr, ("expressions",)),
    exp.Initcap: (ExpressionBinder._initcap, ("this", "expression")),
    exp.Pi: (ExpressionBinder._pi, ()),
    exp.Collate: (ExpressionBinder._collate, ("this", "expression")),
    exp.ByteString: (ExpressionBinder._raw_string, ("this",)),
    exp.Case: (ExpressionBinder._case, ("this", "ifs", "default")),
    exp.Extract: (ExpressionBinder._extract, ("this", "expression")),
    exp.TimestampTrunc: (ExpressionBinder._truncate, ("this", "unit")),
    exp.DateTrunc: (ExpressionBinder._truncate, ("this", "unit")),
    exp.Trim: (ExpressionBinder._trim, ("this", "expression", "position")),
    exp.Concat: (ExpressionBinder._concat, ("expressions", "coalesce")),
    exp.Anonymous: (ExpressionBinder._anonymous, ("this", "expressions")),
    exp.If: (ExpressionBinder._if, ("this", "true", "false")),
    exp.Interval: (ExpressionBinder._interval, ("this", "unit")),
    exp.MakeInterval: (ExpressionBinder._interval, tuple(exp.MakeInterval.arg_types)),
    exp.Neg: (ExpressionBinder._negative, ("this",)),
    exp.Not: (ExpressionBinder._not, ("this",)),
}
