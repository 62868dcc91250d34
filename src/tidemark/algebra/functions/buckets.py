"""Integers by their divisors and digits, and the buckets of a histogram."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import Engine, Function, Signature, Template, guard, plain, to_result
from tidemark.algebra.types import BIGINT, DOUBLE, INT, INTEGER_BITS, MAX_PRECISION, VARCHAR, Type, common_type, decimal
from tidemark.errors import TidemarkError

_RANGE: Final = "overflow: out of range"
_WRONG_BUCKETS: Final = "width_bucket takes two different finite bounds and a count above 0"
_INFINITY: Final = "CAST('Infinity' AS DOUBLE)"


def _two_integers(types: tuple[Type, ...]) -> Signature | None:
    return fixed(takes(INT, INT, gives=INT), takes(BIGINT, BIGINT, gives=BIGINT))(types)


def _checked(function: Callable[[int, int], int]) -> Callable[[tuple[Any, ...], Signature], Value]:
    def meaning(values: tuple[Any, ...], signature: Signature) -> Value:
        result = function(*values)
        if result >= 1 << (INTEGER_BITS[signature.result.kind] - 1):
            raise TidemarkError("overflow", "out of range")
        return result

    return meaning


_EUCLID: Final = (
    "aggregate(sequence(1, 93), named_struct('a', {0}, 'b', {1}), "
    "(s, i) -> CASE WHEN s.b = 0 THEN s ELSE named_struct('a', s.b, 'b', s.a % s.b) END, s -> s.a)"
)
"""Spark has no such function; of 64 bits, 93 divisions with remainder are enough. The sign is left as it comes."""


def _spark_lcm(arguments: tuple[str, ...], signature: Signature) -> str:
    a, b = arguments
    zero = f"({a} = 0 OR {b} = 0) AND {a} IS NOT NULL AND {b} IS NOT NULL"
    part = f"CAST({a} div {_EUCLID.format(a, b)} AS {signature.result})"
    return f"(CASE WHEN {zero} THEN CAST(0 AS {signature.result}) ELSE abs({part} * {b}) END)"


def _hexadecimal(arguments: tuple[str, ...], signature: Signature) -> str:
    """Of a negative number the two's complement, of the type's own width."""
    (number,) = arguments
    wide = number if signature.arguments == (BIGINT,) else f"(CAST({number} AS BIGINT) & 4294967295)"
    return f"lower(hex({wide}))"


def _to_hex(values: tuple[Any, ...], signature: Signature) -> Value:
    """
    >>> _to_hex((-1,), Signature((INT,), VARCHAR))
    'ffffffff'
    """
    return f"{values[0] & ((1 << INTEGER_BITS[signature.arguments[0].kind]) - 1):x}"


def _bucket_signature(types: tuple[Type, ...]) -> Signature | None:
    """A number and two bounds, brought to one type, and a count. DECIMALs leave room for the exact product."""
    if len(types) != 4 or fixed(takes(INT, gives=INT))(types[3:]) is None:
        return None
    shared: Type | None = types[0]
    for bound in types[1:3]:
        shared = shared and common_type(shared, bound)
    if shared is None or not shared.is_numeric:
        return None
    if shared.is_float:
        shared = DOUBLE
    else:
        shared = shared.as_decimal()
        if shared.precision + max(11, shared.scale + 2) > MAX_PRECISION:
            return None
    return Signature((shared, shared, shared, INT), INT)


def _bucket(operand: Any, low: Any, high: Any, count: int) -> int:
    """
    >>> [_bucket(x, 0.0, 10.0, 5) for x in (-1.0, 0.0, 9.9, 10.0)]
    [0, 1, 5, 6]
    """
    approximate = isinstance(operand, float)
    if approximate and (math.isnan(operand) or not math.isfinite(low) or not math.isfinite(high)):
        raise TidemarkError("invalid_value", _WRONG_BUCKETS)
    if count <= 0 or low == high:
        raise TidemarkError("invalid_value", _WRONG_BUCKETS)
    before, beyond = (operand < low, operand >= high) if low < high else (operand > low, operand <= high)
    if before:
        return 0
    if beyond:
        if count == 2**31 - 1:
            raise TidemarkError("overflow", "out of range")
        return count + 1
    if approximate:
        wide = math.isinf(high - low)
        quotient = (operand / 2 - low / 2) / (high / 2 - low / 2) if wide else (operand - low) / (high - low)
        return min(int(quotient * count), count - 1) + 1
    return int((operand - low) * count // (high - low)) + 1


def _bucket_template(engine: Engine) -> Template:
    def text(arguments: tuple[str, ...], signature: Signature) -> str:
        operand, low, high, count = arguments
        shared = signature.arguments[0]
        wrong = [f"{count} <= 0", f"{low} = {high}"]
        if shared == DOUBLE:
            wrong += [f"isnan({number})" for number in (operand, low, high)]
            wrong += [f"abs({bound}) = {_INFINITY}" for bound in (low, high)]
        inside = _approximate(arguments) if shared == DOUBLE else _exact(engine, arguments, shared)
        before = f"(CASE WHEN {low} < {high} THEN {operand} < {low} ELSE {operand} > {low} END)"
        beyond = f"(CASE WHEN {low} < {high} THEN {operand} >= {high} ELSE {operand} <= {high} END)"
        result = f"(CASE WHEN {before} THEN 0 WHEN {beyond} THEN CAST({count} AS BIGINT) + 1 ELSE {inside} END)"
        unknown = " OR ".join(f"{argument} IS NULL" for argument in arguments)
        checked = guard(engine.raising, " OR ".join(wrong), f"invalid_value: {_WRONG_BUCKETS}", result)
        return f"CAST((CASE WHEN {unknown} THEN NULL ELSE {checked} END) AS INT)"

    return text


def _approximate(arguments: tuple[str, ...]) -> str:
    """The operations of IEEE 754 in PostgreSQL's order; halves where the difference of the bounds is too large."""
    operand, low, high, count = arguments
    infinite = f"abs({high} - {low}) = {_INFINITY}"
    halves = f"(({operand} / 2 - {low} / 2) / ({high} / 2 - {low} / 2))"
    share = f"(CASE WHEN {infinite} THEN {halves} ELSE (({operand} - {low}) / ({high} - {low})) END)"
    return f"least(CAST(floor({share} * {count}) AS BIGINT), CAST({count} AS BIGINT) - 1) + 1"


def _exact(engine: Engine, arguments: tuple[str, ...], shared: Type) -> str:
    """A division of whole numbers. DuckDB has none of decimals, so there both differences lose their points."""
    operand, low, high, count = arguments
    if engine is Engine.SPARK:
        return f"((({operand} - {low}) * CAST({count} AS DECIMAL(10,0))) div ({high} - {low})) + 1"
    wide, power = decimal(shared.precision + 1, shared.scale), decimal(shared.scale + 1, 0)

    def whole(difference: str) -> str:
        return f"CAST(CAST(({difference}) AS {wide}) * CAST({10**shared.scale} AS {power}) AS HUGEINT)"

    return f"(({whole(f'{operand} - {low}')} * {count}) // {whole(f'{high} - {low}')}) + 1"


BUCKETS: Final = (
    Function(
        "gcd",
        "gcd(a, b)",
        _two_integers,
        _checked(math.gcd),
        to_result("gcd(CAST({0} AS HUGEINT), CAST({1} AS HUGEINT))"),
        lambda arguments, _: f"abs({_EUCLID.format(*arguments)})",
        fails=_RANGE,
    ),
    Function(
        "lcm",
        "lcm(a, b)",
        _two_integers,
        _checked(math.lcm),
        to_result("lcm(CAST({0} AS HUGEINT), CAST({1} AS HUGEINT))"),
        _spark_lcm,
        fails=_RANGE,
    ),
    Function(
        "to_hex",
        "to_hex(a)",
        fixed(takes(INT, gives=VARCHAR), takes(BIGINT, gives=VARCHAR)),
        _to_hex,
        _hexadecimal,
        _hexadecimal,
    ),
    Function(
        "width_bucket",
        "width_bucket(a, low, high, count)",
        _bucket_signature,
        plain(_bucket),
        _bucket_template(Engine.DUCKDB),
        _bucket_template(Engine.SPARK),
        fails=f"invalid_value: {_WRONG_BUCKETS}; {_RANGE}",
    ),
)
