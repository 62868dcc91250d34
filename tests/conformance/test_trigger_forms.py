"""Every form of trigger, end and delivery in one database, on every engine, with a restart in between.

What each query answers, and when, is written down by hand.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.conformance.conftest import SPARK
from tests.conformance.test_continual_queries import SETUP, Clock, delivered
from tests.support import check_invariant, rows
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.engine import Engine
from tidemark.engines.reference import ReferenceEngine
from tidemark.engines.spark import SparkEngine

SPARK_VARIANTS = ("spark",)
QUERY = "SELECT id, owner, balance FROM account WHERE balance > 50"

CLAUSES = {
    "at": "TRIGGER AT '0 9 * * *'",
    "every": "TRIGGER EVERY '1 hour'",
    "change": "TRIGGER ON CHANGE",
    "two": "TRIGGER ON CHANGE OF 2 ROWS",
    "visits": "TRIGGER ON CHANGE OF 2 ROWS IN visit",
    "sums": "TRIGGER WHEN ABS(SUM(new.balance) - SUM(old.balance)) > 500",
    "counted": "TRIGGER WHEN COUNT(*) > 1 IN visit",
    "state": "TRIGGER WHEN (SELECT COUNT(*) FROM visit) > 1",
    "both": "TRIGGER EVERY '1 hour' AND ON CHANGE",
    "either": "TRIGGER ON CHANGE OF 3 ROWS OR AT '0 10 * * *'",
    "nested": "TRIGGER (ON CHANGE IN visit OR EVERY '2 hours') AND WHEN (SELECT COUNT(*) FROM account) > 2",
    "until_time": "TRIGGER ON CHANGE UNTIL '2027-01-01 08:15'",
    "until_results": "TRIGGER ON CHANGE UNTIL 1 RESULTS",
    "until_when": "TRIGGER ON CHANGE UNTIL WHEN EXISTS (SELECT 1 FROM visit)",
    "until_either": "TRIGGER ON CHANGE UNTIL 9 RESULTS OR WHEN (SELECT COUNT(*) FROM visit) > 1",
    "insertions": "TRIGGER ON CHANGE DELIVER INSERTIONS",
    "deletions": "TRIGGER ON CHANGE DELIVER DELETIONS",
    "complete": "TRIGGER ON CHANGE DELIVER COMPLETE",
}

# A result is the time at which it came, and the balances that it delivers: + came, - went, ~ were modified, = are all.
EXPECTED = {
    "at": ["Fri 09:30 +70 ~1100", "Mon 10:00 -200"],
    "every": ["Fri 09:30 +70 ~1100", "Mon 10:00 -200"],
    "change": ["Fri 08:00 +70", "Fri 08:30 ~1100", "Fri 10:30 -200"],
    "two": ["Fri 08:30 +70 ~1100"],
    "visits": ["Fri 09:30 +70 ~1100"],
    "sums": ["Fri 08:30 +70 ~1100"],
    "counted": ["Fri 09:30 +70 ~1100"],
    "state": ["Fri 09:30 +70 ~1100", "Fri 10:30 -200"],
    "both": ["Fri 09:30 +70 ~1100", "Fri 10:30 -200"],
    "either": ["Fri 10:30 +70 ~1100", "Mon 10:00 -200"],
    "nested": ["Fri 09:30 +70 ~1100"],
    "until_time": ["Fri 08:00 +70"],
    "until_results": ["Fri 08:00 +70"],
    "until_when": ["Fri 08:00 +70", "Fri 08:30 ~1100"],
    "until_either": ["Fri 08:00 +70", "Fri 08:30 ~1100"],
    "insertions": ["Fri 08:00 +70", "Fri 08:30 +1100"],
    "deletions": ["Fri 08:30 -100", "Fri 10:30 -200"],
    "complete": ["Fri 08:00 =70 =100 =200", "Fri 08:30 =70 =200 =1100", "Fri 10:30 =70 =1100"],
}


Opened = Callable[[], tm.Database]


@pytest.fixture
def opened(engine: str, clock: Clock, request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens the same database again and again; that of the reference engine is in memory, and is never closed."""
    if engine == "reference":
        only = tm.Database(ReferenceEngine(), clock=clock)
        return lambda: only

    def engine_of() -> Engine:
        if engine in SPARK:
            session: Any = request.getfixturevalue("spark")
            return SparkEngine(str(tmp_path / "lake"), session, **SPARK[engine])
        return DuckDBEngine(str(tmp_path / "data.duckdb"), by_statements=engine == "duckdb by statements")

    return lambda: tm.Database(engine_of(), clock=clock)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_every_form_answers_when_it_should(engine: str, opened: Opened, clock: Clock) -> None:
    db = opened()
    db.execute(SETUP)
    with db.transaction() as tx:
        tx.execute("CREATE TABLE visit (at INT)")
        for name, clauses in CLAUSES.items():
            tx.execute(f"CREATE CONTINUAL QUERY {name} AS {QUERY} {clauses}")
    db.execute("INSERT INTO account VALUES (3, 'Cy', 70)")
    clock.pass_by(minutes=30)
    db.execute("UPDATE account SET balance = balance + 1000 WHERE id = 1")
    clock.pass_by(hours=1)
    db.execute("INSERT INTO visit VALUES (1), (2)")
    before = {name: answers(db, name) for name in CLAUSES}
    if engine != "reference":
        db.close()
    clock.pass_by(hours=1)
    db = opened()
    assert {name: answers(db, name) for name in CLAUSES} == before, "a restart changes no result"
    db.run_due()
    db.execute("DELETE FROM account WHERE id = 2")
    clock.now = dt.datetime(2027, 1, 4, 10, 0)
    db.run_due()
    assert {name: answers(db, name) for name in CLAUSES} == EXPECTED
    shown = db.execute("SHOW CONTINUAL QUERIES")
    assert shown is not None and shown["error"].to_pylist() == [None] * len(CLAUSES)
    status = dict(zip(shown["name"].to_pylist(), shown["status"].to_pylist(), strict=True))
    assert {name for name in CLAUSES if status[name] == "stopped"} == {n for n in CLAUSES if n.startswith("until")}
    check_invariant(db)
    db.close()


def answers(db: tm.Database, name: str) -> list[str]:
    return [f"{result.time:%a %H:%M} {' '.join(content(result))}" for result in delivered(db, name)]


def content(result: tm.Result) -> list[str]:
    found = [f"~{pair['new']['balance']}" for pair in ([] if result.updated is None else result.updated.to_pylist())]
    for sign, table in (("=", result.rows), ("-", result.deleted), ("+", result.inserted)):
        found = [f"{sign}{n}" for n in sorted(r[2] for r in ([] if table is None else rows(table)))] + found
    return found
