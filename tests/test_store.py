"""Where files of lakes lie: the same is asked of a folder and of a bucket, and a bucket may answer late, or never."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from tidemark.errors import TidemarkError
from tidemark.storage import bucket as bucket_module
from tidemark.storage.bucket import Bucket, place_of
from tidemark.storage.store import LocalStore, Store

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
    store.remove_folder(other.parent.parent)
    assert not store.listed(store.root / "tables")
    assert not other.parent.parent.exists()


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
