"""No DuckDB of ours reaches anything but its own files: no extension, no other file, no other system."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemark as tm
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.spark.in_process import InProcess
from tidemark.engines.spark.integrity import Verified
from tidemark.storage.store import LocalStore

SOURCES = Path(__file__).parent.parent / "src" / "tidemark"
BENCHMARKS = Path(__file__).parent.parent / "benchmarks" / "tidemark_bench"
OTHER_SYSTEMS = (
    *("md:", "md:mine", "motherduck:", "MotherDuck:mine", "postgres:dbname=x", "postgresql://h/x", "pg:x", "mysql:x"),
    *("sqlite:x.db", "ducklake:x", "ducklake:postgres:x", "iceberg:x", "quack:x", "s3://bucket/x", "s3a://bucket/x"),
    *("http://127.0.0.1:1/x.duckdb", "HTTPS://127.0.0.1:1/x", "hf://x", "gcs://x", "az://x", "file:x", "file:///x"),
    *(":memory:", ":memory:x", "a\0b"),
)


@pytest.mark.parametrize("path", OTHER_SYSTEMS)
def test_targets_that_are_no_files_are_refused_before_duckdb_sees_them(
    path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def seen(*_: object, **__: object) -> None:
        raise AssertionError("DuckDB was asked")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(duckdb, "connect", seen)
    with pytest.raises(tm.TidemarkError) as caught:
        tm.connect(f"duckdb:{path}")
    assert caught.value.code == "target" and caught.value.hint is not None
    assert not list(tmp_path.iterdir())


def test_a_file_may_have_a_colon_in_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with tm.connect("duckdb:./md:x") as db:
        db.execute("CREATE TABLE t (a INT)")
    assert (tmp_path / "md:x").is_file()
    with tm.connect(f"duckdb:{tmp_path}/md:x") as db:
        assert db.version == 1


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "duckdb.connect":
            yield node


def test_every_connection_has_our_settings() -> None:
    files = (*SOURCES.rglob("*.py"), *BENCHMARKS.rglob("*.py"))
    found = {file: list(_calls(ast.parse(file.read_text()))) for file in files}
    calls = [(file, call) for file, some in found.items() for call in some]
    assert len(calls) >= 5
    for file, call in calls:
        given = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "config"]
        assert given in (["config()"], ["{**_without_extensions(), 'temp_directory': str(spill)}"]), (
            f"{file}:{call.lineno}"
        )


@pytest.fixture(params=["memory", "file", "lake"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The connections that engines use, each as its engine opens it."""
    if request.param == "lake":
        (tmp_path / "lake").mkdir()
        in_process = InProcess(Verified(LocalStore(tmp_path / "lake")), tmp_path / "lake" / "_tidemark" / "spill")
        yield in_process.connection
        in_process.close()
    else:
        engine = DuckDBEngine(str(tmp_path / "x.duckdb") if request.param == "file" else None)
        yield engine._connection
        engine.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{outside}/secret.csv')",
        "SELECT * FROM '{outside}/secret.csv'",
        "SELECT * FROM read_text('{outside}/secret.csv')",
        "SELECT * FROM read_parquet('{outside}/secret.parquet')",
        "SELECT * FROM read_parquet('{outside}/lake/../secret.parquet')",
        "SELECT * FROM glob('{outside}/*')",
        "SELECT * FROM 'http://127.0.0.1:1/x.parquet'",
        "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
        "COPY (SELECT 1) TO '{outside}/written.csv'",
        "ATTACH '{outside}/other.duckdb'",
        "ATTACH 'md:'",
        "ATTACH 'x' (TYPE postgres)",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CREATE PERSISTENT SECRET s (TYPE s3)",
        "EXPORT DATABASE '{outside}/export'",
        "SELECT * FROM variable_of_this_test",
        "SET enable_external_access = true",
        "SET autoload_known_extensions = true",
        "SET autoinstall_known_extensions = true",
        "SET allow_community_extensions = true",
        "SET allowed_directories = ['/']",
        "SET python_enable_replacements = true",
        "SET custom_extension_repository = 'http://127.0.0.1:1'",
        "SET allowed_configs = ['enable_external_access']",
        "SET lock_configuration = false",
    ],
)
def test_nothing_else_can_be_reached(connection: Any, statement: str, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "secret.parquet")
    variable_of_this_test = pa.table({"a": [1]})
    before = set(tmp_path.iterdir())
    with pytest.raises(duckdb.Error):
        connection.sql(statement.format(outside=tmp_path)).fetchall()
    assert set(tmp_path.iterdir()) == before and variable_of_this_test.num_rows == 1


def test_an_engine_still_sets_how_it_works(connection: Any) -> None:
    connection.execute("SET threads = 1; SET disabled_optimizers = ''; SET memory_limit = '1GB'")
    connection.register("given", pa.table({"a": [1, 2]}))
    assert connection.execute("SELECT SUM(a) FROM given").fetchall() == [(3,)]


@pytest.mark.parametrize("name", ["lake", "a lake's", "x/../lake"])
def test_the_files_of_a_lake_are_read_and_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    root = tmp_path / name
    (root / "tables").mkdir(parents=True)
    (root / "_tidemark").mkdir()
    in_process = InProcess(Verified(LocalStore(root)), root / "_tidemark" / "spill")
    path = str(root / "tables" / "p.parquet").replace("'", "''")
    in_process.connection.execute(f"COPY (SELECT 1 AS a) TO '{path}'")
    assert in_process.connection.execute(f"SELECT a FROM read_parquet(['{path}'])").fetchall() == [(1,)]
    in_process.connection.execute("SET memory_limit = '120MB'")
    spilled = in_process.connection.execute(
        "SELECT COUNT(*) FROM (SELECT s, LIST(a) FROM (SELECT range AS a, range || 'abcdefghijklmnop' AS s"
        " FROM range(1500000)) GROUP BY s ORDER BY s)"
    )
    assert spilled.fetchall() == [(1_500_000,)]
    in_process.close()
