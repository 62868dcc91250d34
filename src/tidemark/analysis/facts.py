"""What is known of the rows that a condition is asked about."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.algebra.expressions import Column, Expression, shift
from tidemark.algebra.types import Field, Schema


@dataclass(frozen=True)
class Facts:
    """The columns that a condition may read, by position, and the CHECK conditions that are never false of them.

    Columns of several rows lie side by side: those of one relation, then those of the next. A second row of the same
    relation (the primed attributes of the papers) is just another relation beside the first.

    >>> from tidemark.algebra.types import INT
    >>> r, s = Facts((Field("a", INT, nullable=False),)), Facts((Field("b", INT),))
    >>> [field.name for field in r.beside(s).columns], r.beside(s).column(1).index
    (['a', 'b'], 1)
    """

    columns: tuple[Field, ...] = ()
    checks: tuple[Expression, ...] = ()

    @staticmethod
    def of(schema: Schema, checks: tuple[Expression, ...] = ()) -> Facts:
        """The facts about one row of a relation: its types, NOT NULL, and its CHECK conditions."""
        return Facts(schema.fields, checks)

    def beside(self, other: Facts) -> Facts:
        """These columns, then the other's."""
        moved = tuple(shift(check, len(self.columns)) for check in other.checks)
        return Facts(self.columns + other.columns, self.checks + moved)

    def column(self, index: int) -> Column:
        field = self.columns[index]
        return Column(index, field.name, field.type, field.nullable)

    def all_columns(self) -> tuple[Column, ...]:
        return tuple(self.column(index) for index in range(len(self.columns)))
