"""What would have to be true for a statement to have an effect by one way: the counterexample to its irrelevance.

    INSERT of a row t       C[t], or what C asks fails
    DELETE WHERE D          D ∧ C, or what C asks fails
    UPDATE SET F WHERE M    M ∧ B[F] ∧ (C ∨ C[F]) ∧ ¬(C ∧ C[F] ∧ what is seen stays the same)

C is what the way asks of the rows that it lays side by side, and C[F] the same of the row as it comes. B[F] says that
the row that comes is a row of the table: NOT NULL and CHECK hold, and no cell fails; otherwise the statement fails and
changes nothing. ¬C is IS NOT TRUE, and to stay the same is IS NOT DISTINCT FROM.

The expressions of a statement read the columns of the table and behind them, if it has any, its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.algebra.expressions import Call, Expression, columns_of, substitute
from tidemark.algebra.types import BOOLEAN, Field
from tidemark.analysis.conditions import Answer, Facts, answer, translate
from tidemark.analysis.formulas import Formula, both, either, negation
from tidemark.analysis.truth import Translation
from tidemark.analysis.ways import Way

Cells = Mapping[int, Expression]
"""The expressions of SET, by the position of the column that they are for."""
Parameters = tuple[Field, ...]
Expressions = tuple[Expression, ...]


@dataclass(frozen=True)
class Effect:
    """A formula that is possible if a statement can have an effect."""

    formula: Formula
    translation: Translation

    @property
    def impossible(self) -> bool:
        return answer(self.formula, self.translation) is Answer.NO


def of_inserting(way: Way, cells: Cells, parameters: Parameters = ()) -> Effect:
    """All cells of the row must be given, as constants or expressions of parameters."""
    placed = _Placed(way, parameters)
    asked = placed.coming(way.conditions, cells)
    translation = translate(asked, placed.facts)
    return Effect(translation.true_or_failing(asked), translation)


def of_deleting(way: Way, where: Expression, parameters: Parameters = ()) -> Effect:
    placed = _Placed(way, parameters)
    chosen = placed.statement(where)
    translation = translate((chosen, *way.conditions), placed.facts)
    return Effect(both(translation.truth(chosen).true, translation.true_or_failing(way.conditions)), translation)


def is_changed(way: Way, cells: Cells) -> bool:
    """Whether the way asks or sees any of the columns that are set."""
    read = (*way.conditions, *(way.outputs if way.seen is None else way.seen), *way.watched)
    return any(way.own + i in columns_of(expression) for expression in read for i in cells)


def of_updating(way: Way, table: Facts, where: Expression, cells: Cells, parameters: Parameters = ()) -> Effect:
    placed = _Placed(way, parameters)
    chosen, asked = placed.statement(where), placed.coming(way.conditions, cells)
    checks = placed.coming(tuple(placed.statement(check) for check in table.checks), cells)
    new = {i: placed.statement(cell) for i, cell in cells.items()}
    seen = (*way.watched, *way.outputs) if way.seen is None else way.seen
    pairs = [(old, as_it_comes) for old, as_it_comes in zip(seen, placed.coming(seen, cells), strict=True)]
    same = tuple(Call("is_not_distinct", pair, BOOLEAN, nullable=False) for pair in pairs if pair[0] != pair[1])
    translation = translate((chosen, *way.conditions, *asked, *checks, *new.values(), *same), placed.facts)
    lower = len(way.conditions) if way.seen is None else way.lower
    alike = [translation.truth(part).true for part in (*way.conditions[:lower], *asked[:lower], *same)]
    formula = both(
        translation.truth(chosen).true,
        *(_is_cell(translation, cell, table.columns[i]) for i, cell in new.items()),
        *(_holds(translation, check) for check in checks),
        either(translation.true_or_failing(way.conditions), translation.true_or_failing(asked)),
        negation(both(*alike)),
    )
    return Effect(formula, translation)


def _is_cell(translation: Translation, cell: Expression, column: Field) -> Formula:
    """The cell can stand in the column: it does not fail, and is NULL only if that is allowed."""
    null, error = translation.nullness(cell)
    return both(negation(error), True if column.nullable else negation(null))


def _holds(translation: Translation, check: Expression) -> Formula:
    truth = translation.truth(check)
    return both(negation(truth.false), negation(truth.error))


class _Placed:
    """Where the columns of the table and the parameters of the statement lie among the rows of a way."""

    def __init__(self, way: Way, parameters: Parameters = ()) -> None:
        self.facts = way.facts.beside(Facts(parameters))
        self._way, self._columns = way, self.facts.all_columns()
        self._own = self._columns[way.own : way.own + way.width] + self._columns[len(way.facts.columns) :]

    def statement(self, expression: Expression) -> Expression:
        """An expression of the statement, over the rows of the way."""
        return substitute(expression, self._own)

    def coming(self, expressions: Expressions, cells: Cells) -> Expressions:
        """Expressions over the rows of the way, of the row as it comes."""
        inputs: list[Expression] = list(self._columns)
        for index, cell in cells.items():
            inputs[self._way.own + index] = self.statement(cell)
        return tuple(substitute(expression, tuple(inputs)) for expression in expressions)
