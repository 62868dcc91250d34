"""Texts, tokens and places: splitting scripts and pointing at what is wrong.

Prefix operators as PostgreSQL reads them.

There ``~ @ |/ ||/`` bind looser than arithmetic: ``~1 + 1`` is ``~(1 + 1)``, also to the right of another operator.
sqlglot has them bind tighter, does not know ``@``, and takes ``!`` for NOT. A minus and a plus in front bind tighter
than all arithmetic in both.

Reading statements token by token, as far as sqlglot does not know them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.algebra.expressions import Expression
from tidemark.errors import Place, TidemarkError, half_character, too_complex


@dataclass(frozen=True)
class Source:
    """An SQL text, the dialect it is written in, and the time at which it runs; a definition has no such time.

    ``version_at`` gives the last version that was committed at or before a time, where the text can name one;
    ``values`` has what the parameters stand for while it is bound; ``lists`` are the places of long lists of constants
    for which names stand (``lists.py``).
    """

    text: str
    dialect: str = "postgres"
    now: dt.datetime | None = None
    version_at: Callable[[dt.datetime], int] | None = field(default=None, compare=False, repr=False)
    values: tuple[Expression, ...] = field(default=(), compare=False, repr=False)
    lists: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):  # it comes from callers as it is
            raise TidemarkError("type", f"SQL is text, not {type(self.text).__name__}")
        if (half := half_character(self.text)) is not None:
            raise TidemarkError("syntax", "half of a surrogate pair is no character", place=self.place(half))

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

    def written(self, node: exp.Expr, most: int = 60) -> str:
        """The beginning of a part of the text, as it was written; the parser has words of its own for some."""
        start, end = self.place_offset(node), self.end_offset(node)
        if start >= end:
            return node.sql(self.dialect)[:most]
        return self.text[start : self._closed(start, end)][:most]

    def _closed(self, start: int, end: int) -> int:
        """The end, with parentheses and brackets behind it that close those before it."""
        while end < len(self.text) and self.text[end] in " )]\n":
            part = self.text[start:end]
            if part.count("(") + part.count("[") <= part.count(")") + part.count("]"):
                break
            end += 1
        return end

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
    parser = _parser(source.dialect)
    try:
        trees = parser.parse(tokens, source.text)
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        found = str(detail.get("description", error)).rstrip(".")
        start = _offset_of(detail, tokens)
        raise TidemarkError("syntax", found, place=source.place(start)) from error
    except RecursionError as error:
        raise too_complex() from error
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # The parser takes what it reads for what it expects there, such as one unit in an interval.
        raise source.error(
            "unsupported", "what stands before this cannot be read", parser._prev or tokens[0]
        ) from error
    tree = trees[0] if trees else None
    if tree is None:
        raise TidemarkError("syntax", "there is no statement here", place=source.place(tokens[0].start))
    if isinstance(tree, exp.Command):
        raise source.error("unsupported", f"{tokens[0].text.upper()} statements are not supported", tokens[0])
    return tree


def _parser(dialect: str) -> Parser:
    """A parser for which CAST is the cast that fails where it cannot convert, also where a dialect's own gave NULL once
    (Spark's did before ANSI mode); TRY_CAST is another function. Prefix operators bind as they do in the dialect."""
    known = dialect_named(dialect)
    parser = _corrected(known.parser_class)
    try:
        return parser(dialect=known)
    except TypeError as error:  # no class inherits from a compiled one, which deep nesting would crash besides
        raise TidemarkError(
            "unsupported",
            "sqlglot is installed in its compiled form here, which cannot be used",
            hint="pip uninstall sqlglotc",
        ) from error


@lru_cache(maxsize=8)
def _corrected(parser: type[Parser]) -> type[Parser]:
    return type(f"Corrected{parser.__name__}", (parser,), {"STRICT_CAST": True, **with_prefixes(parser)})


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


# Prefix operators

Reading = Callable[[Any], exp.Expr | None]
"""From a parser that has just taken the operator."""


def _over_arithmetic(operator: type[exp.Expr]) -> Reading:
    return lambda parser: parser.expression(operator(this=parser._parse_term()))


def _at_sign(parser: Any) -> exp.Expr | None:
    """``@ x`` is the absolute value; the same kind of token begins ``$1``."""
    if parser._prev.text == "@":
        return _over_arithmetic(exp.Abs)(parser)
    parser._retreat(parser._index - 1)
    return parser._parse_type()  # type: ignore[no-any-return]


def _not(parser: Any) -> exp.Expr | None:
    if parser._prev.text == "!":
        parser.raise_error("There is no operator ! in front of a value", parser._prev)
    return PostgresParser.UNARY_PARSERS[TokenType.NOT](parser)  # type: ignore[no-any-return]


_PREFIXES: Final[Mapping[TokenType, Reading]] = {
    TokenType.RLIKE: _over_arithmetic(exp.BitwiseNot),
    TokenType.PIPE_SLASH: _over_arithmetic(exp.Sqrt),
    TokenType.DPIPE_SLASH: _over_arithmetic(exp.Cbrt),
    TokenType.PARAMETER: _at_sign,
    TokenType.NOT: _not,
}


def with_prefixes(parser: type[Parser]) -> dict[str, object]:
    """What a subclass of a parser has instead, so that prefix operators are read as they are in its dialect."""
    if not issubclass(parser, PostgresParser):
        return {}
    return {"UNARY_PARSERS": {**parser.UNARY_PARSERS, **_PREFIXES}}


class Cursor:
    """Reads tokens one by one, for the headers of statements that sqlglot does not know."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source, self.tokens, self.position = source, tokens, 0

    def peek(self) -> str:
        return self.tokens[self.position].text.upper() if self.position < len(self.tokens) else ""

    def accept(self, *words: str) -> bool:
        """Step over the words if they come next."""
        ahead = self.tokens[self.position : self.position + len(words)]
        if [token.text.upper() for token in ahead] != list(words):
            return False
        self.position += len(words)
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.error(f"{word} is missing here")

    def take(self, what: str) -> Token:
        if self.position >= len(self.tokens):
            raise self.error(f"{what} is missing here")
        token = self.tokens[self.position]
        self.position += 1
        return token

    def name(self, what: str) -> str:
        token = self.take(what)
        if not (token.text[:1].isalpha() or token.text[:1] == "_" or token.token_type is TokenType.IDENTIFIER):
            raise self.source.error("syntax", f"{what} is missing here", token)
        if self.peek() == ".":
            raise self.source.error("unsupported", "schema names are not supported", token)
        return fold(token)

    def names(self) -> tuple[str, ...]:
        """The names of columns in parentheses."""
        self.expect("(")
        names = [self.name("a column name")]
        while self.accept(","):
            names.append(self.name("a column name"))
        self.expect(")")
        return tuple(names)

    def rest(self) -> list[Token]:
        return self.tokens[self.position :]

    def end(self) -> None:
        if self.position < len(self.tokens):
            raise self.source.error("syntax", "nothing more is expected here", self.tokens[self.position])

    def error(self, message: str) -> Exception:
        if not self.tokens:
            return TidemarkError("syntax", message, place=self.source.place(len(self.source.text)))
        return self.source.error("syntax", message, self.tokens[min(self.position, len(self.tokens) - 1)])


def retokenized(cursor: Cursor) -> list[Token]:
    """Some dialects keep what follows a command word as one string; take it apart again."""
    rest = cursor.rest()
    if len(rest) == 1 and rest[0].token_type is TokenType.STRING:
        # Blanks in front keep the positions of the whole text.
        before = " " * (rest[0].end + 1 - len(rest[0].text))
        return tokenize(Source(before + rest[0].text, cursor.source.dialect))
    return rest
