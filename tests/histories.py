"""Random histories of transactions over two small tables, full of NULLs, duplicates and keys that meet."""

from __future__ import annotations

import random

import tidemark as tm

TABLES = """
CREATE TABLE t (k INT, x INT, d DECIMAL(8,2), f DOUBLE, s VARCHAR, b BOOLEAN);
CREATE TABLE u (k INT, y BIGINT, s VARCHAR);
"""


def literal(choice: random.Random, values: list[str]) -> str:
    return "NULL" if choice.random() < 0.15 else choice.choice(values)


def row_of_t(choice: random.Random) -> str:
    cells = (
        literal(choice, ["1", "2", "3"]),
        literal(choice, ["-2", "0", "1", "1", "4", "7"]),
        literal(choice, ["0.00", "1.50", "-2.25", "10.10"]),
        literal(choice, ["0.1", "0.25", "-3.5", "1e3"]),
        literal(choice, ["'a'", "'b'", "'B'", "''", "'ä'"]),
        literal(choice, ["TRUE", "FALSE"]),
    )
    return f"({', '.join(cells)})"


def row_of_u(choice: random.Random) -> str:
    cells = (
        literal(choice, ["1", "2", "3", "4"]),
        literal(choice, ["0", "1", "4", "5000000000"]),
        literal(choice, ["'a'", "'b'", "'c'"]),
    )
    return f"({', '.join(cells)})"


def statement(choice: random.Random) -> str:
    match choice.randrange(7):
        case 0 | 1:
            rows = ", ".join(row_of_t(choice) for _ in range(choice.randint(1, 5)))
            return f"INSERT INTO t VALUES {rows}"
        case 2:
            rows = ", ".join(row_of_u(choice) for _ in range(choice.randint(1, 4)))
            return f"INSERT INTO u VALUES {rows}"
        case 3:
            return f"DELETE FROM t WHERE x = {choice.choice([-2, 0, 1, 4, 7])}"
        case 4:
            return f"DELETE FROM u WHERE k = {choice.choice([1, 2, 3])}"
        case 5:
            return f"UPDATE t SET x = x + {choice.choice([-1, 1])} WHERE k = {choice.choice([1, 2])}"
    return f"UPDATE u SET k = {choice.choice([1, 2, 3])} WHERE y < 2"


def transaction(db: tm.Database, choice: random.Random, most: int = 4) -> None:
    """One transaction of a few statements on both tables."""
    with db.transaction() as tx:
        for _ in range(choice.randint(1, most)):
            tx.execute(statement(choice))
