"""to_char of dates and timestamps: a literal format, written out as the functions that make its parts.

Formats of numbers are in ``numbers.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from tidemark.algebra.coerce import coerce, folded
from tidemark.algebra.expressions import Cast, Expression, Literal
from tidemark.algebra.types import INT, TIMESTAMP, TIMESTAMPTZ, VARCHAR
from tidemark.sql.bind.scope import Binder
from tidemark.sql.functions.numbers import bind_number_format
from tidemark.sql.parse.text import Source, dialect_named, tokenize

MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NUMBERS: Final = {
    "YYYY": ("year", 4),
    "MM": ("month", 2),
    "DDD": ("doy", 3),
    "DD": ("day", 2),
    "IW": ("week", 2),
    "IYYY": ("isoyear", 4),
    "ID": ("isodow", 1),
    "Q": ("quarter", 1),
    "HH24": ("hour", 2),
    "MI": ("minute", 2),
    "US": ("microseconds", 6),
}
_NAMES: Final[dict[str, tuple[str, int, tuple[str, ...], Callable[[str], str]]]] = {
    "Month": ("month", 1, MONTHS, str),
    "MONTH": ("month", 1, MONTHS, str.upper),
    "month": ("month", 1, MONTHS, str.lower),
    "Mon": ("month", 1, tuple(name[:3] for name in MONTHS), str),
    "MON": ("month", 1, tuple(name[:3] for name in MONTHS), str.upper),
    "mon": ("month", 1, tuple(name[:3] for name in MONTHS), str.lower),
    "Day": ("dow", 0, _DAYS, str),
    "DAY": ("dow", 0, _DAYS, str.upper),
    "day": ("dow", 0, _DAYS, str.lower),
    "Dy": ("dow", 0, tuple(name[:3] for name in _DAYS), str),
    "DY": ("dow", 0, tuple(name[:3] for name in _DAYS), str.upper),
    "dy": ("dow", 0, tuple(name[:3] for name in _DAYS), str.lower),
}
_WORD: Final = re.compile(
    r'"([^"]*)"|(FM)?(Month|MONTH|month|Mon|MON|mon|Day|DAY|day|Dy|DY|dy|(?i:IYYY|YYYY|YY|MM|DDD|DD|IW|ID|Q|HH24|HH12|HH|MI|SS|MS|US|D|AM|PM))|([^A-Za-z])'
)


def bind_to_char(binder: Binder, node: exp.Expr) -> Expression:
    moment = binder.bind(node.this)
    written = node.args["format"]
    if not isinstance(written, exp.Literal) or not written.is_string:
        raise binder.source.error("unsupported", "to_char takes a literal format", node)
    text = as_written(str(written.name), binder.source, node)
    if moment.type == TIMESTAMPTZ:
        moment = folded(Cast(moment, TIMESTAMP))
    if not moment.type.is_temporal:
        return bind_number_format(binder, moment, text, node)
    result: Expression | None = None
    position = 0
    while position < len(text):
        found = _WORD.match(text, position)
        if found is None:
            raise binder.source.error(
                "unsupported",
                f"{text[position:]!r} in the format of to_char is not supported",
                node,
                hint='YYYY, MM, DD, Month, Mon, Day, Dy, DDD, Q, IW, HH24, MI, SS, MS, US; other letters in "quotes"',
            )
        position = found.end()
        part = _part(_Piece(binder, node, moment), found)
        result = part if result is None else binder.call("concat", (result, part), node)
    return Literal("", VARCHAR) if result is None else result


def as_written(format: str, source: Source, node: exp.Expr) -> str:
    """The format that the user wrote: sqlglot keeps it in another language only, in which parts of it are lost."""
    dialect = dialect_named(source.dialect)
    words = {token.text for token in tokenize(source)}
    candidates = [word for word in words if _translated(dialect, word) == format]
    if len(candidates) != 1:
        raise source.error("unsupported", "the format cannot be told: another text looks the same", node)
    return candidates[0]


def _translated(dialect: Dialect, word: str) -> str | None:
    written = dialect.format_time(f"'{word}'")
    return None if written is None else written.name


class _Piece:
    """The parts of one moment."""

    def __init__(self, binder: Binder, node: exp.Expr, moment: Expression) -> None:
        self.binder, self.node, self.moment = binder, node, moment

    def call(self, name: str, *arguments: Expression) -> Expression:
        return self.binder.call(name, arguments, self.node)

    def number(self, field: str) -> Expression:
        timed = field in ("hour", "minute", "second", "milliseconds", "microseconds")
        moment = coerce(self.moment, TIMESTAMP) if timed else self.moment
        return self.call(f"extract_{field}", moment)

    def digits(self, number: Expression, width: int, *, bare: bool = False) -> Expression:
        text = Cast(number, VARCHAR)
        return text if bare else self.call("lpad", text, Literal(width, INT), Literal("0", VARCHAR))

    def modulo(self, number: Expression, divisor: int) -> Expression:
        return self.call("modulo", number, Literal(divisor, INT))


def _part(piece: _Piece, found: re.Match[str]) -> Expression:
    quoted, bare, word, other = found.groups()
    if quoted is not None or other is not None:
        return Literal(quoted if quoted is not None else other, VARCHAR)
    if word in _NAMES:
        return _name(piece, word, bare=bare is not None)
    word = word.upper()
    seconds = piece.number("microseconds") if word in ("SS", "MS", "US") else None
    match word:
        case "YY":
            return piece.digits(piece.modulo(piece.number("year"), 100), 2, bare=bool(bare))
        case "D":
            return piece.digits(piece.call("add", piece.number("dow"), Literal(1, INT)), 1)
        case "HH" | "HH12":
            return piece.digits(_twelve(piece), 2, bare=bool(bare))
        case "AM" | "PM":
            late = piece.call("ge", piece.number("hour"), Literal(12, INT))
            return piece.binder.case_of([late], [Literal("PM", VARCHAR), Literal("AM", VARCHAR)], piece.node)
        case "SS":
            assert seconds is not None
            return piece.digits(piece.call("divide", seconds, Literal(1_000_000, INT)), 2, bare=bool(bare))
        case "MS":
            assert seconds is not None
            thousandths = piece.call("divide", piece.modulo(seconds, 1_000_000), Literal(1000, INT))
            return piece.digits(thousandths, 3)
        case "US":
            assert seconds is not None
            return piece.digits(piece.modulo(seconds, 1_000_000), 6)
    field, width = _NUMBERS[word]
    return piece.digits(piece.number(field), width, bare=bool(bare))


def _twelve(piece: _Piece) -> Expression:
    """The hours 12, 1, 2, … 11."""
    before = piece.call("add", piece.number("hour"), Literal(11, INT))
    return piece.call("add", piece.modulo(before, 12), Literal(1, INT))


def _name(piece: _Piece, word: str, *, bare: bool) -> Expression:
    """A name is cut out of all names in a row, each with blanks to the length of the longest, as PostgreSQL has it."""
    field, first, names, spelling = _NAMES[word]
    width = max(map(len, names))
    row = "".join(spelling(name).ljust(width) for name in names)
    place = piece.call("subtract", piece.number(field), Literal(first, INT))
    start = piece.call("add", piece.call("multiply", place, Literal(width, INT)), Literal(1, INT))
    text = piece.call("substring", Literal(row, VARCHAR), start, Literal(width, INT))
    return piece.call("rtrim", text) if bare else text
