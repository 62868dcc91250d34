"""The catalog's records: what a commit says about definitions, as JSON, and how a catalog is read back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tidemark.database.ruling import rule_records, with_rules
from tidemark.sql.catalog import Catalog, Relation, Table, View
from tidemark.sql.parsing import parse_script
from tidemark.sql.programs import Definition, bind_named
from tidemark.sql.redefine import bind_alter, with_altered
from tidemark.sql.statements import AlterTable, CreateTable
from tidemark.sql.tables import bind_table
from tidemark.sql.text import Source


def changes(before: Catalog, after: Catalog, born: Mapping[str, int], version: int) -> list[str]:
    """What to do to one catalog to have the other; ``born`` has the versions in which relations were created.

    A view that stands on one that is written anew is written anew, too, so that it comes after it.
    """
    if before is after:
        return []
    come, anew = list[str](), set[str]()
    for name, relation in after.relations.items():
        old = before.get(name)
        goes_on = old is not None and old.identity is relation.identity
        if isinstance(relation, View):
            means_the_same = goes_on and isinstance(old, View) and old.meaning is relation.meaning
            if not means_the_same or relation.depends_on & anew:
                anew.add(name)
                come.append(_created("view", relation, born[name] if goes_on else version, seen=dict(relation.seen)))
            continue
        if not goes_on:
            anew.add(name)
            come.append(_created("table", relation, version))
        known = len(old.alterations) if goes_on and isinstance(old, Table) else 0
        come += [
            json.dumps({"alter": name, "sql": sql, "dialect": dialect}) for sql, dialect in relation.alterations[known:]
        ]
    gone = [name for name in before.relations if name in anew or name not in after.relations]
    return [json.dumps({"drop": name}) for name in gone] + come + rule_records(before, after)


def _created(kind: str, relation: Relation, version: int, **more: object) -> str:
    record = {"create": kind, "name": relation.name, "sql": relation.text, "dialect": relation.dialect}
    return json.dumps({**record, "version": version, **more})


def restore(records: Iterable[str]) -> tuple[Catalog, dict[str, int]]:
    """The catalog and the versions in which its relations were created."""
    catalog, versions, rules = Catalog(), dict[str, int](), dict[str, Any]()
    for text in records:
        record = json.loads(text)
        if "rule" in record:
            if record["sql"] is None:
                rules.pop(record["rule"], None)
            else:
                rules[record["rule"]] = record  # one that goes on stays where it is: the order is that of creation
            continue
        if "drop" in record:
            catalog = catalog.without(record["drop"])
            versions.pop(record["drop"], None)
            continue
        if "alter" in record:
            catalog = _altered(record, catalog)
            continue
        relation = define(record["sql"], record["dialect"], catalog, record.get("seen"), record["name"])
        catalog = catalog.with_relation(relation)
        versions[relation.name] = record["version"]
    # Rules name relations, and none names a rule: they are bound to what the relations are in the end.
    return with_rules(catalog, rules.values()), versions


def define(
    sql: str, dialect: str, catalog: Catalog, seen: Mapping[str, int] | None = None, name: str | None = None
) -> Relation:
    """The relation that a CREATE statement defines, or that of them with the name, if it defines several."""
    [(statement, source)] = parse_script(Source(sql, dialect))
    if isinstance(statement, CreateTable):
        return bind_table(statement, source)
    assert isinstance(statement, Definition)
    return bind_named(statement, name or statement.names[0], catalog, source, seen)


def _altered(record: Mapping[str, Any], catalog: Catalog) -> Catalog:
    [(statement, source)] = parse_script(Source(record["sql"], record["dialect"]))
    table = catalog.relations[record["alter"]]
    assert isinstance(statement, AlterTable) and isinstance(table, Table)
    return with_altered(catalog, bind_alter(statement, table, source))
