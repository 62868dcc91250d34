"""Binding round, trunc, div, log and casts to a bare NUMERIC, whose types follow from what is written."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from tidemark.algebra.expressions import Cast, Expression, Literal
from tidemark.algebra.types import DOUBLE, MAX_PRECISION, Kind, Type, decimal
from tidemark.sql.binding import Binder
from tidemark.sql.coerce import coerce, folded, is_text_literal
from tidemark.sql.literals import exact_number
from tidemark.sql.types import BARE_NUMERIC


def bind_round(binder: Binder, node: exp.Expr) -> Expression:
    return _to_digits(binder, node, "round")


def bind_trunc(binder: Binder, node: exp.Expr) -> Expression:
    return _to_digits(binder, node, "trunc")


def bind_div(binder: Binder, node: exp.Expr) -> Expression:
    """div(a, b) of integers: the quotient without its fraction, as a DECIMAL."""
    quotient = binder.call("divide", (binder.bind(node.this), binder.bind(node.expression)), node)
    if not quotient.type.is_integer:
        raise binder.source.error(
            "unsupported", "div takes integers", node, hint="trunc(a / b) cuts off the fraction of a quotient"
        )
    return coerce(quotient, quotient.type.as_decimal())


def bind_log(binder: Binder, node: exp.Expr) -> Expression:
    """log(a) is to the base 10, log(b, a) to the base b."""
    first, second = node.this, node.args.get("expression")
    if second is None:
        return binder.call("log10", (binder.bind(first),), node)
    if isinstance(first, exp.Literal) and first.name == "10":
        return binder.call("log10", (binder.bind(second),), node)
    return binder.call("log", (binder.bind(first), binder.bind(second)), node)


def is_bare_numeric(target: exp.Expr) -> bool:
    return isinstance(target, exp.DataType) and target.this is exp.DataType.Type.DECIMAL and not target.expressions


def cast_to_numeric(argument: Expression) -> Expression:
    """A cast to NUMERIC without a precision keeps all digits of an exact number."""
    if is_text_literal(argument) and isinstance(argument, Literal):
        number = exact_number(str(argument.value))
        return coerce(number, number.type.as_decimal())
    if argument.type.is_exact:
        return coerce(argument, argument.type.as_decimal())
    return coerce(argument, BARE_NUMERIC)


def _to_digits(binder: Binder, node: exp.Expr, name: str) -> Expression:
    """To a number of digits after the point, or with a negative one before it."""
    number = binder.bind(node.this)
    written = node.args.get("decimals")
    if written is None:
        return binder.call(name, (number,), node)
    digits = folded(binder.bind(written))
    if not isinstance(digits, Literal) or not digits.type.is_integer or digits.value is None:
        raise binder.source.error("unsupported", f"{name} takes a literal number of digits", node)
    if number.type == DOUBLE:
        raise binder.source.error(
            "type", f"{name} to digits takes an exact number", node, hint=f"{name}(a::NUMERIC, …) casts a DOUBLE first"
        )
    if not number.type.is_exact:
        raise binder.source.error("type", f"{name} does not take {number.type}", node)
    count = int(digits.value)  # type: ignore[arg-type]
    exact = coerce(number, number.type.as_decimal())
    result = _result(exact.type, count, binder, node)
    if count >= exact.type.scale:
        return coerce(exact, result)
    if name == "round" and count >= 0:
        return coerce(exact, result)  # a cast rounds half away from zero, as round does
    up, down = _power(count), _power(-count)
    moved = binder.call("multiply", (exact, up), node)
    whole = binder.call(name, (moved,), node)
    back = binder.call("multiply", (whole, down), node)
    return back if back.type == result else Cast(back, result)


def _power(exponent: int) -> Literal:
    """Ten to a power, with its digits."""
    scale = max(0, -exponent)
    return Literal(Decimal(1).scaleb(exponent).quantize(Decimal(1).scaleb(-scale)), decimal(abs(exponent) + 1, scale))


def _result(given: Type, digits: int, binder: Binder, node: exp.Expr) -> Type:
    scale = max(digits, 0)
    whole = given.precision - given.scale + 1
    if scale > MAX_PRECISION - 1 or abs(digits) > MAX_PRECISION - 1 or given.kind is not Kind.DECIMAL:
        raise binder.source.error("unsupported", f"there are no {digits} digits", node)
    return decimal(min(MAX_PRECISION, max(whole, -digits + 1) + scale), scale)
