"""Nonessential columns by Blakeley's definition, which is easy to believe and asks for a proof about pairs of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidemark.algebra.expressions import Call, Column, Expression, conjunction, transform
from tidemark.algebra.types import BOOLEAN
from tidemark.analysis.autonomy.visible import Sight
from tidemark.analysis.conditions import Answer, implies


def is_nonessential(sight: Sight, condition: Expression) -> bool:
    """Definition 4.3, as it stands: of two rows that look alike, both or none make the condition true.

    This is what ``Sight.asked`` finds a condition for, in most cases.
    """
    width, steady = len(sight.facts.columns), sight.extended.keys()

    def primed(expression: Expression) -> Expression:
        return transform(
            expression,
            lambda e: replace(e, index=e.index + width) if isinstance(e, Column) and e.index not in steady else None,
        )

    both = conjunction((sight.premise, primed(sight.premise), *_alike(sight, primed), condition))
    return implies(both, primed(condition), sight.facts.beside(sight.facts)) is Answer.YES


def _alike(sight: Sight, primed: Callable[[Expression], Expression]) -> tuple[Expression, ...]:
    """That the stored columns which are computed are the same in both rows."""
    outputs = sight.term.outputs[: len(sight.stored.fields)]
    return tuple(
        Call("is_not_distinct", (output, primed(output)), BOOLEAN, nullable=False)
        for output in outputs
        if not sight.can_see(output)
    )
