"""Commits numbered transactions without end under a short log, with a snapshot and a continual query that lag.

Run as a program with the target of a database and the first number; meant to be killed at any instant.
"""

from __future__ import annotations

import sys

import tidemark as tm

SETUP = """
CREATE TABLE IF NOT EXISTS done (n INT PRIMARY KEY, part INT);
CREATE SNAPSHOT IF NOT EXISTS parts WITH (lag = 'keep') AS
    SELECT part, COUNT(*) AS n, SUM(n) AS total FROM done GROUP BY part REFRESH ON DEMAND;
CREATE CONTINUAL QUERY IF NOT EXISTS news AS SELECT n, part FROM done WHERE part > 0 TRIGGER ON CHANGE OF 2 ROWS;
ALTER LOG SET (versions = 4);
"""


def main(target: str, first: int) -> None:
    db = tm.connect(target)
    db.execute(SETUP)
    print("ready", flush=True)
    number = first
    while True:
        with db.transaction() as tx:
            tx.insert("done", [(number, number % 3)])
            tx.execute(f"UPDATE done SET part = 2 WHERE n = {number - 4}")
        if number % 7 == 0:
            db.refresh("parts")
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
