"""Division of decimals: exact long division, rounded once, half away from zero.

The quotient of DECIMAL(p,s) and DECIMAL(q,t) is a DECIMAL(19 + S, S) with S = max(10, s, t). No engine has that: DuckDB
divides decimals as doubles, Spark rounds twice. So the operands are taken as whole numbers of units of their last
digits, divided as whole numbers, and the remainder is divided on, some digits at a time, as one does on paper.
"""

from __future__ import annotations

import decimal as numbers
from typing import Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.table import Engine, Signature, Template, guard, let
from tidemark.algebra.functions.values import EXACT, fit_decimal, overflow
from tidemark.algebra.types import MAX_PRECISION, Type, common_type, decimal
from tidemark.errors import TidemarkError

WHOLE_DIGITS: Final = 19
LEAST_SCALE: Final = 10
_STEP_DIGITS: Final = 12
"""At most so many digits at a time: a remainder with that many zeros appended must fit into 38 digits."""
_TOO_WIDE: Final = "overflow: the divisor has too many digits"
_DIVISION: Final = "division_by_zero: the divisor is zero"


def quotient_signature(left: Type, right: Type) -> Signature | None:
    scale = max(LEAST_SCALE, left.scale, right.scale)
    if scale > MAX_PRECISION - WHOLE_DIGITS:
        return None
    return Signature((left, right), decimal(WHOLE_DIGITS + scale, scale))


def remainder_signature(left: Type, right: Type) -> Signature | None:
    shared = common_type(left, right)
    return None if shared is None else Signature((shared, shared), shared)


def _steps(signature: Signature) -> list[int]:
    """How many digits each step of the division adds."""
    left, right = signature.arguments
    digits = signature.result.scale - left.scale + right.scale
    count = -(-digits // _STEP_DIGITS)
    return [digits // count + (step < digits % count) for step in range(count)]


def _limit(signature: Signature) -> int:
    """What the divisor must stay below, in units of its last digit."""
    return int(10 ** (MAX_PRECISION - max(_steps(signature), default=0)))


def quotient(left: numbers.Decimal, right: numbers.Decimal, signature: Signature) -> Value:
    if right == 0:
        raise TidemarkError("division_by_zero", f"{left} divided by zero")
    if abs(right).scaleb(signature.arguments[1].scale, context=EXACT) >= _limit(signature):
        raise overflow(right, signature.arguments[1])
    result = signature.result
    unit = numbers.Decimal(1).scaleb(-result.scale)
    with numbers.localcontext(EXACT) as context:
        context.prec = 400
        whole, rest = divmod(abs(left), abs(right) * unit)
        rounded = (whole + (rest * 2 >= abs(right) * unit)) * unit
    return fit_decimal(rounded if (left < 0) == (right < 0) else -rounded, result)


def quotient_template(engine: Engine) -> Template:
    def template(arguments: tuple[str, ...], signature: Signature) -> str:
        left, right = signature.arguments
        scale = signature.result.scale
        rounded = f"v{len(_steps(signature))}"
        one, zero = _number(1, engine), _number(0, engine)
        up = f"(CASE WHEN {rounded}.r >= {rounded}.d - {rounded}.r THEN {one} ELSE {zero} END)"
        total = _whole(f"{rounded}.q + {up}", engine)
        unit = f"CAST('{numbers.Decimal(1).scaleb(-scale):f}' AS DECIMAL({scale + 1},{scale}))"
        magnitude = f"CAST({total} AS DECIMAL(38,0)) * {unit}"
        result = str(signature.result)
        text = f"CAST((CASE WHEN {rounded}.s THEN - ({magnitude}) ELSE {magnitude} END) AS {result})"
        for number, digits in reversed(list(enumerate(_steps(signature)))):
            text = _step(engine, f"v{number}", f"v{number + 1}", digits, text)
        quotient, remainder = _division("u.n", "u.d", engine)
        text = let(engine, "v0", {"q": quotient, "r": remainder, "d": "u.d", "s": "u.s"}, text)
        units = {"n": _units("g.n", left, engine), "d": _units("g.d", right, engine), "s": "g.s"}
        if _limit(signature) < 10**MAX_PRECISION:
            too_wide = f"u.d >= {_number(_limit(signature), engine)} AND u.n IS NOT NULL"
            text = guard(engine.raising, too_wide, _TOO_WIDE, text)
        text = let(engine, "u", units, text)
        text = guard(engine.raising, "g.d = 0 AND g.n IS NOT NULL", _DIVISION, text)
        given = {
            "n": f"abs({arguments[0]})",
            "d": f"abs({arguments[1]})",
            "s": f"({arguments[0]} < 0) <> ({arguments[1]} < 0)",
        }
        return let(engine, "g", given, text)

    return template


def _step(engine: Engine, before: str, after: str, digits: int, body: str) -> str:
    """One more step of the long division: the remainder with zeros appended, divided again."""
    power = _number(10**digits, engine)
    longer = _whole(f"{before}.r * {power}", engine)
    more, rest = _division(longer, f"{before}.d", engine)
    parts = {"q": _whole(f"{before}.q * {power} + {more}", engine), "r": rest}
    return let(engine, after, {**parts, "d": f"{before}.d", "s": f"{before}.s"}, body)


def _division(left: str, right: str, engine: Engine) -> tuple[str, str]:
    """Quotient and remainder of two whole numbers.

    Spark's quotient of decimals keeps 20 whole digits if the divisor may have 38, and 29 if it has at most 19; the
    quotient by a longer divisor has fewer than 20, so one of the two always suffices.
    """
    remainder = f"({left} % {right})"
    if engine is Engine.DUCKDB:
        return f"({left} // {right})", remainder
    exact = f"({left} - {remainder})"
    short = f"{exact} / CAST({right} AS DECIMAL(19,0))"
    long = f"{exact} / {right}"
    chosen = (
        f"(CASE WHEN {right} < {_number(10**19, engine)} THEN {_whole(short, engine)} ELSE {_whole(long, engine)} END)"
    )
    return chosen, _whole(remainder, engine)


def _units(text: str, type: Type, engine: Engine) -> str:
    """How many units of its last digit a decimal that is not negative has."""
    power = 10**type.scale
    exact = f"CAST('{power}' AS DECIMAL({type.scale + 1},0))"
    whole = f"{_whole(f'floor({text})', engine)} * {_number(power, engine)}"
    fraction = f"({text} - floor({text})) * {exact}"
    if engine is Engine.SPARK:
        fraction = f"CAST({text} - floor({text}) AS DECIMAL({type.scale + 1},{type.scale})) * {exact}"
    return _whole(f"{whole} + {_whole(fraction, engine)}", engine)


def _whole(text: str, engine: Engine) -> str:
    return f"CAST({text} AS {'HUGEINT' if engine is Engine.DUCKDB else 'DECIMAL(38,0)'})"


def _number(value: int, engine: Engine) -> str:
    digits = len(str(value))
    return f"CAST('{value}' AS {'HUGEINT' if engine is Engine.DUCKDB else f'DECIMAL({digits},0)'})"
