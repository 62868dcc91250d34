"""A commit: everything that one transaction changes, handed to an engine to be made durable at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from tidemark.algebra.expressions import Literal, Value
from tidemark.algebra.plans import Plan, Project, Stored
from tidemark.algebra.types import Schema


@dataclass(frozen=True)
class Creation:
    """A relation that begins to be stored, filled from a plan (over stored and given relations) if there is one.

    ``key`` are the positions of columns that tell its rows apart, if such are known: an engine can find rows by them.
    ``order`` are those by which rows are likely to be looked for, so that an engine may lay them out accordingly.
    ``logged`` relations keep their changes per version; the inner states of the network do not. ``internal`` ones
    are kept out of the way of foreign readers. Of relations that are not ``kept`` there is a log and no content.
    """

    relation: str
    schema: Schema
    plan: Plan | None = None
    logged: bool = True
    internal: bool = False
    key: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    kept: bool = True


@dataclass(frozen=True)
class Alteration:
    """A relation that gets more columns after those it has: stored rows and logged changes take ``values`` there."""

    relation: str
    before: Schema
    schema: Schema
    values: tuple[Value, ...]

    @property
    def rows(self) -> Plan:
        """The rows that are stored, with the values of the new columns."""
        source = Stored(self.relation, self.before)
        types = self.schema.types[len(self.before) :]
        added = (Literal(value, type) for value, type in zip(self.values, types, strict=True))
        return Project(source, self.schema.names, (*source.columns(), *added))


@dataclass(frozen=True)
class Commit:
    """The effect of one transaction.

    ``altered`` relations have their new columns before anything else is read or changed. ``created`` relations are
    filled, in order, before ``deltas`` are applied: their plans read the other relations as stored before this commit
    and the changes in ``given``. Deltas are net: no row twice, no weight zero. ``keys`` has, of changed relations, the
    columns that tell their rows apart before and after, beyond the keys that they were created with. ``catalog`` holds
    the catalog's own records (JSON), in order; ``trace`` what was done (JSON). ``notes`` are small texts that the
    database keeps by name beside its relations; None takes one away.
    """

    version: int
    time: dt.datetime
    deltas: Mapping[str, pa.Table] = field(default_factory=dict)
    given: Mapping[str, pa.Table] = field(default_factory=dict)
    created: tuple[Creation, ...] = ()
    dropped: tuple[str, ...] = ()
    altered: tuple[Alteration, ...] = ()
    keys: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    catalog: tuple[str, ...] = ()
    trace: str = "[]"
    notes: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Loaded:
    """What an engine finds when it opens a database: the last version, all catalog records, in order, and the notes."""

    version: int
    catalog: tuple[str, ...]
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Followed:
    """What somebody else has committed to a database that is read: the last version; each new one with its time and its
    catalog records; and all notes."""

    version: int
    commits: tuple[tuple[int, dt.datetime, tuple[str, ...]], ...]
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Forgetting:
    """What is logged of a relation up to a version goes; ``kept`` (columns, ``_version``, ``_weight``) takes its
    place, if somebody needs the net effect of it still."""

    up_to: int
    kept: pa.Table | None = None


@dataclass(frozen=True)
class Logged:
    """How much is logged of a relation for one version."""

    relation: str
    version: int
    bytes: int


def times_table(times: Iterable[tuple[int, dt.datetime]]) -> pa.Table:
    """Versions with their times, naive UTC, as an engine tells them."""
    versions, moments = zip(*times, strict=True) if (times := list(times)) else ((), ())
    return pa.table({"version": pa.array(versions, pa.int64()), "time": pa.array(moments, pa.timestamp("us"))})


def take_notes(known: dict[str, str], notes: Mapping[str, str | None]) -> None:
    """Change notes, or take them away, in place: there may be many.

    >>> known = {"a": "1", "b": "2"}
    >>> take_notes(known, {"a": None, "c": "3"})
    >>> known
    {'b': '2', 'c': '3'}
    """
    for name, text in notes.items():
        if text is None:
            known.pop(name, None)
        else:
            known[name] = text
