"""Look-ups: the rows of a stored relation that have given values in some columns.

What is arranged in memory by these columns is found there, all else by a statement; answers are remembered for the
transaction.

One key is compared with ``=``, which prunes best. More are joined: DuckDB compares a list of literals with every row
that it cannot prune (three times slower from ten keys on), while a join filters what is scanned by the keys' own
values. Keys of simple types are handed over as parameters, which takes half the time of handing over an Arrow table.

The parts of a question to a stored relation: the keys that are looked for, and the columns that are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import duckdb
import pyarrow as pa

from tidemark.algebra.expressions import Literal, Value
from tidemark.algebra.functions import canonical, duckdb_type
from tidemark.algebra.types import WEIGHT, Kind
from tidemark.engines.duckdb.apply import all_match
from tidemark.engines.duckdb.dialect import compared_text, quote, translated
from tidemark.engines.duckdb.embedded import GivenTables
from tidemark.engines.duckdb.tables import StoredRelation
from tidemark.engines.duckdb.tail import Tail, combined
from tidemark.engines.limits import DUCKDB, PROCESS
from tidemark.engines.local.lookups import (
    Question,
    StoredRows,
    arranged_rows,
    columns_of_keys,
    few_keys,
    key_values,
    size_of,
)
from tidemark.storage.arrangements import Arrangements
from tidemark.storage.delta import Bag, Rows, distinct_values, from_bag


def columns_shown(question: Question) -> tuple[int, ...]:
    """The columns that are read: those that are needed, or all."""
    return tuple(range(len(question.relation.schema))) if question.needed is None else question.needed


def names_of(question: Question, columns: Iterable[int]) -> list[str]:
    return [f"r.{quote(question.relation.schema[column].name)}" for column in columns]


SIMPLE: Final = frozenset({Kind.INT, Kind.BIGINT, Kind.VARCHAR})
MOST_KEPT: Final = 64
MOST_ROWS_KEPT: Final = 200_000

_Start = tuple[int, tuple[int, ...]]
_Asked = tuple[str, tuple[int, ...], frozenset[_Start], tuple[int, ...] | None]


@dataclass(frozen=True)
class _Statement:
    """A text, and the lists that its parameters stand for."""

    text: str
    parameters: list[list[Value]] = field(default_factory=list)


class Lookups:
    """Answers questions, and remembers the answers until the stored relations change."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        given: GivenTables,
        relation_of: Callable[[str], StoredRelation],
        tail: Tail,
        arrangements: Arrangements | None = None,
    ) -> None:
        self._connection, self._given = connection, given
        self._relation_of, self._tail, self._arrangements = relation_of, tail, arrangements
        self._kept: dict[_Asked, tuple[tuple[object, ...], StoredRows | None]] = {}
        self._rows_kept = 0
        self._needed: dict[tuple[str, tuple[int, ...]], frozenset[int]] = {}

    def __call__(self, question: Question) -> Rows | None:
        question = self._widened(question)
        if question.is_constant:
            key = self._relation_of(question.relation.relation).key
            return self._find(question.by(key) if key and set(key) <= set(question.columns) else question)
        # Deltas are known by their table, what was found by itself. Both are kept, so that none takes their identity.
        known = [(r if isinstance(r, StoredRows) else r.table, columns) for r, columns in question.sources]
        starts = frozenset((id(source), columns) for source, columns in known)
        asked = (question.relation.relation, question.columns, starts, question.needed)
        if asked not in self._kept:
            found = self._find(question)
            if len(self._kept) >= MOST_KEPT or self._rows_kept > MOST_ROWS_KEPT:
                self.forget()
            self._kept[asked] = (tuple(source for source, _ in known), found)
            self._rows_kept += size_of(question) + (found.count if found is not None else 0)
        return self._kept[asked][1]

    def _widened(self, question: Question) -> Question:
        """The question for all columns that were needed of such rows before: views that look for the same rows find
        them with one statement, which reads no column that none of them needs."""
        if question.needed is None or set(question.needed) <= set(question.columns):
            return question  # of all columns, or of none but those that are looked up: that they are there
        asked = (question.relation.relation, question.columns)
        before = self._needed.get(asked, frozenset())
        if not before.issuperset(question.needed):
            before = self._needed[asked] = before | frozenset(question.needed)
        return replace(question, needed=tuple(sorted(before)))

    def forget(self) -> None:
        """Something has changed."""
        self._kept.clear()
        self._rows_kept = 0

    def forget_needs(self) -> None:
        """Definitions have changed: who needs which columns is to be seen again."""
        self._needed.clear()

    def _find(self, question: Question) -> StoredRows | None:
        size = size_of(question)
        if size > PROCESS.most_looked_up:
            return None
        found = None if self._arrangements is None else arranged_rows(self._arrangements, question)
        if found is not None or question.is_constant:
            return found
        try:
            if size > DUCKDB.few_keys:
                self._tail.must_not_touch((question.relation.relation,))
                values = key_values(question)
                return self._many(question, self._statement(question, values)) if len(values[0]) else _nothing(question)
            keys = few_keys(question)
            if not keys:
                return _nothing(question)
            asked = (
                self._statement(question, columns_of_keys(question, keys))
                if len(keys) > 1
                else self._of_one(question, keys[0])
            )
            with self._tail.lock:
                found = self._few(question, asked)
                return _with_recent(
                    question, found, self._tail.recent(question.relation.relation, question.columns, keys)
                )
        except duckdb.Error as error:
            raise translated(error) from error

    def _of_one(self, question: Question, key: tuple[Value, ...]) -> _Statement:
        return _Statement(self._head(question) + self._where(question, dict(enumerate(key))))

    def _few(self, question: Question, asked: _Statement) -> StoredRows | None:
        schema, shown = question.relation.schema, columns_shown(question)
        if any(schema.types[column].kind is Kind.TIMESTAMPTZ for column in shown):
            return self._many(question, asked)  # DuckDB makes none of Python's times with a zone by itself
        # A limit is not free, and a few keys find no more than a few rows.
        key = self._relation_of(question.relation.relation).key
        is_keyed = bool(key) and set(key) <= set(question.columns)
        limited = asked.text if is_keyed else f"{asked.text} LIMIT {DUCKDB.fetched_rows + 1}"
        fetched = self._connection.execute(limited, asked.parameters).fetchall()
        if len(fetched) > DUCKDB.fetched_rows:
            return self._many(question, asked)
        is_whole = len(shown) == len(schema)
        has_forms = any(type_.is_float or type_.is_nested for type_ in schema.types)
        bag: Bag = {}
        for values in fetched:
            row = tuple(map(canonical, values)) if has_forms else tuple(values)
            if not is_whole:
                row = tuple(row[shown.index(i)] if i in shown else None for i in range(len(schema)))
            bag[row] = bag.get(row, 0) + 1
        return StoredRows(schema, bag=bag)

    def _many(self, question: Question, asked: _Statement) -> StoredRows | None:
        schema, shown = question.relation.schema, columns_shown(question)
        text = f"{asked.text} LIMIT {PROCESS.most_looked_up + 1}"
        found = self._connection.sql(text, params=asked.parameters).to_arrow_table()
        if found.num_rows > PROCESS.most_looked_up:
            return None
        columns: list[pa.ChunkedArray | pa.Array] = []
        for position, column in enumerate(schema.fields):
            type_ = column.type.arrow
            is_shown = position in shown
            columns.append(
                found.column(shown.index(position)).cast(type_) if is_shown else pa.nulls(found.num_rows, type_)
            )
        once = pa.repeat(pa.scalar(1, pa.int64()), found.num_rows)
        table = pa.Table.from_arrays([*columns, once], names=[*schema.names, WEIGHT])
        return StoredRows(schema, table=table)

    # Text

    def _statement(self, question: Question, values: list[pa.ChunkedArray]) -> _Statement:
        fixed = {i: canonical(column[0].as_py()) for i, column in enumerate(values) if distinct_values(column) == 1}
        head, where = self._head(question), self._where(question, fixed)
        differing = [i for i in range(len(values)) if i not in fixed]
        if not differing:
            return _Statement(head + where)
        names = names_of(question, question.columns)
        equal = all_match([(names[i], f"k.k{i}") for i in differing], [values[i] for i in differing])
        keys = self._keys(question, values)
        return _Statement(f"{head} SEMI JOIN {keys.text} AS k ON {equal}{where}", keys.parameters)

    def _head(self, question: Question) -> str:
        shown = columns_shown(question)
        table = self._relation_of(question.relation.relation).table
        return f"SELECT {', '.join(names_of(question, shown) or ['NULL'])} FROM {table} AS r"

    def _where(self, question: Question, fixed: Mapping[int, Value]) -> str:
        """Some of the columns have a value each."""
        names = names_of(question, question.columns)
        equal = [f"{names[i]} = {self._literal(question, i, value)}" for i, value in fixed.items()]
        return f" WHERE {' AND '.join(equal)}" if equal else ""

    def _keys(self, question: Question, values: list[pa.ChunkedArray]) -> _Statement:
        """The keys as something to join with; its columns are k0, k1 and so on."""
        names = [f"k{i}" for i in range(len(question.columns))]
        types = [question.relation.schema[column].type for column in question.columns]
        if len(values[0]) <= DUCKDB.parameter_keys and all(type_.kind in SIMPLE for type_ in types):
            lists = (f"unnest(CAST(${i + 1} AS {duckdb_type(type_)}[])) AS k{i}" for i, type_ in enumerate(types))
            return _Statement(f"(SELECT {', '.join(lists)})", [column.to_pylist() for column in values])
        if len(values[0]) <= DUCKDB.literal_keys:
            rows = zip(*(column.to_pylist() for column in values), strict=True)
            cells = ([self._literal(question, i, value) for i, value in enumerate(row)] for row in rows)
            listed = ", ".join(f"({', '.join(row)})" for row in cells)
            return _Statement(f"(SELECT * FROM (VALUES {listed}) AS listed({', '.join(names)}))")
        registered = self._given.names_of([rows.table for rows, _ in question.sources])
        parts = [
            f"SELECT {', '.join(f'c{c} AS {n}' for c, n in zip(columns, names, strict=True))} FROM {name}"
            for name, (_, columns) in zip(registered, question.sources, strict=True)
        ]
        return _Statement(f"({' UNION ALL '.join(parts)})")

    def _literal(self, question: Question, position: int, value: Value) -> str:
        return compared_text(Literal(canonical(value), question.relation.schema[question.columns[position]].type))


def _with_recent(question: Question, stored: StoredRows | None, recent: Bag) -> StoredRows | None:
    """The rows as they are since what was committed after the last merge."""
    if stored is None or not recent:
        return stored
    shown, schema = columns_shown(question), question.relation.schema
    if len(shown) < len(schema):
        shown_of = Counter[tuple[Value, ...]]()
        for row, weight in recent.items():
            shown_of[tuple(value if i in shown else None for i, value in enumerate(row))] += weight
        recent = shown_of
    if stored.count > DUCKDB.fetched_rows:
        return StoredRows(schema, table=combined([stored.table, from_bag(recent, schema)], schema))
    bag = dict(stored.bag)
    for row, weight in recent.items():
        bag[row] = bag.get(row, 0) + weight
    return StoredRows(schema, bag={row: weight for row, weight in bag.items() if weight})


def _nothing(question: Question) -> StoredRows:
    return StoredRows(question.relation.schema, bag={})
