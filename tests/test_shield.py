"""Calls in a thread of their own: what is raised in the caller meanwhile ends them, and breaks nothing off."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tidemark.engines.spark.shield import Shield, unbroken


class Work:
    """Something that takes long, unless it is stopped."""

    def __init__(self) -> None:
        self.begun, self.stopped = threading.Event(), threading.Event()
        self.done: list[str] = []

    def stop(self) -> None:
        self.stopped.set()

    def long(self) -> str:
        self.begun.set()
        was_stopped = self.stopped.wait(30)
        self.done.append("long")
        return "stopped" if was_stopped else "whole"


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Ctrl-C is heard, also where this process was started in the background and told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def shield(work: Work) -> Iterator[Shield]:
    made = Shield(work.stop)
    yield made
    made.close()


def press_when_begun(work: Work, times: int = 1) -> None:
    """Ctrl-C, from another thread."""

    def press() -> None:
        work.begun.wait(30)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


def test_results_and_errors_come_back(shield: Shield) -> None:
    assert shield.call(lambda: 1 + 1) == 2
    with pytest.raises(ZeroDivisionError):
        shield.call(lambda: 1 // 0)
    assert shield.call(threading.get_ident) == shield.call(threading.get_ident) != threading.get_ident()


def test_a_call_inside_a_call_is_made_at_once(shield: Shield) -> None:
    assert shield.call(lambda: shield.call(lambda: "inner")) == "inner"


def test_ctrl_c_stops_the_call_and_comes_when_that_has_ended(shield: Shield, work: Work) -> None:
    press_when_begun(work)
    with pytest.raises(KeyboardInterrupt):
        shield.call(work.long)
    assert work.done == ["long"], "it was not broken off"
    assert shield.call(lambda: "next") == "next"


def test_after_a_call_nothing_is_stopped_any_more(shield: Shield, work: Work) -> None:
    press_when_begun(work)
    with pytest.raises(KeyboardInterrupt):
        shield.call(work.long)
    work.stopped.clear()
    shield.call(lambda: time.sleep(0.2))
    assert not work.stopped.is_set()


def test_what_follows_a_call_that_was_left_waits_for_it(shield: Shield, work: Work) -> None:
    threading.Thread(target=lambda: shield.call(work.long), daemon=True).start()
    assert work.begun.wait(30)
    threading.Timer(0.2, work.stop).start()
    assert shield.call(lambda: list(work.done)) == ["long"]


def test_after_closing_another_thread_begins(shield: Shield) -> None:
    before = shield.call(threading.current_thread)
    shield.close()
    before.join(30)
    assert not before.is_alive()
    assert shield.call(lambda: "again") == "again"


def test_one_call_alone_leaves_no_thread() -> None:
    used = unbroken(threading.current_thread)
    assert used is not threading.current_thread()
    used.join(30)
    assert not used.is_alive()


def test_handlers_of_signals_are_left_alone(shield: Shield) -> None:
    before = signal.getsignal(signal.SIGINT)
    shield.call(lambda: None)
    assert signal.getsignal(signal.SIGINT) is before
