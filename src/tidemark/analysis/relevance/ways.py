"""The ways in which a row of a relation can reach the rows of a plan, and what each of them asks of it.

A *way* lays rows of relations side by side: one row of each relation that is joined, with what is known of them. Its
conditions are those that must be true for the rows to reach the plan's output, in the order in which they are asked.

Two questions are asked of a plan. How can a row *exist* in its output? Then what the plan asks is known of the rows.
And how can a row of one relation *touch* its output, by coming or leaving? Then what the plan asks of it may come out
either way:

    σ[p] R                 touched as R is, where p is true
    π R                    touched as R is; a column that fails is touched, too
    R ⋈[p] S               touched R with existing S, and existing R with touched S, where p is true
    R ⊎ S, −R              as each part is
    δ R, R ∸ S, R ∩ S      as R (and S) are: a row that comes or leaves changes rows that equal it
    γ[k; …] R              rows with the same k; their aggregates may be anything
    ω[k; …] R              rows with the same k; their other columns may be anything
    the first rows of R    any row

Rows exist in the state before or after a change; what is known of them (types, NOT NULL, CHECK) is true in both. Where
an operator can itself fail (a sum out of range), every row that reaches it matters, and what is asked above does not
count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from tidemark.algebra.cache import Once
from tidemark.algebra.expressions import TRUE, Call, Expression, Literal, conjuncts, shift_all, size_of, substitute
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Filter,
    Fixpoint,
    Intersection,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Scan,
    Sort,
    Touched,
    Union,
    Unnest,
    Values,
    Window,
    expressions_of,
)
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import BOOLEAN, Field, Schema
from tidemark.analysis.budget import spend
from tidemark.analysis.facts import Facts

MOST_EXISTING: Final = 8
"""In more ways than this a row is just taken to exist, whatever its columns."""
MOST_TOUCHING: Final = 64
MOST_PARTS: Final = 1000
"""Of so many parts an expression may be made: projections of projections can grow without end."""

Expressions = tuple[Expression, ...]


class TooManyWays(Exception):
    """A plan can be touched in more ways than are worth looking at, or in ways that take too long to say."""


@dataclass(frozen=True)
class Way:
    """Rows side by side, and the plan's ``outputs`` as expressions of them.

    ``own`` is where the columns of the touching row begin, and ``width`` how many they are. ``seen`` is what the first
    operator that looks at whole bags reads of the rows (the plan's outputs, if there is none): if that stays the same
    for an update, and as often as before, nothing above notices. The first ``lower`` conditions are asked below that
    operator. ``watched`` is what decides how often a row is there. A ``settled`` way matters whatever is asked above.
    ``origins`` are the names of the relations that the columns are from.
    """

    facts: Facts
    outputs: Expressions
    conditions: Expressions = ()
    own: int = -1
    width: int = 0
    watched: Expressions = ()
    seen: Expressions | None = None
    lower: int = 0
    settled: bool = False
    origins: tuple[str, ...] = ()

    def asked(self, conditions: Iterable[Expression]) -> Way:
        """The same way, where these conditions on the outputs are asked, too."""
        if self.settled:
            return self
        parts = tuple(_in_terms(c, self.outputs) for c in conditions if c != TRUE)
        return replace(self, conditions=self.conditions + parts)

    def known(self, conditions: Iterable[Expression]) -> Way:
        """The same way, where these conditions on the outputs are known to be true."""
        parts = tuple(_is_true(_in_terms(c, self.outputs)) for c in conditions if c != TRUE)
        return replace(self, facts=Facts(self.facts.columns, self.facts.checks + parts))

    def computing(self, expressions: Iterable[Expression]) -> Way:
        """The same way, where expressions of the outputs are computed, which fails if one of them does."""
        return self.asked(_computed(e) for e in expressions if can_fail(e))

    def giving(self, expressions: Expressions) -> Way:
        """The same way with expressions of the outputs in their place."""
        outputs = tuple(_in_terms(e, self.outputs) for e in expressions)
        if any(size_of(output) > MOST_PARTS for output in outputs):
            raise TooManyWays
        return replace(self, outputs=outputs)

    def watching(self, expressions: Expressions) -> Way:
        """The same way, where the expressions of the outputs decide how often a row is there."""
        if self.seen is not None:
            return self
        return replace(self, watched=self.watched + tuple(_in_terms(e, self.outputs) for e in expressions))

    def seen_as(self, expressions: Expressions) -> Way:
        """The same way up to an operator that looks at whole bags, and reads these expressions of the outputs."""
        if self.seen is not None:
            return self
        read = tuple(_in_terms(e, self.outputs) for e in expressions)
        return replace(self, seen=self.watched + read, lower=len(self.conditions))

    def with_anything(self, fields: Iterable[Field]) -> tuple[Way, Expressions]:
        """The same way with further columns of which nothing is known but their types."""
        wider = self.facts.beside(Facts(tuple(fields)))
        added = wider.all_columns()[len(self.facts.columns) :]
        return replace(self, facts=wider, origins=self.origins + ("",) * len(added)), added

    def beside(self, right: Way) -> Way:
        """The rows of both, of which at most one is touching."""
        offset = len(self.facts.columns)

        def moved(expressions: Expressions) -> Expressions:
            spend(sum(map(size_of, expressions)))
            return shift_all(expressions, offset)

        spend(len(self.facts.columns) + len(right.facts.columns) + len(self.conditions))

        touching = self if self.own >= 0 else right
        return Way(
            self.facts.beside(right.facts),
            self.outputs + moved(right.outputs),
            self.conditions + moved(right.conditions),
            self.own if self.own >= 0 else right.own + offset * (right.own >= 0),
            touching.width,
            self.watched + moved(right.watched),
            self.seen if self.seen is not None else None if right.seen is None else moved(right.seen),
            touching.lower,
            touching.settled,
            self.origins + right.origins,
        )


def parts_of_ways(ways: Iterable[Way]) -> int:
    """How many parts the conditions have that ways ask."""
    return sum(1 + len(way.facts.columns) + sum(map(size_of, way.conditions)) for way in ways)


@dataclass(frozen=True)
class Tracing:
    """Finds the ways through plans, given what is known of the relations that they read."""

    relations: Mapping[str, Facts]

    def existing(self, plan: Plan) -> list[Way]:
        """How a row can be in the plan's output."""
        return self._existing_of(plan)

    @cached_property
    def _existing_of(self) -> Once[list[Way]]:
        return Once(lambda plan, _: self._few_existing(plan))

    def _few_existing(self, plan: Plan) -> list[Way]:
        spend()
        try:
            ways = self._existing(plan)
        except TooManyWays:
            return [_anything(plan.schema)]
        return ways if len(ways) <= MOST_EXISTING else [_anything(plan.schema)]

    def _existing(self, plan: Plan) -> list[Way]:
        match plan:
            case Scan(relation=relation, columns_=schema):
                facts = self.facts(relation, schema)
                origins = (relation,) * len(facts.columns)
                return [Way(facts, facts.all_columns()[: len(schema)], origins=origins)]
            case Values(rows=rows, columns_=schema) if len(rows) <= MOST_EXISTING:
                literals = (tuple(Literal(v, f.type) for v, f in zip(row, schema, strict=True)) for row in rows)
                return [Way(Facts(), row) for row in literals]
            case Filter(input=source, predicate=predicate):
                return [way.known(conjuncts(predicate)) for way in self.existing(source)]
            case Project(input=source, expressions=expressions):
                return [way.giving(expressions) for way in self.existing(source)]
            case Join(left=left, right=right, predicate=predicate):
                pairs = [one.beside(other) for one in self.existing(left) for other in self.existing(right)]
                return [pair.known(conjuncts(predicate)) for pair in pairs]
            case Union(parts=parts):
                return [way for part in parts for way in self.existing(part)]
            case Negate(input=source) | Net(input=source) | Distinct(input=source) | Repeat(input=source):
                return self.existing(source)
            case Touched(input=source) | Difference(left=source) | Intersection(left=source):
                return self.existing(source)
            case Sort(input=source):
                return [way.giving(source.columns()[: len(plan.schema)]) for way in self.existing(source)]
            case Aggregate(input=source, keys=keys) if keys:
                return [_with_more(way.giving(keys), plan.schema) for way in self.existing(source)]
            case Window(input=source) | Unnest(input=source):
                return [_with_more(way, plan.schema) for way in self.existing(source)]
        return [_anything(plan.schema)]

    def touching(self, plan: Plan, relation: str) -> list[Way]:
        """How a row of the relation can change the plan's output by coming or leaving."""

        def few(part: Plan, of: Callable[[Plan], list[Way]]) -> list[Way]:
            spend()
            ways = self._touching(part, relation, of)
            if len(ways) > MOST_TOUCHING:
                raise TooManyWays
            return ways

        return Once(few)(plan)

    def _touching(self, plan: Plan, relation: str, of: Callable[[Plan], list[Way]]) -> list[Way]:
        match plan:
            case Scan(relation=scanned, columns_=schema):
                facts = self.facts(scanned, schema)
                origins = (scanned,) * len(facts.columns)
                outputs = facts.all_columns()[: len(schema)]
                touching = Way(facts, outputs, own=0, width=len(facts.columns), origins=origins)
                return [touching] if scanned == relation else []
            case Filter(input=source, predicate=predicate):
                return [way.asked((predicate,)) for way in of(source)]
            case Project(input=source, expressions=expressions):
                return [way.computing(expressions).giving(expressions) for way in of(source)]
            case Join(left=left, right=right, predicate=predicate):
                on_left, on_right = of(left), of(right)
                pairs = [one.beside(other) for one in on_left for other in self.existing(right)]
                pairs += [one.beside(other) for other in on_right for one in self.existing(left)]
                return [pair.asked((predicate,)) for pair in pairs]
            case Union(parts=parts):
                return [way for part in parts for way in of(part)]
            case Negate(input=source) | Net(input=source):
                return of(source)
            case Repeat(input=source, times=times):
                return [way.computing((times,)).watching((times,)) for way in of(source)]
            case Unnest(input=source, array=array):
                watched = (way.computing((array,)).watching((array,)) for way in of(source))
                return [_with_more(way, plan.schema) for way in watched]
            case Touched(input=source, touched=touched):
                keys = tuple(touched.columns())
                return of(source) + [replace(way.seen_as(keys), settled=True) for way in of(touched)]
            case Distinct(input=source):
                return [way.seen_as(source.columns()) for way in of(source)]
            case Difference(left=left, right=right) | Intersection(left=left, right=right):
                return [way.seen_as(plan.columns()) for way in of(left) + of(right)]
            case Fixpoint(parts=parts):
                seen = (way.seen_as(part.columns()) for part in parts for way in of(part))
                return [_with_more(replace(way.giving(()), settled=True), plan.schema) for way in seen]
            case Aggregate() | Window() | Sort():
                return [_through_bag(way, plan) for way in of(plan.inputs()[0])]
        return []

    def facts(self, relation: str, schema: Schema) -> Facts:
        """What is known of a row of the relation, which may have columns that came after the plan was made."""
        known = self.relations.get(relation)
        return Facts.of(schema) if known is None else known


def _in_terms(expression: Expression, outputs: Expressions) -> Expression:
    """An expression of a plan's outputs, in terms of what those are made of."""
    spend(size_of(expression))
    return substitute(expression, outputs)


def _through_bag(way: Way, plan: Aggregate | Window | Sort) -> Way:
    """Through an operator that makes something of many rows: what remains of one of them."""
    source = plan.inputs()[0]
    if isinstance(plan, Sort) and plan.limit is None and not plan.offset:
        keys = tuple(key.expression for key in plan.keys)
        return way.computing(keys).giving(source.columns()[: len(plan.schema)])
    read = expressions_of(plan)
    way = way.computing(read).seen_as(read if isinstance(plan, Aggregate) else source.columns())
    calls = plan.aggregates if isinstance(plan, Aggregate) else plan.calls if isinstance(plan, Window) else ()
    way = replace(way, settled=way.settled or any(call.can_fail for call in calls))
    if isinstance(plan, Aggregate):
        return _with_more(way.giving(plan.keys), plan.schema)
    partition = {c.index for c in plan.partition} if isinstance(plan, Window) else set()
    wider, anything = way.with_anything(plan.schema.fields)
    kept = (wider.outputs[i] if i in partition else column for i, column in enumerate(anything))
    return replace(wider, outputs=tuple(kept))


def _with_more(way: Way, schema: Schema) -> Way:
    """The way's outputs, and further ones of which nothing is known, up to the width of the schema."""
    wider, added = way.with_anything(schema.fields[len(way.outputs) :])
    return replace(wider, outputs=wider.outputs + added)


def _anything(schema: Schema) -> Way:
    facts = Facts.of(schema)
    return Way(facts, facts.all_columns(), origins=("",) * len(schema))


def _is_true(condition: Expression) -> Expression:
    return Call("is_true", (condition,), BOOLEAN, nullable=False)


def is_computed(condition: Expression) -> bool:
    """Whether the condition asks no more than that something can be computed."""
    match condition:
        case Call(function="is_not_null", arguments=(Call(function="is_null"),)):
            return True
    return False


def _computed(expression: Expression) -> Expression:
    """A condition that is true unless the expression fails."""
    asked = Call("is_null", (expression,), BOOLEAN, nullable=False)
    return Call("is_not_null", (asked,), BOOLEAN, nullable=False)
