"""Ctrl-C at any time, again and again, in a program that goes on: nothing is lost, nothing is doubled or half done."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import check_invariant, rows
from tidemark.engines.duckdb.dialect import hearing_interrupts, translating
from tidemark.engines.duckdb.embedded import GivenTables, Registered
from tidemark.state.boundary import bounded

ROOT = Path(__file__).parent.parent
SEED = int(os.environ.get("TIDEMARK_INTERRUPT_SEED", "15"))
LONGEST = 300
"""So many seconds, and a worker that has not felt enough interrupts has a fault."""


def interrupted_again_and_again(target: str, count: int, interrupts: int, longest: float) -> int:
    """Let a worker commit until it has felt so many interrupts and made so many transactions; how many it has made.

    Signals come at random instants for as long as the worker has not felt enough of them, however fast it is.
    """
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.signal_worker", target, str(count), str(interrupts)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,  # the signals are for it and its children alone
    )
    assert worker.stdout is not None
    assert worker.stdout.readline().strip() == "ready"
    with ThreadPoolExecutor(1) as reader:
        # Whatever the worker says next, be it an error, it is the end of the signals.
        _interrupt(worker, reader.submit(worker.stdout.readline), longest)
    told, errors = worker.communicate(timeout=300)
    assert worker.returncode == 0, errors
    word, done, felt = told.split()
    assert word == "done", errors
    assert int(felt) >= interrupts, "too little was interrupted: the test proves nothing"
    assert int(done) >= count
    return int(done)


def _interrupt(worker: subprocess.Popen[str], said: Future[str], longest: float) -> None:
    generator, end = random.Random(SEED), time.monotonic() + LONGEST
    while not said.done():
        if time.monotonic() > end:
            os.killpg(worker.pid, signal.SIGKILL)
            pytest.fail(f"the worker has not felt enough interrupts after {LONGEST} s")
        os.killpg(worker.pid, signal.SIGINT)  # Spark's process too, as a terminal does it
        wait([said], timeout=generator.uniform(0, longest))


def check(connect: Callable[[], tm.Database], count: int) -> None:
    with connect() as db:
        assert rows(db.query("SELECT n FROM done")) == [(number,) for number in range(1, count + 1)]
        check_invariant(db)


def test_ctrl_c_in_the_middle_of_anything_on_duckdb(tmp_path: Path) -> None:
    target = f"duckdb:{tmp_path / 'data.duckdb'}"
    done = interrupted_again_and_again(target, count=60, interrupts=30, longest=0.1)
    check(lambda: tm.connect(target), done)


class Pressed:
    """Rows of which DuckDB asks Python, which is interrupted there."""

    def __init__(self, where: str) -> None:
        self._where, self._rows = where, pa.table({"a": [1]})

    def _asked(self, what: str) -> None:
        if self._where == what:
            raise KeyboardInterrupt

    @property
    def schema(self) -> pa.Schema:
        self._asked("schema")
        return self._rows.schema

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self._asked("rows")
        return self._rows.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("where", ["schema", "rows"])
def test_ctrl_c_while_duckdb_asks_python_for_rows(where: str) -> None:
    """It tells that as an error of its own, which a program that catches errors would take for one."""
    with duckdb.connect() as connection, pytest.raises(KeyboardInterrupt), hearing_interrupts(), translating():
        connection.register("_tidemark_given_1", Pressed(where))
        connection.execute("SELECT * FROM _tidemark_given_1").fetchall()


class Given(Pressed):
    """A weighted table that is given a name."""

    num_columns = 2

    def rename_columns(self, names: list[str]) -> Given:
        return self


@pytest.mark.parametrize("names", [GivenTables, Registered])
def test_ctrl_c_while_a_table_gets_a_name(names: Any) -> None:
    with duckdb.connect() as connection, pytest.raises(KeyboardInterrupt):
        names(connection).name_of(Given("schema"))


def test_ctrl_c_that_a_library_made_an_error_of_its_own_leaves_the_interface_as_ctrl_c() -> None:
    @bounded
    def ask(connection: duckdb.DuckDBPyConnection, code: str) -> None:
        try:
            connection.register("t", Pressed("schema"))
        except duckdb.Error as error:
            raise tm.TidemarkError(code, "it failed") from error

    with duckdb.connect() as connection:
        with pytest.raises(KeyboardInterrupt):
            ask(connection, "evaluation_failed")
        # What was told of an interrupt before is not told again.
        with pytest.raises(tm.TidemarkError) as caught:
            try:
                connection.register("t", Pressed("schema"))
            except duckdb.Error:
                tm.connect("no such engine")
        assert caught.value.code == "target"
        # Whether a commit is done matters more than why that is not known.
        with pytest.raises(tm.TidemarkError) as caught:
            ask(connection, "commit_unknown")
        assert caught.value.code == "commit_unknown"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "count", "interrupts", "longest"), [("spark", 40, 20, 0.2), ("forced", 6, 6, 2.0)], ids=["spark", "forced"]
)
def test_ctrl_c_in_the_middle_of_anything_on_spark(
    tmp_path: Path, spark: Any, kind: str, count: int, interrupts: int, longest: float
) -> None:
    """As users have it, with most of the work in this process, and with jobs of Spark for all that is stored."""
    lake = str(tmp_path / "lake")
    done = interrupted_again_and_again(f"{kind}:{lake}", count, interrupts, longest)
    check(lambda: tm.connect(spark, lake=lake), done)
