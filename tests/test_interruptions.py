"""One exception at every line that runs in a statement, a transaction, a commit, a definition and a close.

After each the database is as before or as after, in memory and when it is opened again, and goes on: written against
the public interface alone. On Spark a sample runs; ``TIDEMARK_INTERRUPT_ALL=1`` runs all of it.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.effort import LEVEL
from tests.interruptions import Interruptions, Place, Unforeseen
from tests.support import AHEAD, bag_of, rows
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.spark import SparkEngine

Row = tuple[Any, ...]
ALL = os.environ.get("TIDEMARK_INTERRUPT_ALL") == "1"
SEED = int(os.environ.get("TIDEMARK_INTERRUPT_SEED", "15"))
FEW = 200
CHECKED_EVERY, UNSEEN = 24, 6
"""Everything is looked at after so many interruptions; those inside what stores and remembers count more."""
ANEW_AFTER = 20
"""After so many looks at everything another database begins: reading all of its log takes ever longer."""

SETUP = """
CREATE TABLE t (k INT PRIMARY KEY, g INT, n INT);
CREATE TABLE seen (k INT);
CREATE MATERIALIZED VIEW sums AS SELECT g, COUNT(*) AS rows, SUM(n) AS n FROM t GROUP BY g;
CREATE MATERIALIZED VIEW pairs AS
    SELECT a.k AS a, b.k AS b FROM t a JOIN t b ON a.g = b.g AND a.k < b.k WHERE a.g < 100;
CREATE CONTINUAL QUERY news AS SELECT k, n FROM t WHERE g = 7 TRIGGER ON CHANGE OF 1 ROWS;
CREATE RULE watch ON INSERT ON t WHEN SELECT k FROM inserted WHERE g = 7 DO INSERT INTO seen SELECT k FROM condition
    WITH (coupling = 'detached', backoff = 0);
ACTIVATE RULE watch;
INSERT INTO t VALUES (1, 1, 10), (2, 1, 20), (3, 7, 30);
"""


@dataclass
class Model:
    """What the database holds: the rows of the table, who was seen by the rule, and what else is defined."""

    table: dict[int, tuple[int, int]] = field(default_factory=lambda: {1: (1, 10), 2: (1, 20), 3: (7, 30)})
    seen: Counter[int] = field(default_factory=lambda: Counter({3: 1}))
    others: frozenset[str] = frozenset()

    def with_rows(self, *added: Row) -> Model:
        table = {**self.table, **{k: (g, n) for k, g, n in added}}
        return Model(table, self.seen + Counter(k for k, g, _ in added if g == 7), self.others)

    def without(self, gone: Callable[[int, int, int], bool]) -> Model:
        table = {k: (g, n) for k, (g, n) in self.table.items() if not gone(k, g, n)}
        return Model(table, self.seen, self.others)

    def changed(self, change: Callable[[int, int, int], int]) -> Model:
        return Model({k: (g, change(k, g, n)) for k, (g, n) in self.table.items()}, self.seen, self.others)

    def defining(self, *names: str) -> Model:
        return Model(self.table, self.seen, frozenset(names))

    @property
    def sums(self) -> set[Row]:
        groups: dict[int, list[int]] = {}
        for g, n in self.table.values():
            groups.setdefault(g, []).append(n)
        return {(g, len(found), sum(found)) for g, found in groups.items()}

    @property
    def relations(self) -> dict[str, Iterable[Row]]:
        return {
            "t": [(k, g, n) for k, (g, n) in self.table.items()],
            "sums": self.sums,
            "pairs": self.pairs,
            "news": [(k, n) for k, (g, n) in self.table.items() if g == 7],
            "seen": [(k,) for k in self.seen.elements()],
        }

    @property
    def pairs(self) -> set[Row]:
        by_group: dict[int, list[int]] = {}
        for k, (g, _) in self.table.items():
            if g < 100:
                by_group.setdefault(g, []).append(k)
        return {(a, b) for found in by_group.values() for a in found for b in found if a < b}


Effect = Callable[[Model], Model]
Step = Callable[["Trial"], tuple[Callable[[], object], Effect]]
"""Something to do, which is made for a database as it is, and what it does to the model."""


class Trial:
    """A durable database with its model and a subscriber, through many interruptions."""

    def __init__(self, place: Path, connect: Callable[[Path], tm.Database]) -> None:
        self._place, self._connect = place, connect
        self._number = self._checks = self.unchecked = 0
        self._next_key = 10
        self.is_closing = False
        self._begin()

    def _begin(self) -> None:
        self._number += 1
        self._path = self._place / f"database{self._number}"
        self.model = Model()
        self.db = self._connect(self._path)
        self.db.execute(SETUP)
        self._follow()

    def _follow(self) -> None:
        self.subscription = self.db.subscribe("sums")
        self.heard: Counter[Row] = Counter()
        self._hear()

    def _hear(self) -> None:
        while (change := self.subscription.poll()) is not None:
            self.heard.update(rows(change.inserted))
            self.heard.subtract(rows(change.deleted))

    def fresh(self, count: int, *groups: int) -> list[Row]:
        """Rows with keys that were never there."""
        first, self._next_key = self._next_key, self._next_key + count
        return [(first + i, groups[i % len(groups)], i) for i in range(count)]

    def close(self) -> None:
        self.db.close()
        shutil.rmtree(self._path) if self._path.is_dir() else self._path.unlink()

    def run(self, step: Step, interruptions: Interruptions) -> bool:
        """Do a step with one interruption in it, and check everything; whether there was one."""
        act, effect = step(self)
        failed = self._try(act, interruptions)
        if self.is_closing:
            self.db.close()  # again, if that was interrupted
            self.reopen()
        elif failed:
            self._roll_back()
        after = effect(self.model)
        self.model = self._which(self.model, after) if failed else after
        self._go_on()
        self._check_content("t", "sums")
        self.unchecked += UNSEEN if _is_inside(interruptions.place) else 1
        if self.unchecked >= CHECKED_EVERY or not failed:
            self.check_all()
        return interruptions.place is not None

    def check_all(self) -> None:
        """Everything, in memory and as it is opened again."""
        self._check()
        self.reopen()
        self._check()
        for version in range(1, self.db.version + 1):
            self.db.trace(version)
        self._checks, self.unchecked = self._checks + 1, 0
        if self._checks % ANEW_AFTER == 0:
            self.close()
            self._begin()

    def _try(self, act: Callable[[], object], interruptions: Interruptions) -> bool:
        try:
            with interruptions.one():
                act()
        except (KeyboardInterrupt, Unforeseen):
            return True
        except tm.TidemarkError as error:
            assert interruptions.place is not None, error
            assert error.code in ("internal", "action", "out_of_memory"), error
            return True
        return False

    def _roll_back(self) -> None:
        """A transaction that BEGIN opened may be open; nothing else is."""
        try:
            self.db.execute("ROLLBACK")
        except tm.TidemarkError as error:
            assert error.code == "transaction", error

    def _which(self, before: Model, after: Model) -> Model:
        found = {k: (g, n) for k, g, n in rows(self.db.query("SELECT * FROM t"))}
        there = {name for name in ("extra", "fresh") if _is_there(self.db, name)}
        is_before = found == before.table and there == before.others
        is_after = found == after.table and there == after.others
        assert is_before or is_after, f"neither before nor after: {sorted(found.items())}, {there}"
        return after if is_after else before

    def _go_on(self) -> None:
        """The connection goes on: a transaction, and a version more."""
        [row], version = self.fresh(1, 7), self.db.version
        self.db.insert("t", [row])
        self.model = self.model.with_rows(row)
        if len(self.model.table) > FEW:
            self.db.execute("DELETE FROM t WHERE k > 3")
            self.model = self.model.without(lambda k, g, n: k > 3)
        assert self.db.version > version

    def reopen(self) -> None:
        self.db.close()
        self.db = self._connect(self._path)
        self._follow()

    def _check_content(self, *names: str) -> None:
        for name in names:
            found, wanted = bag_of(self.db.query(f"SELECT * FROM {name}")), Counter(self.model.relations[name])
            assert found == wanted, f"{name} is {found}, and not {wanted}"

    def _check(self) -> None:
        db, model = self.db, self.model
        db.run_due()
        self._check_content(*model.relations)
        for name, content in model.relations.items():
            assert _summed(db.changes(name)) == Counter(content), f"changes of {name} do not sum up to its content"
        for name in ("sums", "pairs", "news"):
            assert db.audit(name).num_rows == 0
        self._hear()
        assert +self.heard == Counter(model.sums), "a subscriber hears of each version once"


def _is_inside(place: Place | None) -> bool:
    """Whether a line is one of those that store and remember; all others only work something out."""
    return place is not None and place[0].startswith(
        ("session/", "changes/", "rules/", "snapshots/", "state/", "engines/", "storage/")
    )


def _summed(changes: Any) -> Counter[Row]:
    total: Counter[Row] = Counter()
    per_version: Counter[Row] = Counter()
    names = [name for name in changes.column_names if not name.startswith("_")]
    plain = rows_in_order_of(changes, names)
    for row, version, weight in zip(
        plain, changes["_version"].to_pylist(), changes["_weight"].to_pylist(), strict=True
    ):
        total[row] += weight
        per_version[(version, row)] += 1
    assert max(per_version.values(), default=1) == 1, "changes are net per version"
    return +total


def rows_in_order_of(table: Any, names: list[str]) -> list[Row]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def _is_there(db: tm.Database, name: str) -> bool:
    return name in {row[0] for row in rows(db.execute("SHOW TABLES"))} | {
        row[0] for row in rows(db.execute("SHOW VIEWS"))
    }


# The steps


def insert(trial: Trial) -> tuple[Callable[[], object], Effect]:
    added = trial.fresh(2, 1, 7)
    return lambda: trial.db.execute(f"INSERT INTO t VALUES {', '.join(map(str, added))}"), lambda m: m.with_rows(*added)


def insert_rows(trial: Trial) -> tuple[Callable[[], object], Effect]:
    added = trial.fresh(3, 1, 2, 7)
    return lambda: trial.db.insert("t", added), lambda m: m.with_rows(*added)


def insert_many(trial: Trial, many: int) -> tuple[Callable[[], object], Effect]:
    added = trial.fresh(many, 100)
    return lambda: trial.db.insert("t", added), lambda m: m.with_rows(*added)


def delete_many(trial: Trial) -> tuple[Callable[[], object], Effect]:
    return lambda: trial.db.execute("DELETE FROM t WHERE k > 3"), lambda m: m.without(lambda k, g, n: k > 3)


def update(trial: Trial) -> tuple[Callable[[], object], Effect]:
    def effect(model: Model) -> Model:
        return model.changed(lambda k, g, n: n + 2 * (g == 7))

    return lambda: trial.db.execute("UPDATE t SET n = n + 2 WHERE g = 7"), effect


def transact(trial: Trial) -> tuple[Callable[[], object], Effect]:
    added = trial.fresh(2, 1, 7)

    def act() -> None:
        with trial.db.transaction() as tx:
            tx.insert("t", added)
            tx.query("SELECT * FROM sums")
            tx.execute("UPDATE t SET n = n + 3 WHERE g = 1; DELETE FROM t WHERE n < 0")

    return act, lambda m: m.with_rows(*added).changed(lambda k, g, n: n + 3 * (g == 1))


def script(trial: Trial) -> tuple[Callable[[], object], Effect]:
    [row] = added = trial.fresh(1, 7)
    text = f"BEGIN; INSERT INTO t VALUES {row}; UPDATE t SET n = n + 3 WHERE g = 1; COMMIT; SELECT 1 AS one"
    return lambda: trial.db.execute(text), lambda m: m.with_rows(*added).changed(lambda k, g, n: n + 3 * (g == 1))


def define(trial: Trial) -> tuple[Callable[[], object], Effect]:
    """Define a view and a table if they are not there, else drop them."""
    if trial.model.others:
        texts, after = ("DROP MATERIALIZED VIEW extra", "DROP TABLE fresh"), frozenset[str]()
    else:
        view = "CREATE MATERIALIZED VIEW extra AS SELECT g, MAX(n) AS most FROM t GROUP BY g"
        texts, after = ("CREATE TABLE fresh (a INT)", view), frozenset({"fresh", "extra"})

    def act() -> None:
        with trial.db.transaction() as tx:
            for text in texts:
                tx.execute(text)

    return act, lambda m: Model(m.table, m.seen, after)


def checkpoint(trial: Trial) -> tuple[Callable[[], object], Effect]:
    """With something that the tables do not have yet."""
    added = trial.fresh(1, 7)
    trial.db.insert("t", added)
    trial.model = trial.model.with_rows(*added)
    return lambda: trial.db.execute("CHECKPOINT"), lambda m: m


def close(trial: Trial) -> tuple[Callable[[], object], Effect]:
    trial.is_closing = True
    return trial.db.close, lambda m: m


def run_all(trial: Trial, steps: dict[str, Step], interruptions: Interruptions) -> None:
    """Each step as often as there is a line at which it was not interrupted."""
    for name, step in steps.items():
        interruptions.begin_step(name)
        in_vain = 0
        while in_vain < 2:  # a definition and its drop take turns
            in_vain = 0 if trial.run(step, interruptions) else in_vain + 1
        trial.is_closing = False


SMALL: dict[str, Step] = {
    "insert": insert,
    "insert rows": insert_rows,
    "update": update,
    "transaction": transact,
    "script": script,
    "define": define,
    "checkpoint": checkpoint,
    "close": close,
}


def duckdb(place: Path) -> tm.Database:
    return tm.connect(f"duckdb:{place}")


@pytest.mark.parametrize(
    ("make", "share"), [(KeyboardInterrupt, 0.04), (Unforeseen, 0.02)], ids=["interrupt", "failure"]
)
def test_a_sample_on_duckdb(tmp_path: Path, make: type[BaseException], share: float) -> None:
    trial = Trial(tmp_path, duckdb)
    interruptions = Interruptions(make, seed=SEED, share=share)
    run_all(trial, SMALL, interruptions)
    assert interruptions.count > 20, "hardly anything was interrupted: the test proves nothing"
    trial.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "share"), [(KeyboardInterrupt, 0.03), (Unforeseen, 0.02)], ids=["interrupt", "failure"]
)
def test_a_sample_on_duckdb_with_every_change_written_ahead(
    tmp_path: Path, make: type[BaseException], share: float
) -> None:
    trial = Trial(tmp_path, lambda place: tm.Database(DuckDBEngine(str(place), limits=AHEAD)))
    interruptions = Interruptions(make, seed=SEED, share=share)
    run_all(trial, {"insert rows": insert_rows, "transaction": transact, "delete many": delete_many}, interruptions)
    assert interruptions.count > 10, "hardly anything was interrupted: the test proves nothing"
    trial.close()


@pytest.mark.slow
@pytest.mark.skipif(LEVEL != "long", reason="takes more than ten minutes: make test-long")
@pytest.mark.timeout(3600)
def test_every_line_on_duckdb(tmp_path: Path) -> None:
    """Deltas of more than 50,000 rows are logged in another way: of those, the lines that no other step has."""
    trial = Trial(tmp_path, duckdb)
    interruptions = Interruptions(seed=SEED)
    run_all(trial, {**SMALL, "many": lambda trial: insert_many(trial, 50_001)}, interruptions)
    assert interruptions.count > 1000, "hardly anything was interrupted: the test proves nothing"
    trial.close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_failure_at_some_lines_on_duckdb(tmp_path: Path) -> None:
    trial = Trial(tmp_path, duckdb)
    interruptions = Interruptions(Unforeseen, seed=SEED, share=0.2 if LEVEL == "long" else 0.1)
    run_all(trial, SMALL, interruptions)
    assert interruptions.count > 80, "hardly anything was interrupted: the test proves nothing"
    trial.close()


STAGED: dict[str, Step] = {**SMALL, "many": lambda trial: insert_many(trial, 12), "delete many": delete_many}


@pytest.mark.spark
@pytest.mark.timeout(10_000)
@pytest.mark.parametrize(
    ("make", "share"), [(KeyboardInterrupt, 0.008), (Unforeseen, 0.005)], ids=["interrupt", "failure"]
)
def test_a_sample_on_spark(tmp_path: Path, spark: Any, make: type[BaseException], share: float) -> None:
    """Deltas of more than four rows are staged, merges and compactions come often."""
    few = {"inline_rows": 4, "merge_rows": 40, "compact_every": 6}
    trial = Trial(tmp_path, lambda place: tm.Database(SparkEngine(str(place), spark, **few)))
    interruptions = Interruptions(make, seed=SEED, share=1.0 if ALL else share)
    run_all(trial, STAGED, interruptions)
    assert interruptions.count > 10, "hardly anything was interrupted: the test proves nothing"
    trial.close()
