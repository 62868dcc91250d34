"""Reading relations at the current point of a transaction: what is stored, overlaid with what is pending."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tidemark.algebra.plans import Plan, relations_of
from tidemark.calculus.as_of import Block, resolve
from tidemark.calculus.terms import distribute
from tidemark.network.nodes import expand
from tidemark.network.propagate import given_deltas
from tidemark.sql.catalog import Catalog


def readable(
    plan: Plan, catalog: Catalog, stored: frozenset[str], deltas: Mapping[str, pa.Table]
) -> tuple[Plan, dict[str, pa.Table]]:
    """The resolved plan and the deltas to give with it.

    Views that are not stored yet (created in this transaction) are expanded to their definitions.
    """
    fresh = {v.name: v.plan for v in catalog.materialized_views if v.name not in stored}
    expanded = expand(plan, fresh) if fresh else plan
    read = relations_of(expanded)
    changed = frozenset(name for name in read if name in deltas)
    unstored = frozenset(name for name in read if name not in stored)
    resolved = distribute(resolve(expanded, Block(changed=changed, unstored=unstored)))
    return resolved, given_deltas({name: deltas[name] for name in changed})


def first_principle(plan: Plan, catalog: Catalog) -> Plan:
    """A view's definition over base tables alone."""
    return expand(plan, {view.name: view.plan for view in catalog.materialized_views})
