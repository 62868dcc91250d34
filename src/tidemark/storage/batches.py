"""Batches: weighted rows as columns, each of which is made when somebody looks at it.

A ``Vector`` is one column: whole numbers of 64 bits for integers, dates, times, truth values and decimals that fit,
with what is NULL beside them, and an Arrow array for all else. To choose rows of a batch is to note their places; a
column is taken from its source when it is asked for, so that columns that nobody reads cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import canonical
from tidemark.algebra.types import Kind, Schema, Type, array_of, decimal, struct_of
from tidemark.storage.runs import Numbers as Numbers
from tidemark.storage.runs import numbers_in, packed, unpacked

Mask: TypeAlias = npt.NDArray[np.bool_]
_WHOLE: Final = {
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DATE: pa.int32(),
    Kind.TIMESTAMP: pa.int64(),
    Kind.TIMESTAMPTZ: pa.int64(),
}
MOST: Final = 2**62
"""Sums, products and numbers of combinations stay below this, so that nothing is more than 64 bits hold."""
MOST_LOOKS: Final = 3
"""So many times it is looked whether the columns that were read tell all rows apart."""


_KINDS: Final = {kind: Type(kind) for kind in Kind if kind not in (Kind.DECIMAL, Kind.ARRAY, Kind.STRUCT)}
_TYPES: Final = {
    **{type_.arrow: type_ for type_ in _KINDS.values()},
    **{pa.large_string(): _KINDS[Kind.VARCHAR], pa.large_binary(): _KINDS[Kind.BYTEA]},
}


@lru_cache(maxsize=1_000)
def type_in(arrow: pa.DataType) -> Type:
    """The type of the values that have a type in Arrow."""
    if pa.types.is_decimal(arrow):
        return decimal(arrow.precision, arrow.scale)
    if pa.types.is_list(arrow):
        return array_of(type_in(arrow.value_type))
    if pa.types.is_struct(arrow):
        return struct_of(*((field.name, type_in(field.type)) for field in arrow))
    return _TYPES[arrow]


class Unfit(Exception):
    """Values that a column of numbers does not hold, or weights beyond 64 bits: another form is to be taken."""


class Vector:
    """One column. ``numbers`` are 0 where ``present`` says that there is NULL."""

    __slots__ = ("_array", "_numbers", "_parts", "_places", "_present", "_source", "is_empty", "type")

    def __init__(
        self,
        type_: Type,
        *,
        array: pa.Array | pa.ChunkedArray | None = None,
        numbers: Numbers | None = None,
        present: Mask | None = None,
        source: Vector | None = None,
        places: Numbers | None = None,
        parts: Sequence[Vector] = (),
        is_empty: bool = False,
    ) -> None:
        """It ``is_empty`` if it is known to have nothing but NULL."""
        self.type, self.is_empty = type_, is_empty
        self._array, self._numbers, self._present = array, numbers, present
        self._source, self._places, self._parts = source, places, parts

    def __len__(self) -> int:
        self._resolve()
        held: Any = self._array if self._numbers is None else self._numbers
        return len(held)

    def take(self, places: Numbers) -> Vector:
        if self.is_empty:
            return Vector.nothing(self.type, len(places))
        return Vector(self.type, source=self, places=places)

    @staticmethod
    def nothing(type_: Type, count: int) -> Vector:
        """A column of NULL, which is made when somebody reads it."""
        return Vector(type_, places=np.empty(count, np.bool_), is_empty=True)

    @staticmethod
    def together(parts: Sequence[Vector]) -> Vector:
        if len(parts) == 1:
            return parts[0]
        return Vector(parts[0].type, parts=parts, is_empty=all([part.is_empty for part in parts]))

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers of 64 bits."""
        return self._as_numbers() is not None

    def numbers(self) -> tuple[Numbers, Mask | None]:
        """The values as numbers, and which are there; None if all are. Unfit if they are no such numbers."""
        found = self._as_numbers()
        if found is None:
            raise Unfit
        return found, self._present

    def present(self) -> Mask | None:
        """Which values are not NULL; None if all are not."""
        self._resolve()
        if self._numbers is not None:
            return self._present
        array = self._array
        assert array is not None, "a column is something"
        return np.asarray(array.is_valid().to_numpy(zero_copy_only=False)) if array.null_count else None

    def packed(self) -> pa.Array:
        """The values in the form in which runs hold them."""
        self._resolve()
        if self._array is None:
            self._array = self._made()
        self._array = packed(self._array, self.type)
        return self._array

    def array(self) -> pa.Array:
        """The values in the form that Arrow has for their type."""
        self._resolve()
        if self._array is None:
            self._array = self._made()
        if isinstance(self._array, pa.ChunkedArray):
            self._array = self._array.combine_chunks()
        if self.type.kind is Kind.DECIMAL and not pa.types.is_decimal(self._array.type):
            return unpacked(self._array, self.type)
        return self._array if self._array.type == self.type.arrow else self._array.cast(self.type.arrow)

    def _made(self) -> pa.Array:
        numbers, mask = self._numbers, None if self._present is None else ~self._present
        assert numbers is not None, "a column is something"
        if self.type.kind is Kind.BOOLEAN:
            return pa.array(numbers != 0, pa.bool_(), mask=mask)
        if self.type.kind is Kind.DECIMAL:
            return pa.array(numbers, pa.int64(), mask=mask)
        whole = _WHOLE[self.type.kind]
        return pa.array(numbers.astype(whole.to_pandas_dtype()), whole, mask=mask).view(self.type.arrow)

    def _resolve(self) -> None:
        """Take the values from where they are."""
        source, places = self._source, self._places
        if source is not None:
            assert places is not None, "who has a source has places in it"
            source._resolve()
            if source._numbers is not None:
                self._numbers = source._numbers[places]
                self._present = _chosen(source._present, places)
            else:
                self._take_array(source, places)
            self._source = self._places = None
        elif self._parts:
            self._join_parts()
            self._parts = ()
        elif places is not None:
            self._array, self._places = pa.nulls(len(places), self.type.arrow), None

    def _take_array(self, source: Vector, places: Numbers) -> None:
        if isinstance(source._array, pa.ChunkedArray):
            source._array = source._array.combine_chunks()
        array: Any = source._array
        if self.type.kind in _NUMBERED and not array.null_count and not pa.types.is_decimal(array.type):
            self._numbers = numbers_in(array, self.type)[places].astype(np.int64, copy=False)
        else:
            self._array = array.take(pa.array(places))

    def _join_parts(self) -> None:
        if all([part.is_number for part in self._parts]):
            found = [part.numbers() for part in self._parts]
            self._numbers = np.concatenate([numbers for numbers, _ in found])
            if any(present is not None for _, present in found):
                each = (np.ones(len(n), bool) if present is None else present for n, present in found)
                self._present = np.concatenate(list(each))
        else:
            self._array = pa.chunked_array([part.array() for part in self._parts], self.type.arrow)

    def _as_numbers(self) -> Numbers | None:
        self._resolve()
        if self._numbers is None and self.type.kind in _MAYBE_NUMBERED:
            array = packed(self._array, self.type)
            self._array = array
            if self.type.kind is Kind.BOOLEAN:
                filled = array.fill_null(False) if array.null_count else array
                numbers = np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.int64)
            elif pa.types.is_decimal(array.type):
                return None
            else:
                numbers = numbers_in(array, self.type).astype(np.int64, copy=False)
            if array.null_count:
                self._present = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
                numbers = np.where(self._present, numbers, 0)
            self._numbers = numbers
        return self._numbers


_NO_WEIGHTS: Final = np.zeros(0, np.int64)
_NUMBERED: Final = frozenset({*_WHOLE, Kind.DECIMAL})
_MAYBE_NUMBERED: Final = frozenset({*_NUMBERED, Kind.BOOLEAN})


def _chosen(present: Mask | None, places: Numbers) -> Mask | None:
    if present is None:
        return None
    found: Mask = present[places]
    return None if bool(found.all()) else found


@dataclass(frozen=True)
class Batch:
    """Weighted rows. ``is_net`` if no row is there twice and no weight is zero."""

    vectors: Sequence[Vector]
    weights: Numbers
    is_net: bool

    def __len__(self) -> int:
        return len(self.weights)

    @staticmethod
    def of(table: pa.Table, *, is_net: bool = True) -> Batch:
        """A weighted table as a batch."""
        *columns, weights = table.columns
        vectors = [Vector(type_in(column.type), array=column) for column in columns]
        return Batch(vectors, np.asarray(weights.combine_chunks()), is_net)

    def table(self, weighted: pa.Schema) -> pa.Table:
        arrays = [vector.array() for vector in self.vectors]
        return pa.Table.from_arrays([*arrays, pa.array(self.weights, pa.int64())], schema=weighted)

    def take(self, places: Numbers) -> Batch:
        """The entries at some places, each once."""
        return Batch([vector.take(places) for vector in self.vectors], self.weights[places], self.is_net)

    def where(self, chosen: Mask) -> Batch:
        return self if bool(chosen.all()) else self.take(np.flatnonzero(chosen))

    def net(self) -> Batch:
        """Weights of equal rows added up, rows that cancel left out."""
        if self.is_net:
            return self
        if len(self) < 2:
            return Batch(self.vectors, self.weights, is_net=True).where(self.weights != 0)
        if self._differs_in_numbers():
            return Batch(self.vectors, self.weights, is_net=True).where(self.weights != 0)
        groups = Groups.of(self.vectors, len(self))
        totals = groups.summed(self.weights)
        there = np.flatnonzero(totals)
        there = there[np.argsort(groups.firsts[there])]  # rows stay in the order in which they came
        places = groups.firsts[there]
        return Batch([vector.take(places) for vector in self.vectors], totals[there], is_net=True)

    def _differs_in_numbers(self) -> bool:
        """Whether no two rows have all numbers in common, so that nothing else need be compared: often the first
        columns tell, which are keys."""
        codes, range_, looks = np.zeros(len(self), np.int64), 1, 0
        for vector in self.vectors:
            if vector.is_empty or not vector.is_number:
                continue
            codes, range_ = _combined(codes, range_, *_codes(vector))
            if range_ >= len(self) and looks < MOST_LOOKS:
                looks += 1
                if _all_differ(codes):
                    return True
        return range_ >= len(self) and _all_differ(codes)

    def vectors_at(self, places: Numbers) -> list[Vector]:
        """The columns of the entries at some places, perhaps more than once."""
        return [vector.take(places) for vector in self.vectors]

    @staticmethod
    def together(parts: Sequence[Batch]) -> Batch:
        """All entries. Parts that are net need not be so together."""
        there = [part for part in parts if len(part)] or [parts[0]]
        if len(there) == 1:
            return there[0]
        vectors = [Vector.together(columns) for columns in zip(*(part.vectors for part in there), strict=True)]
        return Batch(vectors, np.concatenate([part.weights for part in there]), is_net=False)


def once_each(count: int) -> Numbers:
    """The weights of so many rows that are there once."""
    return np.ones(count, np.int64)


def empty_batch(schema: Schema) -> Batch:
    """No rows."""
    return Batch([Vector.nothing(type_, 0) for type_ in schema.types], _NO_WEIGHTS, is_net=True)


def net_by_owner(found: Batch, owners: Numbers, count: int) -> tuple[Batch, Numbers]:
    """What was found for so many keys, net, and the number of each row's key. A row that is alone with its
    key is compared with none."""
    if not len(owners):
        return Batch(found.vectors, found.weights, is_net=True), owners
    are_alone = int(np.bincount(owners, minlength=count).max()) == 1
    if are_alone and bool(found.weights.all()):
        return Batch(found.vectors, found.weights, is_net=True), owners
    numbered = Batch([Vector(type_in(pa.int64()), numbers=owners), *found.vectors], found.weights, is_net=False).net()
    first, *others = numbered.vectors
    return Batch(others, numbered.weights, is_net=True), first.numbers()[0]


# Groups of equal rows


@dataclass(frozen=True)
class Groups:
    """Rows by equal values: ``order`` sorts them by group, each of which begins at one of the ``starts`` there and has
    its first row at one of the ``firsts`` in the rows as they stand."""

    order: Numbers
    starts: Numbers
    count: int

    @staticmethod
    def of(vectors: Sequence[Vector], count: int) -> Groups:
        codes = codes_of_rows(vectors, count)
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        is_first = np.ones(count, bool)
        is_first[1:] = ordered[1:] != ordered[:-1]
        return Groups(order, np.flatnonzero(is_first), count)

    @property
    def firsts(self) -> Numbers:
        return self.order[self.starts]

    def __len__(self) -> int:
        return len(self.starts)

    def numbers(self) -> Numbers:
        """For each row the number of its group."""
        found = np.empty(self.count, np.int64)
        sizes = np.diff(np.append(self.starts, self.count))
        found[self.order] = np.repeat(np.arange(len(self.starts)), sizes)
        return found

    def summed(self, numbers: Numbers) -> Numbers:
        """For each group the sum; Unfit if one may be more than 64 bits hold."""
        if magnitude(numbers) * max(self.count, 1) >= MOST:
            raise Unfit
        if not len(self.starts):
            return np.zeros(0, np.int64)
        return np.add.reduceat(numbers[self.order], self.starts)


def magnitude(numbers: Numbers) -> int:
    """The largest absolute value."""
    return max(int(numbers.max()), -int(numbers.min())) if len(numbers) else 0


def codes_of_rows(vectors: Sequence[Vector], count: int) -> Numbers:
    """A number for each row, which rows have in common if and only if they are equal, NULL being equal to NULL."""
    codes, range_ = np.zeros(count, np.int64), 1
    for vector in vectors:
        if not vector.is_empty:
            codes, range_ = _combined(codes, range_, *_codes(vector))
    return codes


def _combined(codes: Numbers, range_: int, more: Numbers, reach: int) -> tuple[Numbers, int]:
    """One number for each pair of two, from 0 to below a limit."""
    if range_ == 1:
        return more, reach
    if range_ * reach >= MOST:
        codes, range_ = _dense(codes)
        if range_ * reach >= MOST:
            more, reach = _dense(more)
    return codes * reach + more, range_ * reach


def _all_differ(codes: Numbers) -> bool:
    ordered = np.sort(codes)
    return bool((ordered[1:] != ordered[:-1]).all())


def _dense(codes: Numbers) -> tuple[Numbers, int]:
    found, numbers = np.unique(codes, return_inverse=True)
    return numbers.reshape(-1), max(len(found), 1)


def _codes(vector: Vector) -> tuple[Numbers, int]:
    """Numbers from 0 to below a limit, one for each value, and one for NULL."""
    if not vector.is_number:
        return _codes_of_array(vector)
    numbers, present = vector.numbers()
    if not len(numbers):
        return numbers, 1
    low = int(numbers.min())
    reach = int(numbers.max()) - low + 1
    if reach >= MOST:
        numbers, reach = _dense(numbers)
        low = 0
    found = numbers - low if low else numbers
    return (found, reach) if present is None else (np.where(present, found + 1, 0), reach + 1)


def _codes_of_array(vector: Vector) -> tuple[Numbers, int]:
    array, kind = vector.array(), vector.type.kind
    if kind is Kind.NULL:
        return np.zeros(len(array), np.int64), 1
    if vector.type.is_nested:
        return _dense(np.asarray(codes(pa.chunked_array([array]))))
    if vector.type.is_float:
        return _codes_of_doubles(vector)
    coded = array.dictionary_encode(null_encoding="encode")
    return np.asarray(coded.indices).astype(np.int64), max(len(coded.dictionary), 1)


def _codes_of_doubles(vector: Vector) -> tuple[Numbers, int]:
    """One not-a-number is the other, and zero has one sign."""
    present = vector.present()
    values = np.asarray(vector.array().fill_null(0.0).to_numpy(zero_copy_only=False)).astype(np.float64) + 0.0
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    codes, reach = _dense(bits)
    return (codes, reach) if present is None else (np.where(present, codes + 1, 0), reach + 1)


# Codes for arrays and structs


def codes(column: pa.ChunkedArray) -> pa.Array:
    """Numbers for arrays and structs: Arrow neither groups by such columns nor counts their values.

    That of an array is the place of the first row with an equal one: as many elements, each equal or both NULL, where
    not-a-number is one value; that of a struct is the same of its fields. NULL, which is no array and no struct, the
    empty array and the struct of NULLs have numbers of their own.

    >>> codes(pa.chunked_array([[[1, None], [], None, [1, None], [None, 1], None]])).to_pylist()
    [0, 1, 2, 0, 4, 2]
    """
    first: dict[Value, int] = {}
    return pa.array([first.setdefault(canonical(v), place) for place, v in enumerate(column.to_pylist())], pa.int64())
