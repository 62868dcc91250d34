"""Who keeps V1 and V2: Tidemark, SQLite with triggers that are written by hand, and plain DuckDB, which computes both
again. Each in a durable file of its own.

SQLite has no decimals and no dates: there, prices are whole cents and days are texts, and the sums are exact.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.session import Database
from tidemark_bench import tpch
from tidemark_bench.core_by_hand import without_keys
from tidemark_bench.harness import database as under_clock
from tidemark_bench.harness.by_hand import ByHand
from tidemark_bench.harness.clock import Spent, spent_on
from tidemark_bench.harness.database import Work
from tidemark_bench.small_workload import Call, Statement, Value, calls

BATCH: Final = 100_000
SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE nation (n_nationkey INTEGER PRIMARY KEY, n_name TEXT NOT NULL);
CREATE TABLE customer (c_custkey INTEGER PRIMARY KEY, c_name TEXT NOT NULL, c_nationkey INTEGER NOT NULL,
    c_mktsegment TEXT NOT NULL);
CREATE TABLE orders (o_orderkey INTEGER PRIMARY KEY, o_custkey INTEGER NOT NULL, o_orderstatus TEXT NOT NULL,
    o_totalprice INTEGER NOT NULL, o_orderdate TEXT NOT NULL);
CREATE TABLE lineitem (l_orderkey INTEGER NOT NULL, l_linenumber INTEGER NOT NULL, l_quantity INTEGER NOT NULL,
    l_extendedprice INTEGER NOT NULL, l_discount INTEGER NOT NULL, l_returnflag TEXT NOT NULL, l_shipdate TEXT NOT NULL,
    l_shipmode TEXT NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber)) WITHOUT ROWID;
CREATE TABLE v1 (c_custkey INTEGER, c_name TEXT, o_orderkey INTEGER, o_orderdate TEXT, l_linenumber INTEGER,
    l_extendedprice INTEGER, PRIMARY KEY (o_orderkey, l_linenumber)) WITHOUT ROWID;
CREATE TABLE v2 (n_name TEXT, year INTEGER, revenue INTEGER, items INTEGER, PRIMARY KEY (n_name, year)) WITHOUT ROWID;
"""
INDEXES: Final = """
CREATE INDEX orders_of_customer ON orders (o_custkey);
CREATE INDEX empty_groups ON v2 (items) WHERE items = 0;
"""
JOINED: Final = "customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey"
ENTER_V1: Final = f"""INSERT INTO v1 SELECT c_custkey, c_name, o_orderkey, o_orderdate, l_linenumber, l_extendedprice
    FROM {JOINED}
    WHERE c_mktsegment = 'BUILDING' AND o_orderdate >= '1995-01-01' AND l_shipdate >= '1995-06-01' AND """
V2: Final = f"""INSERT INTO v2 SELECT n_name, CAST(substr(o_orderdate, 1, 4) AS INTEGER),
        %(sign)s sum(l_extendedprice * (100 - l_discount)), %(sign)s count(*)
    FROM {JOINED} JOIN nation ON n_nationkey = c_nationkey
    WHERE %(these)s GROUP BY 1, 2
    ON CONFLICT DO UPDATE SET revenue = revenue + excluded.revenue, items = items + excluded.items"""
OF_A_ROW: Final = {
    "lineitem": "l_orderkey = {row}.l_orderkey AND l_linenumber = {row}.l_linenumber",
    "orders": "o_orderkey = {row}.o_orderkey",
    "customer": "c_custkey = {row}.c_custkey",
}
"""Of each table, the rows of the join that one of its rows leads to."""
IN_V1: Final = {
    "lineitem": "o_orderkey = OLD.l_orderkey AND l_linenumber = OLD.l_linenumber",
    "orders": "o_orderkey = OLD.o_orderkey",
    "customer": "o_orderkey IN (SELECT o_orderkey FROM orders WHERE o_custkey = OLD.c_custkey)",
}
"""Of each table, the rows of V1 that one of its rows leads to."""
READ: Final = {
    "v1": {
        "lineitem": "l_orderkey, l_linenumber, l_extendedprice, l_shipdate",
        "orders": "o_orderkey, o_custkey, o_orderdate",
        "customer": "c_custkey, c_name, c_mktsegment",
    },
    "v2": {
        "lineitem": "l_orderkey, l_extendedprice, l_discount",
        "orders": "o_orderkey, o_custkey, o_orderdate",
        "customer": "c_custkey, c_nationkey",
    },
}
"""The columns that a view reads: an update of others does not matter to it."""


def triggers() -> Iterator[str]:
    """A row takes what it leads to out of a view before it goes or changes, and puts it in once it is there."""
    for table, these in OF_A_ROW.items():
        old, new = these.format(row="OLD"), these.format(row="NEW")
        leaving = {
            "v1": f"DELETE FROM v1 WHERE {IN_V1[table]}",
            "v2": f"{V2 % {'sign': '-', 'these': old}}; DELETE FROM v2 WHERE items = 0",
        }
        entering = {"v1": ENTER_V1 + new, "v2": V2 % {"sign": "", "these": new}}
        for view, columns in READ.items():
            for event in ("DELETE", f"UPDATE OF {columns[table]}"):
                yield _trigger(f"{view}_{table}_before_{event[:6]}", f"BEFORE {event} ON {table}", leaving[view])
            for event in ("INSERT", f"UPDATE OF {columns[table]}"):
                yield _trigger(f"{view}_{table}_after_{event[:6]}", f"AFTER {event} ON {table}", entering[view])


def _trigger(name: str, moment: str, body: str) -> str:
    return f"CREATE TRIGGER {name} {moment} BEGIN {body}; END"


class Side(Protocol):
    """Somebody who keeps both views, or can have them computed again."""

    def run_statements(self, statements: Sequence[Statement], way: str) -> Spent:
        """Run a durable transaction under the clock; a single call is one by itself."""

    def run_rows(self, work: Work) -> Spent:
        """Run a transaction of whole rows that leave and come."""

    def content(self, view: str) -> pa.Table: ...


class Kept:
    """Tidemark."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def run_statements(self, statements: Sequence[Statement], way: str) -> Spent:
        asked = calls(statements, way)
        return spent_on(lambda: _called(self._database, asked) if len(asked) == 1 else self._together(asked))

    def _together(self, asked: Iterable[Call]) -> None:
        with self._database.transaction() as transaction:
            _called(transaction, asked)

    def run_rows(self, work: Work) -> Spent:
        return under_clock.applied(self._database, work).spent

    def content(self, view: str) -> pa.Table:
        return under_clock.content(self._database, view)


class ByTriggers:
    """SQLite."""

    def __init__(self, path: Path, tables: Mapping[str, pa.Table]) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript(SCHEMA)
        for table, rows in tables.items():
            self._together(_filling(table, rows))
        self._connection.executescript(INDEXES)
        self._together([("execute", (ENTER_V1 + "true",)), ("execute", (V2 % {"sign": "", "these": "true"},))])
        for trigger in triggers():
            self._connection.execute(trigger)
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def run_statements(self, statements: Sequence[Statement], way: str) -> Spent:
        asked = calls([statement.converted(_stored) for statement in statements], way)
        return spent_on(lambda: _called(self._connection, asked) if len(asked) == 1 else self._together(asked))

    def run_rows(self, work: Work) -> Spent:
        asked: list[Call] = []
        for table, change in work.items():
            keys = ("o_orderkey",) if table == "orders" else ("l_orderkey", "l_linenumber")
            gone = list(_rows(change.delete.select(keys)))
            same = " AND ".join(f"{key} = ?" for key in keys)
            asked += [("executemany", (f"DELETE FROM {table} WHERE {same}", gone)), *_filling(table, change.insert)]
        return spent_on(lambda: self._together(asked))

    def _together(self, asked: Iterable[Call]) -> None:
        self._connection.execute("BEGIN")
        try:
            _called(self._connection, asked)
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    def content(self, view: str) -> pa.Table:
        found = self._connection.execute(f"SELECT * FROM {view}")
        names, rows = [column[0] for column in found.description], found.fetchall()
        table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})
        for name, unit in {"l_extendedprice": "0.01", "revenue": "0.0001"}.items():
            if name in names:
                exact = pc.multiply(table[name].cast(pa.decimal128(19, 0)), pa.scalar(Decimal(unit)))
                table = table.set_column(names.index(name), name, exact)
        if "o_orderdate" in names:
            place = names.index("o_orderdate")
            table = table.set_column(place, "o_orderdate", table["o_orderdate"].cast(pa.date32()))
        return table

    def close(self) -> None:
        self._connection.close()


class Recomputed(ByHand):
    """DuckDB by itself: the transaction changes the tables, and ``recompute`` makes both views again."""

    def __init__(self, path: Path, tables: Mapping[str, pa.Table]) -> None:
        super().__init__(path)
        for table, rows in tables.items():
            self.load(table, rows, without_keys(table))
        for table in ("orders", "lineitem"):
            self._make_delta(table)

    def run_statements(self, statements: Sequence[Statement], way: str) -> Spent:
        asked = calls(statements, way)
        return spent_on(lambda: self.together(lambda: _called(self._connection, asked)))

    def run_rows(self, work: Work) -> Spent:
        return self.apply(work)[1]

    def _apply(self, work: Work) -> int:
        for table, change in work.items():
            self._fill_delta(table, change)
        return sum(self._change(table, change) for table, change in work.items())

    def recompute(self) -> Spent:
        return spent_on(lambda: self.make_again(tpch.VIEWS))

    def content(self, view: str) -> pa.Table:
        return self.query(f"SELECT * FROM {view}")


def _called(connection: Any, asked: Iterable[Call]) -> None:
    for method, given in asked:
        getattr(connection, method)(*given)


def _filling(table: str, rows: pa.Table) -> Iterator[Call]:
    marks = ", ".join("?" * rows.num_columns)
    for start in range(0, rows.num_rows, BATCH):
        some = list(_rows(rows.slice(start, BATCH)))
        yield "executemany", (f"INSERT INTO {table} VALUES ({marks})", some)


def _rows(table: pa.Table) -> Iterator[tuple[Value, ...]]:
    """The rows as SQLite has them."""
    cents = pa.scalar(100, pa.decimal128(3, 0))
    columns = []
    for column in table.columns:
        if pa.types.is_decimal(column.type):
            column = pc.multiply(column, cents).cast(pa.int64())
        elif pa.types.is_date(column.type):
            column = column.cast(pa.string())
        columns.append(column.to_pylist())
    return zip(*columns, strict=True)


def _stored(value: Value) -> Value:
    if isinstance(value, Decimal):
        return int(value * 100)
    return value.isoformat() if isinstance(value, dt.date) else value
