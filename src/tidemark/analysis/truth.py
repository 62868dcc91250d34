"""What a condition of SQL says, as formulas: when it is true, when it is false, and when it fails; else it is NULL.

Errors are those of the definitions: AND and OR go from left to right and stop at what decides them. So a condition
such as ``a <> 0 AND 10 / a > 2`` never fails here for ``a = 0``, and integers do not wrap around.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidemark.algebra.expressions import Call, Case, Column, Expression, Literal
from tidemark.algebra.types import BOOLEAN, Kind
from tidemark.analysis.amounts import Amounts
from tidemark.analysis.budget import spend
from tidemark.analysis.facts import Facts
from tidemark.analysis.formulas import Flag, Formula, at_most_zero, both, either, negation, zero
from tidemark.analysis.unknowns import Truth

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_OPPOSITES = {"ne": "eq", "gt": "le", "ge": "lt"}


class Translation(Amounts):
    """Translates the conditions of one question; the given expressions are all that will be asked about."""

    def __init__(self, facts: Facts, expressions: Iterable[Expression]) -> None:
        super().__init__(facts, expressions)
        self._amounts = {}
        self._truths: dict[Expression, Truth] = {}

    def truth(self, condition: Expression) -> Truth:
        known = self._truths.get(condition)
        if known is None:
            spend()
            known = self._truths[condition] = self._truth(self.folded(condition))
        return known

    def true_or_failing(self, conditions: tuple[Expression, ...]) -> Formula:
        """When all of some conditions that are asked one after the other are true, or one fails that sees the row.

        A condition sees the rows for which those before it are true. Within one condition NULL keeps nothing from
        failing: engines evaluate ``NULL AND 1 / 0 = 1``.
        """
        result: Formula = True
        for condition in reversed(conditions):
            truth = self.truth(condition)
            # e ∨ (¬e ∧ rest) is e ∨ rest.
            passed = True if self.is_true_unless_failing(condition) else truth.true
            result = either(truth.error, both(passed, result))
        return result

    def is_true_unless_failing(self, condition: Expression) -> bool:
        truth = self.truth(condition)
        return truth.false is False and truth.true == negation(truth.error)

    def _truth(self, condition: Expression) -> Truth:
        match condition:
            case Literal(value=value):
                return Truth(value is True, value is False)
            case Column(index=index):
                holds, there = Flag(f"b{index}", index), negation(self.column_null(index))
                return Truth(both(holds, there), both(negation(holds), there))
            case Case(branches=branches, default=default):
                return self._chosen_truth(branches, default)
            case Call(function="and", arguments=arguments):
                return _conjunction([self.truth(argument) for argument in arguments])
            case Call(function="or", arguments=arguments):
                return _opposite(_conjunction([_opposite(self.truth(argument)) for argument in arguments]))
            case Call(function="not", arguments=(argument,)):
                return _opposite(self.truth(argument))
            case Call(function="is_null" | "is_not_null" as name, arguments=(argument,)):
                null, error = self.nullness(argument)
                answer = Truth(both(null, negation(error)), both(negation(null), negation(error)), error)
                return answer if name == "is_null" else _opposite(answer)
            case Call(function="is_true" | "is_not_true" | "is_false" | "is_not_false" as name, arguments=(argument,)):
                asked = self.truth(argument)
                held = asked.true if name.endswith("true") else asked.false
                answer = Truth(held, both(negation(held), negation(asked.error)), asked.error)
                return _opposite(answer) if "not" in name else answer
            case Call(function="in_list", arguments=(first, *others)):
                return self._in_list(first, others)
            case Call(function=name, arguments=(left, right)) if name in _COMPARISONS:
                return self._compared(name, left, right)
            case Call(function="is_distinct" | "is_not_distinct" as name, arguments=(left, right)):
                same = self._same(left, right)
                return same if name == "is_not_distinct" else _opposite(same)
        return self.unknown_truth(condition)

    def _chosen_truth(self, branches: tuple[tuple[Expression, Expression], ...], default: Expression) -> Truth:
        before: Formula = True  # no branch so far was taken, and none failed
        parts: list[tuple[Formula, Truth]] = []
        error: Formula = False
        for condition, value in branches:
            asked = self.truth(condition)
            parts.append((both(before, asked.true), self.truth(value)))
            error = either(error, both(before, asked.error))
            before = both(before, negation(asked.true), negation(asked.error))
        parts.append((before, self.truth(default)))
        return Truth(
            either(*(both(taken, value.true) for taken, value in parts)),
            either(*(both(taken, value.false) for taken, value in parts)),
            either(error, *(both(taken, value.error) for taken, value in parts)),
        )

    def _in_list(self, first: Expression, others: list[Expression]) -> Truth:
        equal = [self.truth(Call("eq", (first, other), BOOLEAN)) for other in others]
        error = either(*(part.error for part in equal))
        found = both(either(*(part.true for part in equal)), negation(error))
        return Truth(found, both(*(part.false for part in equal)), error)

    def _compared(self, name: str, left: Expression, right: Expression) -> Truth:
        if name in _OPPOSITES:
            return _opposite(self.truth(Call(_OPPOSITES[name], (left, right), BOOLEAN)))
        if left.type.kind is Kind.BOOLEAN:
            return self._compared_truths(name, self.truth(left), self.truth(right))
        here, beyond = self.amount(left), self.amount(right)
        if here.sum is None or beyond.sum is None:
            return self.unknown_truth(Call(name, (left, right), BOOLEAN, left.nullable or right.nullable))
        difference = here.sum.minus(beyond.sum)
        held = zero(difference) if name == "eq" else at_most_zero(difference, strict=name == "lt")
        there = both(here.there, beyond.there)
        return Truth(both(held, there), both(negation(held), there), either(here.error, beyond.error))

    def _compared_truths(self, name: str, left: Truth, right: Truth) -> Truth:
        """FALSE is less than TRUE."""
        equal = either(both(left.true, right.true), both(left.false, right.false))
        less, greater = both(left.false, right.true), both(left.true, right.false)
        true = {"eq": equal, "lt": less, "le": either(equal, less)}[name]
        false = {"eq": either(less, greater), "lt": either(equal, greater), "le": greater}[name]
        return Truth(true, false, either(left.error, right.error))

    def _same(self, left: Expression, right: Expression) -> Truth:
        """IS NOT DISTINCT FROM: equal, or both NULL."""
        equal = self.truth(Call("eq", (left, right), BOOLEAN))
        (here, error), (beyond, later) = self.nullness(left), self.nullness(right)
        fails = either(error, later)
        same = both(either(equal.true, both(here, beyond)), negation(fails))
        return Truth(same, both(negation(same), negation(fails)), fails)


def _opposite(truth: Truth) -> Truth:
    return Truth(truth.false, truth.true, truth.error)


def _conjunction(parts: list[Truth]) -> Truth:
    """AND from left to right: the first false part ends it, and a part that fails fails the whole."""
    undecided: Formula = True  # no part so far is false, and none failed
    false: Formula = False
    error: Formula = False
    for part in parts:
        false = either(false, both(undecided, part.false) if error is not False else part.false)
        error = either(error, both(undecided, part.error))
        undecided = both(undecided, negation(part.false), negation(part.error))
    return Truth(both(*(part.true for part in parts)), false, error)
