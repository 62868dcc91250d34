"""Which texts are values: one regular expression per type, read alike by Python, RE2 (DuckDB) and Java (Spark).

No backslash appears in them, because Spark's parser and DuckDB's treat it differently inside a string literal.
"""

from __future__ import annotations

from typing import Final

from tidemark.algebra.types import Kind

_UNSIGNED: Final = "([0-9]+([.][0-9]*)?|[.][0-9]+)"
_YEAR: Final = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DATE: Final = f"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}"
_TIME: Final = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?"

_SPECIAL: Final = "[nN][aA][nN]|[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?"

TRUE_TEXTS: Final = ("true", "t", "yes", "1")
FALSE_TEXTS: Final = ("false", "f", "no", "0")

ACCEPTED: Final = {
    Kind.SMALLINT: "[+-]?[0-9]+",
    Kind.INT: "[+-]?[0-9]+",
    Kind.BIGINT: "[+-]?[0-9]+",
    Kind.DECIMAL: f"[+-]?{_UNSIGNED}",
    Kind.DOUBLE: f"[+-]?{_UNSIGNED}([eE][+-]?[0-9]{{1,3}})?|{_SPECIAL}",
    Kind.DATE: _DATE,
    Kind.TIMESTAMP: f"{_DATE}([ T]{_TIME})?",
}
"""What a text must be, apart from spaces around it. Whether a day exists is left to the calendar."""
