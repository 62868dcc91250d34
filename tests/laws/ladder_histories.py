"""Random views and transactions over keyed and unkeyed tables, made so that every step of the ladder is taken.

Values are few, so that rows meet, keys come back and conditions are just met or just missed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

TABLES = """
CREATE TABLE r (k INT PRIMARY KEY, a INT, b INT CHECK (b >= 0), note VARCHAR);
CREATE TABLE s (k INT, j INT, c INT, d DECIMAL(6,2), PRIMARY KEY (k, j));
CREATE TABLE u (a INT, x INT NOT NULL, f DOUBLE, m VARCHAR);
"""
NAMES = ("r", "s", "u")

SHAPES = (
    "SELECT k, a, b FROM r WHERE {r}",
    "SELECT a, x FROM u WHERE {u}",
    "SELECT r.k, r.note, s.j, s.c FROM r JOIN s ON r.k = s.k WHERE {r} AND {s}",
    "SELECT r.k, r.a, u.x FROM r JOIN u ON r.a = u.a WHERE {r}",
    "SELECT u.a, u.m, r.k, r.b FROM u JOIN r ON u.a = r.k WHERE {u}",
    "SELECT r.k, r.b + s.c AS t FROM r JOIN s ON r.a = s.j AND r.b < s.c WHERE {s}",
    "SELECT x.k, y.k AS l FROM r x JOIN r y ON x.a = y.a WHERE {rx}",
    "SELECT x.k, y.k AS l, x.note FROM r x JOIN r y ON x.a = y.b AND x.b < y.a",
    "SELECT x.a, y.x FROM u x JOIN u y ON x.a = y.x WHERE {ux}",
    "SELECT r.k, r.note, u.x FROM r LEFT JOIN u ON r.a = u.a AND {u} WHERE {r}",
    "SELECT u.a, u.x, r.k, r.b FROM u LEFT JOIN r ON u.a = r.k AND {r}",
    "SELECT r.k, s.j, s.c FROM r RIGHT JOIN s ON r.k = s.k WHERE {s}",
    "SELECT r.k, u.x FROM r FULL JOIN u ON r.a = u.a AND r.b = u.x",
    "SELECT k, b FROM r WHERE {r} AND EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND {s})",
    "SELECT k, note FROM r WHERE {r} AND NOT EXISTS (SELECT 1 FROM u WHERE u.a = r.a AND {u})",
    "SELECT a, x FROM u WHERE a IN (SELECT k FROM r WHERE {r})",
    "SELECT k FROM r WHERE a NOT IN (SELECT x FROM u WHERE {u})",
    "SELECT k, (SELECT MAX(c) FROM s WHERE s.k = r.k) AS top FROM r WHERE {r}",
    "SELECT a, COUNT(*) AS n, SUM(b) AS t FROM r WHERE {r} GROUP BY a",
    "SELECT a, COUNT(*) AS n, MIN(b) AS lo, MAX(k) AS hi FROM r WHERE {r} GROUP BY a",
    "SELECT m, SUM(f) AS t, COUNT(f) AS n FROM u WHERE {u} GROUP BY m",
    "SELECT r.k, r.a, COUNT(*) AS n, SUM(s.c) AS t FROM r JOIN s ON r.k = s.k WHERE {s} GROUP BY r.k, r.a",
    "SELECT r.k, s.j, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k, s.j HAVING COUNT(*) > 0 AND s.j < {n}",
    "SELECT s.k, MIN(r.b) AS lo, SUM(s.d) AS t FROM s JOIN r ON r.a = s.k WHERE {r} GROUP BY s.k",
    "SELECT COUNT(*) AS n, SUM(c) AS t FROM s WHERE {s}",
    "SELECT AVG(b) AS t, COUNT(DISTINCT a) AS n FROM r WHERE {r}",
    "SELECT DISTINCT a, b FROM r WHERE {r}",
    "SELECT DISTINCT r.a, s.j FROM r JOIN s ON r.k = s.k WHERE {s}",
    "SELECT DISTINCT u.m, r.k, r.b FROM u JOIN r ON u.a = r.k",
    "SELECT a, b FROM r WHERE {r} UNION ALL SELECT a, x FROM u WHERE {u}",
    "SELECT a FROM r WHERE {r} UNION SELECT k FROM s WHERE {s}",
    "SELECT a FROM r WHERE {r} EXCEPT ALL SELECT a FROM u WHERE {u}",
    "SELECT a, b FROM r EXCEPT SELECT k, j FROM s WHERE {s}",
    "SELECT a FROM r INTERSECT ALL SELECT x FROM u WHERE {u}",
    "SELECT k, a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, k) AS n FROM r WHERE {r}",
    "SELECT k, SUM(b) OVER (PARTITION BY a) AS t FROM r WHERE {r}",
    "SELECT k, b FROM r WHERE {r} ORDER BY b DESC, k LIMIT 3",
    "SELECT DISTINCT ON (a) a, k, b FROM r WHERE {r} ORDER BY a, k",
    "SELECT r.k, CASE WHEN r.b > {n} THEN 'hi' ELSE r.note END AS w FROM r JOIN s ON r.k = s.k AND s.j = {m}",
    "SELECT r.k, s.j FROM r JOIN s ON r.k = s.k JOIN u ON u.a = s.j WHERE {u}",
    "SELECT k, j, d * 2 AS e FROM s WHERE {s} OR d > 1.5",
    "SELECT r.k, r.a, s.j, s.d FROM r, s WHERE r.k = s.k AND r.b = s.c AND r.a > {n}",
    "SELECT COALESCE(note, 'none') AS w, k % 3 AS z FROM r WHERE NOT ({r})",
)
ON_VIEWS = (
    "SELECT DISTINCT * FROM {v}",
    "SELECT COUNT(*) AS n FROM {v}",
    "SELECT * FROM {v} UNION ALL SELECT * FROM {v}",
)


def condition(choice: random.Random, table: str, alias: str = "") -> str:
    """A condition on one table, which some rows meet."""
    columns = {"r": ("k", "a", "b"), "s": ("k", "j", "c"), "u": ("a", "x")}[table]
    name = f"{alias or table}.{choice.choice(columns)}"
    other = f"{alias or table}.{choice.choice(columns)}"
    n = choice.randint(0, 6)
    return choice.choice(
        (
            f"{name} > {n}",
            f"{name} < {n}",
            f"{name} = {n}",
            f"{name} BETWEEN {n} AND {n + 2}",
            f"{name} IS NULL",
            f"{name} IN ({n}, {n + 3})",
            f"({name} > {n} OR {other} < {n - 2})",
            f"({name} < {other} AND {other} < {n + 1})",
            f"{name} IS DISTINCT FROM {n}",
            f"{name} + 1 > {other}",
        )
    )


def definition(choice: random.Random) -> str:
    return filled(choice, choice.choice(SHAPES))


def alike(choice: random.Random, shape: str, count: int) -> list[str]:
    """Definitions of one shape, which differ in their conditions."""
    return [filled(choice, shape) for _ in range(count)]


def filled(choice: random.Random, shape: str) -> str:
    return shape.format(
        r=condition(choice, "r"),
        s=condition(choice, "s"),
        u=condition(choice, "u"),
        rx=condition(choice, "r", "x"),
        ux=condition(choice, "u", "x"),
        n=choice.randint(0, 6),
        m=choice.randint(0, 4),
    )


def tables_of(definition: str) -> list[str]:
    """The tables that a definition names."""
    return [name for name in NAMES if re.search(rf"(FROM|JOIN|,) {name}\b", definition)]


def cell(choice: random.Random, high: int = 6) -> str:
    return "NULL" if choice.random() < 0.12 else str(choice.randint(0, high))


def row(choice: random.Random, table: str) -> str:
    text = choice.choice(("'a'", "'b'", "NULL"))
    match table:
        case "r":
            cells = [str(choice.randint(0, 15)), cell(choice), cell(choice), text]
        case "s":
            amount = choice.choice(("0.50", "1.25", "-2.00", "NULL"))
            cells = [str(choice.randint(0, 6)), str(choice.randint(0, 4)), cell(choice), amount]
        case _:
            cells = [cell(choice), str(choice.randint(0, 6)), choice.choice(("0.5", "-3.25", "1e3", "NULL")), text]
    return f"({', '.join(cells)})"


def _updates(choice: random.Random, table: str) -> str:
    numbers = {"r": ("a", "b"), "s": ("c",), "u": ("a",)}[table]
    silent = {"r": "note = 'z'", "s": "d = d + 1", "u": "m = 'z'"}[table]
    column = choice.choice(numbers)
    return choice.choice(
        (
            silent,
            f"{column} = {cell(choice)}",
            f"{column} = {column} + 1",
            f"{column} = {column}",
            {"r": "k = k + 16", "s": "j = j + 5", "u": "x = x + 1"}[table],
            {"r": "k = 15 - k", "s": "j = 4 - j", "u": "x = COALESCE(a, 0), a = x"}[table],
        )
    )


def statement(choice: random.Random, table: str) -> str:
    match choice.randrange(6):
        case 0 | 1:
            return f"INSERT INTO {table} VALUES {row(choice, table)}"
        case 2:
            return f"INSERT INTO {table} VALUES {row(choice, table)}, {row(choice, table)}"
        case 3:
            return f"DELETE FROM {table} WHERE {condition(choice, table)}"
    return f"UPDATE {table} SET {_updates(choice, table)} WHERE {condition(choice, table)}"


def transaction(choice: random.Random) -> list[str]:
    """One to four statements over one or two tables."""
    tables = choice.sample(NAMES, choice.choice((1, 1, 2)))
    return [statement(choice, choice.choice(tables)) for _ in range(choice.randint(1, 4))]


def first_rows(choice: random.Random) -> Iterator[str]:
    """Statements that fill the tables; one that would violate a key is left out by who runs them."""
    for table in NAMES:
        for _ in range(8):
            yield f"INSERT INTO {table} VALUES {row(choice, table)}"
