"""Delta, Compose, delta-union, Changes and logical rollback on plain bags: the definitions that all laws obey.

A bag maps a row to its weight; a delta is a bag with signed weights. These functions are the first principle
(ERA 4.1 and 4.2, AMOS 1.5.2) in a form that is easy to believe. The engines do the same at full speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from tidemark.algebra.expressions import Value

Row: TypeAlias = tuple[Value, ...]
Bag: TypeAlias = Mapping[Row, int]


def bag(rows: Iterable[Row], weight: int = 1) -> dict[Row, int]:
    """The bag of the given rows.

    >>> bag([(1,), (1,), (2,)])
    {(1,): 2, (2,): 1}
    """
    result: dict[Row, int] = {}
    for row in rows:
        result[row] = result.get(row, 0) + weight
    return result


def plus(*bags: Bag) -> dict[Row, int]:
    """The sum of weights, row by row, without the rows whose weights cancel."""
    result: dict[Row, int] = {}
    for part in bags:
        for row, weight in part.items():
            result[row] = result.get(row, 0) + weight
    return {row: weight for row, weight in result.items() if weight}


def minus(operand: Bag) -> dict[Row, int]:
    """The opposite weights: the delta that undoes a delta."""
    return {row: -weight for row, weight in operand.items()}


def compose(relation: Bag, delta: Bag) -> dict[Row, int]:
    """Compose(R, ΔR) = (R − d_R) ∪ i_R (ERA 4.1).

    >>> compose({("Mike", 40): 1, ("John", 30): 1}, delta([("Mike", 45)], [("Mike", 40), ("John", 30)]))
    {('Mike', 45): 1}
    """
    return plus(relation, delta)


def delta(inserted: Iterable[Row], deleted: Iterable[Row]) -> dict[Row, int]:
    """The net delta of the given insertions and deletions.

    >>> delta([(1, 150), (1, 100)], [(1, 100), (1, 150)])
    {}
    """
    return plus(bag(inserted), bag(deleted, -1))


def delta_union(first: Bag, second: Bag) -> dict[Row, int]:
    """ΔB1 ∪Δ ΔB2: the second delta after the first; counteracting events cancel (AMOS 1.5.2)."""
    return plus(first, second)


def changes(before: Bag, after: Bag) -> dict[Row, int]:
    """Changes by first principle: content after − content before (ERA 4.2). The oracle of every test."""
    return plus(after, minus(before))


def rollback(after: Bag, delta: Bag) -> dict[Row, int]:
    """Logical rollback: S_old = (S_new ∪ Δ−S) − Δ+S (AMOS 1.5.1)."""
    return plus(after, minus(delta))


def inserted(delta: Bag) -> dict[Row, int]:
    """i_R: the rows that came, with how often."""
    return {row: weight for row, weight in delta.items() if weight > 0}


def deleted(delta: Bag) -> dict[Row, int]:
    """d_R: the rows that went, with how often (as positive numbers)."""
    return {row: -weight for row, weight in delta.items() if weight < 0}
