"""A lake on an object store: S3 and what speaks like it, and by the same library Google's and Azure's.

Objects are put whole, and a log entry by a conditional put, which fails if something is there: that is all that a lake
asks of a store. What this process writes and reads lies in a *slot*, a folder of this machine that it has for itself
while the lake is open, and that the next one who opens the lake here finds again. Files are never changed once they are
named, so that one in a slot is right or is fetched once more: sizes and checksums of data files stand in the records,
those of all others beside the slot. A slot holds nothing that is not in the bucket, and may be removed whenever nobody
has the lake open.
"""

from __future__ import annotations

import datetime as dt
import errno
import fcntl
import hashlib
import json
import os
import re
import time
import uuid
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore, from_url

from tidemark.errors import TidemarkError
from tidemark.storage.disk import checksum_of, first_line, replace
from tidemark.storage.store import Listed

OWN: Final = frozenset({"cache", "spark"})
"""The words of the option ``storage`` that are not for the store."""
AT_ONCE: Final = 16
"""So many objects are fetched or uploaded side by side."""
CHUNK_BYTES: Final = 8 * 1024 * 1024
TRIES: Final = 3
"""So often an entry is put whose outcome is not known."""
PAUSE_SECONDS: Final = 0.2
LOG: Final = "_delta_log"
_URL: Final = re.compile(r"(?i)(s3a?|gs|abfss?)://([^/]+)((?:/[^/]+)*)/*")
_REFUSED: Final = re.compile(r"[\[\]{}*?^|%\\#\x00-\x20\x7f]|(?<=/)\.\.?(?=/|$)")


_GIVE: Final = (
    "give them in options={'storage': {…}}, for S3 access_key_id, secret_access_key, region and endpoint, "
    "or in the environment (AWS_ACCESS_KEY_ID …)"
)


@dataclass(frozen=True)
class Place:
    """Where a lake lies, and how to get there."""

    scheme: str
    bucket: str
    prefix: str
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # there are secrets in it

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.bucket}{self.prefix}"

    @property
    def config(self) -> dict[str, str]:
        """What the store is told."""
        return {name: value for name, value in self.storage if name not in OWN}

    @property
    def endpoint(self) -> str:
        """The address of the store, if it is not the one of its maker."""
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
        given = (value for name, value in self.config.items() if name.lower().endswith(("endpoint", "endpoint_url")))
        return next(given, None) or next((os.environ[name] for name in names if os.environ.get(name)), "")

    def own(self, name: str) -> str | None:
        return dict(self.storage).get(name)


def place_of(url: str, storage: Mapping[str, str]) -> Place:
    """The place that a url names.

    >>> place_of("s3a://bucket/some/lake/", {}).url
    's3://bucket/some/lake'
    """
    found = _URL.fullmatch(url)
    if found is not None and (":" in found[2] or ("@" in found[2] and not found[1].lower().startswith("abfs"))):
        raise TidemarkError(
            "target", f"the url of a lake, {found[1]}://…, has no user and no password in it", hint=_GIVE
        )
    if found is None or _REFUSED.search(url.partition("://")[2]):
        raise TidemarkError(
            "target",
            f"{url!r} is no place for a lake",
            hint="write s3://bucket/lake; names have no spaces and none of [ ] { } * ? ^ | % # \\",
        )
    scheme = {"s3a": "s3", "abfs": "abfss"}.get(found[1].lower(), found[1].lower())
    place = Place(scheme, found[2], found[3], tuple(sorted(storage.items())))
    if "@" in place.endpoint:
        raise TidemarkError("option", "an endpoint has no user and no password in its url", hint=_GIVE)
    return place


def client_of(place: Place, *, is_patient: bool) -> ObjectStore:
    """A client for the place; one that is not patient asks once, so that its answer is that of one request."""
    options: dict[str, Any] = {"connect_timeout": "5s", "timeout": "10m" if is_patient else "20s"}
    if place.endpoint.startswith("http://"):
        options["allow_http"] = True
    retries = {"max_retries": 3 if is_patient else 0, "retry_timeout": dt.timedelta(seconds=30)}
    make: Any = from_url  # typed for each kind of store apart
    made: ObjectStore = make(place.url, config=place.config or None, client_options=options, retry_config=retries)
    return made


def has_object(place: Place, name: str) -> bool:
    """Whether an object is there."""
    try:
        obstore.head(client_of(place, is_patient=True), name)
    except FileNotFoundError as error:
        if _names_no_bucket(error):
            raise told(error, place) from error
        return False
    except (BaseError, OSError) as error:
        raise told(error, place) from error
    return True


def bytes_at(place: Place) -> int:
    """How many bytes lie at a place. It lists them."""
    try:
        batches = obstore.list(client_of(place, is_patient=True))
        return sum(about["size"] for batch in batches for about in batch)
    except (BaseError, OSError) as error:
        raise told(error, place) from error


_CREDENTIALS: Final = re.compile(
    r"(?i)credential|metadata (endpoint|service)|169\.254\.169\.254|metadata\.google|security token|no such host"
)
_DENIED: Final = re.compile(r"\b40[13] (Forbidden|Unauthorized)|AccessDenied|SignatureDoesNotMatch|InvalidAccessKeyId")


def told(error: BaseException, place: Place) -> TidemarkError:
    """What an object store said, in our words."""
    text = str(error)
    said = first_line(error).partition("Error performing ")[2] or first_line(error)
    kind = type(error).__name__
    if kind == "UnknownConfigurationKeyError":
        return TidemarkError("option", f"storage of {place.url}: {said}", hint="name what the store knows")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return TidemarkError("storage_failed", f"the disk of the cache is full: {said}", hint="make room")
    if "NoSuchBucket" in text or "ContainerNotFound" in text:
        return TidemarkError(
            "not_a_database", f"{place.url}: there is no bucket {place.bucket!r}", hint="make it, or name another"
        )
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or _DENIED.search(text):
        return TidemarkError("permission", f"{place.url}: the store refuses: {said}", hint=f"see to its keys: {_GIVE}")
    if _CREDENTIALS.search(text):
        return TidemarkError("permission", f"{place.url}: no credentials were found: {said}", hint=_GIVE)
    return TidemarkError(
        "storage_failed",
        f"{place.url}: the store did not answer as it should: {said}",
        hint="see to the network and to the endpoint, and try again",
    )


_HADOOP: Final = {
    "access_key_id": "fs.s3a.access.key",
    "secret_access_key": "fs.s3a.secret.key",
    "session_token": "fs.s3a.session.token",
    "region": "fs.s3a.endpoint.region",
    "default_region": "fs.s3a.endpoint.region",
}
"""What Hadoop calls them."""


class Slot:
    """A folder of this machine for one process and one lake, found again by the next one."""

    def __init__(self, place: Place) -> None:
        own = place.own("cache")
        base = Path(own).expanduser().absolute() if own else _user_cache() / "tidemark" / "lakes"
        named = hashlib.sha256(f"{place.endpoint}\n{place.url}".encode()).hexdigest()[:24]
        folder = base / named
        folder.mkdir(parents=True, exist_ok=True)
        number = 0
        while (lock := _locked(folder / f"{number}.lock")) is None:
            number += 1
        self._lock: IO[str] | None = lock
        self.root, self.known = folder / str(number), folder / f"{number}.known"
        self.root.mkdir(exist_ok=True)

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


@dataclass(frozen=True)
class _Known:
    """What a file in the slot was when it came: the tag that the store gave it, its size and its checksum. Whatever
    becomes of it there, who brings it to this machine once more goes by that."""

    tag: str | None
    size: int
    checksum: int

    def is_at(self, path: Path) -> bool:
        return _size(path) == self.size and checksum_of(path) == (self.size, self.checksum)


def _read_known(slot: Slot) -> dict[Path, _Known]:
    """What the last process knew that closed the slot."""
    try:
        said = json.loads(slot.known.read_bytes())
        return {slot.root / name: _Known(*about) for name, about in said.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # everything is brought anew that has no checksum elsewhere


def _write_known(slot: Slot, known: Mapping[Path, _Known]) -> None:
    said = {
        path.relative_to(slot.root).as_posix(): [about.tag, about.size, about.checksum]
        for path, about in known.items()
        if path.exists()
    }
    with suppress(OSError):
        replace(slot.known, json.dumps(said).encode())


def _user_cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    return Path(named) if named else Path.home() / ".cache"


def _locked(path: Path) -> IO[str] | None:
    lock = open(path, "a+")  # noqa: SIM115 (held until the lake is closed)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


class Bucket:
    """A lake in a bucket, and the slot of this machine. ``close`` gives the slot back."""

    is_local: ClassVar[bool] = False

    def __init__(self, place: Place) -> None:
        self.place = place
        self._slot: Slot | None = None
        with self._telling():
            self._client = client_of(place, is_patient=True)
            self._once = client_of(place, is_patient=False)
            self._slot = Slot(place)
        self.root = self._slot.root
        self.is_far = False
        self._touched: dict[Path, float] = {}
        self._known = _read_known(self._slot)

    @property
    def url(self) -> str:
        return self.place.url

    def close(self) -> None:
        if self._slot is not None:
            if self._slot.is_open:
                _write_known(self._slot, self._known)
            self._slot.close()

    def spark_url(self, path: Path) -> str:
        if not self.is_far:
            return path.as_posix()
        scheme = "s3a" if self.place.scheme == "s3" else self.place.scheme
        return f"{scheme}://{self.place.bucket}{self.place.prefix}/{self._key(path)}"

    def spark_settings(self) -> Mapping[str, str]:
        """Those of S3, for which Hadoop has other names; what is not given Spark finds in its own surroundings."""
        if self.place.scheme != "s3":
            return {}
        given = {name.lower().removeprefix("aws_"): value for name, value in self.place.config.items()}
        found = {hadoop: given[name] for name, hadoop in _HADOOP.items() if name in given}
        if self.place.endpoint:
            found |= {"fs.s3a.endpoint": self.place.endpoint, "fs.s3a.path.style.access": "true"}
        if self.place.endpoint.startswith("http://"):
            found["fs.s3a.connection.ssl.enabled"] = "false"
        return found

    def rows_of(self, path: Path) -> int:
        with self._telling():
            size = obstore.head(self._client, self._key(path))["size"]

            def end(length: int) -> bytes:
                start = max(0, size - length)
                return bytes(obstore.get_range(self._client, self._key(path), start=start, end=size))

            length = int.from_bytes(end(8)[:4], "little") + 8  # that of what says what is in the file, and of this
            return int(pq.read_metadata(pa.BufferReader(b"PAR1" + end(length))).num_rows)

    def put_new(self, path: Path, data: bytes, *, is_synced: bool) -> None:
        for attempt in range(TRIES):
            try:
                put = obstore.put(self._once, self._key(path), data, mode="create", use_multipart=False)
                return self._kept(path, data, put["e_tag"])
            except AlreadyExistsError as error:
                if self._found(path) != data:  # else an earlier try of ours came to be
                    raise FileExistsError(errno.EEXIST, "somebody else has written it", self._key(path)) from error
                return self.keep(path, data)
            except (BaseError, OSError) as error:
                failure = told(error, self.place)
                if failure.code != "storage_failed" or attempt == TRIES - 1:
                    raise failure from error
                time.sleep(PAUSE_SECONDS * 2**attempt)

    def came_to_be(self, path: Path, data: bytes, failure: BaseException, nothing: bytes) -> bool:
        if isinstance(failure, TidemarkError) and failure.code in ("permission", "not_a_database"):
            return False  # the store said no
        try:
            found = self._found(path)
            if found is None:
                # A request may be under way still. Where something is, it can put nothing any more.
                with suppress(FileExistsError):
                    self.put_new(path, nothing, is_synced=False)
                found = self._found(path)
            if found == data:
                self.keep(path, data)
        except (TidemarkError, OSError) as error:
            said = error.message if isinstance(error, TidemarkError) else str(error)
            raise TidemarkError(
                "commit_unknown", f"it is not known whether the transaction was committed: {said}"
            ) from failure
        return found == data

    def read(self, path: Path) -> bytes:
        found = self._found(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, f"it is not in {self.url}", self._key(path))
        return found

    def replace(self, path: Path, data: bytes) -> None:
        with self._telling():
            put = obstore.put(self._client, self._key(path), data, use_multipart=False)
        self._kept(path, data, put["e_tag"])

    def upload(self, paths: Iterable[Path]) -> None:
        self._side_by_side(lambda path: obstore.put(self._client, self._key(path), path), list(paths))

    def fetch(self, paths: Iterable[tuple[Path, int]], *, is_stale: bool = False) -> None:
        self._side_by_side(self._fetched, [path for path, size in paths if is_stale or _size(path) != size])

    def _fetched(self, path: Path) -> None:
        draft = self._draft(path)
        try:
            found = obstore.get(self._client, self._key(path))
            size, checksum = 0, 0
            with open(draft, "wb") as file:
                for chunk in found.stream(min_chunk_size=CHUNK_BYTES):
                    size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
                    file.write(chunk)
            os.utime(draft, (time.time(), found.meta["last_modified"].timestamp()))
            draft.replace(path)
            self._known[path] = _Known(found.meta["e_tag"], size, checksum)
        except FileNotFoundError as error:
            if _names_no_bucket(error):
                raise
            path.unlink(missing_ok=True)  # whoever needs it says that it is missing
        finally:
            draft.unlink(missing_ok=True)

    def has(self, path: Path, about: Listed) -> bool:
        known = self._known.get(path)
        if known is None or known.size != about.size:
            return False
        is_it = path.parent.name != LOG or (about.tag is not None and known.tag == about.tag)
        return is_it and known.is_at(path)

    def keep(self, path: Path, data: bytes) -> None:
        self._kept(path, data, None)

    def _kept(self, path: Path, data: bytes, tag: str | None) -> None:
        self._known[path] = _Known(tag, len(data), zlib.crc32(data))
        draft = self._draft(path)
        try:
            draft.write_bytes(data)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    def about(self, path: Path) -> Listed | None:
        with self._telling():
            try:
                found = obstore.head(self._client, self._key(path))
            except FileNotFoundError as error:
                if _names_no_bucket(error):
                    raise
                return None
        return Listed(found["size"], found["last_modified"].timestamp(), found["e_tag"])

    def is_there(self, path: Path) -> bool:
        return path.exists() or self.about(path) is not None

    def listed(self, folder: Path) -> Mapping[Path, Listed]:
        found: dict[Path, Listed] = {}
        with self._telling():
            for batch in obstore.list(self._client, self._key(folder) or None):
                for about in batch:
                    path = self.root / about["path"]
                    moment = max(about["last_modified"].timestamp(), self._touched.get(path, 0.0))
                    found[path] = Listed(about["size"], moment, about["e_tag"])
        return found

    def folders(self, folder: Path) -> Mapping[Path, float]:
        newest: dict[Path, float] = {}
        for path, about in self.listed(folder).items():
            top = folder / path.relative_to(folder).parts[0]
            newest[top] = max(newest.get(top, 0.0), about.modified)
        return newest

    def remove(self, paths: Iterable[Path]) -> None:
        gone = list(paths)
        for path in gone:
            path.unlink(missing_ok=True)
        if gone:
            with self._telling(), suppress(FileNotFoundError):
                obstore.delete(self._client, [self._key(path) for path in gone])

    def trim(self, folder: Path, listed: Collection[Path], before: float) -> None:
        for parent, _, names in os.walk(folder):
            for path in (Path(parent, name) for name in names):
                if path not in listed and path.stat().st_mtime < before:
                    path.unlink(missing_ok=True)

    def touch(self, paths: Iterable[Path]) -> None:
        """The time of an object cannot be set: only this process knows."""
        self._touched.update(dict.fromkeys(paths, time.time()))

    def _found(self, path: Path) -> bytes | None:
        with self._telling():
            try:
                return bytes(obstore.get(self._client, self._key(path)).bytes())
            except FileNotFoundError as error:
                if _names_no_bucket(error):
                    raise
                return None

    def _side_by_side(self, act: Callable[[Path], object], paths: Sequence[Path]) -> None:
        if not paths:
            return
        with self._telling():
            if len(paths) == 1:
                act(paths[0])
                return
            with ThreadPoolExecutor(min(AT_ONCE, len(paths))) as pool:
                list(pool.map(act, paths))

    def _draft(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.with_name(f".{uuid.uuid4().hex}.draft")

    def _key(self, path: Path) -> str:
        name = path.relative_to(self.root).as_posix()
        return "" if name == "." else name

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Around all that the store is asked."""
        try:
            yield
        except (BaseError, OSError) as error:
            raise told(error, self.place) from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _names_no_bucket(error: Exception) -> bool:
    return "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error)
