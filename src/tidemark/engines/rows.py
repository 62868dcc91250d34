"""Weighted rows in the form that is wanted: a bag for the interpreter, an Arrow table for a statement."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from tidemark.algebra.types import Schema
from tidemark.engines.reference.arrow import from_bag, to_bag
from tidemark.engines.reference.evaluate import Bag


class Rows:
    """Rows of a relation, perhaps several entries for one row. The form that is not there is made when it is wanted."""

    def __init__(self, schema: Schema, *, bag: Bag | None = None, table: pa.Table | None = None) -> None:
        self.schema = schema
        if bag is not None:
            self.bag = bag
        if table is not None:
            self.table = table
        self.count: int = len(bag) if bag is not None else table.num_rows  # type: ignore[union-attr]

    @cached_property
    def bag(self) -> Bag:
        return to_bag(self.table)

    @cached_property
    def table(self) -> pa.Table:
        return from_bag(self.bag, self.schema)

    def has_null(self, column: int) -> bool:
        if "table" in self.__dict__:
            return bool(self.table.column(column).null_count)
        return any(row[column] is None for row in self.bag)
