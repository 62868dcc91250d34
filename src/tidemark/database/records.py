"""The catalog's records: what a commit says about definitions, as JSON, and how a catalog is read back."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tidemark.sql.catalog import Catalog, Relation, View
from tidemark.sql.statements import CreateTable, CreateView, parse_script
from tidemark.sql.tables import bind_table
from tidemark.sql.text import Source
from tidemark.sql.views import bind_view


def created(relation: Relation, version: int) -> str:
    kind = "view" if isinstance(relation, View) else "table"
    return json.dumps(
        {
            "create": kind,
            "name": relation.name,
            "sql": relation.text,
            "dialect": relation.dialect,
            "version": version,
        }
    )


def dropped(name: str) -> str:
    return json.dumps({"drop": name})


def restore(records: Iterable[str]) -> tuple[Catalog, dict[str, int]]:
    """The catalog and the versions in which its relations were created."""
    catalog, versions = Catalog(), dict[str, int]()
    for text in records:
        record = json.loads(text)
        if "drop" in record:
            catalog = catalog.without(record["drop"])
            versions.pop(record["drop"], None)
            continue
        relation = define(record["sql"], record["dialect"], catalog)
        catalog = catalog.with_relation(relation)
        versions[relation.name] = record["version"]
    return catalog, versions


def define(sql: str, dialect: str, catalog: Catalog) -> Relation:
    """The relation that one CREATE statement defines."""
    [(statement, source)] = parse_script(Source(sql, dialect))
    if isinstance(statement, CreateTable):
        return bind_table(statement, source)
    assert isinstance(statement, CreateView)
    return bind_view(statement, catalog, source)
