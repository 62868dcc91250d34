"""19 views of all kinds over a table of 2,000 rows, beside plain DuckDB, which computes all of them again."""

from __future__ import annotations

import random
from contextlib import ExitStack, closing
from decimal import Decimal
from functools import partial
from typing import Final

import pyarrow as pa

from tidemark.session import Database, connect
from tidemark_bench.harness import database as under_clock
from tidemark_bench.harness.beside import TIDEMARK, Beside, BesideReport
from tidemark_bench.harness.by_hand import DuckDBFile
from tidemark_bench.harness.clock import spent_on
from tidemark_bench.harness.run import Run

SALES: Final = 2_000
CUSTOMERS: Final = 200
TABLES: Final = {
    "customer": "id INT PRIMARY KEY, name VARCHAR NOT NULL, region INT NOT NULL",
    "sale": "id INT PRIMARY KEY, customer INT NOT NULL, kind VARCHAR NOT NULL, amount INT NOT NULL, "
    "price DECIMAL(10,2) NOT NULL, refers INT",
}
VIEWS: Final = {
    "joined": "SELECT s.id, c.name, s.amount FROM sale s JOIN customer c ON c.id = s.customer WHERE s.amount > 500",
    "padded": "SELECT c.id, s.id AS sale FROM customer c LEFT JOIN sale s ON s.customer = c.id AND s.amount > 900",
    "padded_both": "SELECT a.id, b.id AS other FROM (SELECT id, amount FROM sale WHERE kind = 'k1') a "
    "FULL JOIN (SELECT id, amount FROM sale WHERE kind = 'k2') b ON a.amount = b.amount",
    "answers": "SELECT a.id, b.id AS answer FROM sale a JOIN sale b ON b.refers = a.id",
    "of_region": "SELECT c.region, COUNT(*) AS sales, SUM(s.amount * s.price) AS revenue "
    "FROM sale s JOIN customer c ON c.id = s.customer GROUP BY c.region",
    "extrema": "SELECT customer, MIN(amount) AS least, MAX(price) AS dearest FROM sale GROUP BY customer",
    "customers": "SELECT kind, COUNT(DISTINCT customer) AS customers FROM sale GROUP BY kind HAVING COUNT(*) > 10",
    "total": "SELECT COUNT(*) AS sales, SUM(amount) AS amount FROM sale",
    "ranked": "SELECT id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount DESC, id) AS place FROM sale",
    "running": "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY id) AS amount FROM sale",
    "before": "SELECT id, LAG(amount) OVER (PARTITION BY kind ORDER BY id) AS amount FROM sale",
    "pairs": "SELECT DISTINCT customer, kind FROM sale",
    "either": "SELECT customer FROM sale WHERE amount > 900 UNION SELECT id FROM customer WHERE region = 1",
    "without": "SELECT id FROM customer EXCEPT SELECT customer FROM sale WHERE amount > 800",
    "in_both": "SELECT customer FROM sale WHERE kind = 'k1' INTERSECT SELECT customer FROM sale WHERE kind = 'k2'",
    "largest": "SELECT id, amount FROM sale ORDER BY amount DESC, id LIMIT 20",
    "buyers": "SELECT c.id FROM customer c WHERE EXISTS "
    "(SELECT 1 FROM sale s WHERE s.customer = c.id AND s.amount > 950)",
    "best": "SELECT a.id, a.customer FROM sale a WHERE a.amount = (SELECT MAX(b.amount) FROM sale b "
    "WHERE b.customer = a.customer)",
    "threads": "WITH RECURSIVE thread(id, root) AS (SELECT id, id FROM sale WHERE refers IS NULL "
    "UNION SELECT s.id, t.root FROM sale s JOIN thread t ON s.refers = t.id) SELECT id, root FROM thread",
}
ONE: Final = "one-row UPDATE"
MANY: Final = "UPDATE of 200 rows"
RECOMPUTE: Final = "recompute"


def rows() -> dict[str, pa.Table]:
    """The same rows each time."""
    choice = random.Random(19)
    return {
        "customer": _table("customer", [(n, f"customer {n}", n % 10) for n in range(CUSTOMERS)]),
        "sale": _table("sale", [_sale(choice, number) for number in range(SALES)]),
    }


def _sale(choice: random.Random, number: int) -> tuple[object, ...]:
    # A sale refers to an earlier one, so that threads end.
    refers = choice.randrange(number) if number % 4 else None
    price = Decimal(choice.randrange(100, 100_000)) / 100
    return number, choice.randrange(CUSTOMERS), f"k{choice.randrange(8)}", choice.randrange(1000), price, refers


def _table(name: str, content: list[tuple[object, ...]]) -> pa.Table:
    kinds = {"INT": pa.int32(), "VARCHAR": pa.string(), "DECIMAL(10,2)": pa.decimal128(10, 2)}
    declared = [column.split() for column in TABLES[name].split(", ")]
    columns = {one[0]: pa.array([row[n] for row in content], kinds[one[1]]) for n, one in enumerate(declared)}
    return pa.table(columns)


class Updates:
    """Makes the same statements for the same seed."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)

    def next(self, work: str) -> str:
        amount, customer = self._random.randrange(1000), self._random.randrange(CUSTOMERS)
        if work == MANY:
            tenth = self._random.randrange(10)
            moved = f"amount = (amount + {amount}) % 1000, customer = (customer + {customer}) % {CUSTOMERS}"
            return f"UPDATE sale SET {moved} WHERE id % 10 = {tenth}"
        number = self._random.randrange(1, SALES)
        changed = f"amount = {amount}, customer = {customer}, refers = {self._random.randrange(number)}"
        return f"UPDATE sale SET {changed} WHERE id = {number}"


def measured(engine: str, repeats: int, run: Run) -> BesideReport:
    """One engine beside plain DuckDB, which gets the same statements."""
    here = run.of(f"{engine}, {len(VIEWS)} views")
    report = BesideReport(f"{engine}, {len(VIEWS)} varied views over {SALES:,} rows")
    with ExitStack() as stack:
        place = stack.enter_context(here.place())
        database = stack.enter_context(closing(connect(under_clock.target(engine, place))))
        plain = stack.enter_context(closing(DuckDBFile(place / "plain.duckdb")))
        with here.showing("filling the views"):
            under_clock.load(database, TABLES, rows())
            for view, definition in VIEWS.items():
                under_clock.created(database, view, definition)
            for table, content in rows().items():
                plain.load(table, content)
        updates = Updates()
        for work in (ONE, MANY):
            found = Beside(work)
            for round_ in range(repeats + 1):
                with here.showing(f"{work}, {round_} of {repeats}"):
                    statement = updates.next(work)
                    found.measure(
                        round_,
                        {
                            TIDEMARK: partial(spent_on, partial(database.execute, statement)),
                            RECOMPUTE: partial(spent_on, partial(recomputed, plain, statement)),
                        },
                    )
            report.works.append(found)
            here.say(f"{work}: {found.sentence()}")
        with here.showing("comparing the contents"):
            compare(database, plain)
        here.say(f"all {len(VIEWS)} views equal their definitions, on both sides")
    return report


def recomputed(plain: DuckDBFile, statement: str) -> None:
    plain.run(statement)
    plain.make_again(VIEWS)


def compare(database: Database, plain: DuckDBFile) -> None:
    """Figures of wrong answers are worth nothing."""
    under_clock.must_be_true(database, *VIEWS)
    for view in VIEWS:
        under_clock.must_agree(plain.differing(view, under_clock.content(database, view)), view, "what DuckDB computes")
