"""What passes need to know about plans before they may change them.

A pass keeps the rows, and the errors too: it never evaluates an expression that can fail on rows on which the plan
would not have, and never spares it rows that would have made it fail. Otherwise a view and its audit would disagree
about which transactions are refused. So an expression that can fail is not moved, and nothing is moved past it.
"""

from __future__ import annotations

from tidemark.algebra.expressions import Call, Cast, Expression, walk
from tidemark.algebra.functions import FUNCTIONS, cast_fails
from tidemark.algebra.plans import Aggregate, AggregateFunction, Given, Plan, Scan, State, expressions_of
from tidemark.algebra.plans import walk as walk_plan

_COUNTS = (AggregateFunction.COUNT_ROWS, AggregateFunction.COUNT)


def can_fail(expression: Expression) -> bool:
    """Whether some row makes the expression raise.

    >>> from tidemark.algebra.expressions import Column
    >>> from tidemark.algebra.types import BOOLEAN, INT
    >>> a, b = Column(0, "a", INT), Column(1, "b", INT)
    >>> can_fail(Call("eq", (a, b), BOOLEAN)), can_fail(Call("divide", (a, b), INT))
    (False, True)
    """
    return any(_fails(part) for part in walk(expression))


def _fails(part: Expression) -> bool:
    match part:
        case Call(function=name):
            return FUNCTIONS[name].fails is not None
        case Cast(argument=argument, type=target):
            return cast_fails(argument.type, target) is not None
    return False


def node_can_fail(plan: Plan) -> bool:
    """Whether the node itself can raise, apart from its inputs. A sum can be out of range."""
    if isinstance(plan, Aggregate) and any(call.function not in _COUNTS for call in plan.aggregates):
        return True
    return any(can_fail(expression) for expression in expressions_of(plan))


def plan_can_fail(plan: Plan) -> bool:
    """Whether the plan or anything below it can raise."""
    return any(node_can_fail(part) for part in walk_plan(plan))


def reads_delta(plan: Plan) -> bool:
    """Whether a delta stands in the plan, so that it is taken to give few rows."""
    return any(
        isinstance(part, Given) or (isinstance(part, Scan) and part.state not in (State.NEW, State.OLD))
        for part in walk_plan(plan)
    )
