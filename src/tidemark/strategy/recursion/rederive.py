"""How a view that is stored nowhere follows the changes below it by rules: Algorithms 2 and 3 of ROD, over look-ups.

Only that part of the old state is derived again which the changes ask for, through look-ups in the relations below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Fixpoint, Plan, Project
from tidemark.calculus.as_of import Block
from tidemark.datalog.fixpoint import RecursionLimits
from tidemark.datalog.plans import program_of
from tidemark.datalog.program import Program
from tidemark.datalog.rederive import DemandProgram, demand_program, rederive
from tidemark.engines.engine import Engine
from tidemark.storage.delta import Rows, as_rows
from tidemark.strategy.recursion.lookups import EngineLookup, Parts, weights_of
from tidemark.strategy.settle import evaluation


@dataclass(frozen=True)
class Rules:
    """A program, the plans of the relations that it reads, and the predicate that a view shows."""

    program: Program
    plans: Mapping[str, Plan]
    predicate: str

    @cached_property
    def demands(self) -> DemandProgram:
        return demand_program(self.program)


@dataclass(frozen=True)
class Rederived:
    """The deltas of all predicates, and how many rows were read and derived again for them."""

    deltas: Mapping[str, Rows]
    read: int
    rederived: int


def rules_of(plan: Plan) -> Rules | None:
    """The rules of a plan that shows all of a recursion, as SELECT * FROM … does."""
    inner = plan
    while isinstance(inner, Project) and inner.expressions == inner.input.columns():
        inner = inner.input
    if not isinstance(inner, Fixpoint):
        return None
    return Rules(program_of(inner), dict(zip(inner.sources, inner.parts, strict=True)), inner.predicate)


def rederived(
    rules: Rules, block: Block, keys: RelationKeys, given: Mapping[str, pa.Table], engine: Engine
) -> Rederived:
    """The exact changes of all predicates; TooFar if too many rows would have to be derived for them."""
    parts = Parts(rules.plans, block, keys)
    lookup = EngineLookup(parts.before, as_rows(given), engine, evaluation(engine))
    limits = RecursionLimits(engine.limits.rederivation_rounds, engine.limits.rederived_rows)
    found = rederive(rules.program, lookup, parts.changes(lookup), rules.demands, limits)
    schemas = rules.program.schemas
    deltas = {name: Rows(schemas[name], bag=weights_of(change)) for name, change in found.changes.items()}
    return Rederived(deltas, lookup.read, sum(found.rederived.values()))
