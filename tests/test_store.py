"""Where files of lakes lie: the same is asked of a folder and of a bucket, and a bucket may answer late, or never."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

import tidemark as tm
from tidemark.engines.spark import Options
from tidemark.errors import TidemarkError
from tidemark.storage import bucket as bucket_module
from tidemark.storage.bucket import Bucket, place_of
from tidemark.storage.holder import DEAD_SECONDS, Heartbeat
from tidemark.storage.store import Listed, LocalStore, Store

NOTHING = b"nothing"


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """The objects that every bucket of the test has."""
    found = MemoryStore()
    monkeypatch.setattr(bucket_module, "client_of", lambda *_, **__: found)
    return found


@pytest.fixture
def opened(objects: MemoryStore, tmp_path: Path) -> Callable[[], Bucket]:
    return lambda: Bucket(place_of("s3://bucket/lake", {"cache": str(tmp_path / "cache")}))


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, opened: Callable[[], Bucket]) -> Store:
    (tmp_path / "lake").mkdir()
    return LocalStore(tmp_path / "lake") if request.param == "folder" else opened()


def test_a_file_is_put_once(store: Store) -> None:
    path = store.root / "entry"
    store.put_new(path, b"first", is_synced=False)
    with pytest.raises(FileExistsError):
        store.put_new(path, b"second", is_synced=False)
    assert store.read(path) == path.read_bytes() == b"first"
    assert store.came_to_be(path, b"first", OSError("no answer"), NOTHING)
    assert not store.came_to_be(path, b"second", OSError("no answer"), NOTHING)


def test_files_are_listed_replaced_and_removed(store: Store) -> None:
    one, other = store.root / "tables" / "a" / "one", store.root / "tables" / "b" / "deep" / "other"
    for path in (one, other):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"12345")
    store.upload([one, other])
    assert {path: about.size for path, about in store.listed(store.root / "tables").items()} == {one: 5, other: 5}
    assert store.folders(store.root / "tables").keys() == {one.parent, other.parent.parent}
    store.replace(one, b"new")
    assert store.read(one) == one.read_bytes() == b"new"
    store.remove([one])
    with pytest.raises(FileNotFoundError):
        store.read(one)
    assert store.is_there(other)
    assert not store.is_there(one)


class Clock:
    """The clock of a store, by which its objects are dated."""

    now = 1_000_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found, real, replace = Clock(), Bucket.about, Bucket.replace
    dated: dict[str, float] = {}

    def dating(self: Bucket, path: Path, data: bytes) -> None:
        dated[path.name] = found.now
        replace(self, path, data)

    def about(self: Bucket, path: Path) -> Listed | None:
        said = real(self, path)
        return None if said is None else Listed(said.size, dated[path.name])

    monkeypatch.setattr(Bucket, "replace", dating)
    monkeypatch.setattr(Bucket, "about", about)
    return found


def test_a_holder_is_alive_until_it_has_said_nothing_for_a_minute(
    opened: Callable[[], Bucket], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(*, takeover: bool = False) -> Heartbeat:
        store = opened()
        return Heartbeat(store, store.root / "_tidemark", takeover=takeover)

    first = held()
    clock.now += DEAD_SECONDS - 1
    with pytest.raises(TidemarkError, match="59 seconds ago") as raised:
        held()
    assert raised.value.code == "in_use"
    clock.now += 1
    second = held()
    first.close()  # which has nothing to say any more
    with pytest.raises(TidemarkError):
        held()
    third = held(takeover=True)
    second.close()
    with pytest.raises(TidemarkError):
        held()
    third.close()
    held().close()


def test_a_holder_goes_on_saying_that_it_is_there(
    opened: Callable[[], Bucket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.storage.holder.BEAT_SECONDS", 0.01)
    said, again, replace = list[Path](), threading.Event(), Bucket.replace

    def counted(self: Bucket, path: Path, data: bytes) -> None:
        replace(self, path, data)
        said.append(path)
        if len(said) > 3:
            again.set()

    monkeypatch.setattr(Bucket, "replace", counted)
    store = opened()
    holder = Heartbeat(store, store.root / "_tidemark", takeover=False)
    assert again.wait(60)
    holder.close()
    assert not holder._thread.is_alive()


def test_what_is_missing_here_is_fetched(opened: Callable[[], Bucket]) -> None:
    writer, reader = opened(), opened()
    assert writer.root != reader.root
    paths = [Path("tables", "t", f"part-{number}") for number in range(40)]
    for number, path in enumerate(paths):
        (writer.root / path).parent.mkdir(parents=True, exist_ok=True)
        (writer.root / path).write_bytes(b"x" * number)
    writer.upload(writer.root / path for path in paths)
    reader.fetch((reader.root / path, number) for number, path in enumerate(paths))
    assert [(reader.root / path).read_bytes() for path in paths] == [b"x" * number for number in range(40)]
    writer.remove([writer.root / paths[3]])
    reader.fetch([(reader.root / paths[3], 3)])
    assert (reader.root / paths[3]).exists()
    reader.fetch([(reader.root / paths[3], 3)], is_stale=True)
    assert not (reader.root / paths[3]).exists()


def test_a_slot_is_found_again_and_never_shared(opened: Callable[[], Bucket]) -> None:
    first, second = opened(), opened()
    (first.root / "kept").write_bytes(b"1")
    assert not (second.root / "kept").exists()
    first.close()
    again = opened()
    assert (again.root / "kept").exists()
    assert opened().root not in (second.root, again.root)


LOST = GenericError("Generic S3 error: Error performing PUT http://store - HTTP error: error sending request")


def failing(monkeypatch: pytest.MonkeyPatch, act: Callable[[Callable[[], Any], int], Any]) -> list[int]:
    """Let requests that create something go by ``act``, which gets the real one and how many there were before."""
    real, calls = obstore.put, list[int]()

    def put(*arguments: Any, **named: Any) -> Any:
        if named.get("mode") != "create":
            return real(*arguments, **named)
        calls.append(len(calls))
        return act(lambda: real(*arguments, **named), calls[-1])

    monkeypatch.setattr(obstore, "put", put)
    monkeypatch.setattr(bucket_module, "PAUSE_SECONDS", 0.0)
    return calls


def test_an_answer_that_is_lost_is_asked_for_again(
    opened: Callable[[], Bucket], monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(put: Callable[[], Any], before: int) -> Any:
        put()
        raise LOST

    store = opened()
    calls = failing(monkeypatch, act)
    # The first request came to be, though nobody heard: the second finds its very bytes.
    store.put_new(store.root / "entry", b"ours", is_synced=False)
    assert calls == [0, 1]
    assert (store.root / "entry").read_bytes() == b"ours"


def test_a_request_that_failed_cannot_come_to_be_later(
    opened: Callable[[], Bucket], monkeypatch: pytest.MonkeyPatch
) -> None:
    late = []

    def act(put: Callable[[], Any], before: int) -> Any:
        if before < bucket_module.TRIES:
            late.append(put)
            raise LOST
        return put()

    store = opened()
    path = store.root / "entry"
    failing(monkeypatch, act)
    with pytest.raises(TidemarkError, match="did not answer") as raised:
        store.put_new(path, b"ours", is_synced=False)
    assert raised.value.code == "storage_failed"
    assert not store.came_to_be(path, b"ours", raised.value, NOTHING)
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        late[0]()
    assert store.read(path) == path.read_bytes() == NOTHING


def test_an_outcome_that_cannot_be_known_is_told_so(
    opened: Callable[[], Bucket], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> Any:
        raise LOST

    store = opened()
    failing(monkeypatch, lost)
    with pytest.raises(TidemarkError) as raised:
        store.put_new(store.root / "entry", b"ours", is_synced=False)
    monkeypatch.setattr(obstore, "get", lost)
    with pytest.raises(TidemarkError) as unknown:
        store.came_to_be(store.root / "entry", b"ours", raised.value, NOTHING)
    assert unknown.value.code == "commit_unknown"


@pytest.mark.parametrize(
    "url", ["s3://", "s3:///lake", "s3://bucket/a b", "s3://bucket/../x", "s3://bucket/a*", "gs://b/a%20b", "s3://b//c"]
)
def test_what_is_no_place_is_refused(url: str) -> None:
    with pytest.raises(TidemarkError) as raised:
        place_of(url, {})
    assert raised.value.code == "target"


@pytest.mark.parametrize(
    ("target", "storage"),
    [
        ("duckdb", {"region": "nowhere"}),
        ("spark:s3://bucket/lake", "https://keys"),
        ("spark:s3://bucket/lake", {"region": 1}),
        ("spark:s3://bucket/lake", {"spark": "yes"}),
    ],
)
def test_a_storage_that_says_nothing_is_refused(target: str, storage: object) -> None:
    with pytest.raises(TidemarkError) as raised:
        tm.connect(target, options={"storage": storage})
    assert raised.value.code == "option"


def test_secrets_are_not_shown() -> None:
    place = place_of("s3://bucket/lake", {"secret_access_key": "hidden"})
    options = Options(storage=place.storage)
    assert place.config == {"secret_access_key": "hidden"}
    assert "hidden" not in f"{place!r} {options!r}"
