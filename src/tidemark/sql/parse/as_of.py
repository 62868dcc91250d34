"""``AS OF VERSION n`` and ``AS OF TIMESTAMP '…'``: behind a relation in FROM, or at the end of a query for everything
that it reads."""

from __future__ import annotations

import datetime as dt
from typing import Final, TypeAlias

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.algebra.types import TIMESTAMP
from tidemark.errors import TidemarkError
from tidemark.sql.bind.types import read_text
from tidemark.sql.parse.text import Source, parse

_CLAUSES: Final = (["AS", "OF", "VERSION"], ["AS", "OF", "TIMESTAMP"])
Point: TypeAlias = int | dt.datetime
"""A version, or a time, which stands for the last version that was committed at or before it."""


def parse_query(source: Source, tokens: list[Token]) -> tuple[exp.Expr, Point | None]:
    """The syntax tree, and the version or time of a clause that stands for the whole query.

    sqlglot reads ``VERSION AS OF n`` behind a relation, so the words are put into that order. What cannot be read so
    and stands at the end is of the whole query.
    """
    places = [i for i in range(len(tokens) - 3) if [token.text.upper() for token in tokens[i : i + 3]] in _CLAUSES]
    if not places:
        return parse(source, tokens), None
    reordered = list(tokens)
    for place in places:
        as_, of, kind = reordered[place : place + 3]
        reordered[place : place + 3] = kind, as_, of
    try:
        return parse(source, reordered), None
    except TidemarkError:
        if places[-1] != len(tokens) - 4:
            raise
    tree, inner = parse_query(source, tokens[:-4])
    if inner is not None:
        raise source.error("syntax", "AS OF is given twice at the end", tokens[-4])
    kind, value = tokens[-2], tokens[-1]
    is_text = value.token_type is TokenType.STRING
    return tree, _point(kind.text.upper(), value.text, source, value, is_text=is_text)


def version_of(node: exp.Table, source: Source) -> int | None:
    """The version behind a relation in FROM."""
    clause = node.args.get("version")
    if clause is None:
        return None
    kind, value = clause.args.get("this"), clause.expression
    if kind not in ("VERSION", "TIMESTAMP") or clause.args.get("kind") != "AS OF":
        hint = "AS OF VERSION n and AS OF TIMESTAMP '…' are"
        raise source.error("unsupported", "this form of time travel is not supported", node, hint=hint)
    if not isinstance(value, exp.Literal):
        wanted = "a number" if kind == "VERSION" else "a time in quotes"
        raise source.error("version", f"AS OF {kind} takes {wanted}", node)
    return version_at(_point(kind, str(value.this), source, node, is_text=bool(value.is_string)), source)


def version_at(point: Point | None, source: Source) -> int | None:
    """The version that a point means when it is read."""
    if not isinstance(point, dt.datetime):
        return point
    if source.version_at is None:
        raise source.error("unsupported", "AS OF TIMESTAMP cannot stand here")
    return source.version_at(point)


def _point(kind: str, text: str, source: Source, node: exp.Expr | Token, *, is_text: bool) -> Point:
    if kind == "VERSION":
        if not text.isdecimal():
            raise source.error("version", f"{text!r} is not a version", node, hint="versions are 1, 2, 3 …")
        return int(text)
    if not is_text:
        raise source.error("version", "AS OF TIMESTAMP takes a time in quotes", node, hint="'2027-01-31 08:00:00'")
    try:
        return _time(text)
    except (TidemarkError, ValueError, OverflowError) as error:
        raise source.error("version", f"{text!r} is not a time", node, hint="'2027-01-31 08:00:00', in UTC") from error


def _time(text: str) -> dt.datetime:
    """A time as a TIMESTAMP is written, or as ISO 8601 writes one with its zone.

    >>> _time("2027-01-31 08:00").hour, _time("2027-01-31T08:00:00+02:00").hour, _time("2027-01-31T08:00:00Z").hour
    (8, 6, 8)
    """
    try:
        time = read_text(text, TIMESTAMP)
    except TidemarkError:
        zoned = dt.datetime.fromisoformat(text.strip())
        if zoned.tzinfo is None:
            raise
        return zoned.astimezone(dt.UTC).replace(tzinfo=None)
    assert isinstance(time, dt.datetime)
    return time
