"""How far sources were followed, as notes that are committed with the rows.

Each table has a position of its own, which goes when the table goes. A source has a standing: whether it is followed,
why it has stopped, and when it was pulled last.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidemark.sources.protocol import Position
from tidemark.sql.catalog.catalog import Catalog, Table
from tidemark.state.tidemarks import position_note, source_note

ACTIVE, PAUSED, STOPPED = "active", "paused", "stopped"
STATUSES: Final = (ACTIVE, PAUSED, STOPPED)


@dataclass(frozen=True)
class Followed:
    """How far a table was followed; ``born`` is the version that created it."""

    position: Position
    born: int

    def to_note(self) -> str:
        return json.dumps({**self.position.to_json(), "born": self.born})

    @staticmethod
    def of_note(text: str) -> Followed:
        shown = json.loads(text)
        return Followed(Position.of_json(shown), int(shown["born"]))


@dataclass(frozen=True)
class Standing:
    """``pulled`` is when it was pulled last, and ``version`` the one that this made last, if any did. ``compared`` says
    which tables were compared as a whole then, and why. One to be compared as a whole next time is ``resync``."""

    status: str = ACTIVE
    error: str | None = None
    pulled: str | None = None
    version: int | None = None
    compared: str | None = None
    resync: bool = False

    def to_note(self) -> str:
        """What is stored: the keys are read by later versions, whatever the fields are called."""
        return json.dumps(
            {
                "status": self.status,
                "error": self.error,
                "pulled": self.pulled,
                "version": self.version,
                "compared": self.compared,
                "resync": self.resync,
            }
        )

    @staticmethod
    def of_note(text: str) -> Standing:
        shown = json.loads(text)
        return Standing(
            status=shown["status"],
            error=shown.get("error"),
            pulled=shown.get("pulled"),
            version=shown.get("version"),
            compared=shown.get("compared"),
            resync=shown.get("resync", False),
        )


def standing_of(source: str, notes: Mapping[str, str]) -> Standing:
    """The standing of a source; one that was never pulled is active."""
    text = notes.get(source_note(source))
    return Standing() if text is None else Standing.of_note(text)


def followed_of(table: Table, notes: Mapping[str, str], created: Mapping[str, int]) -> Followed | None:
    """How far a table was followed; None if it holds nothing yet."""
    text = notes.get(position_note(table.name))
    found = None if text is None else Followed.of_note(text)
    return found if found is not None and found.born == created.get(table.name) else None


def positions_shown(tables: Iterable[Table], notes: Mapping[str, str], created: Mapping[str, int]) -> str:
    """The positions of a source's tables, in words."""
    found = ((table.name, followed_of(table, notes, created)) for table in tables)
    return ", ".join(f"{name} {one.position.at}" for name, one in found if one is not None)


def tables_shown(catalog: Catalog, source: str) -> str:
    """The tables that follow a source, in words."""
    return ", ".join(sorted(table.name for table in catalog.tables_from(source)))
