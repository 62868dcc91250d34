"""Specs of the binder: SQL text in, plan text out; and what is refused, with the place in the text."""

from __future__ import annotations

import pytest

from tidemark.algebra.printing import show_plan
from tidemark.errors import TidemarkError
from tidemark.sql.bind.queries import QueryBinder
from tidemark.sql.catalog.catalog import Catalog
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.statements import Query
from tidemark.sql.parse.text import Source
from tidemark.state.records import define


def catalog() -> Catalog:
    result = Catalog()
    for sql in (
        "CREATE TABLE t (a INT PRIMARY KEY, b INT, c VARCHAR NOT NULL, d DECIMAL(12,2), e DATE, f DOUBLE PRECISION)",
        "CREATE TABLE s (a INT, x BIGINT)",
        "CREATE VIEW plain AS SELECT a, b FROM t WHERE b > 0",
        "CREATE MATERIALIZED VIEW mat (k, n) AS SELECT b, COUNT(*) FROM t GROUP BY b",
    ):
        result = result.with_relation(define(sql, "postgres", result))
    return result


CATALOG = catalog()


def bound(sql: str) -> str:
    [(statement, source)] = parse_script(Source(sql))
    assert isinstance(statement, Query)
    return show_plan(QueryBinder(source, CATALOG).bind(statement.tree))


@pytest.mark.parametrize(
    ("sql", "plan"),
    [
        (
            "SELECT A, b + 1 AS n FROM T WHERE c LIKE 'x%' AND b IS NOT NULL",
            """
Project a, (b + 1) AS n
└─ Filter ((c LIKE 'x%') AND (b IS NOT NULL))
   └─ t
""",
        ),
        (
            "SELECT x.a, y.x FROM t AS x JOIN s y ON x.a = y.a",
            """
Project a, x
└─ Join (a = a)
   ├─ t
   └─ s
""",
        ),
        (
            "SELECT * FROM s JOIN plain USING (a)",
            """
Project a, x, b
└─ Join (a = a)
   ├─ s
   └─ Project a, b
      └─ Filter (b > 0)
         └─ t
""",
        ),
        (
            "SELECT n FROM mat, (SELECT a AS k2 FROM s) AS q WHERE k = k2",
            """
Project n
└─ Filter (k = k2)
   └─ Join TRUE
      ├─ mat
      └─ Project a AS k2
         └─ s
""",
        ),
        (
            "WITH q AS (SELECT DISTINCT b FROM t) SELECT b FROM q UNION ALL SELECT x FROM s",
            """
Union
├─ Project CAST(b AS BIGINT) AS b
│  └─ Project b
│     └─ Distinct
│        └─ Project b
│           └─ t
└─ Project x
   └─ s
""",
        ),
        (
            "SELECT b % 10 AS g, SUM(d) + 1 AS s FROM t GROUP BY g HAVING COUNT(*) > 1",
            """
Project key1 AS g, (sum + 1.00) AS s
└─ Filter (count(*) > 1)
   └─ Aggregate by ((b % 10)): sum(d) AS sum, count(*)
      └─ t
""",
        ),
        (
            "SELECT SUM(x) FROM s",
            """
Project CAST(sum AS BIGINT) AS sum
└─ Aggregate by (): sum(x) AS sum
   └─ s
""",
        ),
        (
            "SELECT CASE WHEN b > 0 THEN 'p' ELSE c END, COALESCE(b, 0), e = '2024-01-31' FROM t",
            """
Project CASE WHEN (b > 0) THEN 'p' ELSE c END AS case, coalesce(b, 0) AS coalesce, (e = DATE '2024-01-31') AS column3
└─ t
""",
        ),
        (
            "SELECT a FROM t EXCEPT ALL SELECT x FROM s",
            """
Difference
├─ Project CAST(a AS BIGINT) AS a
│  └─ Project a
│     └─ t
└─ Project x
   └─ s
""",
        ),
        (
            "SELECT a FROM t EXCEPT SELECT a FROM s INTERSECT ALL SELECT b FROM t",
            """
Difference
├─ Distinct
│  └─ Project a
│     └─ t
└─ Distinct
   └─ Intersection
      ├─ Project a
      │  └─ s
      └─ Project b
         └─ t
""",
        ),
        (
            "SELECT 1 AS n UNION SELECT 2 EXCEPT ALL SELECT 3 INTERSECT SELECT 4 ORDER BY n",
            """
Sort n
└─ Difference
   ├─ Distinct
   │  └─ Union
   │     ├─ Project 1 AS n
   │     │  └─ Values [()]
   │     └─ Project 2 AS column1
   │        └─ Values [()]
   └─ Intersection
      ├─ Distinct
      │  └─ Project 3 AS column1
      │     └─ Values [()]
      └─ Distinct
         └─ Project 4 AS column1
            └─ Values [()]
""",
        ),
        (
            "SELECT a FROM t EXCEPT (SELECT a FROM s EXCEPT SELECT b FROM plain)",
            """
Difference
├─ Distinct
│  └─ Project a
│     └─ t
└─ Distinct
   └─ Difference
      ├─ Distinct
      │  └─ Project a
      │     └─ s
      └─ Distinct
         └─ Project b
            └─ Project a, b
               └─ Filter (b > 0)
                  └─ t
""",
        ),
        ("VALUES (1, 'x'), (2.5, NULL)", "Values [(1.0, 'x'), (2.5, NULL)]"),
        ("VALUES (DATE '2024-01-31'), ('2024-02-01')", "Values [(DATE '2024-01-31'), (DATE '2024-02-01')]"),
        ("VALUES (2), (1 + 0) ORDER BY 1 LIMIT 1", "Sort column1 limit 1\n└─ Values [(2), (1)]"),
        (
            "SELECT q.k, column2 FROM (VALUES (1, TRUE), (1, TRUE)) AS q (k)",
            """
Project k, column2
└─ Project column1 AS k, column2
   └─ Values [(1, TRUE), (1, TRUE)]
""",
        ),
        (
            "WITH q (k) AS (VALUES (1)) SELECT k FROM q EXCEPT VALUES (2)",
            """
Difference
├─ Distinct
│  └─ Project k
│     └─ Project column1 AS k
│        └─ Project column1
│           └─ Values [(1)]
└─ Distinct
   └─ Project column1
      └─ Values [(2)]
""",
        ),
        (
            "SELECT * FROM t NATURAL JOIN (SELECT b, a, x FROM s CROSS JOIN (SELECT b FROM t) AS u) AS q",
            """
Project a, b, c, d, e, f, x
└─ Join ((a = a) AND (b = b))
   ├─ t
   └─ Project b, a, x
      └─ Join TRUE
         ├─ s
         └─ Project b
            └─ t
""",
        ),
        (
            "SELECT * FROM mat NATURAL INNER JOIN s",
            """
Project k, n, a, x
└─ Join TRUE
   ├─ mat
   └─ s
""",
        ),
        (
            "SELECT a FROM t ORDER BY b DESC NULLS LAST, 1 LIMIT 3",
            """
Sort hidden DESC NULLS LAST, a limit 3
└─ Project a, b AS hidden0
   └─ t
""",
        ),
    ],
)
def test_queries_become_plans(sql: str, plan: str) -> None:
    assert bound(sql).strip() == plan.strip()


@pytest.mark.parametrize(
    ("sql", "code", "pointed"),
    [
        ("SELECT nam FROM t", "unknown_column", "nam"),
        ("SELECT t.nam FROM t", "unknown_column", "t"),
        ("SELECT q.a FROM t", "unknown_relation", "q"),
        ("SELECT a FROM nowhere", "unknown_relation", "nowhere"),
        ("SELECT a FROM t JOIN s ON t.a = s.a", "ambiguous_name", "a"),
        ("SELECT 1 FROM t, t", "ambiguous_name", "t"),
        ("SELECT a + c FROM t", "type", "a"),
        ("SELECT a FROM t WHERE b", "type", "b"),
        ("SELECT a FROM t WHERE c = 1", "type", "c"),
        ("SELECT a = 'x' FROM t", "type", "a"),
        ("SELECT a, COUNT(*) FROM t GROUP BY b", "grouping", "a"),
        ("SELECT a, COUNT(*) FROM t", "grouping", "a"),
        ("SELECT * FROM t GROUP BY a", "grouping", "*"),
        ("SELECT SUM(COUNT(*)) FROM t", "grouping", "COUNT"),
        ("SELECT a FROM t WHERE COUNT(*) > 1", "grouping", "COUNT"),
        ("SELECT SUM(c) FROM t", "type", "SUM"),
        ("SELECT CORR(a, b) FROM t", "unsupported", None),
        ("SELECT COUNT(a, b) FROM t", "type", None),
        ("SELECT STRING_AGG(c, c) FROM t", "unsupported", None),
        ("SELECT STRING_AGG(DISTINCT c, ',' ORDER BY a) FROM t", "ordering", None),
        ("SELECT SUM(a) FILTER (WHERE COUNT(*) > 1) FROM t", "grouping", None),
        ("SELECT GROUPING(a) FROM t GROUP BY b", "grouping", None),
        ("SELECT a FROM t WHERE row_number() OVER () = 1", "grouping", "row_number"),
        ("SELECT SUM(DISTINCT a) OVER () FROM t", "unsupported", None),
        ("SELECT LAG(a, b) OVER () FROM t", "unsupported", None),
        ("SELECT SUM(a) IGNORE NULLS OVER () FROM t", "syntax", None),
        ("SELECT LAG(a, 0) IGNORE NULLS OVER (ORDER BY a) FROM t", "type", None),
        ("SELECT SUM(RANK() OVER (ORDER BY a)) OVER () FROM t", "grouping", "RANK"),
        ("SELECT RANK() OVER w FROM t WINDOW w AS (ORDER BY RANK() OVER (ORDER BY a))", "grouping", "RANK"),
        ("SELECT DISTINCT a FROM t ORDER BY RANK() OVER (ORDER BY b)", "ordering", "RANK"),
        ("SELECT SUM(a) OVER missing FROM t", "unknown_relation", None),
        ("SELECT NTILE(0) OVER (ORDER BY a) FROM t", "type", None),
        ("SELECT DISTINCT ON (a) a, b FROM t ORDER BY b", "ordering", None),
        ("SELECT foo(a) FROM t", "unknown_function", "foo"),
        ("SELECT read_csv('x')", "unknown_function", "read_csv"),
        ("SELECT * FROM read_csv('x')", "unsupported", None),
        ("SELECT * FROM 'x.parquet'", None, None),
        ("SELECT java_method('a', 'b')", "unknown_function", "java_method"),
        ("SELECT random()", "not_deterministic", None),
        ("SELECT now()", "not_deterministic", None),
        ("SELECT 1 FROM t JOIN plain ON t.a = plain.b NATURAL JOIN s", "ambiguous_name", "s"),
        ("SELECT a FROM t EXCEPT SELECT c FROM t", "type", None),
        ("SELECT a FROM t EXCEPT ALL SELECT a, b FROM t", "type", None),
        ("SELECT a FROM t INTERSECT SELECT e FROM t", "type", None),
        ("SELECT a FROM t EXCEPT ALL BY NAME SELECT a FROM s", "unsupported", None),
        ("VALUES (1, 2), (3)", "type", None),
        ("VALUES (1), (DATE '2024-01-31')", "type", None),
        ("VALUES (1), ('x')", "type", None),
        ("VALUES (a)", "unknown_column", "a"),
        ("VALUES (1 / 0)", "division_by_zero", None),
        ("VALUES (DEFAULT)", "unsupported", None),
        ("SELECT q.b FROM (VALUES (1)) AS q (a)", "unknown_column", "q"),
        ("SELECT a FROM (VALUES (1)) AS q (a, b)", "type", None),
        ("SELECT * FROM (VALUES (1) LIMIT 1) AS q", None, None),
        ("SELECT a FROM t UNION SELECT c FROM t", "type", None),
        ("SELECT a FROM t UNION SELECT a, b FROM t", "type", None),
        ("SELECT CAST(c AS UUID) FROM t", "unsupported", None),
        ("SELECT CAST(e AS INT) FROM t", "type", None),
        ("SELECT DATE '2024-02-30'", "type", None),
        ("SELECT a FROM t WHERE c LIKE c ESCAPE '!'", "unsupported", "c"),
        ("SELECT a FROM t WHERE c ~ c", "unsupported", "c"),
        ("SELECT a FROM main.t", "unsupported", "main"),
        ("SELECT FROM WHERE", "syntax", None),
        ("SELECT a FRM t", "syntax", None),
        ("SELECT (a FROM t", "syntax", None),
        ("SELECT 'open", "syntax", None),
        ("SELECT a FROM t LIMIT a", "unsupported", None),
        ("SELECT a FROM t ORDER BY 7", "ordering", "7"),
        ("SELECT 12345678901234567890123456789012345678901.5", "overflow", None),
    ],
)
def test_what_is_not_supported_is_refused_with_its_place(sql: str, code: str | None, pointed: str | None) -> None:
    with pytest.raises(TidemarkError) as caught:
        bound(sql)
    error = caught.value
    if code is not None:
        assert error.code == code, str(error)
    if pointed is not None:
        assert error.place is not None, str(error)
        line = error.place.text.splitlines()[error.place.line - 1]
        assert line[error.place.column - 1 :].startswith(pointed), str(error)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("CREATE TABLE x (a INT, A INT)", "duplicate_column"),
        ("CREATE TABLE x (_weight INT)", "reserved_name"),
        ("CREATE TABLE x (a UUID)", "unsupported"),
        ("CREATE TABLE x (a DECIMAL(40,2))", "type"),
        ("CREATE TABLE x (a DECIMAL(39, 2))", "type"),
        ("CREATE TABLE x (a CHAR(5))", "unsupported"),
        ("CREATE TABLE x (a INT REFERENCES t (a))", "unsupported"),
        ("CREATE TABLE x (a INT UNIQUE)", "unsupported"),
        ("CREATE TABLE x (a INT DEFAULT b)", "unknown_column"),
        ("CREATE TABLE x (a INT DEFAULT 1 DEFAULT 2)", "syntax"),
        ("CREATE TABLE x (a INT DEFAULT 'one')", "type"),
        ("CREATE TABLE x (a INT UNIQUE)", "unsupported"),
        ("CREATE TABLE x (a INT PRIMARY KEY, b INT PRIMARY KEY)", "syntax"),
        ("CREATE TABLE x (a INT, PRIMARY KEY (b))", "unknown_column"),
        ("CREATE TABLE x (a INT CHECK (b > 1))", "unknown_column"),
        ("CREATE TABLE x (a INT CHECK (a))", "type"),
        ("CREATE MATERIALIZED VIEW x AS SELECT a, b AS a FROM t", "duplicate_column"),
        ("CREATE MATERIALIZED VIEW x AS SELECT a AS _version FROM t", "reserved_name"),
        ("CREATE MATERIALIZED VIEW x (p, q) AS SELECT a FROM t", "type"),
        ("CREATE MATERIALIZED VIEW x AS SELECT a FROM x", "cycle"),
        ("CREATE MATERIALIZED VIEW x AS SELECT DISTINCT SUM(f) AS s FROM t GROUP BY a", "approximate_key"),
        (
            "CREATE MATERIALIZED VIEW x AS SELECT s, COUNT(*) AS n FROM"
            " (SELECT a, SUM(f) + 1 AS s FROM t GROUP BY a) AS q GROUP BY s",
            "approximate_key",
        ),
        ("CREATE MATERIALIZED VIEW x AS SELECT a FROM t WHERE f = (SELECT SUM(f) FROM t)", "approximate_key"),
        (
            "CREATE MATERIALIZED VIEW x AS SELECT p.a FROM (SELECT a, SUM(f) AS s FROM t GROUP BY a) AS p,"
            " (SELECT a, SUM(f) AS s FROM t GROUP BY a) AS q WHERE p.s = q.s",
            "approximate_key",
        ),
        (
            "CREATE MATERIALIZED VIEW x AS SELECT * FROM (SELECT p.s, t.f FROM (SELECT a, SUM(f) AS s FROM t"
            " GROUP BY a) AS p, t) AS q WHERE s = f",
            "approximate_key",
        ),
        ("CREATE MATERIALIZED VIEW x WITH (speed = 'high') AS SELECT a FROM t", "unsupported"),
        ("CREATE MATERIALIZED VIEW x WITH (strategy = 'magic') AS SELECT a FROM t", "unsupported"),
        ("CREATE MATERIALIZED VIEW AS SELECT a FROM t", "syntax"),
        ("CREATE MATERIALIZED VIEW x SELECT a FROM t", "syntax"),
    ],
)
def test_definitions_that_are_refused(sql: str, code: str) -> None:
    with pytest.raises(TidemarkError) as caught:
        define(sql, "postgres", CATALOG)
    assert caught.value.code == code, str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "FOO BAR",
        "VACUUM",
        "COPY t TO 'x'",
        "ATTACH 'x'",
        "PRAGMA x",
        "SET a = 1",
        "CREATE INDEX i ON t (a)",
        "CALL x()",
        "ALTER INDEX i RENAME TO j",
        "TRUNCATE t",
        "LOAD x",
        "INSTALL x",
        "CREATE FUNCTION f() RETURNS INT AS 'x'",
        "USE x",
        "GRANT ALL ON t TO x",
        "DROP SCHEMA x",
        "SHOW INDEXES",
        "EXPLAIN SELECT 1",
        "AUDIT",
    ],
)
def test_other_statements_are_refused(sql: str) -> None:
    with pytest.raises(TidemarkError) as caught:
        parse_script(Source(sql))
    assert caught.value.code in ("unsupported", "syntax")


@pytest.mark.parametrize(
    ("condition", "bound_"),
    [
        ("b IS NOT NULL", "(b IS NOT NULL)"),
        ("NOT b IS NULL", "(NOT (b IS NULL))"),
        ("(b > 1) IS NOT TRUE", "(NOT ((b > 1) IS TRUE))"),
        ("(b > 1) IS FALSE", "((b > 1) IS FALSE)"),
        ("c NOT LIKE 'x_'", "(NOT (c LIKE 'x_'))"),
        ("c NOT ILIKE 'x'", "(NOT (c ILIKE 'x'))"),
        ("b NOT IN (1, 2)", "(NOT (b IN (1, 2)))"),
        ("b NOT BETWEEN 1 AND 2", "(NOT ((b >= 1) AND (b <= 2)))"),
        ("b IS NOT DISTINCT FROM a", "(b IS NOT DISTINCT FROM a)"),
        ("b IS DISTINCT FROM a", "(b IS DISTINCT FROM a)"),
        ("c LIKE '50!%' ESCAPE '!'", "(c LIKE '50\\%')"),
    ],
)
def test_every_word_of_a_condition_counts(condition: str, bound_: str) -> None:
    """sqlglot keeps a NOT as a part of the node it belongs to; overlooking one would turn a view around."""
    assert bound(f"SELECT a FROM t WHERE {condition}").splitlines()[1] == f"└─ Filter {bound_}"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t TABLESAMPLE (10)",
        "SELECT a FROM t FOR UPDATE",
        "SELECT a FROM ONLY t",
        "SELECT a FROM t GROUP BY ALL",
        "SELECT a FROM t UNION ALL BY NAME SELECT a FROM s",
        "SELECT a FROM t, LATERAL (SELECT 1) WITH ORDINALITY q",
        "SELECT date_trunc('day', e, 'UTC') FROM t",
        "SELECT a INTO x FROM t",
        "SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES",
    ],
)
def test_a_clause_that_is_not_read_is_refused(sql: str) -> None:
    with pytest.raises(TidemarkError) as caught:
        bound(sql)
    assert caught.value.code in ("unsupported", "syntax", "unknown_column"), str(caught.value)


def test_an_error_in_a_later_line_points_there() -> None:
    with pytest.raises(TidemarkError) as caught:
        bound("SELECT a,\n       wrong\nFROM t")
    assert str(caught.value) == (
        "[unknown_column] there is no column 'wrong' here\n"
        "line 2, column 8:\n"
        "         wrong\n"
        "         ^^^^^\n"
        "hint: columns: a, b, c, d, e, f"
    )


def test_a_script_splits_on_semicolons_outside_quotes_and_comments() -> None:
    script = parse_script(Source("SELECT ';' ; -- a; comment\n SELECT 1 /* ; */;;"))
    assert len(script) == 2


def test_another_dialect_can_be_read() -> None:
    view = define('CREATE MATERIALIZED VIEW x AS SELECT `a` FROM t WHERE c = "q"', "spark", CATALOG)
    assert "Filter (c = 'q')" in show_plan(view.plan)  # type: ignore[union-attr]


def test_cast_is_the_cast_that_can_fail_in_every_dialect() -> None:
    """Spark's dialect once read CAST as TRY_CAST, which gives NULL for what it cannot convert."""
    view = define("CREATE MATERIALIZED VIEW x AS SELECT CAST(c AS INT) AS n FROM t", "spark", CATALOG)
    assert "CAST(c AS INT)" in show_plan(view.plan)  # type: ignore[union-attr]
    with pytest.raises(TidemarkError, match="try_cast"):
        define("CREATE MATERIALIZED VIEW x AS SELECT TRY_CAST(c AS INT) AS n FROM t", "spark", CATALOG)
