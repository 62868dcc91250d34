"""Messages that are not the next one, or none at all, are refused and change nothing; who is too late begins anew."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import tidemark as tm
from tests.support import Bag, bag_of
from tidemark.client import LocalView, ViewHolder, ViewSource
from tidemark.client.messages import Message, packed

Taking = LocalView | ViewHolder


@pytest.fixture
def db() -> Iterator[tm.Database]:
    with tm.connect("duckdb") as database:
        database.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT, c VARCHAR)")
        database.insert("t", [(i, i % 10, "some text") for i in range(200)])
        database.execute("CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t WHERE b > 2")
        database.execute("CREATE MATERIALIZED VIEW w AS SELECT a, b FROM t WHERE b > 3")
        yield database


def both(source: ViewSource) -> list[tuple[Taking, Callable[[int], bytes]]]:
    """A local view and a holder, each with what asks the source for its next message."""
    return [(LocalView(source.first()), source.changes), (ViewHolder(source.state()), source.refresh)]


def standing(one: Taking) -> tuple[int, int, Bag]:
    return one.tidemark, one.received, bag_of(one.content)


def refused(one: Taking, data: bytes, word: str | None = None) -> None:
    before = standing(one)
    with pytest.raises(tm.TidemarkError, match=word) as error:
        one.apply(data)
    assert error.value.code == "message"
    assert standing(one) == before


def test_messages_out_of_order_or_twice(db: tm.Database) -> None:
    source = ViewSource(db, "v")
    for one, next_of in both(source):
        start = one.tidemark
        db.execute(f"INSERT INTO t (a, b) VALUES ({1000 + db.version}, 5)")
        first = next_of(start)
        middle = db.version
        db.execute("DELETE FROM t WHERE b = 4")
        second, whole = next_of(middle), next_of(start)
        refused(one, second, f"from version {middle} to {db.version}, but version {start} is here")
        one.apply(first)
        refused(one, first, "leads from version")
        refused(one, whole)
        one.apply(second)
        refused(one, second)
        assert bag_of(one.content) == bag_of(db.query("SELECT * FROM v"))
        one.apply(next_of(one.tidemark))
        assert standing(one)[2] == bag_of(db.query("SELECT * FROM v"))
        one.close()


def test_an_older_state_is_refused(db: tm.Database) -> None:
    source = ViewSource(db, "v")
    holder, local = ViewHolder(source.state()), LocalView(source.first())
    old_state, old_first = source.state(), source.first()
    db.execute("DELETE FROM t WHERE b = 4")
    holder.apply(source.refresh(holder.tidemark))
    local.apply(source.changes(local.tidemark))
    refused(holder, old_state)
    refused(local, old_first)
    db.execute("DELETE FROM t WHERE b = 5")
    assert holder.apply(source.state()) == "state"
    change = local.apply(source.first())
    assert {row["b"] for row in change.deleted.to_pylist()} == {5}
    assert bag_of(holder.content) == bag_of(local.content) == bag_of(db.query("SELECT * FROM v"))
    local.close()


def test_messages_for_another(db: tm.Database) -> None:
    """Of another view, or to a holder what is for a local view."""
    source, other = ViewSource(db, "v"), ViewSource(db, "w")
    (local, changes), (holder, refresh) = both(source)
    db.execute("DELETE FROM t WHERE b = 4")
    for data in (other.changes(local.tidemark), other.first(), refresh(local.tidemark), source.state()):
        refused(local, data)
    for data in (other.refresh(holder.tidemark), other.state(), changes(holder.tidemark), source.first()):
        refused(holder, data, "for another view")
    with pytest.raises(tm.TidemarkError, match="begins with"):
        LocalView(source.state())
    with pytest.raises(tm.TidemarkError, match="begins with"):
        ViewHolder(refresh(holder.tidemark))
    local.close()


def test_broken_bytes(db: tm.Database) -> None:
    chance = random.Random(7)
    source = ViewSource(db, "v")
    begun = both(source)
    db.execute("DELETE FROM t WHERE b = 4; INSERT INTO t SELECT a + 1000, b, c FROM t WHERE b > 5")
    for one, next_of in begun:
        for data in (next_of(one.tidemark), source.first(), source.state()):
            for _ in range(40):
                cut = data[: chance.randrange(len(data))]
                place = chance.randrange(len(data))
                flipped = data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]
                for broken in (cut, flipped, data + b"x", chance.randbytes(chance.randrange(80))):
                    refused(one, broken)
                    with pytest.raises(tm.TidemarkError):
                        type(one)(broken)
        refused(one, "text")  # type: ignore[arg-type]
        one.apply(next_of(one.tidemark))
        assert bag_of(one.content) == bag_of(db.query("SELECT * FROM v"))
        one.close()


def test_whole_messages_that_make_no_sense(db: tm.Database) -> None:
    """Bytes that arrived as they were sent, of a source that is none."""
    source = ViewSource(db, "v")
    local, holder = LocalView(source.first()), ViewHolder(source.state())
    version, odd = db.version, packed(db.query("SELECT c FROM t LIMIT 3"))
    for one, about in ((local, "t"), (holder, "v")):
        for kind in ("changes", "state", "statements", "base changes", "first"):
            for bodies, more in (
                ({about: odd}, {}),
                ({"x": odd}, {}),
                ({}, {}),
                ({}, {"sql": ["DROP TABLE t"]}),
                ({}, {"sql": ["DELETE FROM nowhere"]}),
                ({}, {"sql": 5}),
            ):
                data = Message(kind, one._identity, version, version + 1, bodies, more).to_bytes()
                refused(one, data)
    local.close()


def test_whoever_is_behind_the_log_begins_anew(db: tm.Database) -> None:
    source = ViewSource(db, "v")
    local, changes, holder, refresh = (
        LocalView(source.first()),
        source.changes,
        ViewHolder(source.state()),
        source.refresh,
    )
    db.execute("ALTER LOG SET (versions = 3)")
    for number in range(12):
        db.execute(f"INSERT INTO t (a, b) VALUES ({2000 + number}, 7)")
    db.execute("DELETE FROM t WHERE b = 4")
    state, first = refresh(holder.tidemark), changes(local.tidemark)
    assert (Message.of_bytes(state).kind, Message.of_bytes(first).kind) == ("state", "first")
    assert holder.apply(state) == "state"
    before = bag_of(local.content)
    change = local.apply(first)
    expected = bag_of(db.query("SELECT * FROM v"))
    assert bag_of(holder.content) == bag_of(local.content) == expected
    assert before + bag_of(change.inserted) - bag_of(change.deleted) == expected
    assert Message.of_bytes(changes(local.tidemark)).kind == "nothing"
    local.close()


def test_where_the_log_has_only_net_effects_no_statement_is_left_out(db: tm.Database) -> None:
    """What a consumer still needs of an old log is kept as one net effect, under its last version."""
    source = ViewSource(db, "v")
    db.execute("CREATE SNAPSHOT s WITH (lag = 'keep') AS SELECT a FROM v REFRESH ON DEMAND")
    holder = ViewHolder(source.state())
    for number in range(3, 10):
        db.execute(f"DELETE FROM t WHERE b = {number} AND a < 100")
    db.execute("ALTER LOG SET (versions = 1)")
    statements = source.choices(holder.tidemark).get("statements")
    assert statements is None or len(Message.of_bytes(statements).texts()) == 7
    holder.apply(source.refresh(holder.tidemark))
    assert bag_of(holder.content) == bag_of(db.query("SELECT * FROM v"))


def test_versions_that_are_not_there(db: tm.Database) -> None:
    source = ViewSource(db, "v")
    asking: list[Callable[[Any], object]] = [source.changes, source.refresh, source.choices, source.local_choices]
    for ask in asking:
        for version in (db.version + 1, -1, "1", None, True):
            with pytest.raises(tm.TidemarkError, match="there is no version"):
                ask(version)


def test_a_column_is_added_below(db: tm.Database) -> None:
    """Nobody who holds or evaluates the view sees it; a new source speaks to them as the old one did."""
    source = ViewSource(db, "v")
    begun = both(source)
    db.execute("ALTER TABLE t ADD COLUMN d INT DEFAULT 3 CHECK (d > 0)")
    db.execute("INSERT INTO t VALUES (5000, 8, 'x', 4); UPDATE t SET d = 9 WHERE b = 3; DELETE FROM t WHERE b = 4")
    for one, next_of in begun:
        one.apply(next_of(one.tidemark))
        assert bag_of(one.content) == bag_of(db.query("SELECT * FROM v"))
    again = ViewSource(db, "v")
    db.execute("UPDATE t SET b = d WHERE a = 5000; DELETE FROM t WHERE b = 7")
    for (one, _), ask in zip(begun, (again.changes, again.refresh), strict=True):
        one.apply(ask(one.tidemark))
        assert bag_of(one.content) == bag_of(db.query("SELECT * FROM v"))
        one.close()
    with LocalView(again.first()) as fresh:
        assert bag_of(fresh.content) == bag_of(db.query("SELECT * FROM v"))


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("DROP MATERIALIZED VIEW v", "unknown_relation"),
        ("DROP MATERIALIZED VIEW v; CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t WHERE b > 2", "redefined"),
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a, b FROM t WHERE b > 6", "redefined"),
        ("DROP TABLE t CASCADE; CREATE TABLE t (a INT)", "unknown_relation"),
    ],
)
def test_a_view_that_is_dropped_or_replaced(db: tm.Database, sql: str, code: str) -> None:
    source = ViewSource(db, "v")
    begun = both(source)
    db.execute(sql)
    asking: list[Callable[[], object]] = [
        partial(source.changes, 1),
        partial(source.refresh, 1),
        source.first,
        source.state,
    ]
    for ask in asking:
        with pytest.raises(tm.TidemarkError) as error:
            ask()
        assert error.value.code == code
    if code == "redefined":
        again = ViewSource(db, "v")
        db.execute("DELETE FROM t WHERE b = 7")
        for (one, _), ask_again in zip(begun, (again.changes, again.refresh), strict=True):
            refused(one, ask_again(one.tidemark), "for another view, or the view was redefined")
    for one, _ in begun:
        one.close()


def test_a_closed_database_says_so(db: tm.Database) -> None:
    source = ViewSource(db, "v")
    db.close()
    with pytest.raises(tm.TidemarkError, match="closed"):
        source.changes(1)
    with pytest.raises(tm.TidemarkError, match="closed"):
        source.state()
