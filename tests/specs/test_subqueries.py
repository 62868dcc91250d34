"""Specs of outer joins and subqueries: what the binder makes of them, and what it refuses."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.specs.test_binder import bound
from tidemark.errors import TidemarkError


@pytest.mark.parametrize(
    ("sql", "plan"),
    [
        (
            "SELECT x FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.a = s.a AND b > 1)",
            """
Project x
└─ Project a, x
   └─ Join (a = m0)
      ├─ s
      └─ Distinct
         └─ Project a AS m0
            └─ Filter (b > 1)
               └─ t
""",
        ),
        (
            "SELECT x FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.b < s.x)",
            """
Project x
└─ Union
   ├─ s
   └─ Negate
      └─ Project a, x
         └─ Join (x IS NOT DISTINCT FROM m0)
            ├─ s
            └─ Distinct
               └─ Project x AS m0
                  └─ Join (CAST(b AS BIGINT) < x)
                     ├─ s
                     └─ t
""",
        ),
        (
            "SELECT x, c FROM s LEFT JOIN t ON s.a = t.a",
            """
Project x, c
└─ Union
   ├─ Join (a = a)
   │  ├─ s
   │  └─ t
   └─ Project a, x, NULL AS a, NULL AS b, NULL AS c, NULL AS d, NULL AS e, NULL AS f
      └─ Union
         ├─ s
         └─ Negate
            └─ Project a, x
               └─ Join (a = m0)
                  ├─ s
                  └─ Distinct
                     └─ Project a AS m0
                        └─ t
""",
        ),
        (
            "SELECT x, (SELECT COUNT(*) FROM t WHERE t.b = s.a) AS n FROM s",
            """
Project x, count(*) AS n
└─ Join (a IS NOT DISTINCT FROM p0)
   ├─ s
   └─ Aggregate by (k0): count(a0) AS count(*)
      └─ Union
         ├─ Project b AS k0, 1 AS a0
         │  └─ Filter (b IS NOT NULL)
         │     └─ t
         └─ Project m0 AS k0, NULL AS a0
            └─ Distinct
               └─ Project a AS m0
                  └─ s
""",
        ),
        (
            "SELECT x, EXISTS (SELECT 1 FROM t WHERE t.a = s.a) AS there FROM s",
            """
Project x, (one > 0) AS there
└─ Join (a IS NOT DISTINCT FROM m0)
   ├─ s
   └─ Aggregate by (m0): count(one) AS one
      └─ Union
         ├─ Project m0, NULL AS one
         │  └─ Distinct
         │     └─ Project a AS m0
         │        └─ s
         └─ Project m0, 1 AS one
            └─ Distinct
               └─ Project a AS m0
                  └─ t
""",
        ),
        (
            "SELECT a FROM t WHERE a NOT IN (SELECT k.a FROM t AS k WHERE k.b = t.b)",
            """
Project a
└─ Union
   ├─ t
   └─ Negate
      └─ Project a, b, c, d, e, f
         └─ Join ((b = m0) AND (a = m1))
            ├─ t
            └─ Distinct
               └─ Project b AS m0, a AS m1
                  └─ Filter (b IS NOT NULL)
                     └─ t
""",
        ),
    ],
)
def test_they_become_joins_unions_and_distinct_keys(sql: str, plan: str) -> None:
    assert bound(sql) == plan.strip()


@pytest.mark.parametrize(
    ("sql", "code", "words"),
    [
        ("SELECT a FROM t WHERE a = (SELECT a, x FROM s)", "type", "one column"),
        ("SELECT a FROM t WHERE a IN (SELECT a, x FROM s)", "type", "2 columns to compare with 1"),
        ("SELECT a FROM t WHERE (a, b) < ANY (SELECT a, x FROM s)", "unsupported", "rows"),
        ("SELECT a FROM t WHERE (a, b) = (SELECT a, x FROM s)", "type", "gives one column"),
        ("SELECT a FROM t WHERE c IN (SELECT a FROM s)", "type", "VARCHAR"),
        ("SELECT (SELECT SUM(t.b) FROM s) FROM t", "unsupported", "outer columns alone"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.x = SUM(t.a))", "grouping", "WHERE"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.a = q.a)", "unknown_relation", "'q'"),
        ("SELECT a FROM t WHERE EXISTS (SELECT s.b FROM s)", "unknown_column", "'b'"),
        ("SELECT a FROM t WHERE EXISTS (SELECT nowhere FROM s)", "unknown_column", "'nowhere'"),
        ("SELECT c FROM t GROUP BY c HAVING EXISTS (SELECT 1 FROM s WHERE s.a = t.b)", "grouping", "'b'"),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM s ORDER BY nowhere)", "unknown_column", "'nowhere'"),
        ("SELECT a FROM t ORDER BY (SELECT COUNT(*) FROM s WHERE s.a = t.a)", "unsupported", "ORDER BY"),
        ("SELECT 1 FROM t, (SELECT 1 FROM s WHERE s.a = t.a) AS q", "unknown_relation", "'t'"),
        ("SELECT 1 FROM s RIGHT JOIN LATERAL (SELECT 1 FROM t WHERE t.a = s.a) AS q ON TRUE", "unsupported", "LATERAL"),
        (
            "SELECT 1 FROM t, LATERAL (SELECT s.x FROM s WHERE s.a = t.a) AS q FULL JOIN s ON TRUE",
            "unsupported",
            "FULL",
        ),
        ("SELECT 1 FROM t LEFT JOIN s", "syntax", "LEFT JOIN needs"),
        ("SELECT 1 FROM t JOIN s", "syntax", "JOIN needs"),
        ("SELECT 1 FROM t JOIN (SELECT NULL, a FROM s) AS q (x, y)", "syntax", "JOIN needs"),
        ("SELECT 1 FROM (SELECT a, TRUE FROM t) AS p JOIN (SELECT TRUE, 1) AS q (x, y)", "syntax", "JOIN needs"),
        ("SELECT 1 FROM t JOIN (SELECT * FROM s, t) AS q", "syntax", "JOIN needs"),
        ("SELECT 1 FROM t JOIN LATERAL (SELECT TRUE, t.a) AS q (x, y)", "syntax", "JOIN needs"),
        ("SELECT 1 FROM t LEFT SEMI JOIN s ON t.a = s.a", "unsupported", "SEMI"),
    ],
)
def test_what_is_refused(sql: str, code: str, words: str) -> None:
    with pytest.raises(TidemarkError) as caught:
        bound(sql)
    assert caught.value.code == code
    assert words in caught.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM t{} (SELECT NULL, s.a FROM s JOIN t ON TRUE) AS q (x, y)",
        "SELECT 1 FROM (SELECT a, TRUE FROM t JOIN s USING (a)) AS p{} (SELECT TRUE, 1) AS q (x, y)",
        "SELECT 1 FROM t JOIN s ON TRUE{} (SELECT TRUE, a FROM s) AS q (x, y)",
        "SELECT 1 FROM t{} LATERAL (SELECT TRUE, s.a FROM s JOIN t AS o ON TRUE) AS q (x, y)",
    ],
)
def test_a_comma_is_one_whatever_stands_beside_it(sql: str) -> None:
    plan = bound(sql.format(","))
    assert plan == bound(sql.format(" CROSS JOIN"))
    assert "Join TRUE" in plan


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT (SELECT COUNT(*) FROM s) FROM t", "count"),
        ("SELECT (SELECT x AS y FROM s WHERE FALSE) FROM t", "y"),
        ("SELECT EXISTS (SELECT 1 FROM s) FROM t", "exists"),
    ],
)
def test_a_column_is_named_after_its_subquery(sql: str, name: str) -> None:
    assert bound(sql).splitlines()[0].split()[-1] == name


def test_further_subqueries_do_not_multiply_the_plan() -> None:
    """Each subquery of a select list adds about as much to the plan as the one before it."""
    one = "(SELECT COUNT(*) FROM t WHERE t.b = s.a + {0})"
    sizes = [
        len(bound(f"SELECT {', '.join(one.format(n) for n in range(count))} FROM s").splitlines())
        for count in (2, 3, 4, 5)
    ]
    steps = {after - before for before, after in pairwise(sizes)}
    assert len(steps) == 1
