"""Calls that no signal breaks off: they run in a thread of their own, since Python raises in its main thread alone.

The libraries that speak with Spark do not bear an exception in the midst of a call: the rest of an answer would stay in
a socket and be taken for that of the next question. So the caller waits for a thread that asks. An exception that comes
while it waits, as Ctrl-C raises one, ends what is asked, and is raised when that has ended.

Spark's errors in Tidemark's words: one line, a stable code, no JVM stack.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, Generic, TypeVar, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidemark.algebra.functions import failure_code
from tidemark.errors import TidemarkError
from tidemark.storage.disk import storage_trouble

AGAIN_SECONDS: Final = 0.05
"""Who works is asked again after this time to stop: it may have been between two steps."""

Result = TypeVar("Result")


class _Call(Generic[Result]):
    """A function that a thread is to call, and what came of it."""

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._over = threading.Lock()
        self._over.acquire()
        self._ending = threading.Lock()
        self._is_wanted, self._is_done = True, False

    def make(self) -> None:
        """Call the function, unless nobody waits any more."""
        try:
            if self._is_wanted:
                self._result = self._function()
        except BaseException as error:
            self._error = error
        finally:
            with self._ending:  # so that nobody stops what comes next
                self._is_done = True
            self._over.release()

    def wait(self, stop: Callable[[], None]) -> None:
        """Wait for the end. What is raised meanwhile stops the call, and is raised when it has ended."""
        raised: BaseException | None = None
        while not self._is_done:
            try:
                self._over.acquire()
            except BaseException as error:
                raised = error
                self.give_up(stop)
        if raised is not None:
            raise raised

    def give_up(self, stop: Callable[[], None]) -> None:
        """Let the call end soon."""
        if self._is_wanted and not self._is_done:
            self._is_wanted = False
            threading.Thread(target=self._stop, args=(stop,), name="tidemark stopping spark", daemon=True).start()

    def _stop(self, stop: Callable[[], None]) -> None:
        while True:
            with self._ending:
                if self._is_done:
                    return
                stop()
            time.sleep(AGAIN_SECONDS)

    def outcome(self) -> Result:
        if self._error is not None:
            raise self._error
        return cast(Result, self._result)


_Calls = SimpleQueue["_Call[object] | None"]


class Shield:
    """Calls functions one after the other in its thread; ``stop`` lets the one that runs fail.

    What follows a call that was given up waits until that has ended, even if its caller could not.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._calls: _Calls = SimpleQueue()
        self._turn = threading.Lock()
        self._is_serving = False

    def call(self, function: Callable[[], Result]) -> Result:
        if getattr(_within, "calls", None) is self._calls:
            return function()
        if not self._is_serving:
            # An exception in between may leave two threads, of which one works at a time, but never none.
            serving = threading.Thread(
                target=_serve, args=(self._calls, self._turn), name="tidemark spark", daemon=True
            )
            serving.start()
            self._is_serving = True
        call = _Call(function)
        try:
            self._calls.put(cast("_Call[object]", call))
            call.wait(self._stop)
        except BaseException:
            call.give_up(self._stop)
            raise
        return call.outcome()

    def close(self) -> None:
        """Let the thread end after what it does. A later call begins another one."""
        before, self._calls, self._is_serving = self._calls, SimpleQueue(), False
        before.put(None)


def unbroken(function: Callable[[], Result]) -> Result:
    """Call one function so that no signal breaks it off; nothing stops it. Signals raise in the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        return function()
    shield = Shield(lambda: None)
    try:
        return shield.call(function)
    finally:
        shield.close()


_within = threading.local()
"""In a thread that serves: the queue that it serves."""


def _serve(calls: _Calls, turn: threading.Lock) -> None:
    _within.calls = calls
    while (call := calls.get()) is not None:
        with turn:
            call.make()
        del call  # its result is not ours to keep
    with suppress(Exception):
        calls.put(None)  # for another thread that serves this queue


# Errors

_JAVA: Final = re.compile(r"^An error occurred while calling \S+\s*: ([\w.]+: )?")
_CANCELLED: Final = re.compile(r"\[(SPARK_JOB_CANCELLED|OPERATION_CANCELED)\]")
_NO_S3A: Final = re.compile(r"S3AFileSystem not found|No FileSystem for scheme \"?s3")
_OWN: Final = re.compile(r"\b(division_by_zero|overflow|invalid_value|cardinality): ?([^\n]*)")


def translated(error: PySparkException | Py4JError) -> TidemarkError:
    """An error that evaluating a plan raised: overflow, division by zero, a value that cannot be cast.

    What PySpark has no exception of its own for, a cancelled job among others, comes as py4j hands it on.
    """
    if _CANCELLED.search(str(error)):
        return TidemarkError("interrupted", "the statement was interrupted", hint="run it again if it is needed")
    if _NO_S3A.search(str(error)):
        return TidemarkError(
            "unsupported",
            "this Spark cannot read buckets: it has no class S3AFileSystem",
            hint="scripts/hadoop_aws.sh fetches the jars, which go on Spark's class path before it starts; "
            "on one machine Spark needs none with options={'storage': {'spark': 'files'}}",
        )
    trouble = storage_trouble(error)
    if trouble is not None:
        return trouble
    if isinstance(error, Py4JError):
        return TidemarkError("evaluation_failed", one_line(_JAVA.sub("", str(error))))
    text = error.getMessage() or str(error)
    own = _OWN.search(text)
    if own:
        return TidemarkError(own.group(1), own.group(2).strip(" '\"") or own.group(1).replace("_", " "))
    code = failure_code(f"[{error.getCondition() or ''}] {text}")
    return TidemarkError(code or "evaluation_failed", one_line(text))


def one_line(text: str) -> str:
    """What Spark says of itself, without the condition's name, its advice and the SQL that it quotes.

    >>> one_line("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate it. SQLSTATE: 22012\\n== SQL ==")
    'Division by zero'
    """
    first = next((line for line in text.splitlines() if line.strip()), "Spark gave no reason")
    first = re.sub(r"^.*?\[[A-Z_.0-9]+\] ", "", first)
    first = re.sub(r" SQLSTATE: \w+$", "", first)
    first = re.sub(r"\. (If necessary|Use `try|To return NULL).*$", "", first)
    return first.strip().rstrip(".")[:300]
