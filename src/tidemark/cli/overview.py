"""``tidemark status``: what a database holds, how large it is, and how its views were last kept true.

``tidemark check``: what is damaged, in words.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from tidemark.answers.describe import Description, committed_at, relations
from tidemark.cli.databases import must_exist
from tidemark.cli.show import Display
from tidemark.cli.spinner import Status
from tidemark.cli.tables import counted, duration, size
from tidemark.session import Database
from tidemark.session.check import Report, check

VERSIONS_SEARCHED: Final = 200
"""So far back the trace is searched for the last time that a view was brought up to date."""


@dataclass(frozen=True)
class Overview:
    """A database as it is now; ``time`` is when its version was committed.

    ``last`` has the last step of the trace of each view, with its version.
    """

    target: str
    engine: str
    version: int
    time: str | None
    bytes: int | None
    relations: tuple[Description, ...]
    last: dict[str, dict[str, Any]]


def look_at(database: Database, target: str, bytes: int | None) -> Overview:
    found = relations(database)
    views = {one.name: one.created or 0 for one in found if one.is_materialized}
    time = committed_at(database, database.version)
    shown = None if time is None else time.isoformat(sep=" ", timespec="seconds")
    return Overview(target, database.engine, database.version, shown, bytes, found, _last_steps(database, views))


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
    head = {name: getattr(overview, name) for name in ("target", "engine", "version", "time", "bytes")}
    return json.dumps({**head, "tables": tables, "views": views}, indent=2)


def show(overview: Overview, display: Display) -> None:
    """The same for people."""
    tables = [one for one in overview.relations if one.kind == "table"]
    views = [one for one in overview.relations if one.is_materialized]
    plain = [one.name for one in overview.relations if one.kind == "view"]
    version = f"version {overview.version}" + (f" of {overview.time}" if overview.time else "")
    heading = [overview.target, overview.engine, version]
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


def run(target: str, display: Display, status: Status, *, is_audited: bool) -> bool:
    """Check the database and say what was found; whether nothing is damaged."""
    must_exist(target)
    with status.showing(f"checking {target}"):
        report = check(target, status.step, audit=is_audited)
    for line in report.unverified:
        display.note(f"not verified: {line}")
    for line in report.damage:
        display.note(f"damaged: {line}")
    display.note(_summary(target, report, is_audited=is_audited))
    return not report.damage


def _summary(target: str, report: Report, *, is_audited: bool) -> str:
    kind = "file" if target.startswith("spark") else "stored table"
    read = f"{counted(report.checked, kind)} read"
    if report.version is not None:
        read += f", {counted(report.relations, 'relation')} at version {report.version}"
        read += ", views audited" if is_audited else ""
    found = f"{counted(len(report.damage), 'problem')} found" if report.damage else "nothing is damaged"
    return f"{found} ({read})"
