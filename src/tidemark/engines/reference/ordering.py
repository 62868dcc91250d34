"""Rows in order, as the definitions say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cmp_to_key
from typing import Any

from tidemark.algebra.functions import rank
from tidemark.algebra.plans import Sort, SortKey
from tidemark.algebra.scalar import Row, value_of


def repeated(bag: Mapping[Row, int]) -> list[Row]:
    """The rows of positive weight, each as often as its weight says."""
    return [row for row, weight in bag.items() for _ in range(weight)]


def first_rows(plan: Sort, rows: list[Row]) -> list[Row]:
    """The rows in order, from the offset on, as many as the limit allows."""
    ordered = sorted(rows, key=in_order(plan.keys))
    return ordered[plan.offset : None if plan.limit is None else plan.offset + plan.limit]


def in_order(keys: tuple[SortKey, ...]) -> Callable[[Row], Any]:
    return cmp_to_key(lambda left, right: compare(left, right, keys))


def compare(left: Row, right: Row, keys: tuple[SortKey, ...]) -> int:
    for key in keys:
        a, b = value_of(key.expression, left), value_of(key.expression, right)
        if rank(a) == rank(b):  # which NaN is, too
            continue
        if a is None or b is None:
            return -1 if (a is None) == key.nulls_first else 1
        smaller = rank(a) < rank(b)
        return -1 if smaller != key.descending else 1
    return 0
