"""What a source is: a system that others write to, and whose relations are followed here.

A source tells what a relation holds at a position (``snapshot``), what has changed between two positions (``changes``),
and hears how far it was followed (``acknowledge``). Whoever follows it commits a position with the rows up to it, in
one transaction: a run that is killed repeats what was not committed, and loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidemark.sql.catalog.sources import SourceColumn, SourceDefinition


@dataclass(frozen=True)
class Position:
    """How far a relation is known: where its history stands, and whose history that is.

    ``identity`` is what the source calls the relation: another one under the same name has another. ``mark`` is what
    was found at ``at``: if something else stands there later, the history was replaced. ``shape`` stands for the
    columns that are followed, and how they are stored."""

    at: int
    identity: str
    mark: str = ""
    shape: str = ""

    def to_json(self) -> dict[str, object]:
        return {"at": self.at, "identity": self.identity, "mark": self.mark, "shape": self.shape}

    @staticmethod
    def of_json(shown: Mapping[str, object]) -> Position:
        return Position(int(str(shown["at"])), *(str(shown.get(name, "")) for name in ("identity", "mark", "shape")))

    def __str__(self) -> str:
        return json.dumps(self.to_json())


class ChangesLostError(Exception):
    """What has changed since a position cannot be told any more; the reason is told to people."""


class Source(Protocol):
    """One connection to a source, for one pull. What it raises are errors of Tidemark, and ``ChangesLostError``."""

    def columns(self, relation: str) -> tuple[SourceColumn, ...]:
        """The columns that a relation has now."""

    def newest(self, relation: str, columns: Sequence[str]) -> Position:
        """Where the relation stands now, for whoever follows these columns. What is asked up to there does not change
        any more."""

    def snapshot(self, relation: str, at: Position, columns: Sequence[str]) -> pa.Table:
        """All rows at a position, with these columns, by these names."""

    def changes(self, relation: str, since: Position, until: Position, columns: Sequence[str]) -> pa.Table:
        """What came and went between two positions, as rows with ``_weight``. Rows that cancel may be among them.

        Raises ``ChangesLostError`` if that is not known any more, or if ``since`` is of another history."""

    def acknowledge(self, positions: Mapping[str, Position]) -> None:
        """The relations were followed up to these positions, and that is durable."""


class Opening(Protocol):
    """How a source is opened that is defined in a catalog; ``TidemarkError`` if it may not be, or cannot."""

    def __call__(self, definition: SourceDefinition) -> Source: ...
