"""Changes definitions without end, each step one transaction, and says after each that it was acknowledged.

Run as a program with the target of a database and the first number; meant to be killed at any instant.
"""

from __future__ import annotations

import sys

import tidemark as tm

SETUP = """
CREATE TABLE IF NOT EXISTS t (n INT PRIMARY KEY);
CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT n FROM t;
CREATE MATERIALIZED VIEW IF NOT EXISTS whole AS SELECT * FROM t;
"""


def main(target: str, first: int) -> None:
    db = tm.connect(target)
    db.execute(SETUP)
    print("ready", flush=True)
    number = first
    while True:
        with db.transaction() as tx:
            tx.execute(f"ALTER TABLE t ADD COLUMN c{number} INT DEFAULT {number}")
            negative = ", ".join(str(-c) for c in range(1, number + 1))
            tx.execute(f"INSERT INTO t VALUES ({number}, {negative})")
            tx.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT n + {number} AS n FROM t")
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
