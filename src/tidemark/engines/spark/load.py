"""From the rows of the transactions table to the stored relations.

Most rows say no more than that small deltas stand in them. These are not looked at one by one: the small deltas of a
relation that follow each other become one.

Removing files that nothing needs any more.

Files that no record names were staged by a commit that never happened. They wait for a while, because the JVM of a
process that was killed may still be writing. Files that a merge replaced wait for foreign readers that are in the
middle of them; those that the log needs stay until it is forgotten, and those of a tail until a merge has folded it
into the base: the next opening reads them again. What a published table names stays, too, and for as long as that
table's own log goes back, what readers of its change data need: files of change data, and those that brought new rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidemark.engines.spark.delta_log import LOG, version_of
from tidemark.engines.spark.delta_table import CHANGE_DATA
from tidemark.engines.spark.in_process import read_entries
from tidemark.engines.spark.inline import Small
from tidemark.engines.spark.integrity import Verified
from tidemark.engines.spark.lake import STATES, TABLES
from tidemark.engines.spark.records import Altered, Changed, Committed, DataFile, Merged, Noted, forgotten_after
from tidemark.engines.spark.relations import Relation, Relations, apply
from tidemark.engines.spark.session import Options
from tidemark.engines.spark.stage import REWRITTEN
from tidemark.engines.spark.transactions import TransactionRow
from tidemark.storage import delta as deltas
from tidemark.storage.store import Listed, Store
from tidemark.storage.streams import from_bytes, read_many

NEVER: Final = 2**63 - 1
"""The row at which a relation without content is settled: it is behind all others."""


def replay(
    verified: Verified, rows: Sequence[TransactionRow], small: Mapping[str, Sequence[Small]]
) -> dict[str, Relation]:
    """The stored relations after all rows, of which those may be missing that have nothing but small deltas.

    ``small`` are the small deltas that are needed: those that a later merge folded into base files are not.
    """
    settled = settled_at(rows)
    waiting = {name: list(reversed(found)) for name, found in small.items()}
    relations: dict[str, Relation] = {}
    for row in rows:

        def entries(relation: Relation, changed: Changed, sequence: int = row.sequence) -> pa.Table | None:
            if sequence < settled.get(relation.name, 0):
                return None
            if changed.inline:
                return from_bytes(waiting[relation.name].pop().data)
            return read_entries(verified, relation.directory, changed.weighted, relation.schema)

        for changed in row.record.changed if isinstance(row.record, Committed) else ():
            _take(relations, changed.relation, waiting, row.sequence)
        relations = apply(relations, row.record, entries)
    for name in waiting:
        _take(relations, name, waiting, None)
    return relations


def _take(relations: dict[str, Relation], name: str, waiting: Mapping[str, list[Small]], before: int | None) -> None:
    """Give a relation its small deltas, the oldest of which wait last, up to a row."""
    found, taken = waiting.get(name, []), list[Small]()
    while found and (before is None or found[-1].sequence < before):
        taken.append(found.pop())
    if taken:
        delta = deltas.combine(*(table for _, table in read_many([one.data for one in taken])))
        relations[name] = relations[name].with_change((), delta, taken[-1].version)


def kept_after(rows: Iterable[TransactionRow], cells: Callable[[int], dict[str, bytes]]) -> dict[str, pa.Table]:
    """What is kept of forgotten logs, by relation: that of the last row that forgot something of it."""
    last: dict[str, int] = {}
    for row in rows:
        if isinstance(row.record, Noted):
            last.update((name, row.sequence) for name in row.record.forgotten)
        elif isinstance(row.record, Committed):
            for name in (*row.record.dropped, *(created.relation for created in row.record.created)):
                last.pop(name, None)
    inline = {sequence: cells(sequence) for sequence in set(last.values())}
    found = {name: inline[sequence].get(name) for name, sequence in last.items()}
    return {name: from_bytes(data) for name, data in found.items() if data is not None}


def settled_at(rows: Iterable[TransactionRow]) -> dict[str, int]:
    """For each relation the last row before which none of its deltas is needed for its content: creation, merge,
    alteration or drop. Of one without content none is needed ever."""
    result: dict[str, int] = {}
    for row in rows:
        if isinstance(row.record, Merged):
            result[row.record.relation] = row.sequence
        elif isinstance(row.record, Committed):
            result.update((name, row.sequence) for name in row.record.dropped)
            result.update((new.relation, row.sequence if new.kept else NEVER) for new in row.record.created)
            result.update((altered.relation, row.sequence) for altered in row.record.altered)
    return result


def sweep(
    store: Store,
    relations: Relations,
    rows: Iterable[TransactionRow],
    options: Options,
    published: Collection[str] = (),
) -> list[Path]:
    """Remove what may go now, and say what it was; ``published`` are files that other readers are told of."""
    rows = list(rows)
    # File names are never used twice, so the name alone tells, whatever relation it is of.
    names = {file.path for files in files_of(relations, rows).values() for file in files} | {*published}
    replaced = _replaced_files(rows)
    now = time.time()
    removed = []
    for relation in relations.values():
        folder = store.root / relation.directory
        found = store.listed(folder)
        feed_wait = min(options.keep_feed_seconds, now - _oldest_entry(found) + options.sweep_after_seconds)
        for path, about in found.items():
            name = path.relative_to(folder).as_posix()
            if name in names or name.startswith(f"{LOG}/"):
                continue
            since, wait = replaced.get(name), float(options.keep_merged_seconds)
            if name.startswith(CHANGE_DATA) or (since is not None and not name.startswith(REWRITTEN)):
                since, wait = since or about.modified, feed_wait
            elif since is None:
                since, wait = about.modified, options.sweep_after_seconds
            if now - since > wait:
                removed.append(path)
    store.remove(removed)
    return removed + _sweep_directories(store, relations, now - options.sweep_after_seconds)


def files_of(relations: Relations, rows: Sequence[TransactionRow]) -> dict[str, set[DataFile]]:
    """The files that each relation needs: for its content, for its log and for its tail."""
    forgotten, settled = forgotten_after(row.record for row in rows), settled_at(rows)
    needed = {name: {*relation.files} for name, relation in relations.items()}
    for row in rows:
        for changed in row.record.changed if isinstance(row.record, Committed) else ():
            relation = relations.get(changed.relation)
            if relation is None or row.record.version < relation.created_at:
                continue  # another relation had the name
            if row.record.version > forgotten.get(changed.relation, 0):
                needed[changed.relation].update(changed.files)
            if row.sequence >= settled.get(changed.relation, 0):
                needed[changed.relation].update(changed.weighted)
    return needed


def _replaced_files(rows: Sequence[TransactionRow]) -> dict[str, float]:
    """The files that merges and alterations replaced, with the time when they did."""
    replaced: dict[str, float] = {}
    for row in rows:
        removals: tuple[Merged | Altered, ...] = ()
        if isinstance(row.record, Merged):
            removals = (row.record,)
        elif isinstance(row.record, Committed):
            removals = row.record.altered
        replaced.update((path, row.time.timestamp()) for removal in removals for path in removal.removed)
    return replaced


def _oldest_entry(found: Mapping[Path, Listed]) -> float:
    """When the oldest entry of a relation's own Delta log was written; long ago, if there is none."""
    written = [(version, path) for path in found if (version := version_of(path)) is not None]
    return found[min(written)[1]].modified if written else 0.0


def _sweep_directories(store: Store, relations: Relations, before: float) -> list[Path]:
    """The folders of relations that were dropped, or never came to be."""
    used = {store.root / relation.directory for relation in relations.values()}
    removed = []
    for kind in (TABLES, STATES):
        for folder, newest in store.folders(store.root / kind).items():
            if folder not in used and newest < before:
                store.remove_folder(folder)
                removed.append(folder)
    return removed
