"""Exceptions at every line: a tool that raises one at the next line of Tidemark at which none was raised before.

So there is no need to know beforehand which lines run: a step is repeated until it comes to its end without one.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tidemark

SOURCE = str(Path(tidemark.__file__).parent) + "/"
Place = tuple[str, int]


class Unforeseen(MemoryError):
    """An exception that nobody expects."""


class Interruptions:
    """Raises at one new line each time. ``share`` leaves out all lines but some, chosen by the seed.

    ``again`` names parts of the source whose lines count anew for each kind of step (``begin_step``): what stores and
    what remembers. The lines of all others are tried once, in whatever step they run first.
    """

    def __init__(
        self,
        make: Callable[[], BaseException] = KeyboardInterrupt,
        *,
        seed: int = 0,
        share: float = 1.0,
        again: tuple[str, ...] = (),
    ) -> None:
        self._make, self._share, self._again = make, share, again
        self._random = random.Random(seed)
        self._tried: set[tuple[str, Place]] = set()
        self._left_out: set[tuple[str, Place]] = set()
        self._step = ""
        self._over: set[tuple[CodeType, int]] = set()
        """The lines of which it is known that they are not chosen: most of what runs, so that this is asked first."""
        self.count = 0
        self.place: Place | None = None

    def begin_step(self, name: str) -> None:
        self._step = name
        self._over = set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Raise one exception in what runs meanwhile in this thread; ``place`` says where, or is None if nowhere."""
        self.place = None
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._traced if self.place is None and frame.f_code.co_filename.startswith(SOURCE) else None

    def _traced(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and self.place is None and (key := (frame.f_code, frame.f_lineno)) not in self._over:
            self._over.add(key)
            if self._is_chosen(frame):
                self.count += 1
                raise self._make()
        return self._traced

    def _is_chosen(self, frame: FrameType) -> bool:
        file = frame.f_code.co_filename.removeprefix(SOURCE)
        place = (file, frame.f_lineno)
        key = (self._step if file.startswith(self._again) else "", place)
        if key in self._tried or key in self._left_out:
            return False
        if self._share < 1 and self._random.random() >= self._share:
            self._left_out.add(key)
            return False
        self._tried.add(key)
        self.place = place
        return True
