"""Arrays of values of one simple type, NULL among them. Places count from 1; beyond the ends there is NULL.

Structs: values of several named fields, each of a simple type. A field is read by an expression of its own.

A struct whose fields are all NULL is no NULL. Two are equal if their fields are, where NULL equals NULL.

Arrays in part: slices, elements left out or replaced, arrays that contain others or have an element in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.cast_sql import duckdb_struct, spark_struct
from tidemark.algebra.functions.logic import distinct
from tidemark.algebra.functions.resolvers import alike, fixed, takes
from tidemark.algebra.functions.table import Function, Resolver, Signature, call, pattern, plain
from tidemark.algebra.types import BOOLEAN, INT, NULL, VARCHAR, Type, array_of, common_type, row_of

_SPECIAL: Final = r"([!-/:-@\\[-`{{-~])"
"""The characters that mean something in a regular expression of Java, within a literal of Spark's."""


def _constructor(types: tuple[Type, ...]) -> Signature | None:
    if not all(given.can_be_part or given == NULL for given in types):
        return None
    signature = alike(1)(types)
    return None if signature is None else Signature(signature.arguments, array_of(signature.result))


def _of_array(result: Callable[[Type], Type], *others: Type) -> Resolver:
    """An array first, then the others."""

    def resolve(types: tuple[Type, ...]) -> Signature | None:
        if not types or types[0].element is None or len(types) != 1 + len(others):
            return None
        return fixed(takes(types[0], *others, gives=result(types[0].element)))(types)

    return resolve


def _element_beside(result: Type, *, array_first: bool) -> Resolver:
    """An array and a value of its element type."""

    def resolve(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2:
            return None
        array, value = types if array_first else types[::-1]
        if array.element is None or common_type(array.element, value) != array.element:
            return None
        pair = (array, array.element) if array_first else (array.element, array)
        return Signature(pair, result)

    return resolve


def _longer(*, array_first: bool) -> Resolver:
    """An array and a value, both brought to a common type of elements, which the longer array has too."""

    def resolve(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2:
            return None
        array, value = types if array_first else types[::-1]
        shared = None if array.element is None else common_type(array.element, value)
        if shared is None or not shared.can_be_part:
            return None
        longer = array_of(shared)
        return Signature((longer, shared) if array_first else (shared, longer), longer)

    return resolve


def _joined(types: tuple[Type, ...]) -> Signature | None:
    signature = alike(2, 2, nested=True)(types)
    return signature if signature is not None and signature.result.element is not None else None


def _any_equal(value: Value, array: Any) -> Value:
    """TRUE if an element equals the value; else NULL if something unknown is in play."""
    if array is None:
        return None
    if not array:
        return False
    if value is None:
        return None
    if any(element is not None and not distinct(value, element) for element in array):
        return True
    return None if None in array else False


def _position(array: Any, value: Value) -> Value:
    places = (place for place, element in enumerate(array, 1) if element is not None and not distinct(element, value))
    return next(places, None)


def _split(text: str, separator: str) -> Value:
    """
    >>> _split("a,b", ","), _split("", ","), _split("ab", "")
    (('a', 'b'), (), ('ab',))
    """
    if not text:
        return ()
    return tuple(text.split(separator)) if separator else (text,)


def _always(type: Type) -> Callable[[Type], Type]:
    return lambda _: type


_TEXTS: Final = array_of(VARCHAR)

ARRAYS: Final = (
    Function(
        "array",
        "ARRAY[a, …]",
        _constructor,
        plain(lambda *values: values),
        call("list_value"),
        call("array"),
        strict=False,
        nullable=lambda _: False,
    ),
    Function(
        "element",
        "array[place]",
        _of_array(lambda element: element, INT),
        plain(lambda array, place: array[place - 1] if 1 <= place <= len(array) else None),
        pattern("(CASE WHEN {1} >= 1 THEN list_extract({0}, {1}) END)"),  # a negative place would count from the end
        pattern("(CASE WHEN {1} >= 1 THEN get({0}, {1} - 1) END)"),
        nullable=lambda _: True,
    ),
    Function(
        "cardinality",
        "cardinality(array)",
        _of_array(_always(INT)),
        plain(len),
        pattern("CAST(len({0}) AS INTEGER)"),
        call("array_size"),
    ),
    Function(
        "array_to_string",
        "array_to_string(array, separator)",
        lambda types: fixed(takes(_TEXTS, VARCHAR, gives=VARCHAR))(types),
        plain(lambda array, separator: separator.join(element for element in array if element is not None)),
        pattern(
            # DuckDB's own function takes only a constant separator.
            "(CASE WHEN {1} IS NULL OR {0} IS NULL THEN NULL WHEN list_count({0}) = 0 THEN '' "
            "ELSE list_reduce(list_filter({0}, lambda x: x IS NOT NULL), lambda x, y: x || {1} || y) END)"
        ),
        call("array_join"),
    ),
    Function(
        "string_to_array",
        "string_to_array(text, separator)",
        fixed(takes(VARCHAR, VARCHAR, gives=_TEXTS)),
        plain(_split),
        pattern(
            "(CASE WHEN {1} IS NULL THEN NULL WHEN {0} = '' THEN CAST([] AS VARCHAR[]) "
            "WHEN {1} = '' AND {0} IS NOT NULL THEN [{0}] ELSE string_split({0}, {1}) END)"
        ),
        pattern(
            "(CASE WHEN {1} IS NULL THEN NULL WHEN {0} = '' THEN CAST(array() AS ARRAY<STRING>) "
            "WHEN {1} = '' AND {0} IS NOT NULL THEN array({0}) "
            "ELSE split({0}, regexp_replace({1}, '" + _SPECIAL + r"', '\\\\$1'), -1) END)"
        ),
    ),
    Function(
        "array_append",
        "array_append(array, value)",
        _longer(array_first=True),
        plain(lambda array, value: (*(array or ()), value)),
        pattern("list_concat({0}, list_value({1}))"),
        pattern("(CASE WHEN {0} IS NULL THEN array({1}) ELSE concat({0}, array({1})) END)"),
        strict=False,
        nullable=lambda _: False,
    ),
    Function(
        "array_prepend",
        "array_prepend(value, array)",
        _longer(array_first=False),
        plain(lambda value, array: (value, *(array or ()))),
        pattern("list_concat(list_value({0}), {1})"),
        pattern("(CASE WHEN {1} IS NULL THEN array({0}) ELSE concat(array({0}), {1}) END)"),
        strict=False,
        nullable=lambda _: False,
    ),
    Function(
        "array_cat",
        "array_cat(a, b)",
        _joined,
        plain(lambda left, right: right if left is None else left if right is None else left + right),
        pattern("(CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0} ELSE list_concat({0}, {1}) END)"),
        pattern("(CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0} ELSE concat({0}, {1}) END)"),
        strict=False,
        nullable=all,
    ),
    Function(
        "any_equal",
        "a = ANY(array)",
        _element_beside(BOOLEAN, array_first=False),
        plain(_any_equal),
        pattern(
            "(CASE WHEN {1} IS NULL THEN NULL WHEN len({1}) = 0 THEN FALSE WHEN {0} IS NULL THEN NULL "
            "WHEN list_contains({1}, {0}) THEN TRUE "
            "WHEN len(list_filter({1}, lambda x: x IS NULL)) > 0 THEN NULL ELSE FALSE END)"
        ),
        pattern("(CASE WHEN array_size({1}) = 0 THEN FALSE ELSE array_contains({1}, {0}) END)"),
        strict=False,
        nullable=lambda _: True,
    ),
    Function(
        "array_position",
        "array_position(array, value)",
        _element_beside(INT, array_first=True),
        plain(_position),
        pattern("(CASE WHEN {1} IS NOT NULL THEN CAST(nullif(list_position({0}, {1}), 0) AS INTEGER) END)"),
        pattern("CAST(nullif(array_position({0}, {1}), 0) AS INT)"),
        nullable=lambda _: True,
    ),
)


def _row(types: tuple[Type, ...]) -> Signature | None:
    if not types or not all(given.can_be_part or given == NULL for given in types):
        return None
    settled = tuple(VARCHAR if given == NULL else given for given in types)
    return Signature(settled, row_of(*settled))


STRUCTS: Final = (
    Function(
        "struct",
        "ROW(a, …)",
        _row,
        plain(lambda *values: values),
        lambda arguments, signature: duckdb_struct(arguments, signature.result),
        lambda arguments, signature: spark_struct(arguments, signature.result),
        strict=False,
        nullable=lambda _: False,
    ),
)


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
