"""What the stored columns tell of the rows behind them: the extended attributes, and conditions that can be asked of
them.

Every row of a term satisfies its conditions C. So a column is known from the stored ones not only if it is one of
them, but also if C makes it equal to something known: these are the *extended attributes* A⁺ (Definition 4.5), each
with the expression over stored columns that gives its value. And a condition on columns that cannot be seen can be
asked of stored rows, if C decides what cannot be seen of it: hidden columns are *computationally nonessential* in it
with respect to C (Definition 4.3), all of them together. A condition over A⁺ that is true exactly where the other is,
wherever C is, proves that and needs no surrogate values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    columns_of,
    conjunction,
    conjuncts,
    shift,
    transform,
)
from tidemark.algebra.plans import Scan
from tidemark.algebra.types import BOOLEAN, Schema
from tidemark.analysis.autonomy.terms import Term, is_identifying
from tidemark.analysis.conditions import Answer, eliminated, implies, never_true
from tidemark.analysis.facts import Facts

FALSE = Literal(False, BOOLEAN)
Checks = Mapping[str, tuple[Expression, ...]]
"""The CHECK conditions of relations, by name: no row of theirs makes one false."""


@dataclass(frozen=True)
class Sight:
    """A term whose first outputs are the stored columns, what is known of its leaves, and what else is true of the rows
    that are asked about."""

    term: Term
    stored: Schema
    facts: Facts
    more: tuple[Expression, ...] = ()

    @staticmethod
    def of(term: Term, stored: Schema, checks: Checks) -> Sight:
        facts = Facts()
        for leaf in term.leaves:
            known = checks.get(leaf.relation, ()) if isinstance(leaf, Scan) else ()
            facts = facts.beside(Facts.of(leaf.schema, known))
        return Sight(term, stored, facts)

    def facts_of(self, place: int) -> Facts:
        """What is known of the rows of one leaf alone."""
        start, columns = self.term.offset(place), self.term.columns_at(place)
        own = tuple(shift(check, -start) for check in self.facts.checks if columns_of(check) <= columns)
        return Facts(self.term.leaves[place].schema.fields, own)

    def assuming(self, *conditions: Expression) -> Sight:
        """The same for those rows for which the conditions hold, too."""
        return replace(self, more=self.more + tuple(part for c in conditions for part in conjuncts(c)))

    @cached_property
    def premise(self) -> Expression:
        """What is true of every row that is asked about."""
        return conjunction(self.term.conditions + self.more)

    @cached_property
    def extended(self) -> dict[int, Expression]:
        """A⁺: columns of the term, each with the expression over stored columns that gives its value."""
        known: dict[int, Expression] = {}
        for place, field in enumerate(self.stored.fields):
            output = self.term.outputs[place] if place < len(self.term.outputs) else None
            if isinstance(output, Column):
                known.setdefault(output.index, Column(place, field.name, field.type, field.nullable))
        grown = True
        while grown:
            grown = False
            for condition in self.term.conditions + self.more:
                for column, value in _equations(condition):
                    if column not in known and columns_of(value) <= known.keys():
                        known[column] = with_values(value, known)
                        grown = True
        return known

    def can_see(self, expression: Expression) -> bool:
        return columns_of(expression) <= self.extended.keys()

    def seen(self, expression: Expression) -> Expression:
        """An expression of extended attributes, over stored columns."""
        return with_values(expression, self.extended)

    def asked(self, condition: Expression) -> Expression | None:
        """A condition over stored columns that is true exactly where the given one is; None if none is found."""
        simple = self._decided(condition)
        if self.can_see(simple):
            return self.seen(simple)
        weaker = eliminated(conjunction((self.premise, condition)), frozenset(self.extended), self.facts)
        if weaker is None or not self.implies(weaker, condition):
            return None
        return self.seen(weaker)

    def _decided(self, condition: Expression) -> Expression:
        """The condition with each part that cannot be seen replaced by what it is for all rows, where that is known."""
        match condition:
            case Call(function="and" | "or" as connective, arguments=arguments):
                parts = [self._decided(part) for part in arguments]
                neutral, decisive = (TRUE, FALSE) if connective == "and" else (FALSE, TRUE)
                if decisive in parts:
                    return decisive
                left = tuple(part for part in parts if part != neutral)
                return neutral if not left else left[0] if len(left) == 1 else condition.with_children(left)
        if self.can_see(condition):
            return condition
        if self.implies(TRUE, condition):
            return TRUE
        if never_true(conjunction((self.premise, condition)), self.facts):
            return FALSE
        return condition

    def implies(self, condition: Expression, conclusion: Expression) -> bool:
        """Whether it is proved that the conclusion is true where the condition is, among the rows asked about."""
        return implies(conjunction((self.premise, condition)), conclusion, self.facts) is Answer.YES


def _equations(condition: Expression) -> list[tuple[int, Expression]]:
    """The columns whose value a true condition gives, each with that value."""
    match condition:
        case Call(function="eq" | "is_not_distinct", arguments=(left, right)):
            found = []
            for side, other in ((left, right), (right, left)):
                column, value = _solved(side, other)
                if column is not None and column.type == value.type and is_identifying(column.type):
                    found.append((column.index, value))
            return found
        case Call(function="is_null", arguments=(Column() as column,)):
            return [(column.index, Literal(None, column.type))]
    return []


_INVERSE = {"add": "subtract", "subtract": "add"}


def _solved(side: Expression, value: Expression) -> tuple[Column | None, Expression]:
    """The column that one side of an equation is, or has a constant added to, and its value."""
    match side:
        case Column():
            return side, value
        case Call(function="add" | "subtract" as operator, arguments=(Column() as column, Literal() as constant)):
            if column.type == side.type == constant.type and column.type.is_integer:
                return column, Call(_INVERSE[operator], (value, constant), side.type, value.nullable)
    return None, value


def with_values(expression: Expression, known: Mapping[int, Expression]) -> Expression:
    """The expression with each column replaced by the expression that gives its value."""
    return transform(expression, lambda e: known[e.index] if isinstance(e, Column) else None)


def after(expression: Expression, cells: tuple[Expression, ...], offset: int) -> Expression:
    """The expression over a row as an UPDATE leaves it: the columns from ``offset`` on have their new values."""
    width = len(cells)
    moved = tuple(_moved(cell, offset) for cell in cells)
    return transform(
        expression,
        lambda e: moved[e.index - offset] if isinstance(e, Column) and offset <= e.index < offset + width else None,
    )


def _moved(expression: Expression, offset: int) -> Expression:
    return transform(expression, lambda e: replace(e, index=e.index + offset) if isinstance(e, Column) else None)
