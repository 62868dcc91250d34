"""Reading relations at the current point of a transaction: what is stored, overlaid with what is pending."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tidemark.algebra.plans import Plan, relations_of
from tidemark.calculus.as_of import Block, resolve
from tidemark.calculus.terms import distribute
from tidemark.network.nodes import expand
from tidemark.network.wave import given_deltas
from tidemark.sql.catalog import Catalog


def expanded(plan: Plan, catalog: Catalog, stored: frozenset[str]) -> Plan:
    """The plan with the views that are not stored yet (created in this transaction) as their definitions."""
    if relations_of(plan) <= stored:  # as ever, but in the transaction that creates them: no look at all views
        return plan
    views = (*catalog.materialized_views, *catalog.lagging_views)
    fresh = {v.name: v.plan for v in views if v.name not in stored}
    return expand(plan, fresh) if fresh else plan


def readable(plan: Plan, stored: frozenset[str], deltas: Mapping[str, pa.Table]) -> tuple[Plan, dict[str, pa.Table]]:
    """The resolved plan, with what is pending laid over what is stored, and the deltas to give with it."""
    read = relations_of(plan)
    changed = frozenset(name for name in read if name in deltas)
    unstored = frozenset(name for name in read if name not in stored)
    resolved = distribute(resolve(plan, Block(changed=changed, unstored=unstored)))
    return resolved, given_deltas({name: deltas[name] for name in changed})


def first_principle(plan: Plan, catalog: Catalog) -> Plan:
    """A view's definition over base tables alone."""
    return expand(plan, {view.name: view.plan for view in catalog.materialized_views})
