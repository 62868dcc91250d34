"""Work on a thread of its own, so that Ctrl-C reaches it only where it can stop.

An exception that a signal raises may fall between any two instructions, also between a commit and the moment at which
this process knows of it. So everything that touches the database runs on one other thread, which no signal reaches.
Ctrl-C asks the engine to give up what it is doing; that makes its statement fail, and a failure is undone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from types import FrameType
from typing import Final, TypeVar

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
