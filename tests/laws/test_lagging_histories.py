"""Engines agree on what lags, whatever happens to it.

One history is played on the reference engine and on another: after each step the answers, what was delivered, the
codes of errors and the versions are the same, and so are the answers about everything in the end. The reference lives
through restarts, so that what another engine stored is compared with what was never stored. A lake is made to merge,
compact, forget and sweep all the time.

And of each engine by itself: what a relation was, plus the changes since, is what it is.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.conformance.test_continual_queries import Clock
from tests.laws.lagging_histories import ON_READ, SETUP, STORED, Open, Player, Step, questions, step
from tests.support import rows_in_order
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.reference import ReferenceEngine
from tidemark.engines.spark import SparkEngine

RESTLESS: dict[str, Any] = {
    "inline_rows": 1,
    "compact_every": 3,
    "recent_bytes": 1000,
    "sweep_after_seconds": -1,
    "keep_merged_seconds": -1,
}


def play(open_again: Open, folder: Path, seed: int, *, steps: int) -> None:
    choice = random.Random(seed)
    players = [Player(open_again, folder), Player(_reference, folder, durable=False)]
    history: list[Step] = []

    def ask(asked: Step) -> None:
        history.append(asked)
        one, other = ((player.do(asked), player.db.version) for player in players)
        assert one == other, f"{one} is not {other}, after {history}"

    ask(("execute", SETUP))
    for _ in range(steps):
        ask(step(choice))
        for question in questions(choice, tuple(choice.sample(STORED, 1))):
            ask(question)
    for question in questions(choice, STORED):
        ask(question)
    for player in players:
        must_add_up(player.db)
        player.db.close()


def must_add_up(db: tm.Database) -> None:
    """From the oldest version that is kept, the state then and the changes since are the state now.

    A view that is refreshed on read is left out: as of a version it is its definition, whenever it was read."""
    logs = db.execute("SHOW LOG")
    assert logs is not None
    for name, since in zip(logs["relation"].to_pylist(), logs["oldest"].to_pylist(), strict=True):
        if name == ON_READ:
            continue
        changes = db.changes(name, since=since)
        total = Counter(rows_in_order(db.query(f"SELECT * FROM {name} AS OF VERSION {since}")))
        weights = changes["_weight"].to_pylist()
        for row, weight in zip(
            rows_in_order(changes.drop_columns(["_version", "_weight", "_time"])), weights, strict=True
        ):
            total[row] += weight
        now = Counter(rows_in_order(db.query(f"SELECT * FROM {name}")))
        assert {row: weight for row, weight in total.items() if weight} == now, name


def _reference(folder: Path, clock: Clock) -> tm.Database:
    return tm.Database(ReferenceEngine(), clock=clock)


@pytest.mark.parametrize("seed", range(10))
def test_a_file_agrees_with_the_reference(seed: int, tmp_path: Path) -> None:
    def open_again(folder: Path, clock: Clock) -> tm.Database:
        return tm.Database(DuckDBEngine(str(folder / "data.duckdb")), clock=clock)

    play(open_again, tmp_path, seed, steps=40)


@pytest.mark.spark
@pytest.mark.parametrize(("seed", "forget_every"), [(1, 9), (9, 9), (24, 9), (0, 1), (16, 2)])
def test_a_lake_agrees_with_the_reference(seed: int, forget_every: int, spark: Any, tmp_path: Path) -> None:
    def open_again(folder: Path, clock: Clock) -> tm.Database:
        options = {**RESTLESS, "forget_every": forget_every}
        return tm.Database(SparkEngine(str(folder / "lake"), spark, **options), clock=clock)

    play(open_again, tmp_path, seed, steps=40)
