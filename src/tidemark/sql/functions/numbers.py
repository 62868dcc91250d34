"""Binding functions of numbers whose types follow from what is written: round, trunc, div, log, casts to a bare
NUMERIC, and to_char with a literal format of 9, 0, a point and commas.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from sqlglot import exp

from tidemark.algebra.coerce import coerce, folded, is_text_literal
from tidemark.algebra.expressions import Cast, Expression, Literal
from tidemark.algebra.types import INT, MAX_PRECISION, VARCHAR, Kind, Type, decimal
from tidemark.sql.bind.scope import Binder
from tidemark.sql.bind.types import BARE_NUMERIC, exact_number

_FORMAT: Final = re.compile(r"(?i)(FM)?(\$?)([90,G]*)(?:([.D])([90]*))?")
_HINT: Final = "9, 0, a point or D, commas or G, and FM or $ before them: 'FM999,990.00'"


def bind_number_format(binder: Binder, number: Expression, format: str, node: exp.Expr) -> Expression:
    """As PostgreSQL: digits at the places of the format, blanks for leading zeros at those of 9, # if it is too narrow.

    Without FM the text has the width of the format and a place for the sign, which stands beside the first digit. With
    it there are no blanks, and of the digits behind the point only those up to the last 0 of the format, or not zero.
    """
    found = _FORMAT.fullmatch(format)
    if found is None or not (found[3] or found[5]):
        message = f"the format {format!r} of numbers is not supported"
        raise binder.source.error("unsupported", message, node, hint=_HINT)
    if not number.type.is_exact:
        message = f"to_char takes an exact number, a DATE or a TIMESTAMP, this is a {number.type}"
        raise binder.source.error("unsupported", message, node, hint="a::DECIMAL(12,2) or a::NUMERIC")
    bare, dollar, before, point, behind = found.groups()
    behind = behind or ""
    places = re.sub("(?i)[,G]", "", before)
    if len(places) + len(behind) > MAX_PRECISION - 1:
        raise binder.source.error("unsupported", f"a number has at most {MAX_PRECISION} digits", node)
    return _Digits(binder, node, number, before, len(places), behind).written(dollar, bool(point), bool(bare))


class _Digits:
    """The digits of one number, rounded to those that the format has behind the point."""

    def __init__(
        self, binder: Binder, node: exp.Expr, number: Expression, before: str, places: int, behind: str
    ) -> None:
        self.binder, self.node, self.before, self.places, self.behind = binder, node, before, places, behind
        exact = number.type.as_decimal()
        scale = len(behind)
        whole = min(MAX_PRECISION - scale, max(exact.precision - exact.scale + 1, places + 1))
        self.number = coerce(coerce(number, exact), decimal(whole + scale, scale))
        self.size = self.call("abs", self.number)

    def call(self, name: str, *arguments: Expression) -> Expression:
        return folded(self.binder.call(name, arguments, self.node))

    def when(self, condition: Expression, value: Expression, otherwise: Expression) -> Expression:
        return self.binder.case_of([condition], [value, otherwise], self.node)

    def joined(self, *parts: Expression) -> Expression:
        result = parts[0]
        for part in parts[1:]:
            result = part if result == _text("") else result if part == _text("") else self.call("concat", result, part)
        return result

    def written(self, dollar: str, point: bool, bare: bool) -> Expression:
        dot = _text("." if point else "")
        limit = Literal(Decimal(10) ** self.places, decimal(self.places + 1, 0))
        narrow = self.call("ge", self.size, limit)
        hashes = _text(re.sub("[90]", "#", re.sub("(?i)G", ",", self.before)) + "." * point + "#" * len(self.behind))
        sign = self.when(self.call("lt", self.number, Literal(0, INT)), _text("-"), _text("" if bare else " "))
        digits = self.joined(self.call("ltrim", self._before()), dot, self._behind(bare))
        text = self.joined(sign, self.when(narrow, hashes, digits))
        if bare:
            return self.joined(_text(dollar), text)
        width = 1 + len(self.before) + point + len(self.behind)
        return self.joined(_text(dollar), self.call("lpad", text, Literal(width, INT)))

    def _whole(self) -> Expression:
        """The digits before the point; none if there are none but a zero, and digits follow."""
        text = Cast(self.call("trunc", self.size), VARCHAR)
        if not self.behind and self.places:
            return text
        return self.when(self.call("lt", self.size, Literal(1, INT)), _text(""), text)

    def _before(self) -> Expression:
        """At every place before the point a digit, a zero or a blank, and a comma beside a digit."""
        places = re.sub("(?i)[,G]", "", self.before)
        zeros = len(places) - places.index("0") if "0" in places else 0
        text = self._whole()
        if zeros:
            length = self.call("greatest", self.call("length", text), Literal(zeros, INT))
            text = self.call("lpad", text, length, _text("0"))
        row = self.call("lpad", text, Literal(len(places), INT)) if places else _text("")
        parts: list[Expression] = [_text("")]
        done = 0
        for piece in re.split("(?i)([,G])", self.before):
            if piece in (",", "G", "g"):
                last = self.call("substring", row, Literal(done, INT), Literal(1, INT)) if done else _text(" ")
                parts.append(self.when(self.call("eq", last, _text(" ")), _text(" "), _text(",")))
            elif piece:
                parts.append(self.call("substring", row, Literal(done + 1, INT), Literal(len(piece), INT)))
                done += len(piece)
        return self.joined(*parts)

    def _behind(self, bare: bool) -> Expression:
        if not self.behind:
            return _text("")
        digits = self.call("right", Cast(self.size, VARCHAR), Literal(len(self.behind), INT))
        if not bare:
            return digits
        kept = self.behind.rindex("0") + 1 if "0" in self.behind else 0
        rest = self.call("rtrim", self.call("substring", digits, Literal(kept + 1, INT)), _text("0"))
        return self.joined(self.call("left", digits, Literal(kept, INT)), rest)


def _text(value: str) -> Literal:
    return Literal(value, VARCHAR)


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
    if number.type.is_float:
        raise binder.source.error(
            "type", f"{name} to digits takes an exact number", node, hint=f"{name}(a::NUMERIC, …) casts it first"
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
