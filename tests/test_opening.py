"""Opening what is damaged, foreign or no database at all: an error of ours that names the path, and nothing changes."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tidemark as tm
from tests.support import rows

CODES = {"not_a_database", "damaged", "format", "permission", "storage_failed", "in_use"}
SCRIPT = """
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR);
CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
CREATE SNAPSHOT s AS SELECT a FROM t REFRESH ON DEMAND;
INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'y');
"""


def content(place: Path) -> dict[str, object]:
    """Everything at a place and below it: what it is, and the bytes of files."""
    found: dict[str, object] = {}
    for path in (place, *sorted(place.rglob("*"))):
        name = str(path.relative_to(place))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_file():
            found[name] = path.read_bytes()
        else:
            found[name] = "folder" if path.is_dir() else "special"
    return found


def refused(target: str, path: str, place: Path, codes: set[str] = CODES) -> tm.TidemarkError:
    """The error of opening it, which says where, and has changed nothing there."""
    before = content(place)
    with pytest.raises(tm.TidemarkError) as caught:
        tm.connect(target).close()
    assert caught.value.code in codes, caught.value
    name = os.path.basename(path.rstrip("/"))
    assert name in caught.value.message or repr(name)[1:-1] in caught.value.message, caught.value
    assert caught.value.hint
    assert content(place) == before
    return caught.value


def an_empty_file(path: Path) -> None:
    path.touch()


def a_text(path: Path) -> None:
    path.write_text("this is a text, not a database\n" * 1000)


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def a_dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/null")


THINGS: tuple[Callable[[Path], None], ...] = (
    an_empty_file,
    a_text,
    a_fifo,
    a_socket,
    a_dangling_link,
    a_link_to_itself,
    a_link_to_a_device,
)
ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("thing", THINGS)
def test_a_thing_of_another_kind(engine: str, thing: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:  # a socket's path must be short
        path = Path(folder) / "lock"
        thing(path)
        refused(f"{engine}:{path}", str(path), Path(folder), {"not_a_database"})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["a\0b", "a" * 300, "a/" * 3000 + "b", "file/below"])
def test_a_path_that_cannot_be(engine: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    path = f"{tmp_path}/{name}"
    refused(f"{engine}:{path}", path, tmp_path, {"not_a_database", "damaged", "target"})


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A database file that was closed in order."""
    path = tmp_path / "whole.duckdb"
    with tm.connect(f"duckdb:{path}") as db:
        db.execute(SCRIPT)
        db.insert("t", [(10 + n, str(n)) for n in range(20_000)])
    return path


def test_a_folder_where_a_file_should_be(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    refused(f"duckdb:{tmp_path}/folder", "folder", tmp_path, {"not_a_database"})


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_database_of_somebody_else(tmp_path: Path, is_closed: bool) -> None:
    """Its file stays as it is, and so does what is in its write-ahead log."""
    path = tmp_path / "foreign.duckdb"
    statement = f"import duckdb, os; c = duckdb.connect({str(path)!r}); c.execute('CREATE TABLE t AS SELECT 1 AS a')"
    subprocess.run([sys.executable, "-c", f"{statement}; {'c.close()' if is_closed else 'os._exit(0)'}"], check=True)
    assert is_closed or path.with_name("foreign.duckdb.wal").exists()
    refused(f"duckdb:{path}", str(path), tmp_path, {"not_a_database"})
    assert duckdb.connect(str(path)).execute("SELECT * FROM t").fetchall() == [(1,)]


@pytest.mark.parametrize("share", [0.00001, 0.001, 0.01, 0.1, 0.5])
def test_a_file_that_was_cut_off(whole: Path, share: float) -> None:
    data = whole.read_bytes()
    whole.write_bytes(data[: max(1, int(len(data) * share))])
    refused(f"duckdb:{whole}", str(whole), whole.parent, {"not_a_database", "damaged"})


@pytest.mark.parametrize("at", [0, 8, 4096 + 8, 8192 + 8, 12288 + 100, 300_000])
def test_a_file_with_garbage_in_it(whole: Path, at: int) -> None:
    """Opening it, or reading all of it, is an error of ours; some bytes nothing reads."""
    data = bytearray(whole.read_bytes())
    data[at : at + 64] = bytes(range(64))
    whole.write_bytes(bytes(data))
    try:
        with tm.connect(f"duckdb:{whole}") as db:
            db.query("SELECT * FROM t ORDER BY a")
            db.audit("v")
            db.changes("t")
    except tm.TidemarkError as error:
        assert error.code in CODES | {"evaluation_failed"}, error


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("UPDATE _tidemark.format SET version = 99", "format"),
        ("DELETE FROM _tidemark.format", "format"),
        ("DROP TABLE _tidemark.format; CREATE TABLE _tidemark.format (other INT)", "damaged"),
        ("DROP TABLE _tidemark.commits", "damaged"),
        ("DROP TABLE _tidemark.log", "damaged"),
        ("DROP TABLE t", "damaged"),
        ("UPDATE _tidemark.commits SET relations = 'no JSON'", "damaged"),
        ("UPDATE _tidemark.commits SET relations = '[]'", "damaged"),
        ("UPDATE _tidemark.commits SET relations = '{}'", "damaged"),
        ("UPDATE _tidemark.commits SET catalog = ['no JSON']", "damaged"),
        ("UPDATE _tidemark.commits SET catalog = ['[1]']", "damaged"),
        ("UPDATE _tidemark.commits SET catalog = ['{\"sql\": 5}']", "damaged"),
        (
            "UPDATE _tidemark.commits SET catalog = list_transform(catalog, lambda c: replace(c, 'SELECT', 'SELEKT'))",
            "damaged",
        ),
        ("UPDATE _tidemark.notes SET text = 'no JSON'", "damaged"),
    ],
)
def test_a_file_with_other_things_in_it(whole: Path, statement: str, code: str) -> None:
    with duckdb.connect(str(whole)) as connection:
        connection.execute(statement)
    error = None
    try:
        with tm.connect(f"duckdb:{whole}") as db:
            db.query("SELECT * FROM t")
            db.execute("SHOW SNAPSHOTS")
            db.changes("t")
    except tm.TidemarkError as found:
        error = found
    assert error is not None and error.code in (code, "internal" if "notes" in statement else code), error


def test_only_a_lock_that_is_held_is_in_use(tmp_path: Path) -> None:
    folder = tmp_path / "Could not set lock on file"
    folder.mkdir()
    path = folder / "lock"
    with tm.connect(f"duckdb:{path}") as db:
        db.execute("CREATE TABLE t (a INT)")
        with pytest.raises(tm.TidemarkError) as caught:
            tm.connect(f"duckdb:{path}")
        assert caught.value.code == "in_use"
        code = (
            f"import tidemark as tm\ntry: tm.connect({f'duckdb:{path}'!r})\nexcept tm.TidemarkError as e: print(e.code)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "in_use", done
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])
    assert refused(f"duckdb:{path}", str(path), tmp_path).code == "damaged"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not read the file")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rights", ["nothing", "reading"])
def test_files_that_may_not_be_read_or_written(engine: str, rights: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "data"
        with tm.connect(f"{engine}:{path}") as db:
            db.execute(SCRIPT)
        for place in (path, *path.rglob("*")):
            may = 0 if rights == "nothing" else 0o755 if place.is_dir() else 0o444
            os.chmod(place, may)
        os.seteuid(65534)
        try:
            with pytest.raises(tm.TidemarkError) as caught:
                tm.connect(f"{engine}:{path}")
        finally:
            os.seteuid(0)
        assert caught.value.code == "permission", caught.value
        assert "data" in caught.value.message


def test_a_database_whose_path_may_not_be_written_by_its_errno(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(path: str, config: object) -> None:
        raise duckdb.IOException(f'IO Error: Cannot open file "{path}": Permission denied')

    monkeypatch.setattr(duckdb, "connect", connect)
    assert refused(f"duckdb:{tmp_path}/x", "x", tmp_path).code == "permission"


# Lakes


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lakes") / "lake"
    with tm.connect(f"spark:{path}") as db:
        db.execute(SCRIPT)
        db.insert("t", [(10 + n, str(n % 7)) for n in range(30_000)])
        db.execute("DELETE FROM t WHERE a < 12")
    return path


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    path.unlink()
    match how:
        case "cut off":
            path.write_bytes(data[: len(data) // 2])
        case "emptied":
            path.write_bytes(b"")
        case "a text":
            path.write_text("this is a text\n" * 10)
        case "a folder":
            path.mkdir()


@pytest.mark.spark
@pytest.mark.parametrize("how", ["missing", "cut off", "emptied", "a text", "a folder"])
def test_each_file_of_a_lake_damaged(lake: Path, how: str, tmp_path: Path) -> None:
    files = sorted(path.relative_to(lake) for path in lake.rglob("*") if path.is_file())
    assert len(files) > 10
    told = 0
    for file in files:
        copy = tmp_path / "copy"
        shutil.copytree(lake, copy)
        damage(copy / file, how)
        try:
            db = tm.connect(f"spark:{copy}")
        except tm.TidemarkError as error:
            told += 1
            assert error.code in CODES, (file, error)
            assert "copy" in error.message and error.hint, (file, error)
        else:
            try:
                for text in ("SELECT * FROM t", "SELECT * FROM v"):
                    db.query(text)
                db.changes("t")
            except tm.TidemarkError:
                told += 1
            db.close()
        shutil.rmtree(copy)
    assert told, how


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"tidemark": "lake", "format": 99}', "format"),
        ('{"tidemark": "lake"}', "not_a_database"),
        ('{"tidemark": "boat", "format": 1}', "not_a_database"),
        ("[1, 2]", "not_a_database"),
        ("5", "not_a_database"),
        ("no JSON", "not_a_database"),
        ("", "not_a_database"),
    ],
)
def test_a_lake_with_another_marker(lake: Path, tmp_path: Path, text: str, code: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(lake, copy)
    (copy / "_tidemark" / "lake.json").write_text(text)
    assert refused(f"spark:{copy}", str(copy), tmp_path).code == code


@pytest.mark.spark
def test_a_lake_without_its_transactions(lake: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(lake, copy)
    shutil.rmtree(copy / "_tidemark" / "transactions")
    assert refused(f"spark:{copy}", str(copy), tmp_path).code == "damaged"


@pytest.mark.spark
def test_folders_of_somebody_else(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "delta"), pa.table({"a": [1]}))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("x")
    for name in ("delta", "other"):
        refused(f"spark:{tmp_path}/{name}", name, tmp_path, {"not_a_database"})


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for six megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here: " + mounted.stderr.decode().strip())
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_full_disk(engine: str, small_disk: Path) -> None:
    path, done, refusals = small_disk / "data", 0, list[tm.TidemarkError]()
    with tm.connect(f"{engine}:{path}") as db:
        db.execute("CREATE TABLE t (a INT, b VARCHAR); CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        for _ in range(40):
            before = db.version
            try:
                db.insert("t", [(n, os.urandom(40).hex()) for n in range(3000)])
                done += 1
            except tm.TidemarkError as error:
                refusals.append(error)
                assert db.version == before
            if len(refusals) == 3:
                break
        assert [error.code for error in refusals] == ["storage_failed"] * 3 and done
        assert rows(db.query("SELECT * FROM v")) == [(3000 * done,)] and db.audit("v").num_rows == 0
    with tm.connect(f"{engine}:{path}") as db:
        assert rows(db.query("SELECT * FROM v")) == [(3000 * done,)]


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The same where nothing can be mounted: a limit of the process."""
    code = f"""
import resource, tidemark as tm
db = tm.connect({f"duckdb:{tmp_path}/data"!r})
db.execute("CREATE TABLE t (a INT, b VARCHAR)")
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
for number in range(20):
    try:
        db.insert("t", [(n, str(n) * 10) for n in range(5000)])
    except tm.TidemarkError as error:
        print(error.code)
        break
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "storage_failed", done


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_by_its_number(number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with tm.connect("duckdb") as db:
        db.execute("CREATE TABLE t (a INT)")

        def commit(_: object) -> None:
            raise OSError(number, os.strerror(number), str(tmp_path))

        monkeypatch.setattr(db._store.engine, "commit", commit)
        with pytest.raises(tm.TidemarkError) as caught:
            db.insert("t", [(1,)])
        assert caught.value.code == "storage_failed" and str(tmp_path) in caught.value.message
        monkeypatch.undo()
        db.insert("t", [(1,)])
        assert db.query("SELECT * FROM t").num_rows == 1
