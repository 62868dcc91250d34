"""All 22 queries of TPC-H as views, kept through both refresh functions.

Beside them plain DuckDB makes the same changes, and computes all 22 again after each.

RF1 inserts new orders with their lines, as Arrow tables. RF2 deletes as many other orders with theirs, by DELETE with
their keys in an IN list. Each is a durable transaction. In the end all contents must be equal, or there are no figures.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.cli.tables import counted, duration
from tidemark.session import Database, connect
from tidemark_bench import tpch
from tidemark_bench.harness import database as under_clock
from tidemark_bench.harness.beside import TIDEMARK, Beside, BesideReport
from tidemark_bench.harness.by_hand import DuckDBFile
from tidemark_bench.harness.clock import Spent, spent_on, timed
from tidemark_bench.harness.run import Plan, Run
from tidemark_bench.queries import QUERIES
from tidemark_bench.suite import load

CLOCK: Final = (
    "The clock covers whole transactions with all 22 views: handing over the new orders or finding those to delete, "
    "key checks, the views, and the durable commit."
)
RECOMPUTE: Final = "recompute"
FEW: Final = 10
SHARES: Final = (0.001, 0.01, 0.2)
LARGE: Final = 0.01
"""Refreshes of so large a part of the orders, and of larger ones, are measured in two rounds at most."""
KEYS: Final = {"lineitem": "l_orderkey", "orders": "o_orderkey"}


class Orders:
    """Which orders there are, and new ones: copies of those of the data, with keys and prices of their own."""

    def __init__(self, tables: dict[str, pa.Table], seed: int = 7) -> None:
        self._tables = {table: tables[table] for table in KEYS}
        self._random = random.Random(seed)
        self._first = tables["orders"]["o_orderkey"].to_pylist()
        self._live = list(self._first)
        self._step, self._copies = 1 + max(self._first), 0

    def new(self, count: int) -> dict[str, pa.Table]:
        """So many new orders with their lines, by table."""
        self._copies += 1
        chosen, shift = self._random.sample(self._first, count), self._copies * self._step
        self._live += [key + shift for key in chosen]
        prices = {"lineitem": "l_extendedprice", "orders": "o_totalprice"}
        found = {}
        # Orders first, as in TPC-H.
        for table, key in sorted(KEYS.items(), reverse=True):
            rows = self._tables[table]
            rows = rows.filter(pc.is_in(rows[key], pa.array(chosen, rows.schema.field(key).type)))
            rows = _added(rows, key, shift)
            # Equal prices would be ties under LIMIT, which each side may break in its own way.
            found[table] = _added(rows, prices[table], Decimal(self._copies) / 100)
        return found

    def old(self, count: int) -> list[int]:
        """The keys of so many orders that are to go."""
        gone = []
        for _ in range(count):
            place = self._random.randrange(len(self._live))
            self._live[place], self._live[-1] = self._live[-1], self._live[place]
            gone.append(self._live.pop())
        return gone


def _added(rows: pa.Table, column: str, by: int | Decimal) -> pa.Table:
    place, field = rows.column_names.index(column), rows.schema.field(column)
    return rows.set_column(place, field, pc.add(rows[column], pa.scalar(by, field.type)).cast(field.type))


def deletions(keys: Sequence[int]) -> list[str]:
    listed = ", ".join(map(str, keys))
    return [f"DELETE FROM {table} WHERE {key} IN ({listed})" for table, key in KEYS.items()]


class PlainQueries(DuckDBFile):
    """The tables in a durable file, and each answer as a table."""

    def insert(self, rows: dict[str, pa.Table]) -> Spent:
        return self._changed(lambda: [self._insert(table, content) for table, content in rows.items()])

    def _insert(self, table: str, content: pa.Table) -> int:
        self._connection.register("coming", content)
        count = self.run(f"INSERT INTO {table} FROM coming")
        self._connection.unregister("coming")
        return count

    def delete(self, texts: Sequence[str]) -> Spent:
        return self._changed(lambda: [self.run(text) for text in texts])

    def _changed(self, action: Callable[[], object]) -> Spent:
        def changed_and_recomputed() -> None:
            self.together(action)
            self.make_again(QUERIES)

        return spent_on(changed_and_recomputed)


def run(plan: Plan, run: Run) -> None:
    run.measure("tpch", CLOCK, asdict(plan), lambda: (measured(plan, run, *case) for case in plan.cases()))


def measured(plan: Plan, run: Run, engine: str, scale: float) -> BesideReport:
    """One engine on data of one scale."""
    here = run.of(engine, scale)
    with here.showing("generating and reading the data"):
        tables = tpch.read_all(tpch.generate_all(scale, run.folder))
    lines, orders = counted(tables["lineitem"].num_rows, "lineitem"), tables["orders"].num_rows
    report = BesideReport(f"{engine}, scale {scale:g}, {lines}, {len(QUERIES)} views")
    with ExitStack() as stack:
        place = stack.enter_context(here.place())
        database = stack.enter_context(closing(connect(under_clock.target(engine, place))))
        plain = stack.enter_context(closing(PlainQueries(place / "plain.duckdb")))
        with here.showing(f"loading {lines} and filling {len(QUERIES)} views"):
            report.figures["loaded"] = timed(lambda: load(database, tables))
            report.figures["filled"] = {q: under_clock.created(database, q, text) for q, text in QUERIES.items()}
        here.say(f"loaded in {duration(report.figures['loaded'])}")
        with here.showing("loading for DuckDB by itself"):
            for table, rows in tables.items():
                plain.load(table, rows)
        sides, made = Sides(database, plain), Orders(tables)
        for count, share in ((1, 0.0), (FEW, 0.0), *((math.ceil(share * orders), share) for share in SHARES)):
            rounds = min(2, plan.repeats) if share >= LARGE else plan.repeats
            report.works += sides.refreshed(here, made, count, share, rounds)
        with here.showing("comparing the contents"):
            sides.compare()
        here.say(f"all {len(QUERIES)} views equal what DuckDB computes")
    return report


@dataclass(frozen=True)
class Sides:
    """Both sides, which get the same refreshes in turn."""

    database: Database
    plain: PlainQueries

    def refreshed(self, run: Run, made: Orders, count: int, share: float, rounds: int) -> list[Beside]:
        """RF1, RF2 and both together, of so many orders."""
        size = counted(count, "order") + (f" ({share:.1%})" if share else "")
        first, second, both = (Beside(f"{what}, {size}") for what in ("RF1", "RF2", "RF1 + RF2"))
        for round_ in range(rounds + 1):
            with run.showing(f"{size}, {round_} of {rounds}"):
                coming, going = made.new(count), deletions(made.old(count))
                first.measure(
                    round_,
                    {TIDEMARK: partial(self._insert, coming), RECOMPUTE: partial(self.plain.insert, coming)},
                )
                second.measure(
                    round_, {TIDEMARK: partial(self._delete, going), RECOMPUTE: partial(self.plain.delete, going)}
                )
        for side in first.spent:
            pairs = zip(first.spent[side], second.spent[side], strict=True)
            both.spent[side] = [_sum(one, other) for one, other in pairs]
        run.say(f"{both.work}: {both.sentence()}")
        return [first, second, both]

    def _insert(self, rows: dict[str, pa.Table]) -> Spent:
        def action() -> None:
            with self.database.transaction() as transaction:
                for table, content in rows.items():
                    transaction.insert(table, content)

        return spent_on(action)

    def _delete(self, texts: Sequence[str]) -> Spent:
        def action() -> None:
            with self.database.transaction() as transaction:
                for text in texts:
                    transaction.execute(text)

        return spent_on(action)

    def compare(self) -> None:
        """Figures of wrong answers are worth nothing."""
        for query in QUERIES:
            theirs = self.plain.query(f"SELECT * FROM {query}")
            differing = unequal(under_clock.content(self.database, query), theirs)
            under_clock.must_agree(differing, query, "what DuckDB computes")


def _sum(one: Spent, other: Spent) -> Spent:
    return Spent(one.milliseconds + other.milliseconds, one.processor_milliseconds + other.processor_milliseconds)


def unequal(left: pa.Table, right: pa.Table, slack: float = 1e-9) -> int:
    """How many rows differ, floats but for their last digits, or for this much: DuckDB divides decimals as such.

    >>> unequal(pa.table({"a": [1.0, 2.0]}), pa.table({"a": [2.0 + 1e-14, 1.0]}))
    0
    >>> unequal(pa.table({"a": [1, 2, 2]}), pa.table({"a": [1, 2, 3]}))
    1
    """
    ours, theirs = (sorted(zip(*table.to_pydict().values(), strict=True), key=_order) for table in (left, right))
    close = partial(_close, slack=slack)
    same = sum(all(map(close, one, other)) for one, other in zip(ours, theirs, strict=False))
    return max(len(ours), len(theirs)) - same


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((value is None, float(value) if _is_number(value) else str(value)) for value in row)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal)


def _close(left: Any, right: Any, *, slack: float) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        return left is not None and right is not None and math.isclose(left, right, rel_tol=1e-9, abs_tol=slack)
    return bool(left == right)
