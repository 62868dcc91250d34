"""Random transactions over random views, followed elsewhere: by statements wherever they would do, and by changes.

Whatever is shipped, whoever takes it in has the server's content, and a local view holds of each table exactly what
matters of it. The seeds are fixed, so that it can be asserted that statements really were run and followed.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

import tidemark as tm
from tests.laws import ladder_histories as histories
from tests.support import bag_of, weights_of
from tidemark.algebra.plans import Stored
from tidemark.client import LocalView, ViewHolder, ViewSource
from tidemark.client.definitions import restored

REFUSED = {"primary_key", "check", "not_null"}
# Statements of which some read columns or rows that a view does not hold, and some the time or other tables.
MORE = (
    "DELETE FROM r WHERE note = 'a'",
    "UPDATE r SET a = LENGTH(note) WHERE k > 3",
    "UPDATE r SET note = CAST(a AS VARCHAR)",
    "DELETE FROM s WHERE d > 1 AND c IS NOT NULL",
    "UPDATE u SET f = f * 1.1",
    "DELETE FROM u WHERE f > 0.1",
    "DELETE FROM r WHERE k IN (SELECT k FROM s WHERE c = 1)",
    "INSERT INTO u SELECT k, a, 0.5, note FROM r WHERE a IS NOT NULL",
    "INSERT INTO r (k) VALUES (40)",
    "DELETE FROM r WHERE k = 40",
    "DELETE FROM u WHERE m < CAST(NOW() AS VARCHAR)",
    "UPDATE r SET a = 1, note = 'q' WHERE k < 8",
    "UPDATE s SET c = 3, d = 0.5 WHERE k > 2",
    "UPDATE u SET a = 2, m = 'q' WHERE x < 4",
)
# Views that often tell by themselves what a statement does to them.
SHOWING = (
    "SELECT k, a, b, note FROM r WHERE {r}",
    "SELECT a, x, f, m FROM u",
    "SELECT a, x FROM u WHERE {u}",
    "SELECT r.k, r.a, r.b, s.j, s.c FROM r JOIN s ON r.k = s.k WHERE {r} AND {s}",
    "SELECT k, a, b, note FROM r",
)


def definition_of(choice: random.Random) -> str:
    if choice.random() < 0.5:
        return histories.definition(choice)
    shape = choice.choice(SHOWING)
    return shape.format(**{name: histories.condition(choice, name) for name in histories.NAMES})


def transaction(choice: random.Random, tables: list[str]) -> list[str]:
    """One to four statements, most of them about these tables."""
    said = [histories.statement(choice, choice.choice(tables)) for _ in range(choice.choice((1, 1, 1, 2, 4)))]
    return [choice.choice(MORE) if choice.random() < 0.2 else text for text in said]


def run(db: tm.Database, statements: list[str]) -> None:
    try:
        with db.transaction() as tx:
            for text in statements:
                tx.execute(text)
    except tm.TidemarkError as error:
        assert error.code in REFUSED, f"{error} in {statements}"


def check_held(local: LocalView, source: ViewSource, db: tm.Database) -> None:
    """A local view holds of each table what matters of it, and nothing else."""
    engine, mine = db._store.engine, local._db._store
    for name, part in source._local._parts.items():
        content = engine.evaluate(Stored(name, db._store.catalog.relations[name].schema), {})
        schema = mine.catalog.relations[name].schema
        held = mine.engine.evaluate(Stored(name, schema), {})
        assert weights_of(held) == weights_of(restored(part.of(content, engine), schema, part.columns)), name


class Elsewhere:
    """A view of a database as it is held and evaluated elsewhere, in every way."""

    def __init__(self, db: tm.Database, view: str) -> None:
        self.db, self.view, self.source = db, view, ViewSource(db, view)
        self.locals = {way: LocalView(self.source.first()) for way in ("statements", "base changes", "fewest")}
        self.holders = {way: ViewHolder(self.source.state()) for way in ("statements", "changes", "fewest")}
        self.kinds: Counter[str] = Counter()

    def follow(self, what: object) -> None:
        expected = bag_of(self.db.query(f"SELECT * FROM {self.view}"))
        for way, local in self.locals.items():
            before = bag_of(local.content)
            if way == "fewest":
                data = self.source.changes(local.tidemark)
            else:
                choices = self.source.local_choices(local.tidemark)
                kind = next(kind for kind in (way, "base changes", "nothing") if kind in choices)
                data = choices[kind]
                self.kinds[f"local {kind}"] += way == "statements"
            change = local.apply(data)
            assert bag_of(local.content) == expected, (self.view, way, what)
            assert before + bag_of(change.inserted) - bag_of(change.deleted) == expected
            check_held(local, self.source, self.db)
        for way, holder in self.holders.items():
            if way == "fewest":
                data = self.source.refresh(holder.tidemark)
            else:
                choices = self.source.choices(holder.tidemark)
                data = next(choices[kind] for kind in (way, "changes", "nothing") if kind in choices)
            self.kinds[f"holder {holder.apply(data)}"] += way == "statements"
            assert bag_of(holder.content) == expected, (self.view, way, what)

    def close(self) -> None:
        for local in self.locals.values():
            local.close()
        for holder in self.holders.values():
            holder.close()


@pytest.mark.parametrize(("engine", "seeds"), [("reference", 16), ("duckdb", 10)])
def test_what_is_followed_elsewhere_is_what_the_server_has(engine: str, seeds: int) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(seeds):
        choice = random.Random(f"{engine} {seed}")
        with tm.connect(engine) as db:
            db.execute(histories.TABLES)
            for text in histories.first_rows(choice):
                run(db, [text])
            definition = definition_of(choice)
            db.execute(f"CREATE MATERIALIZED VIEW v AS {definition}")
            elsewhere = Elsewhere(db, "v")
            for _ in range(8):
                tables = histories.tables_of(definition)
                said = [transaction(choice, tables) for _ in range(choice.choice((1, 1, 2, 3)))]
                for statements in said:
                    run(db, statements)
                elsewhere.follow((definition, said))
            kinds += elsewhere.kinds
            elsewhere.close()
    by_local = (kinds["local statements"], kinds["local base changes"], kinds["local nothing"])
    by_holder = (kinds["holder statements"], kinds["holder changes"], kinds["holder nothing"])
    assert min(*by_local, *by_holder) > 5, kinds


def test_between_statements_constraints_may_be_violated() -> None:
    """A row without x is nowhere between transactions, so that nothing could enter the view: but within one it can."""
    with tm.connect("reference") as db:
        db.execute("CREATE TABLE t (a INT, x INT NOT NULL); INSERT INTO t VALUES (1, 1), (2, 5)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE x > 2 OR x <= 2")
        source = ViewSource(db, "v")
        holder = ViewHolder(source.state())
        db.execute("BEGIN; UPDATE t SET x = NULL; UPDATE t SET x = 3, a = 7; COMMIT")
        assert set(source.choices(holder.tidemark)) == {"changes", "state"}
        db.execute("BEGIN; DELETE FROM t; INSERT INTO t VALUES (8, 1); COMMIT")
        since = db.version
        db.execute("BEGIN; DELETE FROM t WHERE a = 2; UPDATE t SET a = 9; COMMIT")
        assert "statements" in source.choices(since)
