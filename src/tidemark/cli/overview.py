"""``tidemark status``: what a database holds, how large it is, and how its views were last kept true."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.show import Display
from tidemark.cli.text import counted, duration, size
from tidemark.database import Database
from tidemark.database.inspection import Description, relations

VERSIONS_SEARCHED: Final = 200
"""So far back the trace is searched for the last time that a view was brought up to date."""


@dataclass(frozen=True)
class Overview:
    """A database as it is now. ``last`` has the last step of the trace of each view, with its version."""

    target: str
    engine: str
    version: int
    bytes: int | None
    relations: tuple[Description, ...]
    last: dict[str, dict[str, Any]]


def look_at(database: Database, target: str, bytes: int | None) -> Overview:
    found = relations(database)
    views = {one.name: one.created or 0 for one in found if one.is_materialized}
    return Overview(target, database.engine, database.version, bytes, found, _last_steps(database, views))


def _last_steps(database: Database, created: dict[str, int]) -> dict[str, dict[str, Any]]:
    """The last step of each view; none for one that nothing has touched since its creation, or not lately."""
    last: dict[str, dict[str, Any]] = {}
    oldest = max(min(created.values(), default=database.version), database.version - VERSIONS_SEARCHED)
    for version in range(database.version, oldest, -1):
        for step in database.trace(version).to_pylist():
            name = step.pop("node")
            if name in created and version > created[name]:
                last.setdefault(name, {"version": version, **step})
        if len(last) == len(created):
            break
    return last


def as_json(overview: Overview) -> str:
    """Everything, for programs."""
    tables, views = [], []
    for one in overview.relations:
        record: dict[str, Any] = asdict(one)
        del record["kind"]
        if one.kind == "table":
            del record["strategy"], record["depends_on"]
            tables.append(record)
            continue
        record["materialized"] = one.is_materialized
        record["tidemark"] = overview.version if one.is_materialized else None
        record["last"] = overview.last.get(one.name)
        views.append(record)
    head = {name: getattr(overview, name) for name in ("target", "engine", "version", "bytes")}
    return json.dumps({**head, "tables": tables, "views": views}, indent=2)


def show(overview: Overview, display: Display) -> None:
    """The same for people."""
    tables = [one for one in overview.relations if one.kind == "table"]
    views = [one for one in overview.relations if one.is_materialized]
    plain = [one.name for one in overview.relations if one.kind == "view"]
    heading = [overview.target, overview.engine, f"version {overview.version}"]
    heading += [size(overview.bytes)] if overview.bytes is not None else []
    heading += [counted(len(tables), "table"), counted(len(views) + len(plain), "view")]
    display.heading(heading[0], ", ".join(heading[1:]))
    if tables:
        display.result("tables", _tables(tables), is_expandable=False)
    if views:
        display.result("materialized views", _views(views, overview), is_expandable=False)
    if plain:
        display.note(f"expanded where they are used: {', '.join(plain)}")


def _tables(tables: list[Description]) -> pa.Table:
    keys = [", ".join(column.name for column in one.columns if column.in_key) for one in tables]
    return pa.table(
        {
            "name": [one.name for one in tables],
            "rows": pa.array([one.rows for one in tables], pa.int64()),
            "columns": [len(one.columns) for one in tables],
            "key": keys,
        }
    )


def _views(views: list[Description], overview: Overview) -> pa.Table:
    return pa.table(
        {
            "name": [one.name for one in views],
            "rows": pa.array([one.rows for one in views], pa.int64()),
            "tidemark": pa.array([overview.version] * len(views), pa.int64()),
            "strategy": [one.strategy for one in views],
            "last step": [_last(one, overview) for one in views],
        }
    )


def _last(view: Description, overview: Overview) -> str:
    step = overview.last.get(view.name)
    if step is None:
        oldest = overview.version - VERSIONS_SEARCHED
        return f"filled at v{view.created}" if (view.created or 0) >= oldest else f"none since v{oldest}"
    rows = counted(step["rows_out"], "row")
    return f"v{step['version']}, {step['strategy']}, {rows}, {duration(step['milliseconds'])}"
