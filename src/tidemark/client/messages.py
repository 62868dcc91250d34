"""What is shipped between a view's source and its holder: a header as JSON, then Arrow tables. Its length is the
cost."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

NOTHING, STATEMENTS, CHANGES, STATE = "nothing", "statements", "changes", "state"
FIRST, BASE_CHANGES = "first", "base changes"


@dataclass(frozen=True)
class Message:
    """``kind`` says what it is, ``version`` the version that the holder has come to when it has taken it in."""

    kind: str
    version: int
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """
        >>> Message.of_bytes(Message("nothing", 7).to_bytes())
        Message(kind='nothing', version=7, tables={}, more={})
        """
        bodies = {name: _to_bytes(table) for name, table in self.tables.items()}
        sizes = {name: len(body) for name, body in bodies.items()}
        header: dict[str, Any] = {"k": self.kind, "v": self.version}
        header |= {key: value for key, value in (("t", sizes), ("m", dict(self.more))) if value}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        return struct.pack("<I", len(text)) + text + b"".join(bodies.values())

    @staticmethod
    def of_bytes(data: bytes) -> Message:
        (length,) = struct.unpack_from("<I", data)
        header, place = json.loads(data[4 : 4 + length]), 4 + length
        tables: dict[str, pa.Table] = {}
        for name, size in header.get("t", {}).items():
            tables[name] = pa.ipc.open_stream(pa.py_buffer(data[place : place + size])).read_all()
            place += size
        return Message(header["k"], header["v"], tables, header.get("m", {}))


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if table.nbytes > 4096 else None)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue().to_pybytes())
