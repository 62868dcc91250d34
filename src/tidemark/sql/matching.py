"""Binding LIKE, SIMILAR TO and regular expressions."""

from __future__ import annotations

from sqlglot import exp

from tidemark.algebra.expressions import Expression, Literal
from tidemark.algebra.types import NULL, VARCHAR
from tidemark.sql import regexes
from tidemark.sql.binding import Binder
from tidemark.sql.coerce import folded
from tidemark.sql.literals import canonical_pattern


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
