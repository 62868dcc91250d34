"""Where a statement ends, and reading entries from a file or a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from tidemark.cli.databases import decoded
from tidemark.errors import TidemarkError
from tidemark.sql.parse.text import Source, tokenize

WORDS: Final = {"exit": "\\q", "quit": "\\q", "help": "\\?"}
"""What people type who do not know the commands."""


@dataclass(frozen=True)
class Entry:
    """One or more whole statements, or a command that begins with a backslash, and the line where it begins."""

    text: str
    line: int = 1

    @property
    def command(self) -> str | None:
        """The command line without its backslash, if it is one."""
        text = self.text.strip()
        text = WORDS.get(text.rstrip(";").lower(), text)
        return text[1:] if text.startswith("\\") else None


class Reader(Protocol):
    """Gives entries until there are none. Ctrl-C at a prompt raises KeyboardInterrupt."""

    def read(self) -> Entry | None: ...


def is_complete(text: str, dialect: str = "postgres") -> bool:
    """Whether what was typed can be run: nothing, a command, or statements of which the last ends with a semicolon.

    >>> [is_complete(text) for text in ("", "\\\\d", "SELECT 1", "SELECT 1;", "SELECT ';", "SELECT 1; -- done;")]
    [True, True, False, True, False, True]
    """
    stripped = text.strip()
    if not stripped or stripped.startswith("\\") or stripped.lower() in WORDS:
        return True
    if ";" not in stripped:
        return False
    try:
        tokens = tokenize(Source(text, dialect))
    except TidemarkError:
        return False  # a quote or a comment is open
    return bool(tokens) and text[tokens[-1].start] == ";"


def entries(lines: Iterable[bytes], name: str, dialect: str) -> Iterator[Entry]:
    """The entries of a file, as its lines come. What stands at the end without a semicolon counts, too."""
    kept, first = "", 1
    for number, line in enumerate(lines, start=1):
        text = decoded(line, name) if number == 1 else _plain(line, name, number)
        if not kept.strip():
            kept, first = "", number
        kept += text
        # A long statement is looked at as a whole only where it may end.
        if (number == first or ";" in text) and is_complete(kept, dialect):
            if kept.strip():
                yield Entry(kept, first)
            kept = ""
    if kept.strip():
        yield Entry(kept, first)


def _plain(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise TidemarkError(
            "script", f"line {number} of {name} is not UTF-8: {error.reason}", hint="save it as UTF-8"
        ) from error


class PipeReader:
    """Entries from a stream that is not a terminal."""

    def __init__(self, lines: Iterable[bytes], name: str, dialect: str) -> None:
        self._entries = entries(lines, name, dialect)

    def read(self) -> Entry | None:
        return next(self._entries, None)
