"""Times of commits, against a plain list of what was true when.

A clock goes on, stands still and goes back; the log has limits now and then, and the database is opened again. Whatever
happens, AS OF a time is what the list says was true at the last commit up to that time, or the error that names the
oldest version; and every logged change has the time of its version.
"""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pytest

import tidemark as tm
from tests.conformance.test_continual_queries import Clock
from tests.support import rows

Rows = list[tuple[int, ...]]


class Model:
    """The time of each commit, and what was true then; ``oldest`` is the first version that the limits keep."""

    def __init__(self) -> None:
        self.commits: list[tuple[dt.datetime, Rows]] = []
        self.oldest = 1

    def commit(self, now: dt.datetime, content: Rows) -> None:
        time = max([now, *(time for time, _ in self.commits[-1:])])
        self.commits.append((time, content))

    def at(self, time: dt.datetime) -> Rows | None:
        known = [content for at, content in self.commits[self.oldest - 1 :] if at <= time]
        return known[-1] if known else None


def play(target: str, seed: int, steps: int) -> None:
    choice, clock, model = random.Random(seed), Clock(), Model()
    db = tm.connect(target, clock=clock)
    db.execute("CREATE TABLE t (a INT)")
    model.commit(clock.now, [])
    content: Rows = []
    for step in range(steps):
        match choice.choice(
            ("insert", "insert", "insert", "delete", "time", "time", "back", "limit", "restart", "ask")
        ):
            case "insert":
                db.execute(f"INSERT INTO t VALUES ({step})")
                content = [*content, (step,)]
                model.commit(clock.now, content)
            case "delete":
                gone = choice.randrange(step + 1)
                db.execute(f"DELETE FROM t WHERE a = {gone}")
                content = [row for row in content if row != (gone,)]
                model.commit(clock.now, content)
            case "time":
                clock.now += dt.timedelta(seconds=choice.choice((1, 60, 3600)))
            case "back":
                clock.now -= dt.timedelta(seconds=choice.choice((1, 60, 3600)))
            case "limit":
                kept = choice.randrange(12)
                db.execute(f"ALTER LOG SET (versions = {kept})")
                model.oldest = max(model.oldest, db.version - kept)
                db.execute("ALTER LOG SET (versions = none)")
            case "restart" if not target.startswith("reference"):
                db.close()
                db = tm.connect(target, clock=clock)
        assert db.version == len(model.commits)
        ask(db, model, choice)
    db.close()


def ask(db: tm.Database, model: Model, choice: random.Random) -> None:
    near = choice.choice(model.commits)[0] + dt.timedelta(microseconds=choice.choice((-1, 0, 1)))
    expected = model.at(near)
    try:
        found: Rows | None = rows(db.query(f"SELECT * FROM t AS OF TIMESTAMP '{near}'"))
    except tm.TidemarkError as error:
        assert error.code == "version" and f"the oldest version is {model.oldest}" in str(error.hint)
        found = None
    assert found == expected, near
    stamped = {(row["_version"], row["_time"]) for row in db.changes("t", since=model.oldest).to_pylist()}
    assert stamped <= {(number, time) for number, (time, _) in enumerate(model.commits, 1)}
    listed = db.execute("SHOW VERSIONS")
    assert listed is not None
    assert [(row["version"], row["time"]) for row in reversed(listed.to_pylist())] == [
        (number, time) for number, (time, _) in enumerate(model.commits, 1) if number >= model.oldest
    ]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_a_time_means_the_last_version_then(engine: str, seed: int, tmp_path: Path) -> None:
    play("reference" if engine == "reference" else f"duckdb:{tmp_path}/file", seed, steps=60)


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 2])
def test_on_a_lake(seed: int, tmp_path: Path) -> None:
    play(f"spark:{tmp_path}/lake", seed, steps=50)
