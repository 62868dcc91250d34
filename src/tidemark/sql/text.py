"""Texts, tokens and places: splitting scripts and pointing at what is wrong."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.errors import Place, TidemarkError, too_complex


@dataclass(frozen=True)
class Source:
    """An SQL text, the dialect it is written in, and the time at which it runs; a definition has no such time."""

    text: str
    dialect: str = "postgres"
    now: dt.datetime | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):  # it comes from callers as it is
            raise TidemarkError("type", f"SQL is text, not {type(self.text).__name__}")

    def place(self, start: int, width: int = 1) -> Place:
        """The place at an offset of the text."""
        start = max(0, min(start, len(self.text)))
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        line_end = self.text.find("\n", start)
        rest = (len(self.text) if line_end < 0 else line_end) - start
        return Place(line, column, self.text, max(1, min(width, rest)))

    def place_of(self, node: exp.Expr | Token) -> Place | None:
        """The place of a token, or of the leftmost part of a syntax tree that knows its position."""
        if isinstance(node, Token):
            return self.place(node.start, node.end - node.start + 1)
        spans = [part.meta for part in node.walk() if "start" in part.meta]
        if not spans:
            return None
        first = min(spans, key=lambda span: span["start"])
        return self.place(first["start"], first["end"] - first["start"] + 1)

    def place_offset(self, node: exp.Expr) -> int:
        """The offset of the leftmost part of a syntax tree that knows its position."""
        return min((int(part.meta["start"]) for part in node.walk() if "start" in part.meta), default=len(self.text))

    def end_offset(self, node: exp.Expr) -> int:
        """The offset behind the rightmost part of a syntax tree that knows its position."""
        return max((int(part.meta["end"]) + 1 for part in node.walk() if "end" in part.meta), default=0)

    def error(self, code: str, message: str, node: object = None, hint: str | None = None) -> TidemarkError:
        place = self.place_of(node) if isinstance(node, exp.Expr | Token) else None
        return TidemarkError(code, message, place=place, hint=hint)

    def slice(self, tokens: list[Token]) -> str:
        return self.text[tokens[0].start : tokens[-1].end + 1]


@lru_cache(maxsize=8)
def dialect_named(name: str) -> Dialect:
    try:
        return Dialect.get_or_raise(name)
    except ValueError as error:
        raise TidemarkError("unknown_dialect", f"sqlglot knows no SQL dialect {name!r}") from error


def tokenize(source: Source) -> list[Token]:
    try:
        return list(dialect_named(source.dialect).tokenize(source.text))
    except TokenError as error:
        raise TidemarkError(
            "syntax", f"the text cannot be read: {str(error).splitlines()[0]}", hint="is a quote left open?"
        ) from error


def split(source: Source) -> list[list[Token]]:
    """The statements of a script, as lists of tokens, without the semicolons between them."""
    statements: list[list[Token]] = [[]]
    for token in tokenize(source):
        if token.token_type is TokenType.SEMICOLON and not _is_block_open(statements[-1]):
            statements.append([])
        else:
            statements[-1].append(token)
    return [tokens for tokens in statements if tokens]


def _is_block_open(tokens: list[Token]) -> bool:
    """Whether a rule's DO BEGIN waits for its END, which is followed by WITH (…) or by nothing."""
    words = [token.text.upper() for token in tokens]
    if words[:2] != ["CREATE", "RULE"]:
        return False
    begin = next((i for i in range(len(words) - 1) if words[i : i + 2] == ["DO", "BEGIN"]), None)
    if begin is None:
        return False
    ends = [i for i in range(begin + 2, len(words)) if words[i] == "END" and words[i - 1] == ";"]
    return not ends


def parse(source: Source, tokens: list[Token]) -> exp.Expr:
    """The syntax tree of one statement; positions refer to the whole source."""
    if not tokens:
        raise TidemarkError("syntax", "a query is missing here", place=source.place(len(source.text)))
    try:
        trees = _parser(source.dialect).parse(tokens, source.text)
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        found = str(detail.get("description", error)).rstrip(".")
        start = _offset_of(detail, tokens)
        raise TidemarkError("syntax", found, place=source.place(start)) from error
    except RecursionError as error:
        raise too_complex() from error
    tree = trees[0] if trees else None
    if tree is None:
        raise TidemarkError("syntax", "there is no statement here", place=source.place(tokens[0].start))
    if isinstance(tree, exp.Command):
        raise source.error("unsupported", f"{tokens[0].text.upper()} statements are not supported", tokens[0])
    return tree


def _parser(dialect: str) -> Parser:
    """A parser for which CAST is the cast that fails where it cannot convert, also where a dialect's own gave NULL once
    (Spark's did before ANSI mode); TRY_CAST is another function."""
    known = dialect_named(dialect)
    return _strict(known.parser_class)(dialect=known)


@lru_cache(maxsize=8)
def _strict(parser: type[Parser]) -> type[Parser]:
    return parser if parser.STRICT_CAST else type(f"Strict{parser.__name__}", (parser,), {"STRICT_CAST": True})


def _offset_of(detail: dict[str, object], tokens: list[Token]) -> int:
    """Where the parser stopped: its line and column name the end of a token."""
    for token in tokens:
        if token.line == detail.get("line") and token.col == detail.get("col"):
            return int(token.start)
    return int(tokens[-1].end)


def fold(identifier: exp.Expr | Token | str) -> str:
    """A name as the catalog knows it: lower case unless it was quoted."""
    if isinstance(identifier, exp.Identifier):
        return str(identifier.this) if identifier.args.get("quoted") else str(identifier.this).lower()
    if isinstance(identifier, Token):
        quoted = identifier.token_type is TokenType.IDENTIFIER
        return identifier.text if quoted else identifier.text.lower()
    return str(identifier).lower()
