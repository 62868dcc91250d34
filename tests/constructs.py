"""The reference page of what a view may contain and how each construct is kept true, written from the code itself.

``python -m tests.constructs > docs/reference/maintenance.md`` writes it anew. Each example is created as a view, and what
the network says of its nodes is what the page says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import tidemark as tm
from tidemark.strategy.maintenance import maintenance
from tidemark.strategy.nodes import NodeKind

TABLES: Final = """
CREATE TABLE sale (id INT PRIMARY KEY, customer INT, amount DECIMAL(12,2), weight DOUBLE, note VARCHAR, at TIMESTAMP);
CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR, region VARCHAR);
"""

GROUPS: Final[dict[str, dict[str, str]]] = {
    "Rows": {
        "selection and projection": "SELECT id, amount * 2 AS twice FROM sale WHERE amount > 10",
        "`JOIN … ON`, `USING`, `NATURAL JOIN`, products": "SELECT s.id, c.name FROM sale s JOIN customer c ON c.id = s.customer",
        "self joins": "SELECT a.id, b.id AS other FROM sale a JOIN sale b ON a.customer = b.customer AND a.id < b.id",
        "`VALUES`, `WITH`, subqueries in `FROM`": "WITH big AS (SELECT id FROM sale WHERE amount > 9) SELECT * FROM big",
        "`UNNEST`": "SELECT s.id, word FROM sale s, UNNEST(string_to_array(s.note, ' ')) AS w (word)",
        "views on views": "SELECT id FROM (SELECT id, amount FROM sale) AS q WHERE amount > 1",
    },
    "Sets": {
        "`DISTINCT`": "SELECT DISTINCT customer FROM sale",
        "`UNION ALL`": "SELECT id FROM sale UNION ALL SELECT id FROM customer",
        "`UNION`": "SELECT id FROM sale UNION SELECT id FROM customer",
        "`EXCEPT [ALL]`": "SELECT customer FROM sale EXCEPT ALL SELECT id FROM customer",
        "`INTERSECT [ALL]`": "SELECT customer FROM sale INTERSECT SELECT id FROM customer",
    },
    "Outer joins and subqueries": {
        "`LEFT`, `RIGHT`, `FULL JOIN`": "SELECT c.name, s.id FROM customer c LEFT JOIN sale s ON s.customer = c.id",
        "`EXISTS`, `IN`, `= ANY` (semi joins)": "SELECT name FROM customer c WHERE EXISTS (SELECT 1 FROM sale s WHERE s.customer = c.id)",
        "`NOT EXISTS`, `NOT IN`, `<> ALL` (anti joins)": "SELECT name FROM customer WHERE id NOT IN (SELECT customer FROM sale)",
        "the same under `OR` or in `SELECT`": "SELECT name, EXISTS (SELECT 1 FROM sale s WHERE s.customer = c.id) AS buys FROM customer c",
        "scalar subqueries, correlated": "SELECT name, (SELECT SUM(amount) FROM sale s WHERE s.customer = c.id) AS total FROM customer c",
        "scalar subqueries, on their own": "SELECT id FROM sale WHERE weight > (SELECT AVG(amount) FROM sale)",
        "`LATERAL`": "SELECT c.name, l.id FROM customer c, LATERAL (SELECT s.id FROM sale s WHERE s.customer = c.id) AS l",
    },
    "Groups": {
        "`COUNT`, `SUM` of exact types, `AVG`, `BOOL_AND`, `BOOL_OR`": "SELECT customer, COUNT(*) AS n, SUM(amount) AS s, AVG(amount) AS a FROM sale GROUP BY customer",
        "`MIN`, `MAX`, `ANY_VALUE`": "SELECT customer, MIN(amount) AS low FROM sale GROUP BY customer",
        "`COUNT(DISTINCT)`, `SUM(DISTINCT)`": "SELECT customer, COUNT(DISTINCT note) AS n FROM sale GROUP BY customer",
        "`PERCENTILE_CONT`, `PERCENTILE_DISC`, `MODE`, `MEDIAN`": "SELECT customer, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY amount) AS p FROM sale GROUP BY customer",
        "`SUM` of DOUBLE, `STDDEV`, `VARIANCE`, `STRING_AGG`": "SELECT customer, SUM(weight) AS w FROM sale GROUP BY customer",
        "the same without `GROUP BY`": "SELECT SUM(weight) AS w FROM sale",
        "`MIN` and `MAX` without `GROUP BY`": "SELECT MAX(amount) AS high FROM sale",
        "`FILTER`, `HAVING`, expressions over aggregates": "SELECT customer, COUNT(*) FILTER (WHERE amount > 5) AS n FROM sale GROUP BY customer HAVING SUM(amount) > 9",
        "groups of joins, of groups": "SELECT region, MAX(n) AS most FROM (SELECT c.region, c.id, COUNT(*) AS n FROM customer c JOIN sale s ON s.customer = c.id GROUP BY c.region, c.id) AS q GROUP BY region",
        "`GROUPING SETS`, `ROLLUP`, `CUBE`": "SELECT customer, note, SUM(amount) AS s FROM sale GROUP BY ROLLUP (customer, note)",
    },
    "Windows and first rows": {
        "window functions with `PARTITION BY`": "SELECT id, RANK() OVER (PARTITION BY customer ORDER BY amount) AS place FROM sale",
        "frames of `ROWS`": "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY id ROWS 2 PRECEDING) AS recent FROM sale",
        "frames of `RANGE` with a distance": "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY at RANGE INTERVAL '7 days' PRECEDING) AS week FROM sale",
        "frames of `GROUPS`": "SELECT id, COUNT(*) OVER (PARTITION BY customer ORDER BY amount GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near FROM sale",
        "`IGNORE NULLS`": "SELECT id, LAST_VALUE(note) IGNORE NULLS OVER (PARTITION BY customer ORDER BY id) AS note FROM sale",
        "window functions without": "SELECT id, RANK() OVER (ORDER BY amount) AS place FROM sale",
        "top n of each group": "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount DESC) AS n FROM sale) AS q WHERE n <= 3",
        "`DISTINCT ON`": "SELECT DISTINCT ON (customer) customer, id FROM sale ORDER BY customer, amount DESC",
        "`ORDER BY … LIMIT`": "SELECT id, amount FROM sale ORDER BY amount DESC LIMIT 10",
        "`ORDER BY` a window function, with `LIMIT`": "SELECT id FROM sale ORDER BY SUM(amount) OVER (PARTITION BY customer) DESC, id LIMIT 10",
        "`LIMIT … OFFSET`": "SELECT id, amount FROM sale ORDER BY amount DESC LIMIT 10 OFFSET 20",
    },
    "Time": {
        "`NOW()` in `WHERE`": "SELECT id FROM sale WHERE at > NOW() - INTERVAL '1 hour'",
    },
}

_INTRODUCTION: Final = """\
# How each construct is maintained

What a materialized view may contain, and how it is kept true when the tables below it change. Every construct has an
incremental form; only the cost differs. This page is written from the code: each example is created as a view, and the
sentences are those that `EXPLAIN` gives for its nodes. `WITH (strategy = 'incremental')` refuses the constructs whose
sentence says that their input is read as a whole after each change. Above a state, which keeps what is needed, the view
itself always follows by its differentials. What a transaction costs is on [the page of costs](costs.md).
"""


def page() -> str:
    """The whole page."""
    with tm.connect("duckdb") as db:
        db.execute(TABLES)
        return "\n".join(_lines(db))


def _lines(db: tm.Database) -> Iterator[str]:
    yield _INTRODUCTION
    for group, constructs in GROUPS.items():
        yield f"## {group}\n\n| construct | example | how it is maintained |\n|---|---|---|"
        for construct, query in constructs.items():
            shown = query.replace("|", "\\|")
            yield f"| {construct} | `{shown}` | {'<br>'.join(_sentences(db, query))} |"
        yield ""


def _sentences(db: tm.Database, query: str) -> list[str]:
    """What is said of each node that serves the view, the same once."""
    db.execute(f"CREATE MATERIALIZED VIEW example AS {query}")
    nodes = maintenance(db._store.network, "example")
    found = [f"{_WHAT[node.node.kind]}: {node.how}" for node in nodes]
    db.execute("DROP MATERIALIZED VIEW example")
    # Above a state the view itself is linear, which goes without saying.
    return list(dict.fromkeys(found[:-1] or found))


_WHAT: Final = {NodeKind.VIEW: "the view", NodeKind.STATE: "a state below it", NodeKind.SHARED: "a shared part"}

if __name__ == "__main__":
    print(page(), end="")
