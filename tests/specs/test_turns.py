"""Turns: one transaction at a time, in order; who would wait in vain is told at once."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import pytest

from tidemark.errors import TidemarkError
from tidemark.session.options import options_of
from tidemark.session.turns import OngoingCall, Turn, Turns


@dataclass
class Opened:
    is_open: bool = True
    is_left: bool = False


def turns_of(seconds: float = 5.0, *, is_quiet: bool = True, ended: list[Turn] | None = None) -> Turns:
    def abandon(turn: Turn) -> None:
        if ended is not None:
            ended.append(turn)
        assert isinstance(turn.transaction, Opened)
        turn.transaction.is_open = False

    return Turns(seconds, abandon, lambda: is_quiet)


HELD: list[Opened] = []
"""Programs hold their transactions; one that nobody holds is none."""


def opened(turns: Turns, what: str = "test") -> Turn:
    turn = turns.take(what, OngoingCall())
    HELD.append(Opened())
    turn.transaction = HELD[-1]
    return turn


def test_a_transaction_that_nobody_holds_any_more_keeps_nobody_waiting() -> None:
    turns = turns_of()
    turn = opened(turns)
    HELD.remove(cast("Opened", turn.transaction))
    assert turn.transaction is None and not turns.is_open
    assert in_thread(lambda: opened(turns).is_open) == [True]


def end(turns: Turns, turn: Turn) -> None:
    assert isinstance(turn.transaction, Opened)
    turn.transaction.is_open = False
    turns.give_back(turn)


def in_thread(action: Callable[[], object], name: str = "other") -> list[object]:
    """What an action gives, or the error that it raises, in a thread of its own, which has ended then."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(action())
        except TidemarkError as error:
            found.append(error)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return found


def code_of(found: list[object]) -> str:
    assert isinstance(found[0], TidemarkError), found
    return found[0].code


def test_the_same_caller_is_told_at_once() -> None:
    turns = turns_of()
    turn = opened(turns)
    before = time.monotonic()
    with pytest.raises(TidemarkError) as caught:
        turns.take("again", OngoingCall())
    assert caught.value.code == "transaction" and time.monotonic() - before < 1
    end(turns, turn)
    end(turns, opened(turns))


def test_others_wait_until_the_time_is_over_and_are_told_who_has_it() -> None:
    turns = turns_of(0.3)
    turn = opened(turns, "db.transaction()")
    before = time.monotonic()
    found = in_thread(lambda: turns.take("mine", OngoingCall()))
    assert code_of(found) == "busy" and 0.3 <= time.monotonic() - before < 5
    assert "thread 'MainThread'" in str(found[0]) and "db.transaction()" in str(found[0])
    assert turns.current is turn, "whoever has it still has it"
    end(turns, turn)
    end(turns, opened(turns))


def test_those_who_wait_come_in_the_order_in_which_they_asked() -> None:
    turns, order = turns_of(30), list[int]()
    turn = opened(turns)

    def take(number: int) -> None:
        mine = opened(turns)
        order.append(number)
        end(turns, mine)

    threads = []
    for number in range(8):
        thread = threading.Thread(target=take, args=(number,))
        thread.start()
        threads.append(thread)
        deadline = time.monotonic() + 20
        while len(turns._waiting) <= number and time.monotonic() < deadline:
            time.sleep(0.001)
    end(turns, turn)
    for thread in threads:
        thread.join(30)
    assert order == list(range(8))


def test_a_function_that_is_told_of_what_was_done_may_begin_a_transaction_in_the_same_turn() -> None:
    turns = turns_of(0.2)
    outer_call = OngoingCall()
    outer = turns.take("run_due", outer_call)
    inner = opened(turns)
    assert in_thread(lambda: turns.try_take("other", OngoingCall())) == [None]
    end(turns, inner)
    assert turns.current is outer, "the outer one goes on"
    assert code_of(in_thread(lambda: turns.take("other", OngoingCall()))) == "busy"
    turns.give_back(outer)
    turns.give_back(outer)
    end(turns, opened(turns))


def test_what_a_thread_left_open_that_has_ended_is_rolled_back_when_somebody_waits() -> None:
    ended: list[Turn] = []
    turns = turns_of(ended=ended)
    (left,) = in_thread(lambda: opened(turns))
    assert turns.is_open, "nobody has noticed yet"
    turn = opened(turns)
    assert ended == [left] and turns.current is turn
    end(turns, turn)


def test_a_transaction_that_was_handed_over_is_whoever_used_it_last() -> None:
    ended: list[Turn] = []
    turns = turns_of(0.2, ended=ended)
    (handed,) = in_thread(lambda: opened(turns))
    assert isinstance(handed, Turn) and handed.transaction is not None
    turns.use(handed.transaction)
    assert code_of(in_thread(lambda: turns.take("other", OngoingCall()))) == "busy"
    assert not ended and turns.own() is handed
    with pytest.raises(TidemarkError, match="open already"):
        turns.take("again", OngoingCall())
    end(turns, handed)


def test_a_task_cannot_wait_for_another_task_of_its_thread() -> None:
    turns = turns_of(30)
    told: list[TidemarkError] = []

    async def holds(begun: asyncio.Event, go_on: asyncio.Event) -> None:
        turn = opened(turns)
        with pytest.raises(TidemarkError, match="open already"):
            turns.take("again", OngoingCall())
        begun.set()
        await go_on.wait()
        end(turns, turn)

    async def wants() -> None:
        try:
            turns.take("mine", OngoingCall())
        except TidemarkError as error:
            told.append(error)

    async def main() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()
        holder = asyncio.create_task(holds(begun, go_on), name="holder")
        await begun.wait()
        before = time.monotonic()
        await asyncio.create_task(wants())
        assert time.monotonic() - before < 5
        waiting = asyncio.create_task(asyncio.to_thread(lambda: end(turns, opened(turns))))
        await asyncio.sleep(0.05)
        go_on.set()
        await asyncio.gather(holder, waiting)

    asyncio.run(main())
    assert [error.code for error in told] == ["busy"]
    assert "'holder'" in told[0].message and "to_thread" in str(told[0].hint)


def test_what_a_task_left_open_that_has_ended_is_rolled_back() -> None:
    ended: list[Turn] = []
    turns = turns_of(ended=ended)

    async def leaves() -> None:
        opened(turns)

    async def main() -> None:
        await asyncio.create_task(leaves())
        end(turns, opened(turns))

    asyncio.run(main())
    assert len(ended) == 1


def test_closing_lets_everybody_go() -> None:
    turns, found = turns_of(60), list[object]()
    turn = opened(turns)
    threads = [
        threading.Thread(target=lambda: found.extend(in_thread(lambda: turns.take("x", OngoingCall())))) for _ in "abc"
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while len(turns._waiting) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    turns.close()
    for thread in threads:
        thread.join(30)
    assert [getattr(error, "code", None) for error in found] == ["closed"] * 3
    assert turns.try_take("x", OngoingCall()) is None
    end(turns, turn)


@pytest.mark.parametrize("is_quiet", [True, False])
def test_a_turn_whose_end_was_interrupted_is_nobodys(is_quiet: bool) -> None:
    turns = turns_of(0.3, is_quiet=is_quiet)
    turn = opened(turns)
    assert isinstance(turn.transaction, Opened)
    turn.transaction.is_open = False  # and give_back is never called
    gc.collect()
    found = in_thread(lambda: opened(turns))
    if is_quiet:
        assert isinstance(found[0], Turn)
    else:
        assert code_of(found) == "busy", "somebody is still at work in what follows from it"


def test_waiting_that_was_interrupted_holds_nobody_up() -> None:
    turns = turns_of(5)
    turns._waiting.append(weakref.ref(OngoingCall()))
    end(turns, opened(turns))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"busy_timeout": "a while"}, "option"),
        ({"busy_timeout": -1}, "option"),
        ({"busy_timeout": True}, "option"),
        ({"busy_timeout": float("nan")}, "option"),
        ({"no_such_option": 1}, "option"),
        ("busy_timeout", "option"),
    ],
)
def test_options_are_checked(options: object, code: str) -> None:
    with pytest.raises(TidemarkError) as caught:
        options_of(options)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_a_statement_that_an_exception_left_open_is_ended_by_the_next_one_of_its_caller() -> None:
    ended: list[Turn] = []

    def abandon(turn: Turn) -> None:
        ended.append(turn)
        cast("Opened", turn.transaction).is_open = False

    is_inside = False
    turns = Turns(5.0, abandon, lambda: True, lambda: is_inside)
    left = opened(turns)
    left.is_statement = True
    is_inside = True
    with pytest.raises(TidemarkError, match="open already"):
        opened(turns)
    is_inside = False
    assert opened(turns).is_open and ended == [left]
