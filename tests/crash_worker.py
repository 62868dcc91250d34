"""Commits numbered transactions over several tables without end, and says after each that it was acknowledged.

Run as a program with the target of a database, the first number, and maybe when a lake is published; meant to be killed
at any instant.
"""

from __future__ import annotations

import sys

import tidemark as tm

SETUP = """
CREATE TABLE IF NOT EXISTS done (n INT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS line (n INT, part INT, amount DECIMAL(10,2));
CREATE MATERIALIZED VIEW IF NOT EXISTS totals AS
    SELECT d.n, COUNT(*) AS parts, SUM(amount) AS amount FROM done d JOIN line l ON l.n = d.n GROUP BY d.n;
CREATE MATERIALIZED VIEW IF NOT EXISTS summary AS SELECT parts, COUNT(*) AS transactions FROM totals GROUP BY parts;
"""


def main(target: str, first: int, *publish: str) -> None:
    db = tm.connect(target, options={"publish": publish[0]} if publish else None)
    db.execute(SETUP)
    print("ready", flush=True)
    number = first
    while True:
        with db.transaction() as tx:
            tx.insert("done", [(number,)])
            tx.insert("line", [(number, part, None) for part in range(3)])
            tx.execute(f"UPDATE line SET amount = part + 0.5 WHERE n = {number}")
            if number > 5:
                tx.execute(f"DELETE FROM line WHERE n = {number - 5} AND part = 0")
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
