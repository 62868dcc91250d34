"""Reads a lake that ``crash_worker.py`` writes, without end, and says which version it saw; or what was wrong with it.

Run as a program with the target; meant to be killed at any instant.
"""

from __future__ import annotations

import sys

import tidemark as tm
from tests.support import rows
from tidemark.errors import TidemarkError


def main(target: str) -> None:
    db = tm.connect(target, read_only=True)
    print("ready", flush=True)
    while True:
        with db.transaction() as tx:
            numbers = [n for (n,) in rows(tx.query("SELECT n FROM done"))]
            parts = dict(rows(tx.query("SELECT n, COUNT(*) AS parts FROM line GROUP BY n")))
            totals = dict(rows(tx.query("SELECT n, parts FROM totals")))
        last = len(numbers)
        is_whole = numbers == list(range(1, last + 1))
        is_whole &= parts == totals == {n: 2 if n <= last - 5 else 3 for n in numbers}
        print(last if is_whole else f"wrong: {last} {parts} {totals}", flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except TidemarkError as error:
        print(f"wrong: {error}", flush=True)
