"""Binding functions of text: their arguments as SQL writes them, and those that are put together from others.

format(), quote_literal and quote_nullable: text put together from values.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from tidemark.algebra.coerce import adapt_text_literals, coerce, folded
from tidemark.algebra.expressions import Expression, Literal
from tidemark.algebra.functions import explicit_cast_allowed
from tidemark.algebra.types import BYTEA, INT, NULL, VARCHAR
from tidemark.sql.bind.scope import Binder, called
from tidemark.sql.bind.types import canonical_pattern
from tidemark.sql.functions import regexes
from tidemark.sql.functions.arrays import joined_arrays


def bind_like(binder: Binder, node: exp.Expr, escape: str = "\\") -> Expression:
    """LIKE and ILIKE. A literal pattern is brought to the form that all engines read alike; another one later."""
    name = "like" if isinstance(node, exp.Like) else "ilike"
    if isinstance(node.expression, exp.Any | exp.All):
        raise binder.source.error("unsupported", "LIKE ANY and LIKE ALL are not supported", node, hint="use OR")
    shape = folded(binder.bind(node.expression))
    if shape.type not in (VARCHAR, NULL):
        raise binder.source.error("type", f"a pattern is text, this is a {shape.type}", node.expression)
    if not isinstance(shape, Literal):
        if escape != "\\":
            raise binder.source.error("unsupported", "ESCAPE takes a literal pattern", node.expression)
        name += "_any_pattern"
    elif shape.value is not None:
        shape = Literal(canonical_pattern(str(shape.value), escape), VARCHAR)
    matched = binder.call(name, (binder.bind(node.this), shape), node)
    return binder.call("not", (matched,), node) if node.args.get("negate") else matched


def bind_escape(binder: Binder, node: exp.Expr) -> Expression:
    letter = node.expression
    if not (isinstance(letter, exp.Literal) and letter.is_string and len(letter.name) <= 1):
        raise binder.source.error("unsupported", "ESCAPE takes one literal character, or none", node)
    if isinstance(node.this, exp.SimilarTo):
        return bind_similar(binder, node.this, letter.name)
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise binder.source.error("unsupported", "ESCAPE belongs to LIKE", node)
    return bind_like(binder, node.this, letter.name)


def bind_similar(binder: Binder, node: exp.Expr, escape: str = "\\") -> Expression:
    regex = regexes.similar_to(literal_text(binder, node.expression), escape)
    return binder.call("regexp_like", (binder.bind(node.this), Literal(regex.text, VARCHAR)), node)


def bind_regexp_like(binder: Binder, node: exp.Expr) -> Expression:
    fold = isinstance(node, exp.RegexpILike) or "i" in matching_flags(binder, node.args.get("flag"), "ic")
    return binder.call("regexp_like", (binder.bind(node.this), _pattern(binder, node, fold_case=fold)[0]), node)


def bind_regexp_count(binder: Binder, node: exp.Expr) -> Expression:
    shape, regex = _pattern(binder, node)
    needs_text(binder, regex, node)
    return binder.call("regexp_count", (binder.bind(node.this), shape), node)


def bind_regexp_substr(binder: Binder, node: exp.Expr) -> Expression:
    shape, _ = _pattern(binder, node)
    return binder.call("regexp_substr", (binder.bind(node.this), shape), node)


def bind_substring_from(binder: Binder, node: exp.Expr) -> Expression:
    """substring(text FROM pattern): what the first parentheses match, or all if there are none."""
    regex = regexes.parse(literal_text(binder, node.args["start"]))
    if regex.groups and 1 not in regex.sure:
        raise binder.source.error("unsupported", "parentheses that may match nothing have no one meaning here", node)
    name = "regexp_substr_group" if regex.groups else "regexp_substr"
    return binder.call(name, (binder.bind(node.this), Literal(regex.text, VARCHAR)), node)


def bind_regexp_replace(binder: Binder, node: exp.Expr) -> Expression:
    flags = matching_flags(binder, node.args.get("modifiers"), "gic")
    shape, regex = _pattern(binder, node, fold_case="i" in flags)
    needs_text(binder, regex, node)
    ours, java = regexes.replacement(literal_text(binder, node.args["replacement"]), regex)
    text = binder.bind(node.this)
    if "g" in flags:
        return binder.call("regexp_replace_all", (text, shape, Literal(ours, VARCHAR), Literal(java, VARCHAR)), node)
    # Spark replaces all matches, so its pattern takes what stands before the first match along; groups move by one.
    shifted = regexes.replacement(literal_text(binder, node.args["replacement"]), regex, first_group=2)[1]
    first_only = Literal(f"^((?s:.)*?)({regex.text})", VARCHAR)
    given = (text, shape, Literal(ours, VARCHAR), first_only, Literal("$1" + shifted, VARCHAR))
    return binder.call("regexp_replace_first", given, node)


def _pattern(binder: Binder, node: exp.Expr, *, fold_case: bool = False) -> tuple[Literal, regexes.Regex]:
    regex = regexes.parse(literal_text(binder, node.expression), fold_case=fold_case)
    return Literal(regex.text, VARCHAR), regex


def literal_text(binder: Binder, node: exp.Expr) -> str:
    bound = folded(binder.bind(node))
    if not isinstance(bound, Literal) or bound.type != VARCHAR or bound.value is None:
        raise binder.source.error("unsupported", "a regular expression must be a literal text", node)
    return str(bound.value)


def matching_flags(binder: Binder, node: exp.Expr | None, known: str) -> str:
    flags = "" if node is None else literal_text(binder, node)
    if not set(flags) <= set(known):
        raise binder.source.error("unsupported", f"the flags {flags!r} are not supported", node)
    return flags


def needs_text(binder: Binder, regex: regexes.Regex, node: exp.Expr) -> None:
    if regex.empty:
        raise binder.source.error("unsupported", "a pattern that matches the empty text has no one meaning here", node)


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
    """Text beside text; a value of another type beside a text is written as text. Arrays are joined, and bytes.

    A quoted literal beside bytes is read as bytes."""
    sides = [binder.bind(node.this), binder.bind(node.expression)]
    if any(side.type.element is not None for side in sides):
        return joined_arrays(binder, (sides[0], sides[1]), node)
    if any(side.type == BYTEA for side in sides):
        sides = list(adapt_text_literals(tuple(sides)))
        if all(side.type in (BYTEA, NULL) for side in sides):
            return binder.call("concat", tuple(sides), node)
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
