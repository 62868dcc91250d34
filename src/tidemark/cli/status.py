"""A spinner on the standard error stream while something takes long, and only in a terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.text import Text

from tidemark.cli.show import printable

DELAY_SECONDS: Final = 0.4
"""Most statements end before this, and a spinner that flashes up is worse than none."""


class Status:
    """Shows what is going on. Without a terminal it shows nothing."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def showing(self, what: str) -> Iterator[None]:
        if not self._console.is_terminal:
            yield
            return
        text = Text(printable(what), style="dim", no_wrap=True)
        text.truncate(max(10, self._console.width - 4), overflow="ellipsis")
        spinner = self._console.status(text)
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
            with lock:
                is_over = True
                spinner.stop()
