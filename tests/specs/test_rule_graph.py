"""What is said of a rule when it is created: it may not terminate, or its order beside another may matter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidemark as tm


@pytest.fixture
def db() -> Iterator[tm.Database]:
    with tm.connect("reference") as database:
        database.execute("""
            CREATE TABLE a (x INT); CREATE TABLE b (x INT); CREATE TABLE c (x INT); CREATE VIEW va AS SELECT x FROM a;
            CREATE RULE ab WHEN SELECT x FROM va DO INSERT INTO b SELECT x FROM condition""")
        yield database


def said(db: tm.Database, text: str) -> list[str]:
    found = db.execute(text)
    return [] if found is None else found["warning"].to_pylist()


def test_a_cycle_in_the_triggering_graph_is_said_with_its_chain(db: tm.Database) -> None:
    [cycle, order] = said(db, "CREATE RULE ba WHEN SELECT x FROM b DO INSERT INTO a SELECT x FROM condition")
    assert cycle == "may not terminate: ba → ab → ba ('ab' changes b, which 'ba' watches)"
    assert order.startswith("the order of 'ab' and 'ba' may matter: 'ba' changes a, which the condition of 'ab' reads")


def test_rules_that_only_insert_into_the_same_table_do_not_conflict(db: tm.Database) -> None:
    assert said(db, "CREATE RULE cb WHEN SELECT x FROM c DO INSERT INTO b SELECT x FROM condition") == []


def test_a_deletion_beside_an_insertion_depends_on_the_order_unless_priorities_differ(db: tm.Database) -> None:
    text = "CREATE RULE {} ON INSERT ON c DO DELETE FROM b WITH (priority = {})"
    [found] = said(db, text.format("low", 0))
    assert found == "the order of 'ab' and 'low' may matter: both change b; give them different priorities"
    assert said(db, text.format("high", 5)) == []


def test_an_event_that_the_action_does_not_cause_breaks_the_cycle(db: tm.Database) -> None:
    assert said(db, "CREATE RULE w ON INSERT ON c WHEN SELECT x FROM va DO INSERT INTO a VALUES (1)") == [
        "the order of 'ab' and 'w' may matter: 'w' changes a, which the condition of 'ab' reads; "
        "give them different priorities"
    ]


def test_what_an_action_reads_or_an_event_watches_depends_on_the_order_too(db: tm.Database) -> None:
    db.execute("CREATE TABLE d (x INT)")
    [found] = said(db, "CREATE RULE reads WHEN SELECT x FROM c DO INSERT INTO d SELECT y.x FROM b y WHERE y.x = 1")
    assert "'ab' changes b, which the action of 'reads' reads" in found
    [found] = said(db, "CREATE RULE watches ON INSERT ON b DO NOTIFY x")
    assert "'ab' changes b, which 'watches' watches" in found
