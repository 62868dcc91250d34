"""Deletion vectors of Delta tables: which rows of a file are deleted, as bitmaps in a file, or inside the log.

The format is that of the Delta protocol: 64-bit numbers in buckets by their upper half, each bucket a roaring bitmap.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

_PORTABLE, _NATIVE = 1681511377, 1681511376
"""What the two forms begin with: the first is written in files, the other inside the log."""
_RUNS, _NO_RUNS = 12347, 12346
_ARRAY: Final = 4096
"""A container of more numbers than these is a bitmap."""
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS: Final = {letter: value for value, letter in enumerate(_Z85)}
_UUID: Final = 20
"""The letters of a UUID in Z85."""


@dataclass(frozen=True)
class Vector:
    """A deletion vector as an entry of the log names it."""

    storage: str
    said: str
    offset: int
    size: int

    @staticmethod
    def of_action(shown: dict[str, Any] | None) -> Vector | None:
        if not shown or shown.get("storageType") is None:
            return None
        where = shown["pathOrInlineDv"]
        return Vector(shown["storageType"], where, int(shown.get("offset") or 0), int(shown["sizeInBytes"]))


def deleted_rows(vector: Vector, read: Callable[[str], bytes]) -> frozenset[int]:
    """The places of deleted rows in their file. ``read`` gives the bytes of a file, by a path like those of files.

    >>> inline = Vector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 0, 40)
    >>> sorted(deleted_rows(inline, lambda path: b""))
    [3, 4, 7, 11, 18, 29]
    """
    if vector.storage == "i":
        inline = _decoded(vector.said)[: vector.size]
        if len(inline) < vector.size:
            raise ValueError("a deletion vector is shorter than the log says")
        return _numbers(inline)
    path = vector.said if vector.storage == "p" else _path(vector.said)
    data = read(path)
    (size,) = struct.unpack_from(">i", data, vector.offset)
    begin = vector.offset + 4
    found, (checksum,) = data[begin : begin + size], struct.unpack_from(">I", data, begin + size)
    if size != vector.size or zlib.crc32(found) != checksum:
        raise ValueError(f"the deletion vector in {path} is not what the log says")
    return _numbers(found)


def _path(said: str) -> str:
    prefix, encoded = said[:-_UUID], said[-_UUID:]
    name = f"deletion_vector_{uuid.UUID(bytes=_decoded(encoded))}.bin"
    return f"{prefix}/{name}" if prefix else name


def _decoded(text: str) -> bytes:
    parts = []
    for start in range(0, len(text), 5):
        value = 0
        for letter in text[start : start + 5]:
            value = value * 85 + _DIGITS[letter]
        parts.append(value.to_bytes(4, "big"))
    return b"".join(parts)


def _numbers(data: bytes) -> frozenset[int]:
    found: set[int] = set()
    if data[:4] == _PORTABLE.to_bytes(4, "little"):
        (count,) = struct.unpack_from("<q", data, 4)
        place = 12
        for _ in range(count):
            (upper,) = struct.unpack_from("<I", data, place)
            place = _bucket(data, place + 4, upper << 32, found)
    elif data[:4] == _NATIVE.to_bytes(4, "big"):
        (count,) = struct.unpack_from(">i", data, 4)
        place = 8
        for upper in range(count):
            (size,) = struct.unpack_from(">i", data, place)
            _bucket(data, place + 4, upper << 32, found)
            place += 4 + size
    else:
        raise ValueError("a deletion vector begins with another number than the protocol says")
    return frozenset(found)


def _bucket(data: bytes, place: int, base: int, found: set[int]) -> int:
    """Add the numbers of one roaring bitmap; where the next one begins."""
    (cookie,) = struct.unpack_from("<I", data, place)
    place += 4
    if cookie & 0xFFFF == _RUNS:
        size, runs = (cookie >> 16) + 1, data[place:]
        place += (size + 7) // 8
    elif cookie == _NO_RUNS:
        (size,), runs = struct.unpack_from("<I", data, place), b""
        place += 4
    else:
        raise ValueError("a deletion vector is no roaring bitmap")
    keys = list(struct.iter_unpack("<HH", data[place : place + 4 * size]))
    place += 4 * size
    if not runs or size >= 4:
        place += 4 * size  # where each container begins: they are read one after the other
    for number, (key, less_one) in enumerate(keys):
        start = base | key << 16
        is_run = bool(runs) and bool(runs[number // 8] >> number % 8 & 1)
        place = _container(data, place, less_one + 1, is_run, lambda low, start=start: found.add(start | low))  # type: ignore[misc]
    return place


def _container(data: bytes, place: int, count: int, is_run: bool, add: Callable[[int], None]) -> int:
    if is_run:
        end = place + 2 + 4 * int(struct.unpack_from("<H", data, place)[0])
        for first, more in struct.iter_unpack("<HH", data[place + 2 : end]):
            for low in range(first, first + more + 1):
                add(low)
        return end
    if count <= _ARRAY:
        end = place + 2 * count
        for (low,) in struct.iter_unpack("<H", data[place:end]):
            add(low)
        return end
    for low in _bits(data[place : place + 8192]):
        add(low)
    return place + 8192


def _bits(bitmap: bytes) -> Iterator[int]:
    for place, byte in enumerate(bitmap):
        for bit in range(8):
            if byte >> bit & 1:
                yield place * 8 + bit
