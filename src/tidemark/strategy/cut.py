"""Cutting a view's plan into what is linear and the states below it.

A grouping becomes a *state* node that keeps its counts, and what remains is linear. So do windows and LIMIT, whose
nodes keep their rows. EXCEPT and INTERSECT are linear over a grouping that counts the rows of both sides. Equal
states are one node, whichever views they serve.

A chain of outer joins is a union of ever more joins: each one doubles or triples the terms of what it is joined to. So
an inner part of such a chain that has many terms is kept too, and the joins above it read what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from tidemark.algebra.cache import Once, term_count
from tidemark.algebra.expressions import Column, substitute
from tidemark.algebra.fingerprint import fingerprint
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Filter,
    Fixpoint,
    Intersection,
    Join,
    Plan,
    Project,
    Scan,
    Sort,
    Union,
    Window,
    is_given_name,
    relations_of,
    transform,
    walk,
)
from tidemark.algebra.set_operations import counts_of, from_counts
from tidemark.calculus.distinct import as_aggregate
from tidemark.calculus.extrema import kept_first
from tidemark.calculus.group import split_distinct, state_of, visible
from tidemark.passes import prepare
from tidemark.strategy.nodes import NodeKind

MOST_TERMS: Final = 6
"""From how many terms on a union that is joined with something is kept."""
ALONE, WHOLE, OVER_GROUPINGS = "alone", "whole", "over groupings"
"""The ways of cutting a definition."""


@dataclass
class States:
    """The plans of all nodes that were cut so far, what kind each is, and which views it serves."""

    plans: dict[str, Plan] = field(default_factory=dict)
    kinds: dict[str, NodeKind] = field(default_factory=dict)
    users: dict[str, list[str]] = field(default_factory=dict)

    def cut(self, plan: Plan, view: str) -> Plan:
        """The plan with each operator that is not linear replaced by a scan of the state that serves it."""
        cut = _Cut(self, view, _to_keep(plan))
        if isinstance(plan, Fixpoint) and len(plan.members) == 1:
            return cut.over_states(plan)  # the view is what is kept of the recursion
        return cut.plan(plan)

    def over_groupings(self, plan: Plan, view: str) -> Plan:
        """The plan with each of its groupings replaced by a scan of the state that serves it, and the rest left as it
        is: what recurs, and groupings of what happens in a block, which there is nothing of before."""
        cut = _Cut(self, view, frozenset())

        def replaced(part: Plan) -> Plan | None:
            if isinstance(part, Fixpoint):
                return part
            is_kept = isinstance(part, Aggregate) and not any(map(is_given_name, relations_of(part)))
            return cut.plan(part) if is_kept else None

        return transform(plan, replaced)


@dataclass(frozen=True)
class Pieces:
    """A definition and what it is cut into, without a look at others: its linear plan, and its states by name."""

    definition: Plan
    prepared: Plan
    plan: Plan
    states: Mapping[str, Plan]
    way: str = ALONE


def cut_alone(definition: Plan, view: str) -> Pieces:
    states, prepared = States(), prepare(definition)
    plan = states.cut(prepared, view)
    return Pieces(definition, prepared, plan, states.plans)


def whole(definition: Plan, view: str) -> Pieces:
    """The definition in one piece, without states: of an external node nothing is stored."""
    prepared = prepare(definition)
    return Pieces(definition, prepared, prepared, {}, WHOLE)


def over_groupings(definition: Plan, view: str) -> Pieces:
    """The definition over its groupings, which are kept as those of views are. Nothing else of it is stored."""
    states, prepared = States(), prepare(definition)
    plan = states.over_groupings(prepared, view)
    return Pieces(definition, prepared, plan, states.plans, OVER_GROUPINGS)


def cut_anew(pieces: Pieces, view: str, others: Mapping[str, Plan]) -> Pieces:
    """The same over states that ``others`` have, under their names and with their names of columns."""
    states = States(dict(others))
    cut = states.over_groupings if pieces.way == OVER_GROUPINGS else states.cut
    plan = cut(pieces.prepared, view)
    used = {name: state for name, state in states.plans.items() if name in states.users}
    return replace(pieces, plan=plan, states=used)


@dataclass(frozen=True)
class _Cut:
    states: States
    view: str
    kept: frozenset[Plan]

    def plan(self, plan: Plan) -> Plan:
        return self._of(plan)

    @cached_property
    def _of(self) -> Once[Plan]:
        return Once(lambda plan, _: self._cut(plan))

    def _cut(self, plan: Plan) -> Plan:
        if isinstance(plan, Difference | Intersection):
            return from_counts(plan, self.plan(counts_of(plan)))
        if isinstance(plan, Aggregate):
            split = split_distinct(plan)
            if split is not None:
                return self.plan(split)
        rebuilt = self.over_states(plan)
        match rebuilt:
            case Fixpoint(members=members):
                for name, _ in members:
                    self._state(rebuilt.of(name))
                return self._shown(self._state(rebuilt), rebuilt)
            case Sort():
                return self._first(rebuilt)
            case Window():
                return self._shown(self._state(_canonical(rebuilt)), rebuilt)
            case Distinct() | Aggregate():
                return self._grouping(rebuilt)
            case Union() if plan in self.kept:
                names = tuple(f"c{i}" for i in range(len(rebuilt.schema)))
                return self._shown(self._state(Project(rebuilt, names, rebuilt.columns())), rebuilt)
        return rebuilt

    def over_states(self, plan: Plan) -> Plan:
        """The plan over inputs that are cut."""
        inputs = tuple([self.plan(child) for child in plan.inputs()])
        return _merged(plan.with_inputs(inputs)) if inputs else plan

    def _grouping(self, plan: Distinct | Aggregate) -> Plan:
        grouping = as_aggregate(plan) if isinstance(plan, Distinct) else plan
        state = state_of(grouping)
        shown = visible(grouping, state, self._state(state))
        if isinstance(plan, Distinct):
            return replace(shown, names=plan.schema.names, expressions=shown.expressions[: len(plan.schema)])
        return shown

    def _first(self, plan: Sort) -> Plan:
        """LIMIT: the rows up to its end are kept, and what OFFSET leaves of them is taken from there."""
        kept = kept_first(plan)
        stored: Plan = _canonical(plan).inputs()[0]
        if kept is not None:
            stored = self._state(_canonical(kept))
        if kept is None or plan.offset:
            stored = self._state(_canonical(plan.with_inputs((stored,))))
        return self._shown(stored, plan)

    def _shown(self, stored: Plan, plan: Plan) -> Project:
        """What is stored, under the names of the plan that it stands for."""
        return Project(stored, plan.schema.names, stored.columns()[: len(plan.schema)])

    def _state(self, state: Plan) -> Scan:
        """A scan of the node that keeps a state."""
        name = state_name(state)
        plan = self.states.plans.setdefault(name, state)
        self.states.kinds[name] = NodeKind.STATE
        users = self.states.users.setdefault(name, [])
        if self.view not in users:
            users.append(self.view)
        return Scan(name, plan.schema)


def state_name(state: Plan) -> str:
    """The name of the node that keeps a state."""
    return f"_state_{fingerprint(state)}"


def _to_keep(plan: Plan) -> frozenset[Plan]:
    """The unions of many terms that are joined with something."""
    sides = (side for part in walk(plan) if isinstance(part, Join) for side in (part.left, part.right))
    unions = (_bare(side) for side in sides)
    return frozenset(union for union in unions if isinstance(union, Union) and term_count(union) > MOST_TERMS)


def _bare(plan: Plan) -> Plan:
    return _bare(plan.input) if isinstance(plan, Project | Filter) else plan


def _canonical(plan: Plan) -> Plan:
    """The same rows under names of their own, since the user's may stand twice."""
    (source,) = plan.inputs()
    named = Project(source, tuple(f"c{i}" for i in range(len(source.schema))), source.columns())
    if isinstance(plan, Window):
        return replace(plan, input=named, names=tuple(f"w{i}" for i in range(len(plan.calls))))
    return plan.with_inputs((named,))


def _merged(plan: Plan) -> Plan:
    """A projection of a projection of columns as one projection."""
    if not isinstance(plan, Project) or not isinstance(plan.input, Project):
        return plan
    inner = plan.input
    if not all(isinstance(expression, Column) for expression in inner.expressions):
        return plan
    return Project(inner.input, plan.names, tuple(substitute(e, inner.expressions) for e in plan.expressions))
