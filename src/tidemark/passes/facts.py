"""What passes need to know about plans before they may change them.

A pass keeps the rows, and the errors too: it never evaluates an expression that can fail on rows on which the plan
would not have, and never spares it rows that would have made it fail. Otherwise a view and its audit would disagree
about which transactions are refused. So an expression that can fail is not moved, and nothing is moved past it.
Of a differential that holds if the definition did not fail before the block, which is when a differential is derived.
"""

from __future__ import annotations

from tidemark.algebra.failing import node_can_fail as expressions_can_fail
from tidemark.algebra.plans import Aggregate, Given, Plan, Scan, State, Window, walk


def node_can_fail(plan: Plan) -> bool:
    """Whether the node itself can raise, apart from its inputs. A sum can be out of range."""
    calls = plan.aggregates if isinstance(plan, Aggregate) else plan.calls if isinstance(plan, Window) else ()
    return any(call.can_fail for call in calls) or expressions_can_fail(plan)


def plan_can_fail(plan: Plan) -> bool:
    """Whether the plan or anything below it can raise."""
    return any(node_can_fail(part) for part in walk(plan))


def reads_delta(plan: Plan) -> bool:
    """Whether a delta stands in the plan, so that it is taken to give few rows."""
    return any(
        isinstance(part, Given) or (isinstance(part, Scan) and part.state not in (State.NEW, State.OLD))
        for part in walk(plan)
    )
