"""Rules that wait for a time, by the real clock: nobody has to ask."""

from __future__ import annotations

import time

import pytest

import tidemark as tm
from tests.support import rows


@pytest.mark.parametrize("engine", ["reference", "duckdb"], indirect=True)
def test_a_delayed_action_runs_by_itself(db: tm.Database) -> None:
    db.execute(
        """
        CREATE TABLE job (id INT PRIMARY KEY);
        CREATE TABLE done (id INT);
        CREATE RULE later ON AFTER '1 second' INSERT ON job WHEN SELECT id FROM inserted
            DO INSERT INTO done SELECT id FROM condition;
        ACTIVATE RULE later;
        INSERT INTO job VALUES (1);
        """
    )
    for _ in range(200):
        if db.query("SELECT * FROM done").num_rows:
            break
        time.sleep(0.1)
    assert rows(db.query("SELECT * FROM done")) == [(1,)]
