"""A stream of transactions of mixed sizes, followed elsewhere after each one; answers are compared at the end."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Final

import pyarrow as pa

from tidemark.client import LocalView, ViewHolder, ViewSource
from tidemark.client.messages import Message
from tidemark.errors import TidemarkError
from tidemark.session import Database, connect
from tidemark_bench.client_figures import ClientReport, Refreshed, ViewReport
from tidemark_bench.harness.clock import answered, timed
from tidemark_bench.harness.database import content, target
from tidemark_bench.harness.run import Run
from tidemark_bench.sales import CLOCK

CUSTOMERS: Final = 1000
SETUP: Final = """
CREATE TABLE customer (id INT PRIMARY KEY, region INT NOT NULL, name VARCHAR);
CREATE TABLE sale (id INT PRIMARY KEY, customer INT NOT NULL, amount INT NOT NULL, note VARCHAR);
"""
VIEWS: Final = {
    "few": "SELECT id, customer, amount FROM sale WHERE amount > 990",
    "joined": "SELECT s.id, c.region, s.amount FROM sale s JOIN customer c ON c.id = s.customer WHERE s.amount > 900",
    "regions": "SELECT c.region, COUNT(*) AS sales, SUM(s.amount) AS amount FROM sale s "
    "JOIN customer c ON c.id = s.customer GROUP BY c.region",
    "most": "SELECT id, customer, amount FROM sale",
}


def filled(target: str, rows: int) -> Database:
    """A database with sales of customers, and the views."""
    database = connect(target)
    database.execute(SETUP)
    database.insert("customer", [(i, i % 50, f"customer {i}") for i in range(CUSTOMERS)])
    step = 200_000
    for start in range(0, rows, step):
        database.insert("sale", _sales(start, min(step, rows - start)))
    for name, definition in VIEWS.items():
        database.execute(f"CREATE MATERIALIZED VIEW {name} AS {definition}")
    return database


def _sales(start: int, count: int) -> list[tuple[int, int, int, str]]:
    return [(i, i % CUSTOMERS, (i * 7919) % 1000, f"note {i % 97}") for i in range(start, start + count)]


def change(database: Database, number: int, rows: int) -> None:
    """A transaction: one row or a thousand, by statements or by the program, for all views or for none."""
    new = rows + number * 2000
    match number % 10:
        case 0 | 5:
            database.execute(f"INSERT INTO sale VALUES ({new}, {number % CUSTOMERS}, {(number * 37) % 1000}, 'one')")
        case 1:
            database.execute(f"DELETE FROM sale WHERE amount = {(number * 91) % 1000}")
        case 2:
            database.insert("sale", _sales(new, 1000))
        case 3:
            database.execute(f"UPDATE sale SET note = 'seen' WHERE customer = {number % CUSTOMERS}")
        case 4:
            database.execute(f"UPDATE sale SET amount = 995 WHERE id = {number * 3}")
        case 6:
            database.execute(f"DELETE FROM sale WHERE id >= {new - 8000} AND id < {new - 7600}")
        case 7:
            database.execute(f"UPDATE customer SET region = {number % 50} WHERE id = {number % CUSTOMERS}")
        case 8:
            database.execute(f"UPDATE sale SET customer = {number % CUSTOMERS} WHERE amount = {(number * 53) % 1000}")
        case _:
            with database.transaction() as transaction:
                transaction.insert("sale", _sales(new, 10))
                transaction.execute(f"DELETE FROM sale WHERE id = {number * 5 + 1}")


class Elsewhere:
    """A view that is held, and evaluated, elsewhere."""

    def __init__(self, database: Database, view: str) -> None:
        self.source = ViewSource(database, view)
        first = self.source.first()
        self.local, self.holder = LocalView(first), ViewHolder(self.source.state())
        self.report = ViewReport(view, VIEWS[view], self.holder.content.num_rows, len(first))

    def refresh(self) -> None:
        """Follow what happened since the last time. What is shipped is asked for before what could have been."""
        local, holder = self.local, self.holder
        held_since, since = holder.tidemark, local.tidemark
        to_holder, holder_server = answered(lambda: self.source.refresh(held_since))
        holder_client = timed(lambda: holder.apply(to_holder))
        to_local, local_server = answered(lambda: self.source.changes(since))
        local_client = timed(lambda: local.apply(to_local))
        held, base = self.source.choices(held_since), self.source.local_choices(since)
        one = Refreshed(
            whole_bytes=len(self.source.state()),
            view_changes_bytes=len(held.get("changes") or held["nothing"]),
            base_changes_bytes=len(base.get("base changes") or base["nothing"]),
            holder_kind=Message.of_bytes(to_holder).kind,
            holder_bytes=len(to_holder),
            holder_server_milliseconds=holder_server.milliseconds,
            holder_client_milliseconds=holder_client,
            local_kind=Message.of_bytes(to_local).kind,
            local_bytes=len(to_local),
            local_server_milliseconds=local_server.milliseconds,
            local_client_milliseconds=local_client,
        )
        self.report.refreshed.append(one)

    def check(self, database: Database) -> None:
        """Figures of wrong answers are worth nothing."""
        expected = _bag(content(database, self.report.view))
        if _bag(self.local.content) != expected or _bag(self.holder.content) != expected:
            raise TidemarkError("internal", f"{self.report.view} differs from the server's answer")

    def close(self) -> None:
        self.local.close()
        self.holder.close()


def _bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def run(rows: int, transactions: int, run: Run) -> None:
    options = {"rows": rows, "transactions": transactions}
    run.measure("client", CLOCK, options, lambda: [measured(rows, transactions, run)])


def measured(rows: int, transactions: int, run: Run) -> ClientReport:
    report = ClientReport(rows, transactions)
    with (
        run.showing("filling tables"),
        run.place() as place,
        closing(filled(target("duckdb", place), rows)) as database,
    ):
        elsewhere = [Elsewhere(database, view) for view in VIEWS]
        for number in range(1, transactions + 1):
            run.status.step(f"transactions, {number:,} of {transactions:,}")
            change(database, number, rows)
            for one in elsewhere:
                one.refresh()
        for one in elsewhere:
            one.check(database)
            one.close()
            report.views.append(one.report)
            run.say(f"{one.report.view}: the answers are equal after {transactions:,} transactions")
    return report
