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

NOWHERE: Final = -1


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


@dataclass(frozen=True)
class All:
    parts: tuple[Formula, ...]


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
    found: dict[Formula, None] = {}
    for part in parts:
        if part is False:
            return False
        if isinstance(part, All):
            found.update(dict.fromkeys(part.parts))
        elif part is not True:
            found[part] = None
    if len(found) < 2:
        return next(iter(found), True)
    return All(tuple(found))


def either(*parts: Formula) -> Formula:
    """OR of all parts."""
    found: dict[Formula, None] = {}
    for part in parts:
        if part is True:
            return True
        if isinstance(part, Some):
            found.update(dict.fromkeys(part.parts))
        elif part is not False:
            found[part] = None
    if len(found) < 2:
        return next(iter(found), False)
    return Some(tuple(found))


def negation(formula: Formula) -> Formula:
    """The opposite. Of whole numbers, ``x > 0`` is ``x ≥ 1``."""
    match formula:
        case bool():
            return not formula
        case Flag():
            return formula._replace(holds=not formula.holds)
        case Bound(terms=terms, constant=constant, strict=strict):
            return at_most_zero(Linear({v: Fraction(-f) for v, f in terms}, Fraction(-constant)), strict=not strict)
        case All(parts=parts):
            return either(*map(negation, parts))
        case Some(parts=parts):
            return both(*map(negation, parts))


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
    terms = tuple(sorted((variable, int(factor * scale)) for variable, factor in sum_.factors.items()))
    constant = int(sum_.constant * scale)
    common = gcd(*(factor for _, factor in terms))
    if any(variable.dense for variable, _ in terms):
        common = gcd(common, constant)
        return Bound(tuple((v, f // common) for v, f in terms), constant // common, strict)
    constant += strict
    return Bound(tuple((v, f // common) for v, f in terms), -(-constant // common))


def zero(sum_: Linear) -> Formula:
    return both(at_most_zero(sum_), at_most_zero(sum_.times(-1)))


def atoms(formula: Formula) -> Iterator[Atom]:
    match formula:
        case Flag() | Bound():
            yield formula
        case All(parts=parts) | Some(parts=parts):
            for part in parts:
                yield from atoms(part)


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
    match formula:
        case bool():
            return [()] if formula else []
        case Flag() | Bound():
            return [(formula,)]
        case Some(parts=parts):
            found = [conjunction for part in parts for conjunction in alternatives(part, most)]
            if len(found) > most:
                raise TooMany
            return list(dict.fromkeys(found))
        case All(parts=parts):
            # What has no alternative comes first, so that contradictions show early.
            whole: list[Conjunction] = [tuple(part for part in parts if isinstance(part, Flag | Bound))]
            if _contradictory(whole[0]):
                return []
            for part in sorted((p for p in parts if isinstance(p, All | Some)), key=lambda p: len(p.parts)):
                choices = alternatives(part, most)
                joined = (tuple(dict.fromkeys(left + right)) for left in whole for right in choices)
                whole = list(islice((c for c in joined if not _contradictory(c)), most + 1))
                if len(whole) > most:
                    raise TooMany
            return whole


def _contradictory(conjunction: Conjunction) -> bool:
    flags = {atom for atom in conjunction if isinstance(atom, Flag)}
    return any(flag.holds and flag._replace(holds=False) in flags for flag in flags)
