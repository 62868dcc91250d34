"""Answers from memory, for every engine: the rows of a stored relation that have some keys, if they are arranged.

Compiled steps and the rules of recursion ask with a few keys and want the rows of each; what goes to Arrow or to a
statement asks with all that a delta leads to, and wants the rows together.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.plans import Stored
from tidemark.engines.engine import Columns, Index, Keys
from tidemark.engines.limits import PROCESS
from tidemark.engines.local.lookups import Question
from tidemark.storage.arrangements import Arrangement, Arrangements
from tidemark.storage.batches import Batch, Numbers, Vector
from tidemark.storage.delta import Rows


class StoredRows(Rows):
    """Rows of a stored relation."""


def by_key(
    arrangements: Arrangements, leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None, most: int
) -> Index | None:
    """The rows of each key that has some; None if they are not arranged, or one key has more entries than ``most``."""
    held = _serving(arrangements, leaf, columns, needed, len(keys))
    return None if held is None else held.matching(columns, keys, most)


def by_columns(
    arrangements: Arrangements, leaf: Stored, columns: Columns, keys: Sequence[Vector], needed: Columns | None
) -> tuple[Batch, Numbers | None] | None:
    """The same for many keys, given by column: the rows as columns, too."""
    held = _serving(arrangements, leaf, columns, needed, len(keys[0]) if keys else 1)
    return None if held is None else held.matching_batch(columns, keys, PROCESS.many_met)


def together(arrangements: Arrangements, question: Question) -> StoredRows | None:
    """The rows that a question asks for; None if they are not arranged, or are too many."""
    relation, size = question.relation.relation, size_of(question)
    if question.is_constant:
        question = question.by(arrangements.narrower(relation, question.columns))
    held = _serving(arrangements, question.relation, question.columns, question.needed, size)
    if held is None:
        return None
    schema = question.relation.schema
    if size <= PROCESS.few_keys:
        found = held.matching(question.columns, few_keys(question), PROCESS.met_by_few)
        if found is not None:
            return StoredRows(schema, bag={row: times for rows in found.values() for row, times in rows.items()})
    table = held.matching_table(question.columns, key_values(question), PROCESS.most_looked_up)
    if table is None:
        arrangements.in_vain(relation, question.columns)
        return None
    return StoredRows(schema, table=table)


def _serving(
    arrangements: Arrangements, leaf: Stored, columns: Columns, needed: Columns | None, keys: int
) -> Arrangement | None:
    """The arrangement that answers, if it has the columns that the relation has where it is read."""
    held = arrangements.serving(leaf.relation, columns, needed, keys)
    return held if held is not None and len(held.schema) == len(leaf.schema) else None


# The keys of a question


def size_of(question: Question) -> int:
    """How many rows may have a key that is looked for."""
    return sum(rows.count for rows, _ in question.sources)


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
