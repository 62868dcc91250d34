"""Weighted rows in the form that is wanted: a bag for the interpreter, an Arrow table for a statement.

What one step of a small transaction gives out as a table, the next one wants as a bag, so a table of a few rows
remembers the bag that it was made of.
"""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import Final

import pyarrow as pa

from tidemark.algebra.types import Kind, Schema
from tidemark.engines.reference.arrow import from_bag, to_bag
from tidemark.engines.reference.evaluate import Bag

FEW: Final = 64

_made_of: Final[dict[int, tuple[weakref.ref[pa.Table], Bag]]] = {}
"""The bags that tables were made of, by the identity of a table, as long as it lives."""


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
        return bag_of(self.table)

    @cached_property
    def table(self) -> pa.Table:
        return table_of(self.bag, self.schema)

    def has_null(self, column: int) -> bool:
        if "table" in self.__dict__:
            return bool(self.table.column(column).null_count)
        return any(row[column] is None for row in self.bag)


def table_of(bag: Bag, schema: Schema) -> pa.Table:
    """A net bag as a table. The bag is not changed any more.

    >>> from tidemark.algebra.types import INT, Field
    >>> bag = {(1,): 2}
    >>> bag_of(table_of(bag, Schema((Field("a", INT),)))) is bag
    True
    """
    table = from_bag(bag, schema)
    # Floating point, arrays and structs have several forms, of which the table's way back gives one.
    if len(bag) <= FEW and not any(type_.kind is Kind.DOUBLE or type_.is_nested for type_ in schema.types):
        key = id(table)
        _made_of[key] = (weakref.ref(table, lambda _: _made_of.pop(key, None)), bag)
    return table


def bag_of(table: pa.Table) -> Bag:
    """A weighted table as a net bag, which is not to be changed."""
    kept = _made_of.get(id(table))
    return kept[1] if kept is not None and kept[0]() is table else to_bag(table)
