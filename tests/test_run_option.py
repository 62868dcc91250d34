"""``options={"run": …}``: where the plans of a lake run. The answers are the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.support import Bag, rows
from tidemark.answers.describe import statements_started

SCRIPT = """
CREATE TABLE sale (id INT PRIMARY KEY, shop INT, amount INT);
CREATE TABLE shop (id INT PRIMARY KEY, name VARCHAR);
CREATE MATERIALIZED VIEW total AS
    SELECT name, COUNT(*) AS n, MAX(amount) AS most FROM sale JOIN shop ON shop = shop.id GROUP BY name;
CREATE MATERIALIZED VIEW reached AS
    WITH RECURSIVE r AS (SELECT id, shop FROM sale UNION SELECT r.id, s.shop FROM r JOIN sale s ON s.id = r.shop)
    SELECT id, shop FROM r;
INSERT INTO shop VALUES (1, 'a'), (2, 'b');
INSERT INTO sale VALUES (1, 2, 10), (2, 1, 20), (3, 2, 30);
UPDATE sale SET amount = 5 WHERE id = 3;
DELETE FROM sale WHERE id = 1;
"""


def worked(place: Path, run: str) -> tuple[list[Bag], int]:
    """What the views hold after some work, reopened in between; and how many statements Spark ran."""
    options, statements = {"run": run, "publish": "commit"}, 0
    with tm.connect(f"spark:{place}", options=options) as db:
        db.execute(SCRIPT)
        statements += statements_started(db) or 0
    with tm.connect(f"spark:{place}", options=options) as db:
        db.execute("INSERT INTO sale VALUES (4, 1, 7)")
        found = [Counter(rows(db.query(f"SELECT * FROM {view}"))) for view in ("total", "reached")]
        assert not any(db.audit(view).num_rows for view in ("total", "reached"))
        statements += statements_started(db) or 0
    return found, statements


EXPECTED = [Counter([("a", 2, 20), ("b", 1, 5)]), Counter([(2, 1), (3, 2), (3, 1), (4, 1)])]


def test_in_this_process_no_spark_is_asked(tmp_path: Path) -> None:
    assert worked(tmp_path / "lake", "process") == (EXPECTED, 0)


@pytest.mark.spark
def test_all_that_reads_stored_rows_runs_on_spark(tmp_path: Path, spark: Any) -> None:
    found, statements = worked(tmp_path / "spark", "spark")
    assert found == EXPECTED
    assert statements > worked(tmp_path / "auto", "auto")[1]


@pytest.mark.parametrize("value", ["Spark", "", None, 1, True])
def test_what_is_no_place_to_run_is_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(tm.TidemarkError, match="run is") as caught:
        tm.connect(f"spark:{tmp_path / 'lake'}", options={"run": value})
    assert caught.value.code == "option"
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("target", ["duckdb", "reference"])
def test_only_lakes_have_a_choice(target: str) -> None:
    with pytest.raises(tm.TidemarkError, match="has no Spark") as caught:
        tm.connect(target, options={"run": "process"})
    assert caught.value.code == "option"
