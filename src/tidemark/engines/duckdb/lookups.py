"""Look-ups: the rows of a stored relation that have given values in some columns, and where they lie.

What one key finds is remembered while its relation does not change, so that transactions that come back to the same
few rows (of a small table of nations, say) need not ask for them again.

One key is compared with ``=``, which prunes best. More are joined: DuckDB compares a list of literals with every row
that it cannot prune (three times slower from ten keys on), while a join filters what is scanned by the keys' own
values. Keys of simple types are handed over as parameters, which takes half the time of handing over an Arrow table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import duckdb
import pyarrow as pa

from tidemark.algebra.expressions import Literal, Value
from tidemark.algebra.functions import canonical, duckdb_type
from tidemark.algebra.types import WEIGHT, Kind, Schema
from tidemark.engines.duckdb.dialect import compared_text
from tidemark.engines.duckdb.errors import translated
from tidemark.engines.duckdb.given import GivenTables
from tidemark.engines.duckdb.matching import all_match
from tidemark.engines.duckdb.questions import columns_of_keys, columns_shown, few_keys, key_values, names_of, size_of
from tidemark.engines.duckdb.storage import StoredRelation
from tidemark.engines.nearby import MOST_ROWS, Question
from tidemark.engines.reference.evaluate import Bag
from tidemark.engines.rows import Rows
from tidemark.log.codes import distinct_values

MOST_LITERAL_KEYS: Final = 8
"""Up to so many keys are written into the statement; parsing more costs more than handing over an Arrow table."""
MOST_PARAMETERS: Final = 2_000
"""Up to so many keys are parameters; each of them is converted by itself, so that for more Arrow is the better way."""
SIMPLE: Final = frozenset({Kind.INT, Kind.BIGINT, Kind.VARCHAR})
FEW: Final = 64
MOST_FETCHED: Final = 500
"""What few keys find comes as Python values, up to so many rows: that is cheaper than Arrow for a few."""
MOST_KEPT: Final = 64
MOST_ROWS_KEPT: Final = 200_000
MOST_OF_ONE_KEY: Final = 8
MOST_KEYS_REMEMBERED: Final = 1_000
"""Of so many keys what they find is remembered, if that is but a few rows."""
PLACE: Final = "rowid"

_Start = tuple[int, tuple[int, ...]]
_Values = tuple[tuple[int, ...], tuple[int, ...] | None, tuple[Value, ...]]
_Asked = tuple[str, tuple[int, ...], frozenset[_Start], tuple[int, ...] | None]


@dataclass(frozen=True)
class _Statement:
    """A text, and the lists that its parameters stand for."""

    text: str
    parameters: list[list[Value]] = field(default_factory=list)


class StoredRows(Rows):
    """Rows of a stored relation with their places, which hold until the next commit."""

    def __init__(
        self,
        schema: Schema,
        *,
        bag: Bag | None = None,
        table: pa.Table | None = None,
        places: dict[tuple[Value, ...], list[int]] | pa.ChunkedArray | None = None,
    ) -> None:
        super().__init__(schema, bag=bag, table=table)
        self.places = places
        """Row numbers, by row beside a bag or in the order of a table; None if columns were left out."""


class Lookups:
    """Answers questions, and remembers the answers until the stored relations change."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, given: GivenTables, relation_of: Callable[[str], StoredRelation]
    ) -> None:
        self._connection, self._given = connection, given
        self._relation_of = relation_of
        self._kept: dict[_Asked, tuple[tuple[object, ...], StoredRows | None]] = {}
        self._rows_kept = 0
        self._by_value: dict[str, dict[_Values, Bag]] = {}
        self._needed: dict[tuple[str, tuple[int, ...]], frozenset[int]] = {}

    def __call__(self, question: Question) -> Rows | None:
        question = self._widened(question)
        # Deltas are known by their table, what was found by itself. Both are kept, so that none takes their identity.
        known = [(r if isinstance(r, StoredRows) else r.table, columns) for r, columns in question.sources]
        starts = frozenset((id(source), columns) for source, columns in known)
        asked = (question.relation.relation, question.columns, starts, question.needed)
        if asked not in self._kept:
            found = self._find(question)
            if len(self._kept) >= MOST_KEPT or self._rows_kept > MOST_ROWS_KEPT:
                self._release()
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

    def of(self, relation: str) -> Iterator[StoredRows]:
        """What is remembered of a relation with its places."""
        for (name, *_), (_, found) in self._kept.items():
            if name == relation and found is not None and found.places is not None:
                yield found

    def forget(self, changed: Iterable[str]) -> None:
        """These relations have changed, and with any commit the places of rows in others may have too."""
        self._release()
        for relation in changed:
            self._by_value.pop(relation, None)

    def forget_needs(self) -> None:
        """Definitions have changed: who needs which columns is to be seen again."""
        self._needed.clear()

    def _release(self) -> None:
        self._kept.clear()
        self._rows_kept = 0

    def _find(self, question: Question) -> StoredRows | None:
        size = size_of(question)
        if size > MOST_ROWS:
            return None
        try:
            if size > FEW:
                values = key_values(question)
                return self._many(question, self._statement(question, values)) if len(values[0]) else _nothing(question)
            keys = few_keys(question)
            if len(keys) > 1:
                return self._few(question, self._statement(question, columns_of_keys(question, keys)))
            return self._one(question, keys[0]) if keys else _nothing(question)
        except duckdb.Error as error:
            raise translated(error) from error

    def _one(self, question: Question, values: tuple[Value, ...]) -> StoredRows | None:
        """What one key finds, perhaps from an earlier transaction; without places then."""
        remembered = self._by_value.setdefault(question.relation.relation, {})
        key = (question.columns, question.needed, values)
        if key in remembered:
            return StoredRows(question.relation.schema, bag=remembered[key])
        asked = _Statement(self._head(question) + self._where(question, dict(enumerate(values))))
        found = self._few(question, asked)
        if found is not None and found.count <= MOST_OF_ONE_KEY:
            if len(remembered) >= MOST_KEYS_REMEMBERED:
                del remembered[next(iter(remembered))]
            remembered[key] = found.bag
        return found

    def _few(self, question: Question, asked: _Statement) -> StoredRows | None:
        schema, shown = question.relation.schema, columns_shown(question)
        # A limit is not free, and a few keys find no more than a few rows.
        key = self._relation_of(question.relation.relation).key
        is_keyed = bool(key) and set(key) <= set(question.columns)
        limited = asked.text if is_keyed else f"{asked.text} LIMIT {MOST_FETCHED + 1}"
        fetched = self._connection.execute(limited, asked.parameters).fetchall()
        if len(fetched) > MOST_FETCHED:
            return self._many(question, asked)
        is_whole = len(shown) == len(schema)
        has_forms = any(type_.kind is Kind.DOUBLE or type_.is_nested for type_ in schema.types)
        places: dict[tuple[Value, ...], list[int]] = {}
        for *values, place in fetched:
            row = tuple(map(canonical, values)) if has_forms else tuple(values)
            if not is_whole:
                row = tuple(row[shown.index(i)] if i in shown else None for i in range(len(schema)))
            places.setdefault(row, []).append(place)
        bag = {row: len(numbers) for row, numbers in places.items()}
        return StoredRows(schema, bag=bag, places=places if is_whole else None)

    def _many(self, question: Question, asked: _Statement) -> StoredRows | None:
        schema, shown = question.relation.schema, columns_shown(question)
        text = f"{asked.text} LIMIT {MOST_ROWS + 1}"
        found = self._connection.sql(text, params=asked.parameters).to_arrow_table()
        if found.num_rows > MOST_ROWS:
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
        places = found.column(len(shown)) if len(shown) == len(schema) else None
        return StoredRows(schema, table=table, places=places)

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
        place = f"r.{PLACE}" if len(shown) == len(question.relation.schema) else "NULL"
        table = self._relation_of(question.relation.relation).table
        return f"SELECT {', '.join([*names_of(question, shown), place])} FROM {table} AS r"

    def _where(self, question: Question, fixed: Mapping[int, Value]) -> str:
        """Some of the columns have a value each."""
        names = names_of(question, question.columns)
        equal = [f"{names[i]} = {self._literal(question, i, value)}" for i, value in fixed.items()]
        return f" WHERE {' AND '.join(equal)}" if equal else ""

    def _keys(self, question: Question, values: list[pa.ChunkedArray]) -> _Statement:
        """The keys as something to join with; its columns are k0, k1 and so on."""
        names = [f"k{i}" for i in range(len(question.columns))]
        types = [question.relation.schema[column].type for column in question.columns]
        if len(values[0]) <= MOST_PARAMETERS and all(type_.kind in SIMPLE for type_ in types):
            lists = (f"unnest(CAST(${i + 1} AS {duckdb_type(type_)}[])) AS k{i}" for i, type_ in enumerate(types))
            return _Statement(f"(SELECT {', '.join(lists)})", [column.to_pylist() for column in values])
        if len(values[0]) <= MOST_LITERAL_KEYS:
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


def _nothing(question: Question) -> StoredRows:
    return StoredRows(question.relation.schema, bag={}, places={})
