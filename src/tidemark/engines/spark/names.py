"""Names that are safe on every file system and in every Delta reader."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
LONGEST: Final = 120
_REFUSED_BY_DELTA: Final = frozenset(" ,;{}()\n\t=")


def directory_name(relation: str) -> str:
    """The folder of a relation: lower-case letters, digits, ``_`` and ``-`` stay, all else becomes ``~`` and hex.

    Upper-case letters are escaped too, because some file systems do not tell them from lower-case ones.

    >>> directory_name("orders"), directory_name("My Table/../x")
    ('orders', '~4dy~20~54able~2f~2e~2e~2fx')
    """
    shown = "".join(
        character if character in PLAIN else "".join(f"~{byte:02x}" for byte in character.encode())
        for character in relation
    )
    if len(shown) <= LONGEST:
        return shown
    return f"{shown[:LONGEST]}~~{hashlib.sha256(relation.encode()).hexdigest()[:16]}"


def column_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names of the columns in files: as they are, unless Delta readers would refuse them.

    Delta refuses some characters and does not tell upper from lower case; such a name gets ``_`` or a number.

    >>> column_names(["a", "unit price", "A"])
    ('a', 'unit_price', 'A_2')
    """
    result: list[str] = []
    taken: set[str] = set()
    for name in names:
        base = "".join("_" if character in _REFUSED_BY_DELTA else character for character in name) or "_"
        shown, copy = base, 1
        while shown.lower() in taken:
            copy += 1
            shown = f"{base}_{copy}"
        taken.add(shown.lower())
        result.append(shown)
    return tuple(result)
