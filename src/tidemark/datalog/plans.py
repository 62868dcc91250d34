"""Rules as plans of the algebra.

One rule is a join of scans in the order of its body, with its conditions as soon as their variables are there, negation
as an anti join, and the head as a projection. A predicate is the set of what its rules give:

    p = δ (π σ (r ⋈ s ▷ t) ⊎ …)

A join is by ``=``, so NULL never joins; where the rule says so by a condition, the plan need not. Rules that were made
from others compare by identity, NULL the same as NULL, and keep their conditions. A condition that can fail stands
above all joins. A grouping without keys groups by a constant, since without rows it has no group.

A program as plans: one for each predicate that becomes a view, and back from a plan to the rules that it runs.

Strata that do not recur are ordinary plans; a recursive one is a ``Fixpoint`` over the plans below it. What is a view
is scanned by those above it, helpers are expanded where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from tidemark.algebra.aggregates import AggregateCall, AggregateFunction
from tidemark.algebra.clauses import Assign, Atom, Condition, Const, DatalogRule, Grouping, Not, Part, Var
from tidemark.algebra.coerce import coerce, common_of
from tidemark.algebra.expressions import TRUE, Call, Column, Expression, Literal, conjunction, shift, transform
from tidemark.algebra.plans import Aggregate, Distinct, Filter, Fixpoint, Join, Plan, Project, Scan, Union, Values
from tidemark.algebra.plans import transform as transform_plan
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.semijoins import Match
from tidemark.algebra.types import BOOLEAN, Field, Schema
from tidemark.datalog.program import Program
from tidemark.datalog.strata import Stratum

_FUNCTIONS = {
    "count": AggregateFunction.COUNT,
    "sum": AggregateFunction.SUM,
    "min": AggregateFunction.MIN,
    "max": AggregateFunction.MAX,
}
NOTHING = Values(((True,),), Schema((Field("one", BOOLEAN, nullable=False),)))
"""One row, from which the rule of a fact begins."""


def plans_of(program: Program) -> Mapping[str, Plan]:
    """For each predicate the plan over scans of what it reads, predicates of the program included."""
    plans = {name: predicate_plan(program, name) for name in program.predicates if program.rules_of([name])}
    plans.update({g.predicate: grouping_plan(g, program.schemas) for g in program.groupings})
    return plans


def predicate_plan(program: Program, predicate: str) -> Plan:
    parts = tuple(rule_plan(rule, program.schemas) for rule in program.rules_of([predicate]))
    return Distinct(Union(parts) if len(parts) > 1 else parts[0])


def expanded(plan: Plan, plans: Mapping[str, Plan]) -> Plan:
    """The plan with each scan of a predicate in ``plans`` replaced by its plan, down to the others."""
    if isinstance(plan, Scan) and plan.relation in plans:
        return expanded(plans[plan.relation], plans)
    return plan.with_inputs(tuple(expanded(part, plans) for part in plan.inputs()))


def grouping_plan(grouping: Grouping, schemas: Mapping[str, Schema]) -> Plan:
    source = Scan(grouping.source, schemas[grouping.source])
    keys: tuple[Expression, ...] = source.columns()[: grouping.keys] or (TRUE,)
    calls = tuple(
        AggregateCall(AggregateFunction.COUNT_ROWS)
        if call.column is None
        else AggregateCall(_FUNCTIONS[call.function], source.column(call.column))
        for call in grouping.calls
    )
    names = schemas[grouping.predicate].names
    if grouping.keys:
        return Aggregate(source, names, keys, calls)
    grouped = Aggregate(source, ("one", *names), keys, calls)
    return Project(grouped, names, grouped.columns()[1:])


def rule_plan(rule: DatalogRule, schemas: Mapping[str, Schema], *, by_identity: bool = False) -> Plan:
    """The rows that the rule derives, as often as it derives them."""
    build = _Building(rule, schemas, by_identity)
    for atom in rule.atoms:
        build.join(atom)
        build.place_ready(failing=False)
    build.place_ready(failing=False)
    build.place_ready(failing=True)
    columns = schemas[rule.head.predicate]
    cells = [
        coerce(build.of(argument.index) if isinstance(argument, Var) else _literal(argument), column.type)
        for argument, column in zip(rule.head.arguments, columns, strict=True)
    ]
    return Project(build.plan, columns.names, tuple(cells))


@dataclass
class _Building:
    """The plan so far, and for each variable the expression over its columns."""

    rule: DatalogRule
    schemas: Mapping[str, Schema]
    by_identity: bool = False
    plan: Plan = NOTHING
    cells: dict[int, Expression] = field(default_factory=dict)
    joined: set[int] = field(default_factory=set)
    waiting: list[Part] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = [part for part in self.rule.body if not isinstance(part, Atom)]

    def of(self, index: int) -> Expression:
        return coerce(self.cells[index], self.rule.variables[index].type)

    def join(self, atom: Atom) -> None:
        scan = Scan(atom.predicate, self.schemas[atom.predicate])
        first = self.plan is NOTHING
        width = 0 if first else len(self.plan.schema)
        inside: list[Expression] = []
        between: list[Expression] = []
        here: dict[int, Expression] = {}
        for position, argument in enumerate(atom.arguments):
            column = scan.column(position)
            if not isinstance(argument, Var):
                inside.append(_equal(column, _literal(argument)))
            elif argument.index in here:
                inside.append(self._meet(here[argument.index], column))
                self.joined.add(argument.index)
            else:
                here[argument.index] = column
                if argument.index in self.cells:
                    between.append(self._meet(self.cells[argument.index], shift(column, width)))
                    self.joined.add(argument.index)
        right = Filter(scan, conjunction(tuple(inside))) if inside else scan
        self.plan = right if first else Join(self.plan, right, conjunction(tuple(between)))
        for index, cell in here.items():
            self.cells.setdefault(index, shift(cell, width))

    def place_ready(self, *, failing: bool) -> None:
        """Conditions, assignments and negations whose variables are there; those that can fail only if asked."""
        progress = True
        while progress:
            progress = False
            for part in list(self.waiting):
                if self._is_ready(part) and (failing or not _fails(part)):
                    self.waiting.remove(part)
                    self._place(part)
                    progress = True

    def _is_ready(self, part: Part) -> bool:
        if isinstance(part, Not):
            # An anti join is dear: it waits until the joins have been made.
            return len([a for a in self.rule.atoms if not a.variables <= self.cells.keys()]) == 0 and (
                part.variables <= self.cells.keys()
            )
        needed = part.variables - ({part.variable.index} if isinstance(part, Assign) else set())
        return needed <= self.cells.keys()

    def _place(self, part: Part) -> None:
        match part:
            case Condition(expression=Call(function="is_not_null", arguments=(Column(index=index),))) if (
                index in self.joined and not self.by_identity
            ):
                return
            case Condition(expression=expression):
                self.plan = Filter(self.plan, self._over_plan(expression))
            case Assign(variable=variable, expression=expression):
                value = self._over_plan(expression)
                if variable.index in self.cells:
                    self.plan = Filter(self.plan, _same(self.of(variable.index), value))
                else:
                    self.cells[variable.index] = value
            case Not(atom=atom, strict=strict):
                self._without(atom, _equal if strict or not self.by_identity else _same)

    def _over_plan(self, expression: Expression) -> Expression:
        return transform(expression, lambda e: self.of(e.index) if isinstance(e, Column) else None)

    def _meet(self, left: Expression, right: Expression) -> Expression:
        return _same(left, right) if self.by_identity else _equal(left, right)

    def _without(self, atom: Atom, equal: Callable[[Expression, Expression], Expression]) -> None:
        scan = Scan(atom.predicate, self.schemas[atom.predicate])
        width = len(self.plan.schema)
        conditions = []
        for position, argument in enumerate(atom.arguments):
            column = shift(scan.column(position), width)
            if isinstance(argument, Var):
                conditions.append(equal(self.of(argument.index), column))
            elif isinstance(argument, Const):
                conditions.append(equal(_literal(argument), column))
        self.plan = Match.of(self.plan, scan, tuple(conditions)).anti


def _fails(part: Part) -> bool:
    match part:
        case Condition(expression=expression) | Assign(expression=expression):
            return can_fail(expression)
    return False


def _literal(argument: object) -> Literal:
    assert isinstance(argument, Const), "a wildcard stands under negation only"
    return argument.literal


def _equal(left: Expression, right: Expression) -> Expression:
    shared = common_of([left.type, right.type])
    assert shared is not None, "types that meet were checked"
    sides = (coerce(left, shared), coerce(right, shared))
    return Call("eq", sides, BOOLEAN, left.nullable or right.nullable)


def _same(left: Expression, right: Expression) -> Expression:
    if not (left.nullable and right.nullable):
        return _equal(left, right)
    shared = common_of([left.type, right.type])
    assert shared is not None, "types that meet were checked"
    return Call("is_not_distinct", (coerce(left, shared), coerce(right, shared)), BOOLEAN, nullable=False)


@dataclass(frozen=True)
class Bounds:
    """How far a recursion may go before it is taken for one that does not end; None is as far as usual."""

    rounds: int | None = None
    rows: int | None = None


NO_BOUNDS = Bounds()


def lowered(
    program: Program,
    views: Collection[str],
    scans: Mapping[str, Plan],
    bounds: Bounds = NO_BOUNDS,
    *,
    are_stored: bool = True,
) -> dict[str, Plan]:
    """The plans of the predicates that become views; ``scans`` says how the relations below are read.

    Views that are not stored are expanded, as helpers are.
    """
    known, plans, found = dict(scans), plans_of(program), dict[str, Plan]()
    for stratum in program.strata:
        for name in stratum.predicates:
            recursive = _fixpoint(program, stratum, name, known, bounds) if stratum.recursive else None
            found[name] = recursive or over(plans[name], known)
        scanned = views if are_stored else ()
        known.update({name: Scan(name, found[name].schema) if name in scanned else found[name] for name in found})
    return {name: plan for name, plan in found.items() if name in views}


def over(plan: Plan, known: Mapping[str, Plan]) -> Plan:
    """The plan with each scan of a name that is known replaced by what it stands for."""
    return transform_plan(plan, lambda part: known.get(part.relation) if isinstance(part, Scan) else None)


def program_of(plan: Fixpoint) -> Program:
    """The rules of a fixpoint as a program of one stratum, which reads the fixpoint's parts as its relations."""
    schemas = {name: part.schema for name, part in zip(plan.sources, plan.parts, strict=True)} | dict(plan.members)
    stratum = Stratum(tuple(name for name, _ in plan.members), recursive=True)
    return Program(plan.sources, schemas, plan.rules, (), (stratum,))


def _fixpoint(program: Program, stratum: Stratum, name: str, known: Mapping[str, Plan], bounds: Bounds) -> Fixpoint:
    rules = program.rules_of(stratum.predicates)
    reads = frozenset(source for rule in rules for source in rule.reads)
    sources = tuple(sorted(reads - set(stratum.predicates)))
    members = tuple((member, program.schemas[member]) for member in stratum.predicates)
    given = {"max_rounds": bounds.rounds, "max_rows": bounds.rows}
    limits = {limit: value for limit, value in given.items() if value is not None}
    return Fixpoint(tuple(known[source] for source in sources), sources, rules, members, name, **limits)
