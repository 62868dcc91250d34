"""What conditions are about: the columns as numbers and flags, and names for what is not understood.

What is not understood becomes something unknown: a flag or a number of which nothing is said but its type and, for a
function that gives NULL for NULL alone, when it is NULL. Then there are more models than there are rows: that there is
no model proves that there is no such row, but a model proves nothing (``exact`` is False). The same expression is
always the same unknown.

The values of types as numbers: from where to where they go, and what number stands for a constant.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from tidemark.algebra.expressions import Call, Case, Cast, Expression, Literal, Value, columns_of, parts_once
from tidemark.algebra.functions import FUNCTIONS
from tidemark.algebra.functions.values import EXACT
from tidemark.algebra.scalar import fails_itself, value_of
from tidemark.algebra.types import INTEGER_BITS, Kind, Type
from tidemark.analysis.budget import spend
from tidemark.analysis.facts import Facts
from tidemark.analysis.formulas import (
    All,
    Bound,
    Flag,
    Formula,
    Linear,
    Some,
    Variable,
    at_most_zero,
    atoms,
    both,
    either,
    negation,
    variables,
    zero,
)
from tidemark.errors import TidemarkError

Ranks: TypeAlias = Mapping[str, int]
"""The places of the texts that stand in a condition, in the order of text; the empty text is the first of all."""
Range: TypeAlias = tuple[Fraction | None, Fraction | None]

DAY: Final = 86_400_000_000
"""In microseconds."""
_FIRST_DAY: Final = dt.date.min.toordinal()
_LAST_DAY: Final = dt.date.max.toordinal()


def has_numbers(type: Type) -> bool:
    """Whether values of the type are taken as numbers here. Floats and arrays are not, and NULL is of no type."""
    return type.is_exact or type.is_temporal or type.kind is Kind.VARCHAR


def is_dense(type: Type) -> bool:
    return type.kind is Kind.VARCHAR


def unit_of(type: Type) -> Fraction:
    """What one more of the variable means: a decimal is counted in units of its last digit."""
    return Fraction(1, 10**type.scale)


def range_of(type: Type) -> Range:
    """The least and the greatest number that stands for a value of the type.

    >>> from tidemark.algebra.types import SMALLINT, decimal
    >>> range_of(SMALLINT), range_of(decimal(3, 1))
    ((Fraction(-32768, 1), Fraction(32767, 1)), (Fraction(-999, 10), Fraction(999, 10)))
    """
    if type.is_integer:
        limit = 1 << (INTEGER_BITS[type.kind] - 1)
        return Fraction(-limit), Fraction(limit - 1)
    match type.kind:
        case Kind.DECIMAL:
            most = (10**type.precision - 1) * unit_of(type)
            return -most, most
        case Kind.DATE:
            return Fraction(_FIRST_DAY), Fraction(_LAST_DAY)
        case Kind.TIMESTAMP:
            return Fraction(_FIRST_DAY * DAY), Fraction((_LAST_DAY + 1) * DAY - 1)
        case Kind.VARCHAR:
            return Fraction(0), None
    return None, None


def number_of(value: Value, ranks: Ranks) -> Fraction:
    """The number that stands for a constant.

    >>> number_of(dt.date(1, 1, 2), {}), number_of(Decimal("1.5"), {})
    (Fraction(2, 1), Fraction(3, 2))
    """
    match value:
        case int() | Decimal():
            return Fraction(value)
        case str():
            return Fraction(ranks[value])
        case dt.datetime():
            since = value - dt.datetime(1, 1, 1)
            return Fraction(_FIRST_DAY * DAY + since // dt.timedelta(microseconds=1))
        case dt.date():
            return Fraction(value.toordinal())
    raise TypeError(f"no number stands for {value!r}")


def value_of_number(number: int, type: Type, texts: tuple[str, ...]) -> Value:
    """The value that a number of units stands for; the opposite of ``number_of``.

    >>> from tidemark.algebra.types import DATE, decimal
    >>> value_of_number(2, DATE, ()), value_of_number(15, decimal(3, 1), ())
    (datetime.date(1, 1, 2), Decimal('1.5'))
    """
    match type.kind:
        case Kind.DECIMAL:
            return Decimal(number).scaleb(-type.scale, context=EXACT)
        case Kind.DATE:
            return dt.date.fromordinal(number)
        case Kind.TIMESTAMP:
            return dt.datetime(1, 1, 1) + dt.timedelta(microseconds=number - _FIRST_DAY * DAY)
        case Kind.VARCHAR:
            return texts[number]
    return number


@dataclass(frozen=True)
class Truth:
    """When a condition is true, when false, when it fails. At most one of them holds; if none does, it is NULL."""

    true: Formula
    false: Formula
    error: Formula = False

    @property
    def null(self) -> Formula:
        return both(negation(self.true), negation(self.false), negation(self.error))


@dataclass(frozen=True)
class Amount:
    """The value of an expression: a sum (none for a type that is no number here), when it is NULL, when it fails."""

    sum: Linear | None
    null: Formula
    error: Formula = False

    @property
    def there(self) -> Formula:
        return both(negation(self.null), negation(self.error))


class Unknowns(ABC):
    """The variables of one question. ``definitions`` say what the named numbers are; ``limits`` how far they go."""

    def __init__(self, facts: Facts, expressions: Iterable[Expression]) -> None:
        self.facts = facts
        self.exact = True
        self.definitions: list[Formula] = []
        self.limits: dict[Variable, Range] = {}
        self._ends: dict[Variable, Range] = {}
        texts = {e.value for e in parts_once(expressions) if isinstance(e, Literal)}
        self.texts = tuple(sorted({"", *(text for text in texts if isinstance(text, str))}))
        self.ranks = {text: place for place, text in enumerate(self.texts)}
        # Between "a" and "a\x00" there is no room for another text; elsewhere there is.
        self._room = not any(character < " " for text in self.texts for character in text)
        self._names = 0
        self._values: dict[Expression, Expression] = {}

    @abstractmethod
    def truth(self, condition: Expression) -> Truth: ...

    @abstractmethod
    def amount(self, expression: Expression) -> Amount: ...

    def nullness(self, expression: Expression) -> tuple[Formula, Formula]:
        """When the expression is NULL, and when it fails."""
        if expression.type.kind is Kind.BOOLEAN:
            truth = self.truth(expression)
            answered = isinstance(expression, Call) and expression.function.startswith("is_")
            return False if answered else truth.null, truth.error
        amount = self.amount(expression)
        return amount.null, amount.error

    def folded(self, expression: Expression) -> Expression:
        """An expression of constants as its value; one that fails, or is a float or a new text, as it is."""
        if not isinstance(expression, Call | Case | Cast) or columns_of(expression):
            return expression
        known = self._values.get(expression)
        if known is None:
            known = self._values[expression] = self._evaluated(expression)
        return known

    def _evaluated(self, expression: Expression) -> Expression:
        # With the values of its parts in their places an expression is not evaluated again from its beginnings.
        parts = tuple([self.folded(child) for child in expression.children()])
        try:
            value = value_of(expression.with_children(parts), ())
        except TidemarkError:
            return expression
        is_said = not isinstance(value, float | tuple) and (not isinstance(value, str) or value in self.ranks)
        return Literal(value, expression.type) if is_said else expression

    # Columns

    def column_null(self, index: int) -> Formula:
        return Flag(f"n{index}", index) if self.facts.columns[index].nullable else False

    def column_value(self, index: int) -> Linear | None:
        type = self.facts.columns[index].type
        return self._number(Variable(f"c{index}", index, is_dense(type)), type) if has_numbers(type) else None

    # Names

    def name(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def number(self, type: Type) -> Linear:
        """A number of a type, of which nothing is said yet."""
        return self._number(Variable(self.name(), dense=is_dense(type)), type)

    def _number(self, variable: Variable, type: Type) -> Linear:
        self.exact = self.exact and (self._room or not variable.dense)
        if variable not in self._ends:
            unit = unit_of(type)
            least, most = (None if end is None else end / unit for end in range_of(type))
            self._ends[variable] = self.limits[variable] = least, most
        return Linear.of(variable, unit_of(type))

    def unknown_truth(self, condition: Expression) -> Truth:
        null, error = self._unknown_nullness(condition)
        holds = Flag(self.name())
        there = both(negation(null), negation(error))
        return Truth(both(holds, there), both(negation(holds), there), error)

    def unknown_amount(self, expression: Expression) -> Amount:
        null, error = self._unknown_nullness(expression)
        return Amount(self.number(expression.type) if has_numbers(expression.type) else None, null, error)

    def _unknown_nullness(self, expression: Expression) -> tuple[Formula, Formula]:
        self.exact = False
        given = [self.nullness(child) for child in expression.children()]
        error = either(*(fails for _, fails in given))
        null: Formula = Flag(self.name()) if expression.nullable else False
        missing: Formula = False
        if isinstance(expression, Cast):
            null = missing = given[0][0]
        elif isinstance(expression, Call) and FUNCTIONS[expression.function].strict:
            missing = either(*(null for null, _ in given))
            null = missing if FUNCTIONS[expression.function].nullable is any else either(missing, null)
        if fails_itself(expression):
            error = either(error, both(negation(missing), self._fails(expression)))
        return both(null, negation(error)), error

    def _fails(self, expression: Expression) -> Formula:
        """When the operation itself can fail: by a divisor of zero (or of -1, out of range), or who knows when."""
        failed = Flag(self.name())
        if isinstance(expression, Call) and expression.function in ("divide", "modulo") and expression.type.is_integer:
            divisor = self.amount(expression.arguments[1]).sum
            if divisor is not None:
                return either(zero(divisor), both(zero(divisor.plus(Linear.constantly(1))), failed))
        return failed

    # What is known of the rows

    def assume(self, checks: Iterable[Expression]) -> None:
        """CHECK conditions are neither false nor do they fail. Ask them first: they narrow the limits.

        A bound on one column holds also where the column is NULL, because its value means nothing there.
        """
        for condition in checks:
            truth = self.truth(condition)
            whole = both(negation(truth.false), negation(truth.error))
            for part in whole.parts if isinstance(whole, All) else (whole,):
                bound = _bound_unless_null(part)
                if bound is None or not self._narrow(bound):
                    self.definitions.append(part)

    def _narrow(self, bound: Bound) -> bool:
        ((variable, factor),) = bound.terms
        if variable.dense or abs(factor) != 1:
            return False
        low, high = self.limits[variable]
        limit = Fraction(-bound.constant * factor)
        if factor > 0:
            self.limits[variable] = low, limit if high is None else min(high, limit)
        else:
            self.limits[variable] = limit if low is None else max(low, limit), high
        return True

    def with_facts(self, formula: Formula, *, ends_of_types: bool = True) -> Formula:
        """The formula and what is known of what it is about: limits, CHECK conditions, what named numbers are.

        Definitions and CHECK conditions that have nothing to do with it, which rows can satisfy by themselves, are
        left out; so are, if not wanted, the limits that are only the ends of types.
        """
        told = self._connected(formula)
        about = variables((formula, *told))
        return both(formula, *told, *self.bounds_of(about, ends_of_types=ends_of_types))

    def _connected(self, formula: Formula) -> list[Formula]:
        """The definitions that have to do with a formula, directly or through each other."""
        named: dict[str, list[int]] = {}
        names_of = [_names(part) for part in self.definitions]
        for place, names in enumerate(names_of):
            for name in names:
                named.setdefault(name, []).append(place)
        found: set[int] = set()
        waiting = list(_names(formula))
        while waiting:
            places = [place for place in named.pop(waiting.pop(), ()) if place not in found]
            spend(1 + len(places))
            found.update(places)
            for place in places:
                waiting.extend(names_of[place])
        return [part for place, part in enumerate(self.definitions) if place in found]

    def bounds_of(self, numbers: Iterable[Variable], *, ends_of_types: bool = True) -> list[Formula]:
        """The limits of variables as formulas."""
        bounds: list[Formula] = []
        for variable in numbers:
            spend()
            number, ends = Linear.of(variable), self._ends[variable]
            low, high = self.limits[variable]
            if low is not None and (ends_of_types or low != ends[0]):
                bounds.append(at_most_zero(Linear.constantly(low).minus(number)))
            if high is not None and (ends_of_types or high != ends[1]):
                bounds.append(at_most_zero(number.minus(Linear.constantly(high))))
        return bounds

    # How far numbers go

    def span(self, sum_: Linear) -> Range:
        """The least and the greatest that a sum can be, by the limits of its variables."""
        least = most = sum_.constant
        spend(len(sum_.factors))
        for variable, factor in sum_.factors.items():
            low, high = self.limits[variable]
            if low is None or high is None:
                return None, None
            least += factor * (low if factor > 0 else high)
            most += factor * (high if factor > 0 else low)
        return least, most

    def out_of_range(self, sum_: Linear, type: Type) -> Formula:
        """When a value of the sum is none of the type: this is an error."""
        low, high = range_of(type)
        assert low is not None and high is not None, "only numbers and dates are computed"
        least, most = self.span(sum_)
        below = least is None or least < low
        above = most is None or most > high
        return either(
            at_most_zero(sum_.minus(Linear.constantly(low)), strict=True) if below else False,
            at_most_zero(Linear.constantly(high).minus(sum_), strict=True) if above else False,
        )


def _names(formula: Formula) -> frozenset[str]:
    found: set[str] = set()
    for atom in atoms(formula):
        found.update((atom.name,) if isinstance(atom, Flag) else (variable.name for variable, _ in atom.terms))
    return frozenset(found)


def _bound_unless_null(formula: Formula) -> Bound | None:
    """The bound of a formula that says: bounded, or NULL."""
    parts = formula.parts if isinstance(formula, Some) else (formula,)
    bounds = [part for part in parts if isinstance(part, Bound)]
    if len(bounds) != 1 or len(bounds[0].terms) != 1:
        return None
    null = Flag(f"n{bounds[0].terms[0][0].column}", bounds[0].terms[0][0].column)
    return bounds[0] if all(part in (bounds[0], null) for part in parts) else None
