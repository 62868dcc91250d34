"""IncrNow: what a step of the clock does to a filter that names NOW().

    π[columns of E] σ[q ∧ p(now)](E × clock),  when the clock steps from t to u:

    Δ = π σ[q ∧ p(u) ∧ ¬p(t)](E_old × u)  −  π σ[q ∧ p(t) ∧ ¬p(u)](E_old × t)

The general law would pair every row of E with the old and with the new time, and most of those pairs cancel. Here only
rows for which the condition changes come out: of a filter ``x > now − d`` those with t − d < x ≤ u − d, which leave.

But it asks p(u) of rows of E_old that the same block may remove, and q without asking p before. So it serves only if
what can fail does so for a row alone or for a time alone, and was asked of each row of E_old before; otherwise the
general law does.
"""

from __future__ import annotations

from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Case,
    Column,
    Expression,
    columns_of,
    conjunction,
    conjuncts,
    substitute,
    walk,
)
from tidemark.algebra.history import CLOCK, STEP, STEP_SCHEMA
from tidemark.algebra.plans import Filter, Given, Join, Negate, Plan, Project, Scan, State, Union, transform, union
from tidemark.algebra.scalar import fails_itself
from tidemark.algebra.types import BOOLEAN


def with_steps(plan: Plan) -> Plan:
    """A differential in which filters over a step of the clock look only at rows for which they change, wherever the
    time itself is not read above the filter."""

    def changed(part: Plan) -> Plan | None:
        if not isinstance(part, Project):
            return None
        above = part.input
        source, predicate = (above.input, above.predicate) if isinstance(above, Filter) else (above, TRUE)
        terms = source.parts if isinstance(source, Union) else (source,)
        steps = [term for term in terms if _is_step(term)]
        if not steps or _shows_time(part) or not all(_is_safe(term, predicate) for term in steps):
            return None
        changes = tuple(
            _stepped(term, predicate)
            if isinstance(term, Join) and _is_step(term)
            else _filtered(with_steps(term), predicate)
            for term in terms
        )
        return part.with_inputs((union(changes, source.schema),))

    return transform(plan, changed)


def _filtered(plan: Plan, predicate: Expression) -> Plan:
    return plan if predicate == TRUE else Filter(plan, predicate)


def _shows_time(plan: Project) -> bool:
    """Whether the time, which stands last in the input, is read above the filter. Then all rows change with it."""
    now = len(plan.input.schema) - 1
    return any(now in columns_of(expression) for expression in plan.expressions)


def _is_step(plan: Plan) -> bool:
    match plan:
        case Join(right=Scan(relation=relation, state=State.DELTA)):
            return relation == CLOCK
    return False


def _parts(join: Plan, predicate: Expression) -> tuple[Expression, ...]:
    """The conditions of the join and of the filter above it, in the order in which they are asked."""
    assert isinstance(join, Join)
    return tuple(part for part in conjuncts(join.predicate) + conjuncts(predicate) if part != TRUE)


def _is_safe(join: Plan, predicate: Expression) -> bool:
    """Whether no condition fails for a pair that it would not have been asked about."""
    assert isinstance(join, Join)
    now, after_time = len(join.left.schema), False
    for part in _parts(join, predicate):
        moves = now in columns_of(part)
        failing = [columns_of(e) for e in walk(part) if fails_itself(e) and columns_of(e) - {now}]
        if any(now in columns for columns in failing):
            return False
        if failing and (after_time or (moves and not _is_comparison(part))):
            return False
        after_time = after_time or moves
    return True


def _is_comparison(part: Expression) -> bool:
    """Whether all of a condition is always evaluated: one comparison, without alternatives inside."""
    calls = [e for e in walk(part) if isinstance(e, Call)]
    return not any(isinstance(e, Case) for e in walk(part)) and not any(e.function in _ALTERNATIVES for e in calls)


_ALTERNATIVES = ("and", "or", "coalesce", "nullif")


def _stepped(join: Join, predicate: Expression) -> Plan:
    width = len(join.left.schema)
    pairs = Join(join.left, Given(STEP, STEP_SCHEMA), TRUE)
    before, after = pairs.column(width), pairs.column(width + 1)
    parts = _parts(join, predicate)
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
