"""The loop: read an entry, run it, show what it did, until there is nothing more to read.

Work on a thread of its own, so that Ctrl-C reaches it only where it can stop.

An exception that a signal raises may fall between any two instructions, also between a commit and the moment at which
this process knows of it. So everything that touches the database runs on one other thread, which no signal reaches.
Ctrl-C asks the engine to give up what it is doing; that makes its statement fail, and a failure is undone.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

from tidemark.answers.describe import TransactionState, interrupt, relations, transaction_state, watching
from tidemark.cli.databases import Piece, connected, read_script
from tidemark.cli.run import ScriptRun
from tidemark.cli.shell.commands import Session, run_command
from tidemark.cli.shell.reader import Entry, PipeReader, Reader, entries
from tidemark.cli.show import Display, as_error, console_for
from tidemark.cli.spinner import Status
from tidemark.errors import TidemarkError
from tidemark.session import Database

T = TypeVar("T")

AGAIN_SECONDS: Final = 1.0
"""The engine is asked again after this time: it may have been between two statements."""


class Worker:
    """One thread. ``stop`` is what Ctrl-C calls, in the main thread, while something runs on the other one."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "tidemark-shell")
        self.stop: Callable[[], None] = lambda: None
        self.is_stopping = False

    def run(self, action: Callable[[], T]) -> T:
        """Run the action over there and wait for it."""
        self.is_stopping = False
        with self._interruptible():
            future = self._executor.submit(action)
            while not wait([future], AGAIN_SECONDS).done:
                if self.is_stopping:
                    self.stop()
        return future.result()

    def check(self) -> None:
        """Called over there, where stopping does no harm: raise if Ctrl-C was pressed."""
        if self.is_stopping:
            raise KeyboardInterrupt("interrupted")

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # signals are none of our business here
            return
        before = signal.signal(signal.SIGINT, self._pressed)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _pressed(self, _signal: int, _frame: FrameType | None) -> None:
        self.is_stopping = True
        self.stop()

    def close(self) -> None:
        self._executor.shutdown()


DEEPEST: Final = 20
"""How deeply files may run files."""


class Outputs:
    """Where results, errors and progress go."""

    def __init__(self, rows: int | None) -> None:
        self.results = Display(console_for(), rows)
        self.errors = Display(console_for(stderr=True), rows)
        self.status = Status(console_for(stderr=True))

    def begin(self, is_interactive: bool) -> None:
        """Something was typed since the last output, so that no empty line is needed."""
        if is_interactive:
            self.results.begin()
        self.errors.begin()


class Shell:
    """One session. Without the name of a script it is interactive: it goes on after an error, and spares people what
    they typed themselves. A script reads other files only if whoever started the shell ``includes`` them: it may come
    from somebody who may not read them, and so nothing of their text is shown."""

    def __init__(
        self,
        database: Database,
        worker: Worker,
        outputs: Outputs,
        dialect: str,
        name: str | None,
        *,
        includes: bool = False,
    ) -> None:
        self._database, self._worker, self._outputs, self._dialect = database, worker, outputs, dialect
        self._is_interactive = name is None
        self._includes = includes or self._is_interactive
        self._files = [name]
        run = ScriptRun(database, outputs.results, outputs.status, is_echoed=not self._is_interactive)
        self._session = Session(database, outputs.results, run, self._include)

    def loop(self, reader: Reader) -> bool:
        """Run until the end; whether all went well."""
        while not self._session.is_over:
            try:
                entry = reader.read()
                if entry is None:
                    break
                is_well = self._worker.run(partial(self._handled, entry))
            except KeyboardInterrupt:  # at the prompt, or before or after the work: there is nothing to stop
                if self._is_interactive:
                    continue
                raise
            if not is_well and not self._is_interactive:
                return False
        return self._worker.run(self._ended)

    # From here on everything runs on the worker's thread.

    def _handled(self, entry: Entry) -> bool:
        """Run an entry and show what went wrong; whether all went well."""
        self._outputs.begin(self._is_interactive)
        try:
            with watching(self._database, self._stepped):
                self._run(entry)
        except BrokenPipeError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            was_open = self._session.run.is_in_transaction
            self._session.run.recover()
            if self._worker.is_stopping or isinstance(error, KeyboardInterrupt):
                self._outputs.errors.note(f"interrupted; {self._aftermath(was_open)}")
            else:
                self._failed(error, was_open)
            del self._files[1:]
            return False
        return True

    def _stepped(self, step: str) -> None:
        self._outputs.status.step(step)
        self._worker.check()

    def _run(self, entry: Entry) -> None:
        command = entry.command
        if command is not None:
            run_command(command, self._session)
            return
        for piece in self._pieces(entry):
            self._worker.check()
            self._session.run.run_piece(piece.without_text() if self._is_hidden else piece)

    def _pieces(self, entry: Entry) -> list[Piece]:
        text = "\n" * (entry.line - 1) + entry.text  # so that places are those of the whole file
        try:
            return read_script(text, self._dialect)
        except TidemarkError:
            if transaction_state(self._database) is not TransactionState.NONE:
                self._database.execute(text)  # fails as well, and dooms the transaction as every failure does
            raise

    def _include(self, path: Path) -> None:
        """Run a file; the first error ends it."""
        if not self._includes:
            raise TidemarkError("script", "\\i reads no files in a script from a pipe", hint="--include lets it")
        if len(self._files) > DEEPEST:
            raise TidemarkError("script", f"{path} is run by a file that it runs itself")
        self._files.append(path.name)
        run = self._session.run
        echoed, run.is_echoed = run.is_echoed, self._is_interactive
        try:
            with path.open("rb") as lines:
                for entry in entries(lines, str(path), self._dialect):
                    self._run(entry)
        except OSError as error:
            self._files.pop()
            raise TidemarkError("script", f"{path} cannot be read: {error.strerror}") from error
        finally:
            run.is_echoed = echoed
        self._files.pop()

    @property
    def _is_hidden(self) -> bool:
        """Whether what runs now is a file that a script from a pipe asked for."""
        return not self._is_interactive and len(self._files) > 1

    def _failed(self, error: BaseException, was_open: bool) -> None:
        assert isinstance(error, Exception)
        shown = as_error(error)
        if self._is_hidden:
            shown = without_text(shown)
        self._outputs.errors.error(shown, self._files[-1])
        if not self._is_interactive:
            rolled_back = "; the open transaction was rolled back" if was_open else ""
            self._outputs.errors.note(f"stopped at version {self._database.version}{rolled_back}")
        elif was_open and shown.code != "doomed":
            self._outputs.errors.note(self._aftermath(was_open))

    def _aftermath(self, was_open: bool) -> str:
        """Where an error leaves the transaction."""
        match transaction_state(self._database):
            case TransactionState.DOOMED:
                return "the open transaction is doomed: only ROLLBACK can follow"
            case TransactionState.OPEN:
                return "the transaction is still open"
        return "the transaction was rolled back" if was_open else "the statement did nothing"

    def _ended(self) -> bool:
        """The end of the input, where no transaction should be open; whether all went well."""
        run = self._session.run
        if self._is_interactive:
            if run.is_in_transaction:
                self._outputs.errors.note("the open transaction was rolled back")
            return True
        try:
            run.end()
        except TidemarkError as error:
            self._failed(error, was_open=True)
            return False
        return run.is_true


def without_text(error: TidemarkError) -> TidemarkError:
    """An error in a file whose text is not to be seen. What is no statement is not told word by word."""
    where = "" if error.place is None else f"line {error.place.line}, column {error.place.column}: "
    if error.code == "syntax":
        return TidemarkError("syntax", f"{where}this is not a statement or command")
    return error.without_place().restated(f"{where}{error.message}")


def start(target: str, dialect: str, rows: int | None, *, includes: bool = False) -> bool:
    """Open a database and run a shell on it, at a terminal or from a pipe; whether all went well."""
    worker, stack, outputs = Worker(), ExitStack(), Outputs(rows)
    try:
        database = worker.run(lambda: stack.enter_context(connected(target, outputs.status, dialect)))
        worker.stop = partial(interrupt, database)
        if not sys.stdin.isatty():
            shell = Shell(database, worker, outputs, dialect, "standard input", includes=includes)
            return shell.loop(PipeReader(sys.stdin.buffer, "standard input", dialect))
        # Only here: it takes a tenth of a second to import, and a pipe does not need it.
        from tidemark.cli.shell.prompt import TerminalReader

        outputs.errors.note(f"{target} at version {database.version}; \\? shows help, \\q leaves")
        reader = TerminalReader(
            lambda: (database.version, transaction_state(database)),
            lambda: {one.name: tuple(column.name for column in one.columns) for one in relations(database)},
            dialect,
        )
        return Shell(database, worker, outputs, dialect, None).loop(reader)
    finally:
        worker.stop = lambda: None
        worker.run(stack.close)
        worker.close()
