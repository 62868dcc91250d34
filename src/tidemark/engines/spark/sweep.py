"""Removing files that nothing needs any more.

Files that no record names were staged by a commit that never happened. They wait for a while, because the JVM of a
process that was killed may still be writing. Files that a merge replaced wait for foreign readers that are in the
middle of them; those that the log needs stay until it is forgotten, and those of a tail until a merge has folded it
into the base: the next opening reads them again. What a published table names stays, too, and for as long as that
table's own log goes back, what readers of its change data need: files of change data, and those that brought new rows.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from tidemark.engines.spark.delta_table import CHANGE_DATA
from tidemark.engines.spark.lake import STATES, TABLES
from tidemark.engines.spark.load import settled_at
from tidemark.engines.spark.records import Altered, Committed, DataFile, Merged, forgotten_after
from tidemark.engines.spark.relations import Relations
from tidemark.engines.spark.session import Options
from tidemark.engines.spark.stage import REWRITTEN
from tidemark.engines.spark.transactions import TransactionRow


def sweep(
    root: Path, relations: Relations, rows: Iterable[TransactionRow], options: Options, published: Collection[str] = ()
) -> list[Path]:
    """Remove what may go now, and say what it was; ``published`` are files that other readers are told of."""
    rows = list(rows)
    # File names are never used twice, so the name alone tells, whatever relation it is of.
    names = {file.path for files in files_of(relations, rows).values() for file in files} | {*published}
    replaced = _replaced_files(rows)
    now = time.time()
    removed = []
    for relation in relations.values():
        folder = root / relation.directory
        for path in _data_files(folder):
            name = path.relative_to(folder).as_posix()
            if name in names:
                continue
            since, wait = replaced.get(name), options.keep_merged_seconds
            if name.startswith(CHANGE_DATA) or (since is not None and not name.startswith(REWRITTEN)):
                since, wait = since or _modified(path), options.keep_feed_seconds
            elif since is None:
                since, wait = _modified(path), options.sweep_after_seconds
            if now - since > wait:
                path.unlink(missing_ok=True)
                removed.append(path)
    return removed + _sweep_directories(root, relations, now - options.sweep_after_seconds)


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


def _data_files(folder: Path) -> list[Path]:
    entries = [entry for entry in folder.iterdir() if entry.name != "_delta_log"] if folder.is_dir() else []
    nested = [path for entry in entries if entry.is_dir() for path in entry.rglob("*")]
    return [path for path in entries + nested if path.is_file()]


def _sweep_directories(root: Path, relations: Relations, before: float) -> list[Path]:
    """The folders of relations that were dropped, or never came to be."""
    used = {root / relation.directory for relation in relations.values()}
    removed = []
    for kind in (TABLES, STATES):
        for folder in (root / kind).iterdir():
            newest = max((_modified(path) for path in (folder, *folder.rglob("*"))), default=0.0)
            if folder not in used and newest < before:
                remove_folder(folder)
                removed.append(folder)
    return removed


def remove_folder(folder: Path) -> None:
    """Remove a folder that a relation of the same name may take again: it is there as a whole, or not at all."""
    going = folder.with_name(f"~{uuid.uuid4().hex}")
    folder.rename(going)
    shutil.rmtree(going, ignore_errors=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
