"""Reading statements token by token, as far as sqlglot does not know them."""

from __future__ import annotations

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.errors import TidemarkError
from tidemark.sql.parse.text import Source, fold, tokenize


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
