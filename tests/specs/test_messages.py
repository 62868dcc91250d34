"""Messages name what was written, and nothing that the parser or the analysis put in its place."""

from __future__ import annotations

import pytest

import tidemark as tm

SETUP = """
CREATE TABLE t (id INT PRIMARY KEY, a INT, p INT CHECK (p BETWEEN 0 AND 30), w VARCHAR);
CREATE MATERIALIZED VIEW v AS SELECT id, a FROM t WHERE p >= 13;
"""


def said(sql: str) -> str:
    with tm.connect("reference") as db:
        db.execute(SETUP)
        with pytest.raises(tm.TidemarkError) as caught:
            db.execute(sql)
        return f"{caught.value.code}: {caught.value.message}"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT UNNEST(ARRAY[1])", "unknown_function: the function 'unnest' is not supported"),
        ("SELECT explode(ARRAY[1])", "unknown_function: the function 'explode' is not supported"),
        ("SELECT generate_series(1, 2)", "unknown_function: the function 'generate_series' is not supported"),
        ("SELECT * FROM explode(ARRAY[1])", "unsupported: 'explode(ARRAY[1])' in FROM is not supported"),
        (
            "SELECT * FROM generate_series(1, 2) AS g",
            "unsupported: 'generate_series(1, 2) AS g' in FROM is not supported",
        ),
        ("SELECT :q", "parameter: :q has no value here"),
        ("SELECT a FROM t WHERE a < :p", "parameter: :p has no value here"),
        ("INSERT INTO t VALUES (:x, 1, 1, '')", "parameter: :x has no value here"),
        ("SELECT $1", "parameter: a parameter has no value here"),
        ("SELECT ?", "parameter: a parameter has no value here"),
        (
            "EXPLAIN EFFECT OF DELETE FROM t WHERE a = :a ON v",
            "syntax: the parameter :a has the name of a column of 't'",
        ),
        ("EXPLAIN EFFECT OF DELETE FROM t WHERE a = ? ON v", "syntax: a parameter has a name here"),
    ],
)
def test_what_was_written_is_named(sql: str, message: str) -> None:
    assert said(sql) == message


@pytest.mark.parametrize("interval", ["1 month 1 day", "1 day 2 hours", "1 day -2 hours", "1 month -30 days"])
def test_generate_series_over_mixed_intervals_is_refused(interval: str) -> None:
    series = f"generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-03-01', INTERVAL '{interval}')"
    for sql in (f"SELECT * FROM {series}", f"SELECT {series}", f"SELECT * FROM UNNEST({series}) AS u(x)"):
        assert said(sql).startswith("unsupported: ")


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("FALSE OR p < 13", "the view needs p >= 13, the statement deletes only p < 13"),
        ("p < 13 OR FALSE OR p < 13", "the view needs p >= 13, the statement deletes only p < 13"),
        ("TRUE AND p < 13", "the view needs p >= 13, the statement deletes only p < 13"),
        ("(FALSE OR p < 13) AND (TRUE OR a > 1)", "the view needs p >= 13, the statement deletes only p < 13"),
    ],
)
def test_conditions_are_shown_without_what_says_nothing(condition: str, reason: str) -> None:
    with tm.connect("reference") as db:
        db.execute(SETUP)
        assert db.classify("v", f"DELETE FROM t WHERE {condition}").reason == reason
        assert "FALSE" not in str(db.advise("v", f"DELETE FROM t WHERE {condition} AND a = :k"))


def test_advice_has_no_constants_in_its_conditions() -> None:
    with tm.connect("reference") as db:
        db.execute(SETUP)
        for statement in (
            "DELETE FROM t WHERE p < :x",
            "DELETE FROM t WHERE p < :x OR a < :y",
            "UPDATE t SET p = :x WHERE p < :y",
            "UPDATE t SET p = :x WHERE p IN (3, 4)",
            "INSERT INTO t VALUES (:i, :x, :y, '')",
        ):
            shown = str(db.advise("v", statement))
            assert "FALSE" not in shown and "TRUE" not in shown, shown
