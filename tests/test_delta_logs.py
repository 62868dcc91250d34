"""Logs of Delta tables as writers that are not at hand write them: deletion vectors, mapped columns, checkpoints."""

from __future__ import annotations

import binascii
import datetime as dt
import json
import shutil
import struct
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

import tidemark as tm
from tests.support import changes_at, rows
from tidemark.sources.delta import DeltaSource
from tidemark.sources.protocol import ChangesLostError
from tidemark.sources.vectors import Vector, deleted_rows

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


# Deletion vectors


def container(kind: str, lows: list[int]) -> bytes:
    if kind == "array":
        return b"".join(struct.pack("<H", low) for low in lows)
    if kind == "bits":
        bitmap = bytearray(8192)
        for low in lows:
            bitmap[low // 8] |= 1 << low % 8
        return bytes(bitmap)
    runs: list[list[int]] = []
    for low in lows:
        if runs and low == runs[-1][1] + 1:
            runs[-1][1] = low
        else:
            runs.append([low, low])
    return struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", a, b - a) for a, b in runs)


def roaring(numbers: Iterable[int], *, with_runs: bool) -> bytes:
    """The portable form of a bitmap of 32-bit numbers, as the specification of roaring bitmaps says it."""
    groups: dict[int, list[int]] = {}
    for number in sorted(numbers):
        groups.setdefault(number >> 16, []).append(number & 0xFFFF)
    size = len(groups)
    heads = b"".join(struct.pack("<HH", key, len(lows) - 1) for key, lows in groups.items())
    kinds = ["run" if with_runs else "bits" if len(lows) > 4096 else "array" for lows in groups.values()]
    bodies = [container(kind, lows) for kind, lows in zip(kinds, groups.values(), strict=True)]
    if with_runs:
        flags = bytearray((size + 7) // 8)
        for place in range(size):
            flags[place // 8] |= 1 << place % 8
        begin = struct.pack("<I", 12347 | (size - 1) << 16) + bytes(flags)
    else:
        begin = struct.pack("<II", 12346, size)
    offsets = b"\0" * (4 * size) if not with_runs or size >= 4 else b""
    return begin + heads + offsets + b"".join(bodies)


def vector_bytes(numbers: Iterable[int], *, with_runs: bool = False) -> bytes:
    buckets: dict[int, list[int]] = {}
    for number in numbers:
        buckets.setdefault(number >> 32, []).append(number & 0xFFFFFFFF)
    found = struct.pack("<Iq", 1681511377, len(buckets))
    for upper, lows in sorted(buckets.items()):
        found += struct.pack("<I", upper) + roaring(lows, with_runs=with_runs)
    return found


def z85(data: bytes) -> str:
    text = ""
    for start in range(0, len(data), 4):
        value = int.from_bytes(data[start : start + 4], "big")
        text += "".join(Z85[value // 85**place % 85] for place in (4, 3, 2, 1, 0))
    return text


def inline(numbers: Iterable[int]) -> dict[str, Any]:
    data = vector_bytes(numbers)
    padded = data + b"\0" * (-len(data) % 4)
    return {"storageType": "i", "pathOrInlineDv": z85(padded), "sizeInBytes": len(data), "cardinality": 1}


def in_file(table: Path, numbers: Iterable[int]) -> dict[str, Any]:
    """A deletion vector in a file of its own, behind another one, in a folder below the table."""
    data, name = vector_bytes(numbers), uuid.uuid4()
    before = b"\x01" + struct.pack(">i", 3) + b"xyz" + struct.pack(">I", binascii.crc32(b"xyz"))
    folder = table / "ab"
    folder.mkdir(exist_ok=True)
    block = struct.pack(">i", len(data)) + data + struct.pack(">I", binascii.crc32(data))
    (folder / f"deletion_vector_{name}.bin").write_bytes(before + block)
    said = "ab" + z85(name.bytes)
    return {
        "storageType": "u",
        "pathOrInlineDv": said,
        "offset": len(before),
        "sizeInBytes": len(data),
        "cardinality": 1,
    }


NUMBERS = st.sets(
    st.integers(0, 300) | st.integers(65_000, 66_000) | st.sampled_from([2**32, 2**32 + 5, 2**33, 70 * 65_536]),
    min_size=1,
)


@given(NUMBERS, st.booleans(), st.booleans())
def test_deletion_vectors_are_read(numbers: set[int], with_runs: bool, is_dense: bool) -> None:
    wanted = numbers | (set(range(10_000, 16_000)) if is_dense else set())
    data = vector_bytes(wanted, with_runs=with_runs)
    block = struct.pack(">i", len(data)) + data + struct.pack(">I", binascii.crc32(data))
    assert deleted_rows(Vector("p", "file:///x", 0, len(data)), lambda path: block) == wanted


def commit(table: Path, *actions: dict[str, Any]) -> None:
    log = table / "_delta_log"
    version = len(list(log.glob("*.json")))
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))


def actions_of(table: Path, version: int, kind: str) -> list[dict[str, Any]]:
    lines = (table / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [action[kind] for action in map(json.loads, lines) if kind in action]


FEATURES = {"minReaderVersion": 3, "minWriterVersion": 7}
VECTORS = {**FEATURES, "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}


def test_a_table_with_deletion_vectors_is_followed(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(str(table), pa.table({"id": list(range(10))}))
    (add,) = actions_of(table, 0, "add")

    def marked(vector: dict[str, Any] | None) -> dict[str, Any]:
        return {**add, "deletionVector": vector} if vector else add

    def step(before: dict[str, Any] | None, after: dict[str, Any] | None, **more: Any) -> None:
        remove = {**marked(before), "deletionTimestamp": 1}
        commit(table, {"protocol": VECTORS}, {"remove": remove}, {"add": marked(after)}, *more.values())

    with tm.connect("duckdb", allow_paths=[tmp_path]) as db:
        db.execute(f"CREATE SOURCE s TYPE delta OPTIONS (path '{tmp_path}')")
        db.execute("CREATE TABLE t FROM SOURCE s RELATION 't'")
        assert db.pull() == 10
        first, second = inline([1, 3]), in_file(table, [1, 3, 9])
        step(None, first)
        assert db.pull() == 2 and changes_at(db, "t") == {(1,): -1, (3,): -1}
        step(first, second)
        step(second, third := inline([9, 0]))
        assert db.pull() == 4, "over two versions: 1 and 3 came back"
        assert changes_at(db, "t") == {(1,): 1, (3,): 1, (9,): -1, (0,): -1}
        commit(table, {"remove": {**marked(third), "deletionTimestamp": 1}})
        assert db.pull() == 8 and rows(db.query("SELECT * FROM t")) == []
        commit(table, {"add": marked(third)})
        db.execute("CREATE TABLE again FROM SOURCE s RELATION 't' KEY (id)")
        assert db.pull() == 16
        assert rows(db.query("SELECT * FROM again")) == [(n,) for n in range(1, 9)]
        wrong = {**second, "sizeInBytes": second["sizeInBytes"] + 4}
        step(third, wrong)
        with pytest.raises(tm.StorageError, match=r"the deletion vector in ab/.* is not what the log says"):
            db.pull()


# What the log says of columns


def test_columns_that_are_mapped_by_name_are_followed(tmp_path: Path) -> None:
    table = tmp_path / "t"
    files = pa.table({"c1": [1, 2], "c2": pa.array([{"c3": 5}, None], pa.struct([("c3", pa.int64())]))})
    (table / "_delta_log").mkdir(parents=True)
    pq.write_table(files, table / "a b.parquet")

    def field(name: str, physical: str, type_: Any) -> dict[str, Any]:
        metadata = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": physical}
        return {"name": name, "type": type_, "nullable": True, "metadata": metadata}

    inner = {"type": "struct", "fields": [field("Deep", "c3", "long")]}

    def described(*fields: dict[str, Any], mode: str = "name") -> dict[str, Any]:
        schema = json.dumps({"type": "struct", "fields": fields})
        metadata = {"id": "one", "format": {"provider": "parquet"}, "schemaString": schema, "partitionColumns": ["p"]}
        return {"metaData": {**metadata, "configuration": {"delta.columnMapping.mode": mode}}}

    columns = [field("id", "c1", "long"), field("more", "c2", inner), field("p", "c9", "string")]
    add = {
        "path": "a%20b.parquet",
        "partitionValues": {"c9": "x"},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
    }
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    commit(table, protocol, described(*columns), {"add": add})
    with tm.connect("duckdb", allow_paths=[tmp_path]) as db:
        db.execute(f"CREATE SOURCE s TYPE delta OPTIONS (path '{tmp_path}')")
        db.execute("CREATE TABLE t FROM SOURCE s RELATION 't'")
        assert db.pull() == 2
        assert rows(db.query("SELECT id, (more).deep, p FROM t")) == [(1, 5, "x"), (2, None, "x")]
        # A column is dropped, and another one of its name comes: no file says so.
        commit(table, described(field("id", "c8", "long"), *columns[1:]))
        assert db.pull() == 4 and rows(db.query("SELECT id, p FROM t")) == [(None, "x"), (None, "x")]
        commit(table, described(*columns, mode="id"))
        with pytest.raises(tm.UnsupportedError, match="maps columns by 'id'"):
            db.pull()


def test_what_readers_would_have_to_understand_is_refused_by_name(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}))
    commit(tmp_path / "t", {"protocol": {**FEATURES, "readerFeatures": ["typeWidening"], "writerFeatures": []}})
    with pytest.raises(tm.UnsupportedError, match="the feature 'typeWidening'"):
        DeltaSource(str(tmp_path), print).columns("t")
    commit(tmp_path / "t", {"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}})
    with pytest.raises(tm.UnsupportedError, match="version 4 of the protocol"):
        DeltaSource(str(tmp_path), print).columns("t")


def test_a_feature_of_columns_that_are_not_there_is_no_obstacle(tmp_path: Path) -> None:
    """delta-rs asks for variants when a feed is switched on for a table that has features."""
    table, at = tmp_path / "t", pa.array([dt.datetime(2024, 1, 1)])
    write_deltalake(str(table), pa.table({"id": [1], "at": at}))
    with tm.connect("duckdb", allow_paths=[tmp_path]) as db:
        db.execute(f"CREATE SOURCE s TYPE delta OPTIONS (path '{tmp_path}'); CREATE TABLE t FROM SOURCE s RELATION 't'")
        assert db.pull() == 1
        DeltaTable(str(table)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
        assert "variantType" in actions_of(table, 1, "protocol")[0]["readerFeatures"]
        write_deltalake(str(table), pa.table({"id": [2], "at": at}), mode="append")
        assert db.pull() == 1
        more = {"name": "v", "type": "variant", "nullable": True, "metadata": {}}
        (about,) = actions_of(table, 0, "metaData")
        schema = json.loads(about["schemaString"])
        schema["fields"].append(more)
        commit(table, {"metaData": {**about, "schemaString": json.dumps(schema)}})
        with pytest.raises(tm.StatementError, match=r"has a new column 'v' \(variant\)"):
            db.pull()
        with pytest.raises(tm.UnsupportedError, match="column 'v' of 't' is variant, for which there is no type here"):
            db.execute("CREATE TABLE w FROM SOURCE s RELATION 't'")
        db.execute("CREATE OR REPLACE TABLE t (id BIGINT) FROM SOURCE s RELATION 't'")
        assert db.pull() == 2


def test_characters_that_end_lines_elsewhere_are_in_an_entry_as_they_are(tmp_path: Path) -> None:
    parts, table = ["a\u2028b", "c\x85d", "e\u2029f"], tmp_path / "t"
    write_deltalake(str(table), pa.table({"id": [1, 2, 3], "p": parts}), partition_by=["p"])
    lines = (table / "_delta_log" / f"{0:020d}.json").read_text("utf-8").replace("\\u0085", "\x85")
    (table / "_delta_log" / f"{0:020d}.json").write_text(lines, "utf-8")
    with tm.connect("duckdb", allow_paths=[tmp_path]) as db:
        db.execute(f"CREATE SOURCE s TYPE delta OPTIONS (path '{tmp_path}'); CREATE TABLE t FROM SOURCE s RELATION 't'")
        assert db.pull() == 3
        assert [p for _, p in rows(db.query("SELECT * FROM t"))] == parts


# Checkpoints


def in_parts(table: Path, version: int) -> None:
    """Split a checkpoint into two files."""
    log = table / "_delta_log"
    whole = log / f"{version:020d}.checkpoint.parquet"
    found = pq.read_table(whole)
    half = found.num_rows // 2
    for number, part in enumerate((found.slice(0, half), found.slice(half)), 1):
        pq.write_table(part, log / f"{version:020d}.checkpoint.{number:010d}.{2:010d}.parquet")
    whole.unlink()


@pytest.mark.parametrize("parts", [False, True])
def test_a_log_whose_beginning_is_gone_is_read_from_its_checkpoint(tmp_path: Path, parts: bool) -> None:
    table = tmp_path / "t"
    for number in range(4):
        write_deltalake(str(table), pa.table({"id": [number], "p": [f"x{number}"]}), mode="append", partition_by=["p"])
    before = DeltaSource(str(tmp_path), lambda path: None).newest("t", ["id"])
    DeltaTable(str(table)).create_checkpoint()
    write_deltalake(
        str(table),
        pa.table({"id": [9], "p": [None]}, pa.schema([("id", pa.int64()), ("p", pa.string())])),
        mode="append",
    )
    if parts:
        in_parts(table, 3)
    for number in range(3):
        (table / "_delta_log" / f"{number:020d}.json").unlink()
    source = DeltaSource(str(tmp_path), lambda path: None)
    now = source.newest("t", ["id"])
    assert now.at == 4
    assert sorted(source.snapshot("t", now, ["id"]).column("id").to_pylist()) == [0, 1, 2, 3, 9]
    assert sorted(source.changes("t", before, now, ["id"]).column("id").to_pylist()) == [9]
    with pytest.raises(ChangesLostError, match="is not kept any more"):
        source.changes("t", replace(before, at=1), now, ["id"])


def test_a_log_with_a_gap_is_told(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(str(tmp_path / "t"), pa.table({"id": [number]}), mode="append")
    (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").unlink()
    source = DeltaSource(str(tmp_path), lambda path: None)
    with pytest.raises(tm.StorageError, match="version"):
        source.snapshot("t", source.newest("t", ["id"]), ["id"])
    (tmp_path / "t" / "_delta_log" / f"{2:020d}.json").write_text("{no json")
    with pytest.raises(tm.StorageError, match="is no entry"):
        DeltaSource(str(tmp_path), lambda path: None).newest("t", ["id"])


# Damage


def put(table: Path, *actions: Any) -> None:
    """One more entry, of actions or of bytes."""
    lines = (one if isinstance(one, bytes) else json.dumps(one).encode() for one in actions)
    (table / "_delta_log" / f"{1:020d}.json").write_bytes(b"\n".join(lines))


def added(table: Path, **others: Any) -> dict[str, Any]:
    return {"add": {**actions_of(table, 0, "add")[0], **others}}


def with_schema(table: Path, change: Callable[[str], str]) -> dict[str, Any]:
    (about,) = actions_of(table, 0, "metaData")
    return {"metaData": {**about, "schemaString": change(about["schemaString"])}}


def beside(table: Path, rows: dict[str, Any]) -> str:
    pq.write_table(pa.table(rows), table / "x.parquet")
    return "x.parquet"


def with_vector(table: Path, **said: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"protocol": VECTORS}, added(table, deletionVector=said)


def cut_vector(table: Path) -> None:
    said = in_file(table, [0])
    file = next((table / "ab").iterdir())
    file.write_bytes(file.read_bytes()[:-9])
    put(table, *with_vector(table, **said))


def cut_checkpoint(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    for file in (table / "_delta_log").glob("*.parquet"):
        file.write_bytes(file.read_bytes()[:40])
    (table / "_delta_log" / f"{0:020d}.json").unlink()


def change_data(table: Path, rows: dict[str, Any]) -> dict[str, Any]:
    return {"cdc": {"path": beside(table, rows), "partitionValues": {}, "size": 1, "dataChange": False}}


CDC_KIND = {"k": [1], "b": [True], "_change_type": ["upsert"]}
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "an entry that is no UTF-8": (lambda t: put(t, b"\xff\xfe{}"), "version 1 is no entry"),
    "a line that is no action": (lambda t: put(t, b"[]"), "version 1 is no entry"),
    "a file without a path": (lambda t: put(t, {"add": {"dataChange": True}}), "'path'"),
    "a file that is no object": (lambda t: put(t, {"add": ["x"]}), "cannot be read"),
    "partition values that are a list": (lambda t: put(t, added(t, partitionValues=["b"])), "cannot be read"),
    "a vector that is cut off": (cut_vector, "cannot be read"),
    "a vector that says nothing": (lambda t: put(t, *with_vector(t, storageType="i")), "'pathOrInlineDv'"),
    "a vector of unknown letters": (
        lambda t: put(t, *with_vector(t, storageType="i", pathOrInlineDv='""""""', sizeInBytes=4)),
        "cannot be read",
    ),
    "a vector that is shorter than it says": (
        lambda t: put(t, *with_vector(t, **{**inline([1]), "sizeInBytes": 400})),
        "cannot be read",
    ),
    "a schema without columns": (lambda t: put(t, with_schema(t, lambda text: "{}")), "'fields'"),
    "a schema that is a list": (lambda t: put(t, with_schema(t, lambda text: "[]")), "cannot be read"),
    "a schema that is nested without an end": (lambda t: put(t, with_schema(t, lambda x: "[" * 99999)), "cannot be"),
    "an object of an unknown type": (
        lambda t: put(t, with_schema(t, lambda text: text.replace('"boolean"', '{"type":"udt"}'))),
        "column 'b' of 't' is udt",
    ),
    "a decimal without digits": (
        lambda t: put(t, with_schema(t, lambda text: text.replace('"boolean"', '"decimal(a)"'))),
        "column 'b' of 't' is decimal",
    ),
    "a protocol without a version": (lambda t: put(t, {"protocol": {"x": 1}}), "'minReaderVersion'"),
    "an entry that is a folder": (lambda t: (t / "_delta_log" / f"{1:020d}.json").mkdir(), "cannot be read"),
    "a checkpoint that is cut off": (cut_checkpoint, "cannot be read"),
    "change data without a kind": (lambda t: put(t, change_data(t, {"k": [1], "b": [True]})), "_change_type"),
    "change data of an unknown kind": (lambda t: put(t, change_data(t, CDC_KIND)), "'upsert' is no kind"),
    "a file of another type": (
        lambda t: put(t, added(t, path=beside(t, {"k": ["x"], "b": [True]}))),
        "the column 'k'",
    ),
    "a file elsewhere": (lambda t: put(t, added(t, path="s3://bucket/x.parquet")), "s3"),
}


def two_sources(folder: Path, names: tuple[str, str] = ("a_bad", "z_good"), **written: Any) -> tm.Database:
    """A source that is to be damaged, and one behind it; each has a table, and both were pulled."""
    for name in names:
        write_deltalake(str(folder / name / "t"), pa.table({"k": [1, 2], "b": [True, False]}), **written)
    db = tm.connect("duckdb", allow_paths=[folder])
    for name in names:
        db.execute(f"CREATE SOURCE {name} TYPE delta OPTIONS (path '{folder / name}')")
        db.execute(f"CREATE TABLE of_{name} FROM SOURCE {name} RELATION 't'")
    assert db.pull() == 4
    write_deltalake(str(folder / names[1] / "t"), pa.table({"k": [3], "b": [True]}), mode="append")
    return db


def must_stop_alone(db: tm.Database, told: str) -> None:
    """A pull names the damaged source and has the other one."""
    with pytest.raises(tm.TidemarkError, match="the source 'a_bad' has stopped") as error:
        db.pull()
    assert told in error.value.message and error.value.code in ("source", "type", "unsupported"), error.value.message
    assert rows(db.query("SELECT k FROM of_z_good")) == [(1,), (2,), (3,)], "the other one went on"
    assert rows(db.query("SELECT k FROM of_a_bad")) == [(1,), (2,)]
    found = db.execute("SHOW SOURCES")
    assert found is not None and found["status"].to_pylist() == ["stopped", "active"]
    assert told in found["error"].to_pylist()[0]


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_table_stops_its_source_and_no_other(kind: str, tmp_path: Path) -> None:
    damage, told = DAMAGES[kind]
    with two_sources(tmp_path) as db:
        damage(tmp_path / "a_bad" / "t")
        must_stop_alone(db, told)
        shutil.rmtree(tmp_path / "a_bad" / "t")
        write_deltalake(str(tmp_path / "a_bad" / "t"), pa.table({"k": [7], "b": [True]}))
        assert db.pull() == 3, "it goes on when the table is whole again"


@pytest.mark.parametrize("type_", ["boolean", "integer", "date", "timestamp_ntz", "decimal(8,2)", "double"])
def test_a_partition_of_a_wrong_value_is_told(type_: str, tmp_path: Path) -> None:
    with two_sources(tmp_path, partition_by=["b"]) as db:
        table = tmp_path / "a_bad" / "t"
        path = beside(table, {"k": [5]})
        metadata = with_schema(table, lambda text: text.replace('"boolean"', f'"{type_}"'))
        protocol = {**FEATURES, "readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}
        db.execute("CREATE OR REPLACE TABLE of_a_bad (k BIGINT) FROM SOURCE a_bad RELATION 't'")
        db.pull()
        write_deltalake(str(tmp_path / "z_good" / "t"), pa.table({"k": [4], "b": [True]}), mode="append")
        gone = [{"remove": {**one, "deletionTimestamp": 1}} for one in actions_of(table, 0, "add")]
        values = {"partitionValues": {"b": "yes"}}
        put(table, {"protocol": protocol}, metadata, *gone, added(table, path=path, **values))
        db.execute("CREATE OR REPLACE TABLE of_a_bad FROM SOURCE a_bad RELATION 't'")
        with pytest.raises(tm.StorageError, match=f"the partition of 'b': 'yes' is no {type_.split('(')[0]}"):
            db.pull()
        assert db.query("SELECT * FROM of_z_good").num_rows == 4


def test_whatever_a_source_raises_stops_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = DeltaSource.changes

    def raising(error: BaseException) -> Callable[..., pa.Table]:
        def changes(source: DeltaSource, *arguments: Any) -> pa.Table:
            if "a_bad" in str(source._folder):
                raise error
            return whole(source, *arguments)

        return changes

    with two_sources(tmp_path) as db:
        put(tmp_path / "a_bad" / "t", {"commitInfo": {}})
        for passing, code in ((MemoryError(), "out_of_memory"), (tm.TidemarkError("timeout", "x"), "timeout")):
            monkeypatch.setattr(DeltaSource, "changes", raising(passing))
            with pytest.raises(tm.TidemarkError) as found:
                db.pull()
            assert found.value.code == code
        for pressed in (KeyboardInterrupt(), RuntimeError("Query interrupted")):
            monkeypatch.setattr(DeltaSource, "changes", raising(pressed))
            with pytest.raises(KeyboardInterrupt):
                db.pull()
        shown = db.execute("SHOW SOURCES")
        assert shown is not None and shown["status"].to_pylist() == ["active", "active"]
        monkeypatch.setattr(DeltaSource, "changes", raising(ZeroDivisionError("nobody thought of this")))
        must_stop_alone(db, "nobody thought of this")
        monkeypatch.setattr(DeltaSource, "columns", raising(AssertionError("nor of this")))
        with pytest.raises(tm.StorageError, match="nor of this"):
            db.execute("CREATE TABLE more FROM SOURCE a_bad RELATION 't'")
