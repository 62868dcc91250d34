"""How each node is kept true, in words; and which nodes would have to read their whole input again.

What EXPLAIN says and what ``strategy = 'incremental'`` refuses both come from here. An operator that is evaluated again
reads the groups or partitions that a change touched; if it has none, that is its whole input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidemark.algebra.plans import Aggregate, Fixpoint, Plan, Sort, Window
from tidemark.algebra.printing import show_aggregate
from tidemark.calculus.extrema import has_extrema, is_kept_first
from tidemark.calculus.group import is_merged
from tidemark.strategy.external import REPEATED, is_evaluated_twice
from tidemark.strategy.graph import Network
from tidemark.strategy.nodes import COMPLETE, Node, NodeKind


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
    if node.reads_everything and node.is_stored:
        because = _no_keys(node.plan)
        return Maintenance(node, f"its input is read again as a whole after each change, because {because}", because)
    if node.kind is NodeKind.SHARED:
        return Maintenance(node, "differential: its change is derived once for all that use it; nothing is stored")
    if node.rules is not None:
        needed = "only what a change asks for is derived again of its old state"
        return Maintenance(node, f"differential, by rederivation on demand: nothing is stored; {needed}")
    if node.kind is NodeKind.EXTERNAL and is_evaluated_twice(node.plan):
        return Maintenance(node, f"complete: its change alone is derived, {REPEATED}", REPEATED)
    if node.kind is NodeKind.EXTERNAL:
        touched = "what a change touches is evaluated old against new"
        return Maintenance(node, f"differential: its change alone is derived, and nothing is stored; {touched}")
    how = _HOW.get(type(node.plan))
    if how is not None and (node.kind is NodeKind.STATE or isinstance(node.plan, Fixpoint)):
        return Maintenance(node, how(node.plan))
    return Maintenance(node, "differential: only the differentials of influents that changed are run")


def maintenance(network: Network, view: str) -> tuple[Maintenance, ...]:
    """The same for every node that serves a view, itself last."""
    return tuple(maintenance_of(node) for node in network.serving(view))


def _no_keys(plan: Plan) -> str:
    match plan:
        case Window():
            return "a window has no PARTITION BY"
        case Aggregate(aggregates=calls):
            names = ", ".join(show_aggregate(call) for call in calls if not call.is_merged)
            return f"{names} cannot be merged from a change, and there is no GROUP BY"
    return "OFFSET without LIMIT has no end"


def _of_groups(plan: Plan) -> str:
    assert isinstance(plan, Aggregate)
    if not is_merged(plan):
        return "differential: the groups that a change touches are evaluated again, from their rows"
    kept = "differential, from kept counts: only the groups that a change touches are read"
    return kept + (", and their rows where an extremum goes" if has_extrema(plan) else "")


def _of_first(plan: Plan) -> str:
    if not is_kept_first(plan):
        return "differential: OFFSET is taken again from the first rows, which are kept"
    return "differential, from the first rows, which are kept; the input is read again if one of them goes"


_OF_RULES: Final = (
    "differential, by maintenance rules: what a change may take away is deleted, what is derived still or anew is put "
    "back; only the neighbourhood of the change is read"
)
_HOW: Final[dict[type[Plan], Callable[[Plan], str]]] = {
    Aggregate: _of_groups,
    Window: lambda _: "differential: the partitions that a change touches are evaluated again, from their rows",
    Sort: _of_first,
    Fixpoint: lambda _: _OF_RULES,
}
