"""Plans as rules: what a recursive query of SQL says, clause by clause.

A plan of selections, projections, inner joins and unions over leaves is a set of rules, one for each way through its
unions. A leaf is the recursive relation itself, or any part that does not read it, which becomes a source. Columns that
are compared by ``=`` become one variable, so that rows are found by look-ups; a condition on one source alone stays
with that source. Since the result is a set, DISTINCT inside changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

from tidemark.algebra.clauses import Argument, Assign, Atom, Condition, Const, DatalogRule, Part, Var, is_present
from tidemark.algebra.coerce import coerce, common_of
from tidemark.algebra.expressions import (
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    columns_of,
    conjunction,
    conjuncts,
    shift,
    substitute,
)
from tidemark.algebra.plans import Distinct, Filter, Join, Plan, Project, Scan, Union, relations_of
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import Field, Schema


class NotARule(Exception):
    """A plan reads the recursive relation in a way that no rule can say."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(type(plan).__name__)
        self.plan = plan


@dataclass
class Sources:
    """The parts that rules read, under names; equal parts are one source."""

    prefix: str
    names: dict[Plan, str] = field(default_factory=dict)

    def name_of(self, plan: Plan) -> str:
        if plan not in self.names:
            own = _shown(plan) or self.prefix
            is_free = own != self.prefix and own not in self.names.values()
            self.names[plan] = own if is_free else f"{own}^{len(self.names) + 1}"
        return self.names[plan]


def _shown(plan: Plan) -> str | None:
    """The relation of which a plan shows some rows and columns, and nothing else."""
    while isinstance(plan, Project | Filter):
        plan = plan.input
    return plan.relation if isinstance(plan, Scan) else None


@dataclass(frozen=True)
class _Leaf:
    plan: Plan
    first: int
    """The variable of its first column; the others follow."""

    @property
    def variables(self) -> range:
        return range(self.first, self.first + len(self.plan.schema))


@dataclass(frozen=True)
class _Body:
    """Leaves side by side: ``variables`` has the columns of all, conditions and outputs are over them."""

    leaves: tuple[_Leaf, ...]
    variables: tuple[Field, ...]
    conditions: tuple[Expression, ...]
    outputs: tuple[Expression, ...]


def rules_from(plan: Plan, member: str, columns: Schema, sources: Sources, label: str) -> list[DatalogRule]:
    """The rules that derive the rows of a plan, which scans ``member`` for its own rows so far."""
    bodies = list(_bodies(plan, member))
    labels = [label] if len(bodies) == 1 else [f"{label}.{number}" for number, _ in enumerate(bodies, 1)]
    return [_rule(body, member, columns, sources, own) for body, own in zip(bodies, labels, strict=True)]


def _bodies(plan: Plan, member: str) -> Iterator[_Body]:
    if member not in relations_of(plan) or isinstance(plan, Scan):
        fields = plan.schema.fields
        yield _Body((_Leaf(plan, 0),), fields, (), plan.columns())
        return
    match plan:
        case Filter(input=source, predicate=predicate):
            for body in _bodies(source, member):
                yield _asking(body, predicate)
        case Project(input=source, expressions=expressions):
            for body in _bodies(source, member):
                yield replace(body, outputs=tuple(substitute(cell, body.outputs) for cell in expressions))
        case Join(left=left, right=right, predicate=predicate):
            for one, other in product(list(_bodies(left, member)), list(_bodies(right, member))):
                yield _asking(_beside(one, other), predicate)
        case Union(parts=parts):
            for part in parts:
                yield from _bodies(part, member)
        case Distinct(input=source):
            yield from _bodies(source, member)
        case _:
            raise NotARule(plan)


def _asking(body: _Body, predicate: Expression) -> _Body:
    added = (substitute(part, body.outputs) for part in conjuncts(predicate))
    kept = (part for part in added if not (isinstance(part, Literal) and part.value is True))
    return replace(body, conditions=(*body.conditions, *kept))


def _beside(left: _Body, right: _Body) -> _Body:
    width = len(left.variables)
    moved = tuple(Column(width + i, f.name, f.type, f.nullable) for i, f in enumerate(right.variables))
    return _Body(
        left.leaves + tuple(replace(leaf, first=leaf.first + width) for leaf in right.leaves),
        left.variables + right.variables,
        left.conditions + tuple(substitute(part, moved) for part in right.conditions),
        left.outputs + tuple(substitute(cell, moved) for cell in right.outputs),
    )


def _rule(body: _Body, member: str, columns: Schema, sources: Sources, label: str) -> DatalogRule:
    body = _with_own_conditions(body, member)
    merging = _Merging(body.variables)
    conditions = [part for part in body.conditions if not merging.takes(part)]
    fields, places = merging.renumbered()
    variables = [Column(i, f.name, f.type, f.nullable) for i, f in enumerate(fields)]
    # What was an integer of another type is brought back to it, so that expressions mean what they meant.
    cells = tuple(coerce(variables[place], f.type) for place, f in zip(places, body.variables, strict=True))
    parts: list[Part] = []
    for leaf in body.leaves:
        name = member if _is_member(leaf.plan, member) else sources.name_of(leaf.plan)
        parts.append(Atom(name, tuple(_argument(variables[places[index]]) for index in leaf.variables)))
    present = sorted({places[index] for index in merging.joined})
    parts += [is_present(Schema(tuple(fields)), index) for index in present]
    parts += [Condition(substitute(part, cells)) for part in conditions]
    arguments: list[Argument] = []
    for cell, column in zip(body.outputs, columns, strict=True):
        value = coerce(substitute(cell, cells), column.type)
        if not isinstance(value, Column | Literal):
            fields.append(Field(f"?h{len(fields) + 1}", column.type, value.nullable))
            variable = Column(len(fields) - 1, fields[-1].name, column.type, value.nullable)
            parts.append(Assign(Var(variable.index, variable.name), value))
            value = variable
        arguments.append(_argument(value))
    return DatalogRule(Atom(member, tuple(arguments)), tuple(parts), Schema(tuple(fields)), label)


def _argument(cell: Expression) -> Argument:
    if isinstance(cell, Literal):
        return Const(cell)
    assert isinstance(cell, Column)
    return Var(cell.index, cell.name)


def _with_own_conditions(body: _Body, member: str) -> _Body:
    """The body with each condition that reads one source alone, and cannot fail, as a filter of that source."""
    leaves, conditions = list(body.leaves), list[Expression]()
    for part in body.conditions:
        read = columns_of(part)
        place = next((i for i, leaf in enumerate(leaves) if read and read <= set(leaf.variables)), None)
        if place is None or can_fail(part) or _is_member(leaves[place].plan, member):
            conditions.append(part)
        else:
            leaf = leaves[place]
            leaves[place] = replace(leaf, plan=_filtered(leaf.plan, shift(part, -leaf.first)))
    return replace(body, leaves=tuple(leaves), conditions=tuple(conditions))


def _filtered(plan: Plan, condition: Expression) -> Plan:
    if isinstance(plan, Filter):
        return Filter(plan.input, conjunction((plan.predicate, condition)))
    return Filter(plan, condition)


def _is_member(plan: Plan, member: str) -> bool:
    return isinstance(plan, Scan) and plan.relation == member


class _Merging:
    """Variables that must be equal become one."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = list(fields)
        self.joined: set[int] = set()
        self._leader: dict[int, int] = {}

    def takes(self, condition: Expression) -> bool:
        """Whether the condition is an equality of two variables, which it is then no longer needed for."""
        match condition:
            case Call(function="eq", arguments=(left, right)):
                one, other = _variable(left), _variable(right)
                return one is not None and other is not None and self._merge(one, other)
        return False

    def _merge(self, left: int, right: int) -> bool:
        first, second = sorted((self._of(left), self._of(right)))
        mine, others = self.fields[first], self.fields[second]
        shared = common_of([mine.type, others.type])
        same = mine.type == others.type and not mine.type.is_float
        if shared is None or not (same or (mine.type.is_integer and others.type.is_integer)):
            return False
        if first != second:
            self._leader[second] = first
        self.joined |= {left, right}
        self.fields[first] = Field(mine.name, shared, mine.nullable and others.nullable)
        return True

    def _of(self, index: int) -> int:
        while index in self._leader:
            index = self._leader[index]
        return index

    def renumbered(self) -> tuple[list[Field], list[int]]:
        """The variables that are left, with names of their own; and which of them each variable is."""
        order = sorted({self._of(index) for index in range(len(self.fields))})
        fields: list[Field] = []
        for index in order:
            own = self.fields[index]
            taken = own.name in {f.name for f in fields}
            fields.append(Field(f"{own.name}{len(fields) + 1}" if taken else own.name, own.type, own.nullable))
        return fields, [order.index(self._of(index)) for index in range(len(self.fields))]


def _variable(expression: Expression) -> int | None:
    """A variable, perhaps an integer that is widened to be compared."""
    match expression:
        case Column(index=index):
            return index
        case Cast(argument=Column(index=index) as column, type=target) if column.type.is_integer and target.is_integer:
            return index
    return None
