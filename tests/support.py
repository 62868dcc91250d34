"""What tests share: rows in, rows out, and the invariant that every test in the end checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

import tidemark as tm
from tests.memory import ARRANGED, HELD, OFF, STARVED
from tidemark.algebra.functions import canonical, rank
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.limits import DUCKDB, Prices
from tidemark.sql.catalog.catalog import View

Bag = Counter[tuple[Any, ...]]

AHEAD: Final = replace(
    DUCKDB, least_ahead=1, part_ahead=10**9, prices_ahead=Prices(stage=1_000, statement=2_500, most_looked_up=0)
)
"""Under these each change is written before it is followed, and nodes of more than two stages are evaluated anew."""
DUCKDB_ENGINES: Final[Mapping[str, Callable[[], DuckDBEngine]]] = {
    "duckdb": DuckDBEngine,
    "duckdb by statements": lambda: DuckDBEngine(by_statements=True, gather_at=3),
    "duckdb arranged": lambda: DuckDBEngine(limits=ARRANGED),
    "duckdb held": lambda: DuckDBEngine(limits=HELD),
    "duckdb off": lambda: DuckDBEngine(memory=OFF),
    "duckdb starved": lambda: DuckDBEngine(memory=STARVED),
    "duckdb ahead": lambda: DuckDBEngine(limits=AHEAD),
}
"""As users have it; with no look-ups; with all of them from memory, by key or as a whole, with none, or memory for next
to nothing; with every change written before it is followed."""


def rows(table: pa.Table | None) -> list[tuple[Any, ...]]:
    """The rows of a result, in a stable order."""
    assert table is not None
    return sorted(
        rows_in_order(table), key=lambda row: tuple((value is not None, str(type(value)), rank(value)) for value in row)
    )


def bag_of(table: pa.Table) -> Bag:
    """A table of plain rows as a bag."""
    return Counter(rows(table))


def weights_of(table: pa.Table) -> dict[tuple[Any, ...], int]:
    """A weighted table as a bag, whenever its changes were committed; a row that stands twice fails the test, because
    the table must be net."""
    names = [name for name in table.column_names if name not in ("_weight", "_time")]
    result: dict[tuple[Any, ...], int] = {}
    for row, weight in zip(rows_in_order(table.select(names)), table["_weight"].to_pylist(), strict=True):
        assert row not in result, f"{row} stands twice in a delta that should be net"
        assert weight != 0, f"{row} has weight zero"
        result[row] = weight
    return result


def rows_in_order(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows as tuples; not-a-number is one value, so that it equals itself."""
    columns = ([canonical(value) for value in column.to_pylist()] for column in table.columns)
    return list(zip(*columns, strict=True))


def changes_at(db: tm.Database, relation: str, version: int | None = None) -> dict[tuple[Any, ...], int]:
    """What one version (the last one by default) did to a relation: row → weight."""
    wanted = db.version if version is None else version
    found = db.changes(relation, since=wanted - 1)
    keep = [v == wanted for v in found["_version"].to_pylist()]
    return weights_of(found.filter(pa.array(keep, pa.bool_())).drop_columns(["_version"]))


def check_invariant(db: tm.Database) -> None:
    """DESIGN §1 for every materialized view: content is the definition's value, and changes sum up to content."""
    for view in materialized(db):
        assert db.audit(view).num_rows == 0, f"{view} differs from first principle: {db.audit(view).to_pylist()}"
    for relation in stored(db):
        total: Counter[tuple[Any, ...]] = Counter()
        found = db.changes(relation)
        names = [n for n in found.column_names if n not in ("_version", "_weight", "_time")]
        for row, weight in zip(rows_in_order(found.select(names)), found["_weight"].to_pylist(), strict=True):
            total[row] += weight
        content = bag_of(db.query(f'SELECT * FROM "{relation}"'))
        assert {row: w for row, w in total.items() if w} == dict(content), f"changes of {relation} do not add up"


def materialized(db: tm.Database) -> list[str]:
    """The views that are kept true, and what lags, which was true at its tidemark."""
    catalog = db._store.catalog
    return [view.name for view in (*catalog.materialized_views, *catalog.lagging_views)]


def stored(db: tm.Database) -> list[str]:
    catalog = db._store.catalog
    return [n for n, r in catalog.relations.items() if not isinstance(r, View) or r.materialized or r.external]
