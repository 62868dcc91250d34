"""How much of the log is kept: limits, water marks, and what may go.

Every consumer has a water mark, the version up to which it knows everything. The limits say how far back the log
reaches for whoever asks; what lies further back and no consumer needs is dropped, and of what a consumer still needs,
the net effect between two marks is enough, unless it asks for each version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.types import VERSION
from tidemark.storage import delta as deltas

KEEP, REFRESH, INVALIDATE = "keep", "refresh", "invalidate"
_UNITS: Final = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}


@dataclass(frozen=True)
class LogLimits:
    """How many versions, how long and how many bytes of the log are kept; None is no limit.

    A version goes when it is beyond any of them. ``age`` is the text of an interval.
    """

    versions: int | None = None
    age: str | None = None
    size: int | None = None

    @property
    def any(self) -> bool:
        return self != LogLimits()

    def to_note(self) -> str:
        """What is stored: the keys are read by later versions, whatever the fields are called."""
        return json.dumps({"versions": self.versions, "age": self.age, "size": self.size})

    @staticmethod
    def of_note(text: str | None) -> LogLimits:
        if text is None:
            return LogLimits()
        shown = json.loads(text)
        return LogLimits(versions=shown.get("versions"), age=shown.get("age"), size=shown.get("size"))


@dataclass(frozen=True)
class Consumer:
    """A consumer of the log: of these relations, from after the water mark on.

    ``each_version`` says that the net effect of several versions is not enough for it. ``policy`` says what becomes
    of it when the log cannot wait.
    """

    name: str
    kind: str
    relations: frozenset[str]
    mark: int
    policy: str
    each_version: bool = False


@dataclass(frozen=True)
class Cut:
    """What is left of a relation's log: everything after ``full``, and the net effect between the points before it."""

    full: int
    points: tuple[int, ...] = ()

    def reaches(self, since: int) -> bool:
        """Whether the changes since a version can be told.

        >>> Cut(10, (3, 7)).reaches(3), Cut(10, (3, 7)).reaches(5), Cut(10).reaches(12)
        (True, False, True)
        """
        return since >= self.full or since in self.points


@dataclass(frozen=True)
class Retained:
    """The cut that goes for all relations, and those of relations for which it is another."""

    full: int = 0
    others: Mapping[str, Cut] = field(default_factory=dict)

    def of(self, relation: str, born: int) -> Cut:
        """The cut of a relation. One that was created since then is logged from its beginning, whatever was known of
        another of its name."""
        cut = self.others.get(relation)
        if cut is not None and (born < cut.full or not cut.full):
            return cut
        return Cut(self.full) if born < self.full else Cut(0)

    def oldest(self, born: Mapping[str, int]) -> int:
        """The oldest version that the log of any relation reaches back to; those are given with their beginnings.

        >>> Retained(10, {"t": Cut(4)}).oldest({"t": 2, "u": 3, "later": 12})
        4
        """
        return min([self.full, *(max(self.of(name, version).full, version) for name, version in born.items())])

    def to_note(self) -> str:
        others = {name: [cut.full, list(cut.points)] for name, cut in self.others.items()}
        return json.dumps({"full": self.full, "others": others})

    @staticmethod
    def of_note(text: str | None) -> Retained:
        if text is None:
            return Retained()
        shown = json.loads(text)
        return Retained(shown["full"], {n: Cut(full, tuple(points)) for n, (full, points) in shown["others"].items()})


def bytes_of(text: str) -> int:
    """A size in bytes, or ValueError.

    >>> bytes_of("64 MB"), bytes_of("1 KiB")
    (64000000, 1024)
    """
    number = text.strip().lower().rstrip("bgikm ")
    unit = text.strip().lower()[len(number) :].strip()
    if not number.isdecimal() or unit not in _UNITS:
        raise ValueError(f"{text!r} is not a size, as in '64 MB'")
    return int(number) * _UNITS[unit]


def horizon_by_size(sizes: Iterable[tuple[int, int]], most: int) -> int:
    """The version after which the log has at most so many bytes. ``sizes`` are versions with theirs.

    >>> horizon_by_size([(1, 50), (2, 50), (3, 50)], 100)
    1
    """
    by_version: dict[int, int] = {}
    for version, size in sizes:
        by_version[version] = by_version.get(version, 0) + size
    total = 0
    for version in sorted(by_version, reverse=True):
        total += by_version[version]
        if total > most:
            return version
    return 0


def cut_for(relation: str, horizon: int, consumers: Sequence[Consumer]) -> Cut:
    """The cut of one relation: up to the horizon, but not beyond what its consumers need.

    >>> lagging = Consumer("s", "snapshot", frozenset({"t"}), 4, KEEP)
    >>> reader = Consumer("r", "subscriber", frozenset({"t"}), 7, KEEP, each_version=True)
    >>> cut_for("t", 9, []), cut_for("t", 9, [lagging]), cut_for("t", 9, [lagging, reader])
    (Cut(full=9, points=()), Cut(full=9, points=(4,)), Cut(full=7, points=(4,)))
    """
    reading = [consumer for consumer in consumers if relation in consumer.relations]
    full = min([horizon, *(consumer.mark for consumer in reading if consumer.each_version)])
    points = {consumer.mark for consumer in reading if consumer.mark < full}
    return Cut(full, tuple(sorted(points)))


def compacted(logged: pa.Table, cut: Cut) -> pa.Table | None:
    """What is kept of the entries up to the cut: between two points the net effect, as of the later one."""
    if not cut.points:
        return None
    parts, column = [], logged.column(VERSION)
    ends = [*cut.points[1:], cut.full]
    for start, end in zip(cut.points, ends, strict=True):
        inside = pc.and_(pc.greater(column, start), pc.less_equal(column, end))
        net = deltas.net(logged.filter(inside).drop_columns([VERSION]))
        stamp = pa.repeat(pa.scalar(end, pa.int64()), net.num_rows)
        parts.append(net.add_column(net.num_columns - 1, VERSION, stamp).cast(logged.schema))
    return pa.concat_tables(parts)
