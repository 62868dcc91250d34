"""How much may be worked out: analysis counts its steps, and what they do not suffice for is not known.

A step is about one part of a formula that is made or looked at. How many there are depends on what is asked and on
nothing else, so that the same question has the same answer on a slow machine and on a fast one. "Don't know" is always
a sound answer: then the next rung of the ladder serves.

What is asked about a plan may take so many steps for each part of it. So the cost of analysis grows with the size of
the plan and no faster, whatever the plan says.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar, cast

from tidemark.algebra.expressions import size_of
from tidemark.algebra.plans import Plan, expressions_of, walk

LEAST_STEPS: Final = 100_000
STEPS_FOR_A_PART: Final = 500
MOST_FOR_A_QUESTION: Final = 60_000
"""So many steps may go into one question of many, so that it does not take what the others need."""


T = TypeVar("T")
P = TypeVar("P", bound=Hashable)


class OutOfSteps(Exception):
    """There are no steps left for what was asked."""


class Budget:
    """Steps that are left. ``is_spent`` says whether something remained undecided for want of them.

    ``made`` has what was made of equal parts before, so that it is made once: then what is the same is the same object,
    and need not be compared part by part.
    """

    __slots__ = ("_steps", "is_spent", "left", "made")

    def __init__(self, steps: int, made: dict[Hashable, object] | None = None) -> None:
        self._steps = self.left = steps
        self.is_spent = False
        self.made: dict[Hashable, object] = {} if made is None else made

    @property
    def used(self) -> int:
        return self._steps - self.left


_CURRENT: Final[ContextVar[Budget | None]] = ContextVar("budget", default=None)


@contextmanager
def budget(steps: int) -> Iterator[Budget]:
    """Up to so many steps for what is done inside, and no more than are left of a budget around it.

    >>> with budget(10) as outer:
    ...     with budget(100) as inner:
    ...         spend(7)
    >>> inner.used, outer.left
    (7, 3)
    """
    around = _CURRENT.get()
    own = Budget(steps) if around is None else Budget(max(0, min(steps, around.left)), around.made)
    token = _CURRENT.set(own)
    try:
        yield own
    except OutOfSteps:
        own.is_spent = True
        raise
    finally:
        _CURRENT.reset(token)
        if around is not None:
            around.left -= own.used
            around.is_spent |= own.is_spent


def within(steps: int, ask: Callable[[], T], otherwise: T) -> T:
    """The answer to a question, or another one if so many steps do not suffice for it."""
    try:
        with budget(steps):
            return ask()
    except OutOfSteps:
        return otherwise


def for_plan(plan: Plan) -> AbstractContextManager[Budget]:
    """A budget for what is asked about a plan."""
    return budget(steps_for(parts_of(plan)))


def made_once(kind: Callable[[P], T], parts: P) -> T:
    """Something made of parts: within a budget the same thing for equal parts."""
    current = _CURRENT.get()
    if current is None:
        return kind(parts)
    key = (kind, parts)
    found = current.made.get(key)
    if found is None:
        found = current.made[key] = kind(parts)
    return cast(T, found)


def spend(steps: int = 1) -> None:
    """Take so many steps; raises ``OutOfSteps`` if they are not there."""
    current = _CURRENT.get()
    if current is not None:
        current.left -= steps
        if current.left < 0:
            raise OutOfSteps


def steps_left(most: int) -> int:
    """How many steps may be taken, up to so many."""
    current = _CURRENT.get()
    return most if current is None else max(0, min(most, current.left))


def steps_for(parts: int) -> int:
    """How many steps may go into what is asked about so many parts of plans and expressions."""
    return LEAST_STEPS + STEPS_FOR_A_PART * parts


def parts_of(plan: Plan) -> int:
    """How many parts a plan has: operators, the columns of what it reads, and what stands in its expressions."""
    return sum(
        1 + (0 if part.inputs() else len(part.schema)) + sum(map(size_of, expressions_of(part))) for part in walk(plan)
    )
