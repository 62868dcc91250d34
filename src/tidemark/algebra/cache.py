"""What follows from a plan alone, derived once; and how large it becomes when it is taken apart.

The network's plans come back with every transaction, as the same objects. What is worked out about one is kept with
it and goes with it; plans never change, so it cannot go stale.

Attributes that are worked out when they are first asked for, and then are attributes like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final, Generic, TypeVar, overload

from tidemark.algebra.plans import Aggregate, Difference, Distinct, Fixpoint, Intersection, Plan, Union, leaves, walk

T = TypeVar("T")


class lazy(Generic[T]):
    """The same as ``functools.cached_property``, which takes a lock each time before Python 3.12: for objects of which
    each transaction makes some.

    >>> class Word:
    ...     @lazy
    ...     def letters(self) -> list[str]:
    ...         return list("word")
    >>> word = Word()
    >>> word.letters is word.letters
    True
    """

    def __init__(self, of: Callable[[Any], T]) -> None:
        self._of, self.__doc__ = of, of.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, one: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, one: object, owner: type) -> T: ...

    def __get__(self, one: object | None, owner: type) -> lazy[T] | T:
        if one is None:
            return self
        found = one.__dict__[self._name] = self._of(one)
        return found


K = TypeVar("K")


class Once(Generic[T]):
    """A recursive function of plans: its own rule, given itself for the inputs. A part that stands in several places is
    looked at once.

    >>> from tidemark.algebra.plans import Given, Join
    >>> from tidemark.algebra.expressions import TRUE
    >>> from tidemark.algebra.types import Schema
    >>> depth = Once(lambda plan, of: 1 + max((of(child) for child in plan.inputs()), default=0))
    >>> plan = Given("delta", Schema(()))
    >>> for _ in range(100):
    ...     plan = Join(plan, plan, TRUE)
    >>> depth(plan)
    101
    """

    def __init__(self, rule: Callable[[Plan, Callable[[Plan], T]], T]) -> None:
        self._rule = rule
        self._known: dict[int, tuple[Plan, T]] = {}

    def __call__(self, plan: Plan) -> T:
        known = self._known.get(id(plan))
        if known is None:
            # The plan is kept too, so that its identity cannot be taken by another one.
            known = self._known[id(plan)] = (plan, self._rule(plan, self))
        return known[1]


class PerPlan(Generic[T]):
    """A function of a plan that remembers its results.

    >>> from tidemark.algebra.plans import Given
    >>> from tidemark.algebra.types import Schema
    >>> width = PerPlan(lambda plan: len(plan.schema))
    >>> width(Given("delta", Schema(())))
    0
    """

    def __init__(self, derive: Callable[[Plan], T]) -> None:
        self._derive = derive
        self._name = f"_derived_{id(self)}"  # functions of plans stay as long as their modules

    def __call__(self, plan: Plan) -> T:
        if self._name not in plan.__dict__:
            plan.__dict__[self._name] = self._derive(plan)
        kept: T = plan.__dict__[self._name]
        return kept


class Recent(Generic[K, T]):
    """What was made for some keys when it was first asked for: those that were asked for last.

    >>> squares = Recent(list, most=2)
    >>> squares["a"].append(1), squares["b"], squares["a"], squares["c"]
    (None, [], [1], [])
    >>> [key for key, _ in squares.items()]
    ['a', 'c']
    """

    def __init__(self, make: Callable[[], T], most: int) -> None:
        self._make, self._most = make, most
        self._kept: dict[K, T] = {}

    def __getitem__(self, key: K) -> T:
        kept = self._kept
        found = kept.pop(key, None)
        if found is None:
            make_room(kept, self._most)
            found = self._make()
        kept[key] = found
        return found

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def items(self) -> list[tuple[K, T]]:
        """What is kept, the one first that was asked for longest ago."""
        return list(self._kept.items())

    def forget(self, key: K) -> None:
        self._kept.pop(key, None)


def make_room(kept: dict[K, T], most: int) -> None:
    """Let the oldest go where as many are kept as there may be."""
    while len(kept) >= most:
        kept.pop(next(iter(kept)), None)


def term_count(plan: Plan) -> int:
    """How many joins of leaves the plan is a union of, once unions are moved above joins.

    A grouping is one leaf: it is kept as a state of its own.

    >>> from tidemark.algebra.expressions import TRUE
    >>> from tidemark.algebra.plans import Join, Values
    >>> from tidemark.algebra.types import Schema
    >>> one = Values(((),), Schema(()))
    >>> term_count(Join(Union((one, one)), Union((one, one, one)), TRUE))
    6
    """
    return _term_count(plan)


def _counted(plan: Plan) -> int:
    if isinstance(plan, Distinct | Aggregate | Difference | Intersection | Fixpoint):
        return 1
    if isinstance(plan, Union):
        return sum([term_count(part) for part in plan.parts])
    return prod([term_count(child) for child in plan.inputs()])


_term_count: Final = PerPlan(_counted)


def is_tangled(plan: Plan) -> bool:
    """Whether parts of the plan stand in so many places that it must not be written out as the tree that it denotes.

    An outer join reads each of its sides several times, and a chain of them the first side some 2ⁿ times.

    >>> from tidemark.algebra.expressions import TRUE
    >>> from tidemark.algebra.plans import Join, Values
    >>> from tidemark.algebra.types import Schema
    >>> plan = Values(((),), Schema(()))
    >>> for _ in range(20):
    ...     plan = Join(plan, plan, TRUE)
    >>> is_tangled(plan)
    True
    """
    return _is_tangled(plan)


MOST_TREE: Final = 600
MOST_TIMES: Final = 3
_is_tangled: Final = PerPlan(
    lambda plan: tree_size(plan) > MOST_TREE and tree_size(plan) > MOST_TIMES * sum(1 for _ in walk(plan))
)


def leaves_read(plan: Plan) -> Iterator[tuple[Plan, int]]:
    """Each leaf of the plan, and how often engines read it: parts of a tangled plan are evaluated once."""
    return ((leaf, 1 if is_tangled(plan) else times) for leaf, times in leaves(plan))


def repeated_parts(plan: Plan) -> list[Plan]:
    """The parts that stand in several places of the plan, each after those in it; small ones are left out."""
    times: dict[Plan, int] = {}
    order: dict[Plan, None] = {}
    waiting: list[tuple[Plan, bool]] = [(plan, False)]
    seen: set[Plan] = set()
    while waiting:
        part, is_done = waiting.pop()
        if is_done:
            order[part] = None
        elif part not in seen:
            seen.add(part)
            waiting.append((part, True))
            for child in part.inputs():
                times[child] = times.get(child, 0) + 1
                waiting.append((child, False))
    return [part for part in order if times.get(part, 0) > 1 and tree_size(part) >= FEW_PARTS]


FEW_PARTS: Final = 4


def tree_size(plan: Plan) -> int:
    """How many parts the plan has, as often as they stand in it; worked out once."""
    return _tree_size(plan)


_tree_size: Final[PerPlan[int]] = PerPlan(lambda plan: 1 + sum([tree_size(child) for child in plan.inputs()]))
