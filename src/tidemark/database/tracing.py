"""The trace of a version: what was done for each affected node in the transaction that made it."""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa

from tidemark.database.retained import retained
from tidemark.database.store import Store
from tidemark.errors import TidemarkError

TRACE: Final = pa.schema(
    [
        ("node", pa.string()),
        ("strategy", pa.string()),
        ("reason", pa.string()),
        ("rows_in", pa.int64()),
        ("rows_out", pa.int64()),
        ("rows_read", pa.int64()),
        ("milliseconds", pa.float64()),
        ("rows_filtered", pa.int64()),
        ("rows_rederived", pa.int64()),
    ]
)


def trace(version: int, store: Store) -> pa.Table:
    if isinstance(version, int) and 0 < version <= retained(store).full:
        raise TidemarkError("version", f"the trace of version {version} is no longer kept")
    text = store.engine.trace(version) if isinstance(version, int) else None
    if text is None:
        raise TidemarkError("version", f"there is no version {version}", hint=f"the last one is {store.version}")
    return pa.Table.from_pylist(json.loads(text), schema=TRACE)
