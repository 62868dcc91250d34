"""Formulas in two values over whole numbers, dense numbers and flags, with negation always at the atoms.

A formula is TRUE or FALSE itself, a ``Flag`` (or its opposite), a ``Bound`` on a sum of variables, or ``All`` or
``Some`` of other formulas. Conditions of SQL, which have three values and can fail, become such formulas in
``truth.py``.

Whole numbers stand for the values of every exact type: dates in days, timestamps in microseconds, decimals in units of
their last digit. Text is dense: between two different texts that a condition names there is room for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import gcd, lcm
from typing import Final, NamedTuple, TypeAlias

from tidemark.algebra.structure import structural
from tidemark.analysis.budget import made_once, spend

NOWHERE: Final = -1
MOST_TAKEN_APART: Final = 32
"""A part of so many parts stands as a whole in what it is joined to: copied each time that one more part comes, a
formula of n parts would take n² steps to build."""


class Variable(NamedTuple):
    """A number: the value of the column at ``column``, or of something that was given a name of its own."""

    name: str
    column: int = NOWHERE
    dense: bool = False


class Flag(NamedTuple):
    """Something that is true or not: that a column is NULL, or the value of a BOOLEAN."""

    name: str
    column: int = NOWHERE
    holds: bool = True


class Bound(NamedTuple):
    """``Σ factor · variable + constant ≤ 0``, or ``< 0`` if it is strict."""

    terms: tuple[tuple[Variable, int], ...]
    constant: int
    strict: bool = False


@structural
@dataclass(frozen=True)
class All:
    parts: tuple[Formula, ...]


@structural
@dataclass(frozen=True)
class Some:
    parts: tuple[Formula, ...]


Formula: TypeAlias = bool | Flag | Bound | All | Some
Atom: TypeAlias = Flag | Bound


def both(*parts: Formula) -> Formula:
    """AND of all parts.

    >>> both(True, Flag("a"), True)
    Flag(name='a', column=-1, holds=True)
    """
    return _gathered(All, parts, neutral=True)


def either(*parts: Formula) -> Formula:
    """OR of all parts."""
    return _gathered(Some, parts, neutral=False)


def _gathered(kind: type[All] | type[Some], parts: tuple[Formula, ...], *, neutral: bool) -> Formula:
    """The parts under one connective: one that is neutral says nothing, its opposite decides all."""
    spend(1 + len(parts))
    found: dict[Formula, None] = {}
    for part in parts:
        if isinstance(part, bool):
            if part is not neutral:
                return part
        elif isinstance(part, kind) and len(part.parts) <= MOST_TAKEN_APART:
            spend(len(part.parts))
            found.update(dict.fromkeys(part.parts))
        else:
            found[part] = None
    if len(found) < 2:
        return next(iter(found), neutral)
    return made_once(All, tuple(found)) if kind is All else made_once(Some, tuple(found))


def negation(formula: Formula) -> Formula:
    """The opposite, worked out once. Of whole numbers, ``x > 0`` is ``x ≥ 1``."""
    match formula:
        case bool():
            return not formula
        case Flag():
            return formula._replace(holds=not formula.holds)
        case Bound(terms=terms, constant=constant, strict=strict):
            is_dense = any(variable.dense for variable, _ in terms)
            opposite = tuple((variable, -factor) for variable, factor in terms)
            return Bound(opposite, -constant, not strict) if is_dense else Bound(opposite, int(not strict) - constant)
        case All(parts=parts) | Some(parts=parts):
            known: Formula | None = formula.__dict__.get(_OPPOSITE)
            if known is None:
                joined = either if isinstance(formula, All) else both
                known = formula.__dict__[_OPPOSITE] = joined(*map(negation, parts))
            return known


_OPPOSITE: Final = "_opposite"


class Linear:
    """A sum of variables with factors, and a constant."""

    def __init__(self, factors: Mapping[Variable, Fraction], constant: Fraction | int = 0) -> None:
        self.factors = {variable: factor for variable, factor in factors.items() if factor}
        self.constant = Fraction(constant)

    @staticmethod
    def of(variable: Variable, factor: Fraction | int = 1) -> Linear:
        return Linear({variable: Fraction(factor)})

    @staticmethod
    def constantly(value: Fraction | int) -> Linear:
        return Linear({}, value)

    def plus(self, other: Linear, times: Fraction | int = 1) -> Linear:
        spend(len(self.factors) + len(other.factors))
        factors = dict(self.factors)
        for variable, factor in other.factors.items():
            factors[variable] = factors.get(variable, Fraction(0)) + factor * times
        return Linear(factors, self.constant + other.constant * times)

    def minus(self, other: Linear) -> Linear:
        return self.plus(other, -1)

    def times(self, factor: Fraction | int) -> Linear:
        return Linear({}, 0).plus(self, factor)


def at_most_zero(sum_: Linear, *, strict: bool = False) -> Formula:
    """``sum ≤ 0`` in whole numbers without a common factor; strict only where a dense variable stands in it.

    >>> x = Variable("x")
    >>> at_most_zero(Linear({x: Fraction(2)}, -5))
    Bound(terms=((Variable(name='x', column=-1, dense=False), 1),), constant=-2, strict=False)
    """
    if not sum_.factors:
        return sum_.constant < 0 if strict else sum_.constant <= 0
    scale = lcm(sum_.constant.denominator, *(factor.denominator for factor in sum_.factors.values()))
    spend(len(sum_.factors))
    terms = tuple(sorted((variable, int(factor * scale)) for variable, factor in sum_.factors.items()))
    return bounded(terms, int(sum_.constant * scale), strict=strict)


def bounded(terms: tuple[tuple[Variable, int], ...], constant: int, *, strict: bool) -> Bound | bool:
    """The bound of terms, in order, without a common factor."""
    if not terms:
        return constant < 0 if strict else constant <= 0
    common = gcd(*(factor for _, factor in terms))
    if any(variable.dense for variable, _ in terms):
        common = gcd(common, constant)
        return Bound(tuple((v, f // common) for v, f in terms), constant // common, strict)
    constant += strict
    return Bound(tuple((v, f // common) for v, f in terms), -(-constant // common))


def zero(sum_: Linear) -> Formula:
    return both(at_most_zero(sum_), at_most_zero(sum_.times(-1)))


def atoms(formula: Formula) -> Iterator[Atom]:
    """The atoms from left to right; those of a part that stands in several places once."""
    seen: set[int] = set()
    waiting = [formula]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Flag | Bound):
            yield part
        elif isinstance(part, All | Some) and id(part) not in seen:
            seen.add(id(part))
            spend(len(part.parts))
            waiting.extend(reversed(part.parts))


def variables(formulas: Iterable[Formula]) -> frozenset[Variable]:
    found = (atom for formula in formulas for atom in atoms(formula) if isinstance(atom, Bound))
    return frozenset(variable for atom in found for variable, _ in atom.terms)


Conjunction: TypeAlias = tuple[Atom, ...]


class TooMany(Exception):
    """A formula has more alternatives than are looked at one by one."""


def alternatives(formula: Formula, most: int) -> list[Conjunction]:
    """The disjunctive normal form, without conjunctions in which a flag contradicts itself.

    >>> a, b = Flag("a"), Flag("b")
    >>> alternatives(either(a, both(b, negation(b))), most=8)
    [(Flag(name='a', column=-1, holds=True),)]
    """
    return _Alternatives(most).of(formula)


class _Alternatives:
    """Those of one formula; a part that stands in several places is taken apart once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[int, list[Conjunction]] = {}

    def of(self, formula: Formula) -> list[Conjunction]:
        match formula:
            case bool():
                return [()] if formula else []
            case Flag() | Bound():
                return [(formula,)]
        found = self._known.get(id(formula))
        if found is None:
            spend(1 + len(formula.parts))
            of_parts = self._of_some if isinstance(formula, Some) else self._of_all
            found = self._known[id(formula)] = of_parts(formula.parts)
        return found

    def _of_some(self, parts: tuple[Formula, ...]) -> list[Conjunction]:
        found: list[Conjunction] = []
        for part in parts:
            found += self.of(part)
            if len(found) > self._most:
                raise TooMany
        return list(dict.fromkeys(found))

    def _of_all(self, parts: tuple[Formula, ...]) -> list[Conjunction]:
        # What has no alternative comes first, so that contradictions show early.
        whole: list[Conjunction] = [tuple(part for part in parts if isinstance(part, Flag | Bound))]
        if _contradictory(whole[0]):
            return []
        for part in sorted((p for p in parts if isinstance(p, All | Some)), key=lambda p: len(p.parts)):
            choices = self.of(part)
            joined = (_joined(left, right) for left in whole for right in choices)
            whole = list(islice((c for c in joined if not _contradictory(c)), self._most + 1))
            if len(whole) > self._most:
                raise TooMany
        return whole


def _joined(left: Conjunction, right: Conjunction) -> Conjunction:
    spend(len(left) + len(right))
    return tuple(dict.fromkeys(left + right))


def _contradictory(conjunction: Conjunction) -> bool:
    flags = {atom for atom in conjunction if isinstance(atom, Flag)}
    return any(flag.holds and flag._replace(holds=False) in flags for flag in flags)
