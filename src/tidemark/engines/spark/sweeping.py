"""Removing files that nothing needs any more.

Files that no record names were staged by a commit that never happened. They wait for a while, because the JVM of a
process that was killed may still be writing. Files that a merge replaced wait for foreign readers that are in the
middle of them; those that the log needs stay until it is forgotten, and those of a tail until a merge has folded it
into the base: the next opening reads them again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tidemark.engines.spark.lake import STATES, TABLES
from tidemark.engines.spark.loading import settled_at
from tidemark.engines.spark.options import Options
from tidemark.engines.spark.records import Altered, Committed, DataFile, Merged, forgotten_after, log_files
from tidemark.engines.spark.relations import Relations
from tidemark.engines.spark.transactions import Row


def sweep(root: Path, relations: Relations, rows: Iterable[Row], options: Options) -> list[Path]:
    """Remove what may go now, and say what it was."""
    needed, replaced = _named_files(relations, rows)
    now = time.time()
    removed = []
    for relation in relations.values():
        folder = root / relation.directory
        for path in _data_files(folder):
            # File names are never used twice, so the name alone tells, whatever relation it is of.
            name = path.relative_to(folder).as_posix()
            if name in needed:
                continue
            since, wait = replaced.get(name), options.keep_merged_seconds
            if since is None:
                since, wait = _modified(path), options.sweep_after_seconds
            if now - since > wait:
                path.unlink(missing_ok=True)
                removed.append(path)
    return removed + _sweep_directories(root, relations, now - options.sweep_after_seconds)


def _named_files(relations: Relations, rows: Iterable[Row]) -> tuple[set[str], dict[str, float]]:
    """The files that are needed, and those that merges and alterations replaced, with the time when they did."""
    needed = {file.path for relation in relations.values() for file in (*relation.files, *relation.published)}
    replaced: dict[str, float] = {}
    rows = list(rows)
    forgotten, settled = forgotten_after(row.record for row in rows), settled_at(rows)
    for row in rows:
        needed.update(file.path for file in (*log_files(row.record, forgotten), *_tail_files(row, settled)))
        removals: tuple[Merged | Altered, ...] = ()
        if isinstance(row.record, Merged):
            removals = (row.record,)
        elif isinstance(row.record, Committed):
            removals = row.record.altered
        replaced.update((path, row.time.timestamp()) for removal in removals for path in removal.removed)
    return needed, replaced


def _tail_files(row: Row, settled: Mapping[str, int]) -> Iterator[DataFile]:
    """The files of weighted entries that make up tails, whether or not the log still needs them."""
    if isinstance(row.record, Committed):
        for changed in row.record.changed:
            if row.sequence >= settled.get(changed.relation, 0):
                yield from changed.weighted


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
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
    return removed


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
