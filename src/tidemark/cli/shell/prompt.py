"""Reading entries from a person at a terminal, and remembering them.

What may come next: keywords, relations and columns, guessed from the words before.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output

from tidemark.answers.describe import TransactionState
from tidemark.cli.shell.commands import COMMANDS
from tidemark.cli.shell.reader import Entry, is_complete

_KEYWORDS: Final = """
    ADD ALL ALTER ANALYZE AND AS ASC AUDIT BEGIN BETWEEN BIGINT BOOLEAN BY BYTEA CASCADE CASE CAST CHECK CHECKPOINT
    COALESCE COLUMN COMMIT COUNT CREATE DATE DECIMAL DEFAULT DELETE DESC DISTINCT DOUBLE DROP ELSE END EXISTS EXPLAIN
    EXTRACT FALSE FROM GROUP HAVING IF IN INNER INSERT INT INTO IS JOIN KEY LIKE LIMIT MATERIALIZED NOT NULL ON OR ORDER
    PRIMARY PUBLISH REAL REPLACE ROLLBACK SELECT SET SHOW SMALLINT SUM TABLE TABLES THEN TIMESTAMP TIMESTAMPTZ TRUE
    UNION UPDATE VALUES VARCHAR VERSION VERSIONS VIEW VIEWS WHEN WHERE WITH
    """
KEYWORDS: Final = tuple(_KEYWORDS.split())
COMMANDS_WITH_NAME: Final = ("d", "changes")

_LAST_WORD = re.compile(r'(?:(?P<owner>"[^"]+"|\w+)\.)?(?P<word>"[^"]*|\w*)$')
_BEFORE_RELATION = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|AUDIT|EXPLAIN|TABLE|VIEW)\s+$", re.IGNORECASE)
_NAMED = re.compile(
    r'\b(?:FROM|JOIN|INTO|UPDATE|,)\s*(?P<name>"[^"]+"|\w+)(?:\s+(?:AS\s+)?(?P<alias>\w+))?', re.IGNORECASE
)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_BEFORE_QUESTION = re.compile(r"\bEXPLAIN\s+$", re.IGNORECASE)
QUESTIONS: Final = ("ANALYZE", "EFFECT", "WHY")

Names = Mapping[str, tuple[str, ...]]
"""The columns of each relation."""


@dataclass(frozen=True)
class Suggestion:
    """A word in place of the last ``length`` letters, and what it names."""

    text: str
    length: int
    kind: str


def suggestions(text: str, names: Names, after: str = "") -> list[Suggestion]:
    """The words that may stand where ``text`` ends, the likeliest first. ``after`` is what stands behind it.

    >>> [s.text for s in suggestions("select quantity from it", {"item": ("id", "quantity"), "supplier": ("id",)})]
    ['item']
    """
    if _is_quoted(text):
        return []
    found = _LAST_WORD.search(text)
    assert found is not None
    before, word = text[: found.start()], found["word"]
    candidates: Iterable[tuple[str, str]]
    if text.lstrip().startswith("\\"):
        is_name = before.strip()[1:] in COMMANDS_WITH_NAME
        candidates = ((name, "relation") for name in (names if is_name else ()))
    elif found["owner"] is not None:
        owner = _unquoted(found["owner"])
        relation = _aliases(text + after).get(owner, owner)
        candidates = ((column, "column") for column in names.get(relation, ()))
    else:
        candidates = _anything(before, word, text + after, names)
    unique = dict.fromkeys((c, kind) for c, kind in candidates if _matches(c, word))
    return [Suggestion(_written(c, kind, word), len(word), kind) for c, kind in unique]


def _anything(before: str, word: str, statement: str, names: Names) -> Iterator[tuple[str, str]]:
    """Relations where only they can stand; else the columns of the relations in the statement, and the rest."""
    relations = [(name, "relation") for name in names]
    if _BEFORE_RELATION.search(before):
        yield from relations
        if word and _BEFORE_QUESTION.search(before):
            yield from ((keyword, "keyword") for keyword in QUESTIONS)
        return
    used = [name for name in dict.fromkeys(_aliases(statement).values()) if name in names]
    yield from ((column, "column") for name in used for column in names[name])
    if not word:
        return  # everything would be too much
    yield from ((keyword, "keyword") for keyword in KEYWORDS)
    yield from relations
    yield from ((column, "column") for columns in names.values() for column in columns if not used)


def _aliases(statement: str) -> dict[str, str]:
    """The names by which the statement knows relations."""
    known: dict[str, str] = {}
    for found in _NAMED.finditer(statement):
        name = _unquoted(found["name"])
        known[name] = name
        if found["alias"] and found["alias"].upper() not in KEYWORDS:
            known[found["alias"].lower()] = name
    return known


def _is_quoted(text: str) -> bool:
    """Whether the text ends inside a string or a comment; what comes there cannot be guessed."""
    last_line = text.rpartition("\n")[2]
    return text.count("'") % 2 == 1 or "--" in last_line


def _matches(candidate: str, word: str) -> bool:
    return candidate.lower().startswith(word.lstrip('"').lower())


def _unquoted(name: str) -> str:
    return name[1:-1] if name.startswith('"') else name.lower()


def _written(candidate: str, kind: str, word: str) -> str:
    """A keyword in the case that was begun; a name in quotes if it needs them."""
    if kind == "keyword":
        return candidate.lower() if word[:1].islower() else candidate
    needs_quotes = word.startswith('"') or not _PLAIN.fullmatch(candidate)
    return f'"{candidate}"' if needs_quotes else candidate


VARIABLE: Final = "TIDEMARK_HISTORY"
"""Names another file, or, if it is ``off`` or empty, none."""


def history_file() -> Path | None:
    """The file of the history, made if need be and readable by its owner alone; None if none is to be kept."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None and chosen.lower() in ("", "off"):
        return None
    path = Path(chosen).expanduser() if chosen else _state_folder() / "tidemark" / "history"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except OSError:
        return None  # a home that cannot be written to is no reason not to work
    return path


def _state_folder() -> Path:
    """XDG's folder for what programs remember; a relative path in the variable does not count there."""
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".local" / "state"


_SIGNS = {TransactionState.NONE: "", TransactionState.OPEN: "*", TransactionState.DOOMED: "!"}
_STYLES = {TransactionState.NONE: "ansicyan", TransactionState.OPEN: "ansiyellow", TransactionState.DOOMED: "ansired"}


def prompt_text(version: int, state: TransactionState) -> str:
    """The prompt: ``*`` says that a transaction is open, ``!`` that a statement in it failed.

    >>> prompt_text(12, TransactionState.OPEN)
    'tidemark 12*> '
    """
    return f"tidemark {version}{_SIGNS[state]}> "


class TerminalReader:
    """Entries that are typed: a statement may take several lines and ends with a semicolon and Enter."""

    def __init__(
        self, state: Callable[[], tuple[int, TransactionState]], names: Callable[[], Names], dialect: str
    ) -> None:
        self._state = state
        self._session: PromptSession[str] = PromptSession(
            history=_history(),
            completer=_NameCompleter(names),
            complete_while_typing=False,
            multiline=True,
            prompt_continuation=_continuation,
            key_bindings=_bindings(dialect),
            enable_history_search=False,
            # What is typed is no result: a pipe behind the standard output does not get the prompt.
            output=None if sys.stdout.isatty() else create_output(always_prefer_tty=True),
        )

    def read(self) -> Entry | None:
        try:
            return Entry(self._session.prompt(self._prompt))
        except EOFError:
            return None

    def _prompt(self) -> StyleAndTextTuples:
        version, state = self._state()
        return [(_STYLES[state], prompt_text(version, state))]


def _continuation(width: int, _line: int, wrapped: int) -> str:
    """What stands before further lines; nothing before the rest of a line that was too long."""
    return " " * width if wrapped else "-> ".rjust(width)


def _history() -> History:
    path = history_file()
    return InMemoryHistory() if path is None else FileHistory(str(path))


def _bindings(dialect: str) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text, dialect):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


class _NameCompleter(Completer):
    def __init__(self, names: Callable[[], Names]) -> None:
        self._names = names
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        command, space, argument = before.lstrip().partition(" ")
        if command == "\\i" and space:
            path = argument.lstrip()
            yield from self._paths.get_completions(Document(path, len(path)), complete_event)
        elif command.startswith("\\") and not space:
            found = [name for name in COMMANDS if name.startswith(command[1:])]
            yield from (Completion(name, -len(command) + 1, display=f"\\{name}") for name in found)
        else:
            for found_word in suggestions(before, self._names(), document.text_after_cursor):
                yield Completion(found_word.text, -found_word.length, display_meta=found_word.kind)
