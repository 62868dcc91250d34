"""An independent oracle: DuckDB itself evaluates the original SQL text on the rows of the tables.

The reference engine runs plans that our binder made, so it cannot find a mistake of the binder. DuckDB reads the same
text by itself. It serves for queries on which DuckDB and PostgreSQL agree.
"""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb

import tidemark as tm
from tests.support import Bag, rows_in_order
from tidemark.algebra.approximate import are_close
from tidemark.engines.duckdb.settings import configure


def answers(db: tm.Database, queries: dict[str, str]) -> dict[str, Bag]:
    """What DuckDB says to the queries, on the rows that the tables of ``db`` have now."""
    with duckdb.connect() as connection:
        connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")  # as PostgreSQL
        configure(connection)
        for table in db._store.catalog.tables:
            content = db.query(f'SELECT * FROM "{table.name}"')
            connection.register("content", content)
            connection.execute(f'CREATE TABLE "{table.name}" AS SELECT * FROM content')
            connection.unregister("content")
        found = {name: connection.sql(query).to_arrow_table() for name, query in queries.items()}
    return {name: Counter(rows_in_order(table)) for name, table in found.items()}


def same_bag(left: Bag, right: Bag) -> bool:
    """Whether two bags are equal, floats within the tolerance of an audit and numbers by value."""
    if left == right:
        return True
    others = list(right.elements())
    for row in left.elements():
        match = next((other for other in others if same_row(row, other)), None)
        if match is None:
            return False
        others.remove(match)
    return not others


def same_row(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(a == b or _close(a, b) for a, b in zip(left, right, strict=True))


def _close(left: Any, right: Any) -> bool:
    """DuckDB divides decimals as doubles; ours have ten digits after the point at least."""
    if isinstance(left, Decimal) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return are_close(left, right)


def check_against_oracle(db: tm.Database, views: dict[str, str]) -> None:
    """Each view holds what DuckDB makes of its definition."""
    for view, expected in answers(db, views).items():
        content = Counter(rows_in_order(db.query(f'SELECT * FROM "{view}"')))
        assert same_bag(content, expected), f"{view} AS {views[view]}\nholds    {content}\nshould be {expected}"
