"""``tidemark pull``: a script, a pull, a line of JSON and an exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.foreign import Foreign
from tests.support import rows

ROOT = Path(__file__).parent.parent
COMMAND = (sys.executable, "-m", "tidemark.cli", "pull")
SCRIPT = """
CREATE OR REPLACE SOURCE lake TYPE delta OPTIONS (path 'lake');
CREATE OR REPLACE TABLE sale FROM SOURCE lake RELATION 'sale' KEY (id);
CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n FROM sale;
"""


@pytest.fixture
def sale(tmp_path: Path) -> Foreign:
    table = Foreign(tmp_path / "lake" / "sale")
    table.write([(1, "a", 100), (2, "b", 200)])
    (tmp_path / "pipeline.sql").write_text(SCRIPT)
    return table


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}


def pull(folder: Path, *arguments: str, code: int = 0) -> Mapping[str, Any]:
    """The line that a run says; its exit code must be this one."""
    line = (*COMMAND, "duckdb:x.duckdb", *arguments)
    done = subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    assert len(done.stdout.splitlines()) == 1
    said: Mapping[str, Any] = json.loads(done.stdout)
    return said


def test_a_run_is_a_line_and_an_exit_code(tmp_path: Path, sale: Foreign) -> None:
    said = pull(tmp_path, "pipeline.sql", "--dry-run")
    assert (said["dry_run"], said["rows"], said["version"], said["views"]) == (True, 2, 0, {})
    said = pull(tmp_path, "pipeline.sql")
    (source,) = said["sources"]
    assert (said["rows"], said["version"]) == (2, source["version"])
    assert source["tables"] == {"sale": {"inserted": 2, "deleted": 0}}
    version = said["version"]
    sale.write([(3, "c", 1)])
    said = pull(tmp_path, "--dry-run")
    assert (said["rows"], said["version"]) == (1, version)
    assert said["views"] == {"total": {"inserted": 1, "deleted": 1}}
    assert pull(tmp_path)["version"] == version + 1
    assert pull(tmp_path)["version"] == version + 1, "nothing was new"
    assert pull(tmp_path, "pipeline.sql")["rows"] == 0


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_dry_run_leaves_nothing_where_nothing_was(tmp_path: Path, sale: Foreign, engine: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    line = (*COMMAND, f"{engine}:new.{engine}", "pipeline.sql", "--dry-run")
    done = subprocess.run(line, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["rows"], said["version"], said["dry_run"]) == (2, 0, True)
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / f"new.{engine}").write_text("something else")
    done = subprocess.run(line, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and json.loads(done.stdout)["error"]["code"] == "not_a_database"


def test_a_source_that_has_stopped_is_told_by_the_exit_code(tmp_path: Path, sale: Foreign) -> None:
    pull(tmp_path, "pipeline.sql")
    sale.write([(1, "x", 1)])
    for arguments in (("--dry-run",), ()):
        said = pull(tmp_path, *arguments, code=3)
        (source,) = said["sources"]
        assert (source["status"], source["error"]["code"]) == ("stopped", "primary_key")
    assert pull(tmp_path, "nothing.sql", code=1)["error"]["code"] == "script"
    (tmp_path / "wrong.sql").write_text("CREATE TABLE t FROM SOURCE nobody RELATION 'r'")
    assert pull(tmp_path, "wrong.sql", code=1)["error"]["code"] == "unknown_source"
    sale.delete("grp = 'x'")
    elsewhere = pull(tmp_path, "--allow", "elsewhere", code=3)
    assert elsewhere["sources"][0]["error"]["code"] == "not_allowed"
    assert pull(tmp_path, "--allow", "lake")["rows"] == 0


def test_following_goes_on_until_a_signal_comes(tmp_path: Path, sale: Foreign) -> None:
    line = (*COMMAND, "duckdb:x.duckdb", "pipeline.sql", "--follow", "--every", "0.1")
    running = subprocess.Popen(line, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["rows"] == 2
        sale.update("id = 2", amount="9.5")
        assert json.loads(running.stdout.readline())["rows"] == 2
        sale.write([(2, "x", 1)])
        assert json.loads(running.stdout.readline())["sources"][0]["status"] == "stopped"
        sale.delete("grp = 'x'")
        assert json.loads(running.stdout.readline())["sources"][0]["status"] == "active"
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 0
    finally:
        running.kill()
    with tm.connect(f"duckdb:{tmp_path / 'x.duckdb'}") as db:
        assert rows(db.query("SELECT id, amount FROM sale")) == [(1, Decimal("1.00")), (2, Decimal("9.50"))]


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_the_example_shows_exact_changes(tmp_path: Path, engine: str) -> None:
    program = ROOT / "examples" / "pipeline" / "pipeline.py"
    line = (sys.executable, str(program), engine, str(tmp_path))
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "pulled 6 rows",
        "  revenue         + UK 3 22.75",
        "  without_orders  + 3 Cleo",
        "pulled 6 rows",
        "  revenue         + EG 1 99.00",
        "  revenue         + FR 2 22.00",
        "  revenue         - UK 3 22.75",
        "  without_orders  + 2 Ben",
        "  without_orders  - 3 Cleo",
        "pulled 0 rows",
    ]
