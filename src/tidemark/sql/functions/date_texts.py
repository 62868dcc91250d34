"""to_date and to_timestamp: a text read by a literal format, which becomes a pattern whose groups are the fields.

The text must be written as the format says: as many digits, or fewer where something else than a digit follows, the
same separators, names of months in any case; blanks around it are skipped. PostgreSQL lets more pass and guesses.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from tidemark.algebra.coerce import coerce, folded
from tidemark.algebra.expressions import Cast, Expression, Literal
from tidemark.algebra.types import DATE, INT, TIMESTAMP, VARCHAR, Type
from tidemark.sql.bind.scope import Binder
from tidemark.sql.functions import regexes
from tidemark.sql.functions.date_formats import MONTHS, as_written

_DIGITS: Final = {"YYYY": 4, "YY": 2, "MM": 2, "DD": 2, "HH24": 2, "MI": 2, "SS": 2, "MS": 3, "US": 6}
_NAMES: Final = {
    "MONTH": "|".join(MONTHS),
    "MON": "|".join(name[:3] for name in MONTHS),
    "HH12": "0?[1-9]|1[0-2]",
    "HH": "0?[1-9]|1[0-2]",
    "AM": "[ap]m",
    "PM": "[ap]m",
}
_WORD: Final = re.compile(
    r'"([^"]*)"|(?:FM)?(Month|Mon|YYYY|YY|MM|DD|HH24|HH12|HH|MI|SS|MS|US|AM|PM)|([^A-Za-z])', re.IGNORECASE
)
_MEANS: Final = {"YY": "YYYY", "MON": "MM", "MONTH": "MM", "HH": "HH24", "HH12": "HH24", "US": "MS", "PM": "AM"}
"""What a field says, if another one says the same."""
_HINT: Final = 'YYYY, YY, MM, Mon, Month, DD, HH24, HH12, MI, SS, MS, US, AM; other letters in "quotes"'


def bind_to_date(binder: Binder, node: exp.Expr) -> Expression:
    return _read(binder, node, DATE)


def bind_to_timestamp(binder: Binder, node: exp.Expr) -> Expression:
    return _read(binder, node, TIMESTAMP)


def _read(binder: Binder, node: exp.Expr, target: Type) -> Expression:
    """What the fields say, as the text of a DATE or TIMESTAMP; its cast checks that there is such a day."""
    text = binder.bind(node.this)
    written = node.args["format"]
    if not isinstance(written, exp.Literal) or not written.is_string:
        raise binder.source.error("unsupported", "to_date and to_timestamp take a literal format", node)
    pattern, fields = _pattern(binder, as_written(str(written.name), binder.source, node), node)
    reading = _Reading(binder, node, text, Literal(regexes.parse(pattern, fold_case=True).text, VARCHAR), fields)
    wanted = reading.day() if target == DATE else reading.joined((reading.day(), " ", reading.time()))
    # A text that is written otherwise becomes one that no cast takes.
    other = reading.joined(("not ", text))
    result = binder.case_of([reading.call("regexp_like", text, reading.pattern)], [wanted, other], node)
    return Cast(result, target)


def _pattern(binder: Binder, format: str, node: exp.Expr) -> tuple[str, list[str]]:
    """The regular expression of a format, and the fields that its groups are."""
    words: list[tuple[str, bool]] = []
    position = 0
    while position < len(format):
        found = _WORD.match(format, position)
        if found is None:
            message = f"{format[position:]!r} in the format of to_date or to_timestamp is not supported"
            raise binder.source.error("unsupported", message, node, hint=_HINT)
        position = found.end()
        quoted, word, other = found.groups()
        words.append((word.upper(), True) if word else (quoted if quoted is not None else other, False))
    fields = [word for word, is_field in words if is_field]
    meant = [_MEANS.get(word, word) for word in fields]
    if len(set(meant)) < len(meant):
        raise binder.source.error("unsupported", "a field occurs twice in the format", node)
    if "YYYY" not in meant:
        raise binder.source.error("unsupported", "a format without a year means no date", node, hint="YYYY or YY")
    if ("AM" in meant) != bool({"HH", "HH12"} & set(fields)):
        raise binder.source.error("unsupported", "HH12 and AM stand together in a format, or HH24 alone", node)
    parts = [
        _field(word, words[place + 1 : place + 2]) if is_field else _separator(word)
        for place, (word, is_field) in enumerate(words)
    ]
    return rf"^\s*{''.join(parts)}\s*$", fields


def _field(word: str, following: list[tuple[str, bool]]) -> str:
    if word in _NAMES:
        return f"({_NAMES[word]})"
    digits = _DIGITS[word]
    beside_digits = bool(following) and following[0][1] and following[0][0] in _DIGITS
    return rf"(\d{{{digits}}})" if beside_digits or word == "YYYY" else rf"(\d{{1,{digits}}})"


def _separator(text: str) -> str:
    return "".join(
        r"\s+" if letter == " " else re.escape(letter) if not letter.isalnum() else letter for letter in text
    )


class _Reading:
    """The fields of one text."""

    def __init__(
        self, binder: Binder, node: exp.Expr, text: Expression, pattern: Expression, fields: list[str]
    ) -> None:
        self.binder, self.node, self.text, self.pattern = binder, node, text, pattern
        self.places = {_MEANS.get(field, field): place for place, field in enumerate(fields, 1)}
        self.fields = {_MEANS.get(field, field): field for field in fields}

    def call(self, name: str, *arguments: Expression) -> Expression:
        return folded(self.binder.call(name, arguments, self.node))

    def joined(self, parts: tuple[Expression | str, ...]) -> Expression:
        bound = [Literal(part, VARCHAR) if isinstance(part, str) else part for part in parts]
        result = bound[0]
        for part in bound[1:]:
            result = self.call("concat", result, part)
        return result

    def group(self, field: str) -> Expression | None:
        """The text of a field, or None if the format has it not."""
        place = self.places.get(field)
        if place is None:
            return None
        name = "regexp_substr_group" if place == 1 else f"regexp_substr_group_{place}"
        return self.call(name, self.text, self.pattern)

    def padded(self, text: Expression, width: int, side: str = "lpad") -> Expression:
        return self.call(side, text, Literal(width, INT), Literal("0", VARCHAR))

    def digits(self, field: str, default: str) -> Expression:
        found = self.group(field)
        return Literal(default, VARCHAR) if found is None else self.padded(found, len(default))

    def day(self) -> Expression:
        year = self.digits("YYYY", "0000")
        if self.fields["YYYY"] == "YY":
            year = self._of_two_digits()
        month = self.digits("MM", "01")
        if self.fields.get("MM") in ("MON", "MONTH"):
            month = self._named_month()
        return self.joined((year, "-", month, "-", self.digits("DD", "01")))

    def time(self) -> Expression:
        hour = self.digits("HH24", "00")
        if "AM" in self.places:
            hour = self._of_half_day(hour)
        fraction = self.group("MS")
        parts = (hour, ":", self.digits("MI", "00"), ":", self.digits("SS", "00"))
        return self.joined(parts if fraction is None else (*parts, ".", self.padded(fraction, 6, "rpad")))

    def _of_two_digits(self) -> Expression:
        """From 1970 to 2069, as in PostgreSQL."""
        year = self.digits("YYYY", "00")
        recent = self.call("ge", year, Literal("70", VARCHAR))
        return self.binder.case_of([recent], [self.joined(("19", year)), self.joined(("20", year))], self.node)

    def _named_month(self) -> Expression:
        """The first three letters tell the months apart."""
        found = self.group("MM")
        assert found is not None
        initial = self.call("upper", self.call("left", found, Literal(3, INT)))
        row = Literal("".join(name[:3].upper() for name in MONTHS), VARCHAR)
        place = self.call("add", self.call("position", row, initial), Literal(2, INT))
        return self.padded(coerce(self.call("divide", place, Literal(3, INT)), VARCHAR), 2)

    def _of_half_day(self, hour: Expression) -> Expression:
        half = self.group("AM")
        assert half is not None
        twelve = Literal(12, INT)
        number = self.call("modulo", coerce(hour, INT), twelve)
        late = self.call("eq", self.call("upper", half), Literal("PM", VARCHAR))
        value = self.binder.case_of([late], [self.call("add", number, twelve), number], self.node)
        return self.padded(Cast(value, VARCHAR), 2)
