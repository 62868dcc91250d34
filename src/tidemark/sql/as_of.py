"""``AS OF VERSION n``: behind a relation in FROM, or at the end of a query for everything that it reads."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokens import Token  # type: ignore[attr-defined]

from tidemark.errors import TidemarkError
from tidemark.sql.text import Source, parse

_CLAUSE = ["AS", "OF", "VERSION"]


def parse_query(source: Source, tokens: list[Token]) -> tuple[exp.Expr, int | None]:
    """The syntax tree, and the version of a clause that stands for the whole query.

    sqlglot reads ``VERSION AS OF n`` behind a relation, so the words are put into that order. What cannot be read so
    and stands at the end is of the whole query.
    """
    places = [i for i in range(len(tokens) - 3) if _words(tokens[i : i + 3]) == _CLAUSE]
    if not places:
        return parse(source, tokens), None
    reordered = list(tokens)
    for place in places:
        as_, of, version = reordered[place : place + 3]
        reordered[place : place + 3] = version, as_, of
    try:
        return parse(source, reordered), None
    except TidemarkError:
        if places[-1] != len(tokens) - 4:
            raise
    tree, inner = parse_query(source, tokens[:-4])
    if inner is not None:
        raise source.error("syntax", "AS OF VERSION stands twice at the end", tokens[-4])
    return tree, version_number(tokens[-1].text, source, tokens[-1])


def version_number(text: str, source: Source, node: exp.Expr | Token) -> int:
    if not text.isdecimal():
        raise source.error("version", f"{text!r} is not a version", node, hint="versions are 1, 2, 3 …")
    return int(text)


def version_of(node: exp.Table, source: Source) -> int | None:
    """The version behind a relation in FROM."""
    clause = node.args.get("version")
    if clause is None:
        return None
    if clause.args.get("this") != "VERSION" or clause.args.get("kind") != "AS OF":
        raise source.error("unsupported", "this form of time travel is not supported", node, hint="AS OF VERSION n is")
    number = clause.expression
    if not isinstance(number, exp.Literal):
        raise source.error("version", "AS OF VERSION takes a number", node)
    return version_number(str(number.this), source, node)


def _words(tokens: list[Token]) -> list[str]:
    return [token.text.upper() for token in tokens]
