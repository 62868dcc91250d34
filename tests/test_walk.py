"""``scripts/walk.py`` prints the way of one transaction through the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark.session import commit

ROOT = Path(__file__).parent.parent
COUNTS = re.compile(
    r"update: (?P<phases>\d+) phases, (?P<functions>\d+) functions, (?P<modules>\d+) modules, "
    r"(?P<outside>\d+) modules outside algebra, (?P<changes>\d+) changes of package"
)
MOST_MODULES = 60


def _walk(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "walk.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def _modules(lines: list[str]) -> list[str]:
    return [line.split()[1] for line in lines if re.fullmatch(r" +\d+  [a-z_.]+", line)]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """What is printed of the way of an update."""
    done = _walk("update")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_walk_of_an_update_ends_in_counts_that_agree_with_what_it_lists(lines: list[str]) -> None:
    found = COUNTS.fullmatch(lines[-1])
    assert found is not None, lines[-1]
    counts = {name: int(count) for name, count in found.groupdict().items()}
    listed = _modules(lines)
    assert len(set(listed)) == len(listed) == counts["modules"]
    assert sum(not module.startswith("algebra.") for module in listed) == counts["outside"]
    assert 0 < counts["outside"] < counts["modules"] < counts["functions"]
    assert counts["changes"] > 0
    assert counts["outside"] <= MOST_MODULES, "an update goes through more of the house than it used to"


def test_an_update_goes_through_each_phase_once_and_in_order(lines: list[str]) -> None:
    phases = [f"  {group}.{phase.__name__}" for group in ("PREPARE", "INSTALL") for phase in getattr(commit, group)]
    start = lines.index("Phases:") + 1
    assert lines[start : lines.index("", start)] == phases


def test_an_update_enters_no_room_of_what_is_not_defined(lines: list[str]) -> None:
    assert not {module.split(".")[0] for module in _modules(lines)} & {"rules", "snapshots", "changes"}


def test_an_unknown_way_is_refused_with_the_list_of_ways() -> None:
    done = _walk("sideways")
    assert done.returncode == 2
    assert done.stderr == "usage: scripts/walk.py update | create-view | detached-rule | open\n"
