"""The table of commits: what each says about the catalog and about stored relations, and its trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import duckdb

from tidemark.engines.duckdb.storage import OWN_SCHEMA, StoredRelation
from tidemark.engines.schema_json import schema_from_json, schema_to_json, values_from_json, values_to_json
from tidemark.log.commit import Commit

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


def trace(connection: duckdb.DuckDBPyConnection, version: int) -> str | None:
    found = connection.execute(f"SELECT trace FROM {OWN_SCHEMA}.commits WHERE version = ?", [version]).fetchall()
    return found[0][0] if found else None


def forget_traces(connection: duckdb.DuckDBPyConnection, up_to: int) -> None:
    """Remove what commits up to a version say that nobody needs to open the database: all but definitions, and the
    last."""
    if not up_to:
        return
    last = f"(SELECT max(version) FROM {OWN_SCHEMA}.commits)"
    old = f"version <= {int(up_to)} AND version < {last}"
    connection.execute(
        f"DELETE FROM {OWN_SCHEMA}.commits WHERE {old} AND len(catalog) = 0 AND relations = ?", [_NOTHING]
    )
    connection.execute(f"UPDATE {OWN_SCHEMA}.commits SET trace = NULL WHERE {old} AND trace IS NOT NULL")


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
