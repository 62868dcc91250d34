"""Deltas as Arrow tables: the columns of a relation and ``_weight``, one entry per distinct row when net.

Between Arrow tables, columns and plain rows. ``Rows`` are weighted rows in the form that is wanted: a bag for compiled
steps over rows, a batch for those over columns, a table for Arrow, for a statement and for what is stored. What one
step of a small transaction gives out as a table, the next one wants as a bag, so a table of a few rows remembers the
bag that it was made of.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.cache import lazy
from tidemark.algebra.expressions import Value
from tidemark.algebra.functions import canonical
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.storage.batches import Batch, codes


def with_codes(table: pa.Table) -> pa.Table:
    """The table with codes instead of arrays and structs."""
    for position, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            table = table.set_column(position, field.name, codes(table.column(position)))
    return table


def without_codes(coded: pa.Table, origin: pa.Table) -> pa.Table:
    """The table with its values again, taken from the one that the codes were made of, whose columns are the first."""
    for position, field in enumerate(origin.schema):
        if pa.types.is_nested(field.type):
            arrays = origin.column(position).take(coded.column(position))
            coded = coded.set_column(position, field.name, arrays)
    return coded


def distinct_values(column: pa.ChunkedArray) -> int:
    """How many different values a column has, NULL not counted; of arrays and structs none is said to be."""
    return 0 if pa.types.is_nested(column.type) else int(pc.count_distinct(column).as_py())


FEW: Final = 64
"""Up to so many entries are looked at one by one: calling Arrow costs more than that."""


MANY: Final = 1_000
"""More entries than these are left to Arrow, although they are there as a bag, too."""


def no_change(schema: Schema) -> pa.Table:
    return schema.weighted.empty_table()


def extended(table: pa.Table, schema: Schema, values: Sequence[Value], *, is_weighted: bool = True) -> pa.Table:
    """Entries (or plain rows) with the last columns of the schema that they lack, each filled with its value.

    ``values`` are those of the schema's last columns; as many of them are taken as columns are missing.
    """
    width = table.num_columns - (1 if is_weighted else 0)
    for position in range(width, len(schema)):
        field = schema[position]
        filled = pa.repeat(pa.scalar(values[position - len(schema)], field.type.arrow), table.num_rows)
        table = table.add_column(position, field.name, filled)
    return table


def net(table: pa.Table) -> pa.Table:
    """Delta-union in one table: weights of equal rows added up, rows that cancel dropped.

    >>> t = pa.table({"a": [1, 1, 2], "_weight": pa.array([1, -1, 2], pa.int64())})
    >>> net(t).to_pylist()
    [{'a': 2, '_weight': 2}]
    """
    if table.num_rows <= 1:
        return table
    if table.num_rows <= FEW and not any(has_forms(type_) for type_ in table.schema.types):
        return _net_of_few(table)
    if table.num_rows > MANY and _are_told_apart(table):
        weights = table.column(table.num_columns - 1)
        return table if pc.all(pc.not_equal(weights, 0)).as_py() else table.filter(pc.not_equal(weights, 0))
    # Positional names, because a result may carry the same name twice and Arrow groups by name.
    names = [f"c{i}" for i in range(table.num_columns - 1)]
    positional = table.rename_columns([*names, WEIGHT]).combine_chunks()
    summed = with_codes(positional).group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    summed = summed.select([*names, f"{WEIGHT}_sum"])
    kept = summed.filter(pc.not_equal(summed.column(len(names)), 0))
    return without_codes(kept, positional).rename_columns(table.schema.names).cast(table.schema)


TELLING: Final = 4
"""So many columns of numbers tell most rows apart, if any do."""


def _are_told_apart(table: pa.Table) -> bool:
    """Whether a few columns of numbers, which are quick to compare, show that no row is there twice."""
    columns = [i for i, type_ in enumerate(table.schema.types[:-1]) if pa.types.is_integer(type_)][:TELLING]
    if not columns or len(columns) == table.num_columns - 1:
        return False
    first = table.column(columns[0])
    if len(columns) == 1:
        return bool(pc.count_distinct(first, mode="all").as_py() == table.num_rows)
    told = pa.table([table.column(i) for i in columns], [str(i) for i in columns]).combine_chunks()
    groups = told.group_by(told.column_names, use_threads=False).aggregate([])
    return bool(groups.num_rows == table.num_rows)


def has_forms(type_: pa.DataType) -> bool:
    """Whether equal values of a type may differ as Python values."""
    return bool(pa.types.is_nested(type_) or pa.types.is_floating(type_))


def _net_of_few(table: pa.Table) -> pa.Table:
    totals: dict[tuple[object, ...], list[int]] = {}
    before = weights(table)
    columns = [column.to_pylist() for column in table.columns[:-1]]
    rows = zip(*columns, strict=True) if columns else ((),) * table.num_rows
    for place, (row, weight) in enumerate(zip(rows, before, strict=True)):
        totals.setdefault(row, [place, 0])[1] += weight
    kept = [(place, weight) for place, weight in totals.values() if weight]
    if [weight for _, weight in kept] == before:
        return table
    chosen = table.take(pa.array([place for place, _ in kept], pa.int64()))
    return chosen.set_column(table.num_columns - 1, WEIGHT, pa.array([weight for _, weight in kept], pa.int64()))


def weights(table: pa.Table) -> list[int]:
    """The weights of a delta's entries."""
    listed: list[int] = table.column(table.num_columns - 1).to_pylist()
    return listed


def combine(*tables: pa.Table) -> pa.Table:
    """The deltas of several blocks, one after the other, as one net delta."""
    return net(pa.concat_tables(tables))


def negated(table: pa.Table) -> pa.Table:
    position = table.num_columns - 1
    return table.set_column(position, WEIGHT, pc.negate(table.column(position)))


def weighted(rows: pa.Table, weight: int = 1) -> pa.Table:
    """The rows, each with the given weight (not yet net)."""
    return rows.append_column(WEIGHT, pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows))


def inserted(table: pa.Table) -> pa.Table:
    """The entries of positive weight, as they are; the same table if all are."""
    if table.num_rows <= FEW:
        return _chosen(table, [weight > 0 for weight in weights(table)])
    return table.filter(pc.greater(table.column(table.num_columns - 1), 0))


def deleted(table: pa.Table) -> pa.Table:
    """The entries of negative weight, as they are; the same table if all are."""
    if table.num_rows <= FEW:
        return _chosen(table, [weight < 0 for weight in weights(table)])
    return table.filter(pc.less(table.column(table.num_columns - 1), 0))


def _chosen(table: pa.Table, choice: list[bool]) -> pa.Table:
    if all(choice):
        return table
    return table.filter(pa.array(choice, pa.bool_())) if any(choice) else table.slice(0, 0)


def expand(table: pa.Table) -> pa.Table:
    """The rows without the weight column, each as often as its weight's absolute value says."""
    weights = pc.abs(table.column(table.num_columns - 1))
    rows = table.select(list(range(table.num_columns - 1)))
    if table.num_rows == 0 or pc.max(weights).as_py() == 1:
        return rows
    return rows.take(pa.array(expanded_positions(table), pa.int64()))


def expanded_positions(table: pa.Table) -> list[int]:
    """The position of each entry, as often as its weight's absolute value says."""
    weights = pc.abs(table.column(table.num_columns - 1)).to_pylist()
    return [position for position, weight in enumerate(weights) for _ in range(weight)]


def by_version(stamped: pa.Table) -> list[tuple[int, pa.Table]]:
    """Logged entries (columns, ``_version``, ``_weight``) as a delta for each version, in order."""
    column = stamped.column(VERSION)
    versions = sorted(pc.unique(column).to_pylist())
    return [(v, stamped.filter(pc.equal(column, v)).drop_columns([VERSION])) for v in versions]


def size(table: pa.Table) -> int:
    """How many rows the delta adds and removes in all."""
    if table.num_rows <= FEW:
        return sum(map(abs, weights(table)))
    return int(pc.sum(pc.abs(table.column(table.num_columns - 1))).as_py() or 0)


def growth(table: pa.Table) -> int:
    """By how many rows the relation grows."""
    if table.num_rows <= FEW:
        return sum(weights(table))
    return int(pc.sum(table.column(table.num_columns - 1)).as_py() or 0)


def to_bag(table: pa.Table) -> dict[Row, int]:
    """A weighted table as a bag."""
    result: dict[Row, int] = {}
    for row, weight in zip(to_rows(table.select(range(table.num_columns - 1))), table[WEIGHT].to_pylist(), strict=True):
        result[row] = result.get(row, 0) + weight
    return {row: weight for row, weight in result.items() if weight}


def to_rows(table: pa.Table) -> list[Row]:
    columns = [values_of(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def values_of(column: pa.ChunkedArray | pa.Array) -> list[Value]:
    """The values of a column; only floating point, arrays and structs have more than one form."""
    values: list[Value] = column.to_pylist()
    has_forms = pa.types.is_floating(column.type) or pa.types.is_nested(column.type)
    return [canonical(value) for value in values] if has_forms else values


def from_rows(rows: Iterable[Row], schema: Schema) -> pa.Table:
    listed = list(rows)
    columns = _columns(listed) if listed else [()] * len(schema)
    arrays = [pa.array(column, field.type.arrow) for column, field in zip(columns, schema.fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema.arrow)


def _columns(rows: Sequence[Row]) -> Sequence[Sequence[Value]]:
    """The values of some rows by column. Many rows are not zipped: that takes an iterator for each of them."""
    if len(rows) <= MANY:
        return list(zip(*rows, strict=True))
    return [[row[place] for row in rows] for place in range(len(rows[0]))]


def from_bag(bag: Mapping[Row, int], schema: Schema) -> pa.Table:
    return from_rows(bag.keys(), schema).append_column(WEIGHT, pa.array(list(bag.values()), pa.int64()))


Bag: TypeAlias = dict[Row, int]

_made_of: Final[dict[int, tuple[weakref.ref[pa.Table], Bag]]] = {}
"""The bags that tables were made of, by the identity of a table, as long as it lives."""


MOST_ADDED: Final = 4_096
"""Changes of so many entries are added up row by row."""


Entry: TypeAlias = tuple[Row, int]
NetRows: TypeAlias = Bag | list[Entry]
"""Net rows, no row twice and no weight zero: as a bag, or as a list where none was needed to see that they differ. To
put a row into a bag is to hash all of its values."""


def entries_of(rows: NetRows) -> Collection[Entry]:
    return rows.items() if isinstance(rows, dict) else rows


def as_bag(rows: NetRows) -> Bag:
    return rows if isinstance(rows, dict) else dict(rows)


class Rows:
    """Rows of a relation, perhaps several entries for one row. The form that is not there is made when it is wanted."""

    def __init__(
        self,
        schema: Schema | pa.Schema | None,
        *,
        bag: Bag | None = None,
        table: pa.Table | None = None,
        batch: Batch | None = None,
        listed: list[Entry] | None = None,
    ) -> None:
        """A batch is net, and so is a list of entries, as a bag is."""
        self._schema = schema
        self._listed = listed
        if bag is not None:
            self.bag = bag
        if table is not None:
            self.table = table
        if batch is not None:
            self.batch = batch
        known = bag if bag is not None else listed if listed is not None else batch
        self.count: int = len(known) if known is not None else table.num_rows  # type: ignore[union-attr]
        """How many entries there are; 0 if and only if there is no row, of rows that are net."""

    is_by_reference = False
    """Whether rows lie in files, and are better left there."""

    def joined(self, others: Sequence[Rows]) -> Rows | None:
        """With others, without a look at any row; None if that cannot be."""
        return None

    @classmethod
    def of(cls, table: pa.Table) -> Rows:
        return cls(None, table=table)

    @lazy
    def bag(self) -> Bag:
        return bag_of(self.table) if self._listed is None else dict(self._listed)

    @property
    def net(self) -> NetRows:
        """The net rows as they are there."""
        return self.bag if self._listed is None or "bag" in self.__dict__ else self._listed

    @lazy
    def table(self) -> pa.Table:
        if not self.is_bag:
            return self.batch.table(self.arrow)
        return _table_of(self.bag, self.arrow) if self.count <= FEW else _from_entries(entries_of(self.net), self.arrow)

    @lazy
    def batch(self) -> Batch:
        return Batch.of(self.table, is_net=self.is_bag or self._listed is not None).net()

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the table, with the weight."""
        if self._schema is None:
            schema: pa.Schema = self.table.schema
            return schema
        return self._schema.weighted if isinstance(self._schema, Schema) else self._schema

    @lazy
    def size(self) -> int:
        """How many rows a delta adds and removes in all."""
        return sum([abs(weight) for _, weight in entries_of(self.net)]) if self.is_bag else size(self.table)

    def inserted(self) -> Rows:
        """The entries of positive weight; the same rows if all are."""
        return self.at_least(1)

    def at_least(self, weight: int) -> Rows:
        """The entries of so much weight, or more; the same rows if all are."""
        if self.is_few:
            kept = [entry for entry in entries_of(self.net) if entry[1] >= weight]
            return self if len(kept) == self.count else self.chosen(kept)
        weights = self.table.column(self.table.num_columns - 1)
        if pc.min(weights).as_py() >= weight:
            return self
        return Rows.of(self.table.filter(pc.greater_equal(weights, weight)))

    def chosen(self, some: NetRows) -> Rows:
        """Some of the entries."""
        return Rows(self.arrow, bag=some) if isinstance(some, dict) else Rows(self.arrow, listed=some)

    @property
    def is_bag(self) -> bool:
        """Whether the rows are there as Python values."""
        return self._listed is not None or "bag" in self.__dict__

    @property
    def is_batch(self) -> bool:
        """Whether the batch is there."""
        return "batch" in self.__dict__

    def negated(self) -> Rows:
        """The opposite change."""
        if self.is_bag:
            return self.chosen([(row, -weight) for row, weight in entries_of(self.net)])
        return Rows(self._schema, table=negated(self.table))

    @staticmethod
    def together(parts: Sequence[Rows]) -> Rows:
        """Several changes of one relation as one, net. Those of few rows are added up without Arrow."""
        if len(parts) == 1:
            return parts[0]
        if (joined := parts[0].joined(parts[1:])) is not None:
            return joined
        if sum(part.count for part in parts) > MOST_ADDED:
            return Rows(parts[0].arrow, table=combine(*[part.table for part in parts]))
        total: Bag = {}
        for part in parts:
            for row, weight in entries_of(part.net):
                total[row] = total.get(row, 0) + weight
        return parts[0].chosen({row: weight for row, weight in total.items() if weight})

    def has_null(self, columns: Collection[int]) -> bool:
        """Whether a row has no value in one of these columns."""
        if self.is_table:
            return any(self.table.column(column).null_count for column in columns)
        lacking = [row for row, _ in entries_of(self.net) if None in row]
        return any(row[column] is None for row in lacking for column in columns)

    @lazy
    def growth(self) -> int:
        """By how many rows the relation grows."""
        return sum([weight for _, weight in entries_of(self.net)]) if self.is_bag else growth(self.table)

    @property
    def is_table(self) -> bool:
        return "table" in self.__dict__

    @property
    def is_only_bag(self) -> bool:
        return self.is_bag and not self.is_table and not self.is_batch

    @property
    def is_few(self) -> bool:
        """Whether entries are best looked at one by one: the bag is there, or there are so few that calling Arrow would
        cost more."""
        return self.count <= FEW or self.is_only_bag or (self.is_bag and self.count <= MANY)


class Tables(Mapping[str, pa.Table]):
    """Rows by name, as tables, each of which is made when it is asked for."""

    def __init__(self, rows: Mapping[str, Rows]) -> None:
        self.rows = rows

    def __getitem__(self, name: str) -> pa.Table:
        return self.rows[name].table

    def __contains__(self, name: object) -> bool:
        return name in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def is_same(one: Mapping[str, pa.Table], other: Mapping[str, pa.Table], name: str) -> bool:
    """Whether both have the very same rows under a name, or none."""
    if isinstance(one, Tables) and isinstance(other, Tables):
        return one.rows.get(name) is other.rows.get(name)
    return one.get(name) is other.get(name)


def as_rows(tables: Mapping[str, pa.Table]) -> Mapping[str, Rows]:
    """Tables by name, as rows: those that were made of rows are these again."""
    if isinstance(tables, Tables):
        return tables.rows
    return {name: Rows.of(table) for name, table in tables.items()}


def table_of(bag: Bag, schema: Schema) -> pa.Table:
    """A net bag as a table. The bag is not changed any more.

    >>> from tidemark.algebra.types import INT, Field
    >>> bag = {(1,): 2}
    >>> bag_of(table_of(bag, Schema((Field("a", INT),)))) is bag
    True
    """
    return _table_of(bag, schema.weighted)


def _from_entries(entries: Collection[Entry], weighted: pa.Schema) -> pa.Table:
    rows, weights = zip(*entries, strict=True) if entries else ((), ())
    columns = [*(zip(*rows, strict=True) if rows else [()] * (len(weighted) - 1)), weights]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, weighted, strict=True)]
    return pa.Table.from_arrays(arrays, schema=weighted)


def _table_of(bag: Bag, weighted: pa.Schema) -> pa.Table:
    table = _from_entries(bag.items(), weighted)
    # Floating point, arrays and structs have several forms, of which the table's way back gives one.
    if len(bag) <= FEW and not any(map(has_forms, weighted.types)):
        key = id(table)
        # No function of ours is called when the table goes: Ctrl-C would be lost in it.
        _made_of[key] = (weakref.ref(table, partial(_made_of.pop, key)), bag)
    return table


def bag_of(table: pa.Table) -> Bag:
    """A weighted table as a net bag, which is not to be changed."""
    kept = _made_of.get(id(table))
    return kept[1] if kept is not None and kept[0]() is table else to_bag(table)
