"""The kinds of rounds, each aimed at another place where answers have gone wrong. A round is made of a number alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from tests.hunt.steps import Ask, Checkpoint, Define, Load, Reopen, Round, Run, Step
from tests.laws import random_queries

_WIDTHS: Final = {"r": 2, "s": 2, "t": 1, "w": 3}


def round_of(seed: int, *, large: bool) -> tuple[str, Round]:
    """The kind and the round of a number; ``large`` ones may have hundreds of thousands of rows."""
    choice = random.Random(seed)
    kind = choice.choice(list(KINDS))
    if kind == "pruned":
        return kind, pruned(choice, large=large and choice.random() < 0.15)
    return kind, KINDS[kind](choice)


def _how(choice: random.Random) -> str:
    return choice.choice(("MATERIALIZED VIEW",) * 6 + ("EXTERNAL VIEW", "SNAPSHOT"))


def _pause(choice: random.Random) -> list[Step]:
    """Now and then the database is closed, or its files are brought up to date."""
    return [choice.choice((Reopen(), Checkpoint()))] if choice.random() < 0.35 else []


def _change(choice: random.Random) -> Run:
    return Run(tuple(random_queries.statement(choice) for _ in range(choice.randint(1, 3))))


def composed(choice: random.Random) -> Round:
    """Constructs within each other as chance has it, views upon views."""
    relations = dict(random_queries.TABLES)
    steps: list[Step] = [_change(choice) for _ in range(choice.randint(0, 4))]
    for number in range(choice.randint(1, 3)):
        query, width = random_queries.Queries(choice, relations).query(choice.randint(0, 2))
        how = _how(choice)
        steps += [Define(f"v{number}", query, how), *_pause(choice)]
        if how == "MATERIALIZED VIEW":
            relations[f"v{number}"] = tuple(f"c{i}" for i in range(width))
        for _ in range(choice.randint(1, 3)):
            steps += [_change(choice), *_pause(choice)]
        steps.append(Ask(random_queries.Queries(choice, relations).query(choice.randint(0, 2))[0]))
    return Round(random_queries.SCHEMA, _WIDTHS, tuple(steps))


# Look-alike branches: the same joins several times in one statement, with other columns or small differences.


def alike(choice: random.Random) -> Round:
    schema = "CREATE TABLE t (a INT, b INT); CREATE TABLE s (k INT, v INT); CREATE TABLE m (k INT, n INT);"
    steps: list[Step] = [_filling(choice, ("t", "s", "m")) for _ in range(2)]
    for number in range(choice.randint(1, 3)):
        query = _branches(choice)
        steps += [choice.choice((Define(f"v{number}", query), Define(f"v{number}", query), Ask(query)))]
        steps += [_filling(choice, ("t", "s", "m")), *_pause(choice), Ask(_branches(choice))]
    return Round(schema, {"t": 2, "s": 2, "m": 2}, tuple(steps))


_COLUMNS: Final = {"t": ("a", "b"), "s": ("k", "v"), "m": ("k", "n")}


def _filling(choice: random.Random, tables: tuple[str, ...]) -> Run:
    def statement() -> str:
        table = choice.choice(tables)
        if choice.random() < 0.75:
            rows = ", ".join(f"({_cell(choice)}, {_cell(choice)})" for _ in range(choice.randint(1, 4)))
            return f"INSERT INTO {table} VALUES {rows}"
        column = choice.choice(_COLUMNS[table])
        if choice.random() < 0.5:
            return f"DELETE FROM {table} WHERE {column} = {choice.randint(0, 3)}"
        return f"UPDATE {table} SET {column} = {_cell(choice)} WHERE {column} = {choice.randint(0, 3)}"

    return Run(tuple(statement() for _ in range(choice.randint(1, 3))))


def _cell(choice: random.Random) -> str:
    return "NULL" if choice.random() < 0.1 else str(choice.randint(0, 3))


def _branches(choice: random.Random) -> str:
    aliases = [(choice.choice(("t", "t", "s", "m")), f"x{i}") for i in range(choice.randint(2, 4))]
    columns = [f"{alias}.{column}" for table, alias in aliases for column in _COLUMNS[table]]
    joins = f"FROM {aliases[0][0]} AS {aliases[0][1]}"
    for position, (table, alias) in enumerate(aliases[1:], 1):
        before = [f"{other}.{c}" for kind, other in aliases[:position] for c in _COLUMNS[kind]]
        own = f"{alias}.{choice.choice(_COLUMNS[table])}"
        on = f"{choice.choice(before)} {choice.choice(('=', '=', 'IS NOT DISTINCT FROM'))} {own}"
        if choice.random() < 0.4:
            on += f" AND {_condition(choice, columns[: 2 * position + 2])}"
        joins += f" JOIN {table} AS {alias} ON {on}"
    ways = []
    for _ in range(choice.randint(2, 3)):
        first = choice.choice(columns)
        second = choice.choice((choice.choice(columns), "0", f"{choice.choice(columns)} + 1"))
        where = f" WHERE {_condition(choice, columns)}" if choice.random() < 0.3 else ""
        shown = f"{first} AS c0, {second} AS c1"
        if choice.random() < 0.2:
            shown, where = f"{first} AS c0, COUNT(*) AS c1", f"{where} GROUP BY {first}"
        ways.append(f"SELECT {shown} {joins}{where}")
    operator = choice.choice((" UNION ALL ", " UNION ALL ", " UNION ALL ", " UNION ", " EXCEPT "))
    united = operator.join(ways)
    if choice.random() < 0.3:
        return f"SELECT q1.c0, COUNT(*) AS c1 FROM ({united}) AS q1 GROUP BY q1.c0"
    if choice.random() < 0.2:
        return f"SELECT a AS c0, b AS c1 FROM t WHERE a IN (SELECT q1.c0 FROM ({united}) AS q1)"
    return united


def _condition(choice: random.Random, columns: list[str]) -> str:
    compared = f"{choice.choice(columns)} {choice.choice(('>', '<', '=', '<>'))} {choice.randint(0, 2)}"
    return f"NOT ({compared})" if choice.random() < 0.4 else compared


# Pruning: values in ranges, whose extrema are deleted, moved or made NULL, in files that are reopened and checkpointed.


def pruned(choice: random.Random, *, large: bool = False) -> Round:
    sizes = (10, 130_000, 250_000) if large else (1, 10, 20, 300, 2_500)
    steps: list[Step] = [Load(choice.randint(-1000, 1000), choice.choice(sizes), choice.choice((1, 3, 7)))]
    for number in range(choice.randint(3, 4 if large else 9)):
        steps += _movement(choice, sizes)
        steps += _pause(choice)
        query = _near_the_ends(choice)
        defines = choice.random() < (0.15 if large else 0.3)
        steps.append(Define(f"v{number}", query) if defines else Ask(query))
        steps += [Ask(_near_the_ends(choice)), *(Ask(f"SELECT n FROM p ORDER BY n {end}LIMIT 1") for end in _ENDS)]
    schema = "CREATE TABLE p (n INT, g INT); CREATE TABLE k (n INT, h INT);"
    keys = ", ".join(f"({choice.randint(-1000, 1500)}, {i})" for i in range(6))
    return Round(schema, {"p": 2, "k": 2}, (Run((f"INSERT INTO k VALUES {keys}",)), *steps))


_ENDS: Final = ("", "DESC ", "DESC NULLS LAST ", "NULLS FIRST ")


def _movement(choice: random.Random, sizes: tuple[int, ...]) -> list[Step]:
    place = choice.randint(-1500, 1500)
    beyond = choice.choice((f"n > {place}", f"n < {place}", f"n >= {place} AND g = 0"))
    match choice.randrange(8):
        case 0:
            return [Run(("DELETE FROM p",))]
        case 1:
            return [Run((f"DELETE FROM p WHERE {beyond}",))]
        case 2:
            return [Run((f"UPDATE p SET n = NULL WHERE {beyond}",))]
        case 3:
            return [Run((f"UPDATE p SET n = n {choice.choice('+-')} {choice.randint(1, 900)} WHERE {beyond}",))]
        case 4 | 5:
            # All are gone that are in the files, and what comes lies below or above them.
            few = (Load(choice.randint(-3000, 3000), choice.choice((1, 10)), 3) for _ in range(2))
            return [next(few), choice.choice((Checkpoint(), Reopen())), Run(("DELETE FROM p",)), next(few)]
    return [Load(choice.randint(-2000, 2000), choice.choice(sizes), choice.choice((1, 3, 7)))]


def _near_the_ends(choice: random.Random) -> str:
    place, count, start = choice.randint(-1500, 1500), choice.randint(1, 3), choice.randint(0, 2)
    order = f"n {choice.choice(('', 'DESC'))} {choice.choice(('', 'NULLS FIRST', 'NULLS LAST'))}"
    limit = f"LIMIT {count} OFFSET {start}" if choice.random() < 0.5 else f"LIMIT {count}"
    compared = f"n {choice.choice(('>', '<', '>=', '=', '<>'))} {place}"
    return choice.choice(
        (
            f"SELECT n, g FROM p ORDER BY {order}, g {limit}",
            f"SELECT n FROM p ORDER BY {order} {limit}",
            f"SELECT n FROM p ORDER BY {order} {limit}",
            f"SELECT n, g FROM p WHERE {compared} ORDER BY {order}, g {limit}",
            "SELECT MIN(n) AS lo, MAX(n) AS hi, COUNT(*) AS c, COUNT(n) AS d, SUM(n) AS s FROM p",
            f"SELECT MIN(n) AS lo, MAX(n) AS hi, COUNT(*) AS c FROM p WHERE {compared}",
            "SELECT g, MIN(n) AS lo, MAX(n) AS hi, COUNT(*) AS c FROM p GROUP BY g",
            f"SELECT COUNT(*) AS c FROM p WHERE n IS NULL OR {compared}",
            "SELECT k.h, COUNT(*) AS c, MAX(p.g) AS g FROM k LEFT JOIN p ON p.n = k.n GROUP BY k.h",
            f"SELECT h FROM k WHERE n >= (SELECT MAX(n) FROM p WHERE {compared})",
            f"SELECT g, COUNT(*) AS c FROM p WHERE n IN (SELECT n FROM p ORDER BY {order} {limit}) GROUP BY g",
            f"SELECT n, g FROM (SELECT n, g FROM p ORDER BY {order}, g {limit}) AS q1 WHERE g < 2",
            "SELECT n, g FROM (SELECT n, g, ROW_NUMBER() OVER (PARTITION BY g ORDER BY n DESC) AS i FROM p) AS q1 "
            "WHERE i = 1",
        )
    )


# Ties: LIMIT and OFFSET wherever they can stand, over rows that their order leaves equal.


def tied(choice: random.Random) -> Round:
    steps: list[Step] = [_filling_r(choice) for _ in range(choice.randint(1, 3))]
    for number in range(choice.randint(1, 4)):
        query = _limited(choice)
        steps.append(choice.choice((Define(f"v{number}", query, _how(choice)), Ask(query))))
        steps += [_filling_r(choice), *_pause(choice)]
        if choice.random() < 0.3:
            steps.append(Run((f"INSERT INTO r SELECT a, c FROM s ORDER BY {_key(choice, 'c')} LIMIT 2",)))
        steps.append(Ask(_limited(choice)))
    return Round(random_queries.SCHEMA, _WIDTHS, tuple(steps), ties=True)


def _filling_r(choice: random.Random) -> Run:
    rows = ", ".join(f"({_cell(choice)}, {choice.randint(0, 1)})" for _ in range(choice.randint(1, 6)))
    return Run((f"INSERT INTO {choice.choice('rs')} VALUES {rows}", random_queries.statement(choice)))


def _key(choice: random.Random, column: str) -> str:
    return column + choice.choice(("", " DESC", " NULLS FIRST", " DESC NULLS LAST"))


def _limited(choice: random.Random) -> str:
    key, limit, offset = _key(choice, "b"), choice.randint(1, 4), choice.randint(0, 2)
    some = choice.choice((f"ORDER BY {key} LIMIT {limit}", f"LIMIT {limit}", f"ORDER BY {key} OFFSET {offset}"))
    return choice.choice(
        (
            f"SELECT a, b FROM r {some}",
            f"SELECT a FROM r ORDER BY {key} LIMIT {limit} OFFSET {offset}",
            f"SELECT b FROM r ORDER BY {_key(choice, 'a')} LIMIT {limit}",
            f"SELECT q1.a, s.c FROM (SELECT a, b FROM r {some}) AS q1 JOIN s ON s.a = q1.a",
            f"SELECT s.a, q1.b FROM s LEFT JOIN (SELECT a, b FROM r {some}) AS q1 ON s.a = q1.a",
            f"SELECT a, c FROM s WHERE a IN (SELECT a FROM r {some})",
            f"SELECT a, c FROM s WHERE NOT EXISTS (SELECT * FROM (SELECT a FROM r {some}) AS q1 WHERE q1.a = s.a)",
            f"SELECT a, SUM(b) AS n FROM (SELECT a, b FROM r {some}) AS q1 GROUP BY a",
            f"SELECT DISTINCT ON (b) b, a FROM r ORDER BY {key} LIMIT {limit}",
            "SELECT DISTINCT ON (a) a, b FROM r",
            f"SELECT a FROM (SELECT a FROM r {some}) AS q1 UNION ALL SELECT c FROM (SELECT c FROM s LIMIT 2) AS q2",
            f"SELECT a, b, (SELECT MIN(c) FROM (SELECT c FROM s LIMIT {limit}) AS q1) AS c FROM r {some}",
            f"SELECT a, ROW_NUMBER() OVER (ORDER BY b) AS n FROM (SELECT a, b FROM r {some}) AS q1",
        )
    )


# Aggregates of all sorts, with DISTINCT and FILTER beside each other.


def grouped(choice: random.Random) -> Round:
    steps: list[Step] = [_change(choice) for _ in range(choice.randint(1, 4))]
    for number in range(choice.randint(1, 3)):
        query = _aggregates(choice)
        steps.append(choice.choice((Define(f"v{number}", query, _how(choice)), Ask(query))))
        for _ in range(choice.randint(1, 3)):
            steps += [_change(choice), *_pause(choice)]
        steps.append(Ask(_aggregates(choice)))
    return Round(random_queries.SCHEMA, _WIDTHS, tuple(steps))


def _aggregates(choice: random.Random) -> str:
    calls = []
    for number in range(choice.randint(1, 4)):
        column, distinct = choice.choice("abc"), choice.choice(("", "DISTINCT "))
        name = choice.choice(("COUNT", "SUM", "AVG", "MIN", "MAX", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP"))
        call = choice.choice(
            (
                f"{name}({distinct}{column})",
                f"{name}({distinct}{column})",
                f"{name}({distinct}{column})",
                f"STRING_AGG({distinct}CAST({column} AS VARCHAR), ',' ORDER BY CAST({column} AS VARCHAR) DESC)",
                f"ARRAY_AGG({distinct}{column} ORDER BY {column} DESC)",
                f"PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {column})",
                f"PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY {column} DESC)",
                f"MODE() WITHIN GROUP (ORDER BY {column})",
            )
        )
        if choice.random() < 0.4:
            call += f" FILTER (WHERE {choice.choice('abc')} {choice.choice('<>=')} {choice.randint(0, 2)})"
        calls.append(f"{call} AS d{number}")
    source = choice.choice(("w", "(SELECT r.a, r.b, s.c FROM r JOIN s ON s.a = r.a) AS w"))
    keys = choice.choice(("", "a", "b", "a, b"))
    by = choice.choice(("", "ROLLUP ")) if "," in keys else ""
    tail = "" if not keys else f" GROUP BY {f'{by}({keys})' if by else keys}"
    return f"SELECT {keys}{', ' if keys else ''}{', '.join(calls)} FROM {source}{tail}"


# Recursion over edges that come and go.


def recursive(choice: random.Random) -> Round:
    steps: list[Step] = [_edges(choice) for _ in range(choice.randint(1, 3))]
    for number in range(choice.randint(1, 2)):
        steps.append(Define(f"v{number}", _recursion(choice)))
        for _ in range(choice.randint(2, 4)):
            steps += [_edges(choice), *_pause(choice)]
        steps.append(Ask(_recursion(choice)))
    return Round("CREATE TABLE e (x INT, y INT);", {"e": 2}, tuple(steps))


def _edges(choice: random.Random) -> Run:
    if choice.random() < 0.65:
        rows = ", ".join(f"({choice.randint(0, 6)}, {choice.randint(0, 6)})" for _ in range(choice.randint(1, 5)))
        return Run((f"INSERT INTO e VALUES {rows}",))
    if choice.random() < 0.5:
        return Run((f"DELETE FROM e WHERE x = {choice.randint(0, 6)}",))
    return Run((f"UPDATE e SET y = {choice.randint(0, 6)} WHERE x = {choice.randint(0, 6)}",))


def _recursion(choice: random.Random) -> str:
    start = choice.choice(("", f" WHERE x = {choice.randint(0, 3)}", " WHERE x < y"))
    step = choice.choice(("c.y = e.x", "c.y = e.x AND e.y > 1", "c.x = e.y"))
    both = "e.x, c.y" if step == "c.x = e.y" else "c.x, e.y"
    shown = choice.choice(
        ("SELECT x, y FROM c", "SELECT x, COUNT(*) AS n FROM c GROUP BY x", "SELECT y FROM c WHERE x < 3")
    )
    return f"WITH RECURSIVE c AS (SELECT x, y FROM e{start} UNION SELECT {both} FROM c JOIN e ON {step}) {shown}"


KINDS: Final[dict[str, Callable[[random.Random], Round]]] = {
    "composed": composed,
    "alike": alike,
    "pruned": pruned,
    "tied": tied,
    "grouped": grouped,
    "recursive": recursive,
}
