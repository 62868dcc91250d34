"""Half of a surrogate pair, which Python's texts can hold and nothing else can, is refused in words."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidemark as tm
from tests.support import rows

SPARK_VARIANTS = ("spark",)
HALF = "\ud83d"


@pytest.mark.parametrize(
    "sql",
    [
        f"INSERT INTO t VALUES ('{HALF}')",
        f"SELECT '{HALF}'",
        f"SELECT a FROM t WHERE a = 'x{HALF}'",
        f'CREATE TABLE "{HALF}" (a INT)',
        f'SELECT a AS "{HALF}" FROM t',
        f"CREATE MATERIALIZED VIEW v (a) AS DATALOG $$ v(x) :- t(x), x = '{HALF}'. $$",
        f"SELECT 1 -- {HALF}",
    ],
)
def test_in_the_text_of_a_statement(db: tm.Database, sql: str) -> None:
    db.execute("CREATE TABLE t (a VARCHAR)")
    for run in (db.execute, db.query):
        with pytest.raises(tm.TidemarkError, match="half of a surrogate pair") as caught:
            run(sql)
        assert caught.value.code == "syntax" and caught.value.place is not None
        assert caught.value.place.column == sql.index(HALF) + 1
        str(caught.value).encode()
    assert db.version == 1


def test_in_values_and_names_that_a_program_hands_over(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a VARCHAR); CREATE TABLE w (a VARCHAR[], s STRUCT(b VARCHAR))")
    db.execute(
        "CREATE RULE r ON SIGNAL s WHEN SELECT payload FROM signal DO INSERT INTO t SELECT payload FROM condition"
    )
    db.execute("ACTIVATE RULE r")
    before = db.version
    for action in (
        lambda: db.insert("t", [("ok",), (HALF,)]),
        lambda: db.insert("t", [{"a": HALF}]),
        lambda: db.insert("w", [([HALF], None)]),
        lambda: db.insert("w", [(None, (HALF,))]),
        lambda: db.delete("t", [(HALF,)]),
        lambda: db.sync("t", [(HALF,)]),
        lambda: db.signal("s", HALF),
        lambda: db.signal(HALF, "x"),
        lambda: db.subscribe("t", name=HALF),
        lambda: db.why("t", (HALF,)),
    ):
        with pytest.raises(tm.TidemarkError, match="half of a surrogate pair") as caught:
            action()
        assert caught.value.code == "type"
        str(caught.value).encode()
    with pytest.raises(tm.TidemarkError) as told:
        db.insert("t", [{HALF: "a"}])
    str(told.value).encode()
    assert db.version == before and rows(db.query("SELECT * FROM t")) == []
    db.signal("s", {"text": HALF})  # JSON writes it as \ud83d
    assert rows(db.query("SELECT * FROM t")) == [('{"text": "\\ud83d"}',)]


def test_whole_characters_beyond_the_first_plane_are_texts(db: tm.Database) -> None:
    db.execute("CREATE TABLE t (a VARCHAR); INSERT INTO t VALUES ('😀')")
    db.insert("t", pa.table({"a": ["😀"]}))
    db.insert("t", [("😀",)])
    assert rows(db.query("SELECT a, COUNT(*) FROM t WHERE a = '😀' GROUP BY a")) == [("😀", 3)]


@pytest.mark.parametrize("engine", ["reference"], indirect=True)
def test_in_a_target(engine: str, tmp_path: Path) -> None:
    for target in (f"duckdb:{tmp_path}/{HALF}", f"spark:{tmp_path}/{HALF}", HALF):
        with pytest.raises(tm.TidemarkError) as caught:
            tm.connect(target)
        assert caught.value.code == "target"
        str(caught.value).encode()
