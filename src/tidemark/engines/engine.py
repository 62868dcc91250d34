"""What an engine is to the rest of the house.

Things that threads borrow for a while and bring back, such as connections for reading.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Generic, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from tidemark.algebra.plans import Given, Plan, Stored, walk
from tidemark.algebra.scalar import Row
from tidemark.engines.limits import EngineLimits
from tidemark.errors import TidemarkError
from tidemark.storage.arrangements import Arrangements
from tidemark.storage.commit import Commit, Forgetting, Loaded, Logged
from tidemark.storage.delta import NetRows, Rows
from tidemark.storage.publishing import Publication

Columns: TypeAlias = tuple[int, ...]
Keys: TypeAlias = Collection[Row]
"""Different keys, in the order of the rows that they are of, so that answers come in the same order each time."""
Index: TypeAlias = Mapping[Row, NetRows]
LookUp: TypeAlias = Callable[[Stored, Columns, Keys, Columns | None], Index | None]
"""See ``Evaluator.look_up``."""


@dataclass(frozen=True)
class Iteration:
    """The least set that has the rows of ``first`` and, with every row, those that ``step`` derives from it.

    ``step`` reads ``Given(last)``, some rows of the set, and is linear in it: what follows from two sets of rows
    together follows from one of them alone. So each row need be given to it once. Both plans read the ``parts`` as
    sets, by ``Given`` and the name. Nothing here computes values without end.
    """

    parts: tuple[tuple[str, Plan], ...]
    first: Plan
    step: Plan
    last: str
    most_rows: int
    """When the set has more rows, it need not be found: any rows are an answer, if they are more than these."""

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        return (*(part for _, part in self.parts), self.first, self.step)

    @cached_property
    def stored(self) -> frozenset[str]:
        """The stored relations that the plans read."""
        return frozenset(part.relation for plan in self.plans for part in walk(plan) if isinstance(part, Stored))

    @cached_property
    def given(self) -> tuple[str, ...]:
        """The names of what is given to the plans by the caller, as far as it is there."""
        names = dict.fromkeys(part.name for plan in self.plans for part in walk(plan) if isinstance(part, Given))
        return tuple(name for name in names if name not in self.own_names)

    def over(self, change: Callable[[Plan], Plan]) -> Iteration:
        """The same with each plan changed."""
        parts = tuple((name, change(part)) for name, part in self.parts)
        return replace(self, parts=parts, first=change(self.first), step=change(self.step))

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The names of what is not handed over by the caller."""
        return frozenset({self.last, *(name for name, _ in self.parts)})


@dataclass(frozen=True)
class Checked:
    """What verifying all that is stored found: what is damaged, what cannot be verified, and how much was read."""

    damage: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    files: int = 0


@dataclass(frozen=True)
class Memory:
    """A part of the memory: how many bytes are used, how many it may use (None if nobody but the engine or what is
    committed decides that), and of how many things."""

    part: str
    used: int
    most: int | None
    entries: int | None = None


class Found(NamedTuple):
    """The net rows of a plan, and how many rows were fetched for them of each stored relation."""

    rows: Rows
    read: Mapping[str, int]


class Evaluator(Protocol):
    """Evaluates plans over stored and given relations."""

    @property
    def limits(self) -> EngineLimits:
        """Where another way than this engine's is the better one."""
        ...

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        """The plan's rows with ``_weight``: net, that is, no row twice and no weight zero. In no order."""
        ...

    def follow(self, plan: Plan, given: Mapping[str, Rows]) -> Found | None:
        """The same by compiled steps, which need not be settled; None if that is no way for so many rows or such a
        plan, or if the engine has no such way."""
        ...

    def look_up(self, leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> Index | None:
        """By key, the net rows of a stored relation that have one of these keys in these columns; None if there are too
        many, or if nobody can tell. No key has a NULL. ``needed`` has the columns that must be filled, if not all."""
        ...

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        """Whether the engine finds this set by itself; if not, that is better done from outside, round by round."""
        ...

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of the set, each of weight one. Only what the engine ``iterates`` is asked of it."""
        ...

    def rows(self, relation: str) -> int:
        """How many rows are stored of the relation."""
        ...


class ByTables:
    """What evaluates Arrow tables, and has neither compiled steps nor look-ups."""

    def follow(self, plan: Plan, given: Mapping[str, Rows]) -> Found | None:
        return None

    def look_up(self, leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> Index | None:
        return None


class WritesAhead(Protocol):
    """Writes changes where the engine's own evaluation sees them, before they are committed."""

    def begin(self) -> None:
        """From here on changes may be written, until they are committed or forgotten."""
        ...

    def write(self, relation: str, delta: pa.Table, key: tuple[int, ...]) -> None:
        """Have the relation as it will be with its net change: that is what ``Stored`` denotes from here on. Whoever
        reads beside this engine does not see it. ``key`` has columns that tell its rows apart, if any do."""
        ...

    def forget(self) -> None:
        """Have everything as it was committed; nothing happens if nothing was begun."""
        ...


class Unpublished:
    """What has no files that others read."""

    def must_hold(self) -> None:
        """Nobody takes the place of whoever has it open."""

    def frame(self, relation: str, session: object) -> object | None:
        return None

    def staged(self, relation: str, frame: object) -> Rows | None:
        return None

    def compared(self, relation: str, plan: Plan, given: Mapping[str, pa.Table]) -> Rows:
        raise NotImplementedError("nothing lies in files here")

    def publish(self, relation: str | None = None) -> None:
        raise TidemarkError(
            "unsupported",
            "only the relations of a lake are published",
            hint="CHECKPOINT lets others read the last version in the file of a DuckDB database",
        )

    def publications(self) -> list[Publication]:
        return []


class Engine(Evaluator, Protocol):
    """Evaluates plans over stored and given relations, and makes commits durable.

    Plans reach an engine resolved: their leaves are ``Stored`` (the relation at the last committed version),
    ``Given`` (a weighted Arrow table handed over with the plan) and ``Values``. Differentials arrive as unions of
    joins with a given delta in each, so an engine may evaluate them from the delta outward: look the delta's keys
    up in the other relations instead of scanning them. Nothing in this interface asks for a statement per term.
    """

    name: str

    @property
    def ahead(self) -> WritesAhead | None:
        """Takes a large change before it is committed; the commit that follows has the very same deltas. None if this
        engine does not do that, or reads."""
        ...

    @property
    def arrangements(self) -> Arrangements | None:
        """Rows of the last committed version by what they are looked up by, in memory; None if this engine, or what it
        reads, has none. They are not to be asked while something else than the last version is read."""
        ...

    def load(self) -> Loaded:
        """Read what is stored: its last version and the records of its catalog.

        It opens the database, and is asked again whenever memory may not be what is stored: whatever was under way
        is undone, unless it is durable already, and nothing that was known before is believed.
        """
        ...

    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        """The plan's rows as a person reads them: equal rows repeated, in the plan's order if it sorts."""
        ...

    def plainly(self) -> AbstractContextManager[Evaluator]:
        """Evaluates in another way than the engine itself, which is not trusted to be right: for audits.

        Plans run as they are, as statements over what is stored, without short cuts, with nothing that was kept, and
        with as few rules of an optimizer as leave joins joins. It may take longer.
        """
        ...

    def commit(self, commit: Commit) -> None:
        """Make all of the commit true and durable, or, when it raises a TidemarkError, none of it.

        If it cannot tell, or fails in what comes after the commit point, that has the code ``commit_unknown``. After
        any other exception nothing is promised: who asked must ``load`` again, and sees by the version whether the
        commit is there.
        """
        ...

    def must_hold(self) -> None:
        """Refuse a change (``fenced``) if another writer has taken the place of this one. It costs next to nothing."""
        ...

    def changes(self, relation: str, since: int) -> pa.Table:
        """The logged changes after version ``since``: columns, ``_version``, ``_weight``; net per version."""
        ...

    def note(self, notes: Mapping[str, str | None]) -> None:
        """Keep notes, or take them away (None), durably and without a version. All of them, or none."""
        ...

    def forget(
        self, log: Mapping[str, Forgetting], traces: int, notes: Mapping[str, str | None], oldest: int = 0
    ) -> None:
        """Drop what is logged of relations, the traces up to a version and the times before the ``oldest`` one, and
        keep notes. All of it, or none.

        No content changes, and no changes after the versions named. Nobody asks for what was dropped again.
        """
        ...

    def times(self) -> pa.Table:
        """``version`` and ``time`` (a TIMESTAMP, in UTC) of the commits that are remembered, in order: all that were
        not forgotten, and maybe some that were."""
        ...

    def backup(self, target: str) -> Callable[[], None]:
        """Begin to copy the database, as of its last version, to a place where nothing is; what is returned ends it.

        No commit may come before this returns. The copy is there when all of it is, and is opened like any database.
        """
        ...

    @property
    def idle_after(self) -> float | None:
        """If stored tables have not yet all that is committed: so many seconds after the last commit it is time to
        ``catch_up``. None if there is nothing to do."""
        ...

    def catch_up(self) -> None:
        """Bring stored tables to what is committed. No content changes, and it does not take long."""
        ...

    def checkpoint(self) -> bool:
        """Bring the files that others read to the last version: what is committed and stands elsewhere goes into them.
        No content changes. False if what somebody still reads is in the way: ask again.
        """
        ...

    def publish(self, relation: str | None = None) -> None:
        """Bring the Delta tables that others read, or that of one relation, to the last version."""
        ...

    def frame(self, relation: str, session: object) -> object | None:
        """A Spark DataFrame over what is stored of a relation, of the given session, or of one that the engine picks if
        that is None. None if Spark reads nothing here."""
        ...

    def staged(self, relation: str, frame: object) -> Rows | None:
        """The rows of a Spark DataFrame, which has the columns of a stored relation, as a change of it that brings
        them: in files, if they are many (``storage/filed.py``). A value that does not fit is an error. None if this
        engine cannot do that."""
        ...

    def compared(self, relation: str, plan: Plan, given: Mapping[str, pa.Table]) -> Rows:
        """The net rows of a plan over what is given in files, as a change of a stored relation: in files, too, if they
        are many."""
        ...

    def publications(self) -> list[Publication]:
        """What others see of each relation in a Delta table of its own; nothing if there are none."""
        ...

    def logged(self) -> list[Logged]:
        """How much is logged, about: of each relation for each version. It may take long."""
        ...

    def trace(self, version: int) -> str | None:
        """The trace that was committed with the version."""
        ...

    def arranged(self) -> pa.Table:
        """What is arranged in memory, for people: see ``Arrangements.shown``."""
        ...

    def memory(self) -> list[Memory]:
        """How the memory that ``connect`` was given is divided, and what else of size is kept there, for people."""
        ...

    def internal(self) -> frozenset[str]:
        """The names of the relations that are no user's: inner states, and the logs of what is not stored."""
        ...

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """What is committed at this moment, for reading by any thread, whatever others do to the engine meanwhile: it
        waits for no commit that goes on, and sees all of it or nothing."""
        ...

    def interrupt(self) -> None:
        """Called by another thread: let what the engine is doing at this moment fail, as any statement may fail.

        If it is doing nothing, or is closed, nothing happens, and what comes next is not affected. An engine that
        cannot stop within a step ignores it; whoever asks may ask again.
        """
        ...

    def close(self) -> None: ...


class Snapshot(Engine, Protocol):
    """An engine as it was committed at one version. It reads; what would change something is not asked of it."""

    @property
    def version(self) -> int: ...

    def notes(self) -> Mapping[str, str]:
        """The notes, as of the version or a little later."""
        ...


def reads_only() -> NoReturn:
    """What a snapshot does when it is to change something, which nobody asks of it."""
    raise NotImplementedError("a snapshot is read")


def read_only(what: str) -> TidemarkError:
    """The error for whatever would change a database that is only read."""
    return TidemarkError(
        "read_only",
        f"{what} would change the database, and this connection only reads it",
        hint="connect without read_only=True to write; one connection at a time may",
    )


MOST_IDLE: Final = 4
CLOSE_SECONDS: Final = 30.0
"""So long those are waited for who have something borrowed, when all is closed; they were interrupted before."""

T = TypeVar("T")


class Lending(Generic[T]):
    """Lends one thing to one borrower at a time, makes more when none is idle, and keeps a few of them."""

    def __init__(self, make: Callable[[], T], dispose: Callable[[T], None]) -> None:
        self._make, self._dispose = make, dispose
        self._returned = threading.Condition()
        self._idle: list[T] = []
        self._lent: list[T] = []
        self._is_closed = False

    @contextmanager
    def one(self) -> Iterator[T]:
        borrowed = self._borrow()
        try:
            yield borrowed
        finally:
            self._bring_back(borrowed)

    @property
    def lent(self) -> tuple[T, ...]:
        """Those that are in use."""
        with self._returned:
            return tuple(self._lent)

    def _borrow(self) -> T:
        with self._returned:
            if self._is_closed:
                raise TidemarkError("closed", "the database connection is closed")
            found = self._idle.pop() if self._idle else self._make()
            self._lent.append(found)
            return found

    def _bring_back(self, borrowed: T) -> None:
        with self._returned:
            self._lent = [one for one in self._lent if one is not borrowed]
            keeps = not self._is_closed and len(self._idle) < MOST_IDLE
            if keeps:
                self._idle.append(borrowed)
            else:
                self._dispose(borrowed)
            self._returned.notify_all()

    def close(self, interrupt: Callable[[T], None]) -> None:
        """Lend no more, and wait for what is lent, which is interrupted."""
        with self._returned:
            self._is_closed = True
            for one in self._lent:
                interrupt(one)
            self._returned.wait_for(lambda: not self._lent, CLOSE_SECONDS)
            for one in self._idle:
                self._dispose(one)
            self._idle = []
