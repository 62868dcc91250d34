"""The SQL of casts on each engine, and what each engine calls the types."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from tidemark.algebra.functions.table import DUCKDB_ERROR, SPARK_ERROR, guard
from tidemark.algebra.functions.values import ACCEPTED, BEYOND_REAL, FALSE_TEXTS, LEAST_REAL, TRUE_TEXTS
from tidemark.algebra.types import BYTEA, DOUBLE, TIMESTAMPTZ, Kind, Type

_DUCKDB_NAMES: Final = {Kind.INT: "INTEGER", Kind.BYTEA: "BLOB", Kind.NULL: '"NULL"'}
_SPARK_NAMES: Final = {
    **{Kind.VARCHAR: "STRING", Kind.BYTEA: "BINARY", Kind.REAL: "FLOAT", Kind.NULL: "VOID"},
    **{Kind.TIMESTAMP: "TIMESTAMP_NTZ", Kind.TIMESTAMPTZ: "TIMESTAMP_LTZ"},
}
_EXACT_DOUBLE_DIGITS: Final = 15
"""With that many digits a decimal is one correctly rounded division of two doubles that are exact."""
_BIGINT_LIMIT: Final = "9223372036854775808"
_REAL_OVERFLOW: Final = "overflow: out of range for REAL"
_TEXT_OVERFLOW: Final = "overflow: text out of range for DOUBLE"
"""Text beyond the range reads as infinity on all engines; the zero that is added makes a negative zero positive."""


def duckdb_type(type: Type) -> str:
    """What DuckDB calls the type."""
    if type.element is not None:
        return f"{duckdb_type(type.element)}[]"
    if type.fields:
        return f"STRUCT({', '.join(f'{_quoted(name)} {duckdb_type(part)}' for name, part in type.fields)})"
    return _DUCKDB_NAMES.get(type.kind, str(type))


def spark_type(type: Type) -> str:
    """What Spark calls the type."""
    if type.element is not None:
        return f"ARRAY<{spark_type(type.element)}>"
    if type.fields:
        return f"STRUCT<{', '.join(f'{_backquoted(name)}: {spark_type(part)}' for name, part in type.fields)}>"
    return _SPARK_NAMES.get(type.kind, str(type))


def duckdb_struct(parts: tuple[str, ...], type: Type) -> str:
    """A struct of the type, made of the SQL of its fields."""
    named = (f"{_quoted(name)} := {part}" for (name, _), part in zip(type.fields, parts, strict=True))
    return f"struct_pack({', '.join(named)})"


def duckdb_field(text: str, name: str, type: Type) -> str:
    """With its type, which DuckDB forgets if the struct is a constant NULL."""
    return f"CAST(struct_extract({text}, {_text(name)}) AS {duckdb_type(type)})"


def spark_struct(parts: tuple[str, ...], type: Type) -> str:
    named = (f"{_text(name)}, {part}" for (name, _), part in zip(type.fields, parts, strict=True))
    return f"named_struct({', '.join(named)})"


def spark_field(text: str, name: str) -> str:
    return f"({text}).{_backquoted(name)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(name: str) -> str:
    """Names have neither quotes nor backslashes in them, which the binder sees to."""
    return f"'{name}'"


def duckdb(text: str, source: Type, target: Type) -> str:
    """An allowed cast between two different types, in DuckDB's SQL."""
    name = duckdb_type(target)
    if source.element is not None and target.element is not None:
        return f"list_transform({text}, lambda element: {duckdb('element', source.element, target.element)})"
    if source.fields and target.fields:
        parts = [duckdb_field(text, field, part) for field, part in source.fields]
        cast = tuple(
            a if s == t else duckdb(a, s, t) for a, s, t in zip(parts, source.parts, target.parts, strict=True)
        )
        return f"(CASE WHEN {text} IS NOT NULL THEN {duckdb_struct(cast, target)} END)"
    match source.kind, target.kind:
        case Kind.VARCHAR, Kind.BOOLEAN:
            return _boolean(text, DUCKDB_ERROR)
        case Kind.VARCHAR, Kind.TIMESTAMPTZ:
            return _duckdb_moment(text)
        case Kind.VARCHAR, Kind.BYTEA:
            matches = f"regexp_full_match({text}, '{ACCEPTED[Kind.BYTEA]}')"
            return _bytes(text, matches, "chr(92)", DUCKDB_ERROR)
        case Kind.BYTEA, Kind.VARCHAR:
            return f"(chr(92) || 'x' || lower(hex({text})))"
        case Kind.TIMESTAMPTZ, Kind.VARCHAR:
            return f"(CAST(CAST({text} AS TIMESTAMP) AS VARCHAR) || '+00')"
        case Kind.TIMESTAMPTZ, Kind.DATE:
            return f"CAST(CAST({text} AS TIMESTAMP) AS DATE)"
        case Kind.DATE, Kind.TIMESTAMPTZ:
            return f"CAST(CAST({text} AS TIMESTAMP) AS TIMESTAMPTZ)"
        case _, Kind.REAL:
            return _real(text if source.kind is Kind.DOUBLE else duckdb(text, source, DOUBLE), "FLOAT", DUCKDB_ERROR)
        case Kind.REAL, _ if target.kind is not Kind.DOUBLE:
            return duckdb(f"CAST({text} AS DOUBLE)", DOUBLE, target)
        case Kind.VARCHAR, _:
            return _duckdb_parse(text, target)
        case Kind.DOUBLE, Kind.DECIMAL:
            fraction = f"CAST(round(({text} - trunc({text})) * 1e{target.scale}) AS BIGINT)"
            return _whole_and_fraction(f"CAST(trunc({text}) AS BIGINT)", fraction, target)
        case Kind.DECIMAL, Kind.DOUBLE if source.precision > _EXACT_DOUBLE_DIGITS:
            # DuckDB adds the whole part and the fraction as doubles, which rounds twice; reading text rounds once.
            return f"CAST(CAST({text} AS VARCHAR) AS DOUBLE)"
        case Kind.DECIMAL, Kind.VARCHAR if source.precision == source.scale:
            return f"replace(CAST({text} AS VARCHAR), '.', '0.')"  # DuckDB writes .50 when no digit is whole
    return f"CAST({text} AS {name})"


def spark(text: str, source: Type, target: Type) -> str:
    """An allowed cast between two different types, in Spark's SQL."""
    name = spark_type(target)
    if source.element is not None and target.element is not None:
        return f"transform({text}, element -> {spark('element', source.element, target.element)})"
    if source.fields and target.fields:
        parts = [spark_field(text, field) for field, _ in source.fields]
        cast = tuple(a if s == t else spark(a, s, t) for a, s, t in zip(parts, source.parts, target.parts, strict=True))
        return f"(CASE WHEN {text} IS NOT NULL THEN {spark_struct(cast, target)} END)"
    match source.kind, target.kind:
        case Kind.VARCHAR, Kind.BOOLEAN:
            return _boolean(text, SPARK_ERROR)
        case Kind.VARCHAR, Kind.TIMESTAMPTZ:
            return _spark_moment(text)
        case Kind.VARCHAR, Kind.BYTEA:
            return _bytes(text, f"{text} RLIKE '^(?s)({ACCEPTED[Kind.BYTEA]})(?!.)'", "char(92)", SPARK_ERROR)
        case Kind.BYTEA, Kind.VARCHAR:
            return f"concat(char(92), 'x', lower(hex({text})))"
        case Kind.TIMESTAMPTZ, Kind.VARCHAR:
            return f"concat(CAST(CAST({text} AS TIMESTAMP_NTZ) AS STRING), '+00')"
        case Kind.TIMESTAMPTZ, Kind.DATE:
            return f"CAST(CAST({text} AS TIMESTAMP_NTZ) AS DATE)"
        case Kind.DATE, Kind.TIMESTAMPTZ:
            return f"CAST(CAST({text} AS TIMESTAMP_NTZ) AS TIMESTAMP_LTZ)"
        case _, Kind.REAL:
            return _real(text if source.kind is Kind.DOUBLE else spark(text, source, DOUBLE), "FLOAT", SPARK_ERROR)
        case Kind.REAL, _ if target.kind is not Kind.DOUBLE:
            return spark(f"CAST({text} AS DOUBLE)", DOUBLE, target)
        case Kind.VARCHAR, _:
            return _spark_parse(text, target)
        case Kind.DOUBLE, Kind.DECIMAL:
            whole = f"CAST({text} AS BIGINT)"
            fraction = f"CAST(round(({text} - {whole}) * 1e{target.scale}D, 0) AS BIGINT)"
            return _spark_below_limit(text, _whole_and_fraction(whole, fraction, target))
        case Kind.DOUBLE, _:
            return _spark_below_limit(text, f"CAST(rint({text}) AS {name})")
        case Kind.DECIMAL, _ if target.is_integer:
            return f"CAST(round({text}, 0) AS {name})"  # Spark's own cast cuts the fraction off
    return f"CAST({text} AS {name})"


def _spark_below_limit(text: str, otherwise: str) -> str:
    """Spark casts 2^63 and what is not a number to the largest BIGINT instead of failing; NaN is above all."""
    return guard(SPARK_ERROR, f"{text} >= {_BIGINT_LIMIT}D", "overflow: DOUBLE out of range", otherwise)


def _whole_and_fraction(whole: str, fraction: str, target: Type) -> str:
    """A decimal put together from two BIGINTs, the fraction in units of the target's last digit."""
    scale = target.scale
    unit = f"CAST('{Decimal(1).scaleb(-scale):f}' AS DECIMAL({scale + 1},{scale}))"
    whole_part = f"CAST({whole} AS DECIMAL(38,{scale}))"
    return f"CAST(({whole_part} + CAST({fraction} AS DECIMAL(19,0)) * {unit}) AS {target})"


def _boolean(text: str, raising: str) -> str:
    lowered = f"lower(trim(BOTH ' ' FROM {text}))"
    true_texts, false_texts = (", ".join(f"'{t}'" for t in texts) for texts in (TRUE_TEXTS, FALSE_TEXTS))
    return (
        f"(CASE WHEN {lowered} IN ({true_texts}) THEN TRUE WHEN {lowered} IN ({false_texts}) THEN FALSE "
        f"WHEN {text} IS NOT NULL THEN {raising}('invalid_value: not a BOOLEAN: ' || {text}) END)"
    )


_MOMENT: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9:.]+)?"
_OFFSET: Final = ":[0-9:.]* ?([+-])([0-9]{2}):?([0-9]{2})?$"
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The microseconds between which the years 0001 to 9999 lie."""


def _offset(trimmed: str) -> str:
    """How many microseconds the clocks of the zone that is written are ahead of UTC."""
    sign, hours, minutes = (f"regexp_extract({trimmed}, '{_OFFSET}', {part})" for part in (1, 2, 3))
    size = f"(CAST('0' || {hours} AS BIGINT) * 60 + CAST('0' || {minutes} AS BIGINT)) * 60000000"
    return f"(CASE WHEN {sign} = '-' THEN -1 ELSE 1 END) * {size}"


def _duckdb_moment(text: str) -> str:
    """Engines do not read the same zones, so what is written of them is taken off, and away from the time."""
    trimmed = f"trim({text}, ' ')"
    # A constant condition is evaluated even in a branch that is never taken, so it must not fail.
    sure, tried = (
        f"(epoch_us({cast}(regexp_extract({trimmed}, '{_MOMENT}', 0) AS TIMESTAMP)) - {_offset(trimmed)})"
        for cast in ("CAST", "TRY_CAST")
    )
    value = f"CAST(make_timestamp({sure}) AS TIMESTAMPTZ)"
    matches = f"regexp_full_match({trimmed}, '{ACCEPTED[Kind.TIMESTAMPTZ]}')"
    return _moment_within(text, f"NOT {matches}", tried, value, DUCKDB_ERROR)


def _spark_moment(text: str) -> str:
    trimmed = f"trim(BOTH ' ' FROM {text})"
    time = f"CAST(CAST(regexp_extract({trimmed}, '{_MOMENT}', 0) AS TIMESTAMP_NTZ) AS TIMESTAMP_LTZ)"
    micros = f"(unix_micros({time}) - {_offset(trimmed)})"
    matches = f"{trimmed} RLIKE '^(?s)({ACCEPTED[Kind.TIMESTAMPTZ]})(?!.)'"
    return _moment_within(text, f"NOT ({matches})", micros, f"timestamp_micros({micros})", SPARK_ERROR)


def _moment_within(text: str, malformed: str, micros: str, value: str, raising: str) -> str:
    """Two CASEs: what is malformed must not be computed with."""
    outside = f"{micros} NOT BETWEEN {_FIRST} AND {_LAST}"
    within = guard(raising, outside, "invalid_value: not a TIMESTAMPTZ: out of range in UTC", value)
    return _parsed(text, malformed, within, TIMESTAMPTZ, raising)


def _bytes(text: str, matches: str, backslash: str, raising: str) -> str:
    """The bytes of a text of a backslash, an x and two hexadecimal digits for each."""
    malformed = f"NOT ({matches} AND substring({text}, 1, 1) = {backslash})"
    return _parsed(text, malformed, f"unhex(substring({text}, 3))", BYTEA, raising)


def _real(text: str, name: str, raising: str) -> str:
    """A DOUBLE as a REAL; Spark's own cast makes infinities and zeros of what is out of range."""
    large = f"abs({text}) >= CAST('{BEYOND_REAL!r}' AS DOUBLE) AND abs({text}) < CAST('Infinity' AS DOUBLE)"
    small = f"abs({text}) <= CAST('{LEAST_REAL!r}' AS DOUBLE) AND {text} <> 0"
    return guard(raising, f"({large}) OR ({small})", _REAL_OVERFLOW, f"CAST({text} AS {name})")


def _duckdb_parse(text: str, target: Type) -> str:
    trimmed = f"trim({text}, ' ')"
    value = f"CAST({trimmed} AS {duckdb_type(target)})"
    matches = f"regexp_full_match({trimmed}, '{ACCEPTED[target.kind]}')"
    if target.kind is Kind.DOUBLE:
        # A constant condition is evaluated even in a branch that is never taken, so it must not fail.
        infinite = f"isinf(TRY_CAST({trimmed} AS DOUBLE)) AND {_in_digits(trimmed)}"
        value = guard(DUCKDB_ERROR, infinite, _TEXT_OVERFLOW, f"({value} + 0e0)")
    return _parsed(text, f"NOT {matches}", value, target, DUCKDB_ERROR)


def _spark_parse(text: str, target: Type) -> str:
    trimmed = f"trim(BOTH ' ' FROM {text})"
    value = f"CAST({trimmed} AS {spark_type(target)})"
    # A negative look-ahead for any character ends the match: "$" would let a final line break pass.
    matches = f"{trimmed} RLIKE '^(?s)({ACCEPTED[target.kind]})(?!.)'"
    if target.kind is Kind.DOUBLE:
        infinite = f"abs({value}) = DOUBLE('Infinity') AND {_in_digits(trimmed)}"
        value = guard(SPARK_ERROR, infinite, _TEXT_OVERFLOW, f"({value} + 0D)")
    elif target.is_integer:
        # By way of a decimal, so that too many digits are an overflow and not a malformed number.
        value = f"CAST(CAST({trimmed} AS DECIMAL(38,0)) AS {spark_type(target)})"
    return _parsed(text, f"NOT ({matches})", value, target, SPARK_ERROR)


def _in_digits(text: str) -> str:
    """Whether the text of a number is not the word for infinity."""
    return f"lower({text}) NOT LIKE '%inf%'"


def _parsed(text: str, malformed: str, value: str, target: Type, raising: str) -> str:
    failure = f"{raising}('invalid_value: not a {target.kind.value}: ' || {text})"
    return f"(CASE WHEN {malformed} THEN {failure} ELSE {value} END)"
