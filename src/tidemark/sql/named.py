"""Functions that sqlglot has no node of its own for, and that mean an expression of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from tidemark.algebra.expressions import Expression, Literal
from tidemark.algebra.functions.regexes import MOST_GROUPS
from tidemark.algebra.types import INT, VARCHAR
from tidemark.sql import regexes
from tidemark.sql.binding import Binder
from tidemark.sql.matching import literal_text, matching_flags, needs_text
from tidemark.sql.moments import ALONE
from tidemark.sql.quoting import bind_quote_literal, bind_quote_nullable
from tidemark.sql.structs import bind_row


def _one(binder: Binder, node: exp.Expr) -> Expression:
    if len(node.expressions) != 1:
        raise binder.source.error("type", f"{node.name} takes one value", node)
    return binder.bind(node.expressions[0])


def _isfinite(binder: Binder, node: exp.Expr) -> Expression:
    """There are no infinite moments here; of NULL it is unknown."""
    moment = _one(binder, node)
    if not moment.type.is_temporal:
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
