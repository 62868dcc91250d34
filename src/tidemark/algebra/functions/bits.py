"""Operators on the bits of integers. A shift is by the count modulo the width, as in PostgreSQL."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.casts import implicit_cast_allowed
from tidemark.algebra.functions.resolvers import numeric
from tidemark.algebra.functions.table import Function, Signature, Template, call, infix, pattern, plain, to_result
from tidemark.algebra.types import INT, INTEGER_BITS, NULL, Type, common_type


def _two_integers(types: tuple[Type, ...]) -> Signature | None:
    shared = common_type(*types) if len(types) == 2 else None
    return Signature((shared, shared), shared) if shared is not None and shared.is_integer else None


def _one_integer(types: tuple[Type, ...]) -> Signature | None:
    return numeric(lambda given: given)(types) if len(types) == 1 and types[0].is_integer else None


def _shift_signature(types: tuple[Type, ...]) -> Signature | None:
    """SMALLINT is left out: engines widen it to different types."""
    if len(types) != 2 or not implicit_cast_allowed(types[1], INT):
        return None
    given = INT if types[0] == NULL else types[0]
    return Signature((given, INT), given) if given.is_integer and INTEGER_BITS[given.kind] >= 32 else None


def _wrapped(value: int, bits: int) -> int:
    """The integer of that many bits, in two's complement."""
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def _shift(left: bool) -> Callable[[tuple[Any, ...], Signature], Value]:
    def meaning(values: tuple[Any, ...], signature: Signature) -> Value:
        bits = INTEGER_BITS[signature.result.kind]
        count = values[1] % bits
        return _wrapped(values[0] << count, bits) if left else values[0] >> count

    return meaning


def _duckdb_shift(left: bool) -> Template:
    """DuckDB fails when a bit falls off the left end, so the shift is a product of unsigned numbers, cut off.

    To the right it is a division that goes to minus infinity.
    """

    def template(arguments: tuple[str, ...], signature: Signature) -> str:
        value, count = arguments
        bits = INTEGER_BITS[signature.result.kind]
        power = f"CAST(pow(2, ((({count} % {bits}) + {bits}) % {bits})) AS HUGEINT)"
        if not left:
            wide = f"CAST({value} AS HUGEINT)"
            return f"CAST(({wide} - (({wide} % {power}) + {power}) % {power}) // {power} AS {signature.result})"
        modulus, half = 2**bits, 2 ** (bits - 1)
        # Only the bits that stay are multiplied, so that the product fits into 128 bits.
        staying = f"({modulus} // {power})"
        kept = f"((CAST({value} AS HUGEINT) % {staying}) + {staying}) % {staying}"
        product = f"(({kept}) * {power})"
        return (
            f"CAST((CASE WHEN {product} >= {half} THEN {product} - {modulus} ELSE {product} END) AS {signature.result})"
        )

    return template


def _bitwise(name: str, symbol: str, meaning: Callable[[int, int], int], duckdb: Template, spark: str) -> Function:
    return Function(name, f"a {symbol} b", _two_integers, plain(meaning), duckdb, infix(spark), infix=symbol)


BITS: Final = (
    _bitwise("bit_and", "&", operator.and_, infix("&"), "&"),
    _bitwise("bit_or", "|", operator.or_, infix("|"), "|"),
    _bitwise("bit_xor", "#", operator.xor, call("xor"), "^"),
    Function(
        "bit_not",
        "~a",
        _one_integer,
        plain(operator.invert),
        to_result("(~ {0})"),
        pattern("(~ {0})"),
        infix="~",
    ),
    Function(
        "shift_left",
        "a << count",
        _shift_signature,
        _shift(left=True),
        _duckdb_shift(left=True),
        call("shiftleft"),
        infix="<<",
    ),
    Function(
        "shift_right",
        "a >> count",
        _shift_signature,
        _shift(left=False),
        _duckdb_shift(left=False),
        call("shiftright"),
        infix=">>",
    ),
)
