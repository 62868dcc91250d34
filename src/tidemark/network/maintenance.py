"""How each node is kept true, in words; and which nodes would have to read their whole input again.

What EXPLAIN says and what ``strategy = 'incremental'`` refuses both come from here. Every operator that the network
knows at present is maintained at a cost that follows the change; one that is not has a line in ``READS_ALL``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidemark.algebra.plans import Aggregate, Plan, walk
from tidemark.network.build import COMPLETE, Network
from tidemark.network.nodes import Node, NodeKind

READS_ALL: Final[dict[type[Plan], Callable[[Plan], str | None]]] = {}
"""For each kind of plan, why a change of its input makes its node read that input as a whole; None if it does not."""


@dataclass(frozen=True)
class Maintenance:
    """How one node is brought up to date: a sentence, and why that needs its whole input, if it does."""

    node: Node
    how: str
    reads_all_because: str | None = None


def maintenance_of(node: Node) -> Maintenance:
    """How a node of the network is brought up to date after a change below it."""
    if node.strategy == COMPLETE:
        declared = "it was declared with strategy = 'complete'"
        return Maintenance(node, f"complete: evaluated again as a whole, because {declared}", declared)
    for part in walk(node.plan):
        because = _reads_all(part)
        if because is not None:
            return Maintenance(node, f"complete: its input is read again as a whole, because {because}", because)
    if node.kind is NodeKind.SHARED:
        return Maintenance(node, "differential: its change is derived once for all that use it; nothing is stored")
    if isinstance(node.plan, Aggregate) and node.kind is NodeKind.STATE:
        return Maintenance(node, "differential, from kept counts: only the groups that a change touches are read")
    return Maintenance(node, "differential: only the differentials of influents that changed are run")


def maintenance(network: Network, view: str) -> tuple[Maintenance, ...]:
    """The same for every node that serves a view, itself last."""
    return tuple(maintenance_of(node) for node in network.serving(view))


def _reads_all(part: Plan) -> str | None:
    tell = READS_ALL.get(type(part))
    return None if tell is None else tell(part)
