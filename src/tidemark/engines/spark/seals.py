"""Seals: the sizes and checksums of the files of Delta logs, kept apart from them.

The table of transactions is read by native code, which damaged bytes can lead to wrong answers or worse. So every file
of it has a seal in the lake's file of seals, and is compared with it before anybody else reads it. The file is added to
after each commit and before that is acknowledged, which makes it the high-water mark, too: a log entry that has a seal
was there. Each line has a checksum of its own.

What was killed between writing a file and sealing it leaves a file without a seal, and nothing worse.

Delta tables behind their seals: what is there is compared with what was sealed before delta-rs reads any of it.

A process may be killed at any instant. Then entries may be there that have no seal: one of ours tells by its own
checksums whether it is whole. Each writer has a file of seals of its own, named by its epoch, which begins with all
that the one before said: so nothing that a writer does which has lost its place reaches the seals that count.

Stored files that are not what was written.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidemark.engines.spark import delta_log
from tidemark.engines.spark.delta_log import LOG
from tidemark.errors import TidemarkError
from tidemark.storage.disk import checksum_of, replace


def damaged(file: str, what: str) -> TidemarkError:
    """The error for a file of the lake, by its path within it."""
    return TidemarkError(
        "damaged",
        f"{file} is damaged: {what}",
        hint="restore the lake from a backup; tidemark check lists everything that is damaged",
    )


@contextmanager
def no_panic(what: str) -> Iterator[None]:
    """Around native code that panics, which Python sees as something that no handler of errors catches."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise damaged(what, str(error).splitlines()[0]) from error


@dataclass(frozen=True)
class Seal:
    """What a file was when it was sealed."""

    size: int
    checksum: int


GONE: Final = Seal(-1, 0)
"""Instead of the seal of a file that was removed."""


class Seals:
    """The file of seals of one lake, by path relative to the lake. Only the writer of its epoch writes it."""

    def __init__(self, root: Path, path: Path) -> None:
        self._root = root
        self._path = path
        self._found: dict[str, Seal] = {}
        self._owed: dict[str, Seal] = {}
        self._read()

    def __contains__(self, path: Path) -> bool:
        return self._name(path) in self._found

    def under(self, folder: Path) -> dict[Path, Seal]:
        """All seals of files below a folder, whether or not the files are still there."""
        prefix = f"{self._name(folder)}/"
        return {self._root / name: seal for name, seal in self._found.items() if name.startswith(prefix)}

    def of(self, path: Path) -> Seal | None:
        return self._found.get(self._name(path))

    def verify(self, path: Path) -> None:
        """Refuse a file that is not what was sealed."""
        seal = self._found[self._name(path)]
        try:
            size, checksum = checksum_of(path)
        except FileNotFoundError as error:
            raise damaged(self._name(path), "it is missing") from error
        except OSError as error:
            raise damaged(self._name(path), f"it cannot be read: {error.strerror}") from error
        if size != seal.size:
            raise damaged(self._name(path), f"it has {size} bytes instead of {seal.size}")
        if checksum != seal.checksum:
            raise damaged(self._name(path), "its checksum is not the one it was written with")

    def add(self, paths: Iterable[Path]) -> None:
        """Seal files as they are now."""
        self.put({path: Seal(*checksum_of(path)) for path in paths})

    def put(self, sealed: dict[Path, Seal]) -> None:
        """Add seals of files that were just written, with one write."""
        new = {**self._owed, **{self._name(path): seal for path, seal in sealed.items()}}
        if not new:
            return
        data = b"".join(_line(name, seal) for name, seal in new.items())
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            before = os.fstat(handle).st_size
            if os.write(handle, data) < len(data):
                os.ftruncate(handle, before)  # no half of a line may stand before others
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(handle)
        self._owed = {}
        self._take(new)

    def owe(self, sealed: dict[Path, Seal]) -> None:
        """Know seals for which there is no room on the disk; they are written with the next ones."""
        new = {self._name(path): seal for path, seal in sealed.items()}
        self._owed = {**self._owed, **new}
        self._take(new)

    def _take(self, new: dict[str, Seal]) -> None:
        self._found.update(new)
        for name in [name for name, seal in new.items() if seal == GONE]:
            del self._found[name]

    def drop(self, folder: Path) -> None:
        """The files below a folder are gone for good; others of the same names may come."""
        self.put(dict.fromkeys(self.under(folder), GONE))

    def forget_missing(self, folder: Path) -> None:
        """Write the file anew, onto the disk, without the seals of files below a folder that are gone."""
        gone = [path for path in self.under(folder) if not path.exists()]
        for path in gone:
            del self._found[self._name(path)]
        replace(self._path, b"".join(_line(name, seal) for name, seal in self._found.items()))
        self._owed = {}

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _read(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError as error:
            raise damaged(self._name(self._path), "it is missing") from error
        lines = data.split(b"\n")
        for number, line in enumerate(lines):
            is_last = number == len(lines) - 1
            if is_last and not line:
                return
            found = _parsed(line)
            if found is not None:
                self._take(dict([found]))
            elif not is_last:
                raise damaged(self._name(self._path), f"line {number + 1} of it does not have its checksum")
        # The last line was cut short when the process was killed, before its commit was acknowledged.

    def moved_to(self, path: Path) -> Seals:
        """The same seals in a file of their own, which is on the disk."""
        replace(path, b"".join(_line(name, seal) for name, seal in self._found.items()))
        return Seals(self._root, path)


def _line(name: str, seal: Seal) -> bytes:
    said = json.dumps([name, seal.size, seal.checksum]).encode()
    return b"%08x %s\n" % (zlib.crc32(said), said)


def _parsed(line: bytes) -> tuple[str, Seal] | None:
    checksum, _, said = line.partition(b" ")
    if b"%08x" % zlib.crc32(said) != checksum:
        return None
    name, size, found = json.loads(said)
    return name, Seal(size, found)


_logger = logging.getLogger("tidemark.spark")
LAST_CHECKPOINT: Final = "_last_checkpoint"
"""A hint of Delta's, written over at each checkpoint. Without it readers look at the names in the folder."""


@dataclass(frozen=True)
class Tail:
    """The end of the log of the table of transactions: the last entry that is whole, the last epoch that an entry
    without a seal says, what there is to be sealed, and entries that never came to be."""

    last: int
    epoch: int
    whole: dict[Path, Seal]
    torn: tuple[Path, ...]


def tail_of(table: Path, seals: Seals) -> Tail:
    """Look at the entries that have no seal: an append of ours tells by its own checksums whether it is whole."""
    sealed = list(seals.under(table / LOG))
    numbers = [*map(delta_log.version_of, sealed), *map(delta_log.checkpoint_of, sealed)]
    last = max((number for number in numbers if number is not None), default=-1)
    present = delta_log.entries(table)
    unsealed = [present[version] for version in sorted(present) if version > last]
    epoch, whole = 0, dict[Path, Seal]()
    kept = 0
    for path in unsealed:
        parts = _appended(table, path)
        if parts is None or delta_log.version_of(path) != last + 1:
            break
        found = delta_log.read_append(path.read_bytes())
        epoch, last, kept = max(epoch, 0 if found is None else found.epoch), last + 1, kept + 1
        whole |= parts
    torn = tuple(unsealed[kept:])
    if any(_appended(table, path) is not None for path in torn):
        raise damaged(str(torn[0].name), "it is not whole, and later transactions stand on it")
    return Tail(last, epoch, whole, torn)


def take_back(torn: Iterable[Path]) -> None:
    """Put entries out of the way that were written when the machine died."""
    for path in reversed(list(torn)):
        _logger.warning("%s was written when the process died, and is taken back", path.name)
        path.rename(path.with_name(f"{path.name}.torn"))


def seal_tail(table: Path, seals: Seals) -> None:
    """Seal what the writer before has committed and not sealed."""
    whole = tail_of(table, seals).whole
    try:
        seals.put(whole)
    except OSError:
        # They are whole by their own checksums, and nobody may be refused what is committed because a disk is full.
        _logger.warning("the last commits could not be sealed", exc_info=True)
        seals.owe(whole)


def verify_transactions(table: Path, seals: Seals) -> int:
    """Make sure that the log of the table of transactions is what was sealed; the entry of the checkpoint with which it
    begins. One that has no seal is passed over: nobody knows whether it is whole, and whose it is."""
    log = table / LOG
    sealed = list(seals.under(log))
    points = {found: path for path in sealed if (found := delta_log.checkpoint_of(path)) is not None}
    wanted = {found: path for path in sealed if (found := delta_log.version_of(path)) is not None}
    base = max(points, default=-1)
    if base >= 0:
        seals.verify(points[base])
    present, last = delta_log.entries(table), max(wanted, default=-1)
    for version in range(base + 1, last + 1):
        if version not in wanted:
            raise damaged(f"the log of {table.name}", f"nothing is known of its entry {version}")
        seals.verify(wanted[version])
    # Below the checkpoint files may be there or not, but those that are must be right.
    for path in (*present.values(), *delta_log.checkpoints(table).values()):
        if path in seals and path.exists():
            seals.verify(path)
    return base


def _appended(table: Path, path: Path) -> dict[Path, Seal] | None:
    """The seals of an append, if it and what it adds are whole."""
    data = path.read_bytes()
    found = delta_log.read_append(data)
    if found is None:
        return None
    seal = Seal(len(data), zlib.crc32(data))
    if found.path is None:
        return {path: seal}
    part = table / found.path
    if not part.is_file() or checksum_of(part) != (found.size, found.checksum):
        return None
    return {part: Seal(found.size, found.checksum), path: seal}


def verify_parts(table: Path, names: Iterable[str], seals: Seals) -> None:
    """Make sure that the files which hold the rows of a table are what was sealed."""
    for name in names:
        path = table / name
        if path not in seals:
            raise damaged(path.name, "nothing is known of its bytes")
        seals.verify(path)


def verify_published(table: Path, seals: Seals) -> None:
    """The same for a relation's own Delta log, of which nothing of ours depends.

    Entries without a seal were written when a process died; they must at least be JSON.
    """
    log = table / LOG
    points = delta_log.checkpoints(table)
    _check_hint(log / LAST_CHECKPOINT, max(points, default=-1))
    present = delta_log.entries(table)
    versions = [found for path in seals.under(log) if (found := delta_log.version_of(path)) is not None]
    base = max((version for version, path in points.items() if path in seals), default=-1)
    for version in range(base + 1, max(versions, default=-1) + 1):
        if version not in present:
            raise damaged(f"{table.name}/{LOG}/{version:020d}.json", "it is missing")
    for path in (*points.values(), *present.values()):
        if path in seals:
            seals.verify(path)
        elif path.suffix == ".json" and not delta_log.is_whole(path.read_bytes()):
            raise damaged(f"{table.name}/{LOG}/{path.name}", "it is not whole")


def seal_published(table: Path, seals: Seals) -> None:
    """Seal what is new in a relation's own Delta log."""
    found = (*delta_log.entries(table).values(), *delta_log.checkpoints(table).values())
    seals.add(path for path in found if path not in seals)


def _check_hint(hint: Path, highest: int) -> None:
    """Remove the hint if it does not name the last checkpoint."""
    try:
        if json.loads(hint.read_bytes())["version"] == highest:
            return
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError):
        pass
    hint.unlink()
