"""Reading entries from a person at a terminal, and remembering them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
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
from tidemark.cli.shell.completion import Names, suggestions
from tidemark.cli.shell.reader import Entry, is_complete

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
