"""A commit: everything that one transaction changes, handed to an engine to be made durable at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from tidemark.algebra.plans import Plan
from tidemark.algebra.types import Schema


@dataclass(frozen=True)
class Creation:
    """A relation that begins to be stored, filled from a plan (over stored and given relations) if there is one.

    ``key`` are the positions of columns that tell its rows apart, if such are known: an engine can find rows by them.
    ``logged`` relations keep their changes per version; the inner states of the network do not. ``internal`` ones
    are kept out of the way of foreign readers.
    """

    relation: str
    schema: Schema
    plan: Plan | None = None
    logged: bool = True
    internal: bool = False
    key: tuple[int, ...] = ()


@dataclass(frozen=True)
class Commit:
    """The effect of one transaction.

    ``created`` relations are filled, in order, before ``deltas`` are applied: their plans read the other relations
    as stored before this commit and the changes in ``given``. Deltas are net: no row twice, no weight zero.
    ``catalog`` holds the catalog's own records (JSON), in order; ``trace`` what was done (JSON).
    """

    version: int
    time: dt.datetime
    deltas: Mapping[str, pa.Table] = field(default_factory=dict)
    given: Mapping[str, pa.Table] = field(default_factory=dict)
    created: tuple[Creation, ...] = ()
    dropped: tuple[str, ...] = ()
    catalog: tuple[str, ...] = ()
    trace: str = "[]"


@dataclass(frozen=True)
class Loaded:
    """What an engine finds when it opens a database: the last version and all catalog records, in order."""

    version: int
    catalog: tuple[str, ...]
