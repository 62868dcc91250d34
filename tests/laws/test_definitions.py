"""Whatever definitions change in whatever order, changes are content after minus content before.

Two engines go through the same random steps; after each transaction they agree, every view is what its definition says,
and what a relation that went on changed by is the difference of its contents, computed here from the rows alone.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.support import bag_of, changes_at, check_invariant, stored

SETUP = """
CREATE TABLE r (a INT, b INT);
CREATE TABLE s (a INT, c INT);
CREATE VIEW p AS SELECT a, b FROM r;
CREATE MATERIALIZED VIEW v AS SELECT a, b FROM p;
CREATE MATERIALIZED VIEW w AS SELECT a, COUNT(*) AS n FROM v GROUP BY a;
CREATE MATERIALIZED VIEW x AS SELECT w.a, w.n, c FROM w JOIN s ON s.a = w.a;
CREATE MATERIALIZED VIEW whole AS SELECT * FROM r;
"""
QUERIES = (
    "SELECT a, b FROM r",
    "SELECT a, b FROM r WHERE b > 1",
    "SELECT DISTINCT a, b FROM r",
    "SELECT a, CAST(SUM(b) AS INT) AS b FROM r GROUP BY a",
    "SELECT r.a, s.c AS b FROM r JOIN s ON s.a = r.a",
    "SELECT a, b FROM r EXCEPT ALL SELECT a, c FROM s",
    "SELECT a, b, a AS z FROM r",
    "SELECT b, a FROM r",
    "SELECT a FROM r",
    "SELECT * FROM r",
)
numbers = st.one_of(st.none(), st.integers(0, 2))


def _values(row: tuple[int | None, ...]) -> str:
    return ", ".join("NULL" if value is None else str(value) for value in row)


changes = st.one_of(
    st.tuples(st.sampled_from(["r (a, b)", "s (a, c)"]), numbers, numbers).map(
        lambda t: f"INSERT INTO {t[0]} VALUES ({_values(t[1:])}), ({_values(t[1:])})"
    ),
    st.sampled_from(["DELETE FROM r WHERE b = 1", "DELETE FROM s WHERE a = 2", "UPDATE r SET a = b WHERE a = 0"]),
)
definitions = st.one_of(
    st.sampled_from(QUERIES).map(lambda query: f"CREATE OR REPLACE VIEW p AS {query}"),
    st.sampled_from(QUERIES).map(lambda query: f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}"),
    st.just("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT * FROM p"),
    st.tuples(st.sampled_from("rs"), st.sampled_from(["c", "d", "e"]), numbers).map(
        lambda t: f"ALTER TABLE {t[0]} ADD COLUMN IF NOT EXISTS {t[1]} INT DEFAULT {_values(t[2:])}"
    ),
)
transactions = st.lists(st.one_of(changes, definitions), min_size=1, max_size=3)


def contents(db: tm.Database) -> dict[str, tuple[object, list[str], Counter[Any]]]:
    """Of each stored relation its identity, its columns and its rows."""
    result: dict[str, tuple[object, list[str], Counter[Any]]] = {}
    for name in stored(db):
        found = db.query(f"SELECT * FROM {name}")
        result[name] = (db._store.catalog.relations[name].identity, found.column_names, bag_of(found))
    return result


def run(db: tm.Database, statements: list[str]) -> str:
    """The code of the error, if there is one; queries in between see what the transaction did."""
    try:
        with db.transaction() as tx:
            for statement in statements:
                tx.execute(statement)
                tx.query("SELECT * FROM x")
    except tm.TidemarkError as error:
        return error.code
    return ""


@settings(max_examples=examples(20))
@given(st.lists(transactions, min_size=1, max_size=5))
def test_changes_of_definitions_are_changes_of_content(script: list[list[str]]) -> None:
    with tm.connect("reference") as reference, tm.connect("duckdb") as duckdb:
        for db in (reference, duckdb):
            db.execute(SETUP)
            db.execute(
                "INSERT INTO r VALUES (0, 1), (1, 2), (1, 2), (NULL, 1); INSERT INTO s VALUES (1, 1), (1, 2), (0, 0)"
            )
        for statements in script:
            before, version = contents(duckdb), duckdb.version
            assert run(reference, statements) == run(duckdb, statements)
            after = contents(duckdb)
            assert {n: c[1:] for n, c in after.items()} == {n: c[1:] for n, c in contents(reference).items()}
            check_invariant(duckdb)
            check_invariant(reference)
            for name, (identity, columns, rows) in after.items():
                known, old_columns, old_rows = before[name]
                if duckdb.version > version and known is identity and columns == old_columns:
                    difference = {row: rows[row] - old_rows[row] for row in rows | old_rows}
                    wanted = {row: weight for row, weight in difference.items() if weight}
                    assert changes_at(duckdb, name) == changes_at(reference, name) == wanted
                elif duckdb.version == version:
                    assert (known, old_columns, old_rows) == (identity, columns, rows), "a failure leaves all as it was"
