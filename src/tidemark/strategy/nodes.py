"""The nodes of the network, and the plans that bring each one up to date.

The words for strategies: what a view is declared with, and what a step of the ladder is called.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from tidemark.algebra.expressions import Expression, size_of
from tidemark.algebra.plans import (
    Aggregate,
    Fixpoint,
    Given,
    Negate,
    Plan,
    Scan,
    Sort,
    State,
    Touched,
    Window,
    relations_of,
    transform,
    union,
    walk,
)
from tidemark.algebra.schemas import expression_from_json, expression_to_json
from tidemark.algebra.types import Schema
from tidemark.calculus import extrema
from tidemark.calculus import extrema as first
from tidemark.calculus import touched as fresh
from tidemark.calculus.as_of import Block, new, old, resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.clock import with_steps
from tidemark.calculus.extrema import is_kept_first
from tidemark.calculus.group import is_merged, merged_delta, partial_sums, touched_before, with_column_keys
from tidemark.calculus.terms import distribute, with_net
from tidemark.passes import optimize
from tidemark.strategy.parts import Tree, parts_of, recurs, shared_name
from tidemark.strategy.recursion.rederive import Rules

AUTO: Final = "auto"
INCREMENTAL: Final = "incremental"
COMPLETE: Final = "complete"
REPLACED: Final = "replaced"
"""The strategy, for one transaction, of a view whose definition is another one than what is stored was derived by."""
WHOLE: Final = (COMPLETE, REPLACED)
"""The strategies by which a node is evaluated as a whole."""

UNTOUCHED: Final = "untouched"
IRRELEVANT: Final = "irrelevant"
AUTONOMOUS: Final = "autonomous"
DIFFERENTIAL: Final = "differential"


class NodeKind(enum.Enum):
    """A *view* is stored and seen by users; a *state* keeps what is needed to bring a view up to date: the counts of a
    grouping, the rows of a window or of a LIMIT; a *shared* subplan is not stored: only its change is derived, once,
    for all that need it; an *external* node is not stored either, nor cut: its net change is derived from its whole
    plan, with what a change touches evaluated old against new, for those who want the change alone."""

    VIEW = "view"
    STATE = "state"
    SHARED = "shared"
    EXTERNAL = "external"


class Origin(Protocol):
    """What the plan of a node is made from when somebody asks for it."""

    def plan_of(self, node: str) -> Plan: ...


MOST_STORED: Final = 200
"""Filters of more parts are not stored, but proved again."""


class StoredFilter:
    """Which rows of a relation can matter to a node, as it is stored; read when it is asked for."""

    __slots__ = ("stored",)

    def __init__(self, stored: str | None) -> None:
        self.stored = stored

    @staticmethod
    def of(condition: Expression | None) -> StoredFilter | None:
        """How a filter is stored; None if it is too large for that."""
        if condition is None:
            return StoredFilter(None)
        if size_of(condition) > MOST_STORED:
            return None
        return StoredFilter(json.dumps(expression_to_json(condition), separators=(",", ":")))

    @property
    def condition(self) -> Expression | None:
        return None if self.stored is None else expression_from_json(json.loads(self.stored))


@dataclass(frozen=True)
class Drawn:
    """What a network knows of a node without its plan: where that comes from, its ``tree``, the parts that it
    ``shares``, the digest of the ``columns`` of a state, and the ``filters`` that were proved when it was defined."""

    origin: Origin
    tree: Tree
    shares: tuple[str, ...] = ()
    columns: str = ""
    filters: dict[str, StoredFilter] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Node:
    """A derived relation of the network. Its plan reads tables and nodes of lower levels.

    ``influents`` are the relations whose change can change this node; ``shared`` names the subplans of its plan that
    are nodes of their own; ``views`` are the views that it serves; ``rules`` are those of a recursive view that is not
    stored; ``before`` is what such a view meant, if it means something else from this block on; ``is_forbidden`` says
    that it has no rows before any block, as the violations of an assertion; ``is_asked`` that its change is derived
    only when somebody asks, as of the condition of a rule.
    """

    name: str
    kind: NodeKind
    plan: Plan
    level: int
    influents: frozenset[str]
    strategy: str = AUTO
    views: tuple[str, ...] = ()
    shared: tuple[tuple[Plan, str], ...] = field(default_factory=tuple)
    rules: Rules | None = field(default=None, compare=False, repr=False)
    before: Plan | None = None
    is_forbidden: bool = False
    is_asked: bool = False
    drawn: Drawn | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def later(name: str, kind: NodeKind, drawn: Drawn, strategy: str = AUTO, rules: Rules | None = None) -> Node:
        """A node of a network that is being built, whose plan is made when somebody asks for it."""
        node = object.__new__(Node)
        said = {"name": name, "kind": kind, "level": 0, "influents": drawn.tree.relations, "strategy": strategy}
        more = {"views": (), "rules": rules, "before": None, "is_forbidden": False, "is_asked": False}
        node.__dict__.update(said, **more, drawn=drawn)
        return node

    def redrawn(self, **changes: object) -> Node:
        """The node with some of what the network says of it; its plan is not asked for."""
        node = object.__new__(Node)
        node.__dict__.update(self.__dict__, **changes)
        if "drawn" in changes:
            node.__dict__.pop("shared", None)
        return node

    def __getattr__(self, name: str) -> Any:
        drawn = self.__dict__.get("drawn")
        if drawn is None or name not in ("plan", "shared"):
            raise AttributeError(name)
        made = drawn.origin.plan_of(self.name) if name == "plan" else self._shared_parts(drawn)
        return self.__dict__.setdefault(name, made)

    def _shared_parts(self, drawn: Drawn) -> tuple[tuple[Plan, str], ...]:
        if not drawn.shares:
            return ()
        parts = parts_of(self.plan, is_stored=self.is_stored)
        return tuple((parts[digest], shared_name(digest)) for digest in drawn.shares)

    @property
    def known(self) -> Drawn:
        """What the network that it was built for knows of it."""
        assert self.drawn is not None, f"the node {self.name!r} was not built for a network"
        return self.drawn

    def is_drawn_as(self, other: Node) -> bool:
        """Whether it says the same and has its plan from the same definition; plans are not asked for."""
        return self.before is None and self.drawn == other.drawn and self._said == other._said

    @property
    def _said(self) -> tuple[object, ...]:
        said = (self.kind, self.level, self.influents, self.strategy, self.views, self.rules)
        return (*said, self.is_forbidden, self.is_asked)

    @property
    def schema(self) -> Schema:
        return self.plan.schema

    @property
    def relations(self) -> frozenset[str]:
        """The relations that its plan reads."""
        return relations_of(self.plan) if self.drawn is None else self.drawn.tree.relations

    @property
    def recurs(self) -> bool:
        """Whether there is a recursion in its plan."""
        return recurs(self.plan) if self.drawn is None else self.drawn.tree.recurs

    @property
    def label(self) -> str:
        """The node's name for people: a view's own name, or what it is for which view, and the start of its digest."""
        if self.kind in (NodeKind.VIEW, NodeKind.EXTERNAL):
            return self.name.removeprefix("_")
        what = "shared" if self.kind is NodeKind.SHARED else _KEPT.get(type(self.plan), "kept")
        return f"{self.views[0].removeprefix('_')}/{what}-{self.name.rpartition('_')[2][:4]}"

    @property
    def is_stored(self) -> bool:
        return self.kind not in (NodeKind.SHARED, NodeKind.EXTERNAL)

    @property
    def input(self) -> Plan:
        """The linear plan whose change is derived: below the operator for a state, else the plan itself."""
        return self.plan.inputs()[0] if self.is_operator else self.plan

    @property
    def is_operator(self) -> bool:
        """Whether its plan is one operator that is not linear, over an input that is."""
        return self.is_stored and isinstance(self.plan, Aggregate | Window | Sort)

    @property
    def keys(self) -> tuple[int, ...]:
        """The columns by which a state is looked up: of a grouping its keys, of a window its partition."""
        return fresh.keys_of_output(self.plan)

    @property
    def reads_everything(self) -> bool:
        """Whether each change makes it read its whole input: the operator has no keys to restrict it by."""
        if self.strategy == COMPLETE:
            return True
        if not self.is_stored:
            return any(_has_no_keys(part) for part in walk(self.plan))
        evaluated_again = not isinstance(self.plan, Aggregate) or not is_merged(self.plan)
        if isinstance(self.plan, Sort):
            return self.plan.limit is None  # with a limit its input, or it itself, is the few rows that are kept
        return isinstance(self.plan, Aggregate | Window) and evaluated_again and not self.keys


def _has_no_keys(plan: Plan) -> bool:
    """Whether an operator that is not linear has no keys to restrict its input by."""
    match plan:
        case Aggregate(keys=keys):
            return not keys
        case Window(partition=partition):
            return not partition
    return isinstance(plan, Sort)


_KEPT = {Aggregate: "counts", Window: "window", Sort: "first", Fixpoint: "recursion"}


@dataclass(frozen=True)
class Stage:
    """One plan to evaluate; its result is given to the next stage under ``result``, or is the node's delta.

    With ``when`` it is evaluated only if that earlier result has rows, with ``unless`` only if it has none; otherwise
    it gives no rows.
    """

    plan: Plan
    result: str | None = None
    when: str | None = None
    unless: str | None = None


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
    delta = optimize(with_steps(differentiate(node.input, changed, dict(node.shared))))
    if not node.is_operator:
        return Refresh((Stage(distribute(resolve(delta, block))),), DIFFERENTIAL, "differentials")
    if isinstance(node.plan, Sort) and is_kept_first(node.plan):
        return _first_rows(node, node.plan, delta, block)
    if not isinstance(node.plan, Aggregate) or not is_merged(node.plan):
        return _evaluated_again(node, delta, block)
    if extrema.has_extrema(node.plan):
        return _with_extrema(node, node.plan, delta, block)
    has_columns = bool(node.plan.keys) or any(call.argument is not None for call in node.plan.aggregates)
    stages = _sums(node.plan, delta, block) if has_columns and not bulk else _bulk_sums(node.plan, delta, block)
    return Refresh(stages + _merging(node, node.plan, block), DIFFERENTIAL, "kept counts and differentials")


def merged_stages(node: Node, rows: Plan, block: Block) -> tuple[Stage, ...]:
    """The stages that merge a resolved change of a grouping's keys and arguments into its counts and sums."""
    assert isinstance(node.plan, Aggregate)
    prepared = with_column_keys(node.plan)
    sums = Stage(partial_sums(prepared, Given(_INPUT, prepared.input.schema)), _PARTIAL)
    return (Stage(rows, _INPUT), sums, *_merging(node, node.plan, block))


def _merging(node: Node, grouping: Aggregate, block: Block) -> tuple[Stage, ...]:
    partial = Given(_PARTIAL, node.schema)
    before = touched_before(grouping, Scan(node.name, node.schema, State.OLD), partial)
    merged = merged_delta(grouping, Given(_BEFORE, node.schema), partial)
    return (Stage(resolve(before, block), _BEFORE), Stage(merged))


_INPUT, _PARTIAL, _BEFORE = "input", "partial", "before"
_TOTAL, _TOUCHED, _FRESH = "total", "touched", "fresh"


def _sums(grouping: Aggregate, delta: Plan, block: Block) -> tuple[Stage, ...]:
    rows, prepared = _rows(grouping, delta, block)
    return (rows, Stage(partial_sums(prepared, Given(_INPUT, prepared.input.schema)), _PARTIAL))


def _rows(grouping: Aggregate, delta: Plan, block: Block) -> tuple[Stage, Aggregate]:
    """The change of the grouping's keys and arguments, and the grouping over them."""
    prepared = with_column_keys(replace(grouping, input=delta))
    return Stage(distribute(resolve(optimize(prepared.input), block)), _INPUT), prepared


def _bulk_sums(grouping: Aggregate, delta: Plan, block: Block) -> tuple[Stage, ...]:
    return (Stage(distribute(resolve(partial_sums(grouping, delta), block)), _PARTIAL),)


def _with_extrema(node: Node, grouping: Aggregate, delta: Plan, block: Block) -> Refresh:
    """A grouping with MIN or MAX: groups whose extremum may have gone are evaluated again."""
    rows, prepared = _rows(grouping, delta, block)
    changed = Given(_INPUT, prepared.input.schema)
    sums = extrema.partial_sums(prepared, changed)
    before = touched_before(grouping, Scan(node.name, node.schema, State.OLD), Given(_PARTIAL, sums.schema))
    old, partial = Given(_BEFORE, node.schema), Given(_PARTIAL, sums.schema)
    total = extrema.totals(prepared, old, partial, changed)
    known = Given(_TOTAL, total.schema)
    exposed = extrema.exposed_groups(prepared, known)
    again = fresh.evaluated_again(grouping, Given(_TOUCHED, exposed.schema))
    stages = (
        rows,
        Stage(sums, _PARTIAL),
        Stage(resolve(before, block), _BEFORE),
        Stage(total, _TOTAL),
        Stage(exposed, _TOUCHED),
        Stage(distribute(resolve(optimize(again), block)), _FRESH, when=_TOUCHED),
        Stage(extrema.changed_state(prepared, known, Given(_FRESH, node.schema), old)),
    )
    return Refresh(stages, DIFFERENTIAL, "kept counts and extrema, and differentials")


def _evaluated_again(node: Node, delta: Plan, block: Block) -> Refresh:
    """Groups or partitions that were touched are evaluated again, and compared with what is stored of them."""
    operator, keys = fresh.with_keys(node.plan)
    changed = operator.inputs()[0].with_inputs((delta,)) if isinstance(node.plan, Aggregate) else delta
    rows = Given(_INPUT, changed.schema)
    touched = fresh.touched_keys(rows, keys)
    stored: Plan = Scan(node.name, node.schema, State.OLD)
    before = Touched(stored, Given(_TOUCHED, touched.schema), node.keys) if keys else stored
    again = fresh.evaluated_again(node.plan, Given(_TOUCHED, touched.schema))
    stages = (
        Stage(distribute(resolve(optimize(changed), block)), _INPUT),
        Stage(touched, _TOUCHED, when=_INPUT),
        Stage(resolve(before, block), _BEFORE, when=_TOUCHED),
        Stage(distribute(resolve(optimize(again), block)), _FRESH, when=_TOUCHED),
        Stage(fresh.replaced(Given(_BEFORE, node.schema), Given(_FRESH, node.schema)), when=_TOUCHED),
    )
    what = {Aggregate: "groups", Window: "partitions"}.get(type(node.plan), "rows")
    reason = f"touched {what} evaluated again" if keys else "evaluated again, from all of its input"
    return Refresh(stages, DIFFERENTIAL, reason)


def _first_rows(node: Node, plan: Sort, delta: Plan, block: Block) -> Refresh:
    """The first rows of an order: the input is read again only if one of them went."""
    changed, before = Given(_INPUT, delta.schema), Given(_BEFORE, node.schema)
    lost = first.lost_rows(plan, before, changed)
    kept, again = Given(_TOTAL, node.schema), Given(_FRESH, node.schema)
    stages = (
        Stage(distribute(resolve(delta, block)), _INPUT),
        Stage(resolve(Scan(node.name, node.schema, State.OLD), block), _BEFORE),
        Stage(lost, _TOUCHED),
        Stage(first.merged_first(plan, before, changed), _TOTAL, unless=_TOUCHED),
        Stage(distribute(resolve(optimize(new(plan)), block)), _FRESH, when=_TOUCHED),
        Stage(union((kept, again, Negate(before)), node.schema)),
    )
    return Refresh(stages, DIFFERENTIAL, "kept first rows, read again only if one of them went")


_COMPLETE = {COMPLETE: "declared with strategy = 'complete'", REPLACED: "its definition was replaced"}


def _complete(node: Node, block: Block) -> Refresh:
    stored = Scan(node.name, node.schema, State.OLD) if node.before is None else old(node.before)
    plan = union((new(node.plan), Negate(stored)), node.schema)
    return Refresh((Stage(distribute(resolve(plan, block))),), COMPLETE, _COMPLETE[node.strategy])


def evaluated_anew(node: Node, block: Block) -> Refresh:
    """How a node whose differentials cost too much is evaluated as a whole. Unions stay where they are: changes of many
    relations at once would be as many terms as there are subsets of them."""
    plan = union((new(node.plan), Negate(old(Scan(node.name, node.schema)))), node.schema)
    return Refresh((Stage(with_net(resolve(plan, block))),), COMPLETE, "evaluated anew")


def definition(node: Node, block: Block) -> Plan:
    """The plan of the node's whole content, for filling it at the end of the block."""
    return distribute(resolve(new(node.plan), block))


def expand(plan: Plan, definitions: dict[str, Plan]) -> Plan:
    """The plan with every scan of a defined relation replaced by that definition, down to the tables.

    A definition that is read in several places is expanded once, and stands in each of them as the same plan.
    """
    expanded: dict[str, Plan] = {}

    def replaced(part: Plan) -> Plan | None:
        if not isinstance(part, Scan) or part.relation not in definitions:
            return None
        if part.relation not in expanded:
            expanded[part.relation] = transform(definitions[part.relation], replaced)
        return expanded[part.relation]

    return transform(plan, replaced)
