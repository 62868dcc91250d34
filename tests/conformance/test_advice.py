"""Boundaries of parameters (BLAKELEY 8.2): what ``advise`` says of them holds when statements run, and they are kept
with the views, so that statements of one shape are not proved one by one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

import tidemark as tm
from tests.support import changes_at

SPARK_VARIANTS = ("spark forced",)

THESIS = """
    CREATE TABLE r1 (h INT NOT NULL, i INT NOT NULL CHECK (i BETWEEN 0 AND 100));
    CREATE TABLE r2 (j INT NOT NULL, k INT NOT NULL);
    CREATE MATERIALIZED VIEW v AS SELECT h, j FROM r1 JOIN r2 ON j = k AND i > j WHERE k > 10;
    INSERT INTO r2 VALUES (11, 11), (11, 11), (40, 40), (7, 8);
    INSERT INTO r1 VALUES (1, 5), (2, 12), (3, 12), (4, 13), (5, 60), (5, 60), (6, 100);
"""
STATEMENTS = (
    "DELETE FROM r1 WHERE i < {}",
    "DELETE FROM r1 WHERE i = {} AND h > 2",
    "DELETE FROM r2 WHERE k <= {} OR j = {}",
    "UPDATE r1 SET i = {} WHERE i < 3",
    "UPDATE r1 SET h = {} WHERE i < {}",
    "INSERT INTO r1 VALUES (9, {})",
    "INSERT INTO r2 VALUES ({}, {})",
)


@pytest.fixture
def db(db: tm.Database, monkeypatch: pytest.MonkeyPatch) -> tm.Database:
    """Proofs about statements are tried where many rows would have to be read; here always."""
    engine = db._store.engine
    monkeypatch.setattr(engine, "limits", replace(engine.limits, worth_a_proof=0))
    return db


@contextmanager
def questions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is asked meanwhile about formulas, of the solver or of the class that needs none."""
    asked: list[str] = []
    solving = importlib.import_module("tidemark.analysis.solver")
    with monkeypatch.context() as patched:
        for name in ("model_by_differences", "model_by_solver"):
            original = getattr(solving, name)

            def counted(formula: object, name: str = name, original: object = original) -> object:
                asked.append(name)
                assert callable(original)
                return original(formula)

            patched.setattr(solving, name, counted)
        yield asked


def last(db: tm.Database, node: str) -> tuple[str, int]:
    [step] = [step for step in db.trace(db.version).to_pylist() if step["node"] == node]
    return step["strategy"], step["rows_read"]


def test_statements_are_what_the_boundaries_of_their_parameters_say(db: tm.Database) -> None:
    db.execute(THESIS)
    advice = db.advise("v", "DELETE FROM r1 WHERE i < :p")
    assert (advice.irrelevant, advice.autonomous) == ("p < 13", "(p > 100) OR (p < 13)")
    assert db.classify("v", "DELETE FROM r1 WHERE i < 12").kind == "irrelevant"
    assert db.classify("v", "DELETE FROM r1 WHERE i < 13").kind != "irrelevant"
    assert db.classify("v", "DELETE FROM r1 WHERE i < 101").kind == "autonomous"
    db.execute("DELETE FROM r1 WHERE i < 12")
    assert last(db, "v") == ("irrelevant", 0)
    db.execute("DELETE FROM r1 WHERE i < 14")
    assert changes_at(db, "v") == {(2, 11): -2, (3, 11): -2, (4, 11): -2}
    db.execute("DELETE FROM r1 WHERE i < 101")
    assert last(db, "v") == ("autonomous", 0)
    assert changes_at(db, "v") == {(5, 11): -4, (6, 11): -2, (5, 40): -2, (6, 40): -1}
    assert db.audit("v").num_rows == 0


def test_a_view_that_shows_the_advised_column_follows_deletions_alone(db: tm.Database) -> None:
    db.execute(THESIS)
    [wider] = db.advise("v", "DELETE FROM r1 WHERE i < :p").wider
    assert (wider.columns, wider.kind) == (("r1.i",), "autonomous")
    db.execute("DELETE FROM r1 WHERE i < 13")
    assert last(db, "v")[0] == "differential"
    db.execute(
        "DROP MATERIALIZED VIEW v;"
        "CREATE MATERIALIZED VIEW v AS SELECT h, j, i FROM r1 JOIN r2 ON j = k AND i > j WHERE k > 10"
    )
    assert db.advise("v", "DELETE FROM r1 WHERE i < :p").autonomous == "always"
    db.execute("DELETE FROM r1 WHERE i < 50")
    assert last(db, "v") == ("autonomous", 0)
    assert changes_at(db, "v") == {(4, 11, 13): -2}
    assert db.audit("v").num_rows == 0


def test_advice_follows_the_types_of_parameters(db: tm.Database) -> None:
    db.execute(
        "CREATE TABLE e (id INT PRIMARY KEY, at DATE, name VARCHAR, amount DECIMAL(6,2));"
        "CREATE MATERIALIZED VIEW v AS SELECT id, name FROM e WHERE at >= DATE '2024-03-01' "
        "AND amount > 1.5 AND name = 'x'"
    )
    assert db.advise("v", "DELETE FROM e WHERE at < :p").irrelevant == "p < DATE '2024-03-02'"
    assert db.advise("v", "DELETE FROM e WHERE name = :p").irrelevant == "p <> 'x'"
    assert db.advise("v", "UPDATE e SET amount = :p WHERE amount < 1").irrelevant == "p < 1.51"
    assert db.advise("v", "INSERT INTO e VALUES (:a, :b, 'y', :c)").irrelevant == "always"
    assert db.advise("v", "DELETE FROM e WHERE id = :p").autonomous == "always"
    with pytest.raises(tm.TidemarkError) as caught:
        db.advise("v", "DELETE FROM e WHERE :p")
    assert caught.value.code == "type"


def test_an_update_with_parameters_is_autonomous_if_no_row_can_enter(db: tm.Database) -> None:
    db.execute(
        "CREATE TABLE c (id INT PRIMARY KEY, town VARCHAR); CREATE TABLE s (id INT PRIMARY KEY, c INT, amount INT);"
        "CREATE MATERIALIZED VIEW v AS SELECT s.id, c, amount, town FROM s JOIN c ON s.c = c.id WHERE amount > 100;"
        "INSERT INTO c VALUES (1, 'Oslo'), (2, 'Rome');"
        "INSERT INTO s VALUES (1, 1, 150), (2, 1, 300), (3, 2, 99), (4, NULL, 500)"
    )
    assert db.advise("v", "UPDATE s SET amount = :p WHERE amount <= :q").autonomous is None
    assert db.advise("v", "UPDATE s SET amount = :p WHERE amount > 200").autonomous == "always"
    db.execute("UPDATE s SET amount = 7 WHERE amount > 200")
    assert (last(db, "v"), changes_at(db, "v")) == (("autonomous", 0), {(2, 1, 300, "Oslo"): -1})
    db.execute("UPDATE s SET amount = 170 WHERE amount <= 99")
    assert last(db, "v")[0] == "differential"
    assert changes_at(db, "v") == {(2, 1, 170, "Oslo"): 1, (3, 2, 170, "Rome"): 1}


def test_of_one_shape_only_the_first_statement_is_proved(db: tm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute(THESIS)
    with questions(monkeypatch) as asked:
        assert db.classify("v", "DELETE FROM r1 WHERE i < 5").kind == "irrelevant"
    assert asked, "nothing was asked, so that this test would prove nothing"
    for statement in ("DELETE FROM r1 WHERE i < 12", "DELETE FROM r1 WHERE i < 0"):
        with questions(monkeypatch) as asked:
            assert db.classify("v", statement).kind == "irrelevant"
        assert not asked
    with questions(monkeypatch) as asked:
        db.classify("v", "DELETE FROM r1 WHERE i <= 5")
    assert asked, "another shape"


def test_advice_serves_the_statements_that_follow(db: tm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute(THESIS)
    db.advise("v", "UPDATE r1 SET h = :new WHERE i < :limit")
    with questions(monkeypatch) as asked:
        found = db.classify("v", "UPDATE r1 SET h = 3 WHERE i < 11")
    assert (found.kind, asked) == ("irrelevant", [])


def test_of_one_shape_only_the_first_deletion_is_proved_when_it_runs(
    db: tm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute(
        "CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c INT);"
        "CREATE MATERIALIZED VIEW v AS SELECT a, c FROM r JOIN s ON r.b = s.b;"
        "INSERT INTO s VALUES (1, 10), (1, 10), (2, NULL);"
        "INSERT INTO r VALUES (5, 1), (5, 1), (7, 1), (7, 2), (NULL, 1), (9, 2)"
    )
    db.execute("DELETE FROM r WHERE a > 8")
    assert (last(db, "v"), changes_at(db, "v")) == (("autonomous", 0), {(9, None): -1})
    with questions(monkeypatch) as asked:
        db.execute("DELETE FROM r WHERE a > 6")
    assert (last(db, "v"), asked) == (("autonomous", 0), [])
    assert changes_at(db, "v") == {(7, 10): -2, (7, None): -1}
    assert db.audit("v").num_rows == 0


@pytest.mark.parametrize("template", STATEMENTS)
def test_boundaries_say_what_proofs_say(db: tm.Database, monkeypatch: pytest.MonkeyPatch, template: str) -> None:
    db.execute(THESIS)
    classifying = importlib.import_module("tidemark.answers.classify")
    kinds = set()
    for value in (-1, 0, 10, 11, 12, 13, 40, 99, 100, 101):
        statement = template.format(*[value] * template.count("{}"))
        found = db.classify("v", statement)
        with monkeypatch.context() as patched:
            patched.setattr(classifying, "_is_within_boundary", lambda change, kept: False)
            assert db.classify("v", statement) == found, statement
        kinds.add(found.kind)
    assert len(kinds) > 1, "all of them are of one kind, so that this test would prove little"


def test_boundaries_go_with_the_definition_that_they_are_of(db: tm.Database) -> None:
    db.execute(THESIS)
    statement = "DELETE FROM r1 WHERE i < 12"
    assert db.classify("v", statement).kind == "irrelevant"
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT h, j FROM r1 JOIN r2 ON j = k AND i > j WHERE k > 8")
    assert db.classify("v", statement).kind != "irrelevant"
    db.execute("DROP MATERIALIZED VIEW v; CREATE MATERIALIZED VIEW v AS SELECT h FROM r1 WHERE i > 20")
    assert db.classify("v", statement).kind == "irrelevant"
    assert db.classify("v", "DELETE FROM r1 WHERE i < 22").kind != "irrelevant"
    db.execute("CREATE VIEW below AS SELECT h, i FROM r1; CREATE VIEW above AS SELECT h FROM below WHERE i > 20")
    assert db.classify("above", statement).kind == "irrelevant"
    db.execute("CREATE OR REPLACE VIEW below AS SELECT h, i + 10 AS i FROM r1")
    assert db.classify("above", statement).kind != "irrelevant"


def test_explain_shows_the_boundaries_that_are_kept(db: tm.Database) -> None:
    db.execute(THESIS)
    assert "boundaries" not in db.explain("v")
    db.classify("v", "DELETE FROM r1 WHERE i < 5")
    db.classify("v", "INSERT INTO r2 VALUES (1, 2)")
    lines = db.explain("v").splitlines()
    kept = lines[lines.index("boundaries") + 1 :][:2]
    assert kept[0] == "  DELETE FROM r1 WHERE i < :1: irrelevant if :1 < 13"
    assert kept[1].startswith("  INSERT INTO r2 VALUES (:1, :2): irrelevant if ")
