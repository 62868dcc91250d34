"""The table of statements: it has every statement, and says of each who runs it."""

from __future__ import annotations

from typing import get_args

import pytest

import tidemark as tm
from tidemark.answers.analyze import PHASES
from tidemark.answers.show import SHOWN
from tidemark.session.commit import AFTERWARDS, INSTALL, PREPARE, STORE
from tidemark.session.statements import STATEMENTS, Answered, Held, Kind, row_of
from tidemark.sql.parse import script as parsing
from tidemark.sql.parse import statements as st
from tidemark.sql.parse import text
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.text import Source

EXAMPLES = {
    "BEGIN": Kind.BEGIN,
    "COMMIT": Kind.COMMIT,
    "ROLLBACK": Kind.ROLLBACK,
    "SELECT 1": Kind.ANSWER,
    "INSERT INTO t VALUES (1)": Kind.CHANGE,
    "UPDATE t SET a = 1": Kind.CHANGE,
    "DELETE FROM t": Kind.CHANGE,
    "CREATE TABLE t (a INT)": Kind.CREATION,
    "CREATE MATERIALIZED VIEW v AS SELECT a FROM t": Kind.CREATION,
    "CREATE VIEW p, q AS DATALOG $$ p(A) :- t(A). q(A) :- p(A). $$": Kind.CREATION,
    "CREATE RULE r ON INSERT ON t DO NOTIFY c": Kind.CREATION,
    "ACTIVATE RULE r": Kind.ANSWER,
    "ALTER TABLE t ADD COLUMN b INT": Kind.DEFINITION,
    "DROP TABLE t": Kind.DEFINITION,
    "REFRESH v": Kind.REFRESH,
    "ALTER LOG SET (versions = 3)": Kind.ANSWER,
    "EXPLAIN v": Kind.TEXT,
    "EXPLAIN WHY (1) IN v": Kind.TEXT,
    "EXPLAIN ANALYZE SELECT 1": Kind.TEXT,
    "EXPLAIN ANALYZE DELETE FROM t": Kind.TEXT,
    "EXPLAIN ANALYZE VERSION 1": Kind.TEXT,
    "EXPLAIN EFFECT OF DELETE FROM t ON v": Kind.ANSWER,
    "AUDIT v": Kind.VERDICT,
    "SHOW TABLES": Kind.ANSWER,
    "BACKUP TO 'copy'": Kind.ANSWER,
    "CHECKPOINT": Kind.ANSWER,
    "PUBLISH": Kind.ANSWER,
    "CREATE SOURCE s TYPE delta OPTIONS (path 'p')": Kind.DEFINITION,
    "CREATE TABLE t FROM SOURCE s RELATION 'r'": Kind.CREATION,
    "ALTER SOURCE s PAUSE": Kind.ANSWER,
}


def parsed(sql: str) -> st.Statement:
    ((statement, _),) = parse_script(Source(sql, "postgres"))
    return statement


def test_the_table_has_every_statement_and_nothing_else() -> None:
    assert set(STATEMENTS) == set(get_args(st.Statement))


def test_every_row_has_an_example_here() -> None:
    assert {type(parsed(sql)) for sql in EXAMPLES} == set(STATEMENTS)


@pytest.mark.parametrize("sql", EXAMPLES)
def test_a_statement_has_its_kind(sql: str) -> None:
    assert row_of(parsed(sql)).kind is EXAMPLES[sql]


@pytest.mark.parametrize("sql", [sql for sql in EXAMPLES if isinstance(row_of(parsed(sql)), Answered)])
def test_a_transaction_refuses_what_the_database_answers(sql: str) -> None:
    row = row_of(parsed(sql))
    assert isinstance(row, Answered)
    with tm.connect("duckdb") as db, pytest.raises(tm.TidemarkError) as caught, db.transaction() as transaction:
        transaction.execute(sql)
    assert str(caught.value) == str(row.refusal())


def test_only_queries_need_no_transaction_of_their_own() -> None:
    reading = [kind for kind, row in STATEMENTS.items() if isinstance(row, Held) and row.reads]
    assert reading == [st.Query, st.AnalyzeQuery]


def test_only_commit_and_rollback_are_run_in_a_transaction_that_failed() -> None:
    ending = {kind for kind, row in STATEMENTS.items() if isinstance(row, Answered) and row.ends}
    assert ending == {st.Commit, st.Rollback}


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELECT a FROM t", ("v",)),
        ("CREATE VIEW v AS SELECT a FROM t", ()),
        ("CREATE MATERIALIZED VIEW p, q AS DATALOG $$ p(A) :- t(A). q(A) :- p(A). $$", ("p", "q")),
        ("CREATE TABLE t (a INT)", ()),
        ("REFRESH v", ("v",)),
        ("AUDIT v", ("v",)),
        ("DROP VIEW v", ()),
    ],
)
def test_a_statement_names_what_it_fills_refreshes_or_audits(sql: str, names: tuple[str, ...]) -> None:
    assert row_of(parsed(sql)).names(parsed(sql)) == names


def test_every_phase_that_is_timed_has_words() -> None:
    of_a_commit = {phase.__name__ for phase in (*PREPARE, *INSTALL)} | {STORE, AFTERWARDS}
    assert set(PHASES) == {"parse", "bind", "find", "read", "rules"} | of_a_commit


def test_the_parser_takes_exactly_what_can_be_shown() -> None:
    assert [word.lower() for word in parsing.SHOWN] == list(SHOWN)


def test_a_compiled_parser_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """sqlglot's compiled classes take no others as heirs, and deep nesting overflows their stack."""

    class Compiled:
        def __init__(self, dialect: object) -> None:
            raise TypeError("interpreted classes cannot inherit from compiled")

    monkeypatch.setattr(text, "_corrected", lambda parser: Compiled)
    with pytest.raises(tm.TidemarkError, match="compiled form") as error:
        tm.connect("reference").query("SELECT 1")
    assert error.value.hint == "pip uninstall sqlglotc"
