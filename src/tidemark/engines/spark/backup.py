"""A copy of a lake as of its last version, while the lake goes on.

Files of a lake are never changed once they are named. So a backup first takes a hard link of each that the version
needs, in a folder of the lake's own, which is a matter of moments; then it copies them without haste, comparing every
byte with the checksums that the lake has of it. Relations' own Delta logs are not copied: opening the copy writes them.

Verifying everything that a lake stores, file by file; nothing stops at the first thing that is wrong.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidemark.engines.engine import Checked
from tidemark.engines.spark.delta_log import LOG, standing_from
from tidemark.engines.spark.integrity import bring, mirror, problem_of
from tidemark.engines.spark.lake import FORMAT, OWN, Lake, marker_text, seals_path
from tidemark.engines.spark.load import files_of
from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.relations import Relation, apply
from tidemark.engines.spark.seals import (
    Seal,
    Seals,
    damaged,
    tail_of,
    verify_parts,
    verify_published,
    verify_transactions,
)
from tidemark.engines.spark.session import Options
from tidemark.engines.spark.transactions import StoredTransactions, TransactionRow
from tidemark.errors import TidemarkError
from tidemark.storage.disk import copy_checked, replace, sync


@dataclass(frozen=True)
class Needed:
    """A file that a backup needs, by its path within the lake, with its size and its checksum if that is known."""

    path: str
    size: int
    checksum: int | None


def begin(lake: Lake, target: Path, files: Iterable[Needed], sealed: Iterable[Path]) -> Callable[[], None]:
    """Take hold of all files, while nothing changes; what is returned copies them, and may take its time."""
    if target.exists():
        raise TidemarkError("backup", f"{target} is there already", hint="name a folder that does not exist yet")
    if not target.parent.is_dir():
        raise TidemarkError("backup", f"the folder {target.parent} does not exist", hint="create it first")
    seals = {path.relative_to(lake.root).as_posix(): _seal(lake, path) for path in sealed}
    wanted = [*files, *(Needed(name, seal.size, seal.checksum) for name, seal in seals.items())]
    held = lake.backing / uuid.uuid4().hex
    bring(lake.store, [(lake.root / file.path, file.size, file.checksum) for file in wanted])
    try:
        for file in wanted:
            link = held / file.path
            link.parent.mkdir(parents=True, exist_ok=True)
            _hold(lake.root / file.path, link, file.path)
    except BaseException:
        shutil.rmtree(held, ignore_errors=True)
        raise
    epoch = lake.epoch
    return lambda: _finish(held, target, wanted, seals, epoch)


def _finish(held: Path, target: Path, wanted: list[Needed], seals: dict[str, Seal], epoch: int) -> None:
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}.draft")
    sealed = seals_path(draft, epoch)
    try:
        for file in wanted:
            copy = draft / file.path
            copy.parent.mkdir(parents=True, exist_ok=True)
            found = copy_checked(held / file.path, copy)
            if found != (file.size, found[1] if file.checksum is None else file.checksum):
                raise damaged(file.path, "it is not what was written, and cannot be copied")
        (draft / OWN).mkdir(parents=True, exist_ok=True)
        replace(sealed, b"")
        Seals(draft, sealed).put({draft / name: seal for name, seal in seals.items()})
        replace(draft / OWN / "lake.json", marker_text(FORMAT))
        for folder, _, _ in os.walk(draft):
            sync(Path(folder))
        sync(sealed)
        draft.rename(target)
        sync(target.parent)
    except OSError as error:
        raise TidemarkError("storage_failed", f"the backup could not be written: {error.strerror}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(held, ignore_errors=True)


def _hold(path: Path, link: Path, name: str) -> None:
    try:
        os.link(path, link)
    except FileNotFoundError as error:
        raise damaged(name, "it is missing") from error
    except OSError:
        # Not every file system has hard links. Then the copy is made twice, and changes wait for the first.
        shutil.copyfile(path, link)


def _seal(lake: Lake, path: Path) -> Seal:
    seal = lake.seals.of(path)
    if seal is None:
        raise damaged(path.name, "nothing is known of its bytes")
    return seal


def check_lake(path: str, tell: Callable[[str], None]) -> Checked:
    """Compare all files of a lake with the checksums that it has of them. The lake must not be open elsewhere."""
    try:
        lake = Lake(path)
    except TidemarkError as error:
        if error.code != "damaged":
            raise
        return Checked((error.message,))
    try:
        return _checked(lake, tell)
    finally:
        lake.close()


def _checked(lake: Lake, tell: Callable[[str], None]) -> Checked:
    if not lake.is_sealed:
        said = "the lake was written by an earlier Tidemark, without checksums; it gets some when it is opened"
        return Checked(unverified=(said,))
    tell("the table of transactions")
    sealed = [path for path in lake.seals.under(lake.transactions) if path.exists()]
    damage = [problem for path in sealed if (problem := _problem(partial(lake.seals.verify, path)))]
    try:
        tail = tail_of(lake.transactions, lake.seals)
        lake.seals.owe(tail.whole)  # which needs no seal to be known as whole
        base = verify_transactions(lake.transactions, lake.seals)
        stored = StoredTransactions(
            lake.transactions, Options(), standing_from(lake.transactions, base, tail.last), lake.store
        )
        verify_parts(lake.transactions, stored.parts, lake.seals)
        rows = stored.rows()
    except TidemarkError as error:
        return Checked(tuple(dict.fromkeys([*damage, error.message])), files=len(sealed))
    relations = _stored(rows)
    needed, unverified = files_of(relations, rows), list[str]()
    for name, files in needed.items():
        tell(name)
        damage += _of_relation(lake, relations[name], files)
        without = sum(file.checksum is None for file in files)
        if without:
            unverified.append(f"{name}: {without} of {len(files)} files were written without checksums")
    checked = len(sealed) + sum(len(files) for files in needed.values())
    return Checked(tuple(dict.fromkeys(damage)), tuple(unverified), checked)


def _stored(rows: list[TransactionRow]) -> dict[str, Relation]:
    """The relations with the files that records name; what stands in those files is not read."""
    relations: dict[str, Relation] = {}
    for row in rows:
        relations = apply(relations, row.record, lambda *_: None)
    return relations


def _of_relation(lake: Lake, relation: Relation, files: set[DataFile]) -> Iterator[str]:
    folder = lake.root / relation.directory
    bring(lake.store, [(folder / file.path, file.size_bytes, file.checksum) for file in files])
    for file in sorted(files, key=lambda file: file.path):
        problem = problem_of(lake.root, relation.directory, file)
        if problem is not None:
            yield problem.message
    mirror(lake.store, lake.root / relation.directory, parts=False)
    published = _problem(lambda: verify_published(lake.root / relation.directory, lake.seals))
    if published:
        yield f"{published} (it is for other readers: if {relation.directory}/{LOG} is removed, it is written anew)"


def _problem(verify: Callable[[], None]) -> str:
    try:
        verify()
    except TidemarkError as error:
        return error.message
    return ""
