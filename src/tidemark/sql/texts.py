"""Binding functions of text: their arguments as SQL writes them, and those that are put together from others."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tidemark.algebra.expressions import Expression, Literal
from tidemark.algebra.types import INT, NULL, VARCHAR
from tidemark.sql.arrays import joined_arrays
from tidemark.sql.binding import Binder, called
from tidemark.sql.matching import bind_substring_from
from tidemark.sql.quoting import text_of

_TRIMS: Final = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "trim", "": "trim"}


def bind_trim(binder: Binder, node: exp.Expr) -> Expression:
    characters = node.args.get("expression")
    parts = [node.this] if characters is None else [node.this, characters]
    return called(binder, _TRIMS[str(node.args.get("position") or "").upper()], parts, node)


def bind_substring(binder: Binder, node: exp.Expr) -> Expression:
    start, length = node.args.get("start"), node.args.get("length")
    if start is not None and start.is_string:
        if length is not None:
            raise binder.source.error("unsupported", "substring with an escape is not supported", node)
        return bind_substring_from(binder, node)
    parts = [node.args[part] for part in ("this", "start", "length") if node.args.get(part) is not None]
    return called(binder, "substring", parts, node)


def bind_overlay(binder: Binder, node: exp.Expr) -> Expression:
    """The text before the place, the new text, and the text after as many characters as are replaced."""
    text, new, start = (binder.bind(node.args[part]) for part in ("this", "expression", "from_"))
    count = node.args.get("for_")
    length = binder.call("length", (new,), node) if count is None else binder.bind(count)
    one = Literal(1, INT)
    before = binder.call("substring", (text, one, binder.call("subtract", (start, one), node)), node)
    after = binder.call("substring", (text, binder.call("add", (start, length), node)), node)
    return binder.call("concat", (binder.call("concat", (before, new), node), after), node)


def bind_dpipe(binder: Binder, node: exp.Expr) -> Expression:
    """Text beside text; a value of another type beside a text is written as text. Arrays are joined."""
    sides = [binder.bind(node.this), binder.bind(node.expression)]
    if any(side.type.element is not None for side in sides):
        return joined_arrays(binder, (sides[0], sides[1]), node)
    if any(side.type in (VARCHAR, NULL) for side in sides):
        sides = [text_of(binder, side, node) for side in sides]
    return binder.call("concat", tuple(sides), node)


def bind_concat_ws(binder: Binder, node: exp.Expr) -> Expression:
    return binder.call("concat_ws", tuple(text_of(binder, binder.bind(part), part) for part in node.expressions), node)


def bind_pad(binder: Binder, node: exp.Expr) -> Expression:
    parts = [node.args[part] for part in ("this", "expression", "fill_pattern") if node.args.get(part) is not None]
    return called(binder, "lpad" if node.args.get("is_left") else "rpad", parts, node)


def bind_chr(binder: Binder, node: exp.Expr) -> Expression:
    return called(binder, "chr", list(node.expressions), node)


def bind_initcap(binder: Binder, node: exp.Expr) -> Expression:
    return called(binder, "initcap", [node.this], node)


def bind_collate(binder: Binder, node: exp.Expr) -> Expression:
    if node.expression.name != "C":
        raise binder.source.error("unsupported", 'text is compared by code points: COLLATE "C" only', node)
    return binder.bind(node.this)


def bind_concat(binder: Binder, node: exp.Expr) -> Expression:
    """The function concat(): NULLs count as empty text, other types are written as text."""
    result: Expression = Literal("", VARCHAR)
    for part in node.expressions:
        bound = text_of(binder, binder.bind(part), part)
        text = binder.call("coalesce", (bound, Literal("", VARCHAR)), part)
        result = text if result == Literal("", VARCHAR) else binder.call("concat", (result, text), node)
    return result
