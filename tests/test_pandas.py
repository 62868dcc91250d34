"""pandas is not in the data path. pyarrow and PySpark look whether it is there; Tidemark has no use for it.

The client of Spark Connect imports it, so for that kind of session the second test is the one that tells.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest

import tidemark as tm
from tests.support import changes_at, check_invariant, rows

SCRIPT = """
    CREATE TABLE sale (id INT PRIMARY KEY, customer VARCHAR, amount DECIMAL(12,2), day DATE, at TIMESTAMP);
    CREATE MATERIALIZED VIEW total AS
        SELECT customer, COUNT(*) AS sales, SUM(amount) AS amount FROM sale GROUP BY customer;
    INSERT INTO sale VALUES (1, 'Ada', 10.00, DATE '2026-01-01', NULL), (2, 'Ada', 5.50, NULL, NULL);
    DELETE FROM sale WHERE id = 2;
"""

WITHOUT = f"""
import sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name, name=name)


sys.meta_path.insert(0, Missing())  # importing pandas now fails, as if it were not installed
import tidemark as tm

with tm.connect("duckdb") as db:
    db.execute({SCRIPT!r})
    db.insert("sale", db.query("SELECT id + 1 AS id, customer, amount, day, at FROM sale"))
    assert db.audit("total").num_rows == 0
    print(db.query("SELECT customer, sales FROM total").to_pylist())
"""


def test_a_database_works_where_pandas_is_not_installed() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60)
    assert run.stdout == "[{'customer': 'Ada', 'sales': 2}]\n", run.stderr


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_no_row_passes_through_pandas(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    target = "duckdb" if engine == "duckdb" else request.getfixturevalue("spark")

    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise AssertionError("a pandas object is made")

    monkeypatch.setattr(pandas.DataFrame, "__init__", refuse)
    monkeypatch.setattr(pandas.Series, "__init__", refuse)
    with tm.connect(target, lake=None if engine == "duckdb" else str(tmp_path / "lake")) as db:
        db.execute(SCRIPT)
        assert changes_at(db, "total").keys() == {("Ada", 2, 15.5), ("Ada", 1, 10)}
        assert rows(db.query("SELECT day FROM sale"))
        check_invariant(db)
