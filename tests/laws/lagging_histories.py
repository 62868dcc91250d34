"""Random histories of what lags: changes, passing time, limits of the log, readers that come and go, and restarts.

A step is a name with arguments; a player does it to its database and says what came of it, so that the same history
can be played on several engines and every answer, every delivery and every error be compared.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

import tidemark as tm
from tests.conformance.test_continual_queries import Clock

Step: TypeAlias = tuple[Any, ...]
Open: TypeAlias = Callable[[Path, Clock], tm.Database]

SETUP = """
CREATE TABLE k (a INT PRIMARY KEY, b INT, c VARCHAR);
CREATE TABLE n (b INT, d DECIMAL(8,2));
CREATE MATERIALIZED VIEW total AS SELECT b, COUNT(*) AS m, SUM(a) AS s FROM k GROUP BY b;
CREATE EXTERNAL VIEW ext AS SELECT b FROM k WHERE c IS NULL;
"""
QUERIES = (
    "SELECT a, b, c FROM k WHERE b > 1",
    "SELECT k.a, n.d FROM k JOIN n ON k.b = n.b",
    "SELECT k.a, k.c, n.d FROM k LEFT JOIN n ON k.b = n.b",
    "SELECT b, COUNT(*) AS m, MIN(d) AS least FROM n GROUP BY b",
    "SELECT b, d FROM n",
    "SELECT b, s FROM total WHERE m > 1",
    "SELECT a FROM k WHERE NOT EXISTS (SELECT 1 FROM n WHERE n.b = k.b)",
    "SELECT x.a, y.a AS other FROM k AS x JOIN k AS y ON x.b = y.b AND x.a < y.a",
    "SELECT a, 12 / b AS share FROM k",
)
TRIGGERS = (
    "ON CHANGE",
    "ON CHANGE OF 3 ROWS IN k",
    "EVERY '1 hour'",
    "AT '0 12 * * *'",
    "WHEN COUNT(*) > 1 IN n",
    "WHEN ABS(SUM(new.b) - SUM(old.b)) > 2 IN k",
    "EVERY '2 hours' AND ON CHANGE",
    "ON CHANGE OF 4 ROWS OR AT '@hourly'",
)
"""None asks the state alone: such a condition is asked once after a restart, though nothing has changed."""
ENDS = ("", "", "", "UNTIL 2 RESULTS", "UNTIL '2027-01-02'", "UNTIL WHEN (SELECT COUNT(*) FROM k) > 6")
DELIVERED = ("", "DELIVER INSERTIONS", "DELIVER DELETIONS", "DELIVER COMPLETE")
LIMITS = (
    "versions = 0",
    "versions = 1",
    "versions = 3",
    "versions = none",
    "age = '2 hours'",
    "age = none",
    "size = 1",
)
SNAPSHOTS, CONTINUAL, ON_READ = ("s0", "s1"), ("q0", "q1"), "r0"
LAGGING = (*SNAPSHOTS, *CONTINUAL, ON_READ)
STORED = ("k", "n", "total", *LAGGING)
SHOWN = ("LOG", "CONSUMERS", "SNAPSHOTS", "CONTINUAL QUERIES")


def statement(choice: random.Random) -> str:
    """A change of one of the tables; some fail."""
    pick = choice.choice
    b, c, d = pick(("NULL", "0", "1", "2", "3")), pick(("NULL", "'x'", "''")), pick(("NULL", "1.50", "2"))
    return pick(
        (
            f"INSERT INTO k (a, b, c) VALUES ({choice.randrange(8)}, {b}, {c})",
            f"INSERT INTO k (a, b, c) SELECT a + 8, b, c FROM k WHERE a + 8 NOT IN (SELECT a FROM k) AND b = {b}",
            f"DELETE FROM k WHERE a = {choice.randrange(8)}",
            f"DELETE FROM k WHERE b = {b}",
            f"UPDATE k SET b = {b}, c = {c} WHERE a < {choice.randrange(8)}",
            "UPDATE k SET b = b",
            f"UPDATE k SET a = a + 1 WHERE a = {choice.randrange(8)}",
            f"INSERT INTO n (b, d) VALUES ({b}, {d}), ({b}, {d}), (1, 1)",
            f"INSERT INTO n (b, d) SELECT b, d FROM n WHERE b = {b}",
            f"DELETE FROM n WHERE b = {b}",
            f"UPDATE n SET d = d + 1 WHERE b > {choice.randrange(3)}",
        )
    )


def definition(choice: random.Random) -> str:
    """Something that lags begins."""
    pick = choice.choice
    query, lag = pick(QUERIES), pick(("keep", "refresh", "invalidate"))
    match choice.randrange(4):
        case 0:
            how = pick(("ON DEMAND", "ON DEMAND", "EVERY '1 hour'"))
            return f"CREATE SNAPSHOT {pick(SNAPSHOTS)} WITH (lag = '{lag}') AS {query} REFRESH {how}"
        case 1:
            return f"CREATE MATERIALIZED VIEW {ON_READ} WITH (refresh = 'on read', lag = '{lag}') AS {query}"
    clauses = f"TRIGGER {pick(TRIGGERS)} {pick(ENDS)} {pick(DELIVERED)}"
    return f"CREATE CONTINUAL QUERY {pick(CONTINUAL)} WITH (lag = 'keep') AS {query} {clauses}"


def end(choice: random.Random) -> str:
    kinds = {"SNAPSHOT": SNAPSHOTS, "CONTINUAL QUERY": CONTINUAL, "MATERIALIZED VIEW": (ON_READ,)}
    kind = choice.choice(list(kinds))
    return f"DROP {kind} {choice.choice(kinds[kind])}"


def transaction(choice: random.Random) -> Step:
    """Several statements at once; some give a key away and take it again, and some are rolled back."""
    texts = [statement(choice) for _ in range(choice.randint(1, 3))]
    if choice.random() < 0.4:
        a = choice.randrange(8)
        texts += [f"DELETE FROM k WHERE a = {a}", f"INSERT INTO k (a, b, c) VALUES ({a}, 2, NULL)"]
    if choice.random() < 0.3:
        texts.append(choice.choice((definition(choice), end(choice), f"SELECT * FROM {choice.choice(STORED)}")))
    return ("transaction", texts, choice.random() < 0.15)


def state_of_source(choice: random.Random) -> Step:
    """What a source gives that knows no old values."""
    rows = [(a, choice.choice((None, 1, 2)), choice.choice((None, "x"))) for a in choice.sample(range(8), 4)]
    if choice.random() < 0.6:
        return ("sync", rows)
    return ("sync changed", rows[:2], [(a,) for a, _, _ in rows[choice.randrange(2) :]])


def subscription(choice: random.Random) -> Step:
    chosen: dict[str, Any] = {"precision": choice.choice(("net", "each version"))}
    maybe = {"max_staleness": 1800, "batch": 2, "name": "somebody", "lag": "invalidate", "paired": True}
    chosen.update((option, value) for option, value in maybe.items() if choice.random() < 0.3)
    return ("subscribe", choice.choice((*STORED, "k", "n", "ext")), choice.choice((None, 0, 2)), chosen)


def step(choice: random.Random) -> Step:
    """One thing that happens."""
    kinds: list[tuple[int, Callable[[], Step]]] = [
        (28, lambda: ("execute", statement(choice))),
        (14, lambda: transaction(choice)),
        (6, lambda: state_of_source(choice)),
        (8, lambda: ("time", choice.choice((10, 60, 240, 1440)), choice.random() < 0.6)),
        (12, lambda: ("execute", definition(choice))),
        (3, lambda: ("execute", end(choice))),
        (6, lambda: ("refresh", choice.choice(LAGGING))),
        (5, lambda: ("execute", f"ALTER LOG SET ({choice.choice(LIMITS)})")),
        (3, lambda: subscription(choice)),
        (3, lambda: ("read", choice.choice(CONTINUAL), choice.choice((-1, 0, 1)), choice.choice((None, "reader")))),
        (8, lambda: ("poll", choice.choice(("changes", "results")), choice.choice((1, 2, 9)))),
        (1, lambda: ("execute", "ALTER TABLE k ADD COLUMN e INT DEFAULT 5")),
        (1, lambda: ("execute", "CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT b, 2 AS m, 1 AS s FROM k")),
        (4, lambda: ("restart", choice.random() < 0.5)),
    ]
    return choice.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()


def questions(choice: random.Random, names: tuple[str, ...]) -> Iterator[Step]:
    """What is asked about the database: what there is, what it was, and how it came."""
    yield from (("show", what) for what in SHOWN)
    for name in names:
        yield ("changes", name, choice.choice((0, 1, 3, 99)))
        yield ("as of", name, choice.choice((0, 1, 3, 99)))
        yield ("execute", f"SELECT * FROM {name}")
        if name in LAGGING:
            yield ("audit", name)


class Player:
    """A database that a history is played on. One that is not ``durable`` lives on through restarts; whoever follows
    it does not."""

    def __init__(self, open_again: Open, folder: Path, *, durable: bool = True) -> None:
        self._open, self._folder, self._durable = open_again, folder, durable
        self._clock, self._copies = Clock(), 0
        self.db = open_again(self._place, self._clock)
        self._following: dict[str, Any] = {}

    @property
    def _place(self) -> Path:
        found = self._folder / str(self._copies)
        found.mkdir(exist_ok=True, parents=True)
        return found

    def do(self, step: Step) -> tuple[str, Any]:
        """What came of a step: an answer, or the code of an error."""
        try:
            return ("answer", self._answer(*step))
        except tm.TidemarkError as error:
            return ("error", error.code)

    def _answer(self, kind: str, *given: Any) -> Any:
        db = self.db
        match kind, *given:
            case "execute", text:
                return shown(db.execute(text))
            case "transaction", texts, is_given_up:
                with db.transaction() as tx:
                    answers = [shown(tx.execute(text)) for text in texts]
                    if is_given_up:
                        raise tm.TidemarkError("given up", "the program thought better of it")
                return answers
            case "sync", rows:
                return db.sync("k", rows)
            case "sync changed", changed, present:
                return db.sync("k", changed=changed, present=present)
            case "time", minutes, is_told:
                self._clock.pass_by(minutes=minutes)
                return db.run_due() if is_told else None
            case "refresh", name:
                return db.refresh(name)
            case "subscribe", name, back, options:
                return self._follow("changes", lambda: db.subscribe(name, self._back(back), **options))
            case "read", query, after, name:
                return self._follow("results", lambda: db.results(query, after, name=name))
            case "poll", what, times:
                following = self._following.get(what)
                return None if following is None else [delivered(following.poll()) for _ in range(times)]
            case "show", what:
                return listed(db.execute(f"SHOW {what}"))
            case "changes", name, back:
                return shown(db.changes(name, since=self._back(back) or 0))
            case "as of", name, back:
                return shown(db.query(f"SELECT * FROM {name} AS OF VERSION {self._back(back)}"))
            case "audit", name:
                return shown(db.audit(name))
            case "restart", is_killed:
                return self._restart(is_killed=is_killed)
        raise ValueError(kind)

    def _back(self, versions: int | None) -> int | None:
        return None if versions is None else max(0, self.db.version - versions)

    def _follow(self, what: str, begin: Callable[[], Any]) -> None:
        if what in self._following:
            self._following.pop(what).close()
        self._following[what] = begin()

    def _restart(self, *, is_killed: bool) -> None:
        """Another process goes on: with what the first one closed, or with what lay on disk in the middle of it."""
        self._following.clear()  # nobody has them any more, and what they did not acknowledge comes again
        if self._durable:
            before = self._place
            self._copies += is_killed
            if is_killed:
                shutil.copytree(before, self._place, dirs_exist_ok=True)
            self.db.close()
            self.db = self._open(self._place, self._clock)
        self.db.run_due()


def delivered(found: Any) -> Any:
    """A change or a result, to be compared."""
    if found is None:
        return None
    parts = ("inserted", "deleted", "updated", "rows")
    number, time = getattr(found, "number", None), getattr(found, "time", None)
    return (found.version, number, time, *(shown(getattr(found, part, None)) for part in parts))


def shown(table: pa.Table | None) -> Any:
    """A table as names, types and a bag of rows, to be compared."""
    if table is None:
        return None
    return table.schema.names, [str(kind) for kind in table.schema.types], bag(table)


def bag(table: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in table.to_pylist())


def listed(table: pa.Table | None) -> list[tuple[Any, ...]]:
    """What SHOW says, without what engines may differ in: how many bytes there are, in how many pieces, and the words
    of an error. Those who follow without a name have a number in the process."""
    assert table is not None
    own = [name for name in ("bytes", "versions") if name in table.column_names]
    return [tuple(_told(name, value) for name, value in row.items()) for row in table.drop_columns(own).to_pylist()]


def _told(column: str, value: Any) -> Any:
    if column == "error":
        return value is not None
    return "unnamed" if str(value).startswith(("subscription ", "results ")) else value
