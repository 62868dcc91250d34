"""Where rows come from while rules are evaluated: look-ups, so that an engine can serve what is near to a change.

A look-up asks for many keys at once: all rows of a relation whose columns at ``positions`` are one of ``keys``, by
identity, NULL the same as NULL. Without positions it asks for every row. A key may be of another exact number type than
its column, since these meet by value: 1 asks for 1.00, and 1.50 is in no column of integers.

Rows are sets: whoever keeps a bag gives each row once, and a change only where a row comes or goes altogether.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import Final, Protocol

from tidemark.algebra.scalar import Row

Positions = tuple[int, ...]
EVERYTHING: tuple[Row, ...] = ((),)
"""The keys of a look-up without positions."""


class Lookup(Protocol):
    """Named relations: base relations, and materialized predicates where there are any."""

    def matching(self, relation: str, positions: Positions, keys: Collection[Row]) -> Iterable[Row]: ...


class Relation(Protocol):
    def matching(self, positions: Positions, keys: Collection[Row]) -> Iterable[Row]: ...

    def by_key(self, positions: Positions, keys: Set[Row]) -> Mapping[Row, Sequence[Row]]:
        """The same rows by their keys. Others may be there, too."""
        ...

    def holding(self, positions: Positions, keys: Set[Row]) -> Set[Row]:
        """The keys that have a row."""
        ...


class IndexedRows:
    """A set of rows that only grows, in the order of arrival, with an index for each combination of columns asked for.

    >>> rows = IndexedRows([(1, 2), (1, 3), (2, 3)])
    >>> sorted(rows.matching((0,), [(1,)])), rows.add([(2, 3), (4, 4)])
    ([(1, 2), (1, 3)], [(4, 4)])
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.order: list[Row] = []
        """The rows in the order in which they came."""
        self._rows: set[Row] = set()
        self._indexes: dict[Positions, defaultdict[Row, list[Row]]] = {}
        self.add(rows)

    def __len__(self) -> int:
        return len(self.order)

    @property
    def columns(self) -> Positions | None:
        """The positions of all columns, if there is a row to tell."""
        return tuple(range(len(self.order[0]))) if self.order else None

    def __iter__(self) -> Iterator[Row]:
        return iter(self.order)

    def __contains__(self, row: object) -> bool:
        return row in self._rows

    def add(self, rows: Iterable[Row]) -> list[Row]:
        """Those of the rows that were not there."""
        there = self._rows
        added = [row for row in dict.fromkeys(rows) if row not in there]
        if not added:
            return added
        there.update(added)
        self.order += added
        for positions, index in self._indexes.items():
            _sort_into(index, added, positions)
        return added

    def matching(self, positions: Positions, keys: Collection[Row]) -> Iterable[Row]:
        if not positions:
            return self.order if keys else ()
        index = self._index(positions)
        return [row for one in keys for row in index.get(one, ())]

    def by_key(self, positions: Positions, keys: Set[Row]) -> Mapping[Row, Sequence[Row]]:
        return self._index(positions) if self.order else _NO_ROWS

    def holding(self, positions: Positions, keys: Set[Row]) -> Set[Row]:
        if not self.order:
            return _NO_KEYS
        return keys & (self._rows if positions == self.columns else self._index(positions).keys())

    def _index(self, positions: Positions) -> Mapping[Row, Sequence[Row]]:
        if not positions:
            return {(): self.order}
        index = self._indexes.get(positions)
        if index is None:
            index = self._indexes[positions] = defaultdict(list)
            _sort_into(index, self.order, positions)
        return index


class Remembered:
    """A relation behind a look-up, asked only for what is not known from what it said before.

    A key is known if it was asked for, or if fewer of its columns were. Keys that are *foreseen* are asked for together
    with the next ones by the same columns.

    >>> asked = []
    >>> class Asking(Memory):
    ...     def matching(self, relation, positions, keys):
    ...         asked.append((positions, sorted(keys)))
    ...         return super().matching(relation, positions, keys)
    >>> edge = Remembered(Asking({"edge": [(1, 2), (1, 3), (2, 3)]}), "edge")
    >>> edge.foresee((0,), [(2,)])
    >>> edge.matching((0,), [(1,)]), edge.matching((0,), [(2,)]), edge.matching((0, 1), [(1, 3), (1, 9)]), asked
    ([(1, 2), (1, 3)], [(2, 3)], [(1, 3)], [((0,), [(1,), (2,)])])
    """

    def __init__(self, lookup: Lookup, relation: str) -> None:
        self._lookup, self._relation = lookup, relation
        self._found: dict[Positions, dict[Row, Sequence[Row]]] = {}
        self._foreseen: dict[Positions, set[Row]] = {}
        self._sorted: dict[tuple[Positions, Positions], set[Row]] = {}

    def matching(self, positions: Positions, keys: Collection[Row]) -> Iterable[Row]:
        known = self.by_key(positions, dict.fromkeys(keys).keys())
        return [row for key in keys for row in known[key]]

    def by_key(self, positions: Positions, keys: Set[Row]) -> Mapping[Row, Sequence[Row]]:
        known = self._found.setdefault(positions, {})
        if not keys <= known.keys():
            self._derive(positions, [key for key in keys if key not in known])
            missing = [key for key in keys if key not in known]
            if missing:
                foreseen = (key for key in self._foreseen.pop(positions, ()) if key not in known)
                self._ask(positions, dict.fromkeys((*missing, *foreseen)))
        return known

    def holding(self, positions: Positions, keys: Set[Row]) -> Set[Row]:
        known = self.by_key(positions, keys)
        return {key for key in keys if known[key]}

    def foresee(self, positions: Positions, keys: Iterable[Row]) -> None:
        """These keys will probably be asked for."""
        self._foreseen.setdefault(positions, set()).update(keys)

    def _ask(self, positions: Positions, keys: Collection[Row]) -> None:
        found = defaultdict[Row, list[Row]](list)
        _sort_into(found, list(self._lookup.matching(self._relation, positions, keys)), positions)
        known = self._found[positions]
        known.update(dict.fromkeys(keys, ()))
        known.update(found)

    def _derive(self, positions: Positions, keys: Collection[Row]) -> None:
        """Learn of the keys what is known by fewer columns."""
        known = self._found[positions]
        for fewer, found in self._found.items():
            if found and len(fewer) < len(positions) and set(fewer) <= set(positions):
                parts = cells_of_all(keys, tuple(positions.index(position) for position in fewer))
                there = [(key, part) for key, part in zip(keys, parts, strict=True) if part in found]
                self._sort(found, {part for _, part in there}, (fewer, positions))
                for key, _ in there:
                    known.setdefault(key, ())

    def _sort(self, found: Mapping[Row, Sequence[Row]], parts: Set[Row], columns: tuple[Positions, Positions]) -> None:
        """Sort the rows that keys by fewer columns found by more columns, once."""
        known, done = self._found[columns[1]], self._sorted.setdefault(columns, set())
        sorted_ = defaultdict[Row, list[Row]](list)
        _sort_into(sorted_, [row for part in parts - done for row in found[part]], columns[1])
        done |= parts
        for key, rows in sorted_.items():
            known.setdefault(key, rows)


class NewState:
    """r^new = (r − r^del) ∪ more: rules N1, N2 and N3, without a copy of r."""

    def __init__(self, old: Relation, deleted: IndexedRows, more: IndexedRows) -> None:
        self.old, self.deleted, self.more = old, deleted, more

    def matching(self, positions: Positions, keys: Collection[Row]) -> Iterable[Row]:
        found = self.by_key(positions, dict.fromkeys(keys).keys())
        return [row for key in keys for row in found.get(key, ())]

    def by_key(self, positions: Positions, keys: Set[Row]) -> Mapping[Row, Sequence[Row]]:
        # A key that is all of a deleted row finds nothing in r but that row.
        gone = keys & self.deleted.by_key(positions, keys).keys()
        old = self.old.by_key(positions, keys - gone if positions == self.deleted.columns else keys)
        more = self.more.by_key(positions, keys)
        touched = gone | (keys & more.keys())
        if not touched:
            return old
        found = {key: old[key] for key in keys if key in old}
        for key in touched:
            kept = (row for row in found.get(key, ()) if row not in self.deleted)
            found[key] = [*kept, *more.get(key, ())]
        return found

    def holding(self, positions: Positions, keys: Set[Row]) -> Set[Row]:
        if positions == self.deleted.columns or not self.deleted:
            wanted = keys - self.deleted.holding(positions, keys)
            return self.old.holding(positions, wanted) | self.more.holding(positions, keys)
        found = self.by_key(positions, keys)
        return {key for key in keys if found.get(key)}


_NO_ROWS: Final[Mapping[Row, Sequence[Row]]] = {}
_NO_KEYS: Final = frozenset[Row]()


def _sort_into(index: defaultdict[Row, list[Row]], rows: Sequence[Row], positions: Positions) -> None:
    for key, row in zip(cells_of_all(rows, positions), rows, strict=True):
        index[key].append(row)


class Memory:
    """A look-up over sets of rows, for tests and small cases."""

    def __init__(self, relations: Mapping[str, Iterable[Row]]) -> None:
        self._relations = {name: IndexedRows(rows) for name, rows in relations.items()}

    def matching(self, relation: str, positions: Positions, keys: Collection[Row]) -> Iterable[Row]:
        return self._relations[relation].matching(positions, keys)


def cells_of_all(rows: Collection[Row], positions: Positions) -> Iterable[Row]:
    """The cells of each row at the positions.

    >>> list(cells_of_all([(1, 2), (3, 4)], (1,))), list(cells_of_all([(1, 2), (3, 4)], ()))
    ([(2,), (4,)], [(), ()])
    """
    if not positions:
        return repeat((), len(rows))
    if len(positions) == 1:
        (only,) = positions
        return zip([row[only] for row in rows], strict=True)
    return map(itemgetter(*positions), rows)


@lru_cache(maxsize=1024)
def cells_at(positions: Positions) -> Callable[[Row], Row]:
    """A function from a row to its cells at the positions.

    >>> cells_at((2, 0))((1, 2, 3)), cells_at((1,))((1, 2, 3)), cells_at(())((1, 2, 3))
    ((3, 1), (2,), ())
    """
    if not positions:
        return lambda row: ()
    if len(positions) == 1:
        (only,) = positions
        return lambda row: (row[only],)
    return itemgetter(*positions)
