"""Queries with outer joins and subqueries over r (a, b), s (a, c NOT NULL) and t (d), all INT, by what they are about.

DuckDB gives the same answers to each of them as PostgreSQL does, so its own evaluation of the text is the oracle.
"""

from __future__ import annotations

OUTER_JOINS = {
    "left": "SELECT r.a, r.b, s.a AS sa, s.c FROM r LEFT JOIN s ON r.a = s.a",
    "right": "SELECT r.a, r.b, s.a AS sa, s.c FROM r RIGHT JOIN s ON r.a = s.a",
    "full": "SELECT r.a, r.b, s.a AS sa, s.c FROM r FULL JOIN s ON r.a = s.a",
    "left_residual": "SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.a = s.a AND r.b < s.c",
    "left_one_sided": "SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.a = s.a AND r.b > 1 AND s.c < 3",
    "right_residual": "SELECT r.a, r.b, s.c FROM r RIGHT OUTER JOIN s ON r.a = s.a AND r.b <= s.c",
    "full_residual": "SELECT r.a, r.b, s.a AS sa, s.c FROM r FULL JOIN s ON r.a = s.a AND (r.b = s.c OR r.b IS NULL)",
    "full_one_sided": "SELECT r.a, r.b, s.a AS sa, s.c FROM r FULL JOIN s ON r.a = s.a AND r.b > 1 AND s.c < 3",
    "left_range": "SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.a < s.a",
    "left_always": "SELECT r.a, t.d FROM r LEFT JOIN t ON TRUE",
    "left_never": "SELECT r.a, t.d FROM r LEFT JOIN t ON FALSE",
    "full_always": "SELECT r.a, t.d FROM r FULL JOIN t ON 1 = 1",
    "left_only_left": "SELECT r.a, t.d FROM r LEFT JOIN t ON r.a = 1",
    "left_null_safe": "SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.a IS NOT DISTINCT FROM s.a",
    "left_expression": "SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.a + 1 = s.a",
    "left_failing": "SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.a = s.a AND 6 % (s.c + 1) >= r.b",
    "using_left": "SELECT a, r.b, s.c FROM r LEFT JOIN s USING (a)",
    "using_right": "SELECT a, r.b, s.c FROM r RIGHT JOIN s USING (a)",
    "using_full": "SELECT a, r.b, s.c FROM r FULL JOIN s USING (a)",
    "using_star": "SELECT * FROM r FULL JOIN s USING (a)",
    "natural_left": "SELECT * FROM r NATURAL LEFT JOIN s",
    "natural_full": "SELECT * FROM r NATURAL FULL JOIN s",
    "chain": "SELECT r.a, s.c, t.d FROM r LEFT JOIN s ON r.a = s.a LEFT JOIN t ON s.c = t.d",
    "chain_of_full": """SELECT a, r.b, s.c, q.b AS qb FROM r FULL JOIN s USING (a) FULL JOIN (SELECT *
        FROM r) AS q USING (a)""",
    "chain_mixed": "SELECT r.a, s.c, t.d FROM r LEFT JOIN s ON r.a = s.a RIGHT JOIN t ON s.c = t.d",
    "chain_inner": "SELECT r.a, s.c, t.d FROM r LEFT JOIN s ON r.a = s.a JOIN t ON r.b = t.d",
    "chain_of_four": """
        SELECT r.a, s.c, t.d, q.b FROM r LEFT JOIN s ON r.a = s.a LEFT JOIN t ON t.d = s.c
        LEFT JOIN r AS q ON q.b = t.d""",
    "nested": "SELECT r.a, s.c, t.d FROM r LEFT JOIN (s JOIN t ON s.c = t.d) ON r.a = s.a",
    "self_join": "SELECT x.a, x.b, y.b AS yb FROM r AS x LEFT JOIN r AS y ON x.a = y.b",
    "padded_only": "SELECT r.a, r.b FROM r LEFT JOIN s ON r.a = s.a WHERE s.c IS NULL",
    "padded_filtered": "SELECT r.a, r.b FROM r LEFT JOIN s ON r.a = s.a WHERE s.c > 1",
    "grouped": "SELECT r.a, COUNT(*) AS n, COUNT(s.c) AS m, SUM(s.c) AS q FROM r LEFT JOIN s ON r.a = s.a GROUP BY r.a",
    "full_grouped": "SELECT a, COUNT(r.b) AS n, SUM(s.c) AS q FROM r FULL JOIN s USING (a) GROUP BY a",
    "distinct": "SELECT DISTINCT r.a, s.c FROM r FULL JOIN s ON r.a = s.a",
    "except_": "SELECT r.a, s.c FROM r LEFT JOIN s ON r.a = s.a EXCEPT ALL SELECT r.b, s.c FROM r JOIN s ON r.a = s.a",
    "coalesced": "SELECT COALESCE(s.c, 9) AS c, s.c IS NULL AS lonely FROM r LEFT JOIN s ON r.a = s.a",
    "comma": "SELECT r.a, s.c, t.d FROM t, r LEFT JOIN s ON r.a = s.a WHERE t.d = r.b",
    "on_exists": "SELECT r.a, s.c FROM r LEFT JOIN s ON r.a = s.a AND EXISTS (SELECT 1 FROM t WHERE t.d = s.c)",
    "on_in": "SELECT r.a, s.c FROM r FULL JOIN s ON r.a = s.a AND r.b IN (SELECT d FROM t)",
}

EXISTS = {
    "exists": "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
    "not_exists": "SELECT a, b FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.a = r.a)",
    "residual": "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.c > r.b)",
    "not_residual": "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.c <> r.b)",
    "uncorrelated": "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM t WHERE d > 2)",
    "not_uncorrelated": "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE d > 2)",
    "both": """SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)
        AND NOT EXISTS (SELECT 1 FROM t WHERE t.d = r.b)""",
    "under_or": "SELECT a, b FROM r WHERE b = 1 OR EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
    "or_of_two": """SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)
        OR NOT EXISTS (SELECT 1 FROM t WHERE t.d = r.b)""",
    "not_or": """SELECT a, b FROM r WHERE NOT (EXISTS (SELECT 1 FROM s WHERE s.a = r.a)
        OR EXISTS (SELECT 1 FROM t WHERE t.d = r.b))""",
    "not_and": """SELECT a, b FROM r WHERE NOT (EXISTS (SELECT 1 FROM s WHERE s.a = r.a)
        AND EXISTS (SELECT 1 FROM t WHERE t.d = r.b))""",
    "selected": "SELECT a, EXISTS (SELECT 1 FROM s WHERE s.a = r.a) AS there FROM r",
    "in_case": "SELECT a, CASE WHEN EXISTS (SELECT 1 FROM s WHERE s.a = r.a) THEN b ELSE -1 END AS x FROM r",
    "limited": "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a ORDER BY c LIMIT 1)",
    "joined": "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s JOIN t ON s.c = t.d WHERE s.a = r.a)",
    "outer_joined": """SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s LEFT JOIN t ON s.c = t.d
        WHERE s.a = r.a AND d IS NULL)""",
    "correlated_outer_join": """SELECT a, b FROM r
        WHERE EXISTS (SELECT 1 FROM s LEFT JOIN t ON s.c = t.d AND t.d = r.b WHERE s.a = r.a AND t.d IS NULL)""",
    "grouped": "SELECT a, b FROM r WHERE EXISTS (SELECT s.a FROM s WHERE s.c = r.b GROUP BY s.a HAVING COUNT(*) > 1)",
    "grouped_residual": """SELECT a, b FROM r
        WHERE EXISTS (SELECT s.a FROM s WHERE s.c < r.b GROUP BY s.a HAVING COUNT(*) > 1)""",
    "total": "SELECT a, b FROM r WHERE EXISTS (SELECT COUNT(*) FROM s WHERE s.a = r.a)",
    "total_having": "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a HAVING COUNT(*) = 0)",
    "union": """SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a UNION ALL SELECT 2
        FROM t WHERE d = r.b)""",
    "except_": """SELECT a, b FROM r WHERE EXISTS (SELECT c FROM s WHERE s.a = r.a EXCEPT SELECT d FROM t
        WHERE d <> r.b)""",
    "distinct": "SELECT a, b FROM r WHERE EXISTS (SELECT DISTINCT c FROM s WHERE s.a = r.a)",
    "nested": """SELECT a, b FROM r
        WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND NOT EXISTS (SELECT 1 FROM t WHERE t.d = s.c))""",
    "two_levels": """SELECT a, b FROM r
        WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND EXISTS (SELECT 1 FROM t WHERE t.d = s.c AND t.d > r.b))""",
    "two_levels_not": """SELECT a, b FROM r
        WHERE NOT EXISTS (SELECT 1 FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.d = s.c AND t.d = r.b))""",
    "division": """SELECT DISTINCT a FROM r
        WHERE NOT EXISTS (SELECT 1 FROM t WHERE NOT EXISTS (SELECT 1 FROM r AS q WHERE q.a = r.a AND q.b = t.d))""",
    "from_correlated": """SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM (SELECT c FROM s WHERE s.a = r.a) AS q
        WHERE c > 1)""",
    "with": "WITH q AS (SELECT a FROM s WHERE c > 0) SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM q WHERE q.a = r.a)",
    "with_inside": """SELECT a FROM r WHERE EXISTS (WITH q AS (SELECT c FROM s WHERE s.a = r.a) SELECT 1
        FROM q WHERE c = r.b)""",
    "with_two_levels": """SELECT a FROM r WHERE EXISTS (
        WITH q AS (SELECT c FROM s WHERE s.a = r.a) SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM q WHERE q.c = t.d))""",
    "having": "SELECT a, COUNT(*) AS n FROM r GROUP BY a HAVING EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
    "having_or": """SELECT a, COUNT(*) AS n FROM r GROUP BY a
        HAVING COUNT(*) > 2 OR NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)""",
    "key": "SELECT EXISTS (SELECT 1 FROM s WHERE s.a = r.a) AS there, COUNT(*) AS n FROM r GROUP BY 1",
    "argument": "SELECT SUM(CASE WHEN EXISTS (SELECT 1 FROM s WHERE s.a = r.a) THEN 1 ELSE 0 END) AS n FROM r",
    "after_join": """SELECT r.a, s.c FROM r JOIN s ON r.a = s.a WHERE NOT EXISTS (SELECT 1 FROM t
        WHERE t.d = r.b OR t.d = s.c)""",
    "no_from": "SELECT EXISTS (SELECT 1 FROM t WHERE d = 1) AS there",
    "no_from_where": "SELECT 1 AS one WHERE NOT EXISTS (SELECT 1 FROM t WHERE d = 1)",
}

QUANTIFIED = {
    "in_": "SELECT a, b FROM r WHERE a IN (SELECT a FROM s)",
    "not_in": "SELECT a, b FROM r WHERE a NOT IN (SELECT a FROM s)",
    "not_in_required": "SELECT a, b FROM r WHERE b NOT IN (SELECT c FROM s)",
    "required_not_in_required": "SELECT a, c FROM s WHERE c NOT IN (SELECT c FROM s WHERE a = 1)",
    "not_in_empty": "SELECT a, b FROM r WHERE a NOT IN (SELECT d FROM t WHERE d > 5)",
    "in_values": "SELECT a, b FROM r WHERE a IN (VALUES (1), (2))",
    "literal_in": "SELECT a, b FROM r WHERE 1 IN (SELECT d FROM t)",
    "literal_not_in": "SELECT a, b FROM r WHERE 1 NOT IN (SELECT d FROM t)",
    "in_selected": "SELECT a, a IN (SELECT d FROM t) AS there FROM r",
    "not_in_selected": "SELECT a, a NOT IN (SELECT d FROM t) AS missing FROM r",
    "in_under_or": "SELECT a, b FROM r WHERE a IN (SELECT d FROM t) OR b NOT IN (SELECT c FROM s)",
    "in_is_null": "SELECT a, b FROM r WHERE (a IN (SELECT d FROM t)) IS NULL",
    "in_correlated": "SELECT a, b FROM r WHERE b IN (SELECT c FROM s WHERE s.a = r.a)",
    "not_in_correlated": "SELECT a, b FROM r WHERE b NOT IN (SELECT c FROM s WHERE s.a = r.a)",
    "not_in_correlated_nulls": "SELECT a, b FROM r WHERE b NOT IN (SELECT q.a FROM r AS q WHERE q.b = r.a)",
    "not_in_range": "SELECT a, b FROM r WHERE b NOT IN (SELECT s.a FROM s WHERE s.c < r.a)",
    "in_expression": "SELECT a, b FROM r WHERE a + b IN (SELECT d FROM t)",
    "rows_in": "SELECT a, b FROM r WHERE (a, b) IN (SELECT a, c FROM s)",
    "rows_not_in": "SELECT a, b FROM r WHERE (a, b) NOT IN (SELECT a, c FROM s)",
    "in_nested": "SELECT a, b FROM r WHERE a IN (SELECT a FROM s WHERE c IN (SELECT d FROM t))",
    "in_grouped": "SELECT a, b FROM r WHERE a IN (SELECT a FROM s GROUP BY a HAVING COUNT(*) > 1)",
    "in_union": "SELECT a, b FROM r WHERE a IN (SELECT a FROM s UNION SELECT d FROM t)",
    "in_having": "SELECT a, COUNT(*) AS n FROM r GROUP BY a HAVING COUNT(*) IN (SELECT d FROM t)",
    "any_less": "SELECT a, b FROM r WHERE a < ANY (SELECT d FROM t)",
    "some_at_least": "SELECT a, b FROM r WHERE b >= SOME (SELECT c FROM s WHERE s.a = r.a)",
    "any_not_equal": "SELECT a, b FROM r WHERE a <> ANY (SELECT d FROM t)",
    "all_greater": "SELECT a, b FROM r WHERE a > ALL (SELECT d FROM t)",
    "all_correlated": "SELECT a, b FROM r WHERE b <= ALL (SELECT c FROM s WHERE s.a = r.a)",
    "all_not_equal": "SELECT a, b FROM r WHERE a <> ALL (SELECT d FROM t)",
    "not_all": "SELECT a, b FROM r WHERE NOT a > ALL (SELECT d FROM t)",
    "not_any": "SELECT a, b FROM r WHERE NOT a = ANY (SELECT d FROM t)",
    "all_selected": "SELECT a, a > ALL (SELECT d FROM t) AS above, a < ANY (SELECT d FROM t) AS below FROM r",
}

SCALAR = {
    "total": "SELECT a, (SELECT COUNT(*) FROM t) AS n, (SELECT SUM(d) FROM t) AS q FROM r",
    "compared": "SELECT a, b FROM r WHERE b > (SELECT COUNT(*) FROM t)",
    "no_from": "SELECT (SELECT SUM(d) FROM t) AS q, (SELECT COUNT(*) FROM s) AS n",
    "correlated": "SELECT a, b, (SELECT COUNT(*) FROM s WHERE s.a = r.a) AS n FROM r",
    "correlated_sum": "SELECT a, (SELECT SUM(c) FROM s WHERE s.a = r.a) AS q FROM r",
    "coalesced": "SELECT a, (SELECT COALESCE(SUM(c), -1) + r.b FROM s WHERE s.a = r.a) AS q FROM r",
    "several": """SELECT a, (SELECT COUNT(*) FROM s WHERE s.a = r.a) AS n, (SELECT SUM(d) FROM t
        WHERE d = r.b) AS q FROM r""",
    "having": "SELECT a, (SELECT SUM(c) FROM s WHERE s.a = r.a HAVING COUNT(*) > 1) AS q FROM r",
    "in_where": "SELECT a, b FROM r WHERE b < (SELECT COUNT(*) FROM s WHERE s.a = r.a)",
    "in_where_or": """SELECT a, b FROM r WHERE b < (SELECT COUNT(*) FROM s WHERE s.a = r.a)
        OR a = (SELECT SUM(d) FROM t)""",
    "range": "SELECT a, (SELECT COUNT(*) FROM s WHERE s.c < r.b) AS n FROM r",
    "range_sum": "SELECT a, b, (SELECT SUM(c) FROM s WHERE s.c <= r.b AND s.a = r.a) AS q FROM r",
    "argument_outside": "SELECT a, (SELECT SUM(c + r.b) FROM s WHERE s.a = r.a) AS q FROM r",
    "distinct_total": "SELECT a, (SELECT COUNT(*) FROM (SELECT DISTINCT c FROM s WHERE s.a = r.a) AS q) AS n FROM r",
    "of_groups": "SELECT a, (SELECT COUNT(*) FROM (SELECT c FROM s WHERE s.a = r.a GROUP BY c) AS q) AS n FROM r",
    "two_levels": """SELECT a, (SELECT SUM(c + (SELECT COUNT(*) FROM t WHERE t.d = r.b)) FROM s WHERE s.a = r.a) AS q
        FROM r""",
    "inner_two_levels": """SELECT a, (SELECT COUNT(*) FROM s WHERE s.c = (SELECT COUNT(*) FROM t WHERE t.d = r.b)) AS n
        FROM r""",
    "grouped": "SELECT a, COUNT(*) AS n, (SELECT COUNT(*) FROM s WHERE s.a = r.a) AS m FROM r GROUP BY a",
    "having_total": "SELECT a, SUM(b) AS q FROM r GROUP BY a HAVING SUM(b) > (SELECT COUNT(*) FROM t)",
    "having_correlated": """SELECT a, SUM(b) AS q FROM r GROUP BY a HAVING SUM(b) > (SELECT COUNT(*) FROM s
        WHERE s.a = r.a)""",
    "key": "SELECT (SELECT COUNT(*) FROM s WHERE s.a = r.a) AS n, COUNT(*) AS m FROM r GROUP BY 1",
    "argument": "SELECT SUM((SELECT COUNT(*) FROM s WHERE s.a = r.a)) AS q FROM r",
    "in_case": "SELECT a, CASE WHEN b > 1 THEN (SELECT COUNT(*) FROM t WHERE d = r.a) ELSE 0 END AS n FROM r",
    "in_on": "SELECT r.a, s.c FROM r JOIN s ON s.c = (SELECT COUNT(*) FROM t WHERE t.d = r.a)",
    "of_scalar": "SELECT a FROM r WHERE (SELECT COUNT(*) FROM s WHERE s.a = r.a) IN (SELECT d FROM t)",
    "distinct_value": "SELECT a, (SELECT DISTINCT s.a FROM s WHERE s.a = r.a) AS x FROM r",
    "group_key": "SELECT a, (SELECT s.a FROM s WHERE s.a = r.a GROUP BY s.a) AS x FROM r",
    "no_row": "SELECT a, (SELECT d FROM t WHERE FALSE) AS x, (SELECT d FROM t WHERE d > 9 AND d > r.a) AS y FROM r",
    "outer_value": "SELECT a, (SELECT r.b) AS x, (SELECT r.a WHERE r.b > 1) AS y FROM r",
    "over_outer_join": "SELECT r.a, s.c, (SELECT COUNT(*) FROM t WHERE t.d = s.c) AS n FROM r LEFT JOIN s ON r.a = s.a",
    "total_of_outer_join": """SELECT a, (SELECT COUNT(t.d) FROM s LEFT JOIN t ON s.c = t.d WHERE s.a = r.a) AS n
        FROM r""",
    "union_total": """SELECT a, (SELECT COUNT(*) FROM
        (SELECT c FROM s WHERE s.a = r.a UNION SELECT d FROM t WHERE d = r.b) AS q) AS n FROM r""",
}

LATERAL = {
    "comma": "SELECT r.a, q.c FROM r, LATERAL (SELECT c FROM s WHERE s.a = r.a) AS q",
    "cross": "SELECT r.a, q.x FROM r CROSS JOIN LATERAL (SELECT c + r.b AS x FROM s WHERE s.a = r.a) AS q",
    "inner": "SELECT r.a, q.c FROM r JOIN LATERAL (SELECT c FROM s WHERE s.a = r.a) AS q ON q.c > 1",
    "left": "SELECT r.a, r.b, q.c FROM r LEFT JOIN LATERAL (SELECT c FROM s WHERE s.a = r.a) AS q ON TRUE",
    "left_on": "SELECT r.a, r.b, q.c FROM r LEFT JOIN LATERAL (SELECT c FROM s WHERE s.a = r.a) AS q ON q.c > r.b",
    "total": "SELECT r.a, q.n FROM r, LATERAL (SELECT COUNT(*) AS n FROM s WHERE s.a = r.a) AS q",
    "grouped": """SELECT r.a, q.c, q.n FROM r
        LEFT JOIN LATERAL (SELECT c, COUNT(*) AS n FROM s WHERE s.c < r.b GROUP BY c) AS q ON TRUE""",
    "chain": """SELECT r.a, q.c, p.d FROM r, LATERAL (SELECT c FROM s WHERE s.a = r.a) AS q,
        LATERAL (SELECT d FROM t WHERE t.d = q.c OR t.d = r.b) AS p""",
    "behind_comma": "SELECT r.a, t.d, q.c FROM r, t, LATERAL (SELECT c FROM s WHERE s.a = r.a AND s.c > t.d) AS q",
    "inside_subquery": """SELECT a FROM r
        WHERE EXISTS (SELECT 1 FROM t, LATERAL (SELECT 1 FROM s WHERE s.c = t.d AND s.a = r.a) AS q)""",
    "distinct": "SELECT r.a, q.c FROM r, LATERAL (SELECT DISTINCT c FROM s WHERE s.a = r.a) AS q",
    "exists_inside": """SELECT r.a, q.c FROM r,
        LATERAL (SELECT c FROM s WHERE s.a = r.a AND NOT EXISTS (SELECT 1 FROM t WHERE t.d = r.b)) AS q""",
}

CASES = {
    f"{family}_{name}": query
    for family, queries in {
        "outer": OUTER_JOINS,
        "exists": EXISTS,
        "any": QUANTIFIED,
        "scalar": SCALAR,
        "lateral": LATERAL,
    }.items()
    for name, query in queries.items()
}
