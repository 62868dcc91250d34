"""What a golden database holds. Each form of storage that ever was has written one, and every later Tidemark opens it.

``python -m tests.golden.database NUMBER`` writes the next pair (a DuckDB file and a lake) with the code as it is. The
script below only grows: a database that was written is never written anew.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import tidemark as tm
from tests.support import rows

HERE = Path(__file__).parent
BEGAN = dt.datetime(2026, 11, 1, 8, 0)

DEFINITIONS = """
CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR NOT NULL, city VARCHAR, credit DECIMAL(12,2) DEFAULT 0);
CREATE TABLE sale (id INT PRIMARY KEY, customer INT, item VARCHAR, amount DECIMAL(12,2) CHECK (amount >= 0), day DATE);
CREATE TABLE edge (x INT, y INT);
CREATE TABLE reading (at TIMESTAMP, place VARCHAR, value DOUBLE, tags VARCHAR[]);
INSERT INTO customer VALUES (1, 'Ada', 'London', 10), (2, 'Ben', 'Paris', 20), (3, 'Cy', NULL, 30);
INSERT INTO sale VALUES (1, 1, 'tea', 10.50, DATE '2026-01-01'), (2, 1, 'cup', 5.25, DATE '2026-01-02'),
    (3, 2, 'tea', 7.00, DATE '2026-01-02'), (4, 9, 'pot', 1.00, NULL);
INSERT INTO edge VALUES (1, 2), (2, 3), (3, 1), (3, 4);
INSERT INTO reading VALUES (TIMESTAMP '2026-01-01 10:00:00', 'north', 1.5, ARRAY['a', 'b']),
    (TIMESTAMP '2026-01-01 11:00:00', 'south', 2.5, NULL);
CREATE VIEW big AS SELECT * FROM sale WHERE amount > 5;
CREATE MATERIALIZED VIEW bought AS
    SELECT c.name, s.item, s.amount FROM customer c JOIN sale s ON s.customer = c.id;
CREATE MATERIALIZED VIEW padded AS
    SELECT c.name, s.item FROM customer c FULL JOIN sale s ON s.customer = c.id;
CREATE MATERIALIZED VIEW total AS
    SELECT city, COUNT(*) AS sales, SUM(amount) AS amount, MIN(amount) AS least, AVG(amount) AS mean,
        COUNT(DISTINCT item) AS items
    FROM customer c JOIN big s ON s.customer = c.id GROUP BY city;
CREATE MATERIALIZED VIEW above AS SELECT city, amount FROM total WHERE amount > (SELECT AVG(amount) FROM sale);
CREATE MATERIALIZED VIEW items AS SELECT DISTINCT item FROM sale;
CREATE MATERIALIZED VIEW unsold AS
    SELECT name FROM customer c WHERE NOT EXISTS (SELECT 1 FROM sale WHERE customer = c.id);
CREATE MATERIALIZED VIEW ranked AS
    SELECT id, item, RANK() OVER (PARTITION BY item ORDER BY amount DESC, id) AS place FROM sale;
CREATE MATERIALIZED VIEW dearest AS SELECT id, amount FROM sale ORDER BY amount DESC, id LIMIT 2;
CREATE MATERIALIZED VIEW mean AS
    SELECT place, AVG(value) AS value, STDDEV_SAMP(value) AS spread FROM reading GROUP BY place;
CREATE MATERIALIZED VIEW closure (x, y) AS DATALOG $$
    closure(x,y) :- edge(x,y).
    closure(x,y) :- edge(x,z), closure(z,y). $$;
CREATE MATERIALIZED VIEW reach AS
    WITH RECURSIVE r (y) AS (SELECT 1 UNION SELECT e.y FROM r JOIN edge e ON e.x = r.y) SELECT y FROM r;
CREATE EXTERNAL VIEW outside AS SELECT item, COUNT(*) AS n FROM sale GROUP BY item;
CREATE MATERIALIZED VIEW lazy WITH (refresh = 'on read') AS SELECT item, SUM(amount) AS amount FROM sale GROUP BY item;
CREATE SNAPSHOT owners AS SELECT city, COUNT(*) AS n FROM customer GROUP BY city REFRESH ON DEMAND;
CREATE CONTINUAL QUERY rich AS SELECT id, amount FROM sale WHERE amount > 6 TRIGGER ON CHANGE OF 2 ROWS;
CREATE TABLE orders (item VARCHAR, n INT);
CREATE RULE reorder WHEN SELECT item, COUNT(*) AS n FROM sale GROUP BY item HAVING COUNT(*) > 2
    DO INSERT INTO orders SELECT item, CAST(n AS INT) FROM condition;
CREATE RULE told ON UPDATE OF amount ON sale WHEN SELECT id FROM inserted DO NOTIFY prices
    WITH (coupling = 'detached');
CREATE ASSERTION solvent CHECK (NOT EXISTS (SELECT 1 FROM customer WHERE credit < 0));
ACTIVATE RULE reorder;
ACTIVATE RULE told;
"""

CHANGES = (
    "INSERT INTO sale VALUES (5, 3, 'tea', 8.00, DATE '2026-02-01'), (6, 3, 'cup', 9.75, DATE '2026-02-01')",
    "UPDATE sale SET amount = amount + 1 WHERE item = 'tea'",
    "DELETE FROM edge WHERE x = 2",
    "INSERT INTO edge VALUES (4, 5), (5, 1)",
    "DELETE FROM customer WHERE id = 2",
    "UPDATE customer SET id = 7 WHERE id = 3",
    "INSERT INTO reading VALUES (TIMESTAMP '2026-01-01 12:00:00', 'north', 3.25, ARRAY['c'])",
    "ALTER TABLE customer ADD COLUMN note VARCHAR DEFAULT 'none'",
    "INSERT INTO customer (id, name, city) VALUES (8, 'Dee', 'London')",
)

RELATIONS = [
    "customer",
    "sale",
    "edge",
    "reading",
    "orders",
    "bought",
    "padded",
    "total",
    "above",
    "items",
    "unsold",
    "ranked",
    "dearest",
    "mean",
    "closure",
    "reach",
    "outside",
    "lazy",
    "owners",
    "rich",
]


def make(db: tm.Database) -> None:
    """Fill an empty database."""
    db.execute(DEFINITIONS)
    db.subscribe("total", name="ledger").poll()
    for change in CHANGES:
        db.execute(change)
    db.execute("REFRESH owners")
    db.execute("INSERT INTO customer (id, name, city) VALUES (9, 'Eve', 'Rome')")


def contents(db: tm.Database) -> dict[str, list[Any]]:
    """The content of every relation, as JSON has it."""
    found = {name: rows(db.query(f"SELECT * FROM {name}")) for name in RELATIONS}
    return json.loads(json.dumps(found, default=str))  # type: ignore[no-any-return]


def history(db: tm.Database) -> dict[str, list[Any]]:
    """The changes of every relation that is logged, as JSON has them."""
    names = (*RELATIONS[:-3], "owners", "rich")
    found = {name: rows(db.changes(name).drop_columns(_NEWER & {*db.changes(name).column_names})) for name in names}
    return json.loads(json.dumps(found, default=str))  # type: ignore[no-any-return]


_NEWER: set[str] = {"_time"}
"""Columns that changes have got since the first golden database was written."""


def write(number: int) -> None:
    """Write the pair of this number, and what it holds: the DuckDB file as a process leaves it that dies, with all that
    lies beside it, the lake closed."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, target in (("duckdb", "duckdb:{}/golden.duckdb"), ("lake", "spark:{}/golden")):
            work = Path(folder) / kind
            work.mkdir()
            with tm.connect(target.format(work), clock=lambda: BEGAN) as db:
                make(db)
                db.query("SELECT * FROM lazy")
                db.execute("INSERT INTO reading VALUES (TIMESTAMP '2026-01-01 12:00:00', 'north', 3.5, NULL)")
                left = shutil.copytree(work, Path(folder) / "left") if kind == "duckdb" else work
                held = {"contents": contents(db), "changes": history(db), "version": db.version}
            place = HERE / str(number)
            place.mkdir(exist_ok=True)
            shutil.make_archive(str(place / kind), "zip", left)
            (place / f"{kind}.json").write_text(json.dumps(held, sort_keys=True) + "\n")


if __name__ == "__main__":
    write(int(sys.argv[1]))
