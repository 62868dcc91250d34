"""The types of columns and expressions, and the fields and schemas made of them."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

WEIGHT: Final = "_weight"
VERSION: Final = "_version"
TIME: Final = "_time"
RESERVED: Final = frozenset({WEIGHT, VERSION, "rowid"})
"""Column names, in lower case, that a relation cannot have: ours, and the one by which DuckDB tells rows apart."""
RESERVED_SINCE: Final = frozenset({TIME})
"""Column names that a new relation cannot have. One that was defined before they were reserved keeps its column."""
MAX_PRECISION: Final = 38


class Kind(enum.Enum):
    """The families of types. ``NULL`` is the type of a bare NULL, before it takes the type of its context."""

    NULL = "NULL"
    BOOLEAN = "BOOLEAN"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    REAL = "REAL"
    DOUBLE = "DOUBLE"
    VARCHAR = "VARCHAR"
    BYTEA = "BYTEA"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMPTZ = "TIMESTAMPTZ"
    ARRAY = "ARRAY"
    STRUCT = "STRUCT"

    # There is one object of each kind; an enumeration hashes its name each time, in Python.
    __hash__ = object.__hash__


INTEGER_DIGITS: Final = {Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 19}
INTEGER_BITS: Final = {Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
_NO_PARTS: Final = frozenset({Kind.NULL, Kind.REAL, Kind.BYTEA, Kind.TIMESTAMPTZ})

_ARROW: Final = {
    Kind.NULL: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.REAL: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.VARCHAR: pa.string(),
    Kind.BYTEA: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
}


@dataclass(frozen=True)
class Type:
    """An SQL type. ``precision`` and ``scale`` belong to DECIMAL alone, ``element`` to ARRAY, ``fields`` to STRUCT.

    >>> print(decimal(12, 2), INT, decimal(12, 2).arrow, array_of(INT), struct_of(("a", INT), ("b c", VARCHAR)))
    DECIMAL(12,2) INT decimal128(12, 2) INT[] STRUCT(a INT, "b c" VARCHAR)
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    element: Type | None = None
    fields: tuple[tuple[str, Type], ...] = ()

    def __post_init__(self) -> None:
        if self.kind is Kind.DECIMAL:
            if not (1 <= self.precision <= MAX_PRECISION and 0 <= self.scale <= self.precision):
                raise ValueError(f"no such type: DECIMAL({self.precision},{self.scale})")
        elif self.precision or self.scale:
            raise ValueError(f"{self.kind.value} takes no precision")
        if (self.element is not None) != (self.kind is Kind.ARRAY):
            raise ValueError("an ARRAY has an element type, and nothing else has")
        if self.element is not None and not self.element.can_be_part:
            raise ValueError("the elements of an ARRAY are values of a simple type")
        if bool(self.fields) != (self.kind is Kind.STRUCT):
            raise ValueError("a STRUCT has fields, and nothing else has")
        if any(not type.can_be_part for _, type in self.fields):
            raise ValueError("the fields of a STRUCT are values of a simple type")
        if len({name.lower() for name, _ in self.fields}) < len(self.fields):
            raise ValueError("the fields of a STRUCT have different names")

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        if self.element is not None:
            return f"{self.element}[]"
        if self.fields:
            return f"STRUCT({', '.join(f'{_name(name)} {type}' for name, type in self.fields)})"
        return str(self.kind.value)

    @property
    def is_nested(self) -> bool:
        """Whether its values have parts: they are equal or not, but have no order that users see."""
        return self.kind in (Kind.ARRAY, Kind.STRUCT)

    @property
    def parts(self) -> tuple[Type, ...]:
        """The types of the parts of a nested type's values."""
        return (self.element,) if self.element is not None else tuple(type for _, type in self.fields)

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGER_DIGITS

    @property
    def is_exact(self) -> bool:
        return self.is_integer or self.kind is Kind.DECIMAL

    @property
    def is_numeric(self) -> bool:
        return self.is_exact or self.is_float

    @property
    def is_float(self) -> bool:
        """Whether its values are floating point, which have several forms of one value."""
        return self.kind in (Kind.REAL, Kind.DOUBLE)

    @property
    def is_temporal(self) -> bool:
        """Whether its values are times on the calendar. Those of TIMESTAMPTZ are points in time, and have no day until
        they are cast."""
        return self.kind in (Kind.DATE, Kind.TIMESTAMP)

    @property
    def is_time(self) -> bool:
        return self.is_temporal or self.kind is Kind.TIMESTAMPTZ

    @property
    def can_be_part(self) -> bool:
        """Whether arrays and structs can have values of it."""
        return not self.is_nested and self.kind not in _NO_PARTS

    @property
    def arrow(self) -> pa.DataType:
        if self.kind is Kind.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        if self.element is not None:
            return pa.list_(self.element.arrow)
        if self.fields:
            return pa.struct([pa.field(name, type.arrow) for name, type in self.fields])
        return _ARROW[self.kind]

    def as_decimal(self) -> Type:
        """The smallest DECIMAL that holds every value of this exact type."""
        if self.kind is Kind.DECIMAL:
            return self
        return decimal(INTEGER_DIGITS[self.kind], 0)


NULL: Final = Type(Kind.NULL)
BOOLEAN: Final = Type(Kind.BOOLEAN)
SMALLINT: Final = Type(Kind.SMALLINT)
INT: Final = Type(Kind.INT)
BIGINT: Final = Type(Kind.BIGINT)
REAL: Final = Type(Kind.REAL)
DOUBLE: Final = Type(Kind.DOUBLE)
VARCHAR: Final = Type(Kind.VARCHAR)
BYTEA: Final = Type(Kind.BYTEA)
DATE: Final = Type(Kind.DATE)
TIMESTAMP: Final = Type(Kind.TIMESTAMP)
TIMESTAMPTZ: Final = Type(Kind.TIMESTAMPTZ)


def decimal(precision: int, scale: int) -> Type:
    return Type(Kind.DECIMAL, precision, scale)


def array_of(element: Type) -> Type:
    return Type(Kind.ARRAY, element=element)


def struct_of(*fields: tuple[str, Type]) -> Type:
    return Type(Kind.STRUCT, fields=fields)


def row_of(*types: Type) -> Type:
    """The type of ``ROW(…)``, whose fields are named f1, f2, … as in PostgreSQL."""
    return struct_of(*((f"f{place}", type) for place, type in enumerate(types, 1)))


def _name(name: str) -> str:
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'


def common_type(left: Type, right: Type) -> Type | None:
    """The type that both sides are brought to, or None if there is none.

    Integers widen to the larger integer, exact numbers to a DECIMAL that holds both, and exact with
    approximate gives DOUBLE. DATE with TIMESTAMP gives TIMESTAMP, and either with TIMESTAMPTZ gives that.
    Arrays are brought to a common type of elements, structs field by field, in their order, with the names of the first
    that is no bare row. NULL takes the other side's type.

    >>> print(common_type(INT, decimal(4, 2)), common_type(INT, VARCHAR))
    DECIMAL(12,2) None
    """
    if left == right or right.kind is Kind.NULL:
        return left
    if left.kind is Kind.NULL:
        return right
    if left.element is not None and right.element is not None:
        shared = common_type(left.element, right.element)
        return None if shared is None else array_of(shared)
    if left.fields and right.fields:
        return _common_struct(left, right)
    if left.is_integer and right.is_integer:
        return max(left, right, key=lambda t: INTEGER_DIGITS[t.kind])
    if left.is_exact and right.is_exact:
        a, b = left.as_decimal(), right.as_decimal()
        scale = max(a.scale, b.scale)
        whole = max(a.precision - a.scale, b.precision - b.scale)
        return decimal(min(MAX_PRECISION, whole + scale), scale)
    if left.is_numeric and right.is_numeric:
        return DOUBLE
    if left.is_time and right.is_time:
        return TIMESTAMP if left.is_temporal and right.is_temporal else TIMESTAMPTZ
    return None


def _common_struct(left: Type, right: Type) -> Type | None:
    if len(left.fields) != len(right.fields):
        return None
    types = [common_type(a, b) for a, b in zip(left.parts, right.parts, strict=True)]
    if any(type is None for type in types):
        return None
    named = right if left == row_of(*left.parts) else left
    return struct_of(*((name, type) for (name, _), type in zip(named.fields, types, strict=True) if type is not None))


@dataclass(frozen=True)
class Field:
    """A named, typed column of a schema."""

    name: str
    type: Type
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.name} {self.type}" + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True)
class Schema:
    """The columns of a relation, in order. Plans refer to columns by position; names are for people.

    >>> print(Schema((Field("a", INT, nullable=False), Field("b", VARCHAR))))
    a INT NOT NULL, b VARCHAR
    """

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return ", ".join(str(field) for field in self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Field:
        return self.fields[index]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __add__(self, other: Schema) -> Schema:
        return Schema(self.fields + other.fields)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple([field.name for field in self.fields])

    @cached_property
    def types(self) -> tuple[Type, ...]:
        return tuple([field.type for field in self.fields])

    def position(self, name: str) -> int:
        return self.names.index(name)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the rows. Every column is nullable there: constraints are checked, not typed."""
        return pa.schema([pa.field(field.name, field.type.arrow) for field in self.fields])

    @cached_property
    def weighted(self) -> pa.Schema:
        """The Arrow schema of the rows with their weight."""
        return self.arrow.append(pa.field(WEIGHT, pa.int64()))
