"""The catalog's records: what a commit says about definitions, as JSON, and how a catalog is read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from tidemark.algebra.schemas import schema_from_json, schema_to_json
from tidemark.sql.bind.rules import bind_activation, bind_rule, check_actions
from tidemark.sql.bind.tables import bind_table
from tidemark.sql.bind.views import Definition, bind_named
from tidemark.sql.catalog.catalog import Catalog, Relation, Table, View
from tidemark.sql.catalog.redefine import bind_alter, with_altered
from tidemark.sql.catalog.rules import Activation, Rule
from tidemark.sql.catalog.sources import Origin, SourceDefinition
from tidemark.sql.parse.rules import CreateRule
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.sources import CreateSource
from tidemark.sql.parse.statements import AlterTable, CreateTable
from tidemark.sql.parse.text import Source

NONE_BORN: Final[Mapping[str, int]] = {}


def changes(
    before: Catalog,
    after: Catalog,
    born: Mapping[str, int],
    version: int,
    known: Callable[[View], Mapping[str, Any] | None] = lambda view: None,
) -> list[str]:
    """What to do to one catalog to have the other; ``born`` has the versions in which relations were created, and
    ``known`` tells what is stored of a view beside its text, so that it need not be bound when the database is opened.

    A view that stands on one that is written anew is written anew, too, so that it comes after it.
    """
    if before is after:
        return []
    come, anew = list[str](), set[str]()
    added = after.relations.since(before.relations)
    for relation in after.relations.values() if added is None else added:
        name = relation.name
        old = before.get(name)
        goes_on = old is not None and old.identity is relation.identity
        if isinstance(relation, View):
            means_the_same = goes_on and isinstance(old, View) and old.meaning is relation.meaning
            if not means_the_same or relation.depends_on & anew:
                anew.add(name)
                said = {"seen": dict(relation.seen), "known": known(relation)}
                come.append(_created("view", relation, born[name] if goes_on else version, **said))
            continue
        if not goes_on:
            anew.add(name)
            come.append(_created("table", relation, version, **_origin_of(relation)))
        told = len(old.alterations) if goes_on and isinstance(old, Table) else 0
        come += [
            json.dumps({"alter": name, "sql": sql, "dialect": dialect}) for sql, dialect in relation.alterations[told:]
        ]
    there = before.relations if added is None else ()
    gone = [name for name in there if name in anew or name not in after.relations]
    return [json.dumps({"drop": name}) for name in gone] + come + _rule_records(before, after) + _sources(before, after)


def _created(kind: str, relation: Relation, version: int, **more: object) -> str:
    record = {"create": kind, "name": relation.name, "sql": relation.text, "dialect": relation.dialect}
    return json.dumps({**record, "version": version, **more})


def restore(
    records: Iterable[str], before: Catalog | None = None, born: Mapping[str, int] = NONE_BORN
) -> tuple[Catalog, dict[str, int]]:
    """The catalog and the versions in which its relations were created, perhaps from those ``before`` the records."""
    binder = _Binder(before)
    catalog, versions, rules = binder.catalog, dict(born), dict[str, Any]()
    for text in records:
        record = json.loads(text)
        if "rule" in record:
            if record["rule"] in catalog.rules:
                binder.catalog = catalog = catalog.without_rule(record["rule"])
            if record["sql"] is None:
                rules.pop(record["rule"], None)
            else:
                rules[record["rule"]] = record  # one that goes on stays where it is: the order is that of creation
            continue
        if "source" in record:
            binder.catalog = catalog = _with_source(record, catalog)
            continue
        if "drop" in record:
            binder.catalog = catalog = catalog.without(record["drop"])
            versions.pop(record["drop"], None)
            continue
        if "alter" in record:
            binder.catalog = catalog = _altered(record, catalog)
            continue
        relation = binder.relation(record)
        if isinstance(relation, Table) and "from" in record:
            relation = replace(relation, origin=Origin(**record["from"]))
        binder.catalog = catalog = catalog.with_relation(relation)
        versions[relation.name] = record["version"]
    # Rules name relations, and none names a rule: they are bound to what the relations are in the end.
    return _with_rules(catalog, rules.values()), versions


KNOWN_AS: Final = 1
"""The number of the way in which what is known of views follows from their texts. It is raised with every change by
which the same text has another plan, other states or other parts; what was stored under another number is not read."""


def known_of_view(view: View, outline: str | None) -> Mapping[str, Any] | None:
    """What is stored of a view beside its text: all that anybody asks of it before its plan. None if it is of a kind
    that is always bound."""
    if view.external or view.lag is not None or view.is_assertion:
        return None
    return {
        "as": KNOWN_AS,
        "columns": schema_to_json(view.schema),
        "materialized": view.materialized,
        "options": dict(view.options),
        "depends_on": sorted(view.depends_on),
        "approximate": sorted(view.approximate),
        "outline": outline,
    }


class _Binder:
    """Binds definitions that are read back: those of which enough is known when somebody asks for their plans."""

    def __init__(self, before: Catalog | None = None) -> None:
        self.catalog = Catalog() if before is None else before

    def relation(self, record: Mapping[str, Any]) -> Relation:
        known = record.get("known")
        if known is None or known["as"] != KNOWN_AS:
            return define(record["sql"], record["dialect"], self.catalog, record.get("seen"), record["name"])
        name, sql, dialect, seen = record["name"], record["sql"], record["dialect"], record["seen"]
        return View.later(
            lambda: self._view(sql, dialect, seen, name),
            schema_from_json(known["columns"]),
            name=name,
            text=sql,
            dialect=dialect,
            materialized=known["materialized"],
            options=known["options"],
            depends_on=frozenset(known["depends_on"]),
            seen=seen,
            approximate=frozenset(known["approximate"]),
            known=known["outline"],
        )

    def _view(self, sql: str, dialect: str, seen: Mapping[str, int], name: str) -> View:
        bound = define(sql, dialect, self.catalog, seen, name)
        assert isinstance(bound, View)
        return bound


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


# Rules


def _rule_records(before: Catalog, after: Catalog) -> list[str]:
    """What to say of the rules that are other ones than before: their texts, and for which values they are watched."""
    if before.rules is after.rules:
        return []
    gone = [
        json.dumps({"rule": name, "sql": None})
        for name, rule in before.rules.items()
        if name not in after.rules or after.rules[name].origin is not rule.origin
    ]
    others = [rule for name, rule in after.rules.items() if before.rules.get(name) is not rule]
    return gone + [
        json.dumps(
            {
                "rule": rule.name,
                "sql": rule.text,
                "dialect": rule.dialect,
                "seen": dict(rule.seen),
                "active": [list(a.arguments) for a in rule.active],
            }
        )
        for rule in others
    ]


def _with_rules(catalog: Catalog, records: Iterable[Mapping[str, Any]]) -> Catalog:
    """The catalog with the rules that such records tell of."""
    for record in records:
        rule = define_rule(record["sql"], record["dialect"], catalog, record["seen"])
        active = tuple(activation(rule, tuple(arguments), catalog) for arguments in record["active"])
        catalog = catalog.with_rule(replace(rule, active=active))
    return catalog


def define_rule(sql: str, dialect: str, catalog: Catalog, seen: Mapping[str, int] | None = None) -> Rule:
    """The rule of a CREATE RULE statement, inactive."""
    [(statement, source)] = parse_script(Source(sql, dialect))
    assert isinstance(statement, CreateRule)
    return bind_rule(statement, catalog, source, seen)


def activation(rule: Rule, arguments: tuple[str, ...], catalog: Catalog) -> Activation:
    """The rule as it is watched for given values of its parameters."""
    [(statement, source)] = parse_script(Source(rule.text, rule.dialect))
    assert isinstance(statement, CreateRule)
    given, seen = dict(rule.given), dict(rule.seen)
    bound = bind_activation(statement, arguments, given, catalog, source, rule.semantics, seen)
    check_actions(bound, catalog, given, source)
    return bound


# Sources


def _origin_of(table: Table) -> dict[str, object]:
    """Where the rows of a table come from, if it follows a source."""
    found = table.origin
    if found is None:
        return {}
    return {"from": {"source": found.source, "relation": found.relation, "whole": found.whole}}


def _sources(before: Catalog, after: Catalog) -> list[str]:
    """What to say of the sources that are other ones than before."""
    gone = [json.dumps({"source": name, "sql": None}) for name in before.sources if name not in after.sources]
    others = [one for name, one in after.sources.items() if before.sources.get(name) is not one]
    return gone + [json.dumps({"source": one.name, "sql": one.text, "dialect": one.dialect}) for one in others]


def _with_source(record: Mapping[str, Any], catalog: Catalog) -> Catalog:
    if record["sql"] is None:
        return catalog.without_source(record["source"])
    [(statement, source)] = parse_script(Source(record["sql"], record["dialect"]))
    assert isinstance(statement, CreateSource)
    return catalog.with_source(source_of(statement, source.dialect))


def source_text(definition: SourceDefinition, options: Mapping[str, str]) -> str:
    """The statement that creates a source with these options, in the dialect of PostgreSQL."""
    quoted = {name: value.replace("'", "''") for name, value in options.items()}
    said = ", ".join(f"{name} '{value}'" for name, value in quoted.items())
    name = definition.name.replace('"', '""')
    return f'CREATE SOURCE "{name}" TYPE {definition.kind} OPTIONS ({said})'


def source_of(statement: CreateSource, dialect: str) -> SourceDefinition:
    """The source of a CREATE SOURCE statement."""
    return SourceDefinition(statement.name, statement.kind, statement.options, statement.text, dialect)
