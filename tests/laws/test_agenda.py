"""Asking only the triggers whose time has come, or that look at something that has changed, gives the results that
asking every one of them after each transaction gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.conformance.test_continual_queries import Clock
from tests.effort import examples
from tests.support import rows_in_order

SETUP = """
CREATE TABLE r (a INT PRIMARY KEY, b INT);
CREATE TABLE s (b INT);
CREATE TABLE log_of (at TIMESTAMP);
INSERT INTO log_of VALUES ('2027-01-01 10:30');
CREATE VIEW many AS SELECT b FROM r WHERE b > 1;
CREATE MATERIALIZED VIEW n AS SELECT b, COUNT(*) AS n FROM r GROUP BY b;
CREATE MATERIALIZED VIEW lazy WITH (refresh = 'on read') AS SELECT b FROM s WHERE b > 2;
"""
QUERIES = ("SELECT a, b FROM r WHERE b > 1", "SELECT s.b, r.a FROM s JOIN r ON r.b = s.b", "SELECT b, n FROM n")
TIMES = ("EVERY '1 hour'", "AT '0 9,11 * * *'")
CHANGES = (
    "ON CHANGE",
    "ON CHANGE OF 2 ROWS",
    "WHEN COUNT(*) > 1",
    "ON CHANGE OF 2 ROWS IN s",
    "WHEN COUNT(*) > 1 IN n",
)
STATES = (
    "WHEN (SELECT COUNT(*) FROM s) > 2",
    "WHEN EXISTS (SELECT 1 FROM many)",
    "WHEN (SELECT COUNT(*) FROM lazy) > 0",
    "WHEN (SELECT MIN(at) FROM log_of) < NOW()",
)
BOTH = tuple(f"{time} AND {other}" for time in TIMES for other in CHANGES + STATES)
EITHER = tuple(f"{time} OR {other}" for time in TIMES for other in CHANGES)
NESTED = ("(EVERY '1 hour' OR ON CHANGE OF 3 ROWS) AND WHEN (SELECT COUNT(*) FROM s) > 1",)
UNTILS = ("", "", " UNTIL 2 RESULTS", " UNTIL '2027-01-01 11:00'", " UNTIL WHEN (SELECT COUNT(*) FROM s) > 4")
TRIGGERS = TIMES + CHANGES + STATES + BOTH + EITHER + NESTED
SMALL = st.integers(0, 4)
STEPS = st.tuples(
    st.sampled_from(("insert r", "delete r", "insert s", "delete s", "time", "run", "define")), SMALL, SMALL
)


def step(db: tm.Database, clock: Clock, kind: str, x: int, y: int) -> None:
    match kind:
        case "insert r":
            db.execute(f"INSERT INTO r SELECT {x}, {y} WHERE NOT EXISTS (SELECT 1 FROM r WHERE a = {x})")
        case "delete r":
            db.execute(f"DELETE FROM r WHERE a = {x}")
        case "insert s":
            db.execute(f"INSERT INTO s VALUES ({x})")
        case "delete s":
            db.execute(f"DELETE FROM s WHERE b = {x}")
        case "time":
            clock.pass_by(minutes=17 * (x + 1))
        case "run":
            db.run_due()
        case "define":
            db.execute(f"CREATE OR REPLACE VIEW many AS SELECT b FROM r WHERE b > {x}")


def delivered(db: tm.Database, name: str) -> list[Any]:
    found, stream = [], db.results(name)
    while (result := stream.poll()) is not None:
        tables = (result.inserted, result.deleted)
        found.append((result.number, result.time, [None if t is None else rows_in_order(t) for t in tables]))
    return found


def history(queries: list[tuple[str, str, str]], steps: list[tuple[str, int, int]], *, asks_all: bool) -> list[Any]:
    clock, found = Clock(), []
    with tm.connect("reference", clock=clock) as db:
        db.execute(SETUP)
        for number, (query, trigger, until) in enumerate(queries):
            db.execute(f"CREATE CONTINUAL QUERY q{number} AS {query} TRIGGER {trigger}{until}")
        for one in steps:
            if asks_all:
                db._continual._agenda.ask_all()
            step(db, clock, *one)
        shown = db.execute("SHOW CONTINUAL QUERIES")
        assert shown is not None
        for number in range(len(queries)):
            found.append((delivered(db, f"q{number}"), shown["status"][number].as_py(), shown["error"][number].as_py()))
    return found


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(QUERIES), st.sampled_from(TRIGGERS), st.sampled_from(UNTILS)), min_size=1, max_size=4
    ),
    st.lists(STEPS, min_size=4, max_size=14),
)
def test_asking_whom_a_change_concerns_is_enough(
    queries: list[tuple[str, str, str]], steps: list[tuple[str, int, int]]
) -> None:
    assert history(queries, steps, asks_all=False) == history(queries, steps, asks_all=True)
