"""Ages, texts read and written by formats, bins and buckets, parts of arrays: PostgreSQL's answers, on every engine.

The expected values are those of PostgreSQL's documentation, or worked out by hand from what it says.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal as D
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.support import bag_of

SPARK_VARIANTS = ("spark forced",)

TABLE = """
CREATE TABLE one (i INT, d DECIMAL(12,2), x DOUBLE PRECISION, s VARCHAR, born DATE, at TIMESTAMP, a INT[],
                  words VARCHAR[], nothing INT, no_text VARCHAR, never DATE);
INSERT INTO one VALUES (1071, 5.35, 0.5, 'it''s\\ so', '1957-06-13', '2020-02-11 15:44:17.25', ARRAY[1, 4, NULL, 3],
                        ARRAY['x', NULL, 'z'], NULL, NULL, NULL)
"""


@pytest.fixture
def one(db: tm.Database) -> tm.Database:
    db.execute(TABLE)
    return db


def values(db: tm.Database, *expressions: str) -> tuple[Any, ...]:
    named = ", ".join(f"{expression} AS c{place}" for place, expression in enumerate(expressions))
    (row,) = db.query(f"SELECT {named} FROM one").to_pylist()
    return tuple(row.values())


def error_of(db: tm.Database, expression: str) -> tm.TidemarkError:
    with pytest.raises(tm.TidemarkError) as error:
        db.query(f"SELECT {expression} FROM one")
    return error.value


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def test_fields_of_an_age_are_its_months_days_and_time(one: tm.Database) -> None:
    age = "AGE(DATE '2001-04-10', born)"  # 43 years 9 mons 27 days, says PostgreSQL's documentation
    assert values(one, *(f"EXTRACT({unit} FROM {age})" for unit in ("YEAR", "MONTH", "DAY", "HOUR"))) == (43, 9, 27, 0)
    assert values(one, "EXTRACT(DAY FROM AGE(DATE '2004-06-01', DATE '2004-04-30'))") == (1,)  # April has 30 days
    assert values(one, f"EXTRACT(EPOCH FROM {age})") == (D("1382637600"),)
    assert values(one, "date_part('year', AGE(at, born))", "EXTRACT(SECOND FROM AGE(at, born))") == (62, D("17.25"))
    assert values(one, "EXTRACT(YEAR FROM AGE(born, at))", "EXTRACT(MINUTE FROM AGE(born, at))") == (-62, -44)
    assert values(one, "EXTRACT(YEAR FROM AGE(never, born))", "EXTRACT(DAY FROM AGE(born, '1957-06-01'))") == (None, 12)


def test_ages_are_compared_with_intervals_and_added_to_moments(one: tm.Database) -> None:
    assert values(
        one,
        "AGE(at, born) > INTERVAL '62 years'",
        "AGE(at, born) < INTERVAL '62 years'",
        "AGE(at, born) BETWEEN INTERVAL '62 years' AND INTERVAL '63 years'",
        "AGE(never, born) > INTERVAL '1 day'",
        "AGE(at, born) = AGE(at, born)",
    ) == (True, False, True, None, True)
    assert values(one, "born + AGE(at, born)", "at - AGE(at, at)") == (
        at("2020-02-10 15:44:17.25"),
        at("2020-02-11 15:44:17.25"),
    )
    assert values(one, "at + make_interval(days => 3, hours => 2)", "at - make_interval(0, 1, 1)") == (
        at("2020-02-14 17:44:17.25"),
        at("2020-01-04 15:44:17.25"),
    )


def test_an_age_alone_is_refused_because_there_is_no_type_of_intervals(one: tm.Database) -> None:
    error = error_of(one, "AGE(at, born)")
    assert error.code == "unsupported"
    assert "EXTRACT(YEAR FROM AGE(a, b))" in (error.hint or "")
    assert error_of(one, "EXTRACT(century FROM AGE(at, born))").code == "unsupported"


moments = st.datetimes(dt.datetime(1890, 1, 1), dt.datetime(2110, 1, 1))


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(moments, moments), min_size=1, max_size=20))
def test_ages_are_those_that_duckdb_gives(pairs: list[tuple[dt.datetime, dt.datetime]]) -> None:
    units = ("year", "month", "day", "hour", "minute")
    ours = ", ".join(f"EXTRACT({unit} FROM AGE(a, b)) AS {unit}s" for unit in units)
    with tm.connect("reference") as db, duckdb.connect() as oracle:
        db.execute("CREATE TABLE t (a TIMESTAMP, b TIMESTAMP)")
        with db.transaction() as tx:
            tx.insert("t", pairs)
        oracle.execute("CREATE TABLE t (a TIMESTAMP, b TIMESTAMP)")
        oracle.executemany("INSERT INTO t VALUES (?, ?)", pairs)
        query = f"SELECT a, b, {ours} FROM t"
        expected = oracle.execute(query).fetchall()
        assert bag_of(db.query(query)) == Counter(expected)


def test_texts_are_read_as_days_and_moments_by_a_format(one: tm.Database) -> None:
    assert values(
        one,
        "to_date('05 Dec 2000', 'DD Mon YYYY')",
        "to_date('20240131', 'YYYYMMDD')",
        "to_date(' 5/6/99 ', 'MM/DD/YY')",
        "to_date('2024-05', 'YYYY-MM')",
        "to_date(no_text, 'YYYY-MM-DD')",
    ) == (dt.date(2000, 12, 5), dt.date(2024, 1, 31), dt.date(1999, 5, 6), dt.date(2024, 5, 1), None)
    assert values(
        one,
        "to_timestamp('2024-01-02 03:04:05.6 pm', 'YYYY-MM-DD HH12:MI:SS.MS AM')",
        "to_timestamp('december 5, 2000 23:59', 'Month DD, YYYY HH24:MI')",
        "to_timestamp('2000-06-30T12 AM', 'YYYY-MM-DD\"T\"HH AM')",
        "to_timestamp(1284352323.5)",
        "to_timestamp(-1)",
    ) == (
        at("2024-01-02 15:04:05.6"),
        at("2000-12-05 23:59"),
        at("2000-06-30"),
        at("2010-09-13 04:32:03.5"),
        at("1969-12-31 23:59:59"),
    )
    for wrong in ("to_date(s, 'YYYY-MM-DD')", "to_date('2024-02-30', 'YYYY-MM-DD')", "to_date('24-1-1', 'YYYY-MM-DD')"):
        assert error_of(one, wrong).code == "invalid_value"
    for refused in ("to_date(s, 'DD Mon')", "to_date(s, s)", "to_timestamp(x)", "to_date(s, 'YYYY J')"):
        assert error_of(one, refused).code in ("unsupported", "type"), refused


NUMBERS = [
    # PostgreSQL's documentation of to_char
    ("-0.1", "99.99", "  -.10"),
    ("-0.1", "FM99.99", "-.1"),
    ("0.1", "0.9", " 0.1"),
    ("12", "9990999.9", "    0012.0"),
    ("12", "FM9990999.9", "0012."),
    ("485", "999", " 485"),
    ("-485", "999", "-485"),
    ("1485", "9,999", " 1,485"),
    ("1485", "9G999", " 1,485"),
    ("148.5", "999.999", " 148.500"),
    ("148.5", "FM999.999", "148.5"),
    ("148.5", "FM999.990", "148.500"),
    ("148.5", "999D999", " 148.500"),
    ("3148.5", "9G999D999", " 3,148.500"),
    # by hand
    ("-485", "9,999", "  -485"),
    ("1234", "999", " ###"),
    ("0", "FM999", "0"),
    ("0", "99.99", "   .00"),
    ("1234567.895", "FM9,999,999.00", "1,234,567.90"),
    ("-0.0001", "0.00", " 0.00"),
    ("5", "000", " 005"),
]


def test_numbers_are_written_by_a_format(db: tm.Database) -> None:
    db.execute("CREATE TABLE n (k INT, x DECIMAL(16,4))")
    with db.transaction() as tx:
        tx.insert("n", [(place, D(number)) for place, (number, _, _) in enumerate(NUMBERS)])
    branches = " ".join(f"WHEN {place} THEN to_char(x, '{format}')" for place, (_, format, _) in enumerate(NUMBERS))
    written = db.query(f"SELECT k, CASE k {branches} END AS text FROM n ORDER BY k")["text"].to_pylist()
    assert written == [expected for _, _, expected in NUMBERS]


def test_formats_and_quotes_of_text(one: tm.Database) -> None:
    assert values(
        one,
        "format('Hello %s, %1$s %%', 'World')",
        "format('|%10s|%-10s|%s|', 'foo', i, no_text)",
        "format('x = %L AND y = %L', s, no_text)",
        "quote_literal(s)",
        "quote_literal(42.5)",
        "quote_literal(no_text)",
        "quote_nullable(no_text)",
    ) == (
        "Hello World, World %",
        "|       foo|1071      ||",
        "x = E'it''s\\\\ so' AND y = NULL",
        "E'it''s\\\\ so'",
        "'42.5'",
        None,
        "NULL",
    )
    for refused in ("format('%I', s)", "quote_ident(s)", "format('%d', i)", "format(s, i)"):
        assert error_of(one, refused).code == "unsupported"


def test_bins_and_buckets(one: tm.Database) -> None:
    assert values(
        one,
        "date_bin('15 minutes', at, TIMESTAMP '2001-01-01')",
        "date_bin(INTERVAL '15 minutes', at, TIMESTAMP '2001-01-01 00:02:30')",
        "date_bin('7 days', at, '2020-02-12')",
        "date_bin('1 day', never, (at))",
    ) == (at("2020-02-11 15:30"), at("2020-02-11 15:32:30"), at("2020-02-05"), None)
    assert error_of(one, "date_bin('1 month', at, TIMESTAMP '2001-01-01')").code == "unsupported"
    assert "parentheses" in (error_of(one, "date_bin('1 day', at, born)").hint or "")
    assert error_of(one, "date_bin('0 days', at, TIMESTAMP '2001-01-01')").code == "invalid_value"
    assert values(
        one, "width_bucket(d, 0.024, 10.06, 5)", "width_bucket(x, 0, 1, 4)", "width_bucket(i, 2000, 1000, 10)"
    ) == (3, 3, 10)
    assert values(one, "width_bucket(nothing, 1, 1, 0)", "gcd(i, 462)", "lcm(i, 462)", "to_hex(-i)") == (
        (None, 21, 23562, "fffffbd1")
    )
    assert values(one, "make_timestamp(2013, 7, 15, 8, 15, 23.5)") == (at("2013-07-15 08:15:23.5"),)
    assert error_of(one, "make_timestamp(2013, 7, 15, 24, 15, 23.5)").code == "invalid_value"


def test_parts_of_arrays_and_of_patterns(one: tm.Database) -> None:
    assert values(one, "a[2:3]", "a[:2]", "a[3:]", "a[3:1]", "a[0:nothing]") == (
        [4, None],
        [1, 4],
        [None, 3],
        [],
        None,
    )
    assert values(one, "a @> ARRAY[3, 1, 3]", "ARRAY[2] <@ a", "a && ARRAY[2, 4]") == (True, False, True)
    assert values(one, "array_remove(a, NULL)", "array_replace(a, 4, 9)", "array_remove(a, 4)") == (
        [1, 4, 3],
        [1, 9, None, 3],
        [1, None, 3],
    )
    assert values(one, "array_to_string(a, ',', '*')", "array_to_string(words, '-')", "array_upper(a, 1)") == (
        "1,4,*,3",
        "x-z",
        4,
    )
    assert values(one, "string_to_array('xx~~yy~~zz', '~~', 'yy')", "array_lower(a, 1)", "array_ndims(a)") == (
        ["xx", None, "zz"],
        1,
        1,
    )
    assert values(
        one,
        "regexp_match('foobarbequebaz', '(bar)(beque)')",
        "(regexp_match('foobarbequebaz', 'BAR.*que', 'i'))[1]",
        "regexp_match(s, 'none')",
        "regexp_split_to_array('hello   world', '\\s+')",
    ) == (["bar", "beque"], "barbeque", None, ["hello", "world"])
    assert values(
        one, "num_nulls(i, nothing, s)", "num_nonnulls(i, nothing, s)", "isfinite(at)", "isfinite(never)"
    ) == ((1, 2, True, None))


def test_a_view_of_these_functions_follows_its_table(db: tm.Database) -> None:
    db.execute(
        """
        CREATE TABLE person (id INT PRIMARY KEY, born VARCHAR, seen TIMESTAMP);
        CREATE MATERIALIZED VIEW v AS
            SELECT EXTRACT(YEAR FROM AGE(seen, to_date(born, 'DD.MM.YYYY'))) AS years,
                   date_bin('1 hour', seen, TIMESTAMP '2000-01-01') AS hour, COUNT(*) AS n
            FROM person WHERE AGE(seen, to_date(born, 'DD.MM.YYYY')) >= INTERVAL '18 years' GROUP BY 1, 2;
        INSERT INTO person VALUES (1, '1.2.2000', '2024-01-31 10:20:00'), (2, '01.02.2000', '2024-01-31 10:59:59'),
                                  (3, '31.1.2006', '2024-01-31 10:00:00'), (4, '2.2.2006', '2024-01-31 10:00:00')
        """
    )
    hour = at("2024-01-31 10:00")
    assert bag_of(db.query("SELECT * FROM v")) == Counter([(23, hour, 2), (18, hour, 1)])
    db.execute(
        "UPDATE person SET seen = seen + make_interval(days => 2) WHERE id IN (1, 4); DELETE FROM person WHERE id = 3"
    )
    later = at("2024-02-02 10:00")
    assert bag_of(db.query("SELECT * FROM v")) == Counter([(23, hour, 1), (24, later, 1), (18, later, 1)])
    assert db.audit("v").num_rows == 0
    with pytest.raises(tm.TidemarkError) as error:
        db.execute("INSERT INTO person VALUES (5, 'yesterday', '2024-01-31 10:00:00')")
    assert error.value.code == "invalid_value"
    assert bag_of(db.query("SELECT * FROM v")) == Counter([(23, hour, 1), (24, later, 1), (18, later, 1)])
