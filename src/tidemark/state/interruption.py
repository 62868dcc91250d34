"""Ending a statement that runs: another thread asks for it, or its time is over.

The engine is asked again and again, since it hears only while it is at work; between its steps the statement looks
for itself. From the commit point on nothing can be ended any more: who asks then is not heard.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidemark.errors import TidemarkError

AGAIN_SECONDS: Final = 0.05
"""The engine is asked again after this time: it may have been between two of its statements."""
INTERRUPTED: Final = "interrupted"
TIMEOUT: Final = "timeout"


@dataclass
class Running:
    """A statement: when its time is over, why it is to end, and whether it cannot be ended any more."""

    deadline: float | None
    reason: str | None = None
    is_deaf: bool = False

    def due_in(self) -> float | None:
        """In how many seconds the engine is to be asked to stop; None if it is not."""
        if self.is_deaf:
            return None
        if self.reason is not None:
            return 0.0
        return None if self.deadline is None else self.deadline - time.monotonic()


class Stopping:
    """Ends the statements of one database. ``press`` asks its engine to give up what it is doing."""

    def __init__(self, press: Callable[[], None]) -> None:
        self._press = press
        self.timeout: float | None = None
        """How many seconds a statement may take; None if as many as it likes."""
        self._running: Running | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_idle = self._is_closed = False

    # What the thread that runs statements calls

    def begin(self) -> None:
        """A statement begins. One that follows another in the same call is not begun if that was to be ended."""
        before = self._running
        self._running = Running(None if self.timeout is None else time.monotonic() + self.timeout)
        if before is not None and before.reason == INTERRUPTED:
            self._running.reason = INTERRUPTED
            self.check()
        if self.timeout is not None and (self._thread is None or self._is_idle):
            self._wake()

    def end(self) -> None:
        """The call is over."""
        self._running = None

    def deafen(self) -> None:
        """What runs cannot be ended from here on. When this returns, nobody is asking the engine any more."""
        running = self._running
        if running is not None and not running.is_deaf:
            with self._changed:
                running.is_deaf = True

    def check(self) -> None:
        """Called between steps: end the statement if that is asked for."""
        running = self._running
        if running is None or running.is_deaf:
            return
        if running.reason is None and running.deadline is not None and time.monotonic() >= running.deadline:
            running.reason = TIMEOUT
        if running.reason is not None:
            raise self._ended(running)

    def told(self, error: TidemarkError) -> TidemarkError:
        """An error as it is told: an engine that was asked to stop does not know why it was."""
        running = self._running
        if running is None or running.reason != TIMEOUT or error.code != INTERRUPTED:
            return error
        return self._ended(running)

    def _ended(self, running: Running) -> TidemarkError:
        if running.reason == TIMEOUT:
            return TidemarkError(
                "timeout",
                f"the statement took longer than {self.timeout:g} seconds, and was undone",
                hint="give it more time with the option statement_timeout, or let it do less",
            )
        return interrupted()

    # What other threads call

    def interrupt(self) -> None:
        """End the statement that runs; if none does, nothing happens."""
        running = self._running
        if running is not None and running.reason is None:
            running.reason = INTERRUPTED
            self._wake()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # The thread that asks the engine

    def _wake(self) -> None:
        with self._changed:
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._watch, name="tidemark stopping", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _watch(self) -> None:
        with self._changed:
            while not self._is_closed:
                running = self._running
                seconds = None if running is None else running.due_in()
                if running is not None and seconds is not None and seconds <= 0:
                    running.reason = running.reason or TIMEOUT
                    self._press()
                    seconds = AGAIN_SECONDS
                self._is_idle = seconds is None
                self._changed.wait(seconds)


def interrupted() -> TidemarkError:
    return TidemarkError("interrupted", "the statement was interrupted", hint="run it again if it is needed")
