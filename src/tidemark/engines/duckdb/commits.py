"""The table of commits: what each says about the catalog and about stored relations, and its trace.

Notes in a DuckDB database, and forgetting what is logged; always inside a transaction of the engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import duckdb
import pyarrow as pa

from tidemark.algebra.schemas import schema_from_json, schema_to_json, values_from_json, values_to_json
from tidemark.algebra.types import VERSION, WEIGHT
from tidemark.engines.duckdb.dialect import quote
from tidemark.engines.duckdb.tables import OWN_SCHEMA, StoredRelation
from tidemark.storage.commit import Commit, Forgetting, Logged

_NOTHING: Final = json.dumps({"created": [], "dropped": [], "altered": []})


def read(connection: duckdb.DuckDBPyConnection) -> tuple[int, list[str], dict[str, StoredRelation]]:
    """The last version, the catalog's records in their order, and the relations that are stored."""
    version, records, found = 0, list[str](), dict[str, StoredRelation]()
    commits = connection.execute(
        f"SELECT version, catalog, relations FROM {OWN_SCHEMA}.commits ORDER BY version"
    ).fetchall()
    for number, catalog, relations in commits:
        version = number
        records.extend(catalog)
        change = json.loads(relations)
        for name in change["dropped"]:
            del found[name]
        for created in change["created"]:
            relation = _relation_from_json(created)
            found[relation.name] = relation
        for altered in change.get("altered", ()):
            found[altered["name"]] = _altered_from_json(altered, found[altered["name"]])
    return version, records, found


def write(connection: duckdb.DuckDBPyConnection, commit: Commit, relations: Mapping[str, StoredRelation]) -> None:
    """Add a commit, which left these relations."""
    created = [_relation_to_json(relations[creation.relation]) for creation in commit.created]
    altered = [_altered_to_json(relations[alteration.relation]) for alteration in commit.altered]
    change = json.dumps({"created": created, "dropped": list(commit.dropped), "altered": altered})
    connection.execute(
        f"INSERT INTO {OWN_SCHEMA}.commits VALUES (?, ?, ?, ?, ?)",
        [commit.version, commit.time.replace(tzinfo=None), list(commit.catalog), commit.trace, change],
    )


def write_plain(connection: duckdb.DuckDBPyConnection, added: Sequence[Commit]) -> None:
    """Add commits that say nothing about definitions."""
    columns = {
        "version": pa.array([commit.version for commit in added], pa.int64()),
        "time": pa.array([commit.time.replace(tzinfo=None) for commit in added], pa.timestamp("us")),
        "trace": pa.array([commit.trace for commit in added], pa.string()),
    }
    connection.register(_ADDED, pa.table(columns))
    connection.execute(
        f"INSERT INTO {OWN_SCHEMA}.commits SELECT version, time, CAST([] AS VARCHAR[]), trace, ? FROM {_ADDED}",
        [_NOTHING],
    )
    connection.unregister(_ADDED)  # after a failure it goes with the transaction


def last(connection: duckdb.DuckDBPyConnection) -> int:
    """The last version; 0 if there is none."""
    found = connection.execute(f"SELECT max(version) FROM {OWN_SCHEMA}.commits").fetchall()
    return found[0][0] or 0


def trace(connection: duckdb.DuckDBPyConnection, version: int) -> str | None:
    found = connection.execute(f"SELECT trace FROM {OWN_SCHEMA}.commits WHERE version = ?", [version]).fetchall()
    return found[0][0] if found else None


def times(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The versions and times of the commits that are there."""
    return connection.sql(f"SELECT version, time FROM {OWN_SCHEMA}.commits ORDER BY version").to_arrow_table()


def forget_traces(connection: duckdb.DuckDBPyConnection, up_to: int, oldest: int) -> None:
    """Remove what commits say that nobody needs to open the database, which is all but definitions, and the last: the
    traces up to a version, and everything before the oldest that somebody may ask for."""
    if not up_to:
        return
    last = f"(SELECT max(version) FROM {OWN_SCHEMA}.commits)"
    connection.execute(
        f"DELETE FROM {OWN_SCHEMA}.commits "
        f"WHERE version < {int(oldest)} AND version < {last} AND len(catalog) = 0 AND relations = ?",
        [_NOTHING],
    )
    connection.execute(
        f"UPDATE {OWN_SCHEMA}.commits SET trace = NULL "
        f"WHERE version <= {int(up_to)} AND version < {last} AND trace IS NOT NULL"
    )


def _relation_to_json(relation: StoredRelation) -> dict[str, object]:
    return {
        "name": relation.name,
        "schema": schema_to_json(relation.schema),
        "logged": relation.logged,
        "internal": relation.internal,
        "key": list(relation.key),
        "kept": relation.kept,
    }


def _altered_to_json(relation: StoredRelation) -> dict[str, object]:
    return {
        "name": relation.name,
        "schema": schema_to_json(relation.schema),
        "added": values_to_json(relation.added),
    }


def _altered_from_json(record: dict[str, Any], before: StoredRelation) -> StoredRelation:
    schema = schema_from_json(record["schema"])
    return replace(before, schema=schema, added=values_from_json(record["added"], schema))


def _relation_from_json(record: dict[str, Any]) -> StoredRelation:
    return StoredRelation(
        record["name"],
        schema_from_json(record["schema"]),
        record["logged"],
        record["internal"],
        tuple(record["key"]),
        kept=record.get("kept", True),
    )


_KEPT: Final = "_tidemark_kept"
_ADDED: Final = "_tidemark_added"


def read_notes(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    return dict(connection.execute(f"SELECT name, text FROM {OWN_SCHEMA}.notes").fetchall())


def write_notes(connection: duckdb.DuckDBPyConnection, notes: Mapping[str, str | None]) -> None:
    """Keep notes; those that are None go."""
    if not notes:
        return
    places = ", ".join("?" for _ in notes)
    connection.execute(f"DELETE FROM {OWN_SCHEMA}.notes WHERE name IN ({places})", list(notes))
    kept = [cell for name, text in notes.items() if text is not None for cell in (name, text)]
    if kept:
        rows = ", ".join(["(?, ?)"] * (len(kept) // 2))
        connection.execute(f"INSERT INTO {OWN_SCHEMA}.notes VALUES {rows}", kept)


def forget(connection: duckdb.DuckDBPyConnection, log: Mapping[StoredRelation, Forgetting]) -> None:
    """Remove what is logged of relations up to a version, and log what is kept of it instead."""
    by_version: dict[int, list[str]] = {}
    for relation, forgetting in log.items():
        by_version.setdefault(forgetting.up_to, []).append(relation.name)
    for up_to, names in by_version.items():
        connection.execute(
            f"DELETE FROM {OWN_SCHEMA}.log WHERE version <= ? AND relation IN (SELECT unnest(?))", [up_to, names]
        )
    for relation in _with_rows(connection, list(log)):
        connection.execute(f"DELETE FROM {relation.log_table} WHERE {VERSION} <= ?", [log[relation].up_to])
    for relation, forgetting in log.items():
        if forgetting.kept is not None and forgetting.kept.num_rows:
            _keep(connection, relation, forgetting.kept)


def _with_rows(connection: duckdb.DuckDBPyConnection, relations: Sequence[StoredRelation]) -> list[StoredRelation]:
    """Those of the relations that have large deltas in a table of their own."""
    found = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = ? AND estimated_size > 0", [OWN_SCHEMA]
    ).fetchall()
    names = {name for (name,) in found}
    return [relation for relation in relations if f"log {relation.name}" in names]


def _keep(connection: duckdb.DuckDBPyConnection, relation: StoredRelation, kept: pa.Table) -> None:
    names = [f"c{i}" for i in range(len(relation.schema))]
    columns = ", ".join(quote(name) for name in (*relation.schema.names, VERSION, WEIGHT))
    connection.register(_KEPT, kept.rename_columns([*names, VERSION, WEIGHT]))
    shown = ", ".join((*names, VERSION, WEIGHT))
    connection.execute(f"INSERT INTO {relation.log_table} ({columns}) SELECT {shown} FROM {_KEPT}")
    connection.unregister(_KEPT)  # after a failure it goes with the transaction


def logged(connection: duckdb.DuckDBPyConnection, relations: Sequence[StoredRelation]) -> list[Logged]:
    """The bytes of small deltas, and what the rows of large ones take about."""
    inline = f"SELECT relation, version, octet_length(delta) FROM {OWN_SCHEMA}.log"
    found = [Logged(*row) for row in connection.execute(inline).fetchall()]
    for relation in _with_rows(connection, relations):
        counted = f"SELECT {VERSION}, count(*) FROM {relation.log_table} GROUP BY ALL"
        width = 8 * (len(relation.schema) + 2)
        found += [Logged(relation.name, v, rows * width) for v, rows in connection.execute(counted).fetchall()]
    return found
