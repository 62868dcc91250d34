"""The generic chain rule (ERA 5.2): differentiate any plan from the bottom up.

    Changes(R)            = ΔR                               for a stored relation
    Changes(Op(E1 … En))  = IncrOp(E1 … En, Changes(E1) … Changes(En))

Each operator's law lives in the module of its name. A relation that did not change contributes nothing, so only the
differentials of changed influents appear in the result.

Partial differentials (AMOS 1.5.3) say the same of linear plans (select, project, join, union) influent by influent, and
sign by sign. Such a plan changes by the sum of one term for each *occurrence* of a changed relation: the occurrence is
replaced by its delta, occurrences to its left are read in the old state, those to its right in the new. Summed over the
signs and over the occurrences this is the telescoped form of ``linear.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

from tidemark.algebra.cache import Once
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Filter,
    Fixpoint,
    Given,
    Intersection,
    Join,
    Negate,
    Plan,
    Project,
    Repeat,
    Scan,
    Sort,
    State,
    Stored,
    Union,
    Unnest,
    Values,
    Window,
    empty,
    is_empty,
    leaves,
    union,
    walk,
)
from tidemark.calculus.as_of import new, old
from tidemark.calculus.distinct import incremental_difference, incremental_distinct
from tidemark.calculus.group import incremental_group
from tidemark.calculus.linear import incremental_join
from tidemark.calculus.touched import incremental_window

NOTHING_SHARED: Mapping[Plan, str] = {}


def differentiate(plan: Plan, changed: Set[str], shared: Mapping[Plan, str] = NOTHING_SHARED) -> Plan:
    """The plan of the change of ``plan``, when the relations in ``changed`` changed.

    ``shared`` names subplans whose change is known already under that name; they are read instead of derived.
    """
    return Once[Plan](lambda part, of: _changes(part, changed, shared, of))(plan)


def _changes(plan: Plan, changed: Set[str], shared: Mapping[Plan, str], of: Callable[[Plan], Plan]) -> Plan:
    if plan in shared:
        name = shared[plan]
        return Scan(name, plan.schema, State.DELTA) if name in changed else empty(plan.schema)
    match plan:
        case Scan(relation=relation):
            return replace(plan, state=State.DELTA) if relation in changed else empty(plan.schema)
        case Values() | Given() | Stored():
            return empty(plan.schema)
    deltas = tuple([of(child) for child in plan.inputs()])
    if all(is_empty(delta) for delta in deltas):
        return empty(plan.schema)
    match plan:
        case Filter() | Project() | Repeat() | Unnest() | Negate():
            return plan.with_inputs(deltas)
        case Union():
            return union(deltas, plan.schema)
        case Join():
            return incremental_join(plan, *deltas)
        case Difference() | Intersection():
            return incremental_difference(plan, *deltas)
        case Distinct():
            return incremental_distinct(plan, deltas[0])
        case Aggregate():
            return incremental_group(plan, deltas[0])
        case Window():
            return incremental_window(plan, deltas[0])
        case Sort() | Fixpoint():
            return union((new(plan), Negate(old(plan))), plan.schema)
    raise TypeError(f"no incremental form of {type(plan).__name__}")


_NOT_LINEAR = (Distinct, Aggregate, Difference, Intersection, Window, Sort)


@dataclass(frozen=True)
class Partial:
    """ΔP/Δ+Q or ΔP/Δ−Q, for one occurrence of the influent Q."""

    influent: str
    state: State
    plan: Plan


def is_linear(plan: Plan) -> bool:
    """Whether the plan distributes over sums of weights."""
    return not any(isinstance(part, _NOT_LINEAR) for part in walk(plan))


def occurrences(plan: Plan) -> int:
    """How often relations stand in a plan."""
    return sum(times for leaf, times in leaves(plan) if isinstance(leaf, Scan))


def partial_differentials(plan: Plan, most: int | None = None) -> tuple[Partial, ...]:
    """All partial differentials of a linear plan, by occurrence from left to right, then by sign; or those of the first
    occurrences, up to so many."""
    if not is_linear(plan):
        raise ValueError("partial differentials belong to linear plans: cut the plan at its groupings first")
    terms = _Terms()
    count = terms.count(plan) if most is None else min(most, terms.count(plan))
    found = []
    for number in range(count):
        for sign in (State.INSERTED, State.DELETED):
            influent, term = terms.of(plan, number, sign)
            found.append(Partial(influent, sign, term))
    return tuple(found)


class _Terms:
    """Terms of one plan. Occurrences before the one that is read as a delta are old, those after it new."""

    def __init__(self) -> None:
        self.count = Once[int](lambda p, of: int(isinstance(p, Scan)) + sum([of(child) for child in p.inputs()]))

    def of(self, plan: Plan, number: int, sign: State) -> tuple[str, Plan]:
        """The relation of an occurrence, and the plan with it read as a delta."""
        if isinstance(plan, Scan):
            return plan.relation, replace(plan, state=sign)
        before, inputs = 0, plan.inputs()
        for place, child in enumerate(inputs):
            size = self.count(child)
            if number < before + size:
                influent, term = self.of(child, number - before, sign)
                if isinstance(plan, Union):
                    # Only the part with the occurrence changes; the others contribute nothing to this term.
                    return influent, term
                earlier, later = inputs[:place], inputs[place + 1 :]
                return influent, plan.with_inputs((*map(old, earlier), term, *map(new, later)))
            before += size
        raise IndexError(number)
