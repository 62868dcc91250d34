"""What became of the rows of a relation over some steps: who came, who went, and who changed into what.

    a row that a statement updated is the same row, whatever its key is then
    in one step, a row that leaves and one with the same key that comes are the same row
    over all steps, of the rest, a row that went and one with the same key that came are one that was updated;
        without a key, equal rows that went and came are no change

So identity is the row's own inside the steps, and the key at their beginning for who went and came back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidemark.state.course import Act
from tidemark.storage.delta import to_bag

Row = tuple[Any, ...]
Key = tuple[int, ...]


@dataclass(frozen=True)
class Happening:
    """A row that was inserted (no old one), deleted (no new one) or updated. ``forms`` are the rows that it has been
    since, with their places, and it went at ``gone``, for good or to come back."""

    old: Row | None
    new: Row | None
    count: int = 1
    forms: tuple[tuple[int, Row], ...] = ()
    gone: int = 0

    @property
    def kind(self) -> str:
        if self.old is None:
            return "insert"
        return "delete" if self.new is None else "update"

    def differs(self, columns: Sequence[int]) -> bool:
        """Whether old and new differ in one of the columns; in any if none is named."""
        assert self.old is not None and self.new is not None
        return _differ(self.old, self.new, columns)

    def place(self, columns: Sequence[int]) -> int:
        """Since when it is so that it came, went, or differs from what it was in these columns."""
        if self.old is None:
            return self.forms[0][0]
        if self.new is None:
            return self.gone
        found = self.gone
        for place, row in reversed(self.forms):
            if not _differ(self.old, row, columns):
                break
            found = max(self.gone, place)
        return found


def _differ(old: Row, new: Row, columns: Sequence[int]) -> bool:
    return tuple(old[i] for i in columns) != tuple(new[i] for i in columns) if columns else old != new


def happenings(delta: pa.Table, key: Key | None) -> list[Happening]:
    """A net change of one block, with the rows that agree in the key in pairs. Without a key nothing is.

    >>> delta = pa.table({"k": [1, 1, 2], "q": [5, 6, 7], "_weight": pa.array([-1, 1, 1], pa.int64())})
    >>> [(found.old, found.new) for found in happenings(delta, (0,))]
    [((1, 5), (1, 6)), (None, (2, 7))]
    """
    rows = to_bag(delta)
    if key is None:
        return [Happening(None, r, n) if n > 0 else Happening(r, None, -n) for r, n in rows.items()]
    pairs, leaving, coming = _by_key(_each(rows, -1), _each(rows, 1), key)
    return [
        *(Happening(old, new) for old, new in pairs),
        *(Happening(None, row) for row in coming),
        *(Happening(row, None) for row in leaving),
    ]


def lived(steps: Iterable[Act], key: Key | None) -> list[Happening]:
    """What happened to rows over some steps, net."""
    lives = _Lives(key)
    for step in steps:
        lives.take(step)
    return list(lives.net())


@dataclass
class _Life:
    """One row: what it was at the beginning, if it was there, and what it has been since."""

    start: Row | None
    forms: list[tuple[int, Row]] = field(default_factory=list)
    gone: int = 0


class _Lives:
    """The rows that steps have touched. Those that are there are found by what they are now."""

    def __init__(self, key: Key | None) -> None:
        self._key = key
        self._there: defaultdict[Row, list[_Life]] = defaultdict(list)
        self._gone: list[_Life] = []

    def take(self, step: Act) -> None:
        changing, coming, leaving = self._told(step)
        changed = [(self._leave(old), new) for old, new in changing]
        for row in leaving:
            life = self._leave(row)
            life.gone = step.place
            if life.start is not None:
                self._gone.append(life)
        for life, row in [*changed, *((_Life(None), row) for row in coming)]:
            life.forms.append((step.place, row))
            self._there[row].append(life)

    def _told(self, step: Act) -> tuple[list[tuple[Row, Row]], list[Row], list[Row]]:
        """The rows that a step changed, old and new, those that came, and those that left."""
        rest, changing = Counter(to_bag(step.delta)), list[tuple[Row, Row]]()
        for both, count in ({} if step.pairs is None else to_bag(step.pairs)).items():
            old, new = both[: len(both) // 2], both[len(both) // 2 :]
            if old != new:
                changing += [(old, new)] * count
                rest[old] += count
                rest[new] -= count
        leaving, coming = _each(rest, -1), _each(rest, 1)
        if self._key is None:
            return changing, coming, leaving
        pairs, leaving, coming = _by_key(leaving, coming, self._key)
        return changing + pairs, coming, leaving

    def _leave(self, row: Row) -> _Life:
        """The life that a row leaves. Of equal rows, those that came in these steps go first: then nothing happened."""
        there = self._there.get(row)
        if not there:
            return _Life(row)
        return there.pop(next((i for i, life in enumerate(there) if life.start is None), -1))

    def net(self) -> Iterator[Happening]:
        came = list[_Life]()
        for row, lives in self._there.items():
            for life in lives:
                if life.start is None:
                    came.append(life)
                elif life.start != row:
                    yield Happening(life.start, row, forms=tuple(life.forms), gone=life.gone)
        back = defaultdict[Row, list[_Life]](list)
        for life in self._gone:
            assert life.start is not None
            back[self._identity(life.start)].append(life)
        for life in came:
            new = life.forms[-1][1]
            before = back.get(self._identity(new))
            old = before.pop() if before else None
            start = None if old is None else old.start
            if start != new:
                yield Happening(start, new, forms=tuple(life.forms), gone=0 if old is None else old.gone)
        for lives in back.values():
            for life in lives:
                yield Happening(life.start, None, gone=life.gone)

    def _identity(self, row: Row) -> Row:
        return row if self._key is None else tuple(row[i] for i in self._key)


def _each(rows: Counter[Row] | dict[Row, int], sign: int) -> list[Row]:
    return [row for row, weight in rows.items() for _ in range(weight * sign)]


def _by_key(leaving: list[Row], coming: list[Row], key: Key) -> tuple[list[tuple[Row, Row]], list[Row], list[Row]]:
    """The rows that leave and come with one key in pairs, and the others that leave and come."""
    old = defaultdict[Row, list[Row]](list)
    for row in reversed(leaving):
        old[tuple(row[i] for i in key)].append(row)
    pairs, fresh = list[tuple[Row, Row]](), list[Row]()
    for row in coming:
        before = old.get(tuple(row[i] for i in key))
        if before:
            pairs.append((before.pop(), row))
        else:
            fresh.append(row)
    return pairs, [row for rows in old.values() for row in reversed(rows)], fresh
