"""What the engines that store files share: checksums, and writing that survives a loss of power.

A checksum is the CRC-32 of a whole file: it tells every flipped bit, and costs a fraction of a second for a gigabyte.

Trouble with storage, whoever tells of it: a disk that is full, and files that may not be read or written.
"""

from __future__ import annotations

import errno
import os
import uuid
import zlib
from pathlib import Path
from typing import Final

from tidemark.errors import TidemarkError

CHUNK_BYTES: Final = 4 * 1024 * 1024


def checksum_of(path: Path) -> tuple[int, int]:
    """The size and the checksum of a file."""
    size, checksum = 0, 0
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
    return size, checksum


def copy_checked(source: Path, target: Path) -> tuple[int, int]:
    """Copy a file to one that is not there yet, onto the disk, and say the size and the checksum of what was copied."""
    size, checksum = 0, 0
    with open(source, "rb", buffering=0) as file, open(target, "xb") as copy:
        while chunk := file.read(CHUNK_BYTES):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
            copy.write(chunk)
        copy.flush()
        os.fsync(copy.fileno())
    return size, checksum


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_new(path: Path, data: bytes, *, is_synced: bool) -> None:
    """Write a file that is not there yet: with all of its bytes, or not at all. It fails if there is one already."""
    draft = path.with_name(f".{uuid.uuid4().hex}.draft")
    try:
        _write(draft, data, is_synced=is_synced)
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    if is_synced:
        sync(path.parent)


def replace(path: Path, data: bytes) -> None:
    """Replace a file, or make it: the old bytes are there or the new ones, at any instant and after a loss of power."""
    draft = path.with_name(f"{path.name}.draft")
    _write(draft, data, is_synced=True)
    draft.replace(path)
    sync(path.parent)


def _write(path: Path, data: bytes, *, is_synced: bool) -> None:
    with open(path, "wb") as file:  # buffered: a raw write may stop half-way and only say so
        file.write(data)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())


class Room:
    """Room on the disk that is kept for something that comes later and must not fail: a file of nothing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     room = Room(Path(folder) / "room")
    ...     room.keep(10_000)
    ...     kept = room.path.stat().st_size
    ...     room.give()
    ...     kept >= 10_000, room.path.exists()
    (True, False)
    """

    def __init__(self, path: Path) -> None:
        self.path, self._kept = path, 0

    def keep(self, size: int) -> None:
        """Have so many bytes at least; an OSError if the disk has not."""
        if size <= self._kept:
            return
        kept = max(size, LEAST_ROOM, self._kept * 2)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.posix_fallocate(handle, 0, kept)
        except OSError:
            self.give()
            raise
        finally:
            os.close(handle)
        self._kept = kept

    def give(self) -> None:
        """Let go of it, for what it was kept for."""
        self._kept = 0
        self.path.unlink(missing_ok=True)


LEAST_ROOM: Final = 256 * 1024

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL_TEXTS: Final = ("no space left on device", "os error 28", "errno: 28", "disk quota exceeded", "file too large")
_FORBIDDEN_TEXTS: Final = ("permission denied", "read-only file system", "operation not permitted")


def storage_trouble(error: BaseException, path: str | os.PathLike[str] | None = None) -> TidemarkError | None:
    """What is said of a disk that is full, or of files that may not be read or written; None if it is neither."""
    text = first_line(error)
    number, low = getattr(error, "errno", None), text.lower()
    place = path if path is not None else getattr(error, "filename", None)
    where = f" at {os.fspath(place)}" if isinstance(place, str | os.PathLike) else ""
    if number in FULL or any(sign in low for sign in _FULL_TEXTS):
        return TidemarkError("storage_failed", f"the disk is full{where}: {text}", hint="make room, and try again")
    if number in FORBIDDEN or any(sign in low for sign in _FORBIDDEN_TEXTS):
        return TidemarkError(
            "permission", f"the files{where} may not be read or written: {text}", hint="see to the rights of the files"
        )
    return None


def first_line(error: BaseException) -> str:
    """The first line that says something."""
    text = next((line for line in str(error).splitlines() if line.strip()), "").strip()
    return text if len(text) <= 400 else f"{text[:397]}..."
