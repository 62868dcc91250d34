"""SHOW SNAPSHOTS and SHOW CONTINUAL QUERIES: how far each has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tidemark.database.continual import Continual
from tidemark.database.store import Store
from tidemark.sql.catalog import View
from tidemark.sql.continual_statements import QUERY, SNAPSHOT


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
    "snapshots": snapshots,
    "continual queries": continual_queries,
}
