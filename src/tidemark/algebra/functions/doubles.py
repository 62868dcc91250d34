"""Roots, powers, logarithms and angles: on DOUBLE, with the same last digit on every engine (see ``reals``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.reals import INFINITY, Formula, Term, choose, fails, named, polynomial, product
from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import Engine, Function, Meaning, Signature, Template
from tidemark.algebra.functions.values import canonical
from tidemark.algebra.types import DOUBLE

_LOG2_E: Final = 1.4426950408889634
_LN2_HIGH: Final = 0.6931471803691238
_LN2_LOW: Final = 1.9082149292705877e-10
_ROOT: Final = 1.4142135623730951
_EXP: Final = tuple(float(Fraction(1, math.factorial(n))) for n in range(15, 1, -1))
_ATANH: Final = tuple(1.0 / n for n in range(25, 0, -2))
_SIN: Final = tuple(float(Fraction((-1) ** n, math.factorial(2 * n + 1))) for n in range(8, -1, -1))
_COS: Final = tuple(float(Fraction((-1) ** n, math.factorial(2 * n))) for n in range(9, -1, -1))
_ATAN: Final = tuple((-1) ** n / (2 * n + 1) for n in range(14, -1, -1))
_HALF_PI: Final = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21)
"""Half of pi in three parts, of which the first two have zeros enough for exact products with small numbers."""
_LARGEST_ANGLE: Final = 1e6
_WHOLE_POWER: Final = 1023
_NEGATIVE: Final = "a root or logarithm of a negative number"
_NO_LOGARITHM: Final = "a logarithm of zero or of a negative number"
_NO_BASE: Final = "1 is no base of logarithms"
_NO_POWER: Final = "zero to a negative power, or a negative number to a power that is not whole"
_NO_ANGLE: Final = "an angle beyond 1000000 radians"
_NO_ARC: Final = "a sine or cosine beyond 1"


def _exp(x: Term) -> Term:
    """2^k e^r with x = k ln 2 + r, so that r is small; what r loses by rounding is added at the end."""

    def of_remainder(k: Term, high: Term, low: Term, r: Term) -> Term:
        e = (((high - r) - low) + r * r * polynomial(r, _EXP)) + r + 1.0
        half = (k * 0.5).nearest()
        return e * half.power_of_two() * (k - half).power_of_two()

    def split(k: Term, high: Term, low: Term) -> Term:
        return named(of_remainder, k, high, low, high - low)

    def finite() -> Term:
        return named(lambda k: named(split, k, x - k * _LN2_HIGH, k * _LN2_LOW), (x * _LOG2_E).nearest())

    return choose(
        (x.is_nan(), lambda: x),
        (x > 709.8, lambda: x.like(INFINITY)),
        (x < -745.2, lambda: x.like(0.0)),
        otherwise=finite,
    )


def _ln(x: Term) -> Term:
    """k ln 2 + ln m with x = m 2^k and m near 1; ln m by the series of the inverse hyperbolic tangent."""

    def of_parts(m: Term, k: Term) -> Term:
        series = named(lambda s, z: s * 2.0 * polynomial(z, _ATANH), *_and_square((m - 1.0) / (m + 1.0)))
        return k * _LN2_HIGH + (series + k * _LN2_LOW)

    def centred(m: Term, k: Term) -> Term:
        """The guess of k may be one off, so m is between 0.5 and 4; at last it is between 0.7 and 1.4."""
        steps = [(m <= _ROOT / 2, 2.0, -1.0), (m <= _ROOT, 1.0, 0.0), (m <= _ROOT * 2, 0.5, 1.0)]
        return named(
            of_parts,
            choose(*((near, lambda f=factor: m * f) for near, factor, _ in steps), otherwise=lambda: m * 0.25),
            choose(*((near, lambda a=added: k + a) for near, _, added in steps), otherwise=lambda: k + 2.0),
        )

    def scaled(x: Term, offset: Term) -> Term:
        return named(centred, x / x.exponent_guess().power_of_two(), x.exponent_guess() + offset)

    def positive() -> Term:
        """The ends of the range are brought inward first, which is exact."""
        small, large = x < 1e-300, x > 1e300
        return named(
            scaled,
            choose((small, lambda: x * 2.0**54), (large, lambda: x * 2.0**-54), otherwise=lambda: x),
            choose((small, lambda: x.like(-54.0)), (large, lambda: x.like(54.0)), otherwise=lambda: x.like(0.0)),
        )

    return choose(
        (x.is_nan(), lambda: x),
        (x <= 0.0, lambda: fails(x, "invalid_value", _NO_LOGARITHM)),
        (x.equals(INFINITY), lambda: x),
        otherwise=positive,
    )


def _whole_power(x: Term, y: Term) -> Term:
    """x to a whole number between -1023 and 1023; 1 divided by it if the number is negative."""

    def signed(x: Term, y: Term) -> Term:
        return named(inverted, product(x, y.size()), x, y)

    def inverted(power: Term, x: Term, y: Term) -> Term:
        odd = _not((y * 0.5).equals((y * 0.5).nearest()))
        infinite = choose(((x < 0.0).both(odd), lambda: y.like(-INFINITY)), otherwise=lambda: y.like(INFINITY))
        return choose(
            (y >= 0.0, lambda: power),
            (power.equals(0.0), lambda: infinite),
            otherwise=lambda: power.like(1.0) / power,
        )

    return named(signed, x, y)


def _power(x: Term, y: Term) -> Term:
    whole = y.equals(y.nearest())

    def by_logarithm() -> Term:
        return named(of_sign, named(_exp, named(_ln, x.size()) * y), (y * 0.5).equals((y * 0.5).nearest()))

    def of_sign(size: Term, even: Term) -> Term:
        return choose(((x < 0.0).both(_not(even)), lambda: size * -1.0), otherwise=lambda: size)

    return choose(
        (y.equals(0.0).either(x.equals(1.0)), lambda: x.like(1.0)),
        (x.is_nan().either(y.is_nan()), lambda: x + y),
        (x.equals(0.0).both(y < 0.0), lambda: fails(x, "invalid_value", _NO_POWER)),
        (x.equals(0.0), lambda: x.like(0.0)),
        ((y.size() <= float(_WHOLE_POWER)).both(whole), lambda: _whole_power(x, y)),
        ((x < 0.0).both(y.size() < INFINITY).both(_not(whole)), lambda: fails(x, "invalid_value", _NO_POWER)),
        (y.equals(0.5), x.root),
        (x.equals(-1.0), lambda: x.like(1.0)),
        otherwise=by_logarithm,
    )


def _not(condition: Term) -> Term:
    if condition.engine is None:
        return Term(not condition.value)
    return Term(f"(NOT {condition.value})", condition.engine, condition.depth)


def _log(base: Term, x: Term) -> Term:
    """A quotient of logarithms; where a whole power of the base is the number, that is the logarithm."""

    def snapped(y: Term, k: Term, base: Term, x: Term) -> Term:
        near = ((y - k).size() < 1e-9).both(k.size() <= float(_WHOLE_POWER))
        return choose((near, lambda: named(checked, y, k, _whole_power(base, k), x)), otherwise=lambda: y)

    def checked(y: Term, k: Term, power: Term, x: Term) -> Term:
        return choose((power.equals(x), lambda: k), otherwise=lambda: y)

    def general() -> Term:
        def of_quotient(y: Term, base: Term, x: Term) -> Term:
            bounded = y.size() <= 1e9
            return choose((bounded, lambda: named(snapped, y, y.nearest(), base, x)), otherwise=lambda: y)

        return named(of_quotient, named(_ln, x) / named(_ln, base), base, x)

    return choose(
        (base.equals(1.0), lambda: fails(x, "invalid_value", _NO_BASE)),
        otherwise=general,
    )


def _log10(x: Term) -> Term:
    return _log(x.like(10.0), x)


def _sqrt(x: Term) -> Term:
    return choose((x < 0.0, lambda: fails(x, "invalid_value", _NEGATIVE)), otherwise=x.root)


def _cbrt(x: Term) -> Term:
    """By the logarithm, then a step of Newton's; a whole root is found exactly."""

    def whole(t: Term, k: Term, a: Term) -> Term:
        return choose(((k * k * k).equals(a), lambda: k), otherwise=lambda: t)

    def improved(t: Term, a: Term) -> Term:
        return named(lambda t, a: named(whole, t, t.nearest(), a), t - (t * t * t - a) / (t * t * 3.0), a)

    def signed(root: Term) -> Term:
        return choose((x < 0.0, lambda: root * -1.0), otherwise=lambda: root)

    return choose(
        (x.is_nan().either(x.equals(0.0)).either(x.size().equals(INFINITY)), lambda: x),
        otherwise=lambda: named(signed, named(improved, named(_exp, named(_ln, x.size()) / 3.0), x.size())),
    )


def _and_square(x: Term) -> tuple[Term, Term]:
    return x, x * x


def _reduced(x: Term, of_quadrant: Callable[[Term, Term], Term]) -> Term:
    """The angle as a number of right angles and what remains, at most half of one."""

    def split(x: Term, n: Term) -> Term:
        rest = ((x - n * _HALF_PI[0]) - n * _HALF_PI[1]) - n * _HALF_PI[2]
        quadrant = n - ((n - 1.5) * 0.25).nearest() * 4.0
        return named(of_quadrant, rest, quadrant)

    return choose(
        (x.is_nan(), lambda: x),
        (x.size() > _LARGEST_ANGLE, lambda: fails(x, "invalid_value", _NO_ANGLE)),
        otherwise=lambda: named(split, x, (x * (2 / math.pi)).nearest()),
    )


def _small_sin(r: Term) -> Term:
    return named(lambda r, z: r * polynomial(z, _SIN), r, r * r)


def _small_cos(r: Term) -> Term:
    return named(lambda z: polynomial(z, _COS), r * r)


def _sin(x: Term) -> Term:
    return _reduced(
        x,
        lambda r, q: choose(
            (q.equals(0.0), lambda: _small_sin(r)),
            (q.equals(1.0), lambda: _small_cos(r)),
            (q.equals(2.0), lambda: _small_sin(r) * -1.0),
            otherwise=lambda: _small_cos(r) * -1.0,
        ),
    )


def _cos(x: Term) -> Term:
    return _reduced(
        x,
        lambda r, q: choose(
            (q.equals(0.0), lambda: _small_cos(r)),
            (q.equals(1.0), lambda: _small_sin(r) * -1.0),
            (q.equals(2.0), lambda: _small_cos(r) * -1.0),
            otherwise=lambda: _small_sin(r),
        ),
    )


def _tan(x: Term) -> Term:
    return _reduced(
        x,
        lambda r, q: choose(
            (q.equals(0.0).either(q.equals(2.0)), lambda: _small_sin(r) / _small_cos(r)),
            otherwise=lambda: _small_cos(r) * -1.0 / _small_sin(r),
        ),
    )


def _atan(x: Term) -> Term:
    """Of the size: beyond 1 the rest of a right angle, and then a quarter of the angle, whose tangent is small."""

    def halved(t: Term) -> Term:
        return t / (((t * t) + 1.0).root() + 1.0)

    def of_size(size: Term) -> Term:
        small = choose((size > 1.0, lambda: size.like(1.0) / size), otherwise=lambda: size)
        quarter = named(halved, named(halved, small))
        angle = named(lambda u: u * 4.0 * polynomial(u * u, _ATAN), quarter)
        return choose(
            (size.equals(1.0), lambda: size.like(math.pi / 4)),
            (size > 1.0, lambda: angle * -1.0 + math.pi / 2),
            otherwise=lambda: angle,
        )

    def signed(angle: Term) -> Term:
        return choose((x < 0.0, lambda: angle * -1.0), otherwise=lambda: angle)

    return choose((x.is_nan(), lambda: x), otherwise=lambda: named(signed, named(of_size, x.size())))


def _atan2(y: Term, x: Term) -> Term:
    def turned(quotient: Term, y: Term, x: Term) -> Term:
        return named(
            lambda angle, y, x: choose(
                (x > 0.0, lambda: angle),
                (y >= 0.0, lambda: angle + math.pi),
                otherwise=lambda: angle - math.pi,
            ),
            _atan(quotient),
            y,
            x,
        )

    quarter, infinite = math.pi / 4, x.size().equals(INFINITY).both(y.size().equals(INFINITY))
    return choose(
        (x.is_nan().either(y.is_nan()), lambda: x + y),
        (
            infinite.both(x > 0.0),
            lambda: choose((y > 0.0, lambda: x.like(quarter)), otherwise=lambda: x.like(-quarter)),
        ),
        (infinite, lambda: choose((y > 0.0, lambda: x.like(3 * quarter)), otherwise=lambda: x.like(-3 * quarter))),
        (x.equals(0.0).both(y.equals(0.0)), lambda: x.like(0.0)),
        (x.equals(0.0).both(y > 0.0), lambda: x.like(math.pi / 2)),
        (x.equals(0.0), lambda: x.like(-math.pi / 2)),
        otherwise=lambda: named(turned, y / x, y, x),
    )


def _within_one(x: Term, formula: Callable[[], Term]) -> Term:
    return choose(
        (x.is_nan(), lambda: x),
        (x.size() > 1.0, lambda: fails(x, "invalid_value", _NO_ARC)),
        otherwise=formula,
    )


def _asin(x: Term) -> Term:
    return _within_one(x, lambda: named(_atan2, x, ((x.like(1.0) - x) * (x + 1.0)).root()))


def _acos(x: Term) -> Term:
    return _within_one(x, lambda: named(_atan2, ((x.like(1.0) - x) * (x + 1.0)).root(), x))


def _row(name: str, usage: str, count: int, formula: Formula, failure: str | None = None) -> Function:
    """The zero that is added makes a negative zero positive."""

    def meaning(values: tuple[Any, ...], signature: Signature) -> Value:
        return canonical(formula(*map(Term, values)).value + 0.0)

    def template(engine: Engine) -> Template:
        def text(arguments: tuple[str, ...], signature: Signature) -> str:
            given = tuple(Term(argument, engine) for argument in arguments)
            result = (named(formula, *given) + 0.0).value
            unknown = " OR ".join(f"{argument} IS NULL" for argument in arguments)
            return f"(CASE WHEN {unknown} THEN NULL ELSE {result} END)" if count > 1 else str(result)

        return text

    checked: Meaning = meaning
    takes_doubles = fixed(takes(*(DOUBLE,) * count, gives=DOUBLE))
    fails_when = f"invalid_value: {failure}" if failure else None
    return Function(
        name, usage, takes_doubles, checked, template(Engine.DUCKDB), template(Engine.SPARK), fails=fails_when
    )


DOUBLES: Final = (
    _row("sqrt", "sqrt(a)", 1, _sqrt, _NEGATIVE),
    _row("cbrt", "cbrt(a)", 1, _cbrt),
    _row("exp", "exp(a)", 1, _exp),
    _row("ln", "ln(a)", 1, _ln, _NO_LOGARITHM),
    _row("log10", "log10(a)", 1, _log10, _NO_LOGARITHM),
    _row("log", "log(base, a)", 2, _log, f"{_NO_LOGARITHM}; {_NO_BASE}"),
    _row("power", "power(a, b)", 2, _power, _NO_POWER),
    _row("sin", "sin(a)", 1, _sin, _NO_ANGLE),
    _row("cos", "cos(a)", 1, _cos, _NO_ANGLE),
    _row("tan", "tan(a)", 1, _tan, _NO_ANGLE),
    _row("asin", "asin(a)", 1, _asin, _NO_ARC),
    _row("acos", "acos(a)", 1, _acos, _NO_ARC),
    _row("atan", "atan(a)", 1, _atan),
    _row("atan2", "atan2(y, x)", 2, _atan2),
    _row("degrees", "degrees(a)", 1, lambda x: x / (math.pi / 180)),
    _row("radians", "radians(a)", 1, lambda x: x * (math.pi / 180)),
)
