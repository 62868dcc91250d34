"""Arrangements: "rows of R with these keys" from memory, as of the last committed version.

The law: an arrangement of a relation by some columns holds what the relation holds, but for rows with NULL among these
columns, in the columns that it carries. It is built by one scan (a run of all rows), and fed by each commit's net
deltas: a small *newest part*, by key, becomes a run when it has grown, and runs of about one size become one, so that
there are few. Entries of negative weight cancel others where they are found.

Nothing depends on an arrangement. It is built when the look-ups that it spares would cost more than the scan, within a
budget of memory, and dropped when it cannot take a delta, when others are used more, or at will.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.compiled import key_of
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import WEIGHT, Kind, Schema
from tidemark.storage import delta as deltas
from tidemark.storage.batches import Batch, Vector, empty_batch, net_by_owner
from tidemark.storage.delta import Rows
from tidemark.storage.runs import KEYED, Key, Numbers, Run, code_of, codes_of, is_exact, packed, places_between, run_of
from tidemark.storage.whole import Whole

_logger = logging.getLogger("tidemark.arrangements")

Found: TypeAlias = dict[Row, int]
Asked: TypeAlias = tuple[str, tuple[int, ...]]

NEWEST_ROWS: Final = 16_384
"""So many rows are kept by key before they become a run, which takes some tens of milliseconds."""
AT_ONCE: Final = 128
"""A delta of more than this part of as many rows is a run of its own."""
NEWEST_BYTES: Final = 600
"""About so much a row of the newest part takes."""
RATIO: Final = 4
"""A run that is not so many times larger than what came after it becomes one with it."""
TOGETHER: Final = 48
"""So many keys are looked for at once."""
MOST_OF_ONE_KEY: Final = 50_000
"""A key of more entries is left to the engine."""
KEYS_PER_USE: Final = 64
"""A question for so many keys costs the engine about as much as two for one."""
MOST_IN_VAIN: Final = 3
WORTH_TO_STAY: Final = 2
"""As so many questions in vain counts one that is answered, when there is room for one of two."""
NARROW: Final = 8
"""Of a relation of no more columns all are carried."""
_WIDTHS: Final = {Kind.BOOLEAN: 1, Kind.SMALLINT: 2, Kind.INT: 4, Kind.DATE: 4, Kind.VARCHAR: 24}
_WIDTH: Final = 8


class Arrangement:
    """The rows of a relation by some of its columns, which are in order; ``carried`` has these and others."""

    def __init__(
        self,
        schema: Schema,
        columns: tuple[int, ...],
        carried: tuple[int, ...],
        rows: pa.Table,
        newest_rows: int = NEWEST_ROWS,
    ) -> None:
        """``rows`` are all of the relation, in the columns that are carried."""
        self.schema, self.columns, self.carried = schema, columns, carried
        self._most_newest = newest_rows
        self.runs: tuple[Run, ...] = (run_of(rows, schema, columns, carried),)
        self._key_of = key_of(columns)
        self._codes = tuple(code_of(schema.types[column]) for column in columns)
        self._is_exact = all(is_exact(schema.types[column]) for column in columns)
        self._carries = frozenset(carried)
        self._newest: dict[int, dict[Key, Found]] = {len(columns): {}}
        """By as many of the first key columns as somebody asked for."""
        self._newest_rows = 0
        self.left_out = self.runs[0].left_out
        """How many entries with NULL in the key were not taken."""

    @property
    def entries(self) -> int:
        return sum(map(len, self.runs)) + self._newest_rows

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.runs) + self._newest_rows * NEWEST_BYTES * len(self._newest)

    def carries(self, needed: Collection[int] | None) -> bool:
        return len(self._carries) == len(self.schema) if needed is None else self._carries.issuperset(needed)

    def serves(self, columns: tuple[int, ...]) -> bool:
        """Whether it finds all rows by these columns: its own, or the first of them if no row was left out."""
        if not columns:
            return False  # all rows are held by ``whole.py``, without reading them again each time
        return columns == self.columns or (not self.left_out and columns == self.columns[: len(columns)])

    def matching(self, columns: tuple[int, ...], keys: Collection[Key], most: int) -> dict[Key, Found] | None:
        """See ``Arrangements.matching``."""
        order, result = _order(columns), dict[Key, Found]()
        if len(keys) >= TOGETHER and self.runs:
            there = [key for key in keys if None not in key]
            return self._find_together(there, there if order is None else list(map(itemgetter(*order), there)), most)
        for key in keys:
            if None in key:
                continue
            found = self.find(key if order is None else tuple([key[i] for i in order]), most)
            if found is None:
                return None
            if found:
                result[key] = found
        return result

    def matching_table(
        self, columns: tuple[int, ...], key_columns: Sequence[pa.Array | pa.ChunkedArray], most: int
    ) -> pa.Table | None:
        """See ``Arrangements.matching_table``."""
        ordered = [key_columns[i] for i in _order(columns) or range(len(columns))]
        keys = pa.table(ordered, names=[str(i) for i in range(len(columns))])
        return self.find_all(_distinct(keys.drop_null()), most)

    # A few keys

    def find(self, key: Key, most: int) -> Found | None:
        """The net rows with this key, which has no NULL; None if there are more entries."""
        codes = [code(value) for code, value in zip(self._codes, key, strict=False)]
        found: Found = {}
        for run in self.runs:
            low, high = run.find(codes)
            if high - low > most:
                return None
            for row, weight in run.entries(low, high):
                if self._is_exact or self._has_key(row, key):
                    found[row] = found.get(row, 0) + weight
        newest = self._newest_by(len(key)).get(key)
        if newest is None and len(self.runs) == 1:
            return found
        for row, weight in (newest or {}).items():
            found[row] = found.get(row, 0) + weight
        return {row: weight for row, weight in found.items() if weight}

    def _find_together(self, keys: Sequence[Key], ordered: Sequence[Key], most: int) -> dict[Key, Found] | None:
        """The same for many keys, with what most of them find looked for at once."""
        found: dict[Key, Found] = {}
        if not keys:
            return found
        codes = [
            np.fromiter(map(of, part), np.int64)
            for of, part in zip(self._codes, zip(*ordered, strict=True), strict=False)
        ]
        for run in self.runs:
            low, high = run.find_all(codes)
            for place in np.flatnonzero(high > low).tolist():
                first, last = int(low[place]), int(high[place])
                if last - first > most:
                    return None
                rows = found.setdefault(keys[place], {})
                for row, weight in run.entries(first, last):
                    if self._is_exact or self._has_key(row, ordered[place]):
                        rows[row] = rows.get(row, 0) + weight
        unsure: Collection[Key] = tuple(found) if len(self.runs) > 1 or not self._is_exact else ()
        newest = self._newest_by(len(codes))
        if newest:
            recent = [(key, newest[one]) for key, one in zip(keys, ordered, strict=True) if one in newest]
            for key, later in recent:
                rows = found.setdefault(key, {})
                for row, weight in later.items():
                    rows[row] = rows.get(row, 0) + weight
            unsure = dict.fromkeys([*unsure, *(key for key, _ in recent)])
        for key in unsure:
            found[key] = {row: weight for row, weight in found[key].items() if weight}
            if not found[key]:
                del found[key]
        return found

    def _has_key(self, row: Row, key: Key) -> bool:
        return all(row[column] == value for column, value in zip(self.columns, key, strict=False))

    def _newest_by(self, width: int) -> dict[Key, Found]:
        """The newest part by the first columns of the key."""
        if width not in self._newest:
            by_key: dict[Key, Found] = {}
            for key, rows in self._newest[len(self.columns)].items():
                by_key.setdefault(key[:width], {}).update(rows)
            self._newest[width] = by_key
        return self._newest[width]

    # Many keys

    def find_all(self, keys: pa.Table, most: int) -> pa.Table | None:
        """The entries with keys of a table, all different and without NULL; None if there are more than so many."""
        self._settle_newest()
        types = [self.schema.types[column] for column in self.columns[: keys.num_columns]]
        codes = [
            codes_of(column.combine_chunks(), type_).astype(np.int64)
            for column, type_ in zip(keys.columns, types, strict=True)
        ]
        order = np.lexsort(tuple(reversed(codes)))
        codes = [part[order] for part in codes]
        bounds = [run.find_all(codes) for run in self.runs]
        if sum(int((high - low).sum()) for low, high in bounds) > most:
            return None
        tables = []
        for run, (low, high) in zip(self.runs, bounds, strict=True):
            places, owners = places_between(low, high)
            if len(places):
                taken = run.take(places)
                tables.append(taken if self._is_exact else self._equal(taken, keys, order[owners]))
        found = pa.concat_tables(tables) if tables else deltas.no_change(self.schema)
        return deltas.net(found) if len(tables) > 1 else found

    def matching_batch(
        self, columns: tuple[int, ...], keys: Sequence[Vector], most: int
    ) -> tuple[Batch, Numbers] | None:
        """The same for keys that are all different and without NULL, as net columns, with the number of each row's
        key; None if there are more than so many entries."""
        self._settle_newest()
        wanted = [keys[i] for i in _order(columns) or range(len(columns))]
        codes = [
            codes_of(packed(key.array(), key.type), key.type).astype(np.int64)
            if not key.is_number
            else key.numbers()[0]
            for key in wanted
        ]
        order = np.argsort(codes[0], kind="stable") if len(codes) == 1 else np.lexsort(tuple(reversed(codes)))
        codes = [part[order] for part in codes]
        parts, owners, found = list[Batch](), list[Numbers](), 0
        for run in self.runs:
            low, high = run.find_all(codes)
            places, numbers = places_between(low, high)
            found += len(places)
            if found > most:
                return None
            if len(places):
                part, whose = _batch_at(run, places), order[numbers]
                if not self._is_exact:
                    has_key = self._have_keys(part, wanted, whose)
                    part, whose = part.where(has_key), whose[has_key]
                parts.append(part)
                owners.append(whose)
        if not parts:
            return empty_batch(self.schema), np.zeros(0, np.int64)
        return net_by_owner(Batch.together(parts), np.concatenate(owners), len(order))

    def _have_keys(self, part: Batch, keys: Sequence[Vector], owners: Numbers) -> Any:
        """Which rows have the key itself and not but its code."""
        equal = [
            pc.equal(part.vectors[column].array(), key.take(owners).array())
            for column, key in zip(self.columns, keys, strict=False)
        ]
        return np.logical_and.reduce([np.asarray(one.to_numpy(zero_copy_only=False)) for one in equal])

    def _equal(self, taken: pa.Table, keys: pa.Table, owners: Any) -> pa.Table:
        """What was found, without rows that have but the code of a key."""
        wanted = keys.take(pa.array(owners))
        equal = [
            pc.equal(taken.column(column), wanted.column(i))
            for i, column in enumerate(self.columns[: keys.num_columns])
        ]
        kept = equal[0]
        for more in equal[1:]:
            kept = pc.and_(kept, more)
        return taken.filter(kept)

    # Deltas

    def takes(self, delta: Rows) -> bool:
        """Whether it is to be fed with a delta, or has to go."""
        return True

    def feed(self, delta: Rows) -> None:
        """Take a net delta of the relation."""
        if delta.count > max(self._most_newest // AT_ONCE, 1):
            self._settle_newest()
            self._add_run(delta.table.select([*self.carried, delta.table.num_columns - 1]))
            return
        bag = delta.bag
        if len(self._carries) < len(self.schema):
            bag = self._projected(bag)
        self.left_out += self._feed_newest(bag)
        if self._newest_rows > self._most_newest:
            self._settle_newest()

    def _projected(self, bag: Found) -> Found:
        projected: Found = {}
        for row, weight in bag.items():
            carried = tuple([value if i in self._carries else None for i, value in enumerate(row)])
            projected[carried] = projected.get(carried, 0) + weight
        return {row: weight for row, weight in projected.items() if weight}

    def _feed_newest(self, bag: Found) -> int:
        """Take entries into the newest part, and say how many have NULL in the key."""
        key_of, left_out = self._key_of, 0
        for width, newest in self._newest.items():
            is_part, left_out, grown = width < len(self.columns), 0, 0
            for row, weight in bag.items():
                key = key_of(row)
                if None in key:
                    left_out += 1
                    continue
                if is_part:
                    key = key[:width]
                rows = newest.get(key)
                if rows is None:
                    newest[key] = {row: weight}
                    grown += 1
                    continue
                before, after = len(rows), rows.get(row, 0) + weight
                if after:
                    rows[row] = after
                else:
                    del rows[row]
                    if not rows:
                        del newest[key]
                grown += len(rows) - before
            self._newest_rows += 0 if is_part else grown
        return left_out

    def _settle_newest(self) -> None:
        """The newest part becomes a run."""
        if not self._newest_rows:
            return
        bag = {row: weight for rows in self._newest[len(self.columns)].values() for row, weight in rows.items()}
        table = deltas.from_bag(bag, self.schema)
        empty: dict[int, dict[Key, Found]] = {len(self.columns): {}}
        self._add_run(table.select([*self.carried, table.num_columns - 1]))
        self._newest, self._newest_rows = empty, 0

    def _add_run(self, entries: pa.Table) -> None:
        """Add a run, and let it become one with those before it that are not much larger. Nothing has changed if it
        fails."""
        added = run_of(entries, self.schema, self.columns, self.carried)
        runs, together = list(self.runs), len(added)
        joining = [added]
        while runs and len(runs[-1]) < RATIO * together:
            joining.append(runs.pop())
            together += len(joining[-1])
        runs.append(self._merged(joining[::-1]) if len(joining) > 1 else added)
        self.runs, self.left_out = tuple(runs), self.left_out + added.left_out

    def _merged(self, runs: Sequence[Run]) -> Run:
        """All as one. Only where a weight is negative can something cancel, so only such keys are made net."""
        kept, touched = list[Batch](), list[Batch]()
        for run in runs:
            is_touched = np.zeros(len(run), bool)
            for other in runs:
                if other.weights is not None and bool((gone := other.weights < 0).any()):
                    low, high = run.find_all([codes[gone].astype(np.int64) for codes in other.keys])
                    is_touched[places_between(low, high)[0]] = True
            kept.append(_batch_at(run, np.flatnonzero(~is_touched)))
            touched.append(_batch_at(run, np.flatnonzero(is_touched)))
        entries = Batch.together([*kept, Batch.together(touched).net()])
        arrays = [*(entries.vectors[column].packed() for column in self.carried), pa.array(entries.weights, pa.int64())]
        names = [*(str(column) for column in self.carried), WEIGHT]
        return run_of(pa.Table.from_arrays(arrays, names=names), self.schema, self.columns, self.carried)


def _batch_at(run: Run, places: Numbers) -> Batch:
    """Entries of a run, whole rows with NULL in the columns that are not carried. A column is taken when it is read."""
    vectors = [
        Vector(type_, source=Vector(type_, array=run.columns[position]), places=places)
        if position in run.columns
        else Vector.nothing(type_, len(places))
        for position, type_ in enumerate(run.schema.types)
    ]
    weights = np.ones(len(places), np.int64) if run.weights is None else run.weights[places]
    return Batch(vectors, weights, is_net=False)


def _distinct(keys: pa.Table) -> pa.Table:
    return keys.group_by(keys.column_names, use_threads=False).aggregate([])


def _order(columns: tuple[int, ...]) -> list[int] | None:
    """The places of columns when they are in order; None if they are."""
    if len(columns) == 1 or all(a < b for a, b in pairwise(columns)):
        return None
    return sorted(range(len(columns)), key=columns.__getitem__)


# All of a database

SHARE: Final = 4
"""The part of the machine's memory that arrangements take unless somebody says how much."""
MOST_UNSAID: Final = 4 * 10**9
LEAST_OF_ENGINE: Final = 256 * 10**6
"""An engine is not given less than this."""


@dataclass(frozen=True)
class Shares:
    """How memory is divided, in bytes; the engine decides by itself if its part is None."""

    arrangements: int
    engine: int | None = None


def shared(memory: int | None) -> Shares:
    """What ``memory``, in bytes, is divided into: half of it is for arrangements.

    >>> shared(2 * 10**9), shared(0)
    (Shares(arrangements=1000000000, engine=1000000000), Shares(arrangements=0, engine=None))
    """
    if memory is None:
        return Shares(min(_physical_memory() // SHARE, MOST_UNSAID))
    return Shares(memory // 2, max(memory - memory // 2, LEAST_OF_ENGINE) if memory else None)


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not every system tells
        return MOST_UNSAID


@dataclass(frozen=True)
class Admission:
    """When an arrangement is built: after ``least_uses``, and when the look-ups in vain have cost as much as it.

    One of up to ``rows_at_once`` rows is built where it is asked for, a larger one when the engine has committed.
    """

    rows_per_use: int = 30_000
    """What a look-up in the engine costs, as rows that are read and sorted in that time. It is more than was measured:
    whoever has looked up some hundred keys goes on to do so."""
    least_uses: int = 2
    rows_at_once: int = 20_000
    whole_rows: int = 5_000
    """A relation of so few rows is held as a whole."""
    newest_rows: int = NEWEST_ROWS


ADMISSION: Final = Admission()


@dataclass
class _Wish:
    """How often something was asked for that is not there, and which columns of it."""

    uses: int = 0
    needed: set[int] = field(default_factory=set)


@dataclass
class _Held:
    """An arrangement with its use."""

    arrangement: Arrangement | Whole
    version: int
    hits: int = 0
    vain: int = 0
    """How many of its hits found too much to be given."""
    recent: int = 0
    """Its hits since somebody else wanted its room in vain."""
    last: int = 0
    """When it was used last, as a number of uses of any."""
    nbytes: int = 0


@dataclass
class _Known:
    """What is known of one relation, by columns in order."""

    held: dict[tuple[int, ...], _Held] = field(default_factory=dict)
    serving: dict[tuple[int, ...], _Held] = field(default_factory=dict)
    """Which one answers a question, by columns as they were asked for."""
    wishes: dict[tuple[int, ...], _Wish] = field(default_factory=dict)
    refused: dict[tuple[int, ...], int] = field(default_factory=dict)
    """What did not fit or was of no use, with the rows that it had; tried again when half are gone."""


ARRANGED: Final = pa.schema(
    [
        ("relation", pa.string()),
        ("columns", pa.string()),
        ("carried", pa.string()),
        ("entries", pa.int64()),
        ("bytes", pa.int64()),
        ("hits", pa.int64()),
        ("built", pa.int64()),
    ]
)
"""What is shown of each arrangement; ``built`` is the version that it was built of."""


def no_arrangements() -> pa.Table:
    return ARRANGED.empty_table()


class Arrangements:
    """The arrangements of a database, within a budget of bytes.

    ``scan`` reads columns of a relation as they are stored, ``count`` says how many rows it has, ``schema_of`` which
    columns. They are fed by whoever commits, in one thread with those who ask; any thread may look at what is shown.
    """

    def __init__(
        self,
        scan: Callable[[str, Sequence[int]], pa.Table],
        count: Callable[[str], int],
        schema_of: Callable[[str], Schema],
        budget: int,
        admission: Admission,
    ) -> None:
        self._scan, self._count, self._schema_of = scan, count, schema_of
        self.budget, self._admission = budget, admission
        self._known: dict[str, _Known] = {}
        self._wanted: dict[Asked, None] = {}
        self.nbytes = 0
        self._uses = 0
        self._version = 0

    # Questions

    def matching(
        self,
        relation: str,
        columns: tuple[int, ...],
        keys: Collection[Key],
        needed: tuple[int, ...] | None,
        most: int = MOST_OF_ONE_KEY,
    ) -> Mapping[Key, Found] | None:
        """For each key that has rows the net bag of them, with None in columns that are neither carried nor needed.

        None if there is no arrangement for it, or one key has more than ``most`` entries. Keys with NULL have no rows.
        """
        arrangement = self.serving(relation, columns, needed, len(keys))
        return None if arrangement is None else arrangement.matching(columns, keys, most)

    def matching_table(
        self,
        relation: str,
        columns: tuple[int, ...],
        key_columns: Sequence[pa.Array | pa.ChunkedArray],
        needed: tuple[int, ...] | None,
        most: int = MOST_OF_ONE_KEY,
    ) -> pa.Table | None:
        """The same for many keys, given by column, as a table of entries; ``most`` counts the entries of all keys."""
        arrangement = self.serving(relation, columns, needed, len(key_columns[0]))
        return None if arrangement is None else arrangement.matching_table(columns, key_columns, most)

    def serving(
        self, relation: str, columns: tuple[int, ...], needed: Collection[int] | None, keys: int
    ) -> Arrangement | Whole | None:
        """The arrangement that finds rows by these columns, and has those that are needed. If there is none, the
        question for so many keys is counted, and may be what makes it pay."""
        if not self.budget:
            return None
        known = self._known.get(relation)
        if known is None:
            known = self._known[relation] = _Known()
        held = known.serving.get(columns) or _found(known, columns)
        if held is None or not held.arrangement.carries(needed):
            if not self._is_due(relation, known, columns, needed, keys):
                return None
            held = _found(known, columns)
            if held is None or not held.arrangement.carries(needed):
                return None
        self._uses += 1
        held.hits += 1
        held.recent += 1
        held.last = self._uses
        return held.arrangement

    def holds(self, relation: str) -> bool:
        """Whether the relation is arranged by anything."""
        known = self._known.get(relation)
        return known is not None and bool(known.held)

    def narrower(self, relation: str, columns: tuple[int, ...]) -> tuple[int, ...]:
        """The most of these columns by which the relation is arranged, for a question whose answer may hold more than
        is asked; all if there is none."""
        known = self._known.get(relation, _Known())
        return max((some for some in known.held if some and set(some) <= set(columns)), key=len, default=columns)

    def in_vain(self, relation: str, columns: tuple[int, ...]) -> None:
        """A question found more than can be given. If most do, the arrangement is of no use."""
        known = self._known.get(relation, _Known())
        held = _found(known, columns)
        if held is None:
            return
        held.vain += 1
        if held.vain >= MOST_IN_VAIN and 2 * held.vain > held.hits:
            known.refused[held.arrangement.columns] = self._count(relation)
            self._drop(known, held.arrangement.columns)

    # Admission

    def _is_due(
        self, relation: str, known: _Known, columns: tuple[int, ...], needed: Collection[int] | None, keys: int
    ) -> bool:
        """Count a question that was asked in vain. If what would answer it pays, it is built when the engine has
        committed, or here and now if that takes milliseconds."""
        schema, rows = self._schema_of(relation), self._count(relation)
        if any(schema.types[column].kind not in KEYED for column in columns):
            return False
        is_small = rows <= min(self._admission.whole_rows, known.refused.get((), 2 * rows) // 2)
        if not columns and not is_small:
            return False
        serving = None if is_small else _found(known, columns)
        # One that lacks columns is built again with them.
        ordered = () if is_small else tuple(sorted(columns)) if serving is None else serving.arrangement.columns
        if ordered in known.refused and rows > known.refused[ordered] // 2:
            return False
        wish = known.wishes.setdefault(ordered, _Wish())
        wish.uses += 1 + keys // KEYS_PER_USE
        wish.needed.update(range(len(schema)) if needed is None else needed)
        if wish.uses < max(self._admission.least_uses, rows // self._admission.rows_per_use):
            return False
        if rows > self._admission.rows_at_once:
            self._wanted[relation, ordered] = None
            return False
        return self._build(relation, known, ordered)

    def build_wanted(self) -> None:
        """Build what was asked for often enough. A failure is told in the program's log, and nothing is lost."""
        while self._wanted:
            (relation, columns), _ = self._wanted.popitem()
            try:
                self._build(relation, self._known[relation], columns)
            except Exception:
                _logger.warning("%s could not be arranged", relation, exc_info=True)

    def _build(self, relation: str, known: _Known, columns: tuple[int, ...]) -> bool:
        """Whether it is there then. What is half built when an exception comes is forgotten with it."""
        wish, rows, schema = known.wishes.pop(columns, _Wish()), self._count(relation), self._schema_of(relation)
        before = known.held.get(columns)
        carried = _carried(schema, columns, wish, before)
        expected = rows * sum(_WIDTHS.get(schema.types[column].kind, _WIDTH) for column in carried)
        if expected > self.budget:
            known.refused[columns] = rows
            return False
        if not self._has_room(known, columns, expected, wish.uses):
            return False
        arrangement = self._arranged(schema, columns, carried, self._scan(relation, carried))
        held = _Held(arrangement, self._version, nbytes=arrangement.nbytes)
        if held.nbytes > self.budget:
            known.refused[columns] = rows
            return False
        if not self._has_room(known, columns, held.nbytes, wish.uses):
            return False
        for others, other in tuple(known.held.items()):
            if others == columns or (arrangement.serves(others) and arrangement.carries(other.arrangement.carried)):
                self._drop(known, others)
        self._hold(known, held)
        return True

    def _arranged(
        self, schema: Schema, columns: tuple[int, ...], carried: tuple[int, ...], rows: pa.Table
    ) -> Arrangement | Whole:
        if not columns:
            return Whole(schema, rows, self._admission.whole_rows)
        return Arrangement(schema, columns, carried, rows, self._admission.newest_rows)

    # Room

    def _hold(self, known: _Known, held: _Held) -> None:
        known.held[held.arrangement.columns] = held
        self.nbytes += held.nbytes

    def _drop(self, known: _Known, columns: tuple[int, ...]) -> _Held:
        known.serving.clear()
        held = known.held.pop(columns)
        self.nbytes -= held.nbytes
        return held

    def _has_room(self, known: _Known, columns: tuple[int, ...], wanted: int, uses: int) -> bool:
        """Whether there is room for so many bytes, without those that were used least recently. One that was used half
        as often as the new one was asked for stays, so that two for which there is no room do not take turns."""
        replaced = known.held.get(columns)
        free = self.budget - self.nbytes + (0 if replaced is None else replaced.nbytes)
        victims: list[tuple[_Known, _Held]] = []
        if free < wanted:
            for of, held in self._least_used(replaced):
                if WORTH_TO_STAY * held.recent >= uses:
                    held.recent = 0
                    return False
                victims.append((of, held))
                free += held.nbytes
                if free >= wanted:
                    break
        for of, held in victims:
            self._drop(of, held.arrangement.columns)
        return True

    def _least_used(self, without: _Held | None = None) -> list[tuple[_Known, _Held]]:
        """All, the one that was used longest ago first."""
        every = [(known, held) for known in self._known.values() for held in known.held.values() if held is not without]
        return sorted(every, key=lambda one: one[1].last)

    # What is committed

    def feed(self, version: int, changes: Mapping[str, pa.Table], gone: Collection[str]) -> None:
        """A version was committed: net deltas of relations, and those that are there no more or in another form.

        One that cannot take its delta is dropped, and while it takes it nobody finds it.
        """
        self._version = version
        for relation in gone:
            self.forget(relation)
        for relation, delta in deltas.as_rows(changes).items():
            known = self._known.get(relation)
            if known is not None and known.held and delta.count:
                self._feed(relation, known, delta)
        if self.nbytes > self.budget:
            for known, held in self._least_used():
                if self.nbytes > self.budget:
                    self._drop(known, held.arrangement.columns)

    def _feed(self, relation: str, known: _Known, delta: Rows) -> None:
        """Let all of a relation take its delta."""
        fed, serving = known.held, known.serving
        known.held, known.serving = {}, {}
        self.nbytes -= sum([held.nbytes for held in fed.values()])
        is_as_before = True
        for held in fed.values():
            arrangement, left_out = held.arrangement, held.arrangement.left_out
            is_taken = arrangement.takes(delta)
            try:
                if is_taken:
                    arrangement.feed(delta)
            except Exception:
                _logger.warning("the arrangement of %s is dropped", relation, exc_info=True)
                is_taken = False
            if is_taken:
                held.nbytes = arrangement.nbytes
                self._hold(known, held)
            is_as_before = is_as_before and is_taken and arrangement.left_out == left_out
        if is_as_before:
            known.serving = serving

    def forget(self, relation: str) -> None:
        """The relation is not what it was."""
        known = self._known.pop(relation, None)
        if known is not None:
            self.nbytes -= sum(held.nbytes for held in known.held.values())
            self._wanted = {asked: None for asked in self._wanted if asked[0] != relation}

    def clear(self, version: int) -> None:
        """Nothing is known of what is stored, but its version."""
        self._known, self._wanted, self.nbytes, self._version = {}, {}, 0, version

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(len(known.held) for known in self._known.copy().values())

    def shown(self) -> pa.Table:
        """Each with what it has and how often it was used."""
        rows = [
            _shown(relation, held)
            for relation, known in sorted(self._known.copy().items(), key=lambda item: item[0])
            for _, held in sorted(known.held.copy().items(), key=lambda item: item[0])
        ]
        return pa.Table.from_pylist(rows, schema=ARRANGED)


def _found(known: _Known, columns: tuple[int, ...]) -> _Held | None:
    """The one that finds rows by these columns; if several do, the one that has more of the relation's columns."""
    ordered = tuple(sorted(columns))
    serving = [held for held in known.held.values() if held.arrangement.serves(ordered)]
    if not serving:
        return None
    found = known.serving[columns] = max(serving, key=lambda held: len(held.arrangement.carried))
    return found


def _carried(schema: Schema, columns: tuple[int, ...], wish: _Wish, before: _Held | None) -> tuple[int, ...]:
    """The columns that those need who look up by these; all if the relation is narrow."""
    if len(schema) <= NARROW or not columns:
        return tuple(range(len(schema)))
    return tuple(sorted({*columns, *wish.needed, *(() if before is None else before.arrangement.carried)}))


def _shown(relation: str, held: _Held) -> dict[str, str | int]:
    arrangement = held.arrangement
    names = arrangement.schema.names
    return {
        "relation": relation,
        "columns": ", ".join(names[column] for column in arrangement.columns),
        "carried": ", ".join(names[column] for column in arrangement.carried),
        "entries": arrangement.entries,
        "bytes": held.nbytes,
        "hits": held.hits,
        "built": held.version,
    }
