"""The transactions of the queries of TPC-H, and V3 by hand.

Each transaction is followed by its own undoing, so that every query meets the same data and the same changes.

Undoing a transaction is a transaction of the same size, in which inserts have become deletes and deletes inserts. Both
are measured. There are two kinds, of 100 changed rows each:

- *sales* change 10 orders and 90 lines, as the refresh functions of TPC-H do;
- *mixed* ones change 9 orders, 83 lines, 2 customers, 2 parts, 3 rows of partsupp and a supplier. A customer's and a
  supplier's balance, a part's size and a supply's cost are updated; a customer, a part and its supply are new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from itertools import count
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark_bench.changes import Changes
from tidemark_bench.harness.by_hand import ByHand
from tidemark_bench.harness.database import TableChange, Work

SIZE: Final = 100
OTHERS: Final = 8
"""Of the rows of a mixed transaction so many are neither orders nor lines."""
KINDS: Final = ("sales", "mixed")

V3: Final = """
SELECT l_suppkey, MIN(l_extendedprice) AS cheapest, MAX(l_shipdate) AS latest, COUNT(DISTINCT l_partkey) AS parts
FROM lineitem GROUP BY l_suppkey"""
LEAVE: Final = "DELETE FROM v3 WHERE l_suppkey IN (SELECT l_suppkey FROM d_lineitem)"
ENTER: Final = "INSERT INTO v3 " + V3.replace(
    "GROUP BY", "WHERE l_suppkey IN (SELECT l_suppkey FROM d_lineitem) GROUP BY"
)

Tables = Mapping[str, pa.Table]


def transactions(tables: Tables, kind: str) -> Iterator[Work]:
    """Transactions of a kind without end, the same ones each time, each followed by its undoing."""
    changes, others = Changes(tables["orders"], tables["lineitem"]), _Others(tables)
    return undone(
        lambda: changes.transaction(SIZE - OTHERS) | others.next() if kind == "mixed" else changes.transaction(SIZE)
    )


def lines(tables: Tables, size: int) -> Iterator[Work]:
    """Transactions that change so many lines and nothing else, each followed by its undoing."""
    changes = Changes(tables["orders"], tables["lineitem"])
    return undone(lambda: changes.lines(size))


def undone(make: Callable[[], Work]) -> Iterator[Work]:
    while True:
        work = make()
        yield work
        yield {table: TableChange(change.insert, change.delete) for table, change in work.items()}


class _Others:
    """Changes of customers, parts and suppliers: 8 rows at a time, taken one after the other."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._turn = count()
        self._next_customer = count(1 + pc.max(tables["customer"]["c_custkey"]).as_py())
        self._next_part = count(1 + pc.max(tables["part"]["p_partkey"]).as_py())

    def next(self) -> Work:
        turn, part = next(self._turn), next(self._next_part)
        return {
            "customer": self._updated("customer", turn, "c_acctbal", Decimal("0.01"), new=next(self._next_customer)),
            "part": self._updated("part", turn, "p_size", 1, new=part),
            "partsupp": self._updated("partsupp", turn, "ps_supplycost", Decimal("0.01"), rows=2, new=part),
            "supplier": self._updated("supplier", turn, "s_acctbal", Decimal("0.01")),
        }

    def _updated(
        self, name: str, turn: int, column: str, by: Decimal | int, *, rows: int = 1, new: int | None = None
    ) -> TableChange:
        """Some rows with a number that grows, and a new one that is like them but for its key, the first column."""
        table = self._tables[name]
        # A stride that is prime to the number of rows of every scale spreads them over the table.
        start = turn * rows * 7919 % (table.num_rows - rows)
        before = table.slice(start, rows)
        kind = table.schema.field(column).type
        after = _with(before, column, pc.add(before[column], pa.scalar(by, kind)).cast(kind))
        if new is None:
            return TableChange(before, after)
        key = table.schema.field(0)
        return TableChange(
            before, pa.concat_tables([after, _with(before.slice(0, 1), key.name, pa.array([new], key.type))])
        )


def _with(table: pa.Table, column: str, values: pa.ChunkedArray | pa.Array) -> pa.Table:
    position = table.schema.get_field_index(column)
    return table.set_column(position, table.schema.field(position), values)


class SuppliersByHand(ByHand):
    """lineitem and V3, as an expert keeps extrema and distinct counts per supplier on DuckDB.

    The change is applied to lineitem by key, then the suppliers that it names are evaluated again from their lines, and
    replace what the view has of them. Extrema and distinct counts cannot be had from the change alone, and counts per
    supplier and part would be a second table, of 800,000 rows at scale 1, to write to in every transaction.
    """

    def fill(self, tables: Tables) -> None:
        self.load("lineitem", tables["lineitem"])
        self.run(f"CREATE TABLE v3 AS {V3}")
        self._make_delta("lineitem")

    def _apply(self, work: Work) -> int:
        self._fill_delta("lineitem", work["lineitem"])
        return self._change("lineitem", work["lineitem"]) + self.run(LEAVE) + self.run(ENTER)
