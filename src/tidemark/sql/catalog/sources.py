"""What is defined about sources: where they are, and which table follows which of their relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.algebra.types import Type


@dataclass(frozen=True)
class SourceDefinition:
    """A source as CREATE SOURCE defines it."""

    name: str
    kind: str
    options: Mapping[str, str]
    text: str
    dialect: str = "postgres"

    def is_same(self, other: SourceDefinition) -> bool:
        """Whether it means the same, however it is written."""
        return (self.kind, dict(self.options)) == (other.kind, dict(other.options))


@dataclass(frozen=True)
class Origin:
    """Where the rows of a table come from: a relation of a source. ``whole``: all columns that it had at the creation,
    and not those that a list names."""

    source: str
    relation: str
    whole: bool

    def __str__(self) -> str:
        relation = self.relation.replace("'", "''")
        return f"SOURCE {self.source} RELATION '{relation}'"


@dataclass(frozen=True)
class SourceColumn:
    """A column as the source has it: its type there, and the one that holds all its values here, if there is one.

    ``accepted`` are further types that it can be taken as, if a table asks for one of them by name."""

    name: str
    told: str
    type: Type | None
    nullable: bool = True
    accepted: tuple[Type, ...] = ()
