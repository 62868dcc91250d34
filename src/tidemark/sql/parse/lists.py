"""Long lists of constants are values: their rows are read, and no syntax tree is built of them.

``IN (1, 2, …)`` and ``INSERT … VALUES (1, 'a'), (2, 'b'), …`` are found by their form. A name of as many characters
stands for the list while the rest is tokenized and parsed, so that all places stay what they are; who binds the name
reads the list. What the tokenizer sees before the list is the same, so if the name comes out of it as a name, the list
stood where it is a list, and in no text or comment. Anything else about it is left to the parser as it was.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp
from sqlglot.tokens import Token  # type: ignore[attr-defined]

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import INTEGER_BITS, VARCHAR, Type
from tidemark.errors import TidemarkError
from tidemark.sql.parse.text import Source, parse, split, tokenize

LEAST: Final = 64
"""From how many constants, or rows of them, on a list is long."""
_MARK: Final = f"list_{uuid.uuid4().hex}_"
_CONSTANT: Final = r"(?:-?[0-9]++(?:\.[0-9]++)?+(?![\w.])|'[^'\\]*+'(?!')|(?:NULL|TRUE|FALSE)\b)"
_GAP: Final = r"\s*+,\s*+"
_ROW: Final = rf"\(\s*+{_CONSTANT}(?:{_GAP}{_CONSTANT})*+\s*+\)"
_INTO: Final = r"(?:\A|;)\s*+INSERT\s++INTO\s++[\w\"]++\s*+(?:\([\w\",\s]*+\)\s*+)?+VALUES\s*+"


def long_lists(least: int) -> re.Pattern[str]:
    """Finds lists of at least so many constants, or rows of them."""
    more = rf"{{{least - 1},}}+"
    members = rf"\bIN\s*+(?P<members>\(\s*+{_CONSTANT}(?:{_GAP}{_CONSTANT}){more}\s*+\))"
    rows = rf"{_INTO}(?P<rows>{_ROW}(?:{_GAP}{_ROW}){more})(?=\s*+(?:;|\Z))"
    return re.compile(f"{members}|{rows}", re.IGNORECASE | re.ASCII)


_LONG: Final = long_lists(LEAST)
_TOKEN: Final = re.compile(r"'[^']*'|\(|[^\s,()']+")
_WORDS: Final[Mapping[str, Value]] = {"NULL": None, "TRUE": True, "FALSE": False}
_READABLE: Final = frozenset({"SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "BEGIN", "COMMIT", "ROLLBACK"})


def read_apart(source: Source) -> tuple[Source, list[list[Token]]]:
    """The statements of a script, with names for its long lists, which the source knows; or all of it as it is."""
    found = list(_LONG.finditer(source.text)) if source.dialect == "postgres" else []
    if not found:
        return source, split(source)
    places = {f"{_MARK}{number}": match.span(match.lastgroup or 0) for number, match in enumerate(found)}
    text, end = "", 0
    for name, (start, behind) in places.items():
        text += f"{source.text[end:start]}({name}".ljust(behind - 1 - end) + ")"
        end = behind
    try:
        statements = split(replace(source, text=text + source.text[end:]))
    except TidemarkError:
        return source, split(source)  # which says what is wrong
    names = {token.text: token.start for tokens in statements for token in tokens if token.text in places}
    is_read = all(names.get(name) == start + 1 for name, (start, _) in places.items())
    if not is_read or any(tokens[0].text.upper() not in _READABLE for tokens in statements):
        return source, split(source)
    return replace(source, lists=places), statements


@dataclass(frozen=True)
class Listed:
    """A list that was taken out of a text: where it begins, and what stands there."""

    source: Source
    start: int
    text: str

    @staticmethod
    def of(nodes: Sequence[exp.Expr], source: Source) -> Listed | None:
        """The list for which a name stands, if these are one."""
        node = nodes[0] if len(nodes) == 1 and source.lists else None
        while isinstance(node, exp.Tuple | exp.Paren):
            node = node.expressions[0] if isinstance(node, exp.Tuple) else node.this
        place = source.lists.get(node.name) if isinstance(node, exp.Column) else None
        return None if place is None else Listed(source, place[0], source.text[place[0] : place[1]])

    def rows(self) -> list[exp.Expr]:
        """What the parser makes of it: rows, of which the members of IN are one."""
        begun = "VALUES "
        padded = " " * (self.start - len(begun)) + begun + self.text
        return list(parse(self.source, tokenize(replace(self.source, text=padded))).expressions)

    def members(self, type: Type) -> list[Value] | None:
        """The members as values of a type; None if they are not plainly that, or one of them is NULL."""
        return values_of(_TOKEN.findall(self.text)[1:], type)

    def columns(self) -> list[list[str]] | None:
        """The texts of each column; None if not all rows have the same length."""
        tokens = _TOKEN.findall(self.text)
        width, rest = divmod(len(tokens), tokens.count("("))
        if rest or any(token != "(" for token in tokens[::width]):
            return None
        return [tokens[column::width] for column in range(1, width)]


def values_of(texts: Sequence[str], type: Type) -> list[Value] | None:
    """The texts as values of a type in which they are plainly written; None if one is not."""
    if type.kind in INTEGER_BITS:
        try:
            numbers = list(map(int, texts))
        except ValueError:
            return None
        bound = 1 << (INTEGER_BITS[type.kind] - 1)
        return list(numbers) if -bound <= min(numbers) and max(numbers) < bound else None
    if type == VARCHAR and all(text[0] == "'" for text in texts):
        return [text[1:-1] for text in texts]
    return None


def node_of(text: str) -> exp.Expr:
    """The syntax tree of one constant."""
    if text[0] == "'":
        return exp.Literal.string(text[1:-1])
    if text.upper() in _WORDS:
        value = _WORDS[text.upper()]
        return exp.Null() if value is None else exp.Boolean(this=value)
    return exp.Neg(this=exp.Literal.number(text[1:])) if text[0] == "-" else exp.Literal.number(text)
