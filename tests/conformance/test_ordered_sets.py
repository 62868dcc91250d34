"""Percentiles, the median and the mode, on every engine: PostgreSQL's answers, written by hand."""

from __future__ import annotations

import pytest

import tidemark as tm
from tests.support import changes_at, rows

SPARK_VARIANTS = ("spark forced",)


def test_the_place_of_a_percentile_is_that_of_postgresql(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (x INT); INSERT INTO t VALUES (10), (20), (20), (40), (70), (NULL)")
    fractions = ("0", "0.2", "0.21", "0.5", "0.9", "1")
    discrete = ", ".join(f"PERCENTILE_DISC({f}) WITHIN GROUP (ORDER BY x) AS d{i}" for i, f in enumerate(fractions))
    turned = ", ".join(f"PERCENTILE_DISC({f}) WITHIN GROUP (ORDER BY x DESC) AS d{i}" for i, f in enumerate(fractions))
    continuous = ", ".join(f"PERCENTILE_CONT({f}) WITHIN GROUP (ORDER BY x) AS d{i}" for i, f in enumerate(fractions))
    assert rows(db.query(f"SELECT {discrete} FROM t")) == [(10, 10, 20, 20, 70, 70)]
    assert rows(db.query(f"SELECT {turned} FROM t")) == [(70, 70, 40, 20, 10, 10)]
    assert rows(db.query(f"SELECT {continuous} FROM t")) == [(10.0, 18.0, 18.4, 20.0, 58.0, 70.0)]


def test_the_bits_of_a_continuous_percentile_are_the_same_everywhere(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (f DOUBLE PRECISION, d DECIMAL(4,2))")
    db.execute("INSERT INTO t VALUES (0.1, 0.1), (0.7, 0.7), (1.1, 1.1), (3e300, 2.3)")
    query = (
        "SELECT PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY f) AS a,"
        " PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY f DESC) AS b,"
        " PERCENTILE_CONT(0.35) WITHIN GROUP (ORDER BY d) AS c, MEDIAN(d) AS e FROM t"
    )
    low, high, step = 0.1, 0.7, 0.1 * 3
    turned = 0.9 * 3 - 2
    expected = (low + step * (high - low), high + turned * (low - high), 0.7 + (0.35 * 3 - 1) * (1.1 - 0.7), 0.9)
    assert rows(db.query(query)) == [expected]


def test_a_view_keeps_the_percentiles_and_the_mode_of_the_groups_that_are_touched(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, x INT, s VARCHAR)")
    db.execute(
        "CREATE MATERIALIZED VIEW v WITH (strategy = 'incremental') AS SELECT k, MEDIAN(x) AS m,"
        " PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY s) FILTER (WHERE x > 0) AS d,"
        " MODE() WITHIN GROUP (ORDER BY s) AS o, MODE() WITHIN GROUP (ORDER BY s DESC) AS p FROM t GROUP BY k;"
        "CREATE MATERIALIZED VIEW w AS SELECT MEDIAN(x) AS m, MODE() WITHIN GROUP (ORDER BY s) AS o FROM t"
    )
    assert rows(db.query("SELECT * FROM w")) == [(None, None)]
    db.execute("INSERT INTO t VALUES (1, 1, 'b'), (1, 2, 'a'), (2, NULL, NULL), (NULL, -7, 'ä'), (NULL, -7, 'z')")
    assert changes_at(db, "v") == {
        (1, 1.5, "a", "a", "b"): 1,
        (2, None, None, None, None): 1,
        (None, -7.0, None, "z", "ä"): 1,
    }
    db.execute("INSERT INTO t VALUES (1, 9, 'b'), (1, 9, 'b')")
    assert changes_at(db, "v") == {(1, 1.5, "a", "a", "b"): -1, (1, 5.5, "b", "b", "b"): 1}
    assert changes_at(db, "w") == {(-3.0, "a"): -1, (1.5, "b"): 1}
    with db.transaction() as tx:
        tx.execute("DELETE FROM t WHERE k = 2")
        tx.execute("UPDATE t SET s = 'a' WHERE x = 1")
    assert changes_at(db, "v") == {
        (2, None, None, None, None): -1,
        (1, 5.5, "b", "b", "b"): -1,
        (1, 5.5, "a", "a", "b"): 1,
    }
    db.execute("DELETE FROM t")
    assert rows(db.query("SELECT * FROM w")) == [(None, None)] and rows(db.query("SELECT * FROM v")) == []


def test_values_of_every_type(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (b BOOLEAN, i BIGINT, d DECIMAL(5,2), f DOUBLE PRECISION, e DATE, m TIMESTAMP)")
    db.execute(
        "INSERT INTO t VALUES (TRUE, 5000000000, 1.50, 'NaN', '2024-02-29', '2024-01-01 01:02:03.000004'),"
        " (FALSE, 1, 2, 'NaN', '2024-02-29', NULL), (TRUE, 1, 2, -0.0, '2023-01-01', NULL),"
        " (TRUE, 7, 3, 0.0, NULL, NULL)"
    )
    modes = ", ".join(f"MODE() WITHIN GROUP (ORDER BY {name}) AS {name}" for name in "bidfem")
    lasts = ", ".join(f"PERCENTILE_DISC(0.75) WITHIN GROUP (ORDER BY {name}) AS {name}" for name in "bidfem")
    [mode], [last] = (db.query(f"SELECT {calls} FROM t").to_pylist() for calls in (modes, lasts))
    moment = "2024-01-01 01:02:03.000004"
    assert [str(value) for value in mode.values()] == ["True", "1", "2.00", "0.0", "2024-02-29", moment]
    assert [str(value) for value in last.values()] == ["True", "7", "2.00", "nan", "2024-02-29", moment]


def test_an_approximate_value_has_no_mode(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (k INT, f DOUBLE PRECISION); INSERT INTO t VALUES (1, 0.5), (1, 0.25), (2, 1)")
    sums = "(SELECT k, SUM(f) AS f FROM t GROUP BY k) AS q"
    with pytest.raises(tm.TidemarkError, match="MODE"):
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT MODE() WITHIN GROUP (ORDER BY f) AS m FROM {sums}")
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT MEDIAN(f) AS m FROM {sums}")
    assert rows(db.query("SELECT * FROM v")) == [(0.875,)]


def test_what_they_do_not_take(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (x INT, s VARCHAR, a INT[])")
    for text, code in {
        "PERCENTILE_CONT(1.5) WITHIN GROUP (ORDER BY x)": "type",
        "PERCENTILE_CONT(x) WITHIN GROUP (ORDER BY x)": "unsupported",
        "PERCENTILE_CONT(NULL) WITHIN GROUP (ORDER BY x)": "unsupported",
        "PERCENTILE_CONT(ARRAY[0.5]) WITHIN GROUP (ORDER BY x)": "unsupported",
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY s)": "type",
        "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x, s)": "type",
        "PERCENTILE_DISC(0.5)": "unsupported",
        "MODE() WITHIN GROUP (ORDER BY a)": "ordering",
        "MODE() WITHIN GROUP (ORDER BY SUM(x))": "grouping",
        "RANK(1) WITHIN GROUP (ORDER BY x)": "unsupported",
        "MEDIAN(s)": "type",
        "MEDIAN(DISTINCT x)": "unsupported",
        "MEDIAN(x) OVER ()": "unsupported",
    }.items():
        with pytest.raises(tm.TidemarkError) as error:
            db.query(f"SELECT {text} FROM t")
        assert error.value.code == code, text
