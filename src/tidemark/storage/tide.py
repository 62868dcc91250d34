"""The tide: a file of records beside a database, to which a commit is one synced append.

What a record says is not known here. A file begins with the id of the database that it belongs to, and with a mark: the
last version that was acknowledged. Records follow, each in a frame with its version, its length and checksums of both:

    header   magic, format, id, CRC
    mark     version, CRC                                  written in place after each commit, and not waited for
    record   magic, length, version, CRC of the body, CRC of the frame; body

A process that dies while it appends leaves a record that is not whole, and that nobody was told of: it is cut off.
Everything else that is not as it was written is damage: a version that was acknowledged must be there.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidemark.errors import TidemarkError
from tidemark.storage.disk import first_line, replace, storage_trouble

SUFFIX: Final = ".tide"
FORMAT: Final = 2
FIRST_FORMAT: Final = 1
"""Records of this format have no rows in their heads. A file of it becomes one of the other before it is added to."""
ID_BYTES: Final = 16
_MAGIC: Final = b"tidemark"
_BEGINNING: Final = struct.Struct(f"<8sI{ID_BYTES}sI")
_MARK: Final = struct.Struct("<QI")
_MARK_AT: Final = 32
HEADER_BYTES: Final = 64
_FRAME: Final = struct.Struct("<4sIQII")
_FRAME_MAGIC: Final = b"\xabTR\n"
MOST_BYTES: Final = 1 << 31

_logger = logging.getLogger("tidemark.storage")
_sync_data = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True)
class Record:
    """What one version wrote."""

    version: int
    body: bytes


class Tide:
    """The tide of one database, by its path and the id of the database. One process at a time holds it."""

    def __init__(self, path: Path, id_: bytes) -> None:
        assert len(id_) == ID_BYTES
        self.path, self._id = path, id_
        self._handle: int | None = None
        self.end = 0
        """Where the next record begins."""

    @property
    def is_there(self) -> bool:
        """Whether records can be appended."""
        return self._handle is not None

    def begin(self, version: int) -> None:
        """Make a file without records. Its name is on the disk before anything is written to it."""
        replace(self.path, _header(self._id, version))
        self._open()

    def _open(self) -> None:
        self.close()
        handle = os.open(self.path, os.O_RDWR)
        self.end = os.fstat(handle).st_size
        self._handle = handle

    def read(self, stored: int) -> list[Record]:
        """The records after a version that is stored elsewhere, without gaps; what was not written to its end is cut
        off. There must be a file."""
        self._open()
        assert self._handle is not None
        data = _all_of(self._handle)
        self._must_be_ours(data)
        records, end = _records(data)
        whole = max([stored, *(record.version for record in records)])
        marked = _marked(data)
        if marked > whole:
            raise self._damaged(f"version {marked} was committed, and version {whole} is the last that can be read")
        if end < len(data):
            if _has_record(data, end + 1):
                raise self._damaged(f"the record at byte {end} is not as it was written")
            _logger.warning("%s: a commit that was not completed is cut off at byte %d", self.path, end)
            os.ftruncate(self._handle, end)
        # What is read may have been written by a process that died before it could wait for the disk.
        os.fsync(self._handle)
        self.end = end
        if _BEGINNING.unpack_from(data)[1] < FORMAT:
            replace(self.path, _beginning(self._id) + data[_MARK_AT:end])
            self._open()
        later = [record for record in records if record.version > stored]
        if [record.version for record in later] != list(range(stored + 1, stored + 1 + len(later))):
            raise self._damaged(f"version {stored} is stored, and version {later[0].version} does not follow it")
        return later

    def _must_be_ours(self, data: bytes) -> None:
        if len(data) < HEADER_BYTES:
            raise self._damaged("its beginning is missing")
        magic, format_, id_, checksum = _BEGINNING.unpack_from(data)
        if zlib.crc32(data[: _BEGINNING.size - 4]) != checksum or magic != _MAGIC:
            raise self._damaged("its beginning is not as it was written")
        if not FIRST_FORMAT <= format_ <= FORMAT:
            raise TidemarkError(
                "format",
                f"{self.path} has the format {format_}, this Tidemark reads {FORMAT}",
                hint="open it with the version of Tidemark that wrote it",
            )
        if id_ != self._id:
            raise TidemarkError(
                "damaged",
                f"{self.path} belongs to another database than the one beside it",
                hint="put back the file that belongs to the database; if the database is a copy that was complete, "
                "remove this one",
            )

    def append(self, version: int, body: bytes) -> None:
        """Add a record and wait until the disk has it; this is a commit point. After an error it is not there, unless
        that has the code ``commit_unknown``."""
        handle, start = self._handle, self.end
        assert handle is not None, "the tide has not begun"
        data = _framed(version, body)
        try:
            _write(handle, data, start)
            _sync_data(handle)
        except OSError as error:
            try:
                os.ftruncate(handle, start)
                _sync_data(handle)
            except OSError as again:
                raise TidemarkError("commit_unknown", f"{self.path} cannot be written: {first_line(again)}") from error
            raise self._failed(error) from error
        self.end = start + len(data)

    def mark(self, version: int) -> None:
        """A version is acknowledged. It is there: that it is marked, too, only helps to notice damage."""
        assert self._handle is not None, "the tide has not begun"
        try:
            os.pwrite(self._handle, _mark(version), _MARK_AT)
        except OSError:
            _logger.warning("version %d could not be marked", version, exc_info=True)

    def cut(self) -> None:
        """Remove all records, which are durable elsewhere. That they stay for a while does no harm."""
        assert self._handle is not None, "the tide has not begun"
        try:
            os.ftruncate(self._handle, HEADER_BYTES)
        except OSError:
            _logger.warning("%s could not be cut", self.path, exc_info=True)
            return
        self.end = HEADER_BYTES

    def remove(self) -> None:
        """All is stored elsewhere, and nobody looks for the file any more."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        # Forgotten before it is closed: closing again after an interrupt must not hit a number that is somebody else's.
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _damaged(self, what: str) -> TidemarkError:
        return TidemarkError("damaged", f"{self.path} is damaged: {what}", hint="restore the database from a backup")

    def _failed(self, error: OSError) -> TidemarkError:
        told = storage_trouble(error, self.path)
        return told or TidemarkError("storage_failed", f"{self.path} cannot be written: {first_line(error)}")


def _header(id_: bytes, version: int) -> bytes:
    return (_beginning(id_) + _mark(version)).ljust(HEADER_BYTES, b"\0")


def _beginning(id_: bytes) -> bytes:
    """The header up to the mark."""
    beginning = _BEGINNING.pack(_MAGIC, FORMAT, id_, 0)[:-4]
    return (beginning + struct.pack("<I", zlib.crc32(beginning))).ljust(_MARK_AT, b"\0")


def _mark(version: int) -> bytes:
    return _MARK.pack(version, zlib.crc32(struct.pack("<Q", version)))


def _marked(data: bytes) -> int:
    """The version that is marked; none if the mark cannot be read, which may be half written after a loss of power."""
    version, checksum = _MARK.unpack_from(data, _MARK_AT)
    return int(version) if zlib.crc32(struct.pack("<Q", version)) == checksum else 0


def _framed(version: int, body: bytes) -> bytes:
    if len(body) >= MOST_BYTES:
        raise TidemarkError("storage_failed", "a record of more than 2 GiB cannot be written", hint="do less at a time")
    frame = _FRAME.pack(_FRAME_MAGIC, len(body), version, zlib.crc32(body), 0)[:-4]
    return b"".join((frame, struct.pack("<I", zlib.crc32(frame)), body))


def _record_at(data: bytes, place: int) -> Record | None:
    """The record that begins at a place, if there is a whole one."""
    if place + _FRAME.size > len(data):
        return None
    magic, length, version, body_sum, frame_sum = _FRAME.unpack_from(data, place)
    start = place + _FRAME.size
    if magic != _FRAME_MAGIC or zlib.crc32(data[place : start - 4]) != frame_sum or start + length > len(data):
        return None
    body = data[start : start + length]
    return Record(version, body) if zlib.crc32(body) == body_sum else None


def _records(data: bytes) -> tuple[list[Record], int]:
    """The whole records from the beginning on, and where they end."""
    found, place = list[Record](), HEADER_BYTES
    while (record := _record_at(data, place)) is not None:
        found.append(record)
        place += _FRAME.size + len(record.body)
    return found, place


def _has_record(data: bytes, place: int) -> bool:
    """Whether a whole record begins anywhere from a place on."""
    while (place := data.find(_FRAME_MAGIC, place)) >= 0:
        if _record_at(data, place) is not None:
            return True
        place += 1
    return False


def _all_of(handle: int) -> bytes:
    parts, place = [], 0
    while part := os.pread(handle, 1 << 24, place):
        parts.append(part)
        place += len(part)
    return b"".join(parts)


def _write(handle: int, data: bytes, place: int) -> None:
    """A write may stop half-way and only say so."""
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, place)
        view, place = view[written:], place + written
