"""Every construct of the query language, maintained through a history of transactions on every engine.

After each transaction a view must hold what DuckDB makes of its text (``tests/oracle.py``); in the end the fixture
checks that changes add up. ``QUERIES`` is also what the random histories of ``tests/laws/test_breadth.py`` run over.
"""

from __future__ import annotations

import random

import pytest

import tidemark as tm
from tests.histories import TABLES, transaction
from tests.oracle import check_against_oracle

AGGREGATES = {
    "extrema": "SELECT k, MIN(x) AS low, MAX(x) AS high, MIN(s) AS first, MAX(d) AS d FROM t GROUP BY k",
    "extrema_of_all": "SELECT MIN(x) AS low, MAX(s) AS high, COUNT(*) AS n FROM t",
    "averages": "SELECT k, AVG(x) AS a, AVG(d) AS b, AVG(f) AS c, SUM(f) AS sf FROM t GROUP BY k",
    "distinct_counts": "SELECT k, COUNT(DISTINCT x) AS a, SUM(DISTINCT x) AS b, COUNT(DISTINCT s) AS c, COUNT(*) AS n"
    " FROM t GROUP BY k",
    "distinct_of_all": "SELECT COUNT(DISTINCT s) AS s, SUM(DISTINCT x) AS x FROM t",
    "decisions": "SELECT k, BOOL_AND(b) AS every, BOOL_OR(b) AS some, BOOL_OR(x > 2) AS large FROM t GROUP BY k",
    "deviations": "SELECT k, STDDEV(x) AS a, STDDEV_POP(f) AS b, VARIANCE(d) AS c, VAR_POP(x) AS e FROM t GROUP BY k",
    "texts": "SELECT k, STRING_AGG(s, ',' ORDER BY x DESC, s) AS l, STRING_AGG(DISTINCT s, '' ORDER BY s DESC) AS m"
    " FROM t GROUP BY k",
    "arrays": "SELECT k, ARRAY_AGG(s ORDER BY x DESC, s) AS l, ARRAY_AGG(DISTINCT x ORDER BY x) AS m,"
    " ARRAY_AGG(x ORDER BY x NULLS FIRST) FILTER (WHERE b) AS o FROM t GROUP BY k",
    "percentiles": "SELECT k, MEDIAN(x) AS a, PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY f) AS b,"
    " PERCENTILE_DISC(0.6) WITHIN GROUP (ORDER BY x) AS c, PERCENTILE_DISC(0) WITHIN GROUP (ORDER BY d DESC) AS e,"
    " PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x DESC) FILTER (WHERE b) AS g FROM t GROUP BY k",
    "modes": "SELECT k, MODE() WITHIN GROUP (ORDER BY s) AS a, MODE() WITHIN GROUP (ORDER BY x DESC) AS b,"
    " COUNT(*) AS n FROM t GROUP BY k",
    "filtered": "SELECT k, COUNT(*) FILTER (WHERE x > 0) AS a, SUM(x) FILTER (WHERE b) AS c,"
    " MIN(s) FILTER (WHERE x < 3) AS e FROM t GROUP BY k",
    "computed": "SELECT k + 1 AS l, MAX(x) - MIN(x) AS span, SUM(x * 2) + COUNT(*) AS n FROM t GROUP BY k + 1"
    " HAVING COUNT(*) > 1 AND MIN(x) < 5",
    "of_a_join": "SELECT u.s, MIN(t.x) AS low, COUNT(DISTINCT t.k) AS ks, SUM(t.d) AS d FROM t JOIN u ON t.k = u.k"
    " GROUP BY u.s",
    "two_levels": "SELECT n, COUNT(*) AS groups, MAX(low) AS highest FROM"
    " (SELECT k, COUNT(*) AS n, MIN(x) AS low FROM t GROUP BY k) AS g GROUP BY n",
    "join_of_groups": "SELECT a.k, a.n, b.m FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS a"
    " JOIN (SELECT k, MAX(y) AS m FROM u GROUP BY k) AS b ON a.k = b.k",
    "rollup": "SELECT k, b, SUM(x) AS s, COUNT(*) AS n, GROUPING(k, b) AS g FROM t GROUP BY ROLLUP (k, b)",
    "cube": "SELECT k, s, MIN(x) AS low, GROUPING(s) AS g FROM t GROUP BY CUBE (k, s) HAVING COUNT(*) > 1",
    "sets": "SELECT k, s, b, COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((k, s), (b), ())",
}
WINDOWS = {
    "numbers": "SELECT k, x, s, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, d, f, s, b, k) AS n FROM t",
    "ranks": "SELECT k, x, RANK() OVER w AS r, DENSE_RANK() OVER w AS d, PERCENT_RANK() OVER w AS p,"
    " CUME_DIST() OVER w AS c FROM t WINDOW w AS (PARTITION BY k ORDER BY x DESC)",
    "running": "SELECT k, x, SUM(x) OVER (PARTITION BY k ORDER BY x) AS s, COUNT(*) OVER (PARTITION BY k) AS n,"
    " MIN(x) OVER (PARTITION BY k ORDER BY x DESC) AS low FROM t",
    "framed": "SELECT k, x, SUM(x) OVER (PARTITION BY k ORDER BY x, d, f, s, b"
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a, AVG(x) OVER (PARTITION BY k) AS b FROM t",
    "neighbours": "SELECT k, x, LAG(x) OVER w AS a, LEAD(x, 2, 99) OVER w AS b, FIRST_VALUE(s) OVER w AS c,"
    " NTILE(3) OVER w AS e FROM t WINDOW w AS (PARTITION BY k ORDER BY x, d, f, s, b)",
    "unpartitioned": "SELECT x, RANK() OVER (ORDER BY x) AS r, SUM(x) OVER () AS total FROM t",
    "over_groups": "SELECT k, SUM(x) AS s, RANK() OVER (ORDER BY SUM(x) DESC) AS r, COUNT(*) OVER () AS n"
    " FROM t GROUP BY k",
    "aggregates_of_aggregates": "SELECT k, b, SUM(x) AS s, AVG(SUM(x)) OVER (PARTITION BY k) AS a,"
    " COUNT(*) FILTER (WHERE MAX(x) > 1) OVER () AS n, SUM(COUNT(*)) OVER (ORDER BY k, b) AS r FROM t GROUP BY k, b",
    "by_computed_results": "SELECT k, SUM(x) AS total, COUNT(*) AS n FROM t GROUP BY k"
    " ORDER BY CASE WHEN total > 2 THEN n ELSE -n END, k LIMIT 3",
    "best_of_each": "SELECT k, x FROM"
    " (SELECT k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) AS n FROM t) AS q WHERE n <= 2",
    "first_rows": "SELECT k, x FROM t ORDER BY x DESC NULLS LAST, k LIMIT 3",
    "page": "SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY n DESC, k LIMIT 2 OFFSET 1",
    "distinct_on": "SELECT DISTINCT ON (k) k, x FROM t ORDER BY k, x DESC",
    "limited_below": "SELECT q.k, u.y FROM (SELECT k FROM t GROUP BY k ORDER BY k LIMIT 2) AS q JOIN u ON q.k = u.k",
}
_DAYS = "(SELECT k, x, s, DATE '2024-01-30' + x * 15 AS day FROM t) AS q"
FRAMES = {
    "near": "SELECT k, x, d, SUM(x) OVER (PARTITION BY k ORDER BY x RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS a,"
    " COUNT(*) OVER (PARTITION BY k ORDER BY d DESC RANGE BETWEEN 1.5 PRECEDING AND CURRENT ROW) AS b,"
    " MIN(s) OVER (PARTITION BY k ORDER BY f NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND 0.5 PRECEDING) AS c,"
    " AVG(x) OVER (ORDER BY x DESC NULLS LAST RANGE BETWEEN 3 FOLLOWING AND 6 FOLLOWING) AS e FROM t",
    "recent": "SELECT k, day, SUM(x) OVER (PARTITION BY k ORDER BY day RANGE INTERVAL '1 month' PRECEDING) AS a,"
    " COUNT(x) OVER (PARTITION BY k ORDER BY day DESC RANGE BETWEEN INTERVAL '20 days' PRECEDING"
    " AND INTERVAL '15 days 12 hours' FOLLOWING) AS b, MAX(s) OVER (ORDER BY day + INTERVAL '90 minutes'"
    f" RANGE BETWEEN INTERVAL '1 month' FOLLOWING AND UNBOUNDED FOLLOWING) AS c FROM {_DAYS}",
    "places": "SELECT k, x, COUNT(*) OVER (PARTITION BY k ORDER BY x GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS a,"
    " SUM(x) OVER (PARTITION BY k ORDER BY s DESC, b GROUPS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS c,"
    " MIN(s) OVER (ORDER BY k, x GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS e FROM t",
    "known": "SELECT k, x, LAG(s IGNORE NULLS) OVER w AS a, LEAD(x, 2, 99 IGNORE NULLS) OVER w AS b,"
    " FIRST_VALUE(s IGNORE NULLS) OVER w AS c, LAST_VALUE(s IGNORE NULLS) OVER w AS e, NTH_VALUE(s, 2 IGNORE NULLS)"
    " OVER (PARTITION BY k ORDER BY x, d, f, s, b ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS g,"
    " NTH_VALUE(x, 2 IGNORE NULLS) OVER w AS h FROM t WINDOW w AS (PARTITION BY k ORDER BY x, d, f, s, b)",
    "ends": "SELECT k, x, FIRST_VALUE(x)"
    " OVER (PARTITION BY k ORDER BY x RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING) AS a,"
    " LAST_VALUE(x) OVER (PARTITION BY k ORDER BY x GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS b,"
    " LAST_VALUE(x IGNORE NULLS) OVER (ORDER BY x NULLS FIRST RANGE BETWEEN CURRENT ROW AND 3 FOLLOWING) AS c FROM t",
    "by_rank": "SELECT k, x FROM t ORDER BY SUM(x) OVER (PARTITION BY k) DESC, k, x DESC LIMIT 4",
}
QUERIES = AGGREGATES | WINDOWS | FRAMES


@pytest.mark.parametrize("group", [AGGREGATES, WINDOWS, FRAMES], ids=["aggregates", "windows", "frames"])
def test_views_follow_a_history(db: tm.Database, engine: str, group: dict[str, str]) -> None:
    db.execute(TABLES)
    for view, query in group.items():
        db.execute(f"CREATE MATERIALIZED VIEW {view} WITH (strategy = 'auto') AS {query}")
    check_against_oracle(db, group)
    choice = random.Random(20261116)
    for _ in range(2 if engine.startswith("spark") else 6):  # Spark takes long; it has seen the plans after two
        transaction(db, choice, most=8)
        check_against_oracle(db, group)


def test_a_view_over_filled_tables_is_filled_right(db: tm.Database) -> None:
    db.execute(TABLES)
    choice = random.Random(7)
    for _ in range(4):
        transaction(db, choice)
    chosen = {name: QUERIES[name] for name in ("extrema", "distinct_counts", "texts", "rollup", "ranks", "first_rows")}
    for view, query in chosen.items():
        db.execute(f"CREATE MATERIALIZED VIEW {view} AS {query}")
    check_against_oracle(db, chosen)
    transaction(db, choice)
    check_against_oracle(db, chosen)
