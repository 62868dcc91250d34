"""IncrNow: what a step of the clock does to a filter that names NOW().

    σ[q ∧ p(now)](E × clock),  when the clock steps from t to u:

    Δ = σ[q ∧ p(u) ∧ ¬p(t)](E_old × u)  −  σ[q ∧ p(t) ∧ ¬p(u)](E_old × t)

The general law would pair every row of E with the old and with the new time, and most of those pairs cancel. Here only
rows for which the condition changes come out: of a filter ``x > now − d`` those with t − d < x ≤ u − d, which leave.
"""

from __future__ import annotations

from tidemark.algebra.clock import CLOCK, STEP, STEP_SCHEMA
from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    columns_of,
    conjunction,
    conjuncts,
    substitute,
)
from tidemark.algebra.plans import Filter, Given, Join, Negate, Plan, Project, Scan, State, Union, transform, union
from tidemark.algebra.types import BOOLEAN


def with_steps(plan: Plan) -> Plan:
    """A differential in which filters over a step of the clock look only at rows for which they change."""

    def changed(part: Plan) -> Plan | None:
        if not isinstance(part, Filter):
            return None
        parts = part.input.parts if isinstance(part.input, Union) else (part.input,)
        if not any(_is_step(source) for source in parts):
            return None
        terms = tuple(
            _stepped(source, part.predicate)
            if isinstance(source, Join) and _is_step(source)
            else Filter(with_steps(source), part.predicate)
            for source in parts
        )
        return union(terms, part.schema)

    return transform(plan, changed)


def _is_step(plan: Plan) -> bool:
    match plan:
        case Join(right=Scan(relation=relation, state=State.DELTA)):
            return relation == CLOCK
    return False


def _stepped(join: Join, predicate: Expression) -> Plan:
    width = len(join.left.schema)
    pairs = Join(join.left, Given(STEP, STEP_SCHEMA), TRUE)
    before, after = pairs.column(width), pairs.column(width + 1)
    parts = conjuncts(predicate) + tuple(part for part in conjuncts(join.predicate) if part != TRUE)
    steady = tuple(part for part in parts if width not in columns_of(part))
    moving = conjunction(tuple(part for part in parts if width in columns_of(part)))

    def at(time: Column) -> Expression:
        columns: tuple[Expression, ...] = (*pairs.columns()[:width], time)
        return substitute(moving, columns)

    def only(yes: Column, no: Column) -> Plan:
        was = Call("is_true", (at(no),), BOOLEAN, nullable=False)
        chosen = Filter(pairs, conjunction((*steady, at(yes), Call("not", (was,), BOOLEAN, nullable=False))))
        return Project(chosen, join.schema.names, (*chosen.columns()[:width], yes))

    return union((only(after, before), Negate(only(before, after))), join.schema)
