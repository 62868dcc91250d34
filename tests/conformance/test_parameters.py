"""Parameters: one means what the same value means that is written there, and goes into a column whole or not at all."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)

TABLE = """
CREATE TABLE t (k INT PRIMARY KEY, n INT, small SMALLINT, long BIGINT, money DECIMAL(6,2), r DOUBLE, word VARCHAR,
    day DATE, moment TIMESTAMP, flag BOOLEAN, list INT[], pair STRUCT(a INT, b VARCHAR));
CREATE MATERIALIZED VIEW v AS SELECT flag, COUNT(*) AS c, SUM(n) AS s FROM t WHERE n > 1 GROUP BY flag;
"""
DAY, MOMENT = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 10, 11, 12, 123456)
BERLIN = dt.timezone(dt.timedelta(hours=2))

TAKEN: list[tuple[str, Any, Any]] = [
    ("n", 7, 7),
    ("n", -(2**31), -(2**31)),
    ("n", 2.0, 2),
    ("n", Decimal("2.00"), 2),
    ("n", None, None),
    ("small", 32767, 32767),
    ("long", 2**63 - 1, 2**63 - 1),
    ("money", 1.25, Decimal("1.25")),
    ("money", 0.1, Decimal("0.10")),
    ("money", Decimal("-0.5"), Decimal("-0.50")),
    ("money", 12, Decimal("12.00")),
    ("r", 1.5, 1.5),
    ("r", float("inf"), float("inf")),
    ("r", 3, 3.0),
    ("r", Decimal("0.1"), 0.1),
    ("word", "it's -- 'so' $1 ? :x", "it's -- 'so' $1 ? :x"),
    ("word", "", ""),
    ("word", "\\x ü 😀\n", "\\x ü 😀\n"),
    ("day", DAY, DAY),
    ("day", "2024-02-29", DAY),
    ("moment", MOMENT, MOMENT),
    ("moment", DAY, dt.datetime(2024, 2, 29)),
    ("moment", "2024-02-29T10:11:12", dt.datetime(2024, 2, 29, 10, 11, 12)),
    ("moment", MOMENT.replace(tzinfo=BERLIN), MOMENT.replace(hour=8)),
    ("flag", True, True),
    ("flag", None, None),
    ("list", [1, None, 3], [1, None, 3]),
    ("list", [], []),
    ("pair", {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
    ("pair", (1, None), {"a": 1, "b": None}),
]


@pytest.fixture
def table(db: tm.Database) -> tm.Database:
    db.execute(TABLE)
    return db


def test_values_are_stored_whole(table: tm.Database) -> None:
    """By INSERT, by UPDATE and by many rows at once alike."""
    for number, (column, value, stored) in enumerate(TAKEN):
        table.execute(f"INSERT INTO t (k, {column}) VALUES (?, ?)", [number, value])
        assert table.query(f"SELECT {column} AS x FROM t WHERE k = $1", [number]).to_pylist() == [{"x": stored}]
        table.execute(f"UPDATE t SET {column} = NULL WHERE k = :k", {"k": number})
        table.execute(f"UPDATE t SET {column} = :x WHERE k = :k", {"k": number, "x": value})
        assert table.query(f"SELECT {column} AS x FROM t WHERE k = ?", (number,)).to_pylist() == [{"x": stored}]
        table.executemany(f"INSERT INTO t (k, {column}) VALUES (?, ?)", [(number + 100, value)])
        assert table.query(f"SELECT {column} AS x FROM t WHERE k = ?", (number + 100,)).to_pylist() == [{"x": stored}]


MANY = 70
"""More rows than are taken one by one."""


def test_values_of_many_rows_are_stored_as_those_of_few(table: tm.Database) -> None:
    columns = list(dict.fromkeys(column for column, _, _ in TAKEN))
    for number, name in enumerate(columns):
        found = [(value, stored) for column, value, stored in TAKEN if column == name]
        values = [found[place % len(found)] for place in range(MANY)]
        first = number * MANY
        table.executemany(
            f"INSERT INTO t (k, {name}) VALUES (?, ?)", [(first + i, value) for i, (value, _) in enumerate(values)]
        )
        kept = table.query(f"SELECT {name} AS x FROM t WHERE k >= ? AND k < ? ORDER BY k", [first, first + MANY])
        assert kept.column("x").to_pylist() == [stored for _, stored in values], name
    assert table.audit("v").num_rows == 0


UNFIT: list[tuple[str, Any]] = [
    *(
        ("n", value)
        for value in (1.5, Decimal("1.5"), 2**31, "1", True, b"1", DAY, [1], {"a": 1}, object(), float("nan"))
    ),
    *(("money", value) for value in (1.255, 10_000, "1", Decimal("NaN"))),
    *(("word", value) for value in (1, DAY, "\ud800", b"x")),
    *(("day", value) for value in (MOMENT, "29.2.2024", 1)),
    *(("moment", value) for value in ("2024-02-29T10:11:12.123456789", dt.time(1), dt.timedelta(1))),
    *(("flag", value) for value in (1, "true")),
    *(("list", value) for value in ([1.5], "1", 1, {"a": 1})),
    *(("pair", value) for value in ({"a": 1}, (1,), [1, "x"], 1)),
]


def test_what_does_not_fit_is_refused_before_anything_runs(table: tm.Database) -> None:
    table.execute("INSERT INTO t (k, n) VALUES (1, 1)")
    before = table.version
    for column, value in UNFIT:
        attempts: tuple[Callable[[], object], ...] = (
            lambda: table.execute(f"INSERT INTO t (k, {column}) VALUES (2, ?)", [value]),  # noqa: B023
            lambda: table.execute(f"UPDATE t SET {column} = ? WHERE k = 1", [value]),  # noqa: B023
            lambda: table.executemany(f"INSERT INTO t (k, {column}) VALUES (3, ?)", [(None,), (value,)]),  # noqa: B023
            lambda: table.executemany(
                f"INSERT INTO t (k, {column}) VALUES (3, ?)",  # noqa: B023
                [(None,)] * MANY + [(value,)],  # noqa: B023
            ),
        )
        for attempt in attempts:
            with pytest.raises(tm.TidemarkError) as caught:
                attempt()
            assert caught.value.code == "type", (column, value)
    assert table.version == before
    assert rows(table.query("SELECT k, n FROM t")) == [(1, 1)]


WRONG: list[tuple[str, Any, str]] = [
    ("SELECT k FROM t WHERE k = ?", [], "parameter"),
    ("SELECT k FROM t WHERE k = ?", [1, 2], "parameter"),
    ("SELECT k FROM t WHERE k = ?", {"k": 1}, "parameter"),
    ("SELECT k FROM t WHERE k = ?", "1", "parameter"),
    ("SELECT k FROM t WHERE k = ?", 1, "parameter"),
    ("SELECT k FROM t WHERE k = $1 AND n = $2", [1], "parameter"),
    ("SELECT k FROM t WHERE k = $2", [1, 2], "parameter"),
    ("SELECT k FROM t WHERE k = $0", [1], "parameter"),
    ("SELECT k FROM t WHERE k = :k", {}, "parameter"),
    ("SELECT k FROM t WHERE k = :k", {"n": 1}, "parameter"),
    ("SELECT k FROM t WHERE k = :k", {"k": 1, "n": 1}, "parameter"),
    ("SELECT k FROM t WHERE k = :k", [1], "parameter"),
    ("SELECT k FROM t WHERE k = ? AND n = $1", [1, 1], "parameter"),
    ("SELECT k FROM t WHERE k = ? AND n = :n", {"n": 1}, "parameter"),
    ("SELECT k FROM t", [1], "parameter"),
    ("SELECT k FROM t; SELECT ?", [1], "parameter"),
    ("CREATE TABLE u (a INT DEFAULT ?)", [1], "parameter"),
    ("CREATE MATERIALIZED VIEW w AS SELECT k FROM t WHERE k = ?", [1], "parameter"),
    ("SHOW TABLES", [1], "parameter"),
    ("SELECT k FROM t WHERE k = ?", None, "parameter"),
    ("SELECT k FROM t WHERE k = ?", ["1"], "type"),
    ("SELECT k FROM t WHERE k = ?", ["x"], "type"),
    ("SELECT k FROM t WHERE k = ?", [True], "type"),
    ("SELECT k FROM t WHERE day = ?", ["today"], "type"),
    ("SELECT k FROM t WHERE word = ?", [1], "type"),
    ("SELECT nothing FROM t WHERE k = ?", [1], "unknown_column"),
    ("SELECT k FROM t LIMIT ?", ["many"], "unsupported"),
    ("SELEKT ?", [1], "syntax"),
]


@pytest.mark.parametrize(("text", "params", "code"), WRONG)
def test_wrong_calls_are_errors(text: str, params: Any, code: str) -> None:
    with tm.connect("reference") as db:
        db.execute(TABLE)
        before = db.version
        for call in (db.execute, db.query):
            with pytest.raises(tm.TidemarkError) as caught:
                call(text, params)
            assert caught.value.code == code or (call == db.query and caught.value.code == "syntax"), caught.value
        assert db.version == before


def test_a_parameter_means_what_is_written_there(table: tm.Database) -> None:
    table.executemany(
        "INSERT INTO t (k, n, money, word, day, moment, flag) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (i, i % 4 or None, Decimal(i) / 2, f"it's {i % 3}", DAY + dt.timedelta(i), MOMENT, i % 2 == 0)
            for i in range(12)
        ],
    )
    for condition, value, written in [
        ("n = ?", 2, "2"),
        ("n > ?", 1.5, "1.5"),
        ("n = ?", 5_000_000_000, "5000000000"),
        ("n < ?", 10**30, "1" + "0" * 30),
        ("n IN (?, 1)", 3, "3"),
        ("n IS DISTINCT FROM ?", None, "NULL"),
        ("n = ?", None, "NULL"),
        ("money = ?", Decimal("1.50"), "1.50"),
        ("money >= ?", 2, "2"),
        ("money BETWEEN 1 AND ?", Decimal("3.333"), "3.333"),
        ("word = ?", "it's 1", "'it''s 1'"),
        ("word LIKE ?", "%1", "'%1'"),
        ("word || ? = 'it''s 1!'", "!", "'!'"),
        ("day > ?", DAY + dt.timedelta(4), "DATE '2024-03-04'"),
        ("day > ?", "2024-03-04", "'2024-03-04'"),
        ("day > ?", dt.datetime(2024, 3, 4), "TIMESTAMP '2024-03-04 00:00:00'"),
        ("moment = ?", MOMENT, "TIMESTAMP '2024-02-29 10:11:12.123456'"),
        ("flag = ?", True, "TRUE"),
        ("k / ? > 1", 4, "4"),
        ("-? < -k", 4, "4"),
        ("k = ?::int + 1", 4, "4"),
        ("CASE WHEN n > ? THEN 1 ELSE 0 END = 1", 2, "2"),
        ("EXISTS (SELECT 1 FROM t AS u WHERE u.k = t.k + ?)", 3, "3"),
        ("TRUE ORDER BY k LIMIT ?", 2, "2"),
        ("TRUE ORDER BY k DESC OFFSET ?", 3, "3"),
    ]:
        text = f"SELECT k FROM t WHERE {condition}"
        expected = table.query(text.replace("?", written)).to_pylist()
        for asked, params in (
            (text, [value]),
            (text.replace("?", "$1"), (value,)),
            (text.replace("?", ":one"), {"one": value}),
        ):
            for _ in range(2):
                found = table.query(asked, params).to_pylist()
                assert sorted(map(str, found)) == sorted(map(str, expected)), (condition, value)


def test_a_parameter_may_stand_in_several_places(table: tm.Database) -> None:
    table.execute("INSERT INTO t (k, n) VALUES ($2, $1), ($1, $2)", [7, 8])
    assert rows(table.query("SELECT k, n FROM t")) == [(7, 8), (8, 7)]
    found = table.query("SELECT n + :x AS y, COUNT(*) AS c FROM t GROUP BY n + :x HAVING n + :x > 15", {"x": 8})
    assert rows(found) == [(16, 1)] == [row for row in rows(table.query("SELECT n + 8, 1 FROM t")) if row[0] > 15]


def test_what_only_looks_like_a_parameter_is_none(table: tm.Database) -> None:
    text = """SELECT '?' AS a, E'\\'?' AS b, $x$ ? :y $1 $x$ AS c, "k" AS "d?" /* ? :z */ FROM t -- ? $1
        WHERE k = ? AND word::text <> ':x'"""
    table.execute("INSERT INTO t (k, word) VALUES (?, ':y')", [1])
    assert table.query(text, [1]).to_pylist() == [{"a": "?", "b": "'?", "c": " ? :y $1 ", "d?": 1}]


def test_many_rows_are_one_version(table: tm.Database) -> None:
    before = table.version
    table.executemany("INSERT INTO t (k, n, word) VALUES (?, ?, 'x')", ((i, i) for i in range(50)))
    assert table.version == before + 1
    table.executemany("UPDATE t SET n = n + :by WHERE k = :k", [{"k": i, "by": i % 3} for i in range(50)])
    table.executemany("DELETE FROM t WHERE k = $1", [(i,) for i in range(0, 50, 2)])
    assert table.version == before + 3
    assert rows(table.query("SELECT k, n FROM t")) == [(i, i + i % 3) for i in range(1, 50, 2)]
    nothings: list[Iterable[Any]] = [[], (), iter(())]
    for nothing in nothings:
        table.executemany("INSERT INTO t (k) VALUES (?)", nothing)
    assert table.version == before + 3


def test_many_rows_are_applied_in_order(table: tm.Database) -> None:
    table.executemany("INSERT INTO t (k, n) VALUES (?, ?)", [(1, 1), (2, 2)])
    table.executemany("UPDATE t SET n = n * ? + ? WHERE k = ?", [(2, 1, 1), (3, 0, 1), (1, 5, 1), (2, 0, 2)])
    assert rows(table.query("SELECT k, n FROM t")) == [(1, 14), (2, 4)]
    table.executemany("UPDATE t SET k = ? WHERE k = ?", [(3, 1), (1, 2), (2, 3)])
    assert rows(table.query("SELECT k, n FROM t")) == [(1, 4), (2, 14)]


def test_many_rows_are_all_there_or_none(table: tm.Database) -> None:
    table.execute("INSERT INTO t (k, n) VALUES (5, 5)")
    before = table.version
    cases: list[tuple[str, list[tuple[Any, ...]]]] = [
        ("INSERT INTO t (k, n) VALUES (?, 1)", [(1,), (2,), (1,)]),
        ("INSERT INTO t (k, n) VALUES (?, ?)", [(1, 1), (2, 1.5)]),
        ("INSERT INTO t (k, n) VALUES (?, ?)", [(1, 1), (2,)]),
        ("UPDATE t SET n = 1 / ? WHERE k = 5", [(1,), (0,)]),
        ("DELETE FROM t WHERE k = ?", [(5,), ("x",)]),
    ]
    for text, many in cases:
        with pytest.raises(tm.TidemarkError):
            table.executemany(text, many)
        assert table.version == before
        assert rows(table.query("SELECT k, n FROM t")) == [(5, 5)]


def test_what_a_generator_of_rows_raises_passes(table: tm.Database) -> None:
    def broken() -> Iterator[tuple[int]]:
        yield (1,)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        table.executemany("INSERT INTO t (k) VALUES (?)", broken())
    assert rows(table.query("SELECT k FROM t")) == []


@pytest.mark.parametrize(
    ("text", "many", "code"),
    [
        ("SELECT ?", [(1,)], "parameter"),
        ("SELECT 1", [], "parameter"),
        ("CREATE TABLE u (a INT)", [()], "parameter"),
        ("INSERT INTO t (k) VALUES (?)", "ab", "parameter"),
        ("INSERT INTO t (k) VALUES (?)", 3, "parameter"),
        ("INSERT INTO t (k) VALUES (?)", [3], "parameter"),
        ("INSERT INTO t (k) VALUES (:k)", [{"k": 1}, {"l": 1}], "parameter"),
        ("INSERT INTO t (k) VALUES (?); DELETE FROM t", [(1,)], "parameter"),
    ],
)
def test_wrong_calls_with_many_rows_are_errors(text: str, many: Any, code: str) -> None:
    with tm.connect("reference") as db:
        db.execute(TABLE)
        before = db.version
        with pytest.raises(tm.TidemarkError) as caught:
            db.executemany(text, many)
        assert (caught.value.code, db.version) == (code, before)


def test_in_a_transaction_parameters_see_its_changes_and_an_error_dooms_it(table: tm.Database) -> None:
    with table.transaction() as tx:
        tx.execute("INSERT INTO t (k, n) VALUES (?, ?)", [1, 10])
        tx.executemany("INSERT INTO t (k, n) VALUES (:k, :n)", [{"k": 2, "n": 20}, {"k": 3, "n": 30}])
        tx.execute("UPDATE t SET n = n + ? WHERE k = ?", [1, 2])
        tx.execute("DELETE FROM t WHERE k = ?", [1])
        assert rows(tx.query("SELECT k, n FROM t WHERE n > ?", [5])) == [(2, 21), (3, 30)]
        assert rows(tx.query("SELECT s FROM v WHERE c = ?", [2])) == [(51,)]
    table.execute("BEGIN")
    table.execute("UPDATE t SET n = ? WHERE k = ?", [0, 2])
    assert rows(table.query("SELECT k FROM t WHERE n = ?", [0])) == [(2,)]
    with pytest.raises(tm.TidemarkError):
        table.execute("UPDATE t SET n = ? WHERE k = ?", [0])
    with pytest.raises(tm.TidemarkError, match="doomed"):
        table.execute("COMMIT")
    assert rows(table.query("SELECT k, n FROM t")) == [(2, 21), (3, 30)]


def test_definitions_that_change_are_seen(table: tm.Database) -> None:
    text = "INSERT INTO t (k, n) VALUES (?, ?)"
    for i in range(3):
        table.execute(text, [i, i])
    table.execute("ALTER TABLE t ADD COLUMN more INT DEFAULT 9")
    table.execute(text, [3, 3])
    assert rows(table.query("SELECT k, more FROM t WHERE k = ?", [3])) == [(3, 9)]
    table.execute("DROP MATERIALIZED VIEW v")
    table.execute("DROP TABLE t")
    with pytest.raises(tm.TidemarkError, match="unknown_relation"):
        table.execute(text, [4, 4])
    table.execute("CREATE TABLE t (k VARCHAR, n DECIMAL(3,1))")
    table.execute(text, ["a", 1.5])
    assert rows(table.query("SELECT k, n FROM t")) == [("a", Decimal("1.5"))]


def test_a_type_is_what_is_written_whatever_else_the_text_says(table: tm.Database) -> None:
    """Constants of a text stand for others of its shape, but those of a type do not, even where they have a number that
    a parameter has."""
    table.execute("INSERT INTO t (k, money, word) VALUES (1, 1.25, 's1_ab')")
    for scale in (1, 1, 2):
        text = f"SELECT k, CAST(money AS DECIMAL(12,{scale})) AS d FROM t WHERE k = 1"
        assert rows(table.query(text)) == [(1, Decimal("1.3") if scale == 1 else Decimal("1.25"))]
        cut = f"SELECT 7 AS z, CAST(word AS VARCHAR({scale * 2 - 1})) AS w FROM t"
        assert rows(table.query(cut)) == [(7, "s1_ab"[: scale * 2 - 1])]
    for key in (1, 1):
        table.execute(f"UPDATE t SET money = CAST(money AS DECIMAL(12,1)) WHERE k = {key}")
    table.execute("UPDATE t SET money = 1.25 WHERE k = 1")
    table.execute("UPDATE t SET money = CAST(money AS DECIMAL(12,2)) WHERE k = 1")
    assert rows(table.query("SELECT money FROM t")) == [(Decimal("1.25"),)]
    assert rows(table.query("SELECT 7 + ? AS z, CAST(word AS VARCHAR(?)) AS w FROM t", [1, 4])) == [(8, "s1_a")]
    assert rows(table.query("SELECT CAST(money AS DECIMAL(12,?)) AS d FROM t", [1])) == [(Decimal("1.3"),)]


def test_not_a_number_is_one_value_wherever_it_comes_from(table: tm.Database) -> None:
    """Python has many of them, of which each equals none."""
    table.execute("CREATE MATERIALIZED VIEW distinct_r AS SELECT DISTINCT r FROM t")
    table.execute("CREATE MATERIALIZED VIEW by_r AS SELECT r, COUNT(*) AS c FROM t GROUP BY r")
    table.execute("CREATE MATERIALIZED VIEW alike AS SELECT a.k, b.k AS other FROM t a JOIN t b ON a.r = b.r")
    table.execute("INSERT INTO t (k, r) VALUES (1, 1.0), (2, ?)", [float("nan")])
    for base in (2, 4):
        table.execute("INSERT INTO t (k, r) SELECT k + ?, ? FROM t", [base, float("nan")])
    table.insert("t", [dict.fromkeys(table.query("SELECT * FROM t").column_names) | {"k": 9, "r": float("nan")}])
    table.execute("UPDATE t SET r = CASE WHEN k = 1 THEN CAST(? AS DOUBLE) ELSE r END", [float("-nan")])
    assert table.query("SELECT * FROM distinct_r").num_rows == 1
    assert rows(table.query("SELECT c FROM by_r")) == [(9,)]
    assert table.query("SELECT * FROM alike").num_rows == 81
    for view in ("distinct_r", "by_r", "alike"):
        assert table.audit(view).num_rows == 0
    table.execute("UPDATE t SET n = ? WHERE r = ?", [1, float("nan")])
    table.executemany("UPDATE t SET n = n + ? WHERE r = ?", [(1, float("nan")), (2, float("nan"))])
    assert rows(table.query("SELECT DISTINCT n FROM t")) == [(4,)]
    assert rows(table.query("SELECT COUNT(*) AS c FROM t WHERE r = ?", [float("nan")])) == [(9,)]
    table.execute("DELETE FROM t WHERE r = :r", {"r": float("nan")})
    assert table.query("SELECT * FROM distinct_r").num_rows == table.query("SELECT * FROM t").num_rows == 0


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**20, -(2**63), Decimal(7), Decimal("1E+3")])
def test_whole_numbers_of_any_size_are_what_they_are_written_out(table: tm.Database, value: int | Decimal) -> None:
    table.execute("INSERT INTO t (k, n, long, money) VALUES (1, 7, 7, 1.5), (2, 8, NULL, NULL)")
    written = f"{value:f}" if isinstance(value, Decimal) else str(value)
    for text in (
        "SELECT k FROM t WHERE money > {} ORDER BY k",
        "SELECT k, COALESCE(money, {}) AS m FROM t ORDER BY k",
        "SELECT k FROM t WHERE long >= {} OR n = {} ORDER BY k",
        "SELECT k FROM t WHERE CAST(long AS DECIMAL(38,0)) IN ({}, {}) ORDER BY k",
    ):
        count = text.count("{}")
        found = table.query(text.format(*["?"] * count), [value] * count)
        assert rows(found) == rows(table.query(text.format(*[written] * count))), text
    table.execute("UPDATE t SET n = 5 WHERE money < ?", [value])
    table.execute("DELETE FROM t WHERE money = ? OR long = ?", [value, value])
    assert table.audit("v").num_rows == 0
    if -(2**63) <= value < 2**63:
        table.execute("INSERT INTO t (k, long) SELECT k + 10, COALESCE(long, ?) FROM t WHERE k = 2", [value])
        assert rows(table.query("SELECT long FROM t WHERE k = 12")) == [(value,)]
