"""The generic chain rule (ERA 5.2): differentiate any plan from the bottom up.

    Changes(R)            = ΔR                               for a stored relation
    Changes(Op(E1 … En))  = IncrOp(E1 … En, Changes(E1) … Changes(En))

Each operator's law lives in the module of its name. A relation that did not change contributes nothing, so only the
differentials of changed influents appear in the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

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
    union,
)
from tidemark.calculus.difference import incremental_difference
from tidemark.calculus.distinct import incremental_distinct
from tidemark.calculus.group import incremental_group
from tidemark.calculus.join import incremental_join
from tidemark.calculus.project import incremental_project
from tidemark.calculus.repeat import incremental_repeat
from tidemark.calculus.select import incremental_select
from tidemark.calculus.states import new, old
from tidemark.calculus.union import incremental_negate, incremental_union
from tidemark.calculus.unnest import incremental_unnest
from tidemark.calculus.window import incremental_window

NOTHING_SHARED: Mapping[Plan, str] = {}


def differentiate(plan: Plan, changed: Set[str], shared: Mapping[Plan, str] = NOTHING_SHARED) -> Plan:
    """The plan of the change of ``plan``, when the relations in ``changed`` changed.

    ``shared`` names subplans whose change is known already under that name; they are read instead of derived.
    """
    if plan in shared:
        name = shared[plan]
        return Scan(name, plan.schema, State.DELTA) if name in changed else empty(plan.schema)
    match plan:
        case Scan(relation=relation):
            return replace(plan, state=State.DELTA) if relation in changed else empty(plan.schema)
        case Values() | Given() | Stored():
            return empty(plan.schema)
    deltas = tuple(differentiate(child, changed, shared) for child in plan.inputs())
    if all(is_empty(delta) for delta in deltas):
        return empty(plan.schema)
    match plan:
        case Filter():
            return incremental_select(plan, deltas[0])
        case Project():
            return incremental_project(plan, deltas[0])
        case Repeat():
            return incremental_repeat(plan, deltas[0])
        case Unnest():
            return incremental_unnest(plan, deltas[0])
        case Union():
            return incremental_union(plan, deltas)
        case Negate():
            return incremental_negate(deltas[0])
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
