"""Commits numbered rows without end, each of which sets detached rules off, and says after each that it is done.

Run as a program with the target of a database and the first number; meant to be killed at any instant.
"""

from __future__ import annotations

import sys

import tidemark as tm

SETUP = """
CREATE TABLE done (n INT PRIMARY KEY);
CREATE TABLE copied (n INT);
CREATE TABLE again (n INT);
CREATE TABLE both (n INT);
CREATE RULE copy WHEN SELECT n FROM done DO INSERT INTO copied SELECT n FROM condition
    WITH (action_coupling = 'detached');
CREATE RULE copy_again WHEN SELECT n FROM copied DO INSERT INTO again SELECT n FROM condition
    WITH (coupling = 'detached', action_coupling = 'detached');
CREATE RULE both ON INSERT ON done THEN INSERT ON again WHEN SELECT n FROM inserted_done
    DO INSERT INTO both SELECT n FROM condition;
ACTIVATE RULE copy;
ACTIVATE RULE copy_again;
ACTIVATE RULE both;
"""


def main(target: str, first: int) -> None:
    db = tm.connect(target)
    if db.version == 0:
        with db.transaction() as tx:
            tx.execute(SETUP)
    print("ready", flush=True)
    number = first
    while True:
        db.execute(f"INSERT INTO done VALUES ({number})")
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
