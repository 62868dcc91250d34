"""SQLite as a third voice: it has nothing in common with the engines, nor with our binder.

It is asked what it understands; where its words mean something else than PostgreSQL's it is not asked. NULL is below
all values in its order, which sqlglot says in the text that it writes.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlglot

from tests.support import Bag

_NAMED_COLUMNS: Final = re.compile(r"(AS q\d+) \(c0(?:, c\d+)*\)")
"""Columns of a derived table that are called by the names which they have already; SQLite does not know the form."""
_OTHERWISE: Final = re.compile(
    r"DISTINCT ON|VAR_|STDDEV|STRING_AGG|ARRAY_AGG|MEDIAN|PERCENTILE|LATERAL|\bROLLUP\b|IGNORE NULLS"
)
_MOST_STEPS: Final = 3_000_000
"""Of its machine: an answer that takes longer is not waited for."""


class SQLite:
    """The tables of a round, which are copied after each change, and the views as views."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:")
        self.answered = 0

    def create(self, schema: str) -> None:
        self._connection.executescript(schema)

    def copy(self, table: str, rows: Iterable[Sequence[Any]], width: int) -> None:
        self._connection.execute(f"DELETE FROM {table}")
        marks = ", ".join("?" * width)
        self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def define(self, name: str, query: str) -> None:
        text = _understood(query)
        if text is not None:
            self._try(f"CREATE VIEW {name} AS {text}")

    def answer(self, query: str) -> Bag | None:
        """The rows of a query; None if SQLite cannot say."""
        text = _understood(query)
        found = None if text is None else self._try(text)
        self.answered += found is not None
        return None if found is None else Counter(found)

    def close(self) -> None:
        self._connection.close()

    def _try(self, text: str) -> list[tuple[Any, ...]] | None:
        steps = iter(range(_MOST_STEPS // 1000))
        self._connection.set_progress_handler(lambda: next(steps, None) is None, 1000)
        try:
            return self._connection.execute(text).fetchall()
        except sqlite3.Error:
            return None
        finally:
            self._connection.set_progress_handler(None, 0)


def _understood(query: str) -> str | None:
    if _OTHERWISE.search(query):
        return None
    plain = _NAMED_COLUMNS.sub(r"\1", query)
    return sqlglot.transpile(plain, read="postgres", write="sqlite", unsupported_level=sqlglot.ErrorLevel.IGNORE)[0]
