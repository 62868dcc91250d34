"""Small transactions over lines, orders and customers, as statements: each with constants in its text, with parameters,
or with many rows at once.

A transaction of so many rows in so many statements goes round these kinds: a line is updated by its key, an order
comes, lines come to another, all lines of an order are updated, all lines of another one go, an order gets another
date, a customer another segment. The last statement inserts lines, as many as are left to make up the number of rows.
No two statements of a transaction name the same order, so that the order of the statements does not matter.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count, cycle
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

Value = int | str | Decimal | dt.date
Row = tuple[Value, ...]
Call = tuple[str, tuple[Any, ...]]
"""A method, ``execute`` or ``executemany``, and what it is given."""
TEXTS: Final = "texts"
PARAMETERS: Final = "parameters"
MANY: Final = "executemany"

ORDERS: Final = 20_000
"""So many orders take part, all of odd keys. Those of even keys, which have the last one, are left to others."""
LINES_AT_ONCE: Final = 10
UPDATE_LINE: Final = "UPDATE lineitem SET l_extendedprice = ?, l_quantity = ? WHERE l_orderkey = ? AND l_linenumber = ?"
UPDATE_LINES: Final = "UPDATE lineitem SET l_discount = ?, l_returnflag = ? WHERE l_orderkey = ?"
DELETE_LINES: Final = "DELETE FROM lineitem WHERE l_orderkey = ?"
INSERT_LINES: Final = "INSERT INTO lineitem VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_ORDER: Final = "INSERT INTO orders VALUES (?, ?, ?, ?, ?)"
UPDATE_ORDER: Final = "UPDATE orders SET o_orderdate = ? WHERE o_orderkey = ?"
UPDATE_CUSTOMER: Final = "UPDATE customer SET c_mktsegment = ? WHERE c_custkey = ?"
SEGMENTS: Final = ("BUILDING", "MACHINERY", "AUTOMOBILE")


@dataclass(frozen=True)
class Statement:
    """A text with a ``?`` for each value of a row; an INSERT may have several rows."""

    template: str
    rows: tuple[Row, ...]

    def with_parameters(self) -> tuple[str, list[Value]]:
        """One text for all rows, and their values one after the other.

        >>> Statement("INSERT INTO t VALUES (?, ?)", ((1, "a"), (2, "b"))).with_parameters()
        ('INSERT INTO t VALUES (?, ?), (?, ?)', [1, 'a', 2, 'b'])
        """
        more = f", {self.template[self.template.find('(') :]}" * (len(self.rows) - 1)
        return self.template + more, [value for row in self.rows for value in row]

    def text(self) -> str:
        """The text with constants.

        >>> Statement("UPDATE t SET a = ?, d = ?", ((Decimal("1.50"), dt.date(1995, 1, 2)),)).text()
        "UPDATE t SET a = 1.50, d = DATE '1995-01-02'"
        """
        template, values = self.with_parameters()
        first, *rest = template.split("?")
        return first + "".join(_literal(value) + part for value, part in zip(values, rest, strict=True))

    def converted(self, stored: Callable[[Value], Value]) -> Statement:
        """The same with other values."""
        return Statement(self.template, tuple(tuple(map(stored, row)) for row in self.rows))


def calls(statements: Sequence[Statement], way: str) -> list[Call]:
    """What a connection is to be asked, one after the other."""
    if way == TEXTS:
        return [("execute", (statement.text(),)) for statement in statements]
    if way == PARAMETERS:
        return [("execute", statement.with_parameters()) for statement in statements]
    rows: dict[str, list[Row]] = {}
    for statement in statements:
        rows.setdefault(statement.template, []).extend(statement.rows)
    return [("executemany", (template, of_it)) for template, of_it in rows.items()]


def _literal(value: Value) -> str:
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


Counted = tuple[Statement, int]


class Statements:
    """Makes the same transactions for the same seed, and knows which lines each order has by then."""

    def __init__(self, orders: pa.Table, lines: pa.Table, customers: int, seed: int = 7) -> None:
        self._random, self._customers = random.Random(seed), customers
        keys = orders["o_orderkey"].to_pylist()
        odd = [key for key in keys if key % 2]
        chosen = self._random.sample(odd, min(ORDERS, len(odd)))
        some = lines.filter(pc.is_in(lines["l_orderkey"], pa.array(chosen, pa.int64())))
        self._lines: dict[int, list[int]] = {}
        for key, line in zip(some["l_orderkey"].to_pylist(), some["l_linenumber"].to_pylist(), strict=True):
            self._lines.setdefault(key, []).append(line)
        self._orders = list(self._lines)
        self._next_order = count(10_000_000 + 2 * max(keys))
        self._named: set[int] = set()

    def enough(self, statements: int) -> bool:
        """Whether there are orders for so many statements."""
        return 2 * statements < len(self._lines)

    def line(self) -> list[Statement]:
        """A line is updated by its key."""
        self._named.clear()
        return [self._line(1)[0]]

    def transaction(self, rows: int, statements: int) -> list[Statement]:
        """So many changed rows in so many statements."""
        self._named.clear()
        kinds = cycle(
            (self._line, self._order, self._new_lines, self._of_order, self._gone, self._date, self._customer)
        )
        found, left = list[Statement](), rows
        for kind, after in zip(kinds, range(statements - 1, 0, -1), strict=False):
            statement, changed = kind(left - after)
            found.append(statement)
            left -= changed
        return [*found, self._inserted(left)[0]]

    # Each kind gives a statement and the number of rows that it changes, which are at most ``room``.

    def _line(self, room: int) -> Counted:
        order = self._pick()
        row = (self._price(), Decimal(self._random.randint(1, 50)), order, self._random.choice(self._lines[order]))
        return Statement(UPDATE_LINE, (row,)), 1

    def _order(self, room: int) -> Counted:
        key, customer = next(self._next_order), self._random.randint(1, self._customers)
        return Statement(INSERT_ORDER, ((key, customer, "O", self._price(), self._day()),)), 1

    def _new_lines(self, room: int) -> Counted:
        return self._inserted(min(room, LINES_AT_ONCE))

    def _of_order(self, room: int) -> Counted:
        order = self._pick()
        if len(self._lines[order]) > room:
            return self._line(room)
        return Statement(UPDATE_LINES, ((self._discount(), "R", order),)), len(self._lines[order])

    def _gone(self, room: int) -> Counted:
        order = self._pick()
        if len(self._lines[order]) > room:
            return self._line(room)
        return Statement(DELETE_LINES, ((order,),)), len(self._lines.pop(order))

    def _date(self, room: int) -> Counted:
        return Statement(UPDATE_ORDER, ((self._day(), self._pick()),)), 1

    def _customer(self, room: int) -> Counted:
        row = self._random.choice(SEGMENTS), self._random.randint(1, self._customers)
        return Statement(UPDATE_CUSTOMER, (row,)), 1

    def _inserted(self, count: int) -> Counted:
        order = self._pick()
        first = 1 + max(self._lines[order])
        fresh = range(first, first + count)
        self._lines[order] += fresh
        rows = (
            (order, n, Decimal(n % 50), self._price(), self._discount(), "N", self._day(), "AIR REG") for n in fresh
        )
        return Statement(INSERT_LINES, tuple(rows)), count

    def _pick(self) -> int:
        """An order with lines that no other statement of the transaction names."""
        while (order := self._random.choice(self._orders)) in self._named or order not in self._lines:
            pass
        self._named.add(order)
        return order

    def _price(self) -> Decimal:
        return Decimal(self._random.randrange(100_000, 9_000_000)) / 100

    def _discount(self) -> Decimal:
        return Decimal(self._random.randrange(11)) / 100

    def _day(self) -> dt.date:
        return dt.date(1992, 1, 1) + dt.timedelta(self._random.randrange(2400))
