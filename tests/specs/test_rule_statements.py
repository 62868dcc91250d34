"""What the statements about rules take, and what they refuse before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tidemark as tm
from tests.support import rows


@pytest.fixture
def db() -> Iterator[tm.Database]:
    with tm.connect("reference") as database:
        database.execute("CREATE TABLE t (k INT PRIMARY KEY, c VARCHAR); CREATE TABLE log (c VARCHAR)")
        yield database


def shown(db: tm.Database, column: str) -> Any:
    return db.execute("SHOW RULES")[column].to_pylist()  # type: ignore[index]


def test_texts_and_quoted_names_are_no_words_and_no_parentheses(db: tm.Database) -> None:
    db.execute("""
        CREATE RULE a WHEN SELECT c FROM t WHERE c = '(' DO INSERT INTO log SELECT c FROM condition;
        CREATE RULE b WHEN SELECT c FROM t WHERE c = 'b' DO INSERT INTO log SELECT ')' FROM condition
            WITH (priority = -3);
        CREATE RULE d WHEN SELECT c AS "do" FROM t WHERE c = 'd' DO INSERT INTO log SELECT "do" FROM condition;
        CREATE RULE e WHEN SELECT c FROM t WHERE c = 'e'
            DO BEGIN INSERT INTO log VALUES (';'); INSERT INTO log VALUES ('END'); END;
        CREATE ASSERTION f CHECK (NOT EXISTS (SELECT c FROM t WHERE c = ')'));
        ACTIVATE RULE a; ACTIVATE RULE b; ACTIVATE RULE d; ACTIVATE RULE e;
        INSERT INTO t VALUES (1, '('), (2, 'b'), (3, 'd'), (4, 'e')""")
    assert sorted(rows(db.query("SELECT * FROM log"))) == [("(",), (")",), (";",), ("END",), ("d",)]
    assert shown(db, "priority") == [0, -3, 0, 0]
    with pytest.raises(tm.TidemarkError, match="assertion 'f'"):
        db.execute("INSERT INTO t VALUES (5, ')')")


def test_a_rule_is_activated_for_values(db: tm.Database) -> None:
    db.execute("CREATE RULE r(:k, :c) WHEN SELECT k FROM t WHERE k = :k AND c <> :c DO NOTIFY x")
    for values in ("k, 'a'", "(SELECT MAX(k) FROM t), 'a'", "1 + 1, 'a'", "1, UPPER('a')", ":k, 'a'", "1, ", ", 'a'"):
        with pytest.raises(tm.TidemarkError, match="values of its parameters") as caught:
            db.execute(f"ACTIVATE RULE r({values})")
        assert caught.value.code == "syntax"
    db.execute("ACTIVATE RULE r(- 1, ','); ACTIVATE RULE r(-1,','); ACTIVATE RULE r(NULL, '(')")
    assert shown(db, "state") == ["r(-1, ','), r(NULL, '(')"]
    for values, message in (("1", "has 2 parameters, not 1"), ("1, ','", "r.1, ','. is not active")):
        with pytest.raises(tm.TidemarkError, match=message):
            db.execute(f"DEACTIVATE RULE r({values})")
    db.execute("DEACTIVATE RULE r(-1, ',')")
    assert shown(db, "state") == ["r(NULL, '(')"]


@pytest.mark.parametrize(
    "option",
    [
        *("cascade_limit = 0", "retries = -1", "retries = 'x'", "backoff = -1", "backoff = 'inf'", "backoff = 'nan'"),
        *("timeout = 0", "timeout = 'nan'", "priority = 1.5", "priority = 99999999999", "group = ''", "priority = )"),
        *("priority = 1, priority = 2", "nothing = 1", "coupling = 'soon'"),
    ],
)
def test_options_that_cannot_be_are_refused(db: tm.Database, option: str) -> None:
    with pytest.raises(tm.TidemarkError):
        db.execute(f"CREATE RULE r WHEN SELECT k FROM t DO NOTIFY x WITH ({option})")
    assert shown(db, "name") == []


@pytest.mark.parametrize(
    "rule",
    [
        *("r ON EVERY '99999999 days' DO NOTIFY x", "r ON AFTER '99999999 days' INSERT ON t DO NOTIFY x"),
        *("r ON AT '9999-12-31 23:59:59-10:00' DO NOTIFY x", '"a(b" ON INSERT ON t DO NOTIFY x'),
        *("r(:a, :a) WHEN SELECT k FROM t WHERE k = :a DO NOTIFY x", "r ON INSERT ON t DO BEGIN END"),
    ],
)
def test_rules_that_cannot_be_are_refused(db: tm.Database, rule: str) -> None:
    with pytest.raises(tm.TidemarkError):
        db.execute(f"CREATE RULE {rule}")
    assert shown(db, "name") == []
