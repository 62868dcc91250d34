"""Autonomous steps: a stored node brought up to date from its own content and the change of one relation alone.

No relation below the node is read (``analysis.autonomy``; BLAKELEY chapter 4). Some steps are right for every change of
the relation, others only for changes that leave nothing undecided, which is seen when the change is there.

Steps that follow from the content of a small view: Theorems 4.4 and 4.5 (``analysis.autonomy.content``).

A view of a few rows is read as a whole, and what it shows may prove what a deletion takes away, or what an inserted
row brings. The proofs take milliseconds, so they are tried only where many rows below would have to be read otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidemark.algebra.expressions import Literal, Value, substitute
from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Aggregate, Fixpoint, Plan, Stored, relations_of, walk
from tidemark.analysis.autonomy.content import MOST_ROWS, deleted_from, inserted_into
from tidemark.analysis.autonomy.criteria import Boundaries, Criterion, Refusal, autonomy, boundaries
from tidemark.analysis.autonomy.dml import (
    AnalysedStatement,
    Deletion,
    Insertion,
    Update,
    deleted_by_condition,
    deletion_of,
    updated_by_condition,
)
from tidemark.analysis.autonomy.stored import Kept
from tidemark.analysis.budget import for_plan
from tidemark.analysis.facts import Facts
from tidemark.analysis.relevance.shapes import Shape, is_within
from tidemark.calculus.as_of import Block, resolve
from tidemark.calculus.extrema import has_extrema
from tidemark.calculus.group import is_merged
from tidemark.calculus.terms import distribute
from tidemark.engines.engine import Engine
from tidemark.passes import optimize
from tidemark.storage.delta import from_bag, to_bag
from tidemark.strategy.nodes import (
    AUTO,
    AUTONOMOUS,
    DIFFERENTIAL,
    INCREMENTAL,
    Node,
    NodeKind,
    Refresh,
    Stage,
    merged_stages,
)

PATIENCE = 16
"""A step that the last change left undecided is tried again after so many changes."""


@dataclass(frozen=True)
class KnownFacts:
    """What is known of the tables under a network: the facts about their rows, and their keys."""

    facts: Mapping[str, Facts] = field(default_factory=dict)
    keys: RelationKeys = field(default_factory=dict)


@dataclass
class Attempt:
    """An autonomous step; it is right if ``undecided`` has no rows, or is None, or if ``alone``, which reads the change
    only, has none.

    Finding out costs a look at what is stored. An attempt that failed is not made again for a while.
    """

    refresh: Refresh
    undecided: Plan | None
    alone: Plan | None = None
    waiting: int = 0

    @property
    def is_worth_trying(self) -> bool:
        self.waiting = max(0, self.waiting - 1)
        return not self.waiting

    def failed(self) -> None:
        # What is decided by the change alone is found out at once, and may be asked each time.
        assert self.undecided is not None
        self.waiting = PATIENCE if any(isinstance(part, Stored) for part in walk(self.undecided)) else 0


def attempts(
    node: Node, relation: str, keys: RelationKeys, unstored: frozenset[str], ahead: frozenset[str] = frozenset()
) -> tuple[Attempt, ...]:
    """The autonomous steps for a node when one relation changes, and nothing else that it reads."""
    if not _has_rules(node) or relation not in relations_of(node.plan):
        return ()
    block = Block(changed=frozenset({relation}), unstored=unstored, ahead=ahead)
    return tuple(_steps(node, autonomy(node.name, node.plan, relation, keys).rules, block))


def by_statement(
    node: Node, statement: AnalysedStatement, known: KnownFacts, unstored: frozenset[str]
) -> Refresh | None:
    """The step that follows from a statement and what is stored (Theorems 4.2 and 4.3), if it is proved."""
    if not _has_rules(node) or statement.relation not in relations_of(node.plan):
        return None
    kept, checks = Kept.of(node.name, node.plan), {name: facts.checks for name, facts in known.facts.items()}
    with for_plan(kept.input):
        match statement:
            case Deletion():
                rule = deleted_by_condition(kept, statement, checks)
            case Update():
                rule = updated_by_condition(kept, statement, checks)
            case _:
                return None
    if isinstance(rule, Refusal):
        return None
    block = Block(changed=frozenset({statement.relation}), unstored=unstored)
    return next(_steps(node, (rule,), block)).refresh


def deletion_boundaries(node: Node, shape: Shape, known: KnownFacts) -> Boundaries | None:
    """For which constants deletions of a shape follow from what is stored, and which rows go then."""
    if shape.kind != "delete" or not _has_rules(node) or shape.relation not in relations_of(node.plan):
        return None
    kept, checks = Kept.of(node.name, node.plan), {name: facts.checks for name, facts in known.facts.items()}
    with for_plan(kept.input):
        return boundaries(kept, shape.relation, shape.where, shape.parameters, checks)


def within_boundaries(
    node: Node, shape: Shape, constants: tuple[Value, ...], bounds: Boundaries, unstored: frozenset[str]
) -> Refresh | None:
    """The step of a deletion whose constants lie within the boundaries of its shape: nothing is left to be proved."""
    if not is_within(bounds.autonomous, constants):
        return None
    kept = Kept.of(node.name, node.plan)
    values = tuple(Literal(value, field.type) for value, field in zip(constants, shape.parameters, strict=True))
    rule = deletion_of(kept, shape.relation, substitute(bounds.going, (*kept.old.columns(), *values)))
    block = Block(changed=frozenset({shape.relation}), unstored=unstored)
    return next(_steps(node, (rule,), block)).refresh


def _has_rules(node: Node) -> bool:
    if not node.is_stored or node.strategy not in (AUTO, INCREMENTAL):
        return False
    if isinstance(node.plan, Fixpoint):
        return False
    return not isinstance(node.plan, Aggregate) or (is_merged(node.plan) and not has_extrema(node.plan))


def _steps(node: Node, rules: tuple[Criterion, ...], block: Block) -> Iterator[Attempt]:
    for rule in rules:
        delta = _resolved(rule.delta, block)
        undecided = None if rule.undecided is None else _resolved(rule.undecided, block)
        alone = None if rule.alone is None else _resolved(rule.alone, block)
        stages = merged_stages(node, delta, block) if rule.of_input else (Stage(delta),)
        yield Attempt(Refresh(stages, AUTONOMOUS, rule.reason), undecided, alone)


def _resolved(plan: Plan, block: Block) -> Plan:
    return distribute(resolve(optimize(plan), block))


def named(refresh: Refresh, node: Node) -> Refresh:
    """The step, called autonomous if it reads nothing below the node."""
    if refresh.strategy != DIFFERENTIAL or node.kind is NodeKind.SHARED:
        return refresh
    read = {part.relation for stage in refresh.stages for part in walk(stage.plan) if isinstance(part, Stored)}
    if read - {node.name}:
        return refresh
    alone = "the change and what is stored of it are enough" if read else "the change alone is enough"
    return replace(refresh, strategy=AUTONOMOUS, reason=alone)


REASON = "its few rows prove what the statement does to them"


def by_content(
    node: Node, statement: AnalysedStatement, delta: pa.Table, engine: Engine, known: KnownFacts
) -> pa.Table | None:
    """The change of a small view by the only statement of a block, whose delta is given; None if it is not proved."""
    if node.kind is not NodeKind.VIEW or isinstance(node.plan, Aggregate) or engine.rows(node.name) > MOST_ROWS:
        return None
    kept, checks = Kept.of(node.name, node.plan), {name: facts.checks for name, facts in known.facts.items()}
    content = to_bag(engine.evaluate(Stored(node.name, node.schema), {}))
    match statement:
        case Deletion():
            going = deleted_from(kept, list(content), statement, known.keys, checks)
            return None if going is None else from_bag({row: -content[row] for row in going}, node.schema)
        case Insertion(relation=relation):
            rows = to_bag(delta)
            if list(rows.values()) != [1]:
                return None
            coming = inserted_into(kept, list(content), relation, next(iter(rows)), known.keys, checks)
            if coming is None or not coming.weights_known:
                return None
            return from_bag(dict.fromkeys(coming.rows, 1), node.schema)
    return None
