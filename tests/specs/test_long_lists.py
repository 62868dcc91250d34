"""Long lists of constants are read as values, and mean what they mean when they are parsed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.support import rows
from tidemark.sql.parse import lists
from tidemark.sql.parse.lists import LEAST, read_apart
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.text import Source

NUMBERS = ", ".join(map(str, range(LEAST)))


def is_apart(text: str) -> bool:
    source, _ = read_apart(Source(text))
    return bool(source.lists)


@pytest.mark.parametrize(
    "text",
    [
        f"DELETE FROM t WHERE k IN ({NUMBERS})",
        f"SELECT k FROM t WHERE v > 1 AND k in (\n{NUMBERS}\n)",
        f"INSERT INTO t (k, v) VALUES {', '.join(f'({i}, {i})' for i in range(LEAST))};",
        f"UPDATE t SET v = 1 WHERE k IN ({NUMBERS}); DELETE FROM t WHERE k IN ({NUMBERS})",
    ],
)
def test_long_lists_are_taken_apart(text: str) -> None:
    assert is_apart(text)


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM t WHERE k IN (1, 2, 3)",
        f"SELECT 'IN ({NUMBERS})'",
        f"SELECT 1 -- IN ({NUMBERS})",
        f"SELECT /* k IN ({NUMBERS}) */ 1",
        f"SELECT $$ k IN ({NUMBERS}) $$",
        f'SELECT 1 AS "IN ({NUMBERS})"',
        f"DELETE FROM t WHERE k IN ({NUMBERS}, 1 + 1)",
        f"DELETE FROM t WHERE k IN ({NUMBERS}, 1e3)",
        f"DELETE FROM t WHERE s IN ('it''s', {', '.join(['1'] * LEAST)})",
        f"CREATE VIEW v AS SELECT k FROM t WHERE k IN ({NUMBERS})",
        f"EXPLAIN DELETE FROM t WHERE k IN ({NUMBERS})",
    ],
)
def test_what_is_no_long_list_of_constants_is_left_to_the_parser(text: str) -> None:
    assert not is_apart(text)


def test_places_of_errors_are_those_of_the_text() -> None:
    rows = ", ".join(f"({i}, {i})" for i in range(LEAST))
    with tm.connect("reference") as db:
        db.execute("CREATE TABLE t (k INT, v SMALLINT)")
        with pytest.raises(tm.TidemarkError) as found:
            db.execute(f"INSERT INTO t VALUES {rows},\n  (7, 70000)")
        assert found.value.place is not None
        assert (found.value.place.line, found.value.place.column) == (2, 7)
        with pytest.raises(tm.TidemarkError) as found:
            db.execute(f"INSERT INTO t VALUES {rows},\n  (7)")
        assert found.value.place is not None
        assert found.value.place.line == 2
        with pytest.raises(tm.TidemarkError) as found:
            db.execute(f"DELETE FROM t WHERE k IN ({NUMBERS}) AND nothing = 1")
        assert found.value.place is not None
        assert found.value.place.column == len(f"DELETE FROM t WHERE k IN ({NUMBERS}) AND ") + 1


def test_a_list_in_a_text_keeps_the_statement_as_it_was_written() -> None:
    text = f"DELETE FROM t WHERE k IN ({NUMBERS})"
    [(statement, _)] = parse_script(Source(text))
    assert getattr(statement, "text", None) == text


SMALL = st.integers(-3, 6)
CONSTANTS = {
    "k": st.one_of(SMALL.map(str), st.just("NULL")),
    "n": st.one_of(SMALL.map(str), st.sampled_from(["1.50", "-0.5", "NULL"])),
    "s": st.sampled_from(["'a'", "'B'", "''", "'x, (y'", "NULL", "null"]),
    "d": st.sampled_from(["'2026-01-01'", "'2026-01-02'"]),
    "b": st.sampled_from(["TRUE", "false", "NULL"]),
}
SCHEMA = "k INT, n DECIMAL(6, 2), s VARCHAR, d DATE, b BOOLEAN"
QUERIES = (
    "SELECT * FROM t WHERE {column} IN ({listed})",
    "SELECT * FROM t WHERE NOT ({column} IN ({listed}))",
    "SELECT * FROM t WHERE {column} NOT IN ({listed}) AND k > 0",
    "SELECT * FROM t WHERE k IS NULL OR {column} IN ({listed})",
    "SELECT {column} IN ({listed}), COUNT(*) FROM t GROUP BY 1",
    "SELECT k FROM t AS o WHERE EXISTS (SELECT 1 FROM t WHERE t.{column} IN ({listed}) AND t.k = o.k)",
    "SELECT s, COUNT(*) FROM t GROUP BY s HAVING COUNT(*) IN (1, 2) AND MIN({column}) IN ({listed})",
)


@given(
    written=st.lists(st.tuples(*CONSTANTS.values()), min_size=3, max_size=8),
    column=st.sampled_from(["k", "n", "s", "d"]),
    listed=st.data(),
    query=st.sampled_from(QUERIES),
)
@settings(max_examples=examples(60), deadline=None)
def test_a_list_that_is_taken_apart_means_the_same(
    written: list[tuple[str, ...]], column: str, listed: st.DataObject, query: str
) -> None:
    members = listed.draw(st.lists(CONSTANTS[column], min_size=3, max_size=6))
    texts = [
        f"INSERT INTO t VALUES {', '.join(f'({chr(44).join(row)})' for row in written)}",
        query.format(column=column, listed=", ".join(members)),
        f"DELETE FROM t WHERE {column} IN ({', '.join(members)})",
        "SELECT * FROM t",
    ]
    found = []
    for least in (3, 10**6):
        with tm.connect("reference") as db, pytest.MonkeyPatch.context() as patch:
            patch.setattr(lists, "_LONG", lists.long_lists(least))
            patch.setattr(lists, "_MARK", "q")  # as short as the lists are
            db.execute(f"CREATE TABLE t ({SCHEMA})")
            assert all(is_apart(text) is (least == 3) for text in texts[:3])
            db.execute(texts[0])
            asked = rows(db.query(texts[1]))
            db.execute(texts[2])
            found.append((asked, rows(db.query(texts[3]))))
    assert found[0] == found[1]
