"""Commutative and associative laws of joins (ERA's transformations 1 and 2), used to join the delta first.

    R ⋈ S = S ⋈ R                    up to the order of columns, which a projection restores
    R ⋈ (S ⋈ T) = (R ⋈ S) ⋈ T        with each condition at the first join that has all its columns

In (R_old ⋈ S_old) ⋈ ΔT two stored relations are joined to meet a handful of rows. From ΔT outward, along the
conditions, every step stays about as small as the delta: this is the text's "pushing incremental operators down".
Joins of fewer than three relations, of several deltas or of none stay as they are, and so do joins with a condition
that can fail, since it would be evaluated on other pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemark.algebra.expressions import TRUE, Column, Expression, columns_of, conjunction, conjuncts, shift, substitute
from tidemark.algebra.failing import can_fail
from tidemark.algebra.plans import Join, Plan, Project
from tidemark.passes.facts import reads_delta


def start_joins_at_deltas(plan: Plan) -> Plan:
    if isinstance(plan, Join):
        block = _block(plan, 0)
        leaves = tuple(start_joins_at_deltas(leaf) for leaf in block.leaves)
        return _ordered(plan, _Block(leaves, block.conditions))
    inputs = plan.inputs()
    return plan.with_inputs(tuple(start_joins_at_deltas(child) for child in inputs)) if inputs else plan


@dataclass(frozen=True)
class _Block:
    """The relations of nested joins, left to right, and the conditions over all their columns."""

    leaves: tuple[Plan, ...]
    conditions: tuple[Expression, ...]


def _block(plan: Plan, offset: int) -> _Block:
    if not isinstance(plan, Join):
        return _Block((plan,), ())
    left = _block(plan.left, offset)
    right = _block(plan.right, offset + len(plan.left.schema))
    own = tuple(shift(part, offset) for part in conjuncts(plan.predicate))
    return _Block(left.leaves + right.leaves, left.conditions + right.conditions + own)


def _ordered(plan: Join, block: _Block) -> Plan:
    deltas = [position for position, leaf in enumerate(block.leaves) if reads_delta(leaf)]
    order: list[int] = []
    if len(block.leaves) > 2 and len(deltas) == 1 and not any(map(can_fail, block.conditions)):
        order = _outward(deltas[0], block)
    if not order:
        return _with_leaves(plan, iter(block.leaves))
    joined, columns = _joined(order, block)
    if order == sorted(order):
        return joined
    return Project(joined, plan.schema.names, columns)


def _with_leaves(plan: Plan, leaves: Iterator[Plan]) -> Plan:
    """The same tree of joins over other leaves."""
    if not isinstance(plan, Join):
        return next(leaves)
    left = _with_leaves(plan.left, leaves)
    return plan.with_inputs((left, _with_leaves(plan.right, leaves)))


def _outward(start: int, block: _Block) -> list[int]:
    """The leaves in the order in which conditions lead to them from the first; empty if they do not lead to all."""
    links = [_leaves_of(condition, block) for condition in block.conditions]
    order, waiting = [start], [i for i in range(len(block.leaves)) if i != start]
    while waiting:
        present = set(order)
        found = next((i for i in waiting if any(i in link and link & present for link in links)), None)
        if found is None:
            return []
        order.append(found)
        waiting.remove(found)
    return order


def _leaves_of(condition: Expression, block: _Block) -> set[int]:
    return {_leaf_of(index, block) for index in columns_of(condition)}


def _leaf_of(index: int, block: _Block) -> int:
    for position, leaf in enumerate(block.leaves):
        if index < len(leaf.schema):
            return position
        index -= len(leaf.schema)
    raise IndexError(index)


def _joined(order: list[int], block: _Block) -> tuple[Plan, tuple[Column, ...]]:
    """The joins in that order, and where the columns of the original row stand in theirs."""
    starts = _starts(tuple(len(leaf.schema) for leaf in block.leaves))
    places: dict[int, int] = {}
    width, waiting = 0, list(block.conditions)
    result: Plan | None = None
    for position in order:
        leaf = block.leaves[position]
        places |= {starts[position] + i: width + i for i in range(len(leaf.schema))}
        width += len(leaf.schema)
        if result is None:
            result = leaf
            continue
        ready = [c for c in waiting if columns_of(c) <= places.keys()]
        waiting = [c for c in waiting if c not in ready]
        row = (result.schema + leaf.schema).fields
        columns = {old: Column(new, row[new].name, row[new].type, row[new].nullable) for old, new in places.items()}
        moved = tuple(_renumbered(condition, columns) for condition in ready)
        result = Join(result, leaf, conjunction(tuple(part for part in moved if part != TRUE)))
    assert result is not None
    return result, tuple(result.column(places[index]) for index in range(width))


def _renumbered(condition: Expression, columns: dict[int, Column]) -> Expression:
    highest = max(columns_of(condition), default=-1) + 1
    anything = next(iter(columns.values()))
    return substitute(condition, tuple(columns.get(index, anything) for index in range(highest)))


def _starts(widths: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sum(widths[:position]) for position in range(len(widths)))
