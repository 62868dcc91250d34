"""Statements that cannot matter to a plan, whatever the tables hold (Theorems 3.1 to 3.4).

A statement is irrelevant if it has no effect by any way in which its table reaches the plan. Each occurrence of the
table is a way of its own, with the others in the state before or after. For the views of the thesis, in which no table
occurs twice, the test is also necessary, as far as conditions are decided. What would have to be true for an effect:

    INSERT of a row t       C[t], or what C asks fails
    DELETE WHERE D          D ∧ C, or what C asks fails
    UPDATE SET F WHERE M    M ∧ B[F] ∧ (C ∨ C[F]) ∧ ¬(C ∧ C[F] ∧ what is seen stays the same)

C is what the way asks of the rows that it lays side by side, and C[F] the same of the row as it comes. B[F] says that
the row that comes is a row of the table: NOT NULL and CHECK hold, and no cell fails; otherwise the statement fails and
changes nothing. ¬C is IS NOT TRUE, and to stay the same is IS NOT DISTINCT FROM.

The expressions of a statement read the columns of the table and behind them, if it has any, its parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    Value,
    columns_of,
    size_of,
    substitute,
    substitute_all,
)
from tidemark.algebra.plans import Filter, Given, Plan, Project, Scan
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import BOOLEAN, Field
from tidemark.analysis.budget import MOST_FOR_A_QUESTION, steps_for, within
from tidemark.analysis.conditions import Answer, Facts, answer, translate
from tidemark.analysis.formulas import Formula, both, either, negation
from tidemark.analysis.relevance.filters import Influence
from tidemark.analysis.relevance.ways import Way
from tidemark.analysis.rendering import needs, plain
from tidemark.analysis.truth import Translation

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
        ask = partial(answer, self.formula, self.translation)
        return within(MOST_FOR_A_QUESTION, ask, Answer.UNKNOWN) is Answer.NO


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
        return substitute_all(expressions, tuple(inputs))


MOST_ROWS: Final = 100
"""So many inserted rows are looked at one by one, beyond the filter."""


@dataclass(frozen=True)
class Verdict:
    """Whether a statement is proved to be irrelevant, and why."""

    irrelevant: bool
    reason: str


def insert_verdict(influence: Influence, rows: Sequence[tuple[Value, ...]], *, is_proved: bool = False) -> Verdict:
    """INSERT of constant rows: irrelevant if none of them can reach the plan; ``is_proved`` if that is known."""
    if influence.ways is None:
        return _relevant(influence)
    passing = [row for row in rows if influence.filter is None or value_of(influence.filter, row) is True]
    if len(passing) > MOST_ROWS:
        return _relevant(influence)
    given = [dict(enumerate(map(Literal, row, (f.type for f in influence.facts.columns)))) for row in passing]
    if not is_proved and not _none(
        (of_inserting(way, cells) for cells in given for way in influence.ways), influence.parts
    ):
        return _relevant(influence)
    return Verdict(True, f"the view needs {needs(influence.ways)}, no inserted row can meet that")


def delete_verdict(influence: Influence, where: Expression, *, is_proved: bool = False) -> Verdict:
    """DELETE: irrelevant if no row that it deletes can have reached the plan."""
    if influence.ways is None:
        return _relevant(influence)
    if not is_proved and not _none(
        (of_deleting(way, where) for way in influence.ways), influence.parts + size_of(where)
    ):
        return _relevant(influence)
    return Verdict(True, f"the view needs {needs(influence.ways)}, the statement deletes only {plain(where)}")


def update_verdict(influence: Influence, where: Expression, cells: Cells, *, is_proved: bool = False) -> Verdict:
    """UPDATE: irrelevant if each row, as it leaves and as it comes, has no effect or the same."""
    if influence.ways is None:
        return _relevant(influence)
    changed = changed_cells(cells)
    asking = [way for way in influence.ways if is_changed(way, changed)]
    if not asking:
        return Verdict(True, "the view does not read the columns that the statement sets")
    if not is_proved and not _none(
        (of_updating(way, influence.facts, where, changed) for way in asking),
        influence.parts + size_of(where) + sum(map(size_of, changed.values())),
    ):
        return _relevant(influence)
    meets = f"rows that the statement updates, {plain(where)}, meet that as before or not at all"
    return Verdict(True, f"the view needs {needs(asking)}, {meets}")


def changed_cells(cells: Cells) -> dict[int, Expression]:
    """Those of SET that do not leave their column as it was."""
    return {i: cell for i, cell in cells.items() if not (isinstance(cell, Column) and cell.index == i)}


def _none(effects: Iterable[Effect], parts: int) -> bool:
    """Whether none of the effects by these ways is possible, as far as that is proved within their steps."""
    return within(steps_for(parts), lambda: all(effect.impossible for effect in effects), False)


def condition_of(rows: Plan) -> Expression | None:
    """The WHERE of a DELETE or an UPDATE, given the plan of the rows that it picks; None if it asks other tables."""
    match rows:
        case Scan():
            return TRUE
        case Filter(input=Scan(), predicate=predicate):
            return predicate
    return None


def cells_of(coming: Plan) -> Cells | None:
    """The SET of an UPDATE, given the plan that makes of each row the one that comes; None if it asks tables."""
    if isinstance(coming, Project) and isinstance(coming.input, Given):
        return dict(enumerate(coming.expressions))
    return None


def _relevant(influence: Influence) -> Verdict:
    return Verdict(False, influence.reason)
