"""Statements that change one relation, as far as an analysis is concerned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidemark.algebra.expressions import TRUE, Column, Expression


@dataclass(frozen=True)
class Insertion:
    """INSERT INTO relation …: rows come, whatever they are."""

    relation: str


@dataclass(frozen=True)
class Deletion:
    """DELETE FROM relation WHERE …: a condition over the columns of the relation."""

    relation: str
    where: Expression = TRUE


@dataclass(frozen=True)
class Update:
    """UPDATE relation SET … WHERE …: for each column of the relation its new value, over the old ones."""

    relation: str
    cells: tuple[Expression, ...]
    where: Expression = TRUE

    @property
    def changed(self) -> frozenset[int]:
        """The columns that get a new value."""
        return frozenset(i for i, cell in enumerate(self.cells) if not (isinstance(cell, Column) and cell.index == i))


Statement: TypeAlias = Insertion | Deletion | Update
