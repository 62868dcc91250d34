"""What can make a trigger hold, or an end come, read from the text of its conditions alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from tidemark.algebra.plans import relations_of
from tidemark.sql.catalog import Catalog, View
from tidemark.sql.expressions import CURRENT
from tidemark.sql.intervals import is_age
from tidemark.sql.text import fold
from tidemark.sql.triggers import OnChange, When, leaves


@dataclass(frozen=True)
class Watched:
    """What a trigger and an end look at, beside the clock: unless some of it changes, asking again gives the answer
    that was given.

    ``own``: what the query reads. ``relations``: those that it names, and what stands below them if they are not
    stored as of now. ``is_timed``: a condition names the time, so that every moment may have another answer.
    """

    own: bool
    relations: frozenset[str]
    is_timed: bool


def watched(view: View, catalog: Catalog) -> Watched:
    """What a trigger and an end look at. A relation that is not there is looked for by its name."""
    lag = view.lag
    assert lag is not None
    asked = [leaf for leaf in leaves(lag.trigger) if isinstance(leaf, OnChange | When)]
    conditions = [leaf.condition for leaf in asked if isinstance(leaf, When)]
    if lag.until.condition is not None:
        conditions.append(lag.until.condition.condition)
    named = {leaf.relation for leaf in asked if leaf.relation is not None}
    named |= {fold(table.this) for condition in conditions for table in condition.find_all(exp.Table)}
    # A condition over the state says when to tell what has changed: it is asked when something has, too.
    own = any(leaf.relation in (None, view.name) for leaf in asked)
    return Watched(own, _stored(named, catalog), any(names_time(condition) for condition in conditions))


def _stored(names: Iterable[str], catalog: Catalog) -> frozenset[str]:
    """The relations whose changes are changes of these: definitions that are expanded, or followed when they are read,
    stand for what is below them."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        relation = catalog.get(name)
        if isinstance(relation, View):
            is_followed = relation.materialized and (relation.lag is None or not relation.lag.is_read_through)
            waiting += () if is_followed else relations_of(relation.plan)
    return frozenset(found)


def names_time(condition: exp.Expr) -> bool:
    """Whether a condition names the time, here or in a subquery."""
    return any(isinstance(part, CURRENT) or is_age(part) for part in condition.walk())
