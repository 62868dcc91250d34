"""The first rows of an order (ORDER BY … LIMIT n), without reading the input again as long as they suffice.

    F = first[n](E),    F_new = first[n](F_old ⊎ ΔE)      unless ΔE deletes a row of F_old and F_old has n rows

What was not among the first n rows cannot get there by an insertion or by a deletion behind them. If one of them goes,
the row that moves up is not known, and E_new is read; if F_old has fewer than n rows, it is all of E_old, and nothing
has to be read at all.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.expressions import TRUE, Call, Literal
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Filter,
    Given,
    Join,
    Negate,
    Plan,
    Sort,
    Touched,
    union,
)
from tidemark.algebra.types import BIGINT, BOOLEAN


def kept_first(plan: Sort) -> Sort | None:
    """What is kept for a LIMIT: the rows up to its end, with all columns; None if it has no end."""
    if plan.limit is None:
        return None
    return replace(plan, limit=plan.limit + plan.offset, offset=0, visible=None)


def is_kept_first(plan: Plan) -> bool:
    return isinstance(plan, Sort) and plan.limit is not None and plan == kept_first(plan)


def lost_rows(plan: Sort, before: Given, changed: Given) -> Plan:
    """The rows of F_old that ΔE deletes, if F_old is full; otherwise nothing."""
    assert plan.limit is not None
    columns = tuple(range(len(plan.schema)))
    lost = Touched(before, Distinct(Negate(changed)), columns)
    count = Aggregate(before, ("rows",), (), (AggregateCall(AggregateFunction.COUNT_ROWS),))
    is_full = Call("ge", (count.column(0), Literal(plan.limit, BIGINT)), BOOLEAN, nullable=False)
    return Join(lost, Filter(count, is_full), TRUE)


def merged_first(plan: Sort, before: Given, changed: Given) -> Plan:
    """first[n](F_old ⊎ ΔE)."""
    return plan.with_inputs((union((before, changed), plan.input.schema),))
