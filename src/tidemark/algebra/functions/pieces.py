"""Text taken apart and put together, and text as numbers: pieces, code points, bytes."""

from __future__ import annotations

import hashlib
from typing import Final

from tidemark.algebra.expressions import Value
from tidemark.algebra.functions.resolvers import fixed, takes
from tidemark.algebra.functions.table import (
    DUCKDB_ERROR,
    SPARK_ERROR,
    Engine,
    Function,
    Signature,
    by_bytes,
    call,
    guard,
    guarded,
    pattern,
    plain,
    to_result,
)
from tidemark.algebra.types import BOOLEAN, BYTEA, INT, NULL, VARCHAR, Type
from tidemark.errors import TidemarkError

_NO_PIECE: Final = "invalid_value: pieces are counted from 1, or from -1 at the end"
_NO_CHARACTER: Final = "invalid_value: there is no such character"
_NO_CODE: Final = "{0} NOT BETWEEN 1 AND 1114111 OR {0} BETWEEN 55296 AND 57343"


def _split_part(text: str, separator: str, number: int) -> str:
    """
    >>> _split_part("a,b,c", ",", -1), _split_part("a,b", ";", 1), _split_part("a,b", ",", 3)
    ('c', 'a,b', '')
    """
    if number == 0:
        raise TidemarkError("invalid_value", "split_part counts pieces from 1")
    if text == "":
        return ""
    parts = text.split(separator) if separator else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def _split_template(engine: Engine) -> str:
    """Without a separator the text is one piece, where engines split it into characters or fail."""
    known = "{0} IS NOT NULL AND {1} IS NOT NULL"
    whole = "(CASE WHEN {2} IN (1, -1) THEN {0} WHEN {2} IS NOT NULL AND {0} IS NOT NULL THEN '' END)"
    rest = f"(CASE WHEN {{1}} = '' THEN {whole} ELSE split_part({{0}}, {{1}}, {{2}}) END)"
    return guard(engine.raising, f"{{2}} = 0 AND {known}", _NO_PIECE, rest)


def _chr(code: int) -> str:
    if not 1 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise TidemarkError("invalid_value", f"there is no character {code}")
    return chr(code)


def _translate(text: str, given: str, wanted: str) -> str:
    """Each character that is given by the one at its place in ``wanted``, or by nothing if that is shorter."""
    table: dict[int, str] = {}
    for place, letter in enumerate(given):
        table.setdefault(ord(letter), wanted[place : place + 1])
    return text.translate(table)


def _joined(types: tuple[Type, ...]) -> Signature | None:
    if len(types) < 2 or any(given not in (VARCHAR, NULL) for given in types):
        return None
    return Signature((VARCHAR,) * len(types), VARCHAR)


def _concat_ws(separator: Value, *parts: Value) -> Value:
    """NULLs are left out; without a separator there is no text."""
    return None if separator is None else str(separator).join(str(part) for part in parts if part is not None)


PIECES: Final = (
    Function(
        "split_part",
        "split_part(text, separator, number)",
        fixed(takes(VARCHAR, VARCHAR, INT, gives=VARCHAR)),
        plain(_split_part),
        pattern(_split_template(Engine.DUCKDB)),
        pattern(_split_template(Engine.SPARK)),
        fails=_NO_PIECE,
    ),
    Function(
        "concat_ws",
        "concat_ws(separator, text, …)",
        _joined,
        plain(_concat_ws),
        call("concat_ws"),
        call("concat_ws"),
        strict=False,
        nullable=lambda given: given[0],
    ),
    Function(
        "translate",
        "translate(text, given, wanted)",
        fixed(takes(VARCHAR, VARCHAR, VARCHAR, gives=VARCHAR)),
        plain(_translate),
        call("translate"),
        call("translate"),
    ),
    Function(
        "chr",
        "chr(code point)",
        fixed(takes(INT, gives=VARCHAR)),
        plain(_chr),
        guarded(DUCKDB_ERROR, _NO_CODE, _NO_CHARACTER, "chr({0})"),
        # Spark's own chr knows 256 characters.
        guarded(
            SPARK_ERROR, _NO_CODE, _NO_CHARACTER, "decode(unhex(lpad(hex(CAST({0} AS BIGINT)), 8, '0')), 'utf-32')"
        ),
        fails=_NO_CHARACTER,
    ),
    Function(
        "ascii",
        "ascii(text)",
        fixed(takes(VARCHAR, gives=INT)),
        plain(lambda text: ord(text[0]) if text else 0),
        to_result("(CASE WHEN {0} = '' THEN 0 ELSE unicode({0}) END)"),
        call("ascii"),
    ),
    Function(
        "octet_length",
        "octet_length(text)",
        fixed(takes(VARCHAR, gives=INT), takes(BYTEA, gives=INT)),
        plain(lambda text: len(text if isinstance(text, bytes) else text.encode())),
        by_bytes(to_result("octet_length({0})"), to_result("strlen({0})")),
        call("octet_length"),
    ),
    Function(
        "bit_length",
        "bit_length(text)",
        fixed(takes(VARCHAR, gives=INT)),
        plain(lambda text: len(text.encode()) * 8),
        to_result("(strlen({0}) * 8)"),
        pattern("(octet_length({0}) * 8)"),
    ),
    Function(
        "md5",
        "md5(text)",
        fixed(takes(VARCHAR, gives=VARCHAR)),
        plain(lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()),
        call("md5"),
        call("md5"),
    ),
    Function(
        "ends_with",
        "ends_with(text, end)",
        fixed(takes(VARCHAR, VARCHAR, gives=BOOLEAN)),
        plain(str.endswith),
        call("ends_with"),
        call("endswith"),
    ),
)
