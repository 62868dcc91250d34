"""The reference page of functions and casts, written from the table itself.

``python scripts/functions_reference.py > docs/reference/functions.md`` writes it anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from tidemark.algebra.functions import GROUPS
from tidemark.algebra.functions.casts import (
    assignment_cast_allowed,
    cast_fails,
    explicit_cast_allowed,
    implicit_cast_allowed,
)
from tidemark.algebra.functions.table import Function
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    Kind,
    Type,
    array_of,
    decimal,
)

_SAMPLES: Final = (BOOLEAN, SMALLINT, INT, BIGINT, decimal(12, 2), DOUBLE, VARCHAR, DATE, TIMESTAMP)

_WORDS: Final = array_of(VARCHAR)
_OTHER_SAMPLES: Final = (
    (array_of(INT), INT),
    (array_of(INT), INT, INT),
    (INT,) * 4,
    (INT,) * 6,
    (_WORDS,),
    (_WORDS, INT),
    (_WORDS, VARCHAR),
    (VARCHAR, _WORDS),
    (_WORDS, _WORDS),
)

_INTRODUCTION: Final = """\
# Functions, operators and casts

These may appear in queries, and nothing else: each means the same on every engine, to the last digit, or fails on
every engine. This page is generated from the function table; a test keeps the two equal.

* **Errors** have a code: `division_by_zero`, `overflow` or `invalid_value`.
* **Operands of different types** are brought to a common one: integers to the wider integer, integers and decimals
  to a DECIMAL that holds both, anything with a DOUBLE to DOUBLE, DATE with TIMESTAMP to TIMESTAMP. At 38 digits a
  common DECIMAL keeps the larger scale, and a value that no longer fits is an `overflow`.
* **Integers** give the wider integer of the two; `/` cuts the fraction off, and `%` has the sign of the dividend.
* **DECIMAL(p,s)**: `+` and `-` give the larger scale and one whole digit more, `*` adds precisions and scales, both up
  to 38 digits. `/` gives a DECIMAL(19 + S, S) with S = max(10, s, t) for scales s and t of up to 19: the exact
  quotient, rounded once, half away from zero. `%` has the sign of the dividend. `round(a, n)` and `trunc(a, n)` take a
  literal n, which may be negative, and an exact number: `round(a::NUMERIC, 2)` casts a DOUBLE first.
* **NUMERIC** without a precision is DECIMAL(38,10) in a table and as the cast of a text or a DOUBLE; the cast of an
  exact number to NUMERIC keeps its digits.
* **DOUBLE** is IEEE 754 without negative zero. NaN equals itself and is above all other numbers. What grows too
  large becomes infinite; only division by zero is an error. Roots, powers, logarithms and angles are computed from
  sums, products and quotients alone, so that all engines give the same last digit; they are right to 15 digits or so
  (powers to 13), and whole powers, roots and logarithms of whole numbers are exact. `log(a)` is to the base 10.
* **Text** is compared and counted by code points. `lower`, `upper`, `initcap` and `ILIKE` map one code point to one,
  whatever stands beside it: `ß` and other letters without such a partner stay as they are. Beside a text, `||` writes
  a value of another type as text.
* **LIKE** escapes with a backslash, or with the character after `ESCAPE`; `ESCAPE ''` has none.
* **Regular expressions** (`~`, `~*`, `!~`, `!~*`, `regexp_like`, `regexp_replace`, `regexp_substr`, `regexp_count`,
  `regexp_match`, `regexp_split_to_array`, `substring(a FROM pattern)`, `SIMILAR TO`) are literals of characters, `.`,
  `[…]`, `[[:alpha:]]` and the like, `\\d`, `\\s`, `\\w`, `^`, `$`, `|`, groups, and the repetitions `*`, `+`, `?` and
  `{m,n}`. `.` matches line breaks too, `$` is the end of the text, classes are of ASCII, and of several alternatives
  the first that matches is taken. Refused, since engines differ: look-around, back references, lazy repetition, `\\b`,
  repetition of what can match nothing.
* **Dates and timestamps** lie within the years 0001 to 9999 and have no time zone; `NOW()` and `CURRENT_DATE` are
  [the time of the statement or of the clock](sql.md#time). An **interval** (`INTERVAL '1 year 04:05:06'`) is added to a
  moment or subtracted from it, months first, then days, then time, and gives a TIMESTAMP; a month after January 31 is
  the last day of February. Intervals are multiplied by integers and compared with differences of timestamps, and
  `extract(epoch FROM a - b)` (also day, hour, minute, second) reads such a difference; there is no type of intervals.
* **age(a, b)** is such an interval: the whole months from b to a, whole days, and the time that is left. It is read by
  `extract(year FROM age(a, b))` (also month, day, hour, minute, second, epoch), compared with other intervals and added
  to moments; `age(a)` is the age at the start of today. By itself it cannot be a column. `make_interval(days => n)`
  takes integers. `date_bin('15 minutes', a, origin)` takes a literal interval without months.
* **to_char** of a date or timestamp takes a literal format of YYYY, YY, MM, DD, DDD, Month, Mon, Day, Dy, D, ID, Q, IW,
  IYYY, HH24, HH12, MI, SS, MS, US, AM, `FM` before one of them, and text in double quotes. Of an exact number it takes
  one of 9, 0, a point (or D) and commas (or G), with `FM` or `$` before them.
* **to_date** and **to_timestamp** read a text by a literal format of YYYY, YY, MM, Mon, Month, DD, HH24, HH12, MI, SS,
  MS, US, AM and separators. The text must be written so, else it is an `invalid_value`; PostgreSQL lets more pass.
  `to_timestamp(a)` takes the seconds since 1970, as an exact number.
* **format** takes a literal text with `%s`, `%L`, `%%`, `%2$s` for the second value, `%10s` and `%-10s` for a width.
  `%I` and `quote_ident` are refused: which names need quotes depends on the version of PostgreSQL.
* **Arrays** have elements of one simple type, NULL among them: `ARRAY[1, 2]`, `ARRAY[]::INT[]`, `a[i]` (from 1, NULL
  beyond the ends), `a[i:j]`, `x = ANY(a)`, `x <> ALL(a)`, `a @> b`, `a <@ b`, `a && b`, `a || b`, and
  `FROM t, UNNEST(t.tags) [WITH ORDINALITY] AS x(tag)`. Two are equal if they have as many elements, each equal to the
  other's or both NULL; they are not ordered, and have no text. `a || x` and `array_append` add an element also to
  NULL. `array_length(a, 1)` is NULL for an empty array. Arrays are cast by their elements.
* **Structs** have named fields: `ROW(a, b)`, `STRUCT(a AS x, b AS y)`, `(s).x`, `s.x`. Two are equal if their fields
  are, where NULL equals NULL; they are cast field by field, are not ordered, and [have no text](sql.md#types).
* **Rows** are compared by columns: `(a, b) = (c, d)`, `(a, b) < (c, d)`, `(a, b) IN ((1, 2), (3, 4))`.
"""

_CASTS: Final = """\
## Casts

*implicit*: done silently wherever a wider type is asked for. *assignment*: done silently by INSERT and UPDATE.
*explicit*: only as `CAST(a AS type)`.

* DECIMAL to an integer or to fewer digits rounds half away from zero; DOUBLE to an integer rounds half to even.
* DOUBLE to DECIMAL rounds the fraction half away from zero. The scale is at most 18 and the number less than 2^63.
* A DOUBLE cannot be cast to text: engines print different digits for the same number.
* Text may have spaces around it. A number is an optional sign, digits and, except for integers, a fraction; for
  DOUBLE also an exponent, or `NaN`, `Infinity`, `-Infinity`. A date is `YYYY-MM-DD`; a timestamp may add `HH:MM`,
  seconds and up to six more digits after a space or `T`. A boolean is `true`, `t`, `yes`, `1`, `false`, `f`, `no` or
  `0` in any case.

"""


def render() -> str:
    """The whole page, in Markdown."""
    groups = (_group(title, functions) for title, functions in GROUPS.items())
    return "\n".join([_INTRODUCTION, *groups, _CASTS + _table(("from", "to", "how", "fails"), _cast_rows())])


def _group(title: str, functions: Iterable[Function]) -> str:
    rows = (
        (function.name, f"`{function.usage}`", _results(function), _nulls(function), function.fails or "")
        for function in functions
    )
    return f"## {title}\n\n" + _table(("name", "usage", "result", "NULL", "fails"), rows)


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _results(function: Function) -> str:
    """The types that come out over all samples that the function takes."""
    signatures = [function.resolve(types) for count in (1, 2, 3) for types in itertools.product(_SAMPLES, repeat=count)]
    kinds = {signature.result.kind for signature in signatures if signature is not None}
    if len(kinds) == len(_SAMPLES):
        return "the common type"
    if not kinds:  # it takes arrays or many arguments, which are no samples
        kinds = {s.result.kind for s in map(function.resolve, _OTHER_SAMPLES) if s is not None}
    return ", ".join(kind.value for kind in Kind if kind in kinds)


def _nulls(function: Function) -> str:
    """When the result is NULL, told from how the row behaves."""
    if function.strict:
        return "if any argument is"
    if not function.nullable((True, True)):
        return "never"
    if function.nullable((False, False)):
        return "also for values"
    return "if the answer is unknown" if function.nullable((True, False)) else "if all arguments are"


def _cast_rows() -> Iterator[tuple[str, ...]]:
    for source, target in itertools.product(_SAMPLES, repeat=2):
        if source != target and explicit_cast_allowed(source, target):
            yield source.kind.value, target.kind.value, _how(source, target), cast_fails(source, target) or ""
    yield "DECIMAL", "DECIMAL", "implicit if no digit can be lost, else assignment", "overflow: out of range"
    yield "NULL", "any type", "implicit", ""


def _how(source: Type, target: Type) -> str:
    if target.kind is Kind.DECIMAL and source.is_integer:
        return "implicit if the digits suffice, else assignment"
    if implicit_cast_allowed(source, target):
        return "implicit"
    return "assignment" if assignment_cast_allowed(source, target) else "explicit"


if __name__ == "__main__":
    print(render(), end="")
