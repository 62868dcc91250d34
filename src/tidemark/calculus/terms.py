"""Distribution: a linear plan as a union of terms, each a join of leaves.

    (R ⊎ S) ⋈ T = (R ⋈ T) ⊎ (S ⋈ T),    σ(R ⊎ S) = σR ⊎ σS,    π(R ⊎ S) = πR ⊎ πS,    −(R ⊎ S) = −R ⊎ −S
    (R ⊎ S) ⋉ K = (R ⋉ K) ⊎ (S ⋉ K)

Engines join a small delta with one large stored relation well, and with a union of that relation and its own small
delta badly. So unions are moved above joins, as long as the number of terms stays small: of n copies of a relation each
would double it. Beyond that the n terms of the telescoped form stay as they are, each from the delta, and read what is
stored beside its delta where it stands.
"""

from __future__ import annotations

from itertools import product
from operator import is_
from typing import Final

from tidemark.algebra.cache import PerPlan, is_tangled
from tidemark.algebra.plans import (
    Aggregate,
    Filter,
    Given,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Stored,
    Touched,
    Union,
    Unnest,
    empty,
    is_empty,
    leaves,
    union,
)
from tidemark.algebra.scalar import node_can_fail

MOST_TERMS = 24


def distribute(plan: Plan) -> Plan:
    """The same relation with unions above selections, projections and joins; empty terms are gone.

    A plan whose parts stand in many places keeps its unions where they are: its terms would be too many.
    """
    return with_net(plan) if is_tangled(plan) else _Distributing().of(plan)


def with_net(plan: Plan) -> Plan:
    """The same relation with its unions where they are, and net where entries that cancel would harm: below an
    expression that can fail on them, and below many joins, each of which would double them."""
    return _Netting().of(plan)


_CAN_FAIL: Final = (Filter, Project, Repeat, Unnest, Aggregate)


class _Distributing:
    """Distributes the parts of one plan, each once, wherever it stands."""

    def __init__(self) -> None:
        self._known: dict[int, Plan] = {}
        self._whole: dict[int, Plan] = {}
        self._terms: dict[int, int] = {}
        self._net: dict[Plan, Plan] = {}

    def of(self, plan: Plan) -> Plan:
        found = self._known.get(id(plan))
        if found is None:
            found = self._known[id(plan)] = self._distributed(plan)
        return found

    def _distributed(self, plan: Plan) -> Plan:
        match plan:
            case Filter() | Project() | Repeat() | Unnest() | Aggregate() if node_can_fail(plan):
                source = self.of(plan.inputs()[0])
                if is_empty(source) and not isinstance(plan, Aggregate):
                    return empty(plan.schema)
                # Entries that cancel must not reach an expression that can fail on them.
                return plan.with_inputs((Net(source) if _has_union(source) else source,))
            case Filter() | Project() | Repeat() | Unnest() | Negate():
                return _over_parts(plan, self.of(plan.inputs()[0]))
            case Touched(input=restricted, touched=touched):
                return _over_parts(plan, self.of(restricted), self.of(touched))
            case Union(parts=given):
                return union(tuple([self.of(part) for part in given]), plan.schema)
            case Join(left=left, right=right):
                if self._count(plan) > MOST_TERMS:
                    return self.whole(plan)
                sides = self.of(left), self.of(right)
                if any(map(is_empty, sides)):
                    return empty(plan.schema)
                return union(tuple(plan.with_inputs(pair) for pair in product(*map(_parts, sides))), plan.schema)
        return plan.with_inputs(tuple([self.of(child) for child in plan.inputs()])) if plan.inputs() else plan

    def whole(self, plan: Plan) -> Plan:
        """The same with unions left below joins: taken apart, a join of so many of them would have too many terms."""
        found = self._whole.get(id(plan))
        if found is None:
            found = self._whole[id(plan)] = self._as_a_whole(plan)
        return found

    def _as_a_whole(self, plan: Plan) -> Plan:
        match plan:
            case Join(left=left, right=right):
                sides = self.whole(left), self.whole(right)
                return empty(plan.schema) if any(map(is_empty, sides)) else plan.with_inputs(sides)
            case Filter() | Project() | Repeat() | Unnest() | Negate() if not node_can_fail(plan):
                source = self.whole(plan.inputs()[0])
                return empty(plan.schema) if is_empty(source) else plan.with_inputs((source,))
            case Union():
                return self._merged(self.of(plan))
        return self.of(plan)

    def _merged(self, plan: Plan) -> Plan:
        """What is stored and its delta, net: a row that went would else stand there twice, and after n joins 2ⁿ times.
        The same of the same relation is one part, which engines may evaluate once."""
        kinds = {type(leaf) for leaf, _ in leaves(plan)}
        if not isinstance(plan, Union) or not {Stored, Given} <= kinds:
            return plan
        return self._net.setdefault(plan, Net(plan, in_place=True))

    def _count(self, plan: Plan) -> int:
        """How many terms a plan is taken apart into."""
        found = self._terms.get(id(plan))
        if found is None:
            found = self._terms[id(plan)] = self._counted(plan)
        return found

    def _counted(self, plan: Plan) -> int:
        match plan:
            case Filter() | Project() | Repeat() | Unnest() if node_can_fail(plan):
                return 1
            case Filter() | Project() | Repeat() | Unnest() | Negate():
                return self._count(plan.inputs()[0])
            case Touched(input=restricted):
                return self._count(restricted)
            case Union(parts=parts):
                return sum(map(self._count, parts))
            case Join(left=left, right=right):
                terms = self._count(left) * self._count(right)
                return terms if terms <= MOST_TERMS else MOST_TERMS + 1
        return 0 if is_empty(plan) else 1


class _Netting(_Distributing):
    """Leaves unions where they are; of a join with many terms it makes a whole."""

    def _distributed(self, plan: Plan) -> Plan:
        if isinstance(plan, Join) and self._count(plan) > MOST_TERMS:
            return self.whole(plan)
        before = plan.inputs()
        inputs = tuple([self.of(child) for child in before])
        if isinstance(plan, _CAN_FAIL) and node_can_fail(plan) and _has_union(inputs[0]):
            inputs = (Net(inputs[0]),)
        return plan if all(map(is_, inputs, before)) else plan.with_inputs(inputs)


def _parts(plan: Plan) -> tuple[Plan, ...]:
    return plan.parts if isinstance(plan, Union) else (plan,)


def _over_parts(plan: Plan, source: Plan, *others: Plan) -> Plan:
    """A linear operator over each part of its input."""
    each = (empty(plan.schema) if is_empty(p) else plan.with_inputs((p, *others)) for p in _parts(source))
    return union(tuple(each), plan.schema)


_has_union: Final[PerPlan[bool]] = PerPlan(lambda plan: isinstance(plan, Union) or any(map(_has_union, plan.inputs())))
