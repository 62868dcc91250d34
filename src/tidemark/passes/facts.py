"""What passes need to know about plans before they may change them, and the two steps that they are made of.

A pass keeps the rows, and the errors too: it never evaluates an expression that can fail on rows on which the plan
would not have, and never spares it rows that would have made it fail. Otherwise a view and its audit would disagree
about which transactions are refused. So an expression that can fail is not moved, and nothing is moved past it.
Of a differential that holds if the definition did not fail before the block, which is when a differential is derived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidemark.algebra.cache import PerPlan
from tidemark.algebra.plans import Aggregate, Given, Plan, Project, Scan, State, Window
from tidemark.algebra.scalar import node_can_fail as expressions_can_fail


@PerPlan
def node_can_fail(plan: Plan) -> bool:
    """Whether the node itself can raise, apart from its inputs. A sum can be out of range."""
    calls = plan.aggregates if isinstance(plan, Aggregate) else plan.calls if isinstance(plan, Window) else ()
    return any(call.can_fail for call in calls) or expressions_can_fail(plan)


@PerPlan
def plan_can_fail(plan: Plan) -> bool:
    """Whether the plan or anything below it can raise."""
    return any(map(plan_can_fail, plan.inputs())) or node_can_fail(plan)


@PerPlan
def reads_delta(plan: Plan) -> bool:
    """Whether a delta stands in the plan, so that it is taken to give few rows."""
    is_delta = isinstance(plan, Given) or (isinstance(plan, Scan) and plan.state not in (State.NEW, State.OLD))
    return is_delta or any(map(reads_delta, plan.inputs()))


def bottom_up(plan: Plan, rule: Callable[[Plan], Plan]) -> Plan:
    """The plan with the rule applied to every node, inputs first; to one that stands in several places once."""
    known: dict[int, Plan] = {}

    def rewritten(part: Plan) -> Plan:
        found = known.get(id(part))
        if found is None:
            inputs = part.inputs()
            changed = tuple([rewritten(child) for child in inputs])
            same = all(new is old for new, old in zip(changed, inputs, strict=True))
            found = known[id(part)] = rule(part if same else part.with_inputs(changed))
        return found

    return rewritten(plan)


def named(plan: Plan, names: tuple[str, ...]) -> Plan:
    """The same rows under the given names."""
    if plan.schema.names == names:
        return plan
    if isinstance(plan, Project):
        return replace(plan, names=names)
    return Project(plan, names, plan.columns())
