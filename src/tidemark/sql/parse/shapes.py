"""The shape of a text: what is left when its constants, or its parameters, are taken out.

Texts of one shape, with constants of the same types, are bound once. Constants are found by two regular expressions and
nothing is parsed, so the scanner knows plain text alone: a comment, a quoted name, a backslash, a string with a prefix,
a dollar quote, and every character that it does not expect make it give up, and the text is parsed as a whole.

>>> constants("UPDATE t SET a = -1.50, b = 'it''s' WHERE k1 = 7")
('UPDATE t SET a = -\\x00, b = \\x00 WHERE k1 = \\x00', ['1.50', "'it''s'", '7'])
>>> constants("SELECT a FROM t -- WHERE a = 1") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.errors import TidemarkError
from tidemark.sql.parse.script import parse_statement
from tidemark.sql.parse.statements import Statement
from tidemark.sql.parse.text import Source, split, tokenize

_CONSTANT: Final = re.compile(
    r"((?<![\w&'])'(?:[^'\\\x00\ud800-\udfff]|'')*'(?!')|(?<![\w.$])[0-9]+(?:\.[0-9]+)?(?![\w.]))", re.ASCII
)
_PLAIN: Final = re.compile(
    r"\s*(?:SELECT|INSERT|UPDATE|DELETE)\b(?:[\w\s(),.=<>!+%|\[\]\x00]|-(?!-)|/(?!\*)|\*(?!/)|::)*;?\s*",
    re.ASCII | re.IGNORECASE,
)
_EXPONENT: Final = re.compile(r"(?<!\w)[0-9.]+[eE]", re.ASCII)
MOST_TEXT: Final = 4_096
"""Longer texts are parsed as a whole: what they would save is little beside the work that they ask for."""


def constants(text: str) -> tuple[str, list[str]] | None:
    """The text without its constants, and these; None if that cannot be told without parsing."""
    if len(text) > MOST_TEXT or "\x00" in text:
        return None
    pieces = _CONSTANT.split(text)
    shape = "\x00".join(pieces[::2])
    return (shape, pieces[1::2]) if _is_plain(shape) else None


MOST_KNOWN: Final = 1_024
"""Of so many shapes it is remembered what was found in them."""


@lru_cache(maxsize=MOST_KNOWN)
def _is_plain(shape: str) -> bool:
    return _PLAIN.fullmatch(shape) is not None and not _EXPONENT.search(shape)


_ROWS: Final = re.compile(
    r"(\s*INSERT\s+INTO\s+\w+\s*(?:\([\w\s,]*\))?\s*VALUES\s*)(\([^()]*\))(?:\s*,\s*\2)+\s*;?\s*",
    re.ASCII | re.IGNORECASE,
)


@lru_cache(maxsize=MOST_KNOWN)
def rows_alike(shape: str) -> str | None:
    """The shape of an INSERT of one row, if this is that of several rows which are all written like it.

    >>> rows_alike("INSERT INTO t VALUES (?, DATE ?), (?, DATE ?)")
    'INSERT INTO t VALUES (?, DATE ?)'
    >>> rows_alike("INSERT INTO t VALUES (?, DATE ?), (?, ?)") is None
    True
    """
    found = _ROWS.fullmatch(shape)
    return None if found is None or not _MARK.search(found[2]) else found[1] + found[2]


_MARK: Final = re.compile("[\x00?]")


Blanks: TypeAlias = tuple[tuple[int, int], ...]
"""The place of each constant or parameter in a text, and the number of its value."""


def written_out(shape: str, written: Sequence[str]) -> tuple[str, Blanks]:
    """The text that has a shape and these constants, and the place of each.

    >>> written_out("SELECT \\x00, \\x00", ["12", "'a'"])
    ("SELECT 12, 'a'", ((7, 0), (11, 1)))
    """
    pieces, blanks, end = list[str](), list[tuple[int, int]](), 0
    for number, (before, constant) in enumerate(zip(shape.split("\x00"), (*written, ""), strict=True)):
        blanks.append((end + len(before), number))
        pieces += before, constant
        end += len(before) + len(constant)
    return "".join(pieces), tuple(blanks[:-1])


# Parameters

_PIECE: Final = re.compile(
    r"""
    (?<!\w)[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | --[^\n]*
    | (?<!\w)\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$
    | /\*(?:[^*/]|\*(?!/)|/(?!\*))*\*/ | ::
    | (?P<parameter>(?<![\w$])\$[0-9]+ | \? | (?<![\w:\])]):[^\W\d]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_BACKSLASHED: Final = re.compile(
    r"""
    [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` | --[^\n]*
    | /\*(?:[^*/]|\*(?!/)|/(?!\*))*\*/ | ::
    | (?P<parameter>(?<![\w$])\$[0-9]+ | \? | (?<![\w:\])]):[^\W\d]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Template:
    """A text with parameters: ``blanks`` has the place of each and which value it asks for, ``names`` the values by
    name, if they have names; ``text`` is the text with one mark for each of them, at the same places; ``verb`` its
    first word.
    """

    text: str
    blanks: Blanks
    names: tuple[str, ...] | None
    count: int
    verb: str
    alike: str | None = None
    """The text of an INSERT of one row, if this is one of several rows which are all written like it."""

    def values(self, params: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, ...]:
        """The values in order, of what a program hands over."""
        if self.names is None:
            if isinstance(params, Mapping):
                raise _wrong("? and $1 take a sequence of values, not names", "name the parameters, as in :name")
            if len(params) != self.count:
                raise _wrong(f"the statement has {_number(self.count)}, {len(params)} handed over")
            return tuple(params)
        if not isinstance(params, Mapping):
            raise _wrong(f"the parameters of the statement are named :{self.names[0]}", "hand over a dict")
        missing = [name for name in self.names if name not in params]
        if missing:
            raise _wrong(f"the parameter :{missing[0]} has no value")
        unknown = [name for name in params if name not in self.names]
        if unknown:
            raise _wrong(f"the statement has no parameter :{unknown[0]}")
        return tuple(params[name] for name in self.names)


@lru_cache(maxsize=512)
def template(text: str, dialect: str) -> Template:
    """The text with its parameters, which are all written in one style."""
    pattern = _PIECE if dialect == "postgres" else _BACKSLASHED
    found = [match for match in pattern.finditer(text) if match["parameter"] is not None]
    for match in found:
        mark = "0" if text.startswith(":", match.end()) else "?"  # in ?:: the tokenizer sees one operator
        text = text[: match.start()] + mark.ljust(len(match.group())) + text[match.end() :]
    written = [match.group() for match in found]
    names, numbers = _numbered(written)
    blanks = tuple((match.start(), number) for match, number in zip(found, numbers, strict=True))
    verb = next((tokens[0].text.upper() for tokens in split(Source(text, dialect))), "")
    alike = rows_alike(text) if set(written) == {"?"} and text.count("?") == len(written) else None
    return Template(text, blanks, names, len(set(numbers)), verb, alike)


def _numbered(written: list[str]) -> tuple[tuple[str, ...] | None, list[int]]:
    """The names of the parameters, if they have names, and the number of the value that each of them asks for."""
    styles = {one[0] for one in written}
    if len(styles) > 1:
        raise _wrong("the parameters of one statement are written in one way", "?, or $1, or :name")
    if styles == {":"}:
        names = tuple(dict.fromkeys(one[1:] for one in written))
        return names, [names.index(one[1:]) for one in written]
    if styles == {"$"}:
        numbers = [int(one[1:]) - 1 for one in written]
        lacking = set(range(max(numbers))) - set(numbers)
        if min(numbers) < 0 or lacking:
            raise _wrong(f"there is no parameter ${min(lacking) + 1}" if lacking else "there is no parameter $0")
        return None, numbers
    return None, list(range(len(written)))


def _number(count: int) -> str:
    return "1 parameter" if count == 1 else f"{count or 'no'} parameters"


def _wrong(message: str, hint: str | None = None) -> TidemarkError:
    return TidemarkError("parameter", message, hint=hint)


# Parsing what has blanks


def parse_with(source: Source, text: str, filled: Mapping[int, int | str]) -> Statement | None:
    """The one statement of a text, in which at some places another constant, or ``$n`` for a number, stands; None if
    the places are not those of constants or parameters there, or there is not one statement."""
    statements = split(Source(text, source.dialect))
    if len(statements) != 1:
        return None
    tokens: list[Token] = []
    waiting = dict(filled)
    for token in statements[0]:
        given = waiting.pop(token.start, None)
        if given is None:
            tokens.append(token)
        elif token.token_type not in _BLANKS:
            return None
        elif isinstance(given, int):
            number = [_at(token, TokenType.PARAMETER, "$"), _at(token, TokenType.NUMBER, str(given))]
            if token.token_type is TokenType.STRING and tokens and tokens[-1].token_type in _READ:
                kind = tokens.pop()  # DATE '…' is CAST('…' AS DATE), and the latter takes any text
                before = [_at(kind, TokenType.VAR, "CAST"), _at(kind, TokenType.L_PAREN, "(")]
                number = [*before, *number, _at(kind, TokenType.ALIAS, "AS"), kind, _at(token, TokenType.R_PAREN, ")")]
            tokens += number
        else:
            tokens += [_at(token, one.token_type, one.text) for one in tokenize(Source(given))]
    return None if waiting else parse_statement(source, tokens)


_READ: Final = frozenset({TokenType.DATE, TokenType.TIMESTAMP})
_BLANKS: Final = frozenset({TokenType.NUMBER, TokenType.STRING, TokenType.PLACEHOLDER})


def _at(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)
