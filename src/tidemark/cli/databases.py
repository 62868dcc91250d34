"""Opening databases and scripts that the command line names.

A script as pieces: each statement with its text, its place in the file and the comment that introduces it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlparse

from tidemark.answers.describe import watching
from tidemark.cli.show import console_for
from tidemark.cli.spinner import Status
from tidemark.errors import Place, TidemarkError
from tidemark.session import Database, connect
from tidemark.session.statements import Kind, row_of
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.text import Source, split
from tidemark.storage.store import is_url


@contextmanager
def connected(target: str, status: Status, dialect: str = "postgres", allow: Sequence[Path] = ()) -> Iterator[Database]:
    engine = target.partition(":")[0]
    with status.showing("starting Spark" if engine == "spark" else f"opening {target}"):
        database = connect(str(target), dialect=dialect, allow_paths=allow)
    try:
        with watching(database, status.step):
            yield database
    finally:
        with status.showing("closing the database"):
            database.close()


def to_look_at(target: str) -> str:
    """The target; if nothing is there, an empty database of its engine, which is gone afterwards."""
    engine, _, path = target.partition(":")
    place = place_of(target)
    if place is None or engine not in ("duckdb", "spark"):
        return target
    if is_url(path):
        is_new = engine == "spark" and not _has_lake(path)
    else:
        is_empty = engine == "spark" and place.is_dir() and not any(place.iterdir())
        is_new = is_empty or not os.path.lexists(place)
    return engine if is_new else target


@contextmanager
def existing(target: str) -> Iterator[Database]:
    """A connection to a database that is there already; nothing is created."""
    must_exist(target)
    with connected(target, Status(console_for(stderr=True))) as database:
        yield database


def must_exist(target: str) -> None:
    """Refuse a target at which there is no database."""
    engine, _, path = target.partition(":")
    place = place_of(target)
    if place is None:
        raise TidemarkError(
            "target",
            f"{target!r} would be a new, empty database",
            hint="name one that exists: duckdb:path/to/file.duckdb or spark:path/to/lake",
        )
    needed = place / "_tidemark" / "lake.json" if engine == "spark" else place
    is_there = _has_lake(path) if engine == "spark" and is_url(path) else needed.is_file()
    if engine in ("spark", "duckdb") and not is_there:
        raise TidemarkError(
            "not_a_database", f"there is no database at {path}", hint="tidemark run --database creates one"
        )


def _has_lake(url: str) -> bool:
    from tidemark.storage import bucket

    return bucket.has_object(bucket.place_of(url, {}), "_tidemark/lake.json")


def place_of(target: str) -> Path | None:
    """The file or folder of a durable database."""
    engine, _, path = target.partition(":")
    if not path:
        return None
    if engine != "spark":
        return Path(path)
    return Path(unquote(urlparse(path).path)) if path.startswith("file:") else Path(path).expanduser()


def bytes_of(target: str) -> int | None:
    """How much a durable database takes where it lies; for DuckDB with what lies beside it."""
    place = place_of(target)
    if place is None:
        return None
    _, _, path = target.partition(":")
    if is_url(path):
        from tidemark.storage import bucket  # its library is loaded by those who need it

        return bucket.bytes_at(bucket.place_of(path, {}))
    beside = (place.with_name(f"{place.name}{suffix}") for suffix in (".wal", ".tide"))
    files = place.rglob("*") if place.is_dir() else (place, *beside)
    return sum(file.stat().st_size for file in files if file.is_file())


def read_text(script: Path) -> str:
    """The text of a script; ``-`` is the standard input."""
    try:
        data = sys.stdin.buffer.read() if str(script) == "-" else script.read_bytes()
    except OSError as error:
        raise TidemarkError("script", f"{script} cannot be read: {error.strerror}") from error
    return decoded(data, str(script))


def decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TidemarkError(
            "script", f"{name} is not UTF-8: {error.reason} at byte {error.start}", hint="save it as UTF-8"
        ) from error


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
