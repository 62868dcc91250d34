"""Which function of the table a node of sqlglot is a call of, and functions that it has no node for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from tidemark.algebra.expressions import Expression, Literal
from tidemark.algebra.functions.patterns import MOST_GROUPS
from tidemark.algebra.types import INT, VARCHAR
from tidemark.sql.bind.scope import Binder
from tidemark.sql.functions import regexes
from tidemark.sql.functions.arrays import bind_row
from tidemark.sql.functions.moments import ALONE
from tidemark.sql.functions.texts import (
    bind_quote_literal,
    bind_quote_nullable,
    literal_text,
    matching_flags,
    needs_text,
)


def _one(binder: Binder, node: exp.Expr) -> Expression:
    if len(node.expressions) != 1:
        raise binder.source.error("type", f"{node.name} takes one value", node)
    return binder.bind(node.expressions[0])


def _isfinite(binder: Binder, node: exp.Expr) -> Expression:
    """There are no infinite moments here; of NULL it is unknown."""
    moment = _one(binder, node)
    if not moment.type.is_time:
        raise binder.source.error("type", f"isfinite takes a DATE or TIMESTAMP, this is a {moment.type}", node)
    return binder.call("eq", (moment, moment), node)


def _count_of(test: str) -> Callable[[Binder, exp.Expr], Expression]:
    def bind(binder: Binder, node: exp.Expr) -> Expression:
        """num_nulls and num_nonnulls."""
        result: Expression = Literal(0, INT)
        for place, part in enumerate(node.expressions):
            found = binder.call(test, (binder.bind(part),), part)
            one = binder.case_of([found], [Literal(1, INT), Literal(0, INT)], part)
            result = one if place == 0 else binder.call("add", (result, one), node)
        return result

    return bind


def _end_of_array(name: str) -> Callable[[Binder, exp.Expr], Expression]:
    def bind(binder: Binder, node: exp.Expr) -> Expression:
        """array_upper, array_lower and array_ndims: NULL for an empty array, as in PostgreSQL."""
        given = node.expressions
        wanted = 1 if name == "array_ndims" else 2
        if len(given) != wanted or (wanted == 2 and not (isinstance(given[1], exp.Literal) and given[1].name == "1")):
            hint = "array_ndims(a)" if wanted == 1 else f"{name}(a, 1)"
            raise binder.source.error("unsupported", "arrays have one dimension", node, hint=hint)
        count = binder.call("cardinality", (binder.bind(given[0]),), node)
        if name == "array_upper":
            return binder.call("nullif", (count, Literal(0, INT)), node)
        some = binder.call("gt", (count, Literal(0, INT)), node)
        return binder.case_of([some], [Literal(1, INT), Literal(None, INT)], node)

    return bind


def _regex(binder: Binder, node: exp.Expr) -> tuple[Expression, Literal, regexes.Regex]:
    """The text, the pattern and the parsed pattern of a call with a text, a pattern and perhaps flags."""
    if len(node.expressions) not in (2, 3):
        raise binder.source.error("type", f"{node.name} takes a text, a pattern and perhaps flags", node)
    text, pattern, *flags = node.expressions
    fold = "i" in matching_flags(binder, flags[0] if flags else None, "ic")
    regex = regexes.parse(literal_text(binder, pattern), fold_case=fold)
    return binder.bind(text), Literal(regex.text, VARCHAR), regex


def _regexp_match(binder: Binder, node: exp.Expr) -> Expression:
    """What the groups of the first match are, or all of it if there are none; NULL if nothing matches."""
    text, pattern, regex = _regex(binder, node)
    if regex.groups > MOST_GROUPS:
        raise binder.source.error("unsupported", f"a pattern has at most {MOST_GROUPS} groups here", node)
    if len(regex.sure) < regex.groups:
        raise binder.source.error("unsupported", "parentheses that may match nothing have no one meaning here", node)
    names = ["regexp_substr"]
    if regex.groups:
        names = ["regexp_substr_group", *(f"regexp_substr_group_{n}" for n in range(2, regex.groups + 1))]
    parts = tuple(binder.call(name, (text, pattern), node) for name in names)
    array = binder.call("array", parts, node)
    found = binder.call("regexp_like", (text, pattern), node)
    return binder.case_of([found], [array, Literal(None, array.type)], node)


def _regexp_split(binder: Binder, node: exp.Expr) -> Expression:
    text, pattern, regex = _regex(binder, node)
    needs_text(binder, regex, node)
    return binder.call("regexp_split_to_array", (text, pattern), node)


def _interval(binder: Binder, node: exp.Expr) -> Expression:
    hint = "EXTRACT(YEAR FROM AGE(a, b)), AGE(a, b) > INTERVAL '18 years', or a + INTERVAL '1 day'"
    raise binder.source.error("unsupported", ALONE, node, hint=hint)


def _quote_ident(binder: Binder, node: exp.Expr) -> Expression:
    message = "quote_ident is not supported: which names need quotes depends on the version of PostgreSQL"
    raise binder.source.error("unsupported", message, node)


NAMED: Final[dict[str, Callable[[Binder, exp.Expr], Expression]]] = {
    "age": _interval,
    "array_lower": _end_of_array("array_lower"),
    "array_ndims": _end_of_array("array_ndims"),
    "array_upper": _end_of_array("array_upper"),
    "isfinite": _isfinite,
    "num_nonnulls": _count_of("is_not_null"),
    "num_nulls": _count_of("is_null"),
    "quote_ident": _quote_ident,
    "quote_literal": bind_quote_literal,
    "quote_nullable": bind_quote_nullable,
    "regexp_match": _regexp_match,
    "row": bind_row,
    "regexp_split_to_array": _regexp_split,
}
"""By the name in lower case."""


BINARY: Final[dict[type[exp.Expr], str]] = {
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
BY_PARTS: Final[dict[type[exp.Expr], tuple[str, tuple[str, ...]]]] = {
    exp.Not: ("not", ("this",)),
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
"""The function, and the parts of the node that are its arguments, in their order."""
VARIADIC: Final[dict[type[exp.Expr], str]] = {
    exp.Coalesce: "coalesce",
    exp.Greatest: "greatest",
    exp.Least: "least",
}
