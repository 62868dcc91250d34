"""The nodes of the network, and the plans that bring each one up to date."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from tidemark.algebra.plans import Aggregate, Given, Negate, Plan, Scan, State, transform, union
from tidemark.algebra.types import Schema
from tidemark.calculus.as_of import Block, resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.group import merged_delta, partial_sums, touched_before, with_column_keys
from tidemark.calculus.states import new
from tidemark.calculus.terms import distribute
from tidemark.passes import optimize

REPLACED = "replaced"
"""The strategy, for one transaction, of a view whose definition is another one than what is stored was derived by."""


class NodeKind(enum.Enum):
    """A *view* is stored and seen by users; a *state* keeps the counts of a grouping; a *shared* subplan is not
    stored: only its change is derived, once, for all that need it."""

    VIEW = "view"
    STATE = "state"
    SHARED = "shared"


@dataclass(frozen=True)
class Node:
    """A derived relation of the network. Its plan reads tables and nodes of lower levels.

    ``influents`` are the relations whose change can change this node; ``shared`` names the subplans of its plan that
    are nodes of their own; ``views`` are the views that it serves.
    """

    name: str
    kind: NodeKind
    plan: Plan
    level: int
    influents: frozenset[str]
    strategy: str = "auto"
    views: tuple[str, ...] = ()
    shared: tuple[tuple[Plan, str], ...] = ()

    @property
    def schema(self) -> Schema:
        return self.plan.schema

    @property
    def label(self) -> str:
        """The node's name for people: a view's own name, or what it is for which view, and the start of its digest."""
        if self.kind is NodeKind.VIEW:
            return self.name
        what = "counts" if self.kind is NodeKind.STATE else "shared"
        return f"{self.views[0]}/{what}-{self.name.rpartition('_')[2][:4]}"

    @property
    def is_stored(self) -> bool:
        return self.kind is not NodeKind.SHARED

    @property
    def input(self) -> Plan:
        """The linear plan whose change is derived: below the grouping for a state, else the plan itself."""
        return self.plan.input if self.kind is NodeKind.STATE and isinstance(self.plan, Aggregate) else self.plan


@dataclass(frozen=True)
class Stage:
    """One plan to evaluate; its result is given to the next stage under ``result``, or is the node's delta."""

    plan: Plan
    result: str | None = None


@dataclass(frozen=True)
class Refresh:
    """How one node is brought up to date for one set of changed influents: resolved plans, in order."""

    stages: tuple[Stage, ...]
    strategy: str
    reason: str


def refresh(node: Node, changed: frozenset[str], block: Block, *, bulk: bool = False) -> Refresh:
    """The plans that derive the node's delta when the given influents changed.

    A grouping takes four steps: the change of its input, the partial sums of that change, the stored counts of the
    touched groups, and the merge of both. Only the first and the third read anything stored. A ``bulk`` change is
    summed up by the engine as it is derived, so that its rows never leave the engine.
    """
    if node.strategy in _COMPLETE:
        return _complete(node, block)
    delta = optimize(differentiate(node.input, changed, dict(node.shared)))
    if not isinstance(node.plan, Aggregate):
        return Refresh((Stage(distribute(resolve(delta, block))),), "differential", "differentials")
    has_columns = bool(node.plan.keys) or any(call.argument is not None for call in node.plan.aggregates)
    stages = _sums(node.plan, delta, block) if has_columns and not bulk else _bulk_sums(node.plan, delta, block)
    partial = Given(_PARTIAL, node.schema)
    before = touched_before(node.plan, Scan(node.name, node.schema, State.OLD), partial)
    merged = merged_delta(node.plan, Given(_BEFORE, node.schema), partial)
    stages += (Stage(resolve(before, block), _BEFORE), Stage(merged))
    return Refresh(stages, "differential", "kept counts and differentials")


_INPUT, _PARTIAL, _BEFORE = "input", "partial", "before"


def _sums(grouping: Aggregate, delta: Plan, block: Block) -> tuple[Stage, ...]:
    prepared = with_column_keys(replace(grouping, input=delta))
    rows = Stage(distribute(resolve(optimize(prepared.input), block)), _INPUT)
    return (rows, Stage(partial_sums(prepared, Given(_INPUT, prepared.input.schema)), _PARTIAL))


def _bulk_sums(grouping: Aggregate, delta: Plan, block: Block) -> tuple[Stage, ...]:
    return (Stage(distribute(resolve(partial_sums(grouping, delta), block)), _PARTIAL),)


_COMPLETE = {"complete": "declared with strategy = 'complete'", REPLACED: "its definition was replaced"}


def _complete(node: Node, block: Block) -> Refresh:
    stored = Scan(node.name, node.schema, State.OLD)
    plan = union((new(node.plan), Negate(stored)), node.schema)
    return Refresh((Stage(distribute(resolve(plan, block))),), "complete", _COMPLETE[node.strategy])


def definition(node: Node, block: Block) -> Plan:
    """The plan of the node's whole content, for filling it at the end of the block."""
    return distribute(resolve(new(node.plan), block))


def expand(plan: Plan, definitions: dict[str, Plan]) -> Plan:
    """The plan with every scan of a defined relation replaced by that definition, down to the tables."""

    def replaced(part: Plan) -> Plan | None:
        if isinstance(part, Scan) and part.relation in definitions:
            return expand(definitions[part.relation], definitions)
        return None

    return transform(plan, replaced)
