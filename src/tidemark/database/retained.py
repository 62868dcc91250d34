"""Whether the log reaches back to a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemark.continual.retention import Retained
from tidemark.errors import TidemarkError

if TYPE_CHECKING:
    from tidemark.database.store import Store

NOTE = "log retained"


def retained(store: Store) -> Retained:
    text = store.notes.get(NOTE)
    known = _parsed.get(text)
    if known is None:
        if len(_parsed) > 64:
            _parsed.clear()
        known = _parsed[text] = Retained.of_note(text)
    return known


_parsed: dict[str | None, Retained] = {}


def must_reach(store: Store, relation: str, since: int, *, each_version: bool = False) -> None:
    """Refuse to tell the changes since a version that the log does not reach back to, or of which it has only the net
    effect, if those of ``each_version`` are asked for."""
    cut = retained(store).of(relation, store.created.get(relation, 0))
    if not cut.reaches(since) or (each_version and since < cut.full):
        raise TidemarkError(
            "version",
            f"the log of {relation!r} does not reach back to version {since}",
            hint=f"the oldest version is {cut.full}; ALTER LOG SET keeps more",
        )
