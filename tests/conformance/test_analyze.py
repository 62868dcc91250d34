"""EXPLAIN ANALYZE: the statement is run, really and once, and its time is told by phase and by step."""

from __future__ import annotations

import re

import pytest

import tidemark as tm
from tests.support import changes_at, rows
from tidemark.session.commit import INSTALL, PREPARE, STORE
from tidemark.state.times import MOST_REMEMBERED

SPARK_VARIANTS = ("spark",)
SETUP = """
    CREATE TABLE t (k INT PRIMARY KEY, g INT CHECK (g < 100));
    CREATE TABLE aside (a INT);
    CREATE MATERIALIZED VIEW sums AS SELECT g, COUNT(*) AS n FROM t GROUP BY g;
    INSERT INTO t VALUES (1, 1), (2, 1), (3, 2);
"""
COMMIT = [phase.__name__.replace("_", " ") for phase in PREPARE]
COMMIT += [STORE, *(phase.__name__ for phase in INSTALL)]
PHASE = re.compile(r"  ([a-z]+(?: [a-z]+)?) +([\d,]+\.\d)(?:  .*)?")
STEP = re.compile(r"  (\S+) +(\w+) +(\d+) +(\d+) +(\d+) +([\d,]+)  (\S.*)")


@pytest.fixture
def filled(db: tm.Database) -> tm.Database:
    db.execute(SETUP)
    return db


def lines(db: tm.Database | tm.Transaction, sql: str) -> list[str]:
    told = db.execute(sql)
    assert told is not None and told.column_names == ["explain"]
    found: list[str] = told.column(0).to_pylist()
    return found


def phases(told: list[str]) -> dict[str, float]:
    """The phases by name, without their sum, which is the sum of what is shown but for roundings."""
    start = told.index("phases, in microseconds") + 1
    found: dict[str, float] = {}
    while start < len(told) and (match := PHASE.fullmatch(told[start])):
        found[match[1]] = float(match[2].replace(",", ""))
        start += 1
    whole = found.pop("all")
    assert abs(whole - sum(found.values())) < 0.1 * (len(found) + 1)
    return found


def steps(told: list[str]) -> list[tuple[str, str, int, int, str]]:
    """Node, strategy, rows in and out, and the reason."""
    found = [match for line in told if (match := STEP.fullmatch(line))]
    return [(m[1], m[2], int(m[3]), int(m[4]), m[7]) for m in found]


def traced(db: tm.Database, version: int) -> list[tuple[str, str, int, int, str]]:
    names = ("node", "strategy", "rows_in", "rows_out", "reason")
    return [tuple(step[name] for name in names) for step in db.trace(version).to_pylist()]


@pytest.mark.parametrize(
    ("sql", "changed", "sums"),
    [
        ("INSERT INTO t VALUES (4, 2), (5, 3)", "t +2", {(2, 1): -1, (2, 2): 1, (3, 1): 1}),
        ("UPDATE t SET g = 2 WHERE k = 1", "t +1 −1", {(1, 2): -1, (1, 1): 1, (2, 1): -1, (2, 2): 1}),
        ("DELETE FROM t WHERE g = 1", "t −2", {(1, 2): -1}),
        ("DELETE FROM t WHERE g = 77", "no row of a table changed", {}),
    ],
)
def test_a_change_is_a_transaction_of_its_own(
    filled: tm.Database, sql: str, changed: str, sums: dict[tuple[int, int], int]
) -> None:
    before = filled.version
    told = lines(filled, f"EXPLAIN ANALYZE {sql}")
    assert filled.version == before + 1 and told[0] == f"version {before + 1}: {changed}"
    assert changes_at(filled, "sums") == sums
    assert list(phases(told)) == ["parse", "bind", "find", *COMMIT]
    assert steps(told) == traced(filled, filled.version)
    assert bool(sums) == bool(steps(told))


def test_the_phases_of_a_version_are_told_later_too(filled: tm.Database) -> None:
    told = lines(filled, "EXPLAIN ANALYZE UPDATE t SET g = 7 WHERE k = 1")
    again = lines(filled, f"EXPLAIN ANALYZE VERSION {filled.version}")
    assert again[0] == f"version {filled.version}" and again[1:] == told[1:]


def test_the_phases_of_a_transaction_are_the_sum_of_its_statements(filled: tm.Database) -> None:
    with filled.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (4, 2)")
        tx.query("SELECT * FROM sums")
        tx.insert("t", [(5, 2)])
        tx.execute("DELETE FROM t WHERE k = ?", [5])
    told = lines(filled, f"EXPLAIN ANALYZE VERSION {filled.version}")
    assert list(phases(told)) == ["parse", "bind", "find", "read", *COMMIT]
    assert steps(told) == traced(filled, filled.version)


@pytest.mark.parametrize("is_session", [True, False])
def test_in_a_transaction_it_is_part_of_that(filled: tm.Database, is_session: bool) -> None:
    before = filled.version
    holder: tm.Database | tm.Transaction = filled
    if is_session:
        filled.execute("BEGIN")
    else:
        holder = filled.transaction()
    holder.execute("DELETE FROM t WHERE k = 2")
    told = lines(holder, "EXPLAIN ANALYZE UPDATE t SET g = 2 WHERE g = 1")
    assert told[0] == "t +1 −1" and list(phases(told)) == ["parse", "bind", "find"]
    assert "EXPLAIN ANALYZE VERSION tells when it is committed" in told[-1]
    told = lines(holder, "EXPLAIN ANALYZE SELECT * FROM sums")
    assert told[0] == "1 row" and list(phases(told)) == ["parse", "bind", "read"]
    assert filled.version == before
    if isinstance(holder, tm.Transaction):
        holder.commit()
    else:
        filled.execute("COMMIT")
    assert filled.version == before + 1
    assert rows(filled.query("SELECT * FROM sums")) == [(2, 2)]


def test_what_is_undone_changes_nothing(filled: tm.Database) -> None:
    before = filled.version
    filled.execute("BEGIN; EXPLAIN ANALYZE DELETE FROM t; ROLLBACK")
    assert filled.version == before and filled.query("SELECT * FROM t").num_rows == 3


def test_a_query_is_run_and_its_plan_shown(filled: tm.Database) -> None:
    before = filled.version
    told = lines(filled, "EXPLAIN ANALYZE SELECT k, n FROM t JOIN sums USING (g) WHERE n > 1")
    assert filled.version == before
    assert told[0] == "2 rows" and list(phases(told)) == ["parse", "bind", "read"]
    assert told[told.index("plan") + 1 :][0] == "  Project k, n"
    assert lines(filled, f"EXPLAIN ANALYZE SELECT * FROM t AS OF VERSION {before - 1}")[0] == "0 rows"
    assert lines(filled, "EXPLAIN ANALYZE VALUES (1), (2)")[0] == "2 rows"
    with_ = filled.query("EXPLAIN ANALYZE WITH x AS (SELECT 1 AS a) SELECT a FROM x")
    assert with_.column(0)[0].as_py() == "1 row"


def test_rules_act_in_it(filled: tm.Database) -> None:
    filled.execute("""
        CREATE RULE copy ON INSERT ON t WHEN SELECT k FROM inserted DO INSERT INTO aside SELECT k FROM condition
            WITH (coupling = 'immediate');
        ACTIVATE RULE copy;
    """)
    told = lines(filled, "EXPLAIN ANALYZE INSERT INTO t VALUES (9, 9)")
    assert "t +1" in told[0] and "aside +1" in told[0] and "rules" in phases(told)
    assert rows(filled.query("SELECT a FROM aside")) == [(9,)]


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        ("EXPLAIN ANALYZE VERSION 1000", "version", "there is no version 1000"),
        ("EXPLAIN ANALYZE VERSION 0", "version", "there is no version 0"),
        ("EXPLAIN ANALYZE VERSION x", "version", "'x' is not a version"),
        ("EXPLAIN ANALYZE VERSION", "syntax", "the number of the version is missing here"),
        ("EXPLAIN ANALYZE VERSION 1 2", "syntax", "nothing more is expected here"),
        ("EXPLAIN ANALYZE sums", "unsupported", "EXPLAIN ANALYZE sums is not supported"),
        ("EXPLAIN ANALYZE DROP TABLE t", "unsupported", "EXPLAIN ANALYZE DROP is not supported"),
        ("EXPLAIN ANALYZE EXPLAIN ANALYZE SELECT 1", "unsupported", "EXPLAIN ANALYZE EXPLAIN is not supported"),
        ("EXPLAIN ANALYZE", "unknown_relation", "there is no relation 'analyze'"),
        ("EXPLAIN ANALYZE UPDATE t SET g = 1000", "check", "violates CHECK"),
        ("EXPLAIN ANALYZE INSERT INTO t VALUES (1, 1)", "primary_key", "t"),
    ],
)
def test_what_cannot_be_run_is_refused_and_changes_nothing(
    filled: tm.Database, sql: str, code: str, message: str
) -> None:
    before = filled.version, rows(filled.query("SELECT * FROM t"))
    with pytest.raises(tm.TidemarkError) as caught:
        filled.execute(sql)
    assert caught.value.code == code and message in caught.value.message
    assert (filled.version, rows(filled.query("SELECT * FROM t"))) == before


def test_an_error_stands_where_it_is_in_the_whole_text(filled: tm.Database) -> None:
    for text in ("EXPLAIN ANALYZE\n  UPDATE t SET\n g = wrong", "SELECT 1; EXPLAIN ANALYZE SELECT wrong FROM t"):
        with pytest.raises(tm.TidemarkError) as caught:
            filled.execute(text)
        place = caught.value.place
        assert place is not None and place.text == text
        assert text.split("\n")[place.line - 1][place.column - 1 :].startswith("wrong")


def test_a_failure_dooms_the_transaction_that_it_stands_in(filled: tm.Database) -> None:
    filled.execute("BEGIN")
    with pytest.raises(tm.TidemarkError, match="wrong"):
        filled.execute("EXPLAIN ANALYZE DELETE FROM t WHERE wrong = 1")
    with pytest.raises(tm.TidemarkError, match="failed before"):
        filled.execute("SELECT 1")
    filled.execute("ROLLBACK")


def test_phases_are_remembered_of_the_last_versions(filled: tm.Database) -> None:
    """What is stored of a version has no phases: a longer memory is not needed, and another connection has none."""
    first = filled.version
    assert phases(lines(filled, f"EXPLAIN ANALYZE VERSION {first}"))
    laps = filled._store.laps
    for number in range(MOST_REMEMBERED):
        laps.take(first + 1 + number, {})
    told = lines(filled, f"EXPLAIN ANALYZE VERSION {first}")
    assert "phases are not known" in told[2] and steps(told) == traced(filled, first)
    assert len(laps._known) == MOST_REMEMBERED
