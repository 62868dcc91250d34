"""Whose turn it is to change a database: one transaction at a time, in the order in which they were asked for.

A *caller* is a thread, or a task of asyncio in one. Whoever wants to change something waits until the transaction that
is open has ended, unless waiting would be in vain: for a transaction of its own, or for one of another task of the same
thread, which could not go on while the thread waits. What was begun by a thread or a task that has ended without it is
rolled back as soon as somebody waits for it.

Reading needs no turn.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from tidemark.errors import TidemarkError

LOOK_AGAIN_SECONDS: Final = 0.25
"""Who waits looks this often whether the one who has the turn is still there: nobody tells when a thread has ended."""
DEFAULT_SECONDS: Final = 60.0


class Opened(Protocol):
    """What has the turn: a transaction."""

    is_left: bool
    """Whether the block is over that it was opened for, so that nobody ends it any more."""

    @property
    def is_open(self) -> bool: ...


@dataclass(frozen=True)
class Caller:
    """A thread, and the task that it is running, if it runs an event loop."""

    thread: threading.Thread
    task: weakref.ReferenceType[asyncio.Task[object]] | None

    @classmethod
    def now(cls) -> Caller:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no event loop runs in this thread
            task = None
        return cls(threading.current_thread(), None if task is None else weakref.ref(task))

    @property
    def is_there(self) -> bool:
        """Whether it can still end what it began."""
        if not self.thread.is_alive():
            return False
        task = None if self.task is None else self.task()
        return self.task is None or (task is not None and not task.done())

    def __str__(self) -> str:
        task = None if self.task is None else self.task()
        name = f"thread {self.thread.name!r}"
        return name if task is None else f"the task {task.get_name()!r} of the {name}"


class OngoingCall:
    """A call that is going on: a local variable of it, so that it is gone when the call is, however that ended."""


class Turn:
    """Somebody's turn: while a call goes on, and then as long as the transaction is open that it began.

    ``before`` is the turn of the same caller that this one stands in: a function that is told of what a transaction
    did may begin another one.
    """

    def __init__(self, caller: Caller, what: str, call: OngoingCall, before: Turn | None) -> None:
        self.caller, self.what, self.before = caller, what, before
        self._call = weakref.ref(call)
        self.since = time.monotonic()
        self.is_session = False
        """Whether BEGIN opened the transaction, so that statements of the same caller belong to it."""
        self.is_statement = False
        """Whether the transaction is one statement's, which nobody else has: it is over when the call is."""
        self._transaction: Callable[[], Opened | None] = lambda: None

    @property
    def transaction(self) -> Opened | None:
        """The transaction that was begun in this turn. One that nobody holds any more is none: only BEGIN opens one
        that the database holds."""
        return self._transaction()

    @transaction.setter
    def transaction(self, begun: Opened) -> None:
        self._transaction = (lambda: begun) if self.is_session else weakref.ref(begun)

    @property
    def is_open(self) -> bool:
        """Whether there is an open transaction."""
        return self.transaction is not None and self.transaction.is_open

    @property
    def is_going_on(self) -> bool:
        return self.is_open or self._call() is not None


class Turns:
    """The turns of one database.

    ``abandon`` rolls back the transaction of a turn whose caller is gone; ``is_quiet`` says whether no thread is at
    work inside the database at this moment, ``is_inside`` whether this one is.
    """

    def __init__(
        self,
        seconds: float,
        abandon: Callable[[Turn], None],
        is_quiet: Callable[[], bool],
        is_inside: Callable[[], bool] = lambda: False,
    ) -> None:
        self.seconds = seconds
        self._abandon, self._is_quiet, self._is_inside = abandon, is_quiet, is_inside
        self._changed = threading.Condition()
        self._waiting: deque[weakref.ReferenceType[OngoingCall]] = deque()
        self._turn: Turn | None = None
        self._is_closed = False

    # Looking

    @property
    def current(self) -> Turn | None:
        return self._turn

    @property
    def is_open(self) -> bool:
        """Whether anybody has a transaction open."""
        turn = self._turn
        return turn is not None and turn.is_open

    def transactions(self) -> Iterator[Opened]:
        """Those that are begun, the last one first."""
        turn = self._turn
        while turn is not None:
            if turn.transaction is not None:
                yield turn.transaction
            turn = turn.before

    def own(self) -> Turn | None:
        """The turn of this caller, if it has a transaction open."""
        turn = self._turn
        return turn if turn is not None and turn.is_open and turn.caller == Caller.now() else None

    # Taking and giving back

    def take(self, what: str, call: OngoingCall) -> Turn:
        """This caller's turn, as soon as those who came before have had theirs."""
        caller, place = Caller.now(), weakref.ref(call)
        deadline = time.monotonic() + self.seconds
        try:
            with self._changed:
                self._waiting.append(place)
            while True:
                wanted = Turn(caller, what, call, None)
                found = self._taken_or_gone(wanted, place, deadline)
                if found is wanted:
                    return found
                self._end(found)
        finally:
            with self._changed:
                self._waiting = deque(one for one in self._waiting if one is not place)
                self._changed.notify_all()

    def try_take(self, what: str, call: OngoingCall) -> Turn | None:
        """This caller's turn if nobody has it or waits for it; a caller that is at work already goes on."""
        caller = Caller.now()
        with self._changed:
            turn = self._turn
            is_own = turn is not None and turn.caller == caller and not turn.is_open
            if self._is_closed or not (is_own or (turn is None and not self._waiting)):
                return None
            self._turn = Turn(caller, what, call, turn)
            return self._turn

    def give_back(self, turn: Turn) -> None:
        """End a turn; a second time does nothing. Inside another turn of the same caller, that one goes on."""
        with self._changed:
            above = self._turn
            if above is turn:
                self._turn = turn.before
            while above is not None and above.before is not turn:
                above = above.before
            if above is not None:
                above.before = turn.before
            self._changed.notify_all()

    def of(self, transaction: Opened) -> Turn | None:
        """The turn in which a transaction was begun."""
        turn = self._turn
        while turn is not None and turn.transaction is not transaction:
            turn = turn.before
        return turn

    def use(self, transaction: Opened) -> None:
        """A caller uses a transaction, perhaps one that another caller began and handed over: it is its own now."""
        turn = self._turn
        if turn is not None and turn.transaction is transaction and not turn.is_session:
            turn.caller = Caller.now()

    def end_open(self, abandon: Callable[[Turn], None]) -> None:
        """End the transaction that is open, whoever has it: from here on it is this caller's."""
        turn = self._turn
        if turn is not None and turn.is_open:
            turn.caller = Caller.now()
            abandon(turn)

    def close(self) -> None:
        """Let everybody who waits go: nobody gets a turn any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # Waiting

    def _taken_or_gone(self, wanted: Turn, place: weakref.ReferenceType[OngoingCall], deadline: float) -> Turn:
        """The turn that was wanted, which is there now; or one whose caller is gone, which has to be ended first."""
        with self._changed:
            while True:
                turn = self._turn
                if turn is not None and turn.caller == wanted.caller and self._was_left(turn):
                    return turn
                self._must_be_possible(wanted.caller)
                if turn is not None and turn.caller == wanted.caller:
                    wanted.before = turn
                    self._turn = wanted
                    return wanted
                if turn is not None and not turn.caller.is_there:
                    turn.caller = wanted.caller  # so that nobody else ends it, too
                    return turn
                if turn is not None and not turn.is_going_on and self._is_quiet():
                    turn = self._turn = None  # its end was interrupted
                while self._waiting[0]() is None:
                    self._waiting.popleft()  # its waiting was interrupted
                if turn is None and self._waiting[0] is place:
                    self._turn = wanted
                    return wanted
                self._must_be_worth_waiting(wanted.caller, deadline)
                self._changed.wait(min(LOOK_AGAIN_SECONDS, max(0.0, deadline - time.monotonic())))

    def _was_left(self, turn: Turn) -> bool:
        """Whether an exception has left the transaction of a statement or of a block open: its caller asks for another
        one, and is not in the midst of it. Who looks at the exception may still hold all that was there."""
        transaction = turn.transaction
        is_over = turn.is_statement or (transaction is not None and transaction.is_left)
        return is_over and turn.is_open and not self._is_closed and not self._is_inside()

    def _end(self, turn: Turn) -> None:
        """End the turn of a caller that is gone, with its transaction."""
        try:
            if turn.is_open:
                self._abandon(turn)
        finally:
            self.give_back(turn)

    def _must_be_possible(self, caller: Caller) -> None:
        if self._is_closed:
            raise TidemarkError("closed", "the database connection is closed")
        turn = self._turn
        if turn is not None and turn.is_open and turn.caller == caller:
            raise TidemarkError("transaction", "a transaction is open already", hint="commit it or roll it back first")

    def _must_be_worth_waiting(self, caller: Caller, deadline: float) -> None:
        turn = self._turn
        if turn is not None and turn.caller.thread is caller.thread:
            raise TidemarkError(
                "busy",
                f"{turn.caller} has a transaction open ({turn.what}), and this thread cannot wait for itself",
                hint="end it before the next await, hold an asyncio.Lock around it, or call the database by "
                "asyncio.to_thread, so that threads wait and not the event loop",
            )
        if time.monotonic() < deadline:
            return
        if turn is None:
            raise TidemarkError("busy", f"{len(self._waiting) - 1} others wait to change the database, too")
        seconds = time.monotonic() - turn.since
        raise TidemarkError(
            "busy",
            f"{turn.caller} has had a transaction open for {seconds:.1f} s ({turn.what}); nothing was changed",
            hint='end it there, or wait longer: options={"busy_timeout": seconds}',
        )
