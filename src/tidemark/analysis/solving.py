"""Whether a formula has a model: differences in process, z3 for the rest, within a time limit.

z3 is imported when it is first asked. It is asked by one thread at a time, since its terms share one context.
"""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import reduce
from threading import Lock
from typing import Any, Final

from tidemark.analysis.differences import OutOfClass, closure
from tidemark.analysis.formulas import (
    All,
    Bound,
    Flag,
    Formula,
    Linear,
    Some,
    TooMany,
    Variable,
    alternatives,
    at_most_zero,
    atoms,
    both,
    either,
    negation,
    variables,
    zero,
)

MOST_ALTERNATIVES: Final = 256
TIME_LIMIT_MILLISECONDS: Final = 200
_ONE_AT_A_TIME: Final = Lock()


_DEADLINE: Final = ContextVar("deadline", default=math.inf)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """All questions that are asked inside together take about so long at most; what is asked later is undecided."""
    token = _DEADLINE.set(min(_DEADLINE.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def time_is_up() -> bool:
    return time.monotonic() > _DEADLINE.get()


def _milliseconds_left() -> int:
    left = (_DEADLINE.get() - time.monotonic()) * 1000
    return int(max(1.0, min(left, TIME_LIMIT_MILLISECONDS)))


class Model(enum.Enum):
    """Whether there is a model."""

    SOME = "some"
    NONE = "none"
    UNDECIDED = "undecided"


def model_of(formula: Formula) -> Model:
    """Whether the formula can be true.

    >>> model_of(Bound(((Variable("x"), 1),), 0))
    <Model.SOME: 'some'>
    """
    try:
        return model_by_differences(formula)
    except (OutOfClass, TooMany):
        return model_by_solver(formula)


def model_by_differences(formula: Formula) -> Model:
    """For formulas whose bounds are differences; others, and such with too many alternatives, are refused."""
    refused: Exception | None = None
    for conjunction in alternatives(formula, MOST_ALTERNATIVES):
        if time_is_up():
            raise TooMany
        try:
            if closure(atom for atom in conjunction if isinstance(atom, Bound)) is not None:
                return Model.SOME
        except OutOfClass as error:
            refused = error
    if refused is not None:
        raise refused
    return Model.NONE


def model_by_solver(formula: Formula) -> Model:
    if time_is_up():
        return Model.UNDECIDED
    import z3

    with _ONE_AT_A_TIME:
        solver = z3.Solver()
        solver.set("timeout", _milliseconds_left())
        solver.add(as_term(formula))
        found = solver.check()
    return Model.SOME if found == z3.sat else Model.NONE if found == z3.unsat else Model.UNDECIDED


def as_term(formula: Formula) -> Any:
    """The formula as z3 has it."""
    import z3

    match formula:
        case bool():
            return z3.BoolVal(formula)
        case Flag(name=name, holds=holds):
            return z3.Bool(name) if holds else z3.Not(z3.Bool(name))
        case Bound(terms=terms, constant=constant, strict=strict):
            total = z3.Sum([factor * variable_term(variable) for variable, factor in terms])
            return total + constant < 0 if strict else total + constant <= 0
        case All(parts=parts):
            return z3.And([as_term(part) for part in parts])
        case Some(parts=parts):
            return z3.Or([as_term(part) for part in parts])


def variable_term(variable: Variable) -> Any:
    import z3

    return z3.Real(variable.name) if variable.dense else z3.Int(variable.name)


def without_by_solver(formula: Formula, numbers: frozenset[Variable], flags: frozenset[str]) -> Formula | None:
    """The formula without these variables and flags, by quantifier elimination; None if the solver finds nothing."""
    if time_is_up():
        return None
    import z3

    known = {variable.name: variable for variable in variables((formula,))}
    columns = {atom.name: atom for atom in atoms(formula) if isinstance(atom, Flag)}
    with _ONE_AT_A_TIME:
        bound = [*map(variable_term, sorted(numbers)), *map(z3.Bool, sorted(flags))]
        whole = as_term(formula)
        goal = z3.Goal()
        goal.add(z3.Exists(bound, whole) if bound else whole)
        try:
            parts = z3.TryFor(z3.Then("simplify", "qe", "simplify"), _milliseconds_left())(goal)
            return either(*(both(*(_formula(term, known, columns) for term in part)) for part in parts))
        except (z3.Z3Exception, _NoFormula):
            return None


class _NoFormula(Exception):
    """The solver's answer has something in it that formulas have not."""


def _formula(term: Any, known: dict[str, Variable], flags: dict[str, Flag]) -> Formula:
    import z3

    children = term.children()
    if z3.is_true(term) or z3.is_false(term):
        return bool(z3.is_true(term))
    if z3.is_and(term):
        return both(*(_formula(child, known, flags) for child in children))
    if z3.is_or(term):
        return either(*(_formula(child, known, flags) for child in children))
    if z3.is_not(term):
        return negation(_formula(children[0], known, flags))
    if z3.is_const(term) and z3.is_bool(term):
        return flags[term.decl().name()]._replace(holds=True)
    if len(children) == 2 and not z3.is_bool(children[0]):
        difference = _sum(children[0], known).minus(_sum(children[1], known))
        if z3.is_eq(term):
            return zero(difference)
        if z3.is_le(term) or z3.is_lt(term):
            return at_most_zero(difference, strict=z3.is_lt(term))
        if z3.is_ge(term) or z3.is_gt(term):
            return at_most_zero(difference.times(-1), strict=z3.is_gt(term))
    raise _NoFormula


def _sum(term: Any, known: dict[str, Variable]) -> Linear:
    import z3

    children = term.children()
    if z3.is_int_value(term):
        return Linear.constantly(term.as_long())
    if z3.is_rational_value(term):
        return Linear.constantly(Fraction(term.numerator_as_long(), term.denominator_as_long()))
    if z3.is_const(term) and term.decl().name() in known:
        return Linear.of(known[term.decl().name()])
    if z3.is_add(term):
        return reduce(Linear.plus, (_sum(child, known) for child in children))
    if z3.is_sub(term) and len(children) == 2:
        return _sum(children[0], known).minus(_sum(children[1], known))
    if z3.is_mul(term) and len(children) == 2:
        left, right = (_sum(child, known) for child in children)
        if not left.factors:
            return right.times(left.constant)
        if not right.factors:
            return left.times(right.constant)
    if z3.is_to_real(term):
        return _sum(children[0], known)
    raise _NoFormula
