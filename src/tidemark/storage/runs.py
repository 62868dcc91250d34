"""Runs: rows of a relation sorted by their keys, each column apart, with weights. A run never changes.

The law: a run holds the entries that it was made of, but for those with NULL in the key, which no key equals. Equal
keys lie together, so a key is found by bisection: by its first column, then by the second among those found, and so
on. What is sorted and compared are whole numbers, the *codes* of values: integers, dates, times and decimals are their
own, of a text or of bytes it is the hash and of a wide decimal its low half. Where two values may have one code, what
is found is compared.

One row is read through views of Arrow's buffers, which cost some tens of nanoseconds a value; many rows are taken from
the columns as they are. Decimals are held as 64-bit numbers where all of them fit.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from itertools import repeat
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import canonical
from tidemark.algebra.types import WEIGHT, Kind, Schema, Type

Numbers: TypeAlias = npt.NDArray[Any]
Key: TypeAlias = tuple[Value, ...]

_EXACT: Final = Context(prec=100)
"""A context of our own: whatever precision a program works with, nothing is rounded here."""
_EPOCH: Final = dt.datetime(1970, 1, 1)
_ZONED_EPOCH: Final = _EPOCH.replace(tzinfo=dt.UTC)
_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_NARROW_DIGITS: Final = 18
"""Every decimal of so many digits is a number of 64 bits."""
_FITTING_BYTES: Final = 2**31 - 1
"""So many bytes of text have offsets of 32 bits."""
_AT_ONCE: Final = 65_536
FEW: Final = 4
"""Up to so many rows are read one by one."""
_PLAIN: Final = {
    **{Kind.SMALLINT: "i2", Kind.INT: "i4", Kind.BIGINT: "i8"},
    **{Kind.DATE: "i4", Kind.TIMESTAMP: "i8", Kind.TIMESTAMPTZ: "i8"},
}
_FLOATS: Final = {Kind.REAL: "f4", Kind.DOUBLE: "f8"}
_HASHED: Final = frozenset({Kind.VARCHAR, Kind.BYTEA})
KEYED: Final = frozenset({*_PLAIN, *_HASHED, Kind.BOOLEAN, Kind.DECIMAL})
"""The kinds of keys. Floating point has several forms of one value, and values with parts have no codes."""


# Codes


def is_exact(type_: Type) -> bool:
    """Whether values with one code are equal."""
    return type_.kind not in _HASHED and type_.precision <= _NARROW_DIGITS


def code_of(type_: Type) -> Callable[[Any], int]:
    """From a value, not NULL, to its code.

    >>> from tidemark.algebra.types import DATE, decimal
    >>> code_of(DATE)(dt.date(1970, 1, 2)), code_of(decimal(4, 2))(Decimal("1.5"))
    (1, 150)
    """
    match type_.kind:
        case Kind.DATE:
            return lambda value: value.toordinal() - _EPOCH_DAY
        case Kind.TIMESTAMP:
            return lambda value: (value - _EPOCH) // _MICROSECOND
        case Kind.TIMESTAMPTZ:
            return lambda value: (value - _ZONED_EPOCH) // _MICROSECOND
        case Kind.DECIMAL:
            return lambda value: _low(int(value.scaleb(type_.scale, _EXACT)))
        case Kind.VARCHAR | Kind.BYTEA:
            return hash
    return int


def _low(number: int) -> int:
    """The low 64 bits of a number, with a sign."""
    return ((number + 2**63) & (2**64 - 1)) - 2**63


def codes_of(array: pa.Array, type_: Type) -> Numbers:
    """The codes of values, none of which is NULL, as they are stored or as they are given."""
    if type_.kind in _HASHED:
        parts = [array.slice(start, _AT_ONCE) for start in range(0, len(array), _AT_ONCE)]
        hashes = (hash(value) for part in parts for value in part.to_pylist())
        return np.fromiter(hashes, np.int64, len(array))
    if type_.kind is Kind.BOOLEAN:
        return np.asarray(array.to_numpy(zero_copy_only=False)).view(np.uint8)
    return numbers_in(array, type_)


# Columns


def packed(column: pa.ChunkedArray | pa.Array, type_: Type) -> pa.Array:
    """A column in the form in which it is held: one piece, decimals in 64 bits if they fit."""
    if isinstance(column, pa.ChunkedArray):
        if type_.kind in _HASHED and column.nbytes > _FITTING_BYTES:
            column = column.cast(pa.large_string() if type_.kind is Kind.VARCHAR else pa.large_binary())
        column = column.combine_chunks()
    if type_.kind is not Kind.DECIMAL or not pa.types.is_decimal(column.type):
        return column
    halves = _halves(column)
    low, high = halves[:, 0], halves[:, 1]
    is_there = np.ones(len(column), bool) if not column.null_count else _are_there(column)
    if not bool(np.all((high == (low >> 63)) | ~is_there)):
        return column
    return pa.array(np.ascontiguousarray(low), pa.int64(), mask=None if not column.null_count else ~is_there)


def unpacked(array: pa.Array, type_: Type) -> pa.Array:
    """A column in the form that Arrow has for its type."""
    if type_.kind is not Kind.DECIMAL or pa.types.is_decimal(array.type):
        return array if array.type == type_.arrow else array.cast(type_.arrow)
    halves = np.empty((len(array), 2), np.int64)
    halves[:, 0] = np.asarray(array.fill_null(0))
    halves[:, 1] = halves[:, 0] >> 63
    whole = pa.Array.from_buffers(type_.arrow, len(array), [None, pa.py_buffer(halves)])
    return pc.if_else(array.is_valid(), whole, None) if array.null_count else whole


def _halves(array: pa.Array) -> Numbers:
    """The low and the high 64 bits of decimals."""
    if not len(array):
        return np.empty((0, 2), np.int64)
    pairs = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
    return pairs[array.offset : array.offset + len(array)]


def numbers_in(array: pa.Array, type_: Type) -> Numbers:
    """What numbers stand in the column, and anything where it has NULL."""
    if type_.kind is Kind.DECIMAL and pa.types.is_decimal(array.type):
        return _halves(array)[:, 0]
    form = np.dtype("i8" if type_.kind is Kind.DECIMAL else _PLAIN.get(type_.kind) or _FLOATS.get(type_.kind, "f8"))
    if not len(array):
        return np.empty(0, form)
    numbers = np.frombuffer(array.buffers()[1], form, count=array.offset + len(array))
    return numbers[array.offset :]


def _are_there(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _view(numbers: Any) -> Any:
    """One number of an array at a time, as Python's own, which takes half the time of asking the array."""
    return memoryview(numbers)


def reader(array: pa.Array, type_: Type) -> Callable[[int], Value]:
    """Reads one value of a column, in the form that bags have."""
    read = _reader(array, type_)
    if not array.null_count:
        return read
    is_there = _view(_are_there(array))
    return lambda place: read(place) if is_there[place] else None


def _reader(array: pa.Array, type_: Type) -> Callable[[int], Value]:
    """The same of a column that has no NULL there."""
    is_wide = type_.kind is Kind.DECIMAL and pa.types.is_decimal(array.type)
    if is_wide or type_.is_nested or type_.kind is Kind.NULL:
        return lambda place: canonical(array[place].as_py())
    if type_.kind is Kind.VARCHAR:
        return _text_reader(array)
    if type_.kind is Kind.BYTEA:
        return lambda place: array[place].as_py()
    if type_.kind is Kind.BOOLEAN:
        filled = array.fill_null(False) if array.null_count else array
        return _view(np.asarray(filled.to_numpy(zero_copy_only=False))).__getitem__  # type: ignore[no-any-return]
    numbers = _view(np.ascontiguousarray(numbers_in(array, type_)))
    match type_.kind:
        case Kind.DATE:
            return lambda place: dt.date.fromordinal(numbers[place] + _EPOCH_DAY)
        case Kind.TIMESTAMP:
            return lambda place: _EPOCH + dt.timedelta(microseconds=numbers[place])
        case Kind.DECIMAL:
            scale = -type_.scale
            return lambda place: Decimal(numbers[place]).scaleb(scale, _EXACT)
        case Kind.TIMESTAMPTZ:
            return lambda place: _ZONED_EPOCH + dt.timedelta(microseconds=numbers[place])
        case Kind.REAL | Kind.DOUBLE:
            return lambda place: canonical(numbers[place])
    return numbers.__getitem__  # type: ignore[no-any-return]


def _range_reader(
    array: pa.Array | None, type_: Type, read: Callable[[int], Value]
) -> Callable[[int, int], Iterable[Value]]:
    """Reads the values of a column from one place to before another."""
    if array is not None and type_.is_integer and not array.null_count:
        numbers = _view(np.ascontiguousarray(numbers_in(array, type_)))
        return lambda low, high: numbers[low:high].tolist()
    return lambda low, high: map(read, range(low, high))


def _text_reader(array: pa.Array) -> Callable[[int], Value]:
    _, places, texts = array.buffers()
    if texts is None:
        return lambda place: ""
    width = "i8" if pa.types.is_large_string(array.type) else "i4"
    ends = _view(np.frombuffer(places, width, count=array.offset + len(array) + 1)[array.offset :])
    held = memoryview(texts)
    return lambda place: str(held[ends[place] : ends[place + 1]], "utf-8")


# Runs


@dataclass(frozen=True)
class Run:
    """Rows sorted by ``keys``, which are the codes of their key columns. ``columns`` are those that are carried, by
    position in the relation; ``weights`` is None if all are one."""

    schema: Schema
    columns: dict[int, pa.Array]
    keys: tuple[Numbers, ...]
    weights: Numbers | None
    left_out: int
    """How many entries have NULL in the key."""

    def __len__(self) -> int:
        return len(self.keys[0])

    @cached_property
    def nbytes(self) -> int:
        """What it takes, about: views of the same buffers count once."""
        held: int = sum(array.nbytes for array in self.columns.values())
        masks = sum(len(self) for array in self.columns.values() if array.null_count)
        keys = sum(codes.nbytes for codes in self.keys if codes.base is None)
        return held + masks + keys + (0 if self.weights is None else self.weights.nbytes)

    @cached_property
    def _views(self) -> tuple[Any, ...]:
        return tuple(_view(codes) for codes in self.keys)

    @cached_property
    def _readers(self) -> tuple[Callable[[int], Value], ...]:
        types = self.schema.types
        return tuple(reader(self.columns[i], type_) if i in self.columns else _nothing for i, type_ in enumerate(types))

    @cached_property
    def _range_readers(self) -> tuple[Callable[[int, int], Iterable[Value]], ...]:
        """The same for places that follow each other."""
        known = zip(self.schema.types, self._readers, strict=True)
        return tuple(_range_reader(self.columns.get(i), type_, read) for i, (type_, read) in enumerate(known))

    def find(self, codes: Sequence[int]) -> tuple[int, int]:
        """The places of rows whose first key columns have these codes: from the first to before the last."""
        low, high = 0, len(self.keys[0])
        for view, code in zip(self._views, codes, strict=False):
            low = bisect_left(view, code, low, high)
            if low == high or view[low] != code:
                return 0, 0
            high = low + 1 if low + 1 == high or view[low + 1] != code else bisect_right(view, code, low, high)
        return low, high

    def entries(self, low: int, high: int) -> Iterable[tuple[Key, int]]:
        """Whole rows from one place to before another, with None in the columns that are not carried, and their
        weights."""
        if high - low <= FEW:
            readers, weights = self._readers, self.weights
            return [
                (tuple([read(place) for read in readers]), 1 if weights is None else int(weights[place]))
                for place in range(low, high)
            ]
        rows = zip(*[read(low, high) for read in self._range_readers], strict=True)
        return zip(rows, repeat(1) if self.weights is None else self.weights[low:high].tolist(), strict=False)

    def find_all(self, codes: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
        """The same for many keys at once, given by column, which are best sorted."""
        low = np.zeros(len(codes[0]), np.int64)
        high = np.full(len(codes[0]), len(self), np.int64)
        for stored, wanted in zip(self.keys, codes, strict=False):
            low, high = _bounds(stored, wanted, low, high)
        return low, high

    def take(self, places: Numbers) -> pa.Table:
        """The entries at these places, whole rows with NULL in the columns that are not carried."""
        chosen, arrays = pa.array(places), []
        for position, type_ in enumerate(self.schema.types):
            column = self.columns.get(position)
            arrays.append(
                pa.nulls(len(places), type_.arrow) if column is None else unpacked(column.take(chosen), type_)
            )
        weights = np.ones(len(places), np.int64) if self.weights is None else self.weights[places]
        return pa.Table.from_arrays([*arrays, pa.array(weights, pa.int64())], schema=self.schema.weighted)


def _nothing(place: int) -> None:
    return None


def _bounds(stored: Numbers, wanted: Numbers, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """Where in ``stored``, which is sorted between each pair of bounds, the wanted numbers stand."""
    if not len(stored):
        return low, low
    limits = np.iinfo(stored.dtype)
    fits = (wanted >= limits.min) & (wanted <= limits.max)
    looked = np.clip(wanted, limits.min, limits.max).astype(stored.dtype)
    if not low.any() and bool((high == len(stored)).all()):
        if bool((looked[:-1] <= looked[1:]).all()):
            first, last = (np.searchsorted(stored, looked, side) for side in ("left", "right"))
        else:
            different, owners = np.unique(looked, return_inverse=True)  # in order, which finds them sooner
            first, last = (np.searchsorted(stored, different, side)[owners] for side in ("left", "right"))
        return first, np.where(fits, last, first)
    first = _bisected(stored, looked, low, high, after=False)
    found = np.flatnonzero(fits & (first < high) & (stored[np.minimum(first, len(stored) - 1)] == looked))
    last = first.copy()
    last[found] = _bisected(stored, looked[found], first[found], high[found], after=True)
    return first, last


def _bisected(stored: Numbers, wanted: Numbers, low: Numbers, high: Numbers, *, after: bool) -> Numbers:
    """Bisection of many at once, each between bounds of its own."""
    low, high = low.copy(), high.copy()
    while (is_open := low < high).any():
        middle = (low + high) >> 1
        found = stored[np.minimum(middle, len(stored) - 1)]
        goes_up = is_open & ((found <= wanted) if after else (found < wanted))
        low = np.where(goes_up, middle + 1, low)
        high = np.where(is_open & ~goes_up, middle, high)
    return low


def places_between(low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """All places between bounds, and for each the number of its bounds.

    >>> places, owners = places_between(np.array([5, 0, 2]), np.array([7, 0, 3]))
    >>> places.tolist(), owners.tolist()
    ([5, 6, 2], [0, 0, 2])
    """
    counts = high - low
    owners = np.repeat(np.arange(len(low)), counts)
    before = np.cumsum(counts) - counts
    return np.arange(len(owners)) - before[owners] + low[owners], owners


def run_of(table: pa.Table, schema: Schema, key: Sequence[int], carried: Sequence[int]) -> Run:
    """A run of entries: a table of the carried columns, and ``_weight`` if not all weights are one.

    It is not made net: entries may cancel each other.
    """
    weights = None
    if table.num_columns > len(carried):
        weights = np.asarray(table.column(WEIGHT).combine_chunks())
        weights = None if bool((weights == 1).all()) else weights
    columns = {p: packed(table.column(i), schema.types[p]) for i, p in enumerate(carried)}
    is_keyed = _keyed([columns[p] for p in key])
    order = None if is_keyed is None else np.flatnonzero(is_keyed)
    chosen = [columns[p] if order is None else columns[p].take(pa.array(order)) for p in key]
    codes = [codes_of(column, schema.types[p]) for column, p in zip(chosen, key, strict=True)]
    sorting = _sorting(codes)
    if sorting is not None:
        order = sorting if order is None else order[sorting]
        codes = [part[sorting] for part in codes]
    if order is not None:
        columns = {position: array.take(pa.array(order)) for position, array in columns.items()}
        weights = None if weights is None else weights[order]
    # Of what is its own code the column itself is searched, and no copy of it.
    viewed = [codes_of(columns[p], schema.types[p]) if _is_viewed(schema.types[p]) else None for p in key]
    keys = [own if view is None else view for own, view in zip(codes, viewed, strict=True)]
    left_out = table.num_rows - (table.num_rows if order is None else len(order))
    return Run(schema, columns, tuple(map(np.ascontiguousarray, keys)), weights, left_out)


def _is_viewed(type_: Type) -> bool:
    return type_.kind in _PLAIN or (type_.kind is Kind.DECIMAL and type_.precision <= _NARROW_DIGITS)


def _keyed(columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_] | None:
    """Which rows have no NULL in these columns; None if all have none."""
    nullable = [_are_there(column) for column in columns if column.null_count]
    return np.logical_and.reduce(nullable) if nullable else None


def _sorting(codes: Sequence[Numbers]) -> Numbers | None:
    """The order that sorts rows by their codes, equal ones as they stand; None if they are sorted."""
    if len(codes) == 1:
        only = codes[0]
        return None if bool((only[:-1] <= only[1:]).all()) else np.argsort(only, kind="stable")
    is_sorted, is_equal = np.ones(max(len(codes[0]) - 1, 0), bool), np.ones(max(len(codes[0]) - 1, 0), bool)
    for column in codes:
        is_sorted &= ~is_equal | (column[:-1] <= column[1:])
        is_equal &= column[:-1] == column[1:]
    return None if bool(is_sorted.all()) else np.lexsort(tuple(reversed(codes)))
