"""Random SQL: constructs composed at random, over r (a, b), s (a, c NOT NULL), t (d) and w (a, b, c), all INT.

Only what DuckDB and PostgreSQL give the same answer to is made: no division, ties only where they do not show, and
whatever is not a relation of its own is correlated by columns that are there. All columns of a query are named c0, c1
and so on, so that a query can stand wherever a relation can.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

TABLES = {"r": ("a", "b"), "s": ("a", "c"), "t": ("d",), "w": ("a", "b", "c")}
SCHEMA = """
CREATE TABLE r (a INT, b INT);
CREATE TABLE s (a INT, c INT NOT NULL);
CREATE TABLE t (d INT);
CREATE TABLE w (a INT, b INT, c INT);
"""
Columns = tuple[str, ...]


@dataclass
class Queries:
    """Makes queries over the given relations; every alias is used once."""

    choice: random.Random
    relations: dict[str, Columns] = field(default_factory=lambda: dict(TABLES))
    aliases: int = 0

    def query(self, depth: int, outer: Columns = (), width: int | None = None) -> tuple[str, int]:
        """A query of some depth that may name the outer columns, and how many columns it has."""
        kind = self.choice.random()
        if depth > 0 and kind < 0.12:
            left, count = self.query(depth - 1, outer, width)
            right, _ = self.query(depth - 1, outer, count)
            operator = self._one("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
            return (
                f"SELECT * FROM ({left}) AS {self._alias()} {operator} SELECT * FROM ({right}) AS {self._alias()}",
                count,
            )
        if depth > 0 and kind < 0.2:
            source, count = self.query(depth - 1, outer, width)
            order = ", ".join(f"c{i}{self._one('', ' DESC', ' NULLS FIRST')}" for i in range(count))
            limit = f"LIMIT {self._number()} OFFSET {self._one('0', '0', '1')}"
            return f"SELECT * FROM {self._derived(source, count)[0]} ORDER BY {order} {limit}", count
        text, columns = self._from(depth)
        where = f" WHERE {self.condition(columns, outer, depth)}" if self._often(0.5) else ""
        count = width or self.choice.randint(1, 3)
        if kind < 0.45:
            return self._grouped(text + where, columns, count), count
        if kind < 0.58:
            cells = [self._cell(columns, outer) for _ in range(count - 1)]
            return self._listed([*cells, self._window(columns)], text + where), count
        distinct = "DISTINCT " if self._often(0.2) else ""
        return self._listed([self._cell(columns, outer, depth) for _ in range(count)], text + where, distinct), count

    def condition(self, columns: Columns, outer: Columns, depth: int) -> str:
        kind, column = self.choice.random(), self._column(columns, outer)
        if kind < 0.45 or (depth <= 0 and kind > 0.65):
            compared = self._one("=", "=", "<", "<=", "<>")
            return f"{self._cell(columns, outer)} {compared} {column}"
        if kind < 0.5:
            return f"{column} IS {self._one('', 'NOT ')}NULL"
        if kind < 0.6:
            parts = [self.condition(columns, outer, depth) for _ in range(2)]
            return f"({self._one(' AND ', ' OR ').join(parts)})"
        if kind < 0.65:
            return f"NOT ({self.condition(columns, outer, depth)})"
        visible = columns + outer
        if kind < 0.8:
            return f"{self._one('', 'NOT ')}EXISTS ({self.query(depth - 1, visible)[0]})"
        inner, _ = self.query(depth - 1, visible, 1)
        how = self._one("IN", "NOT IN", "= ANY", "< ALL", ">= ANY")
        if kind < 0.95:
            return f"{column} {how} ({inner})"
        return f"{column} >= {self._scalar(visible, depth - 1)}"

    # Parts

    def _from(self, depth: int) -> tuple[str, Columns]:
        text, columns = self._relation(depth)
        for _ in range(self.choice.choice((0, 0, 1, 1, 2))):
            if depth > 0 and self._often(0.1):
                inner, count = self.query(depth - 1, columns)
                derived, more = self._derived(inner, count)
                text += self._one(f" CROSS JOIN LATERAL {derived}", f" LEFT JOIN LATERAL {derived} ON TRUE")
            else:
                other, more = self._relation(depth - 1)
                join = self._one("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
                equal = f"{self.choice.choice(columns)} = {self.choice.choice(more)}"
                on = f"{equal} AND {self.condition(columns + more, (), 0)}" if self._often(0.3) else equal
                text += f" {join} {other}" + ("" if join == "CROSS JOIN" else f" ON {on}")
            columns += more
        return text, columns

    def _relation(self, depth: int) -> tuple[str, Columns]:
        if depth > 0 and self._often(0.35):
            return self._derived(*self.query(depth - 1))
        name, alias = self.choice.choice(sorted(self.relations)), self._alias()
        return f"{name} AS {alias}", tuple(f"{alias}.{column}" for column in self.relations[name])

    def _derived(self, query: str, count: int) -> tuple[str, Columns]:
        alias, names = self._alias(), [f"c{i}" for i in range(count)]
        return f"({query}) AS {alias} ({', '.join(names)})", tuple(f"{alias}.{name}" for name in names)

    def _grouped(self, text: str, columns: Columns, count: int) -> str:
        keys = list(dict.fromkeys(self.choice.choice(columns) for _ in range(self.choice.randint(0, count))))
        cells = keys + [self._aggregate(columns) for _ in range(count - len(keys))]
        by = f" GROUP BY {self._one('', '', '', 'ROLLUP ')}({', '.join(keys)})" if keys else ""
        having = f" HAVING {self._aggregate(columns)} {self._one('>', '=', '<')} {self._number()}"
        if not keys and len(cells) == len(keys):
            cells = ["COUNT(*)"] * count
        return self._listed(cells, text + by + (having if self._often(0.25) else ""))

    def _aggregate(self, columns: Columns) -> str:
        distinct, value = self._one("", "", "DISTINCT "), self._cell(columns, ())
        call = self._one(
            "COUNT(*)", f"COUNT({distinct}{value})", f"SUM({distinct}{value})", f"MIN({value})", f"MAX({value})"
        )
        return call + (f" FILTER (WHERE {self.condition(columns, (), 0)})" if self._often(0.15) else "")

    def _window(self, columns: Columns) -> str:
        column, by = self.choice.choice(columns), self._one("", f"PARTITION BY {self.choice.choice(columns)} ")
        total = ", ".join(c + self._one("", " DESC") for c in self.choice.sample(columns, len(columns)))
        some = self.choice.choice(columns)
        rows = "ROWS BETWEEN 1 PRECEDING AND " + self._one("CURRENT ROW", "1 FOLLOWING", "UNBOUNDED FOLLOWING")
        start = self._one("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW")
        end = self._one("CURRENT ROW", "1 FOLLOWING", "UNBOUNDED FOLLOWING")
        near = f"{self._one('RANGE', 'GROUPS')} BETWEEN {start} AND {end}"
        key = some + self._one("", " DESC", " NULLS FIRST")
        return self._one(
            f"{self._one('COUNT', 'SUM', 'MIN')}({column}) OVER ({by}ORDER BY {key} {near})",
            f"{self._one('LAG', 'LAST_VALUE', 'LEAD')}({column} IGNORE NULLS) OVER ({by}ORDER BY {total})",
            f"ROW_NUMBER() OVER ({by}ORDER BY {total})",
            f"{self._one('LAG', 'FIRST_VALUE', 'LEAD')}({column}) OVER ({by}ORDER BY {total})",
            f"{self._one('RANK()', 'DENSE_RANK()', f'SUM({column})')} OVER ({by}ORDER BY {some})",
            f"{self._one('COUNT', 'SUM', 'MAX')}({column}) OVER ({by}ORDER BY {total} {rows})",
            f"{self._one('COUNT', 'SUM', 'MIN')}({column}) OVER ({by.strip()})",
        )

    def _cell(self, columns: Columns, outer: Columns, depth: int = 0) -> str:
        kind, column = self.choice.random(), self._column(columns, outer)
        if kind < 0.7:
            return column
        if kind < 0.8:
            return f"{column} {self._one('+', '-')} {self._number()}"
        if kind < 0.88:
            return f"COALESCE({column}, {self._column(columns, outer)})"
        if kind < 0.94 or depth <= 0:
            return f"CASE WHEN {self.condition(columns, outer, 0)} THEN {column} ELSE {self._number()} END"
        return self._scalar(columns + outer, depth - 1)

    def _scalar(self, visible: Columns, depth: int) -> str:
        text, columns = self._from(depth)
        return f"(SELECT {self._aggregate(columns)} FROM {text} WHERE {self.condition(columns, visible, depth)})"

    def _listed(self, cells: list[str], text: str, distinct: str = "") -> str:
        return f"SELECT {distinct}{', '.join(f'{cell} AS c{i}' for i, cell in enumerate(cells))} FROM {text}"

    def _column(self, columns: Columns, outer: Columns) -> str:
        return self.choice.choice(outer if outer and self._often(0.3) else columns)

    def _number(self) -> str:
        return str(self.choice.randint(0, 3))

    def _alias(self) -> str:
        self.aliases += 1
        return f"q{self.aliases}"

    def _often(self, share: float) -> bool:
        return self.choice.random() < share

    def _one(self, *texts: str) -> str:
        return self.choice.choice(texts)


def statement(choice: random.Random) -> str:
    """A statement that changes one of the tables: insertions more often than not."""
    table = choice.choice(sorted(TABLES))
    column, number = choice.choice(TABLES[table]), choice.randint(0, 3)
    match choice.randrange(4):
        case 0 | 1:
            count = choice.randint(1, 3)
            return f"INSERT INTO {table} VALUES {', '.join(_row(choice, table) for _ in range(count))}"
        case 2:
            return f"DELETE FROM {table} WHERE {column} {choice.choice([f'= {number}', 'IS NULL', '>= 2'])}"
    value = number if table == "s" else choice.choice([number, number, f"{column} + 0", "NULL"])
    return f"UPDATE {table} SET {column} = {value} WHERE {choice.choice(TABLES[table])} = {choice.randint(0, 3)}"


def _row(choice: random.Random, table: str) -> str:
    cells = [str(choice.randint(0, 3)) if choice.random() < 0.8 else "NULL" for _ in TABLES[table]]
    return f"({cells[0]}, {choice.randint(0, 3)})" if table == "s" else f"({', '.join(cells)})"
