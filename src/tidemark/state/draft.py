"""What a transaction asks to be committed, and the draft of a commit, which each of its phases completes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import pyarrow as pa

from tidemark.network import Step, Wave
from tidemark.sql.bind.changes import BoundChange
from tidemark.sql.catalog.catalog import Catalog
from tidemark.state.events import Action
from tidemark.state.outcome import Outcome
from tidemark.state.state import Store
from tidemark.storage.commit import Commit, Creation
from tidemark.storage.delta import Tables, as_rows, is_same

NO_TABLES: Final[Mapping[str, pa.Table]] = {}


@dataclass(frozen=True)
class Work:
    """What a transaction asks to be committed: its catalog and the net deltas of tables; the time, if it is set; and
    what gives the statement, if one was all that it did.

    What brings something that lags up to date changes that relation, has deltas of its ``own`` for what serves it,
    which nothing else reads, the steps that derived them, and notes."""

    catalog: Catalog
    pending: Mapping[str, pa.Table]
    statements: int
    now: dt.datetime | None = None
    change: Callable[[], BoundChange] | None = None
    own: Mapping[str, pa.Table] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    notes: Mapping[str, str | None] = field(default_factory=dict)
    said: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    """What was done to each table, in order: the texts of statements, None for what was none."""
    moved: Mapping[str, pa.Table] = field(default_factory=dict)
    """Of tables whose rows were given other keys: which."""
    spent: Mapping[str, float] = field(default_factory=dict)
    """The seconds that it took so far, by phase."""
    outcome: Outcome = field(default_factory=Outcome)
    """Tells whoever asked what became of it, also when that is known later only."""


@dataclass(frozen=True)
class Derivation:
    """A wave, and what it was derived from: whether it may be kept is seen by comparing that.

    Catalogs and deltas are immutable, so those that are the same object say the same. ``checked`` has the deltas that
    were found to violate no constraint of their tables: none, if one did."""

    version: int
    catalog: Catalog
    pending: Mapping[str, pa.Table]
    change: Callable[[], BoundChange] | None
    checked: Mapping[str, pa.Table]
    wave: Wave

    def serves(self, version: int, catalog: Catalog, pending: Mapping[str, pa.Table], read: Set[str] | None) -> bool:
        """Whether it is the wave of these deltas, too. Of relations that no node reads (``read`` has the others, or is
        None if that is not known) the deltas may be others."""
        if version != self.version or catalog is not self.catalog:
            return False
        changed = self.pending.keys() | pending.keys()
        return all(is_same(pending, self.pending, name) for name in changed if read is None or name in read)

    def is_checked(self, read: Set[str]) -> bool:
        """Whether no delta that nodes read violates a constraint, so that all could be known of its rows."""
        return all(is_same(self.checked, self.pending, name) for name in self.pending if name in read)

    def unchecked(self, version: int, catalog: Catalog, pending: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        """Those of some deltas that were not found to violate no constraint."""
        if version != self.version or catalog is not self.catalog:
            return pending
        rows = as_rows(pending)
        return Tables({name: rows[name] for name in pending if not is_same(self.checked, pending, name)})

    def over(self, pending: Mapping[str, pa.Table]) -> Derivation:
        """The same with the deltas of relations that no node reads as they are now."""
        if pending.keys() == self.pending.keys() and all(is_same(pending, self.pending, name) for name in pending):
            return self
        gone = self.pending.keys() - pending.keys()
        wave = self.wave.with_others(pending, gone)
        return replace(self, pending=pending, wave=wave)


Reacted = tuple[Work, Derivation | None]
"""A transaction's work with what rules made of it, and what was derived last."""


class Draft(NamedTuple):
    """A commit as far as it is prepared. A phase returns it completed, and before the commit point nothing that
    is committed changes.

    ``react`` lets deferred rules act in the transaction, if it belongs to one."""

    state: Store
    work: Work
    react: Callable[[Work], Reacted] | None = None
    derivation: Derivation | None = None
    created: tuple[Creation, ...] = ()
    given: Mapping[str, pa.Table] = NO_TABLES
    record: Commit | None = None
    before: Catalog | None = None
    """The definitions that the commit has replaced."""
    afterwards: tuple[Action, ...] = ()
    """What those who heard of the commit want to be done when it is over."""

    @property
    def wave(self) -> Wave:
        assert self.derivation is not None, "the phase `derive` has not run"
        return self.derivation.wave

    @property
    def stored(self) -> Commit:
        assert self.record is not None, "the phase `encode` has not run"
        return self.record
