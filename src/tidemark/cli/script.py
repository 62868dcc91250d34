"""A script as pieces: each statement with its text, its place in the file and the comment that introduces it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tidemark.errors import Place, TidemarkError
from tidemark.session.statements import Kind, row_of
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.text import Source, split

_COMMENT = re.compile(r"^\s*--+ ?(?P<text>.*?)\s*$")
_SPACED = re.compile(r"\s+")


@dataclass(frozen=True)
class Piece:
    """One statement of a script.

    ``text`` is the statement as it is written, ``summary`` the same on one line without comments; ``comment`` is the
    block of ``--`` lines directly before it, as one line.
    """

    statement: st.Statement
    text: str
    summary: str
    comment: str
    place: Place

    @property
    def kind(self) -> Kind:
        return row_of(self.statement).kind

    @property
    def changes(self) -> bool:
        """Whether the statement changes a table, whatever else it is."""
        return self.kind is Kind.CHANGE or isinstance(self.statement, st.AnalyzeChange)

    @property
    def names(self) -> tuple[str, ...]:
        """The relations that the statement fills, refreshes or audits."""
        return row_of(self.statement).names(self.statement)

    def without_text(self) -> Piece:
        """The piece for readers who are not to see what it says, but for the word that it begins with."""
        place = replace(self.place, text="")
        return replace(self, summary=self.summary.partition(" ")[0].upper(), comment="", place=place)

    def located(self, error: TidemarkError) -> TidemarkError:
        """An error of running the statement by itself, with its place in the whole script."""
        return error if error.place is None else error.restated(place=error.place.inside(self.place))


def read_script(text: str, dialect: str) -> list[Piece]:
    """The statements of a script in order. Syntax errors anywhere are found here, before anything runs.

    >>> [piece] = read_script("-- the first\\n-- of all\\nSELECT 1 -- one\\n  AS a;", "postgres")
    >>> piece.comment, piece.summary, piece.place.line
    ('the first of all', 'SELECT 1 AS a', 3)
    """
    source = Source(text, dialect)
    return list(_pieces(source))


def _pieces(source: Source) -> Iterator[Piece]:
    statements = [statement for statement, _ in parse_script(source)]
    end = 0
    for statement, tokens in zip(statements, split(source), strict=True):
        first, last = tokens[0].start, tokens[-1].end + 1
        # What follows a command word may be one token, which names only where its last word begins.
        spans = [(min(token.start, token.end + 1 - len(token.text)), token.end + 1) for token in tokens]
        yield Piece(
            statement,
            source.text[first:last],
            _on_one_line(source.text, spans),
            _comment_before(source.text[end:first], is_first=end == 0),
            source.place(first, last - first),
        )
        end = last


def _on_one_line(text: str, spans: list[tuple[int, int]]) -> str:
    """The tokens with one space wherever the text has any, so that comments between them are gone."""
    parts: list[str] = []
    before = spans[0][0]
    for start, end in spans:
        if start > before:
            parts.append(" ")
        parts.append(_SPACED.sub(" ", text[start:end]))
        before = end
    return "".join(parts)


def _comment_before(gap: str, *, is_first: bool) -> str:
    """The comment lines at the end of what stands between two statements, up to the first other line."""
    *lines, indent = gap.split("\n")
    if indent.strip():
        return ""
    if lines and not is_first:
        lines = lines[1:]  # the rest of the line on which the statement before ends
    found: list[str] = []
    for line in reversed(lines):
        match = _COMMENT.match(line)
        if match is None:
            break
        found.append(match["text"])
    return " ".join(word for word in reversed(found) if word)
