"""WHY and WHY NOT for a fixpoint in a plan: its rules over its parts, each of which is a plan of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal

from tidemark.algebra.expressions import Call, Column, Expression, Literal, Value, conjuncts
from tidemark.algebra.plans import Filter, Fixpoint, Plan, Values, transform
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import Field, Kind, Schema, Type
from tidemark.calculus.touched import restrict
from tidemark.datalog.fixpoint import RecursionLimits
from tidemark.datalog.plans import program_of
from tidemark.datalog.proofs import Facts
from tidemark.datalog.relations import Memory, Positions
from tidemark.errors import TidemarkError
from tidemark.provenance.clauses import Clauses
from tidemark.provenance.questions import Pattern, Questions
from tidemark.provenance.tree import Absence, Derivation
from tidemark.provenance.wording import name_of

SMALL_ROWS = 20_000
"""A part of no more rows than this is read once, as a whole."""
MOST_DERIVED = 100_000
"""How many rows of a predicate are derived here before an engine is asked for all of them."""


def fixpoint_derivation(questions: Questions, plan: Fixpoint, row: Row) -> Derivation:
    """Why a row that is there is in the fixpoint."""
    answer = _clauses(questions, plan).explain(plan.predicate, dict(enumerate(row)))
    assert isinstance(answer, Derivation), "a row that is there has a derivation"
    return answer


def fixpoint_absence(questions: Questions, plan: Fixpoint, pattern: Pattern) -> Absence:
    """Why no row of the fixpoint has the pattern, if none has."""
    answer = _clauses(questions, plan).explain(plan.predicate, dict(pattern))
    assert isinstance(answer, Absence), "a row that is not there has no derivation"
    return answer


def _clauses(questions: Questions, plan: Fixpoint) -> Clauses:
    parts = dict(zip(plan.sources, plan.parts, strict=True))
    facts = _facts(questions, plan, RecursionLimits(plan.max_rounds, plan.max_rows))
    titles = {name: name_of(part) for name, part in parts.items() if "^" in name}
    titles |= {name: name.partition("^")[0] for name, _ in plan.members if "^" in name}
    return Clauses(facts, _PartsExplained(questions, parts), questions.rows, titles)


def _facts(questions: Questions, plan: Fixpoint, limits: RecursionLimits) -> Facts:
    parts = dict(zip(plan.sources, plan.parts, strict=True))
    return Facts(program_of(plan), Parts(questions, parts), limits)


def on_demand(questions: Questions, plan: Plan) -> Plan:
    """The plan with each fixpoint of which only some values are wanted replaced by the rows that have them.

    These are derived on demand, so that a question about one row does not evaluate the whole fixpoint. Where that
    would still be more than ``MOST_DERIVED`` rows, it is left to the engine.
    """

    def replaced(part: Plan) -> Plan | None:
        if not isinstance(part, Filter) or not isinstance(part.input, Fixpoint):
            return None
        wanted = dict(pair for one in conjuncts(part.predicate) if (pair := _equality(one)) is not None)
        rows = _derived(questions, part.input, wanted) if wanted else None
        return None if rows is None else Filter(Values(tuple(rows), part.schema), part.predicate)

    return transform(plan, replaced)


def _equality(condition: Expression) -> tuple[int, Value] | None:
    match condition:
        case Call(function="eq", arguments=(Column(index=index), Literal(value=value))) if value is not None:
            return index, value
        case Call(function="is_null", arguments=(Column(index=index),)):
            return index, None
    return None


def _derived(questions: Questions, plan: Fixpoint, wanted: Mapping[int, Value]) -> list[Row] | None:
    limits = RecursionLimits(plan.max_rounds, min(plan.max_rows, MOST_DERIVED))
    try:
        return _facts(questions, plan, limits).ask(plan.predicate, wanted)
    except TidemarkError:  # too far, or a condition that fails on the way: the engine decides
        return None


class _PartsExplained:
    """The rows of the parts are those of plans."""

    def __init__(self, questions: Questions, parts: dict[str, Plan]) -> None:
        self.questions, self.parts = questions, parts

    def why_base(self, relation: str, row: Row) -> Derivation:
        return self.questions.why(self.parts[relation], row)

    def why_not_base(self, relation: str, pattern: Pattern) -> Absence:
        return self.questions.why_not(self.parts[relation], pattern)


class Parts:
    """Look-ups in plans, as sets: an engine finds the rows of the wanted keys; of a small plan all rows are kept."""

    def __init__(self, questions: Questions, parts: dict[str, Plan]) -> None:
        self.questions, self.parts = questions, parts
        self._kept: dict[str, Memory | None] = {}

    def matching(self, relation: str, positions: Positions, keys: Collection[Row]) -> Iterable[Row]:
        if relation not in self._kept:
            small = self.questions.count(self.parts[relation]) <= SMALL_ROWS
            self._kept[relation] = Memory({relation: self._rows(self.parts[relation])}) if small else None
        kept = self._kept[relation]
        if kept is not None:
            return kept.matching(relation, positions, keys)
        plan = self.parts[relation]
        if not positions:
            return self._rows(plan)
        fields = tuple(plan.schema[position] for position in positions)
        wanted = [[_fitting(v, f.type) for v, f in zip(key, fields, strict=True)] for key in keys]
        rows = tuple(tuple(v for _, v in cells) for cells in wanted if all(fits for fits, _ in cells))
        schema = Schema(tuple(Field(f"k{i}", f.type) for i, f in enumerate(fields)))
        return self._rows(restrict(plan, Values(rows, schema), positions)) if rows else ()

    def _rows(self, plan: Plan) -> list[Row]:
        return [row for row, weight in self.questions.answer(plan).items() if weight > 0]


def _fitting(value: Value, type: Type) -> tuple[bool, Value]:
    """The value as one of the type, if it is one: numbers meet by value."""
    if isinstance(value, Decimal) and type.is_integer:
        return value == int(value), int(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and type.kind is Kind.DECIMAL:
        exact = Decimal(value).quantize(Decimal(1).scaleb(-type.scale))
        return exact == value, exact
    return True, value
