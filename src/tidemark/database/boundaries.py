"""Boundaries that are kept with the views: for which constants statements are irrelevant (BLAKELEY 8.2).

What a view and a shape of statements give is worked out once, when a statement of the shape is first asked about, and
stays with the view: other statements of the shape only compare their constants with it. It goes with the view, with its
definition and with what is known of the tables below.

A boundary is certain where it says irrelevant. Elsewhere it says nothing: it may be narrower than what can be proved of
one statement.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidemark.algebra.expressions import Expression
from tidemark.algebra.plans import Plan, relations_of
from tidemark.analysis.facts import Facts
from tidemark.analysis.relevance import Influence, influence
from tidemark.analysis.shapes import Shape, boundary_of

MOST_SHAPES: Final = 256


@dataclass
class ViewBoundaries:
    """What is kept with one view: its definition over the tables, and what is known of them, are what it rests on."""

    plan: Plan
    facts: Mapping[str, Facts]
    shapes: dict[Shape, Expression | None] = field(default_factory=dict)
    _influences: dict[str, Influence] = field(default_factory=dict)

    def influence(self, table: str) -> Influence:
        """How the rows of a table reach the view."""
        if table not in self._influences:
            self._influences[table] = influence(self.plan, table, self.facts)
        return self._influences[table]

    def boundary(self, shape: Shape) -> Expression | None:
        """The condition on the constants within which statements of the shape are irrelevant to the view."""
        if shape not in self.shapes:
            if len(self.shapes) >= MOST_SHAPES:
                del self.shapes[next(iter(self.shapes))]
            self.shapes[shape] = boundary_of(self.influence(shape.relation), shape)
        return self.shapes[shape]


class Boundaries:
    """Those of all views."""

    def __init__(self) -> None:
        self._views: dict[str, ViewBoundaries] = {}

    def of(self, view: str, plan: Plan, facts: Mapping[str, Facts]) -> ViewBoundaries:
        """What is kept with a view, given its definition over the tables and what is known of these."""
        below = {name: facts[name] for name in relations_of(plan) if name in facts}
        kept = self._views.get(view)
        if kept is None or kept.plan != plan or kept.facts != below:
            kept = self._views[view] = ViewBoundaries(plan, below)
        return kept

    def keep_only(self, names: Container[str]) -> None:
        """Drop what belongs to views that are there no more."""
        self._views = {name: kept for name, kept in self._views.items() if name in names}
