"""What an expression of SQL amounts to: sums of columns, and numbers that definitions say more about.

Sums, differences, products with a constant and casts that keep the number are exact, with their overflows. What chooses
among values (CASE, COALESCE, GREATEST, LEAST, NULLIF, ABS) and what divides by a constant becomes a number with a name,
and formulas that define it. They define it in every case, so they may be assumed whatever is asked.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from tidemark.algebra.expressions import Call, Case, Cast, Column, Expression, Literal
from tidemark.algebra.functions import implicit_cast_allowed
from tidemark.algebra.types import MAX_PRECISION, Kind, Type, decimal
from tidemark.analysis.budget import spend
from tidemark.analysis.formulas import Formula, Linear, at_most_zero, both, either, negation, zero
from tidemark.analysis.unknowns import DAY, Amount, Unknowns, has_numbers, number_of

_WIDEST: Final = decimal(MAX_PRECISION, 0)
Option = tuple[Formula, Amount]
"""A value, and when it is the one that is taken."""


class Amounts(Unknowns):
    """Translates expressions that are not conditions."""

    _amounts: dict[Expression, Amount]

    def amount(self, expression: Expression) -> Amount:
        known = self._amounts.get(expression)
        if known is None:
            spend()
            known = self._amounts[expression] = self._amount(self.folded(expression))
        return known

    def _amount(self, expression: Expression) -> Amount:
        if expression.type.kind is Kind.BOOLEAN:
            return Amount(None, *self.nullness(expression))
        match expression:
            case Column(index=index):
                return Amount(self.column_value(index), self.column_null(index))
            case Literal(value=None, type=type):
                return Amount(Linear.constantly(0) if has_numbers(type) else None, True)
            case Literal(value=value, type=type) if has_numbers(type):
                return Amount(Linear.constantly(number_of(value, self.ranks)), False)
            case Literal():
                self.exact = False
                return Amount(None, False)
            case Cast(argument=argument, type=type):
                return self._cast(expression, self.amount(argument), argument.type, type)
            case Case(branches=branches, default=default):
                return self._case(branches, default)
            case Call(arguments=arguments):
                return self._call(expression, arguments)
        return self.unknown_amount(expression)

    def _call(self, call: Call, arguments: tuple[Expression, ...]) -> Amount:
        given = [self.amount(argument) for argument in arguments]
        sums = [amount.sum for amount in given if amount.sum is not None]
        if len(sums) < len(given) or not has_numbers(call.type):
            return self.unknown_amount(call)
        match call.function, sums:
            case "add", (left, right):
                return self._computed(left.plus(right), given, call.type)
            case "subtract", (left, right):
                return self._computed(left.minus(right), given, call.type)
            case "negate", (only,):
                return self._computed(only.times(-1), given, call.type)
            case "multiply", (left, right) if not left.factors or not right.factors:
                factor, rest = (left, right) if not left.factors else (right, left)
                return self._computed(rest.times(factor.constant), given, call.type)
            case ("divide" | "modulo") as name, (left, right) if _whole_division(call) and not right.factors:
                if right.constant:
                    quotient = self._quotient(left, right.constant)
                    result = quotient if name == "divide" else left.plus(quotient, -right.constant)
                    return self._computed(result, given, call.type)
            case "coalesce", _:
                return self._coalesce(given, call.type)
            case "nullif", (left, right):
                equal = both(zero(left.minus(right)), given[0].there, given[1].there)
                error = either(given[0].error, given[1].error)
                return Amount(left, both(either(given[0].null, equal), negation(error)), error)
            case "greatest", _:
                return self._extremum(given, call.type, 1)
            case "least", _:
                return self._extremum(given, call.type, -1)
            case "abs", (only,):
                negative = at_most_zero(only, strict=True)
                turned = Amount(only.times(-1), given[0].null, given[0].error)
                wide = decimal(MAX_PRECISION, call.type.scale)  # that of the least integer is none of its type
                larger = self._chosen([(negative, turned), (negation(negative), given[0])], wide)
                assert larger.sum is not None
                return self._computed(larger.sum, [larger], call.type)
        return self.unknown_amount(call)

    def _computed(self, sum_: Linear, given: list[Amount], type: Type) -> Amount:
        """The result of a strict operation, which fails if it is out of the range of its type."""
        error = either(*(amount.error for amount in given))
        null = both(either(*(amount.null for amount in given)), negation(error))
        overflow = both(self.out_of_range(sum_, type), *(amount.there for amount in given))
        return Amount(sum_, null, either(error, overflow))

    def _cast(self, cast: Expression, given: Amount, source: Type, target: Type) -> Amount:
        if given.null is True:
            return Amount(Linear.constantly(0) if has_numbers(target) else None, True)
        if source == target:
            return given
        if given.sum is None or not has_numbers(target):
            return self.unknown_amount(cast)
        if source.is_exact and target.is_exact:
            if source.scale > target.scale:
                return self.unknown_amount(cast)
            return given if implicit_cast_allowed(source, target) else self._computed(given.sum, [given], target)
        if (source.kind, target.kind) == (Kind.DATE, Kind.TIMESTAMP):
            return Amount(given.sum.times(DAY), given.null, given.error)
        if (source.kind, target.kind) == (Kind.TIMESTAMP, Kind.DATE):
            day = self.number(target)
            since = given.sum.plus(day, -DAY)  # from 0 to less than a day
            full = since.minus(Linear.constantly(DAY))
            self.definitions += [at_most_zero(since.times(-1)), at_most_zero(full, strict=True)]
            return Amount(day, given.null, given.error)
        return self.unknown_amount(cast)

    def _quotient(self, sum_: Linear, divisor: Fraction) -> Linear:
        """Toward zero: |sum| is |divisor| · |quotient| and a rest that is smaller than |divisor|."""
        quotient = self.number(_WIDEST)  # the least integer by -1 is none of its type, which is an error
        signed = quotient.times(1 if divisor > 0 else -1)
        rest = sum_.plus(signed, -abs(divisor))
        small = Linear.constantly(abs(divisor))
        upward = both(
            at_most_zero(sum_.times(-1)), at_most_zero(rest.times(-1)), at_most_zero(rest.minus(small), strict=True)
        )
        downward = both(
            at_most_zero(sum_, strict=True),
            at_most_zero(rest),
            at_most_zero(rest.times(-1).minus(small), strict=True),
        )
        self.definitions.append(either(upward, downward))
        return quotient

    def _case(self, branches: tuple[tuple[Expression, Expression], ...], default: Expression) -> Amount:
        before: Formula = True
        failed: Formula = False
        options: list[Option] = []
        for condition, value in branches:
            asked = self.truth(condition)
            options.append((both(before, asked.true), self.amount(value)))
            failed = either(failed, both(before, asked.error))
            before = both(before, negation(asked.true), negation(asked.error))
        result = self._chosen([*options, (before, self.amount(default))], default.type)
        return Amount(result.sum, result.null, either(failed, result.error))

    def _coalesce(self, given: list[Amount], type: Type) -> Amount:
        before: Formula = True
        options: list[Option] = []
        for amount in given:
            options.append((both(before, negation(amount.null)), amount))
            before = both(before, amount.null)
        return self._chosen([*options, (before, Amount(Linear.constantly(0), True))], type)

    def _extremum(self, given: list[Amount], type: Type, sign: int) -> Amount:
        """The first of those that are not NULL which no other exceeds."""
        error = either(*(amount.error for amount in given))
        before: Formula = negation(error)
        options: list[Option] = []
        for amount in given:
            exceeded = [both(negation(o.null), at_most_zero(_gap(o, amount).times(-sign), strict=True)) for o in given]
            best = both(before, negation(amount.null), *map(negation, exceeded))
            options.append((best, amount))
            before = both(before, negation(best))
        result = self._chosen([*options, (before, Amount(Linear.constantly(0), True))], type)
        return Amount(result.sum, both(result.null, negation(error)), either(error, result.error))

    def _chosen(self, options: list[Option], type: Type) -> Amount:
        """A number that is the one of the option that is taken; exactly one is, or what chooses has failed."""
        null: Formula = False
        error: Formula = False
        for taken, amount in options:
            null = either(null, both(taken, amount.null))
            error = either(error, both(taken, amount.error))
        if not has_numbers(type) or any(amount.sum is None for _, amount in options):
            self.exact = False
            return Amount(None, null, error)
        chosen = self.number(type)
        for taken, amount in options:
            assert amount.sum is not None
            self.definitions.append(either(negation(taken), amount.null, amount.error, zero(chosen.minus(amount.sum))))
        return Amount(chosen, null, error)


def _gap(other: Amount, amount: Amount) -> Linear:
    assert other.sum is not None and amount.sum is not None
    return other.sum.minus(amount.sum)


def _whole_division(call: Call) -> bool:
    return call.type.is_integer and all(argument.type.is_integer for argument in call.arguments)
