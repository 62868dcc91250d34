"""Which rows of a relation can matter to a plan: an ordinary filter over the relation's own columns (Algorithm 3.1).

A row that comes or leaves changes the plan's output only if it reaches it in some way (``ways.py``). What each way
asks, with the columns of all other rows left out, is a condition on the row alone; the filter is true where one of them
is. A row for which it is not true has no effect on the plan, in any database, and lets nothing fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidemark.algebra.expressions import Call, Column, Expression, Literal, columns_of, conjunction, conjuncts, shift
from tidemark.algebra.plans import Plan, Scan, walk
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import Schema
from tidemark.analysis.budget import OutOfSteps, for_plan, spend
from tidemark.analysis.conditions import (
    Answer,
    Facts,
    always_true,
    connected,
    eliminated_one_by_one,
    implies,
    never_true,
)
from tidemark.analysis.relevance.ways import TooManyWays, Tracing, Way, parts_of_ways
from tidemark.analysis.rendering import FALSE, disjunction, plain

UNDECIDED: Final = ", because its conditions take more steps to look at than the view may have"


@dataclass(frozen=True)
class Influence:
    """How a relation influences a plan. ``filter`` is None if every row can matter, FALSE if none can.

    ``ways`` is None if there are too many of them to be looked at; then nothing is said. ``is_cut`` says that the steps
    for finding out ended before all was decided: the filter may then let pass more than it should.
    """

    relation: str
    facts: Facts
    ways: tuple[Way, ...] | None
    filter: Expression | None
    is_cut: bool = False

    @property
    def parts(self) -> int:
        """How many parts there are in what the ways ask."""
        return parts_of_ways(self.ways or ())

    @property
    def reason(self) -> str:
        """What the filter says, in words."""
        if self.filter is None:
            return f"every row of {self.relation} can matter{UNDECIDED if self.is_cut else ''}"
        if self.filter == FALSE:
            return f"no row of {self.relation} can matter"
        return f"only rows of {self.relation} with {plain(self.filter)} can matter"


def influence(
    plan: Plan, relation: str, facts_of_relations: Mapping[str, Facts], *, at_sight: bool = False
) -> Influence:
    """How rows of the relation reach the plan, and which of them can.

    With ``at_sight`` nothing is proved if every way asks for some column to have a given value: that is the filter.
    It is what tells the conditions of a thousand rules apart, and proofs for all of them would take minutes.

    >>> from tidemark.algebra.expressions import Call, Literal
    >>> from tidemark.algebra.plans import Filter, Scan
    >>> from tidemark.algebra.types import BOOLEAN, INT, Field, Schema
    >>> r = Scan("r", Schema((Field("a", INT),)))
    >>> above = Call("gt", (r.column(0), Literal(7, INT)), BOOLEAN)
    >>> influence(Filter(r, above), "r", {}).reason
    'only rows of r with a > 7 can matter'
    """
    tracing = Tracing(facts_of_relations)
    schema = next((p.schema for p in walk(plan) if isinstance(p, Scan) and p.relation == relation), Schema(()))
    facts = tracing.facts(relation, schema)
    ways: tuple[Way, ...] | None = None
    try:
        with for_plan(plan) as steps:
            ways = tuple(tracing.touching(plan, relation))
            seen = _at_sight(ways) if at_sight else None
            if seen is not None:
                return Influence(relation, facts, ways, seen)
            filter = _filter(ways, facts)
    except (TooManyWays, OutOfSteps):
        return Influence(relation, facts, ways, None, is_cut=True)
    return Influence(relation, facts, ways, filter, steps.is_spent)


def _at_sight(ways: tuple[Way, ...]) -> Expression | None:
    """What ways ask of the row's own columns by comparing them with constants, before anything is asked that can fail;
    None if some way asks for no equal value."""
    found: list[Expression] = []
    for way in ways:
        kept: list[Expression] = []
        for part in (part for condition in way.conditions for part in conjuncts(condition)):
            if can_fail(part):
                break
            match part:
                case Call(function=name, arguments=(Column(index=index), Literal())) if name in _COMPARISONS:
                    if way.own <= index < way.own + way.width:
                        kept.append(shift(part, -way.own))
        if not any(isinstance(part, Call) and part.function == "eq" for part in kept):
            return None
        if conjunction(tuple(kept)) not in found:
            found.append(conjunction(tuple(kept)))
    return disjunction(tuple(found)) if found else None


_COMPARISONS: Final = ("eq", "lt", "le", "gt", "ge")


def _filter(ways: tuple[Way, ...], facts: Facts) -> Expression | None:
    found: list[Expression] = []
    for way in ways:
        own = frozenset(range(way.own, way.own + way.width))
        condition = eliminated_one_by_one(way.conditions, own, way.facts)
        if condition is None:
            return None
        simple = simplified(shift(condition, -way.own), facts)
        if simple is None:
            return None
        if simple != FALSE and simple not in found:
            found.append(simple)
    return any_of(_weakest(found, facts), facts)


def simplified(condition: Expression, facts: Facts) -> Expression | None:
    """The condition without the parts that follow from the others or from the facts; None if nothing remains."""
    if never_true(condition, facts):
        return FALSE
    parts = list(conjuncts(condition))
    for part in tuple(reversed(parts)):
        spend(len(parts))
        others = [other for other in parts if other is not part]
        # What has nothing to do with it says nothing about it either.
        if implies(conjunction(connected(columns_of(part), others)), part, facts) is Answer.YES:
            parts = others
    return conjunction(tuple(parts)) if parts else None


def _weakest(conditions: list[Expression], facts: Facts) -> list[Expression]:
    """Those that no other follows from: a condition that implies another one adds nothing to it."""
    kept = list(conditions)
    for condition in conditions:
        spend(len(kept))
        others = [other for other in kept if other is not condition]
        if any(implies(condition, other, facts) is Answer.YES for other in others):
            kept = others
    return kept


def any_of(conditions: list[Expression], facts: Facts) -> Expression | None:
    """The conditions, one of which holds; None if that is so for every row."""
    if not conditions:
        return FALSE
    result = disjunction(tuple(conditions))
    return None if len(conditions) > 1 and always_true(result, facts) else result
