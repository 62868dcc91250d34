"""Which columns of the relations below matter to the rows of a plan.

Two relations that agree in those columns, as bags, give the same rows and the same errors. So an update that leaves
them as they were does not change the plan's rows, whatever else it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tidemark.algebra.expressions import Expression, columns_of
from tidemark.algebra.failing import can_fail
from tidemark.algebra.plans import (
    Aggregate,
    Filter,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Scan,
    Union,
    expressions_of,
)

Columns = frozenset[int]


def columns_read(
    plan: Plan, wanted: Columns | None = None, named: Mapping[Plan, str] = MappingProxyType({})
) -> dict[str, Columns]:
    """The columns that matter, by position, for each relation that the plan scans, and for each ``named`` part of it.

    Only the ``wanted`` columns of the plan's own rows are asked for, or all of them.
    """
    found: dict[str, Columns] = {}
    _read(plan, frozenset(range(len(plan.schema))) if wanted is None else wanted, found, named)
    return found


def _read(plan: Plan, wanted: Columns, found: dict[str, Columns], named: Mapping[Plan, str]) -> None:
    """Add what the plan must read so that the ``wanted`` columns of its rows come out right."""
    if named and plan in named:
        found[named[plan]] = found.get(named[plan], frozenset()) | wanted
    match plan:
        case Scan(relation=relation):
            found[relation] = found.get(relation, frozenset()) | wanted
        case Filter(input=source) | Repeat(input=source):
            _read(source, wanted | _columns(expressions_of(plan)), found, named)
        case Negate(input=source) | Net(input=source):
            _read(source, wanted, found, named)
        case Project(input=source, expressions=expressions):
            computed = (e for i, e in enumerate(expressions) if i in wanted or can_fail(e))
            _read(source, _columns(computed), found, named)
        case Aggregate(input=source):
            _read(source, _columns(expressions_of(plan)), found, named)
        case Union(parts=parts):
            for part in parts:
                _read(part, wanted, found, named)
        case Join(left=left, right=right, predicate=predicate):
            width, both = len(left.schema), wanted | columns_of(predicate)
            _read(left, frozenset(i for i in both if i < width), found, named)
            _read(right, frozenset(i - width for i in both if i >= width), found, named)
        case _:
            # The others look at whole rows: equal ones, the order among them, their windows.
            for child in plan.inputs():
                _read(child, frozenset(range(len(child.schema))), found, named)


def _columns(expressions: Iterable[Expression]) -> Columns:
    return frozenset(index for expression in expressions for index in columns_of(expression))
