"""Views that grow in one dimension: how large they are is a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

NARROW = "CREATE TABLE t (n INT NOT NULL, g INT)"


@dataclass(frozen=True)
class Growing:
    """The statements that define a view v over a table t, and rows of t of which some reach it."""

    statements: tuple[str, ...]
    view: str = "v"
    width: int = 2

    def row(self, key: int) -> tuple[int, ...]:
        return (key, *(key + 1 for _ in range(self.width - 1)))

    def rows(self, *keys: int) -> str:
        return ", ".join(f"({', '.join(map(str, self.row(key)))})" for key in keys)


def _wide(size: int) -> str:
    return f"CREATE TABLE t (n INT NOT NULL, {', '.join(f'c{i} INT' for i in range(size))})"


def _over(query: str, *, table: str = NARROW, width: int = 2, kind: str = "MATERIALIZED VIEW") -> Growing:
    return Growing((table, f"CREATE {kind} v AS {query}"), width=width)


def _nested(size: int, outer: Callable[[int, str], str]) -> Growing:
    text = "g"
    for level in range(size):
        text = outer(level, text)
    return _over(f"SELECT n, {text} AS c FROM t WHERE {text} > 3")


def stacked_views(size: int) -> Growing:
    below = [f"CREATE VIEW v{i} AS SELECT n, g + 1 AS g FROM v{i - 1} WHERE g >= 0" for i in range(1, size)]
    top = f"CREATE MATERIALIZED VIEW v AS SELECT n, g + 1 AS g FROM v{size - 1} WHERE g >= 0"
    return Growing((NARROW, "CREATE VIEW v0 AS SELECT n, g FROM t", *below, top))


def disjuncts(size: int) -> Growing:
    return _over(f"SELECT n, g FROM t WHERE {' OR '.join(f'(n > {10 * i} AND g < {i})' for i in range(size))}")


def disjuncts_of_a_join(size: int) -> Growing:
    where = " OR ".join(f"(t.n + s.g > {10 * i} AND t.g < {i})" for i in range(size))
    query = f"SELECT t.n, s.g FROM t JOIN s ON t.n = s.n WHERE {where}"
    return Growing((NARROW, "CREATE TABLE s (n INT NOT NULL, g INT)", f"CREATE MATERIALIZED VIEW v AS {query}"))


def columns_in_and(size: int) -> Growing:
    where = " AND ".join(f"c{i} > {-i}" for i in range(size))
    return _over(f"SELECT n FROM t WHERE {where}", table=_wide(size), width=size + 1)


def columns_compared(size: int) -> Growing:
    where = " AND ".join(f"c{i} <= c{(i + 1) % size} + 1" for i in range(size))
    return _over(f"SELECT n FROM t WHERE {where}", table=_wide(size), width=size + 1)


def columns_joined(size: int) -> Growing:
    other = _wide(size).replace("TABLE t", "TABLE s")
    query = f"SELECT t.n FROM t, s WHERE {' AND '.join(f's.c{i} = t.c{i}' for i in range(size))}"
    return Growing((_wide(size), other, f"CREATE MATERIALIZED VIEW v AS {query}"), width=size + 1)


def columns_shown(size: int) -> Growing:
    query = f"SELECT n, {', '.join(f'c{i} + 1 AS d{i}' for i in range(size))} FROM t"
    return _over(query, table=_wide(size), width=size + 1)


def terms_of_a_sum(size: int) -> Growing:
    query = f"SELECT n FROM t WHERE {' + '.join(f'c{i}' for i in range(size))} > 10"
    return _over(query, table=_wide(size), width=size + 1)


def nested_coalesce(size: int) -> Growing:
    return _nested(size, lambda level, text: f"COALESCE({text}, n + {level})")


def nested_case(size: int) -> Growing:
    return _nested(size, lambda level, text: f"CASE WHEN n > {level + 5} THEN {level} ELSE {text} END")


def nested_functions(size: int) -> Growing:
    return _nested(size, lambda level, text: f"ABS({text} - {level})")


def parts_of_a_union(size: int) -> Growing:
    return _over(" UNION ALL ".join(f"SELECT n, g FROM t WHERE n > {i}" for i in range(size)))


def joined_relations(size: int) -> Growing:
    tables = [f"CREATE TABLE s{i} (n INT NOT NULL, g INT)" for i in range(size)]
    joins = " ".join(f"JOIN s{i} ON s{i}.n = {f's{i - 1}' if i else 't'}.g" for i in range(size))
    return Growing((NARROW, *tables, f"CREATE MATERIALIZED VIEW v AS SELECT t.n FROM t {joins}"))


def clauses_of_rules(size: int) -> Growing:
    clauses = " ".join(f"v(x, y) :- t(x, y), x > {i}." for i in range(size))
    return Growing((NARROW, f"CREATE MATERIALIZED VIEW v AS DATALOG $$ {clauses} $$"))


def copies(size: int) -> Growing:
    """A chain of copies of one relation."""
    joins = " ".join(f"JOIN t a{i} ON a{i - 1}.g = a{i}.n" for i in range(1, size))
    return _over(f"SELECT a0.n, a{size - 1}.g FROM t a0 {joins}")


def copies_with_count_distinct(size: int) -> Growing:
    """A star of copies of one relation, grouped."""
    joins = " ".join(f"JOIN t a{i} ON a0.n = a{i}.n" for i in range(1, size))
    return _over(f"SELECT a0.n, COUNT(DISTINCT a{size - 1}.g) AS c FROM t a0 {joins} GROUP BY a0.n")


def atoms_of_a_rule(size: int) -> Growing:
    body = ", ".join(f"t(x{i}, x{i + 1})" for i in range(size))
    return Growing((NARROW, f"CREATE MATERIALIZED VIEW v AS DATALOG $$ v(x0, x{size}) :- {body}. $$"))


def full_joins(size: int, kind: str = "MATERIALIZED VIEW") -> Growing:
    joins = " ".join(f"FULL JOIN t a{i} ON a{i - 1}.g = a{i}.n" for i in range(1, size + 1))
    return _over(f"SELECT a0.n, a{size}.g FROM t a0 {joins} WHERE a0.n NOT IN (SELECT g FROM t)", kind=kind)


LINEAR: tuple[Callable[[int], Growing], ...] = (
    stacked_views,
    disjuncts,
    disjuncts_of_a_join,
    columns_in_and,
    columns_compared,
    columns_joined,
    columns_shown,
    terms_of_a_sum,
    nested_coalesce,
    nested_case,
    nested_functions,
    parts_of_a_union,
    joined_relations,
    clauses_of_rules,
)
QUADRATIC: tuple[Callable[[int], Growing], ...] = (copies, copies_with_count_distinct, atoms_of_a_rule)
