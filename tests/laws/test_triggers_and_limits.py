"""A trigger that counts changes, against a plain dictionary, whatever the limits of the log and however often it is
opened again: a result comes in the transaction that makes it hold, and holds exactly what changed since the last."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import tidemark as tm
from tests.support import rows

State = dict[int, int]
WAYS = (
    "ON CHANGE OF {n} ROWS",
    "ON CHANGE OF {n} ROWS IN t",
    "WHEN COUNT(*) >= {n}",
    "WHEN COUNT(new.a) + COUNT(old.a) - COUNT(CASE WHEN new.a = old.a THEN 1 END) >= {n} IN t",
)


def changed(before: State, after: State) -> set[int]:
    """The keys whose rows came, went or were modified."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def play(target: str, seed: int, steps: int) -> None:
    choice = random.Random(seed)
    number, state, last = choice.randint(1, 12), State(), State()
    db = tm.connect(target)
    db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    trigger = choice.choice(WAYS).format(n=number)
    db.execute(f"CREATE CONTINUAL QUERY q AS SELECT a, b FROM t TRIGGER {trigger}")
    reader, told = db.results("q", name="reader"), 0
    for _ in range(steps):
        a, b = choice.randrange(10), choice.randrange(3)
        match choice.choice(("insert", "insert", "delete", "update", "limit", "restart")):
            case "insert" if a not in state:
                db.execute(f"INSERT INTO t VALUES ({a}, {b})")
                state = {**state, a: b}
            case "delete":
                db.execute(f"DELETE FROM t WHERE a = {a}")
                state = {key: value for key, value in state.items() if key != a}
            case "update":
                db.execute(f"UPDATE t SET b = {b} WHERE a > {a}")
                state = {key: b if key > a else value for key, value in state.items()}
            case "limit":
                db.execute(f"ALTER LOG SET (versions = {choice.choice(('0', '1', '3', 'none'))})")
            case "restart" if target != "reference":
                reader.close()
                db.close()
                db = tm.connect(target)
                reader = db.results("q", name="reader")
        found = reader.poll()
        if len(changed(last, state)) < number:
            assert found is None, f"{trigger} has answered though {changed(last, state)} are too few"
            continue
        told += 1
        assert found is not None and found.number == told and reader.poll() is None
        keys = changed(last, state)
        assert rows(found.inserted) == sorted((key, state[key]) for key in keys - last.keys())
        assert rows(found.deleted) == sorted((key, last[key]) for key in keys - state.keys())
        assert found.updated is not None and found.updated.num_rows == len(keys & last.keys() & state.keys())
        last = state
    assert db.audit("q").num_rows == 0
    db.close()


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_a_result_comes_when_its_time_has_come(engine: str, seed: int, tmp_path: Path) -> None:
    play("reference" if engine == "reference" else f"duckdb:{tmp_path}/file", seed, steps=60)


@pytest.mark.spark
@pytest.mark.parametrize("seed", [3, 4])
def test_on_a_lake(seed: int, tmp_path: Path) -> None:
    play(f"spark:{tmp_path}/lake", seed, steps=40)
