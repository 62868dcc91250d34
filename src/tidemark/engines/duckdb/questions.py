"""The parts of a question to a stored relation: the keys that are looked for, and the columns that are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.engines.duckdb.dialect import quote
from tidemark.engines.nearby import Question


def size_of(question: Question) -> int:
    """How many rows may have a key that is looked for."""
    return sum(rows.count for rows, _ in question.sources)


def columns_shown(question: Question) -> tuple[int, ...]:
    """The columns that are read: those that are needed, or all."""
    return tuple(range(len(question.relation.schema))) if question.needed is None else question.needed


def names_of(question: Question, columns: Iterable[int]) -> list[str]:
    return [f"r.{quote(question.relation.schema[column].name)}" for column in columns]


def few_keys(question: Question) -> list[tuple[Value, ...]]:
    """The different keys of a few rows. Keys with NULL equal nothing and are left out."""
    keys = dict.fromkeys(tuple(row[c] for c in columns) for rows, columns in question.sources for row in rows.bag)
    return [key for key in keys if None not in key]


def columns_of_keys(question: Question, keys: Sequence[tuple[Value, ...]]) -> list[pa.ChunkedArray]:
    types = (question.relation.schema[column].type.arrow for column in question.columns)
    return [pa.chunked_array([pa.array(column, t)]) for column, t in zip(zip(*keys, strict=True), types, strict=True)]


def key_values(question: Question) -> list[pa.ChunkedArray]:
    """The values that are looked up, by column. Keys with NULL equal nothing and are left out."""
    parts = [rows.table.select(list(columns)) for rows, columns in question.sources]
    names = [str(i) for i in range(len(question.columns))]
    return list(pa.concat_tables([part.rename_columns(names) for part in parts]).drop_null().columns)
