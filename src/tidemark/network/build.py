"""Building the network from the definitions of the materialized views.

Each view's plan is cut (``strategy.cut``) into a linear plan and the states that serve it. Joins that stand in several
nodes become *shared* nodes. Then every node gets its level, from the lowest up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidemark.algebra.cache import Once, PerPlan
from tidemark.algebra.fingerprint import fingerprint
from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import (
    Aggregate,
    Filter,
    Fixpoint,
    Join,
    Plan,
    Scan,
    Sort,
    Window,
    relations_of,
    walk,
)
from tidemark.strategy.cut import ALONE, OVER_GROUPINGS, WHOLE, Pieces, States, cut_alone, over_groupings, whole
from tidemark.strategy.graph import Joins, Knowledge, Network, Part
from tidemark.strategy.nodes import AUTO, COMPLETE, Node, NodeKind
from tidemark.strategy.recursion.rederive import Rules


@dataclass(frozen=True)
class Definition:
    """What the network needs to know of a materialized view, or of a node whose change alone is wanted: whether the
    groupings in it are kept all the same, and whether it is about an event, so that it has a change in some blocks
    only, and is no node."""

    name: str
    plan: Plan
    strategy: str = AUTO
    kind: NodeKind = NodeKind.VIEW
    rules: Rules | None = field(default=None, compare=False, repr=False)
    is_forbidden: bool = False
    is_asked: bool = False
    keeps_groupings: bool = False
    is_event: bool = False


def build(definitions: Iterable[Definition], before: Network | None = None) -> Network:
    """The network of the given views, which come in an order in which each reads only earlier ones.

    What is known of views that were in the network ``before`` is taken over, so that one more costs little.
    """
    before = before or Network()
    states, pieces = States(), dict[str, Pieces]()
    plans, kinds, users = states.plans, states.kinds, states.users
    reading: dict[str, Plan] = {}
    strategies: dict[str, str] = {}
    rules: dict[str, Rules] = {}
    forbidden: set[str] = set()
    asked: set[str] = set()
    for definition in definitions:
        name = definition.name
        if definition.is_forbidden:
            forbidden.add(name)
        if definition.is_asked:
            asked.add(name)
        strategies[name] = definition.strategy
        if definition.strategy == COMPLETE:
            plan = definition.plan
        else:
            pieces[name] = _pieces(definition, before.known.pieces.get(name))
            plan = states.add(pieces[name], name)
            reading[name] = plan
            if definition.is_event:
                continue
        plans[name] = plan
        kinds[name] = definition.kind
        if definition.rules is not None:
            rules[name] = definition.rules
        users.setdefault(name, []).append(name)
    incremental = {name: plan for name, plan in plans.items() if strategies.get(name) != COMPLETE}
    joins = {name: _joins_of(name, plan, kinds[name], before.known.joins) for name, plan in incremental.items()}
    holders = _holders(joins)
    shared = _shared_subplans(holders)
    nodes: dict[str, Node] = {}
    for plan, name in shared.items():
        views = tuple(view for holder in holders[Part(plan)] for view in users[holder])
        nodes[name] = Node(name, NodeKind.SHARED, plan, 0, relations_of(plan), views=views)
    is_shared_alike = before.shared == frozenset(nodes)
    for name, plan in plans.items():
        old, strategy = before.nodes.get(name), strategies.get(name, AUTO)
        if is_shared_alike and old is not None and old.plan is plan and old.strategy == strategy:
            influents, used = old.influents, old.shared
        else:
            used = tuple(_used(plan, kinds[name], shared).items()) if name in incremental else ()
            influents = _influents(plan, dict(used))
        views = tuple(users[name])
        said = (name in forbidden, name in asked)
        of_node = (kinds[name], influents, strategy, views, used, rules.get(name), *said)
        nodes[name] = old if old is not None and _is_alike(old, plan, of_node) else _node(name, plan, of_node)
    return Network(_levelled(nodes, before.nodes), Knowledge(pieces, joins, reading))


def _pieces(definition: Definition, known: Pieces | None) -> Pieces:
    """What a definition is cut into, taken over if it was cut so before."""
    if definition.kind is not NodeKind.EXTERNAL:
        way, cut = ALONE, cut_alone
    else:
        way, cut = (OVER_GROUPINGS, over_groupings) if definition.keeps_groupings else (WHOLE, whole)
    is_known = known is not None and known.definition is definition.plan and known.way == way
    return known if known is not None and is_known else cut(definition.plan, definition.name)


_OfNode = tuple[NodeKind, frozenset[str], str, tuple[str, ...], tuple[tuple[Plan, str], ...], Rules | None, bool, bool]


def _is_alike(old: Node, plan: Plan, of_node: _OfNode) -> bool:
    """Whether a node that was in the network before says just this; what is the same object need not be compared."""
    return old.plan is plan and old.before is None and _said(old) == of_node


def _said(node: Node) -> _OfNode:
    said = (node.is_forbidden, node.is_asked)
    return (node.kind, node.influents, node.strategy, node.views, node.shared, node.rules, *said)


def _node(name: str, plan: Plan, of_node: _OfNode) -> Node:
    kind, influents, strategy, views, shared, rules, is_forbidden, is_asked = of_node
    said = Node(name, kind, plan, 0, influents, strategy, views, shared, rules)
    return replace(said, is_forbidden=is_forbidden, is_asked=is_asked) if is_forbidden or is_asked else said


def _joins_of(name: str, plan: Plan, kind: NodeKind, known: Mapping[str, Joins]) -> Joins:
    """The parts of a node's plan that could be shared with others: those with a join."""
    old = known.get(name)
    if old is not None and old.plan is plan:
        return old
    # What a recursion reads has to be looked up, and of shared parts there is nothing but their change.
    below = () if _recurs(plan) else walk(_linear(plan, kind))
    parts = {part for part in below if _has_join(part) and not _is_timed(part)}
    return Joins(plan, tuple(map(Part, parts)))


def _holders(joins: Mapping[str, Joins]) -> dict[Part, list[str]]:
    """In which nodes each part stands."""
    found: dict[Part, list[str]] = {}
    for name, of_node in joins.items():
        for part in of_node.parts:
            found.setdefault(part, []).append(name)
    return found


def _shared_subplans(holders: Mapping[Part, list[str]]) -> dict[Plan, str]:
    """The largest subplans with a join that stand in more than one node, or also outside the larger ones."""
    counts = {part.plan: len(names) for part, names in holders.items() if len(names) > 1}
    within: dict[Plan, int] = {}
    for plan, count in counts.items():
        for child in plan.inputs():
            for part in walk(child):
                if part in counts:
                    within[part] = max(within.get(part, 0), count)
    largest = [plan for plan, count in counts.items() if count > within.get(plan, 0)]
    return {plan: f"_shared_{fingerprint(plan)}" for plan in sorted(largest, key=fingerprint)}


def _linear(plan: Plan, kind: NodeKind) -> Plan:
    is_operator = kind is not NodeKind.EXTERNAL and isinstance(plan, Aggregate | Window | Sort)
    return plan.inputs()[0] if is_operator else plan


def _recurs(plan: Plan) -> bool:
    return any(isinstance(part, Fixpoint) for part in walk(plan))


_has_join: Final[PerPlan[bool]] = PerPlan(
    lambda plan: isinstance(plan, Join) or any(_has_join(child) for child in plan.inputs())
)


def _is_timed(plan: Plan) -> bool:
    """Whether a plan is a relation beside the clock, perhaps filtered. All its rows change when the clock steps, though
    few of them do once the time is left out, as it is in the projection above, which can be shared."""
    if isinstance(plan, Filter):
        return _is_timed(plan.input)
    return isinstance(plan, Join) and isinstance(plan.right, Scan) and plan.right.relation == CLOCK


def _used(plan: Plan, kind: NodeKind, shared: Mapping[Plan, str]) -> dict[Plan, str]:
    """The shared subplans that stand outermost in the plan."""
    found: dict[Plan, str] = {}

    def visit(part: Plan, of: Callable[[Plan], None]) -> None:
        if part in shared:
            found[part] = shared[part]
            return
        for child in part.inputs():
            of(child)

    if not _recurs(plan):
        Once(visit)(_linear(plan, kind))
    return found


def _influents(plan: Plan, used: Mapping[Plan, str]) -> frozenset[str]:
    def of_part(part: Plan, of: Callable[[Plan], frozenset[str]]) -> frozenset[str]:
        if part in used:
            return frozenset({used[part]})
        if isinstance(part, Scan):
            return frozenset({part.relation})
        return frozenset[str]().union(*[of(child) for child in part.inputs()])

    return Once(of_part)(plan)


def _levelled(nodes: dict[str, Node], before: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes with their levels, sorted from the lowest up: one more than the highest influent's.

    A node that is what it was before is the same object, so that what is known of it can be told to hold still.
    """
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in nodes:
            return 0
        if name not in levels:
            levels[name] = 1 + max((level(influent) for influent in nodes[name].influents), default=0)
        return levels[name]

    order = sorted(nodes, key=level)
    return {name: _placed(nodes[name], levels[name], before.get(name)) for name in order}


def _placed(node: Node, level: int, old: Node | None) -> Node:
    return node if node is old and node.level == level else _as_before(replace(node, level=level), old)


def _as_before(node: Node, old: Node | None) -> Node:
    # Plans that are equal may have other names of columns, so the plan has to be the same one.
    return old if old is not None and old.plan is node.plan and old == node else node
