"""format(), quote_literal and quote_nullable: text put together from values."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from tidemark.algebra.expressions import Expression, Literal
from tidemark.algebra.functions import explicit_cast_allowed
from tidemark.algebra.types import INT, NULL, VARCHAR
from tidemark.sql.binding import Binder
from tidemark.sql.coerce import coerce, folded

_SPECIFIER: Final = re.compile(r"%(?:%|(?:(\d+)\$)?(-)?(\d+)?([sIL]))")


def text_of(binder: Binder, bound: Expression, node: exp.Expr) -> Expression:
    """The value as text, if it has one text."""
    if bound.type != VARCHAR and not explicit_cast_allowed(bound.type, VARCHAR):
        hint = "round it: a::DECIMAL(12,2)"
        raise binder.source.error("type", f"a {bound.type} has no one text", node, hint=hint)
    return coerce(bound, VARCHAR)


def bind_format(binder: Binder, node: exp.Expr) -> Expression:
    """``%s``, ``%L`` and ``%%``, with ``%2$s`` for the second value, ``%10s`` and ``%-10s`` for a width."""
    written = folded(binder.bind(node.this))
    if not isinstance(written, Literal) or written.type not in (VARCHAR, NULL):
        raise binder.source.error("unsupported", "format takes a literal text", node.this)
    if written.value is None:
        return Literal(None, VARCHAR)
    values = [text_of(binder, binder.bind(part), part) for part in node.expressions]
    parts: list[Expression] = []
    position = following = 0
    text = str(written.value)
    while position < len(text):
        found = _SPECIFIER.match(text, position)
        if found is None and text[position] == "%":
            hint = "%s, %L, %%, %2$s, %10s"
            raise binder.source.error("unsupported", f"{text[position:]!r} in format is not supported", node, hint=hint)
        if found is None or found[0] == "%%":
            end = text.find("%", position) if found is None else position + 1
            end = len(text) if end < 0 else end
            parts.append(Literal(text[position:end], VARCHAR))
            position = end if found is None else found.end()
            continue
        position = found.end()
        place = int(found[1]) if found[1] else following + 1
        if not 1 <= place <= len(values):
            raise binder.source.error("type", f"format has no value {place}", node)
        following = place
        parts.append(_formatted(binder, values[place - 1], found, node))
    return _joined(binder, parts, node)


def _formatted(binder: Binder, value: Expression, found: re.Match[str], node: exp.Expr) -> Expression:
    _, left, width, kind = found.groups()
    if kind == "I":
        raise binder.source.error(
            "unsupported",
            "%I is not supported: which names need quotes depends on the version of PostgreSQL",
            node,
            hint="%s writes the name as it is",
        )
    text = quoted(binder, value, node, "NULL") if kind == "L" else _or_else(binder, value, "", node)
    if width is None:
        return text
    length = binder.call("length", (text,), node)
    wanted = folded(binder.call("greatest", (length, Literal(int(width), INT)), node))
    return binder.call("rpad" if left else "lpad", (text, wanted), node)


def bind_quote_literal(binder: Binder, node: exp.Expr) -> Expression:
    return _quote(binder, node, None)


def bind_quote_nullable(binder: Binder, node: exp.Expr) -> Expression:
    return _quote(binder, node, "NULL")


def _quote(binder: Binder, node: exp.Expr, for_null: str | None) -> Expression:
    if len(node.expressions) != 1:
        raise binder.source.error("type", f"{node.name} takes one value", node)
    (part,) = node.expressions
    return quoted(binder, text_of(binder, binder.bind(part), part), node, for_null)


def quoted(binder: Binder, text: Expression, node: exp.Expr, for_null: str | None) -> Expression:
    """The text between quotes, with quotes doubled; with E before it and backslashes doubled if it has such."""

    def replaced(inner: Expression, letter: str) -> Expression:
        return binder.call("replace", (inner, Literal(letter, VARCHAR), Literal(letter * 2, VARCHAR)), node)

    inner = replaced(replaced(text, "'"), "\\")
    slashes = binder.call("gt", (binder.call("position", (text, Literal("\\", VARCHAR)), node), Literal(0, INT)), node)
    prefix = binder.case_of([slashes], [Literal("E'", VARCHAR), Literal("'", VARCHAR)], node)
    result = _joined(binder, [prefix, inner, Literal("'", VARCHAR)], node)
    return result if for_null is None else _or_else(binder, result, for_null, node)


def _or_else(binder: Binder, text: Expression, for_null: str, node: exp.Expr) -> Expression:
    return binder.call("coalesce", (text, Literal(for_null, VARCHAR)), node) if text.nullable else text


def _joined(binder: Binder, parts: list[Expression], node: exp.Expr) -> Expression:
    result: Expression = parts[0] if parts else Literal("", VARCHAR)
    for part in parts[1:]:
        result = binder.call("concat", (result, part), node)
    return result
