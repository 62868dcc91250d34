"""What is shipped between a view's source and whoever holds or evaluates the view. Its length is the cost.

    checksum  kind  is it compressed  identity  since  version  time  length     fixed, 38 bytes
    length of the rest's header, the header as JSON, record batches              if there is anything to say

Record batches go without their schema: both sides derive it from the same definitions, of which ``identity`` is a
digest. A message leads from the version ``since`` to ``version``, which was committed at ``time``, and whoever is
elsewhere refuses it.

What those do who take in messages of a source: refuse what is not for them, or not next.
"""

from __future__ import annotations

import datetime as dt
import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, TypeVar

import pyarrow as pa

from tidemark.errors import TidemarkError

NOTHING, STATEMENTS, CHANGES, STATE = "nothing", "statements", "changes", "state"
FIRST, BASE_CHANGES = "first", "base changes"
KINDS: Final = (NOTHING, STATEMENTS, CHANGES, STATE, FIRST, BASE_CHANGES)
_HEAD: Final = struct.Struct("<IBBIQQqI")
_UNKNOWN: Final = -(2**63)
_EPOCH, _STEP = dt.datetime(1970, 1, 1), dt.timedelta(microseconds=1)
_LENGTH: Final = struct.Struct("<I")
T = TypeVar("T")


@dataclass(frozen=True)
class Message:
    """``kind`` says what it is, ``version`` the version that the receiver has come to when it has taken it in.

    ``bodies`` has rows as ``packed`` makes them, by the relation's name.
    """

    kind: str
    identity: int
    since: int
    version: int
    bodies: Mapping[str, bytes] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    time: dt.datetime | None = None

    def texts(self) -> list[str]:
        """The statements that it ships."""
        texts = self.more.get("sql")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise _unreadable("it has no statements")
        return texts

    def rows(self, relation: str, schema: pa.Schema) -> pa.Table:
        """What it ships of a relation."""
        if relation not in self.bodies:
            raise _unreadable(f"it says nothing about {relation!r}")
        return unpacked(self.bodies[relation], schema)

    def to_bytes(self) -> bytes:
        """
        >>> Message.of_bytes(Message("nothing", 1, 6, 7).to_bytes())
        Message(kind='nothing', identity=1, since=6, version=7, bodies={}, more={}, time=None)
        """
        sizes = {name: len(body) for name, body in self.bodies.items()}
        header = {key: value for key, value in (("t", sizes), ("m", dict(self.more))) if value}
        rest = b""
        if header:
            text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
            rest = _LENGTH.pack(len(text)) + text + b"".join(self.bodies.values())
        small = _codec().compress(rest, asbytes=True) if rest else rest
        is_small = len(small) < len(rest)
        shipped = small if is_small else rest
        time = _UNKNOWN if self.time is None else (self.time - _EPOCH) // _STEP
        fixed = (KINDS.index(self.kind), is_small, self.identity, self.since, self.version, time, len(rest))
        head = _HEAD.pack(0, *fixed)[4:]
        return _LENGTH.pack(zlib.crc32(head + shipped)) + head + shipped

    @staticmethod
    def of_bytes(data: bytes) -> Message:
        """The message that was shipped; what is none, or not all of one, is refused."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TidemarkError("message", f"a message is bytes, not {type(data).__name__}")
        data = bytes(data)
        if len(data) < _HEAD.size:
            raise _unreadable("it is shorter than any message")
        checksum, kind, is_small, identity, since, version, time, length = _HEAD.unpack_from(data)
        if zlib.crc32(data[4:]) != checksum or kind >= len(KINDS):
            raise _unreadable("bytes are missing or are others than those that were shipped")
        shipped = data[_HEAD.size :]
        bodies, more = readable(lambda: _rest(shipped, length, is_compressed=bool(is_small)))
        moment = None if time == _UNKNOWN else readable(lambda: _moment(time))
        return Message(KINDS[kind], identity, since, version, bodies, more, moment)


def _moment(microseconds: int) -> dt.datetime:
    try:
        return _EPOCH + microseconds * _STEP
    except OverflowError as error:
        raise ValueError("no such time") from error


def _rest(shipped: bytes, length: int, *, is_compressed: bool) -> tuple[dict[str, bytes], dict[str, Any]]:
    rest = _codec().decompress(shipped, length, asbytes=True) if is_compressed else shipped
    if not rest:
        return {}, {}
    (size,) = _LENGTH.unpack_from(rest)
    place = _LENGTH.size + size
    header = json.loads(rest[_LENGTH.size : place])
    bodies: dict[str, bytes] = {}
    for name, width in header.get("t", {}).items():
        bodies[name] = rest[place : place + width]
        place += width
    return bodies, header.get("m", {})


def packed(table: pa.Table) -> bytes:
    """The rows of a table, without its schema.

    >>> table = pa.table({"a": [1, 2]})
    >>> unpacked(packed(table), table.schema).to_pylist()
    [{'a': 1}, {'a': 2}]
    """
    return b"".join(batch.serialize().to_pybytes() for batch in table.combine_chunks().to_batches() if batch.num_rows)


def unpacked(body: bytes, schema: pa.Schema) -> pa.Table:
    """The table of packed rows."""
    return readable(lambda: _unpacked(body, schema))


def _unpacked(body: bytes, schema: pa.Schema) -> pa.Table:
    reader, batches = pa.BufferReader(body), []
    while reader.tell() < len(body):
        batches.append(pa.ipc.read_record_batch(pa.ipc.read_message(reader), schema))
    table = pa.Table.from_batches(batches, schema)
    table.validate(full=True)
    return table


def readable(read: Callable[[], T]) -> T:
    """What is read of a message; whatever fails there says that the message is none."""
    try:
        return read()
    except (pa.ArrowException, ValueError, KeyError, IndexError, TypeError, OSError, EOFError, struct.error) as error:
        raise _unreadable(f"{type(error).__name__}: {error}") from error


def digest(value: object) -> int:
    """A number that tells definitions apart."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return int.from_bytes(sha256(text.encode()).digest()[:4], "little")


def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=3)


def _unreadable(why: str) -> TidemarkError:
    return TidemarkError("message", f"this is no message of a view's source: {why}", hint="ask the source again")


def begins(data: bytes, kind: str, what: str) -> Message:
    """The message that a holder or a local view begins with."""
    message = Message.of_bytes(data)
    if message.kind != kind or "definitions" not in message.more:
        raise TidemarkError("message", f"{what} begins with what the source ships first, not with {message.kind!r}")
    return message


def received(data: bytes, identity: int, tidemark: int, anew: str) -> Message:
    """The message, if it is for who has this identity and has come to this version.

    ``anew`` is the kind of message that can be taken in at any version, unless what it says is older.
    """
    message = Message.of_bytes(data)
    if message.identity != identity:
        raise TidemarkError(
            "message",
            "this message is for another view, or the view was redefined",
            hint="begin anew with what the view's source ships first",
        )
    is_here = message.kind == anew or message.since == tidemark
    if not is_here or message.version < tidemark:
        raise TidemarkError(
            "message",
            f"this message leads from version {message.since} to {message.version}, but version {tidemark} is here",
            hint=f"ask the source for what happened since version {tidemark}",
        )
    return message
