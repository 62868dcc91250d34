"""A spinner on the standard error stream while something takes long, and only in a terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.text import Text

from tidemark.cli.tables import printable

DELAY_SECONDS: Final = 0.4
"""Most statements end before this, and a spinner that flashes up is worse than none."""


class Status:
    """Shows what is going on, and since when. Without a terminal it shows nothing."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line: _Line | None = None

    def step(self, what: str) -> None:
        """Name the step that is being taken now, beside what is shown already."""
        if self._line is not None:
            self._line.step = what

    @contextmanager
    def showing(self, what: str) -> Iterator[None]:
        if not self._console.is_terminal:
            yield
            return
        self._line = line = _Line(what, self._console.width)
        spinner = self._console.status(line)
        lock = threading.Lock()
        is_over = False

        def start() -> None:
            with lock:
                if not is_over:
                    spinner.start()

        timer = threading.Timer(DELAY_SECONDS, start)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self._line = None
            with lock:
                is_over = True
                spinner.stop()


class _Line:
    """The text beside the spinner, made anew each time that it is drawn: ``AUDIT v  propagating to v, 12 s``."""

    def __init__(self, what: str, width: int) -> None:
        self.what, self.width = printable(what), width
        self.step = ""
        self.since = time.monotonic()

    def __rich__(self) -> Text:
        seconds = int(time.monotonic() - self.since)
        parts = [printable(self.step)] if self.step else []
        parts += [f"{seconds} s"] if seconds else []
        detail = f"  {', '.join(parts)}" if parts else ""
        text = Text(self.what, style="dim", no_wrap=True)
        text.truncate(max(10, self.width - 4 - len(detail)), overflow="ellipsis")
        return text.append(detail)
