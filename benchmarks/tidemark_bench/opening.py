"""Open a database in a process of its own, run statements there, and say what that took.

A process that has done other things before would have warm caches, and memory of others.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tidemark.errors import TidemarkError
from tidemark.session import connect
from tidemark_bench.harness.clock import answered, spent_on


def opened(target: str, statements: Sequence[str]) -> dict[str, Any]:
    """What opening and the first statement take, and the most memory after all statements, by another process."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, target],
        input=json.dumps(list(statements)),
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise TidemarkError("internal", f"the process that opens {target} failed: {done.stderr.strip()[-1000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    statements = json.load(sys.stdin)
    before = _memory()
    database, opening = answered(lambda: connect(sys.argv[1]))
    with closing(database):
        first = spent_on(lambda: database.execute(statements[0]))
        memory_after_first = _memory()
        rest = [asdict(spent_on(lambda text=text: database.execute(text))) for text in statements[1:]]  # type: ignore[misc]
        memory = {"imported": before, "first": memory_after_first, "all": _memory()}
    print(json.dumps({"opening": asdict(opening), "first": asdict(first), "others": rest, "memory": memory}))


def _memory() -> int:
    """The most bytes that this process has had so far."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux counts what the parent had, too, but for here.
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main()
