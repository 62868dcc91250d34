"""Transactions of a given size, made from the data itself: inserts, deletes and updates of orders and lines."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from itertools import count
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark_bench.harness.database import TableChange, Work

ORDERS_SHARE: Final = 10
"""Of so many changed rows one is an order, the others are lines."""


class Changes:
    """Makes the same transactions for the same seed. A row of the data is used once at most."""

    def __init__(self, orders: pa.Table, lines: pa.Table, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._orders, self._lines = orders, lines
        self._used: dict[int, set[int]] = {id(orders): set(), id(lines): set()}
        self._next_order = count(1 + pc.max(orders["o_orderkey"]).as_py())
        self._next_line = count(100)
        self._turn, self._small = count(), count()

    def transaction(self, size: int) -> Work:
        """So many changed rows, a third each of inserts, deletes and updates.

        Where there are too few for that, the kinds take turns; of the smallest, every fourth changes an order.
        """
        orders = size // ORDERS_SHARE or int(next(self._small) % 4 == 3)
        work = {"orders": self._of_orders(orders), "lineitem": self._of_lines(size - orders)}
        return {table: change for table, change in work.items() if change.delete.num_rows or change.insert.num_rows}

    def lines(self, size: int) -> Work:
        """So many changed lines, and nothing else."""
        return {"lineitem": self._of_lines(size)}

    def _of_orders(self, size: int) -> TableChange:
        updated, deleted, inserted = self._split(size)
        before = self._taken(self._orders, updated)
        fresh = self._copied(self._orders, inserted)
        fresh = _replaced(fresh, "o_orderkey", [next(self._next_order) for _ in range(inserted)])
        gone = self._taken(self._orders, deleted)
        return TableChange(pa.concat_tables([before, gone]), pa.concat_tables([_a_day_later(before), fresh]))

    def _of_lines(self, size: int) -> TableChange:
        updated, deleted, inserted = self._split(size)
        before = self._taken(self._lines, updated)
        # New lines of orders that exist; a number of their own keeps them apart from the lines there.
        fresh = self._copied(self._lines, inserted)
        fresh = _replaced(fresh, "l_linenumber", [next(self._next_line) for _ in range(inserted)])
        gone = self._taken(self._lines, deleted)
        return TableChange(pa.concat_tables([before, gone]), pa.concat_tables([a_cent_dearer(before), fresh]))

    def _split(self, size: int) -> tuple[int, int, int]:
        """Updates, deletes and inserts."""
        third = size // 3
        rest = [0, 0, 0]
        rest[next(self._turn) % 3] = size - 3 * third
        return third + rest[0], third + rest[1], third + rest[2]

    def _taken(self, table: pa.Table, count: int) -> pa.Table:
        used, positions = self._used[id(table)], list[int]()
        while len(positions) < count:
            position = self._random.randrange(table.num_rows)
            if position not in used:
                used.add(position)
                positions.append(position)
        return table.take(pa.array(positions, pa.int64()))

    def _copied(self, table: pa.Table, count: int) -> pa.Table:
        return table.take(pa.array([self._random.randrange(table.num_rows) for _ in range(count)], pa.int64()))


def enough(lines: int, size: int, repeats: int) -> bool:
    """Whether the data has rows for so many transactions, with much to spare."""
    return size * repeats * 4 <= lines


def a_cent_dearer(lines: pa.Table) -> pa.Table:
    return _changed(lines, "l_extendedprice", lambda column: pc.add(column, pa.scalar(Decimal("0.01"), column.type)))


def _a_day_later(orders: pa.Table) -> pa.Table:
    day = pa.scalar(dt.timedelta(days=1))
    return _changed(orders, "o_orderdate", lambda column: pc.add(column.cast(pa.timestamp("s")), day))


def _changed(table: pa.Table, name: str, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> pa.Table:
    field = table.schema.field(name)
    return table.set_column(table.column_names.index(name), field, change(table[name]).cast(field.type))


def _replaced(table: pa.Table, name: str, values: list[int]) -> pa.Table:
    field = table.schema.field(name)
    return table.set_column(table.column_names.index(name), field, pa.array(values, field.type))
