"""GROUPING SETS, ROLLUP and CUBE: a union of groupings.

γ[sets S1, S2, …; f](E) = ⊎ π[keys of Si, NULL for the others, i, f] γ[Si; f](E)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from tidemark.algebra.expressions import Call, Case, Column, Expression, Literal
from tidemark.algebra.plans import Aggregate, AggregateCall, Plan, Project, Union
from tidemark.algebra.types import BOOLEAN, INT
from tidemark.sql.text import Source

MOST_SETS = 64

Set = tuple[int, ...]


@dataclass(frozen=True)
class GroupingSets:
    """All keys of a GROUP BY, and the sets of them by which rows are grouped; most often one set with all."""

    keys: tuple[Expression, ...]
    sets: tuple[Set, ...]

    @property
    def are_several(self) -> bool:
        return self.sets != (tuple(range(len(self.keys))),)

    @property
    def width(self) -> int:
        """How many columns stand before the aggregates: the keys, and the number of the set if there are several."""
        return len(self.keys) + (1 if self.are_several else 0)

    def grouped(self, plan: Plan, names: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> Plan:
        named = tuple(call.function.value for call in calls)
        if not self.are_several:
            return Aggregate(plan, names + named, self.keys, calls)
        parts = []
        for number, chosen in enumerate(self.sets):
            grouping = Aggregate(
                plan, tuple(names[i] for i in chosen) + named, tuple(self.keys[i] for i in chosen), calls
            )
            cells: list[Expression] = [
                grouping.column(chosen.index(i)) if i in chosen else Literal(None, key.type)
                for i, key in enumerate(self.keys)
            ]
            cells += [Literal(number, INT), *grouping.columns()[len(chosen) :]]
            parts.append(Project(grouping, (*names, "grouping_set", *named), tuple(cells)))
        return Union(tuple(parts))

    def grouping(self, positions: tuple[int, ...]) -> Expression:
        """The value of GROUPING for keys at these positions."""
        if not self.are_several:
            return Literal(0, INT)
        number = Column(len(self.keys), "grouping_set", INT, nullable=False)
        branches = tuple(
            (Call("eq", (number, Literal(i, INT)), BOOLEAN, nullable=False), Literal(_bits(positions, chosen), INT))
            for i, chosen in enumerate(self.sets)
        )
        return Case(branches, Literal(0, INT), INT)


def _bits(positions: tuple[int, ...], chosen: Set) -> int:
    value = 0
    for position in positions:
        value = value * 2 + (0 if position in chosen else 1)
    return value


def sets_of(entries: list[exp.Expr], position: Callable[[exp.Expr], int], source: Source) -> tuple[Set, ...]:
    """The sets of a GROUP BY: entries side by side combine each of their sets with each of the others'."""
    choices = [_entry(entry, position, source) for entry in entries]
    sets = [tuple(dict.fromkeys(i for part in chosen for i in part)) for chosen in product(*choices)]
    if len(sets) > MOST_SETS:
        raise source.error(
            "unsupported", f"GROUP BY has {len(sets)} grouping sets; {MOST_SETS} are the most", entries[0]
        )
    return tuple(tuple(sorted(chosen)) for chosen in sets)


def _entry(entry: exp.Expr, position: Callable[[exp.Expr], int], source: Source) -> list[Set]:
    match entry:
        case exp.Rollup():
            units = [_unit(part, position) for part in entry.expressions]
            return [_together(units[:length]) for length in range(len(units), -1, -1)]
        case exp.Cube():
            units = [_unit(part, position) for part in entry.expressions]
            sizes = range(len(units), -1, -1)
            return [_together(list(chosen)) for size in sizes for chosen in combinations(units, size)]
        case exp.GroupingSets():
            return [found for part in entry.expressions for found in _entry(part, position, source)]
        case exp.Tuple() | exp.Paren():
            return [_unit(entry, position)]
    return [(position(entry),)]


def _unit(entry: exp.Expr, position: Callable[[exp.Expr], int]) -> Set:
    match entry:
        case exp.Tuple():
            return tuple(position(part) for part in entry.expressions)
        case exp.Paren():
            return _unit(entry.this, position)
    return (position(entry),)


def _together(units: list[Set]) -> Set:
    return tuple(i for unit in units for i in unit)
