"""Lakes on an object store: a real server on this machine, which speaks S3.

What conformance tests say of any database, and what only such a lake has: a cache that may be gone, two machines that
write at once, other programs that read the bucket, and processes that are killed in the middle of a request.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

import tidemark as tm
from tests.bucket_kills import kill_again_and_again, overtake_again_and_again
from tests.conformance import test_corner_cases as corner_cases
from tests.object_server import BUCKET, ObjectServer, object_server
from tests.sharing_worker import SMALL
from tests.support import check_invariant, rows
from tidemark.cli.main import app
from tidemark.engines.spark import SparkEngine
from tidemark.engines.spark.backup import check_lake
from tidemark.engines.spark.load import set_aside
from tidemark.engines.spark.reader import LakeReader
from tidemark.engines.spark.session import HADOOP_AWS, ON_SPARK
from tidemark.errors import TidemarkError
from tidemark.session.check import check
from tidemark.session.database import Database
from tidemark.session.reading import ReadOnlyDatabase

pytestmark = [pytest.mark.spark, pytest.mark.slow]
Connect = Callable[..., tm.Database]


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as found:
        yield found


@pytest.fixture
def connect(server: ObjectServer, spark: Any, tmp_path: Path) -> Connect:
    """Connect to a url, with the cache of a machine that is named."""

    def connected(
        url: str, machine: str = "one", *, takeover: bool = False, read_only: bool = False, **storage: str
    ) -> tm.Database:
        options = {"storage": {**server.storage, "cache": str(tmp_path / machine), **storage}, "publish": "commit"}
        return tm.connect(spark, lake=url, options=options, takeover=takeover, read_only=read_only)

    return connected


CASES = sorted(
    name
    for name, case in vars(corner_cases).items()
    if name.startswith("test_") and list(inspect.signature(case).parameters) == ["db"]
)


@pytest.mark.parametrize("name", CASES)
def test_a_corner_case(name: str, connect: Connect, server: ObjectServer) -> None:
    url = server.url()
    with connect(url) as db:
        getattr(corner_cases, name)(db)
        check_invariant(db)
        contents = {one: rows(db.query(f"SELECT * FROM {one}")) for one in stored(db)}
        version = db.version
    with connect(url, "another") as db:
        assert (db.version, {one: rows(db.query(f"SELECT * FROM {one}")) for one in stored(db)}) == (version, contents)
        check_invariant(db)


def stored(db: tm.Database) -> list[str]:
    shown = [db.execute("SHOW TABLES"), db.execute("SHOW VIEWS")]
    return [name for table in shown if table is not None for name in table["name"].to_pylist()]


def shop(db: tm.Database) -> None:
    db.execute(
        "CREATE TABLE item (id INT PRIMARY KEY, kind INT);"
        "CREATE MATERIALIZED VIEW kinds AS SELECT kind, COUNT(*) AS n FROM item GROUP BY kind"
    )
    db.insert("item", [(number, number % 7) for number in range(1000)])


def test_files_come_from_the_bucket_when_the_cache_is_gone(
    connect: Connect, server: ObjectServer, tmp_path: Path
) -> None:
    url = server.url()
    with connect(url) as db:
        shop(db)
        db.insert("item", [(number, 9) for number in range(1000, 40_000)])
        db.execute("DELETE FROM item WHERE id < 10; CHECKPOINT")
        expected = rows(db.query("SELECT * FROM kinds"))
    with connect(url, "empty") as db:
        assert rows(db.query("SELECT * FROM kinds")) == expected
        db.execute("UPDATE item SET kind = 8 WHERE id = 20")
    # What is in the cache and not whole is fetched once more.
    for path in (tmp_path / "one").rglob("tables/*/*.parquet"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    with connect(url) as db:
        assert db.query("SELECT kind FROM item WHERE id = 20").to_pylist() == [{"kind": 8}]
        check_invariant(db)


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "flipped": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 0x41]) + data[len(data) // 2 + 1 :],
    "zeros": lambda data: bytes(len(data)),
    "cut off": lambda data: data[: len(data) // 2],
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("is_open", [False, True], ids=["before it is opened", "while a reader follows"])
def test_a_file_of_the_cache_is_right_or_is_fetched_again(
    how: str, is_open: bool, server: ObjectServer, tmp_path: Path
) -> None:
    def options(machine: str) -> dict[str, Any]:
        storage = {**server.storage, "cache": str(tmp_path / machine), "spark": "files"}
        return {**SMALL, "keep_merged_seconds": 600, "storage": tuple(storage.items())}

    def spoil(machine: str) -> int:
        found = [path for path in (tmp_path / machine).rglob("*") if path.is_file() and path.stat().st_size]
        found = [path for path in found if path.suffix != ".lock" and not (is_open and "tables" in path.parts)]
        for path in found:
            path.write_bytes(BROKEN[how](path.read_bytes()))
        return len(found)

    url = server.url()
    with Database(SparkEngine(url, **options("one"))) as db:
        db.execute("CREATE TABLE item (id INT PRIMARY KEY, kind INT)")
        db.execute("CREATE MATERIALIZED VIEW kinds AS SELECT kind, COUNT(*) AS n FROM item GROUP BY kind")
        for number in range(23):  # entries of compacted files are gone by then
            db.insert("item", [(10 * number + n, n) for n in range(4)])
        reader = ReadOnlyDatabase(LakeReader(url, **options("other"))) if is_open else None
        if reader is not None:
            with reader:
                assert spoil("other") > 10
                assert reader.changes("item").num_rows == 92 and reader.execute("SHOW VERSIONS") is not None
                db.insert("item", [(1000, 7)])
                assert rows(reader.query("SELECT n FROM kinds WHERE kind = 7")) == [(1,)]
                assert reader.changes("item").num_rows == 93 and not reader.audit("kinds").num_rows
            assert spoil("one") > 10
            assert db.changes("item").num_rows == 93 and db.trace(3) is not None
            db.insert("item", [(1001, 7)])
            for path in (tmp_path / "one").rglob("*.parquet"):
                path.write_bytes(BROKEN[how](path.read_bytes()))
            db.backup(tmp_path / "copy")
            assert not check_lake(str(tmp_path / "copy"), lambda name: None).damage
            return
        expected = rows(db.query("SELECT * FROM kinds"))
    assert spoil("one") > 10
    for _ in range(2):
        with ReadOnlyDatabase(LakeReader(url, **options("one"))) as db:
            assert rows(db.query("SELECT * FROM kinds")) == expected
            assert db.changes("item").num_rows == 92 and not db.audit("kinds").num_rows
        with Database(SparkEngine(url, **options("one"))) as db:
            assert rows(db.query("SELECT * FROM kinds")) == expected
            db.execute("UPDATE item SET kind = kind WHERE id = 1")
            check_invariant(db)
        spoil("one")


def test_an_object_that_is_not_whole_is_told(connect: Connect, server: ObjectServer) -> None:
    url = server.url()
    with connect(url) as db:
        shop(db)
        db.execute("CHECKPOINT")
    client, prefix = server.client(), url.partition(f"{BUCKET}/")[2]
    (name,) = (
        about["path"]
        for batch in obstore.list(client, f"{prefix}/tables/item")
        for about in batch
        if about["path"].endswith(".parquet")
    )
    obstore.put(client, name, b"PAR1 and nothing else")
    with pytest.raises(TidemarkError) as raised, connect(url, "another") as db:
        db.query("SELECT * FROM item")
    assert raised.value.code == "damaged"


def test_other_programs_read_what_is_published(connect: Connect, server: ObjectServer) -> None:
    url = server.url()

    def read(name: str) -> DeltaTable:
        return DeltaTable(f"{url}/tables/{name}", storage_options=server.of_delta)

    with connect(url) as db:
        shop(db)
        for number in range(1000, 1080):  # more entries than one checkpoint has
            db.execute(f"INSERT INTO item VALUES ({number}, 3)")
            if number % 16 == 0:
                assert read("item").to_pyarrow_table().num_rows == number + 1
        db.execute("DELETE FROM item WHERE kind = 4")
        expected = rows(db.query("SELECT * FROM item"))
        kinds = rows(db.query("SELECT * FROM kinds"))
        assert rows(read("item").to_pyarrow_table()) == expected
        assert rows(read("kinds").to_pyarrow_table()) == kinds
        feed = read("kinds").load_cdf(starting_version=0).read_all()
        assert set(feed["_change_type"].to_pylist()) == {"insert", "delete"}
    with connect(url, "another") as db:
        db.execute("INSERT INTO item VALUES (5000, 4); DROP VIEW kinds; CREATE TABLE kinds (a INT)")
        db.execute("INSERT INTO kinds VALUES (7)")
        assert rows(read("kinds").to_pyarrow_table()) == [(7,)]
        assert len(rows(read("item").to_pyarrow_table())) == len(expected) + 1


def test_of_two_that_write_at_once_one_commits(connect: Connect, server: ObjectServer) -> None:
    url = server.url()
    first = connect(url)
    shop(first)
    with pytest.raises(TidemarkError) as raised:
        connect(url, "another")
    assert raised.value.code == "in_use"
    second = connect(url, "another", takeover=True)
    second.execute("INSERT INTO item VALUES (2000, 2)")
    for text in ("INSERT INTO item VALUES (2000, 1)", "DROP VIEW kinds", "INSERT INTO item VALUES (2001, 1)"):
        with pytest.raises(TidemarkError) as raised:
            first.execute(text)
        assert raised.value.code == "fenced"
    first.close()
    with pytest.raises(TidemarkError):
        connect(url)  # that one has closed says nothing of the other
    second.execute("INSERT INTO item VALUES (2002, 2)")
    second.close()
    with connect(url, "a third") as db:
        assert db.query("SELECT id FROM item WHERE id >= 2000 ORDER BY id").to_pylist() == [{"id": 2000}, {"id": 2002}]
        check_invariant(db)


def test_whoever_is_overtaken_in_the_midst_of_upkeep_removes_nothing_that_is_needed(
    connect: Connect, server: ObjectServer, spark: Any, tmp_path: Path
) -> None:
    url, few = server.url(), {"compact_every": 4, "merge_rows": 3, "forget_every": 1, "sweep_after_seconds": 0}
    storage = tuple({**server.storage, "cache": str(tmp_path / "one")}.items())
    first = tm.Database(SparkEngine(url, spark, storage=storage, keep_merged_seconds=0, **few))
    shop(first)
    first.execute("CREATE TABLE gone (a INT); INSERT INTO gone VALUES (1)")
    with connect(url, "another", takeover=True) as second:
        second.execute("DROP TABLE gone; CREATE TABLE gone (b INT); INSERT INTO gone VALUES (2); CHECKPOINT")
        engine = first._store.engine
        assert isinstance(engine, SparkEngine)
        actions: list[Callable[[], object]] = [
            lambda: engine._sweep(engine._transactions.rows()),
            lambda: engine._transactions._clean(10**9, ()),
            lambda: first.execute("INSERT INTO item VALUES (7000, 1)"),
            lambda: first.execute("DROP TABLE gone"),
        ]
        for action in actions:
            with pytest.raises(TidemarkError) as raised:
                action()
            assert raised.value.code == "fenced"
        # Had it looked before it was overtaken, it would go on with this.
        set_aside(engine._lake, engine._lake.root / "tables" / "gone")
        first.close()
        second.execute("INSERT INTO gone VALUES (3); PUBLISH")
        assert rows(DeltaTable(f"{url}/tables/gone", storage_options=server.of_delta).to_pyarrow_table()) == [
            (2,),
            (3,),
        ]
    with connect(url, "a third") as db:
        assert rows(db.query("SELECT b FROM gone ORDER BY b")) == [(2,), (3,)]
        check_invariant(db)


def test_readers_follow_a_writer(connect: Connect, server: ObjectServer) -> None:
    url = server.url()
    with pytest.raises(TidemarkError) as raised:
        connect(url, read_only=True)
    assert raised.value.code == "not_a_database"
    with connect(url) as writer:
        shop(writer)
        with connect(url, "a reader", read_only=True) as reader:
            with pytest.raises(TidemarkError) as raised:
                reader.execute("INSERT INTO item VALUES (5000, 1)")
            assert raised.value.code == "read_only"
            for number in range(1000, 1150):  # the table of transactions is compacted meanwhile
                writer.execute(f"INSERT INTO item VALUES ({number}, 3)")
                if number % 50 == 7:
                    writer.execute(f"DELETE FROM item WHERE id = {number}; CHECKPOINT")
                if number % 25 == 0:
                    assert reader.version == writer.version or reader.query("SELECT 1 AS one").num_rows == 1
                    assert rows(reader.query("SELECT * FROM kinds")) == rows(writer.query("SELECT * FROM kinds"))
                    assert reader.version == writer.version
            assert rows(reader.query("SELECT * FROM item")) == rows(writer.query("SELECT * FROM item"))
            assert rows(reader.changes("kinds", 2)) == rows(writer.changes("kinds", 2))
            assert not reader.audit("kinds").num_rows


def test_a_lake_moves_to_a_bucket_as_its_files(
    connect: Connect, server: ObjectServer, spark: Any, tmp_path: Path
) -> None:
    lake, url, client = tmp_path / "lake", server.url(), server.client()
    with tm.connect(spark, lake=str(lake)) as db:
        shop(db)
        expected = rows(db.query("SELECT * FROM kinds"))
    for path in (path for path in lake.rglob("*") if path.is_file()):
        obstore.put(client, f"{url.partition(f'{BUCKET}/')[2]}/{path.relative_to(lake).as_posix()}", path)
    with connect(url) as db:
        assert rows(db.query("SELECT * FROM kinds")) == expected
        db.execute("DELETE FROM item WHERE id < 5")
        check_invariant(db)


def test_copies_of_what_is_gone_go_too(connect: Connect, server: ObjectServer, tmp_path: Path) -> None:
    url = server.url()
    with connect(url) as db:
        shop(db)
        db.execute("CHECKPOINT")
    left = tmp_path / "one"
    (folder,) = left.rglob("tables/item")
    stray = folder / "part-0.parquet"
    stray.write_bytes(b"of a lake that was here before")
    os.utime(stray, (0, 0))
    with connect(url) as db:
        assert db.query("SELECT COUNT(*) AS n FROM item").to_pylist() == [{"n": 1000}]
    assert not stray.exists()
    assert list(folder.glob("*.parquet"))


def test_what_goes_wrong_is_told(connect: Connect, server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.url()

    def refused(url: str = url, **storage: str) -> TidemarkError:
        with pytest.raises(TidemarkError) as raised:
            connect(url, **storage)
        assert server.storage["secret_access_key"] not in str(raised.value)
        return raised.value

    assert refused("s3://no-such-bucket/lake").code == "not_a_database"
    assert refused(secret_access_key="wrong").code == "permission"
    assert refused(access_key_id="nobody").code == "permission"
    assert refused(endpoint="http://127.0.0.1:9").code == "storage_failed"
    assert refused(no_such_word="1").code == "option"
    assert refused(f"s3://{BUCKET}/some lake").code == "target"
    obstore.put(server.client(), f"{url.partition(f'{BUCKET}/')[2]}/picture.png", b"of somebody else")
    assert refused().code == "not_a_database"


def test_credentials_are_found_in_the_environment(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_environment(server, monkeypatch, tmp_path)
    url = server.url()
    with tm.connect(f"spark:{url}") as db:
        shop(db)
    runner = CliRunner()
    for command in (["check"], ["status", "--database"]):
        result = runner.invoke(app, [*command, f"spark:{url}"])
        assert result.exit_code == 0, result.output
    assert not check(f"spark:{url}", lambda _: None).damage


def of_environment(server: ObjectServer, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


def test_a_backup_is_a_lake_on_the_disk(connect: Connect, server: ObjectServer, spark: Any, tmp_path: Path) -> None:
    url = server.url()
    with connect(url) as db:
        shop(db)
        db.execute("CHECKPOINT; INSERT INTO item VALUES (5000, 5)")
    options = {"storage": {**server.storage, "cache": str(tmp_path / "empty")}}
    with tm.connect(spark, lake=url, options=options, allow_paths=[tmp_path]) as db:
        db.execute(f"BACKUP TO '{tmp_path / 'backup'}'")
        expected = rows(db.query("SELECT * FROM kinds"))
    with tm.connect(spark, lake=str(tmp_path / "backup")) as db:
        assert rows(db.query("SELECT * FROM kinds")) == expected
        check_invariant(db)
    with pytest.raises(TidemarkError) as raised, connect(url) as db:
        db.execute(f"BACKUP TO '{server.url()}'")
    assert raised.value.code in ("unsupported", "not_allowed")


@pytest.mark.skipif(not HADOOP_AWS.is_dir(), reason="Spark lacks hadoop-aws: scripts/hadoop_aws.sh fetches it")
def test_spark_itself_reads_and_writes_the_bucket(
    server: ObjectServer, connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_environment(server, monkeypatch, tmp_path)
    url = server.url()
    done = subprocess.run(
        [sys.executable, "-m", "tests.s3a_worker", url],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=300,
    )
    expected = sorted(Counter(n % 7 for n in [*range(100, 1000), 1]).items())
    assert done.stdout.strip().splitlines()[-1:] == [str(expected)], done.stderr
    with connect(url, "another") as db:
        assert rows(db.query("SELECT b, n FROM v")) == expected
        check_invariant(db)


def test_a_spark_without_its_jars_says_what_it_lacks(server: ObjectServer, spark: Any, tmp_path: Path) -> None:
    storage = {**server.storage, "cache": str(tmp_path), "spark": "s3a"}
    engine = SparkEngine(server.url(), spark, storage=tuple(storage.items()), inline_rows=2, **ON_SPARK)
    with tm.Database(engine) as db:
        db.execute("CREATE TABLE t (a INT)")
        db.insert("t", [(number,) for number in range(1000)])
        with pytest.raises(TidemarkError, match="S3AFileSystem") as raised:
            db.execute("CREATE MATERIALIZED VIEW v AS SELECT a % 7 AS b, COUNT(*) AS n FROM t GROUP BY a % 7")
    assert (raised.value.code, "scripts/hadoop_aws.sh" in str(raised.value.hint)) == ("unsupported", True)


def test_nothing_that_was_acknowledged_is_lost(
    server: ObjectServer, spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_environment(server, monkeypatch, tmp_path)
    told = kill_again_and_again(server, lambda url: tm.connect(spark, lake=url, takeover=True), kills=5, seed=20261119)
    assert told.kills == 5
    assert os.environ["AWS_ENDPOINT_URL"] == server.endpoint


def test_a_writer_that_is_stopped_and_overtaken_harms_nothing(
    server: ObjectServer, spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_environment(server, monkeypatch, tmp_path)
    overtake_again_and_again(server, lambda url: tm.connect(spark, lake=url, takeover=True), times=2, seed=20261119)
