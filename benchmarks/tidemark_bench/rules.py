"""Many rules beside ten, with three-way joins as conditions, over the inventory of AMOS.

A rule watches one item: it orders when the quantity falls below what is consumed until a delivery comes. A transaction
changes ten items; in turn they are watched ones (of which some orders follow) and any others. Both databases get
the same kinds of transactions in turn, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa

from tidemark.cli.show import Display
from tidemark.errors import TidemarkError
from tidemark.session import Database, connect
from tidemark_bench.harness.clock import Spent, median, spent_on
from tidemark_bench.harness.run import Run, show, tenths, words

FEW: Final = 10
TOUCHED: Final = 10
KINDS: Final = ("watched, firing", "watched, quiet", "others")
CLOCK: Final = (
    "The clock covers a statement that changes ten items: finding them, key checks, finding the rules to which it "
    "matters, their conditions, their actions, and the commit."
)
TABLES: Final = """
CREATE TABLE item (item INT PRIMARY KEY, quantity INT, max_stock INT, min_stock INT, consume_freq INT);
CREATE TABLE supplier (supplier INT PRIMARY KEY, slack INT);
CREATE TABLE supplies (supplier INT, item INT, delivery_time INT, PRIMARY KEY (supplier, item));
CREATE TABLE orders (item INT, amount INT);
"""
RULE: Final = """
CREATE RULE low(:item) FOR EACH (item)
    WHEN SELECT i.item, i.max_stock - i.quantity AS amount
         FROM item i JOIN supplies s ON s.item = i.item JOIN supplier p ON p.supplier = s.supplier
         WHERE i.item = :item AND i.quantity < i.consume_freq * (s.delivery_time + p.slack) + i.min_stock
    DO INSERT INTO orders SELECT item, amount FROM condition
"""


@dataclass(frozen=True)
class RulesPlan:
    engines: Sequence[str]
    rules: int
    repeats: int
    items: int = 100_000

    def __post_init__(self) -> None:
        if not FEW <= self.rules <= self.items:
            raise TidemarkError("unsupported", f"between {FEW} and {self.items} rules can be measured")


@dataclass
class Side:
    """A database with so many rules: what activating them took, and each transaction by its kind."""

    rules: int
    watched: list[int]
    activating: Spent | None = None
    samples: dict[str, list[Spent]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def median(self, kind: str) -> Spent:
        return median(self.samples[kind])


@dataclass
class RulesReport:
    engine: str
    items: int
    few: Side
    many: Side

    def ratio(self, kind: str) -> float:
        return self.many.median(kind).milliseconds / self.few.median(kind).milliseconds

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": {kind: self.ratio(kind) for kind in KINDS}}

    def show(self, display: Display) -> None:
        title = f"{self.engine}, {self.items:,} items: medians in milliseconds for ten changed items"
        show(display, title, self.columns())

    def columns(self) -> dict[str, pa.Array]:
        """A row for each kind of transaction."""
        few, many = (f"{side.rules:,} rules" for side in (self.few, self.many))
        return {
            "items": words(KINDS),
            few: tenths(self.few.median(kind).milliseconds for kind in KINDS),
            many: tenths(self.many.median(kind).milliseconds for kind in KINDS),
            "times": tenths(self.ratio(kind) for kind in KINDS),
            f"{few}, processors": tenths(self.few.median(kind).processor_milliseconds for kind in KINDS),
            f"{many}, processors": tenths(self.many.median(kind).processor_milliseconds for kind in KINDS),
        }


def run(plan: RulesPlan, run: Run) -> None:
    run.measure("rules", CLOCK, asdict(plan), lambda: map(Rules(plan, run).measured, plan.engines))


class Rules:
    """One run."""

    def __init__(self, plan: RulesPlan, run: Run) -> None:
        self._plan, self._run = plan, run

    def measured(self, engine: str) -> RulesReport:
        with connect(engine) as few, connect(engine) as many:
            sides = self._filled(few, FEW), self._filled(many, self._plan.rules)
            choice = random.Random(1)
            for round_ in range(self._plan.repeats + 1):
                for kind in KINDS:
                    with self._run.showing(f"{engine}: {kind}, {round_} of {self._plan.repeats}"):
                        for database, side in zip((few, many), sides, strict=True):
                            spent = self._transaction(database, side, kind, choice)
                            if round_:  # the first round only warms up
                                side.samples[kind].append(spent)
        return RulesReport(engine, self._plan.items, *sides)

    def _filled(self, database: Database, rules: int) -> Side:
        plan = self._plan
        items = pa.array(range(plan.items), pa.int32())
        numbers = {"quantity": 5000, "max_stock": 5000, "min_stock": 100, "consume_freq": 20}
        database.execute(TABLES + RULE)
        database.insert("item", pa.table({"item": items} | {n: _all(v, plan.items) for n, v in numbers.items()}))
        database.insert("supplier", [(number, 1) for number in range(100)])
        suppliers = pa.array([number % 100 for number in range(plan.items)], pa.int32())
        database.insert(
            "supplies", pa.table([suppliers, items, _all(2, plan.items)], ["supplier", "item", "delivery_time"])
        )
        side = Side(rules, [number * (plan.items // rules) for number in range(rules)])
        with self._run.showing(f"activating {rules:,} rules"):
            side.activating = spent_on(partial(_activate, database, side.watched))
        self._run.say(f"{rules:,} rules activated")
        return side

    def _transaction(self, database: Database, side: Side, kind: str, choice: random.Random) -> Spent:
        if kind == "others":
            items = [number for number in choice.sample(range(self._plan.items), TOUCHED * 2) if number % 10 == 1]
            items = (items + [number * 10 + 1 for number in range(TOUCHED)])[:TOUCHED]
        else:
            items = choice.sample(side.watched, TOUCHED)
        listed = ", ".join(map(str, items))
        database.execute(f"UPDATE item SET quantity = {choice.randint(4000, 5000)} WHERE item IN ({listed})")
        quantity = choice.randint(20, 120) if kind == "watched, firing" else choice.randint(200, 3000)
        version = database.version
        spent = spent_on(partial(database.execute, f"UPDATE item SET quantity = {quantity} WHERE item IN ({listed})"))
        fired = database.firings(version).num_rows
        if fired != (TOUCHED if kind == "watched, firing" else 0):
            raise TidemarkError("internal", f"{fired} rules fired: figures of wrong answers are worth nothing")
        return spent


def _all(value: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int32()), count)


def _activate(database: Database, items: Sequence[int]) -> None:
    with database.transaction() as transaction:
        for item in items:
            transaction.execute(f"ACTIVATE RULE low({item})")
