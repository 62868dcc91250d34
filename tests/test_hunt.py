"""The hunt itself: a short one finds nothing, and one with a rule of DuckDB that is known to be wrong finds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hunt.__main__ import main
from tests.hunt.kinds import KINDS, round_of
from tests.hunt.playing import Tally, play
from tests.hunt.shrinking import script, shrunk
from tests.hunt.steps import Ask, Checkpoint, Load, Round, Run
from tests.test_duckdb_rules import ALL_BUT_DEFECTS

SHORT = 12
PRUNED = Round(
    "CREATE TABLE p (n INT, g INT); CREATE TABLE k (n INT, h INT);",
    {"p": 2, "k": 2},
    (
        Load(485, 1, 1),
        Ask("SELECT COUNT(*) AS n FROM p"),
        Load(-659, 10, 3),
        Checkpoint(),
        Run(("DELETE FROM p",)),
        Load(187, 1, 1),
        Ask("SELECT n FROM p ORDER BY n LIMIT 1"),
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["reference", "duckdb", "statements"])
def test_a_short_hunt_finds_nothing(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--engine", engine, "--seed", "4711", "--rounds", str(SHORT), "--minutes", "10"]) == 0
    told = capsys.readouterr().out
    assert f"{SHORT} rounds, seeds 4711 to {4711 + SHORT - 1}" in told
    assert "no wrong" in told


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["spark", "forced"])
def test_a_short_hunt_on_spark_finds_nothing(engine: str) -> None:
    assert main(["--engine", engine, "--seed", "4711", "--rounds", "2", "--minutes", "10"]) == 0


def test_a_number_makes_the_same_round_each_time_and_all_kinds_come() -> None:
    assert round_of(42, large=True) == round_of(42, large=True)
    assert {round_of(seed, large=False)[0] for seed in range(60)} == set(KINDS)


def test_answers_are_compared_with_sqlite_too() -> None:
    tally = Tally()
    assert play(PRUNED, "duckdb", tally) is None
    assert tally.by_sqlite >= 2
    assert tally.answers > tally.by_sqlite


@pytest.fixture
def wrong_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemark.engines.duckdb.settings.RULES_IN_USE", ALL_BUT_DEFECTS | {"row_group_pruner"})


@pytest.mark.usefixtures("wrong_rule")
def test_a_wrong_answer_is_found_made_short_and_printed_as_a_script(tmp_path: Path) -> None:
    finding = play(PRUNED, "duckdb")
    assert finding is not None
    assert finding.step == len(PRUNED.steps) - 1
    short, last = shrunk(PRUNED, "duckdb", finding)
    assert len(short.steps) < len(PRUNED.steps)
    assert Ask("SELECT COUNT(*) AS n FROM p") not in short.steps
    text = script(short, "duckdb", last)
    # With the rule on, as it was when the answer was wrong.
    rules = (
        "from tidemark.engines.duckdb import settings\nsettings.RULES_IN_USE = frozenset({'row_group_pruner', 'top_n'})"
    )
    (tmp_path / "shown.py").write_text(f"{rules}\n{text}\n")
    done = subprocess.run([sys.executable, str(tmp_path / "shown.py")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "[]"), done.stderr


@pytest.mark.usefixtures("wrong_rule")
def test_a_wrong_answer_ends_the_hunt_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.hunt.__main__.round_of", lambda seed, large: ("pruned", PRUNED))
    assert main(["--engine", "duckdb", "--seed", "7", "--minutes", "1"]) == 1
    told = capsys.readouterr().out
    assert "WRONG ANSWER on duckdb, seed 7" in told
    assert "import tidemark as tm" in told
