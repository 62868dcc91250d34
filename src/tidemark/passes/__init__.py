"""Passes: rewrites of plans that keep their rows, run over differentials before an engine sees them.

Each pass is one function from plan to plan, in the module of its name, with its laws in the docstring and its examples
in ``tests/passes/fixtures`` under the same name. ``optimize`` runs all of ``PASSES`` in order until nothing changes.
They are the ten equivalence transformations of incremental operators (ERA 5.3), with the conditions under which they
are sound for bags, and a few more:

    1, 2   commute and reassociate joins          start_joins_at_deltas
    3      cascade of projects                    merge_projections
    4      cascade of selects                     merge_filters
    5 to 8 select below project, join, union, difference    push_filters
    9, 10  project below join and union           push_projections

The text has two ways to an optimized differential (ERA 5.1): transform, then differentiate; or differentiate once,
then transform. Differentials are ordinary plans here, so the same passes serve both, and both reach the same plan. The
network takes the second way. Of definitions only conditions are rewritten: constants in them get their values, and
products become the joins that they are meant to be. An audit evaluates definitions as they were written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidemark.algebra.cache import is_tangled
from tidemark.algebra.plans import Plan
from tidemark.passes.cancel_unions import cancel_unions
from tidemark.passes.fold_constants import fold_constants
from tidemark.passes.join_by_conditions import join_by_conditions
from tidemark.passes.merge_filters import merge_filters
from tidemark.passes.merge_projections import merge_projections
from tidemark.passes.push_filters import push_filters
from tidemark.passes.push_projections import push_projections
from tidemark.passes.raise_negations import raise_negations
from tidemark.passes.remove_empty import remove_empty
from tidemark.passes.start_joins_at_deltas import start_joins_at_deltas

Pass = Callable[[Plan], Plan]

PASSES: Final[tuple[Pass, ...]] = (
    remove_empty,  # first, so that nothing is pushed into what is not there
    merge_filters,
    push_filters,  # before projections, because a projection hides columns from a filter above it
    merge_projections,
    push_projections,
    raise_negations,  # after the pushes, which turn one union into unions of terms
    cancel_unions,
    start_joins_at_deltas,  # last, when every condition stands at its join
)

DEFINITION_PASSES: Final[tuple[Pass, ...]] = (
    fold_constants,  # first, because a condition that can fail is not moved
    join_by_conditions,
)
"""What runs over definitions, before views share parts of them."""

MOST_ROUNDS: Final = 8


def optimize(plan: Plan) -> Plan:
    """The plan after all passes, again and again until they change nothing.

    A plan whose parts stand in many places stays as it is: what is pushed into one differs from place to place.
    """
    if is_tangled(plan):
        return plan
    for _ in range(MOST_ROUNDS):
        before = plan
        for apply in PASSES:
            plan = checked(apply, plan)
        if plan == before:
            break
    return plan


def prepare(plan: Plan) -> Plan:
    """A definition after the passes that run over definitions."""
    for apply in DEFINITION_PASSES:
        plan = checked(apply, plan)
    return plan


def checked(apply: Pass, plan: Plan) -> Plan:
    """One pass over the plan, which must keep the names and types of its columns."""
    changed = apply(plan)
    old, new = plan.schema, changed.schema
    if (old.names, old.types) != (new.names, new.types):
        raise AssertionError(f"{apply.__name__} made ({new}) of ({old})")
    return changed


__all__ = ["DEFINITION_PASSES", "PASSES", "Pass", "checked", "optimize", "prepare"]
