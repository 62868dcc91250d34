"""The past of relations, their logs since a version, as far as they are retained; and their content now.

Whether the log reaches back to a version.

Net changes of relations since versions, kept in memory, so that the log is not read again and again.

Of each relation that a lagging one reads, what recent versions changed is kept. From that, what was net since a
version is brought up to date when it is asked for, and not before: what nobody asks for costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.history import logged_name, logs_read
from tidemark.algebra.plans import Given, Negate, Plan, Stored, union
from tidemark.algebra.types import TIME, VERSION
from tidemark.calculus.as_of import Block, resolve
from tidemark.errors import TidemarkError
from tidemark.sql.catalog.catalog import Relation, View
from tidemark.state.times import TIMESTAMP, CommitTimes
from tidemark.storage import delta as delta_tables
from tidemark.storage.retention import Retained
from tidemark.strategy.settle import settle

if TYPE_CHECKING:
    from tidemark.state.state import Store


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


def past(plan: Plan, store: Store) -> dict[str, pa.Table]:
    """The logs that a plan reads, under the names by which it reads them."""
    return {logged_name(name, version): _checked(store, name, version) for name, version in set(logs_read(plan))}


def _checked(store: Store, relation: str, version: int) -> pa.Table:
    born = store.created.get(relation)
    if version > store.version:
        raise TidemarkError("version", f"there is no version {version}", hint=f"the last one is {store.version}")
    if born is None or version < born:
        since = "is not committed yet" if born is None else f"was created in version {born}"
        raise TidemarkError("version", f"there is no {relation!r} as of version {version}: it {since}")
    return net_since(store, relation, version)


def net_since(store: Store, relation: str, since: int) -> pa.Table:
    """The net change of a relation since a version."""
    must_reach(store, relation, since)
    if since >= store.version:
        return delta_tables.no_change(store.catalog.relations[relation].schema)
    return delta_tables.net(store.engine.changes(relation, since).drop_columns([VERSION]))


def changes_since(name: str, since: int, store: Store) -> pa.Table:
    """What each version after ``since`` did to a relation; to a view, at its creation, all that it held then."""
    relation = store.catalog.relations[name]
    must_reach(store, name, since, each_version=True)
    logged = store.engine.changes(name, since)
    born = store.created[name]
    if not isinstance(relation, View) or born <= since:
        return logged
    # The initial content is not kept apart: it is the content now, rolled back over the log.
    later = delta_tables.net(logged.drop_columns([VERSION]))
    plan = union((content(relation), Negate(Given("log", relation.schema))), relation.schema)
    initial = store.engine.evaluate(*settle(plan, {"log": later}, store.engine))
    stamp = pa.array([born] * initial.num_rows, pa.int64())
    return pa.concat_tables([initial.add_column(len(relation.schema), VERSION, stamp).cast(logged.schema), logged])


def in_time(changes: pa.Table, times: CommitTimes) -> pa.Table:
    """Changes with the time of each version. A relation that has had a column of that name since before it was reserved
    keeps that one."""
    if TIME in map(str.lower, changes.column_names):
        return changes
    return changes.append_column(pa.field(TIME, TIMESTAMP), times.stamps(changes.column(VERSION)))


def content(relation: Relation) -> Plan:
    """A relation as it is now: what is stored of it, or, of an external view, what its definition says."""
    if isinstance(relation, View) and relation.external:
        return resolve(relation.plan, Block())
    return Stored(relation.name, relation.schema)


MOST_ROWS: Final = 200_000
"""So many changed rows of a relation are kept; of all that is net, too."""
MOST_NET: Final = 1024
"""Of so many versions the net changes since then are kept."""
PACKED: Final = 64
"""So many small deltas are put into one table."""

Key = tuple[str, int]


class Recent:
    """What recent versions changed in one relation: everything after ``start``."""

    def __init__(self, start: int) -> None:
        self.start = start
        self._packed: list[tuple[int, pa.Table]] = []
        self._loose: list[tuple[int, pa.Table]] = []
        self._rows = 0

    def add(self, version: int, delta: pa.Table) -> None:
        self._loose.append((version, delta))
        self._rows += delta.num_rows
        if len(self._loose) >= PACKED:
            self._pack()
        while self._rows > MOST_ROWS and (self._packed or self._loose):
            self.start, dropped = (self._packed or self._loose).pop(0)
            self._rows -= dropped.num_rows

    def _pack(self) -> None:
        parts = [_stamped(delta, version) for version, delta in self._loose]
        self._packed.append((self._loose[-1][0], pa.concat_tables(parts).combine_chunks()))
        self._loose.clear()

    def after(self, version: int) -> list[pa.Table]:
        """The changes after a version, which is not before the start, as deltas."""
        found = []
        for last, table in self._packed:
            if last > version:
                column = table.column(VERSION)
                later = table if column[0].as_py() > version else table.filter(pc.greater(column, version))
                found.append(later.drop_columns([VERSION]))
        return found + [delta for at, delta in self._loose if at > version]


class NetChanges:
    """The net change of a relation since a version, by both. What is put in is as of now, and is kept as of now.

    Everything is known that was changed after ``_start`` in relations that lagging ones read; ``nothing`` gives
    the change of a relation in which nothing was.
    """

    def __init__(self, version: Callable[[], int], nothing: Callable[[str], pa.Table]) -> None:
        self._version, self._nothing, self._start = version, nothing, version()
        self._recent: dict[str, Recent] = {}
        self._net: dict[Key, tuple[int, pa.Table]] = {}
        self._rows = 0

    def add(self, deltas: Mapping[str, pa.Table]) -> None:
        """Take in what the version that is now changed, of the relations that lagging ones read."""
        version = self._version()
        for name, delta in deltas.items():
            if name not in self._recent:
                self._recent[name] = Recent(self._start)
            self._recent[name].add(version, delta)

    def __contains__(self, key: Key) -> bool:
        return self._known(key) is not None

    def __getitem__(self, key: Key) -> pa.Table:
        parts = self._known(key)
        if parts is None:
            raise KeyError(key)
        delta = parts[0] if len(parts) == 1 else delta_tables.combine(*parts)
        self[key] = delta
        return delta

    def __setitem__(self, key: Key, delta: pa.Table) -> None:
        self._drop(key)
        self._net[key] = (self._version(), delta)
        self._rows += delta.num_rows
        while len(self._net) > MOST_NET or (self._rows > MOST_ROWS and len(self._net) > 1):
            self._drop(next(iter(self._net)))

    def _known(self, key: Key) -> list[pa.Table] | None:
        """The deltas of which the net change is made; None if the log has to be read for it."""
        (relation, since), now = key, self._version()
        upto, net = self._net.get(key, (since, None))
        recent = self._recent.get(relation)
        if net is not None and upto == now:
            return [net]
        if (self._start if recent is None else recent.start) > upto:
            return None
        return [self._nothing(relation) if net is None else net, *([] if recent is None else recent.after(upto))]

    def _drop(self, key: Key) -> None:
        known = self._net.pop(key, None)
        if known is not None:
            self._rows -= known[1].num_rows

    def forget(self, relations: Iterable[str], since: int) -> None:
        """Let go of what is net since a version: what lagged behind it has gone on."""
        for relation in relations:
            self._drop((relation, since))

    def clear(self) -> None:
        """Forget everything: columns have come, or something failed."""
        self._net.clear()
        self._recent.clear()
        self._rows, self._start = 0, self._version()


def _stamped(delta: pa.Table, version: int) -> pa.Table:
    stamp = pa.repeat(pa.scalar(version, pa.int64()), delta.num_rows)
    return delta.add_column(delta.num_columns - 1, VERSION, stamp)
