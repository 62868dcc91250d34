"""How much memory of this process a Spark DataFrame takes that goes into a lake, beside one that comes through here.

    .venv/bin/python scripts/bulk_memory.py 1000000 60000000          # insert; the peak after each
    .venv/bin/python scripts/bulk_memory.py --upsert 1000000 4000000
    .venv/bin/python scripts/bulk_memory.py --arrow 1000000           # as Arrow, through this process

Spark's own Java process is not counted. The view over the table is a grouping.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import tidemark as tm

SETUP: Final = """
CREATE TABLE t (id BIGINT PRIMARY KEY, kind INT, amount DECIMAL(12, 2), at TIMESTAMP);
CREATE MATERIALIZED VIEW v AS SELECT kind, COUNT(*) AS n, SUM(amount) AS amount FROM t GROUP BY kind;
"""
ROWS: Final = """
SELECT id, CAST(id % 100 AS INT) AS kind, CAST(id % 100000 AS DECIMAL(12, 2)) AS amount,
    TIMESTAMP_NTZ '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id % 86400) AS at
FROM range({rows})
"""


def peak() -> float:
    """The most memory that this process had resident, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def load(rows: int, *, upsert: bool, arrow: bool) -> None:
    from tidemark.engines.spark import local_session

    session = local_session()
    with tempfile.TemporaryDirectory() as folder, tm.connect(session, lake=f"{folder}/lake") as db:
        db.execute(SETUP)
        db.insert("t", session.sql("SELECT -1L AS id, 1 AS kind, 1BD AS amount, DATE '2026-01-01' AS at"))
        before, began = peak(), time.perf_counter()
        frame = session.sql(ROWS.format(rows=rows))
        (db.upsert if upsert else db.insert)("t", frame.toArrow() if arrow else frame)
        took, after = time.perf_counter() - began, peak()
        [counted] = db.query("SELECT COUNT(*) AS groups, SUM(n) AS rows FROM v").to_pylist()
        print(f"{rows:>12,} rows  {took:7.1f} s  peak {after:7.0f} MB, {after - before:+6.0f} MB  {counted}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", type=int)
    parser.add_argument("--upsert", action="store_true")
    parser.add_argument("--arrow", action="store_true")
    chosen = parser.parse_args()
    if len(chosen.rows) == 1:
        load(chosen.rows[0], upsert=chosen.upsert, arrow=chosen.arrow)
        return
    flags = [f"--{name}" for name in ("upsert", "arrow") if getattr(chosen, name)]
    for rows in chosen.rows:  # each in a process of its own: a peak never falls
        subprocess.run([sys.executable, __file__, *flags, str(rows)], check=True)


if __name__ == "__main__":
    main()
