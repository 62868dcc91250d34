"""What is known of the rows of tables and views, which relevance and autonomy rest on: NOT NULL, CHECK and keys.

A change has rows that leave and rows that come, so what is known must be true before the block and after it. Between
two statements of a transaction constraints may be violated, and a transaction may change the definitions themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from tidemark.algebra.types import Field
from tidemark.analysis.facts import Facts
from tidemark.database.pairing import Key, relation_keys, shortest
from tidemark.network.autonomous import Known
from tidemark.sql.catalog import Catalog, Table


def known_of(catalog: Catalog, before: Catalog | None = None, known_before: Known | None = None) -> Known:
    """What is true of all rows while definitions stay and constraints hold. Keys are taken over from the catalog
    ``before`` where nothing else follows."""
    checks = {table.name: tuple(check.condition for check in table.checks) for table in catalog.tables}
    facts = {table.name: Facts.of(table.schema, checks[table.name]) for table in catalog.tables}
    return Known(facts, relation_keys(catalog, before, {} if known_before is None else known_before.keys))


def known_between(before: Catalog, known_before: Known, after: Catalog, going_on: Set[str]) -> Known:
    """What is true before and after definitions change. Rows that leave need not satisfy what an ALTER TABLE of the
    same transaction asks for, nor be told apart by a key that a view has since it was replaced."""
    known_after, earlier = known_of(after, before, known_before), known_before.keys
    facts, keys = dict(known_after.facts), dict(known_after.keys)
    for name in going_on:
        known, table = before.get(name), after.get(name)
        keys[name] = keys[name] & earlier[name]
        if isinstance(known, Table) and isinstance(table, Table):
            facts[name] = Facts(_fields(table, known), tuple(check.condition for check in known.checks))
    return Known(facts, keys)


def known_of_nothing(catalog: Catalog) -> Known:
    """What is true while constraints are violated: the types of columns."""
    tables = {table.name: table.schema.fields for table in catalog.tables}
    return Known({name: Facts(tuple(map(_nullable, fields))) for name, fields in tables.items()})


def view_keys(catalog: Catalog, known: Known) -> Mapping[str, Key]:
    """A key of each materialized view that has one."""
    views = catalog.materialized_views
    return {view.name: shortest(known.keys[view.name]) for view in views if known.keys[view.name]}


def _fields(table: Table, before: Table) -> tuple[Field, ...]:
    """The columns of a table, of which those that were added are NULL in the rows that were there, unless they have a
    default."""
    width = len(before.schema)
    added = zip(table.schema.fields[width:], table.defaults[width:], strict=True)
    return table.schema.fields[:width] + tuple(_nullable(f) if value is None else f for f, value in added)


def _nullable(field: Field) -> Field:
    return replace(field, nullable=True)
