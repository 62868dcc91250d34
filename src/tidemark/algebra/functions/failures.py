"""Which of the table's errors an engine's message means.

Guards in the generated SQL raise messages that begin with a code; the engines' own errors are recognised by their
wording. Whoever runs generated SQL translates its errors with ``failure_code``.
"""

from __future__ import annotations

import re
from typing import Final

_MESSAGES: Final = (
    ("cardinality", r"cardinality: "),
    ("division_by_zero", r"division_by_zero: |Division by zero|DIVIDE_BY_ZERO|REMAINDER_BY_ZERO"),
    (
        "invalid_value",
        r"invalid_value: |field value out of range|Conversion Error: Date out of range|CAST_INVALID_INPUT"
        r"|DATETIME_FIELD_OUT_OF_BOUNDS|Like pattern must not end|INVALID_FORMAT",
    ),
    (
        "overflow",
        r"overflow: |Out of Range Error|out of range|Could not (?:cast|convert)|Failed to cast"
        r"|ARITHMETIC_OVERFLOW|CAST_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE|NUMERIC_OUT_OF_SUPPORTED_RANGE",
    ),
)
_ANY: Final = re.compile("|".join(f"(?P<{code}>{wording})" for code, wording in _MESSAGES))


def failure_code(message: str) -> str | None:
    """The code of the table's error that the message begins with, or None if it is another error.

    >>> failure_code("Invalid Input Error: division_by_zero: the divisor is zero")
    'division_by_zero'
    >>> failure_code("[CAST_OVERFLOW] The value 2147483648L of the type BIGINT cannot be cast to INT")
    'overflow'
    """
    # Later lines quote the statement, in which the guards' own texts stand.
    found = _ANY.search(message.partition("\n")[0])
    return found.lastgroup if found else None
