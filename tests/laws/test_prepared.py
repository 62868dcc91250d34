"""A statement that was bound before does what it does when it is bound anew: the same rows, and the same errors.

Each history runs on two databases, of which one forgets before each statement what it has bound.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tidemark.algebra.functions import canonical
from tidemark.algebra.types import DOUBLE, INT, VARCHAR, Field, Schema
from tidemark.sql.parse.shapes import constants, written_out
from tidemark.sql.parse.text import Source, tokenize
from tidemark.state.point import Pending
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import Rows

TABLE = """
CREATE TABLE t (k INT PRIMARY KEY, n INT CHECK (n < 100000), d DECIMAL(8,2), s VARCHAR, e DATE, big BIGINT);
CREATE TABLE u (k INT, s VARCHAR);
CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS c, SUM(n) AS total FROM t GROUP BY s;
"""
INTEGERS = st.one_of(
    st.integers(-3, 12), st.sampled_from([2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, 10**20, 32768])
)
NUMBERS = st.one_of(
    INTEGERS.map(str),
    st.decimals(-20, 20, places=2).map(str),
    st.sampled_from(["0.5", "1.", "007", "1e2", "1.005", "0.00", "-0.0", "123456.789"]),
)
TEXTS = st.one_of(
    st.sampled_from(
        ["a", "", "it''s", "2024-01-05", "2024-02-30", "5", "1.50", "-- no", "/*", ";", "$1", "?", "x%", "ü"]
    )
).map(lambda text: f"'{text}'")
CONSTANTS = st.one_of(NUMBERS, TEXTS)
KEYS = st.integers(0, 6).map(str)

STATEMENTS: list[tuple[str, tuple[Any, ...]]] = [
    ("INSERT INTO t (k, n, s) VALUES ({}, {}, {})", (KEYS, NUMBERS, TEXTS)),
    ("INSERT INTO t VALUES ({}, {}, {}, {}, {}, {})", (KEYS, NUMBERS, NUMBERS, TEXTS, TEXTS, INTEGERS)),
    ("INSERT INTO u VALUES ({}, {}), ({}, {});", (KEYS, TEXTS, KEYS, TEXTS)),
    ("INSERT INTO u VALUES ({} + {}, 'a' || {})", (INTEGERS, NUMBERS, TEXTS)),
    ("INSERT INTO t (k, d, e) VALUES ({}, {}, DATE {}), ({}, {}, DATE {})", (KEYS, NUMBERS, TEXTS) * 2),
    ("INSERT INTO t (n, k) VALUES ({}, {}), ({}, {}), ({}, {})", (NUMBERS, KEYS) * 3),
    ("UPDATE t SET d = {}, big = {} WHERE k = {}", (NUMBERS, NUMBERS, KEYS)),
    ("UPDATE t SET d = {}, e = DATE {} WHERE d = {} AND k = {}", (NUMBERS, TEXTS, NUMBERS, KEYS)),
    ("INSERT INTO u SELECT k + {}, {} FROM t WHERE n > {}", (INTEGERS, CONSTANTS, NUMBERS)),
    ("UPDATE t SET n = {}, s = {} WHERE k = {}", (NUMBERS, TEXTS, KEYS)),
    ("UPDATE t SET n = n + {}, e = {} WHERE k = {} AND n < {}", (INTEGERS, TEXTS, KEYS, NUMBERS)),
    ("UPDATE t SET k = {} WHERE k = {}", (KEYS, KEYS)),
    ("UPDATE t SET d = d / {} WHERE k = {}", (NUMBERS, KEYS)),
    ("UPDATE t SET d = {} WHERE d > {} -- never {}", (NUMBERS, NUMBERS, NUMBERS)),
    ("UPDATE u SET s = (SELECT MAX(s) FROM t WHERE k < {}) WHERE k = {}", (NUMBERS, KEYS)),
    ("DELETE FROM t WHERE k = {}", (NUMBERS,)),
    ("UPDATE u SET s = {} WHERE k = {}", (TEXTS, KEYS)),
    ("DELETE FROM u WHERE s = {} AND k <> {}", (TEXTS, KEYS)),
    ("UPDATE t SET n = n + {}, s = {} WHERE s = {}", (INTEGERS, TEXTS, TEXTS)),
    ("DELETE FROM t WHERE k = -{} OR e < {}", (KEYS, TEXTS)),
    ("DELETE FROM u WHERE k IN ({}, {}) AND s <> {}", (KEYS, KEYS, TEXTS)),
    ("DELETE FROM t WHERE k IN (SELECT k FROM u WHERE s = {}) AND 12 / n > {}", (TEXTS, NUMBERS)),
    ("SELECT k, n FROM t WHERE n = {} OR d < {} ORDER BY {} LIMIT {}", (NUMBERS, NUMBERS, INTEGERS, INTEGERS)),
    ("SELECT s, {} AS one, n FROM t ORDER BY 1, k OFFSET {}", (CONSTANTS, KEYS)),
    ("SELECT n + {} AS m, COUNT(*) FROM t GROUP BY n + {} ORDER BY m", (NUMBERS, NUMBERS)),
    ("SELECT s, SUM(n) FROM t GROUP BY {} HAVING SUM(n) > {}", (INTEGERS, NUMBERS)),
    ("SELECT k, CAST({} AS INT), CAST(d AS DECIMAL({}, 1)) FROM t", (CONSTANTS, KEYS)),
    ("SELECT k, e + INTERVAL {}, DATE {} FROM t", (TEXTS, TEXTS)),
    ("SELECT k, {} / {}, {} > {}, CASE WHEN n > {} THEN {} ELSE d END FROM t", (NUMBERS,) * 6),
    ("SELECT k FROM t WHERE s LIKE {} OR e = {} OR d = {}", (TEXTS, TEXTS, TEXTS)),
    ("SELECT k, ROUND(d, {}), SUBSTRING(s FROM {}), COALESCE(n, {}) FROM t", (KEYS, KEYS, CONSTANTS)),
    ("SELECT {} UNION SELECT k FROM t", (CONSTANTS,)),
    ("SELECT k, LAG(n, {}) OVER (ORDER BY k) FROM t WHERE big = {}", (KEYS, INTEGERS)),
    ("SELECT {} AS a, {} AS b, -{}", (CONSTANTS, CONSTANTS, NUMBERS)),
    ("SELECT k FROM (VALUES ({}), ({})) AS w (k) WHERE k > {}", (NUMBERS, NUMBERS, NUMBERS)),
    ("SELECT s, c, total FROM v WHERE c > {} AND s >= {}", (NUMBERS, TEXTS)),
    ("SELECT k FROM t WHERE n {} {}", (st.sampled_from(["=", "<", "- -", "+"]), NUMBERS)),
]


@st.composite
def histories(draw: st.DrawFn) -> list[str]:
    """Each kind of statement several times, so that its shape is known when it comes again."""
    kinds = draw(st.lists(st.sampled_from(STATEMENTS), min_size=2, max_size=4))
    chosen = [STATEMENTS[1], STATEMENTS[0], *(draw(st.sampled_from(kinds)) for _ in range(draw(st.integers(4, 12))))]
    return [text.format(*(draw(part) for part in parts)) for text, parts in chosen]


def outcome(db: tm.Database, text: str) -> Any:
    """The rows of a statement, with names and types; or the code of its error, and where it stands."""
    try:
        table = db.execute(text)
    except tm.TidemarkError as error:
        return error.code
    if table is None:
        return None
    found = table.to_pylist()
    return table.schema, found if "ORDER" in text else sorted(found, key=repr)


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_what_is_bound_once_does_what_is_bound_anew(engine: str) -> None:
    with tm.connect(engine) as once, tm.connect(engine) as anew:
        once.execute(TABLE)
        anew.execute(TABLE)
        kept, forgotten = once._prepared, anew._prepared

        @settings(max_examples=examples(250 if engine == "reference" else 60), deadline=None)
        @given(histories())
        def same(texts: list[str]) -> None:
            for db in (once, anew):
                db.execute("DELETE FROM t; DELETE FROM u")
            for text in texts:
                forgotten.clear()
                assert outcome(once, text) == outcome(anew, text), text
            for relation in ("t", "u", "v"):
                assert outcome(once, f"SELECT * FROM {relation}") == outcome(anew, f"SELECT * FROM {relation}")
            assert not once.audit("v").num_rows

        same()
        assert any(form for shape in kept._shapes.values() for form in shape.forms.values())


MANY = {
    "UPDATE t SET n = ?, d = ? WHERE k = ?": (st.integers(-5, 5), st.decimals(-20, 20, places=2), st.integers(0, 6)),
    "UPDATE t SET n = n + ? WHERE k = ? AND n < 4": (st.integers(-5, 5), st.integers(0, 6)),
    "UPDATE t SET n = 12 / ? WHERE k = ?": (st.integers(-1, 9), st.integers(0, 6)),
    "UPDATE t SET k = ? WHERE k = ?": (st.integers(0, 9), st.integers(0, 6)),
    "UPDATE t SET big = ? WHERE k = ?": (st.sampled_from([1, 2**40, 2.0, None]), st.integers(0, 6)),
    "DELETE FROM t WHERE k = ?": (st.one_of(st.integers(0, 6), st.just(2**40)),),
    "UPDATE t SET n = ? WHERE n = ?": (st.integers(0, 5), st.integers(0, 5)),
    "UPDATE u SET s = ? WHERE k = ?": (st.sampled_from(["a", "b"]), st.integers(0, 5)),
    "DELETE FROM t WHERE n = ? AND s IS NULL": (st.integers(0, 5),),
    "INSERT INTO u VALUES (?, 'c')": (st.integers(0, 5),),
    "INSERT INTO t (k, n) VALUES (?, ?)": (st.integers(0, 9), st.integers(0, 5)),
    "INSERT INTO t (k, n) VALUES (?, ? + 1)": (st.integers(0, 9), st.integers(0, 5)),
    "INSERT INTO t (k, n) VALUES (?, ?), (?, ?)": (st.integers(0, 99), st.integers(0, 5)) * 2,
}
RULE = """
CREATE RULE r ON UPDATE ON t WHEN SELECT old_k, new_k, new_n FROM updated
    DO INSERT INTO u SELECT new_k, 'r' FROM condition WITH (coupling = 'immediate')
"""


@pytest.mark.parametrize("ruled", [False, True], ids=["alone", "watched"])
@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_many_rows_do_what_each_does_in_turn(engine: str, ruled: bool) -> None:
    with tm.connect(engine) as many, tm.connect(engine) as each:
        for db in (many, each):
            db.execute(TABLE)
            if ruled:
                db.execute(RULE + "; ACTIVATE RULE r")

        @settings(max_examples=examples(120), deadline=None)
        @given(st.data())
        def same(data: st.DataObject) -> None:
            for db in (many, each):
                db.execute("DELETE FROM u; DELETE FROM t; INSERT INTO t (k, n) VALUES (0, 1), (1, 2), (2, 3), (3, 12)")
            for _ in range(data.draw(st.integers(1, 3))):
                text = data.draw(st.sampled_from(sorted(MANY)))
                rows = data.draw(st.lists(st.tuples(*MANY[text]), min_size=1, max_size=8))

                def in_turn(text: str = text, rows: list[Any] = rows) -> None:
                    with each.transaction() as transaction:
                        for row in rows:
                            transaction.execute(text, row)

                assert code_of(lambda: many.executemany(text, rows)) == code_of(in_turn), (text, rows)  # noqa: B023
            for relation in ("t", "u", "v"):
                assert outcome(many, f"SELECT * FROM {relation}") == outcome(each, f"SELECT * FROM {relation}")
            for relation in ("t", "v"):
                found, expected = (
                    db.changes(relation, since=db.version - 1, paired=True).drop_columns(["_version", "_time"])
                    for db in (many, each)
                )
                assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))

        same()


def code_of(action: Callable[[], None]) -> str | None:
    try:
        action()
    except tm.TidemarkError as error:
        return error.code
    return None


WIDTH = Schema((Field("a", INT), Field("b", VARCHAR), Field("c", DOUBLE)))
ROWS = st.tuples(st.integers(0, 3), st.sampled_from(["x", "y", None]), st.sampled_from([0.0, -0.0, float("nan"), None]))


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.lists(st.tuples(ROWS, st.integers(-2, 2)), max_size=4), max_size=6), st.data())
def test_what_is_pending_is_the_same_in_whole_and_by_key(
    steps: list[list[tuple[Any, int]]], data: st.DataObject
) -> None:
    """The net change restricted to a key, whatever was asked before and whenever it was netted."""
    pending, whole = Pending(), dict[Any, int]()
    for step in steps:
        bag: dict[Any, int] = {}
        for row, weight in step:
            for total in (bag, whole):
                total[canonical(row)] = total.get(canonical(row), 0) + weight
        net_of_step = {row: weight for row, weight in bag.items() if weight}
        as_bag = Rows(WIDTH, bag=net_of_step)
        pending.add("t", as_bag if data.draw(st.booleans()) else Rows.of(as_bag.table))
        if data.draw(st.booleans()):
            pending.net()
        columns = data.draw(st.sampled_from([(0,), (1,), (0, 2)]))
        drawn = data.draw(st.lists(ROWS, max_size=3))
        keys = list(dict.fromkeys(tuple(canonical(row[column]) for column in columns) for row in drawn))
        near = pending.near("t", WIDTH, columns, keys)
        expected = {r: w for r, w in whole.items() if w and tuple(r[column] for column in columns) in keys}
        assert (None if near is None else near.bag) == (expected or None)
    net = {row: weight for row, weight in whole.items() if weight}
    assert {name: delta_tables.to_bag(delta) for name, delta in pending.net().items()} == ({"t": net} if net else {})
    assert bool(pending) == bool(net)


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "SELECT ",
                "a",
                " ",
                ", ",
                "=",
                "-",
                "+",
                "(",
                ")",
                "t.a",
                '"q 1"',
                "`b`",
                "-- c 1\n",
                "/* 'x' 2 */",
                "E'a\\'b'",
            ]
        ),
        st.sampled_from(
            ["$$ 1 'a' $$", "$x$ ' $x$", "N'n'", "U&'n'", "1e5", ".5", "5.", "0x1F", "1_0", "''", "'", "::int", "\\"]
        ),
        NUMBERS,
        TEXTS,
    ),
    max_size=12,
).map(lambda pieces: "SELECT " + "".join(pieces))


@settings(max_examples=examples(1500), deadline=None)
@given(PIECES, st.randoms(use_true_random=False))
def test_the_scanner_finds_what_the_tokenizer_finds(text: str, random: Any) -> None:
    """In the text, and in each other text of its shape."""
    found = constants(text)
    if found is None:
        return
    shape, written = found
    tokens = kinds(text)
    assert tokens is not None
    same, blanks = written_out(shape, written)
    assert same == text
    for (place, _), constant in zip(blanks, written, strict=True):
        assert tokens[place] == ("STRING" if constant.startswith("'") else "NUMBER")
    others = [
        f"'{random.choice(['', 'b', ''' ''' ' ' '', '--', '/*'])}'" if c[0] == "'" else other(c, random)
        for c in written
    ]
    pieces = shape.split("\x00")
    again = "".join(part for pair in zip(pieces, [*others, ""], strict=True) for part in pair)
    assert constants(again) is not None
    assert [*(kinds(again) or {}).values()] == [*tokens.values()]


def other(constant: str, random: Any) -> str:
    return f"{random.randrange(10**6)}.{random.randrange(100)}" if "." in constant else str(random.randrange(10**12))


def kinds(text: str) -> dict[int, str] | None:
    try:
        return {token.start: token.token_type.name for token in tokenize(Source(text))}
    except tm.TidemarkError:
        return None


def test_constants_of_different_types_are_different_shapes() -> None:
    with tm.connect("reference") as db:
        db.execute(TABLE)
        db.execute("INSERT INTO t (k, n, d) VALUES (1, 3, 1)")
        for constant in ("2", "2", "2", "3000000000", "1.5", "1.50", "2", "99999999999999999999"):
            [row] = db.query(f"SELECT n / {constant} AS q FROM t").to_pylist()
            expected = 3 // int(constant) if "." not in constant else Decimal(3) / Decimal(constant)
            assert row["q"] == expected
