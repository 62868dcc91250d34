"""Two Delta tables that other jobs write, and two views that are kept true over them.

    python examples/pipeline/pipeline.py [duckdb | spark] [folder]

Everything lies in the folder, or in a temporary one: the tables of the other jobs below `shop`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import tidemark as tm

SCRIPT = Path(__file__).with_name("pipeline.sql")


def money(*amounts: str) -> pa.Array:
    return pa.array(map(Decimal, amounts), pa.decimal128(10, 2))


def first_load() -> None:
    """Somebody's jobs fill two tables; one has a change data feed, the other has not."""
    customers = pa.table({"id": [1, 2, 3], "name": ["Ada", "Ben", "Cleo"], "country": ["UK", "UK", "EG"]})
    orders = pa.table({"id": [10, 11, 12], "customer": [1, 1, 2], "amount": money("12.50", "7.00", "3.25")})
    write_deltalake("shop/customers", customers)
    write_deltalake("shop/orders", orders, configuration={"delta.enableChangeDataFeed": "true"})


def another_day() -> None:
    """The same jobs again: an order is added, one corrected, one deleted, and a customer moves."""
    write_deltalake("shop/orders", pa.table({"id": [13], "customer": [3], "amount": money("99.00")}), mode="append")
    orders, customers = DeltaTable("shop/orders"), DeltaTable("shop/customers")
    orders.update(predicate="id = 10", updates={"amount": "15.00"})
    orders.delete("id = 12")
    customers.update(predicate="id = 1", updates={"country": "'FR'"})


def pull(db: tm.Database) -> None:
    """What an hourly job does: define, pull, and say what changed."""
    db.execute(SCRIPT.read_text())
    before = db.version
    rows = db.pull()
    print(f"pulled {rows} rows")
    for view in ("revenue", "without_orders"):
        for change in sorted(db.changes(view, since=before).to_pylist(), key=str):
            sign = "+" if change["_weight"] > 0 else "-"
            print(f"  {view:<15} {sign}", *(value for name, value in change.items() if not name.startswith("_")))


def main(engine: str, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    target = "duckdb:pipeline.duckdb" if engine == "duckdb" else "spark:lake"
    first_load()
    for change in (lambda: None, another_day, lambda: None):
        change()
        with tm.connect(target, allow_paths=["shop"]) as db:
            pull(db)


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "duckdb"
    if len(sys.argv) > 2:
        main(chosen, sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as made:
            main(chosen, made)
            os.chdir("/")
