"""Writes foreign Delta tables and pulls them, without end, and says after each pull what it has acknowledged.

Run as a program with the target of a database and the first number; meant to be killed at any instant. The tables lie
beside the database.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tidemark as tm

sys.path.insert(0, str(Path(__file__).parent.parent))  # it runs as a program

from tests.foreign import Foreign


def main(target: str, first: int) -> None:
    folder = Path(target.partition(":")[2]).parent / "foreign"
    sale, bonus = Foreign(folder / "sale", feed=True), Foreign(folder / "bonus")
    if not sale.path.exists():
        sale.write([])
        bonus.write([])
    db = tm.connect(target, allow_paths=[folder])
    db.execute(f"""
        CREATE OR REPLACE SOURCE s TYPE delta OPTIONS (path '{folder}');
        CREATE OR REPLACE TABLE sale FROM SOURCE s RELATION 'sale' KEY (id);
        CREATE OR REPLACE TABLE bonus FROM SOURCE s RELATION 'bonus';
        CREATE MATERIALIZED VIEW IF NOT EXISTS v AS
            SELECT s.id, COUNT(*) AS n FROM sale s JOIN bonus b ON b.id = s.id GROUP BY s.id;
    """)
    print("ready", flush=True)
    number = first
    while True:
        sale.write([(number * 1_000_000 + db.version, "x", number)])
        bonus.write([(number * 1_000_000 + db.version, "y", part) for part in range(3)])
        if number % 3 == 0:
            sale.update("id % 2 = 0", amount="amount + 1")
        if number % 5 == 0:
            bonus.compact()
            bonus.delete("amount = 0.01")
        db.pull()
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
