"""SHOW TABLES, VIEWS, SNAPSHOTS and CONTINUAL QUERIES: what there is, how much of it, and how far each has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tidemark.algebra.clock import CLOCK
from tidemark.database.continual import Continual
from tidemark.database.store import Store
from tidemark.sql.catalog import RULE_TABLES, View
from tidemark.sql.continual_statements import QUERY, SNAPSHOT


def tables(store: Store, continual: Continual) -> pa.Table:
    found = [t for t in store.catalog.tables if t.name != CLOCK and t.name not in RULE_TABLES]
    return pa.table(
        {
            "name": pa.array([table.name for table in found], pa.string()),
            "columns": pa.array([str(table.schema) for table in found], pa.string()),
            "rows": pa.array([store.engine.rows(table.name) for table in found], pa.int64()),
        }
    )


def views(store: Store, continual: Continual) -> pa.Table:
    found = [view for view in store.catalog.views if view.lag is None or view.lag.is_read_through]
    return pa.table(
        {
            "name": pa.array([view.name for view in found], pa.string()),
            "materialized": pa.array([view.materialized for view in found], pa.bool_()),
            "rows": pa.array([store.engine.rows(v.name) if v.materialized else None for v in found], pa.int64()),
            "tidemark": pa.array([_tidemark(view, store, continual) for view in found], pa.int64()),
        }
    )


def _tidemark(view: View, store: Store, continual: Continual) -> int | None:
    if view.lag is not None:
        return continual.standing(view.name).tidemark
    return store.version if view.materialized or view.external else None


def snapshots(store: Store, continual: Continual) -> pa.Table:
    return _shown(store, continual, SNAPSHOT)


def continual_queries(store: Store, continual: Continual) -> pa.Table:
    return _shown(store, continual, QUERY)


def _shown(store: Store, continual: Continual, kind: str) -> pa.Table:
    views = [view for view in store.catalog.lagging_views if view.lag is not None and view.lag.kind == kind]
    columns: list[tuple[str, pa.DataType, Callable[[View], Any]]] = [
        ("name", pa.string(), lambda view: view.name),
        ("rows", pa.int64(), lambda view: store.engine.rows(view.name)),
        ("tidemark", pa.int64(), lambda view: continual.standing(view.name).tidemark),
        ("executed", pa.timestamp("us"), lambda view: continual.standing(view.name).executed),
        ("status", pa.string(), lambda view: _status(view, continual)),
        ("error", pa.string(), lambda view: continual.standing(view.name).error),
    ]
    if kind == QUERY:
        columns.insert(4, ("results", pa.int64(), lambda view: continual.standing(view.name).results))
    return pa.table({name: pa.array([value(view) for view in views], type) for name, type, value in columns})


def _status(view: View, continual: Continual) -> str:
    standing = continual.standing(view.name)
    return "invalid" if standing.invalid else standing.status


SHOWN: Mapping[str, Callable[[Store, Continual], pa.Table]] = {
    "tables": tables,
    "views": views,
    "snapshots": snapshots,
    "continual queries": continual_queries,
}
