"""Arrays in part: slices, elements left out or replaced, arrays that contain others or have an element in common."""

from __future__ import annotations

from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.logic import distinct
from tidemark.algebra.functions.resolvers import alike, fixed, takes
from tidemark.algebra.functions.table import Function, Signature, pattern, plain
from tidemark.algebra.types import BOOLEAN, INT, Type, common_type


def _slice_signature(types: tuple[Type, ...]) -> Signature | None:
    if len(types) != 3 or types[0].element is None:
        return None
    return fixed(takes(types[0], INT, INT, gives=types[0]))(types)


def _slice(array: Any, first: int, last: int) -> Value:
    """
    >>> _slice((1, 2, 3), -5, 2), _slice((1, 2, 3), 3, 2)
    ((1, 2), ())
    """
    start = max(first, 1)
    return tuple(array[start - 1 : last]) if last >= start else ()


def _with_elements(types: tuple[Type, ...]) -> Signature | None:
    """An array, then values of its elements' type."""
    if not types or types[0].element is None:
        return None
    element = types[0].element
    if any(common_type(element, value) != element for value in types[1:]):
        return None
    return Signature((types[0],) + (element,) * (len(types) - 1), types[0])


def _remove_signature(types: tuple[Type, ...]) -> Signature | None:
    return _with_elements(types) if len(types) == 2 else None


def _replace_signature(types: tuple[Type, ...]) -> Signature | None:
    return _with_elements(types) if len(types) == 3 else None


def _two_arrays(types: tuple[Type, ...]) -> Signature | None:
    signature = alike(2, 2, nested=True)(types)
    return None if signature is None or signature.result.element is None else Signature(signature.arguments, BOOLEAN)


def _contains(array: Any, element: Value) -> bool:
    return element is not None and any(other is not None and not distinct(element, other) for other in array)


def _remove(array: Any, value: Value) -> Value:
    return None if array is None else tuple(element for element in array if distinct(element, value))


def _replace(array: Any, given: Value, wanted: Value) -> Value:
    return None if array is None else tuple(element if distinct(element, given) else wanted for element in array)


_DUCKDB_MISSING: Final = "list_filter({1}, lambda x: x IS NULL OR NOT list_contains({0}, x))"
_SPARK_MISSING: Final = "filter({1}, x -> x IS NULL OR NOT coalesce(array_contains({0}, x), FALSE))"
"""The elements of the second array that the first does not have; a NULL equals nothing."""

ARRAY_PARTS: Final = (
    Function(
        "array_slice",
        "array[first:last]",
        _slice_signature,
        plain(_slice),
        pattern(
            "(CASE WHEN {1} IS NULL OR {2} IS NULL THEN NULL WHEN {2} < {1} OR {2} < 1 THEN list_slice({0}, 1, 0) "
            "ELSE list_slice({0}, greatest({1}, 1), {2}) END)"
        ),
        pattern(
            "(CASE WHEN {1} IS NULL OR {2} IS NULL THEN NULL WHEN {2} < {1} OR {2} < 1 THEN slice({0}, 1, 0) "
            "ELSE slice({0}, greatest({1}, 1), {2} - greatest({1}, 1) + 1) END)"
        ),
    ),
    Function(
        "array_remove",
        "array_remove(array, value)",
        _remove_signature,
        plain(_remove),
        pattern("list_filter({0}, lambda x: x IS DISTINCT FROM {1})"),
        pattern("filter({0}, x -> NOT (x <=> {1}))"),
        strict=False,
        nullable=lambda given: given[0],
    ),
    Function(
        "array_replace",
        "array_replace(array, value, replacement)",
        _replace_signature,
        plain(_replace),
        pattern("list_transform({0}, lambda x: CASE WHEN x IS DISTINCT FROM {1} THEN x ELSE {2} END)"),
        pattern("transform({0}, x -> CASE WHEN x <=> {1} THEN {2} ELSE x END)"),
        strict=False,
        nullable=lambda given: given[0],
    ),
    Function(
        "array_contains_all",
        "array @> array",
        _two_arrays,
        plain(lambda array, part: all(_contains(array, element) for element in part)),
        pattern(f"(CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN len({_DUCKDB_MISSING}) = 0 END)"),
        pattern(f"(CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN array_size({_SPARK_MISSING}) = 0 END)"),
        infix="@>",
    ),
    Function(
        "array_overlaps",
        "array && array",
        _two_arrays,
        plain(lambda left, right: any(_contains(left, element) for element in right)),
        pattern(f"(CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN len({_DUCKDB_MISSING}) < len({{1}}) END)"),
        pattern(
            f"(CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL "
            f"THEN array_size({_SPARK_MISSING}) < array_size({{1}}) END)"
        ),
        infix="&&",
    ),
)
