"""What of the tables below matters to a view: that is all that is shipped of them, and all that is held elsewhere.

    held = the rows that pass the filter, with NULL in columns that nobody reads

A row for which the filter is not true has no effect on the view (``analysis.relevance``), and neither have those
columns (``algebra.reading``).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidemark.algebra.expressions import Expression, columns_of
from tidemark.algebra.plans import Filter, Given
from tidemark.algebra.reading import Columns
from tidemark.algebra.types import WEIGHT, Schema
from tidemark.analysis.wording import plain
from tidemark.engines.base import Engine
from tidemark.log import deltas as delta_tables
from tidemark.network.relevance import ROWS, passing


@dataclass(frozen=True)
class Part:
    """What of a table matters: some of its columns, and only rows that pass the filter, if there is one.

    ``schema`` has the columns of the table that are seen at all.
    """

    schema: Schema
    columns: Columns
    filter: Expression | None

    @property
    def filtered_by(self) -> Columns:
        """The columns that the filter reads."""
        return frozenset() if self.filter is None else columns_of(self.filter)

    @property
    def words(self) -> str:
        return "" if self.filter is None else plain(self.filter)

    def of(self, entries: pa.Table, engine: Engine) -> pa.Table:
        """The entries of a table that matter, net, as they are shipped: the columns that are held, and the weight."""
        entries = entries.select([*range(len(self.schema)), entries.num_columns - 1])
        if self.filter is not None:
            entries = passing(entries, Filter(Given(ROWS, self.schema), self.filter), engine)
        held = shipped(self.schema, self.columns)
        return delta_tables.net(nulled(entries, self.columns)).select(held.names).cast(held)


def nulled(entries: pa.Table, columns: Columns) -> pa.Table:
    """The entries with NULL in the other columns."""
    for position in range(entries.num_columns - 1):
        if position not in columns:
            field = entries.schema.field(position)
            empty = pa.nulls(entries.num_rows, field.type)
            entries = entries.set_column(position, pa.field(field.name, field.type), empty)
    return entries


def shipped(schema: Schema, columns: Columns) -> pa.Schema:
    """The columns in which what is held is shipped."""
    return pa.schema([*(schema.arrow.field(position) for position in sorted(columns)), schema.weighted.field(WEIGHT)])


def restored(entries: pa.Table, schema: Schema, columns: Columns) -> pa.Table:
    """Entries that were shipped, as entries of the whole table."""
    for position, field in enumerate(schema.fields):
        if position not in columns:
            entries = entries.add_column(position, field.name, pa.nulls(entries.num_rows, field.type.arrow))
    return entries.cast(schema.weighted)
