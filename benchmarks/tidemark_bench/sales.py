"""Sales of customers: the tables of these benchmarks, the query over them, and small transactions."""

from __future__ import annotations

from typing import Final

from tidemark.errors import TidemarkError
from tidemark.session import Database, connect

CLOCK: Final = "Times are by the clock, until the commit is durable; nothing else runs in the process."
DEFINITION: Final = (
    "SELECT c.region, COUNT(*) AS sales, SUM(s.amount) AS amount FROM sale s JOIN customer c ON c.id = s.customer "
    "WHERE s.amount > 10 GROUP BY c.region"
)
CUSTOMERS: Final = 1000
SETUP: Final = """
CREATE TABLE customer (id INT PRIMARY KEY, region INT);
CREATE TABLE sale (id INT PRIMARY KEY, customer INT, amount INT);
"""


def filled(target: str, rows: int) -> Database:
    """A database with sales of customers."""
    database = connect(target)
    database.execute(SETUP)
    database.insert("customer", [(i, i % 50) for i in range(CUSTOMERS)])
    step = 200_000
    for start in range(0, rows, step):
        some = range(start, min(start + step, rows))
        database.insert("sale", [(i, i % CUSTOMERS, (i * 7919) % 1000) for i in some])
    return database


def change(database: Database, number: int, rows: int) -> None:
    """A small transaction: a sale comes, an old one goes or is corrected."""
    with database.transaction() as transaction:
        transaction.insert("sale", [(rows + number, number % CUSTOMERS, number % 1000)])
        if number % 3 == 0:
            old = rows + number - 30
            transaction.execute(f"DELETE FROM sale WHERE id = {old}")
        elif number % 3 == 1:
            transaction.execute(f"UPDATE sale SET amount = {number % 977} WHERE id = {(number * 31) % max(1, rows)}")


def must_be_equal(database: Database, name: str) -> None:
    """Figures of wrong answers are worth nothing."""
    stored, expected = database.query(f"SELECT * FROM {name}"), database.query(DEFINITION)
    if sorted(stored.to_pylist(), key=str) != sorted(expected.to_pylist(), key=str):
        raise TidemarkError("internal", f"{name} differs from its definition")
