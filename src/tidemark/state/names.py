"""Finding a relation by the name that a program gives it: as it is, or as SQL would read it."""

from __future__ import annotations

import logging

from tidemark.algebra.types import RESERVED_SINCE
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import Catalog, Relation, View
from tidemark.sql.parse.lagging import QUERY
from tidemark.sql.parse.text import fold

_logger = logging.getLogger("tidemark")


def tell_of_reserved_names(catalog: Catalog) -> None:
    """Tell of columns whose names have been reserved since they were defined: they are kept."""
    for relation in catalog.relations.values():
        for name in relation.schema.names:
            if name.lower() in RESERVED_SINCE:
                _logger.warning(
                    "the column %r of %r has a name that is reserved now, so its changes tell no times of commits: "
                    "create it anew with another name for the column",
                    name,
                    relation.name,
                )


def relation_named(name: str, catalog: Catalog) -> Relation:
    relation = catalog.get(name) or catalog.get(fold(str(name)))
    if relation is None:
        raise TidemarkError("unknown_relation", f"there is no relation {name!r}", hint=catalog.suggestions(name))
    return relation


def logged_named(name: str, catalog: Catalog) -> Relation:
    """A relation whose changes are kept."""
    relation = relation_named(name, catalog)
    if isinstance(relation, View) and not relation.is_logged:
        raise TidemarkError(
            "not_materialized",
            f"{relation.name!r} is a plain view: its changes are not kept",
            hint="CREATE MATERIALIZED VIEW, or CREATE EXTERNAL VIEW",
        )
    return relation


def must_be_view(relation: Relation, why: str) -> View:
    """The relation as a view; ``why`` says what would be asked of a table in vain."""
    if not isinstance(relation, View):
        raise TidemarkError("not_a_view", f"{relation.name!r} is a table: {why}")
    return relation


def query_named(name: str, catalog: Catalog) -> View:
    """A continual query."""
    found = relation_named(name, catalog)
    if not isinstance(found, View) or found.lag is None or found.lag.kind != QUERY:
        raise TidemarkError("wrong_kind", f"{found.name!r} is no continual query", hint="subscribe() follows others")
    return found
