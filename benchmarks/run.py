"""Time to up-to-date views after transactions of several sizes, beside a full recomputation on the same engine.

    python benchmarks/run.py --engine duckdb --scale 0.1

V1 joins customer, orders and lineitem under filters; V2 adds up revenue and count per nation. Each transaction mixes
inserts, deletes and updates over orders and lineitem. The clock covers the handing over of the rows, key checks,
propagation to both views and the durable commit. Recomputation is what an engine without incremental maintenance does:
evaluate the definition again and store the result. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import tpch

import tidemark as tm

SIZES = (1, 100, 10_000)


@dataclass
class Measurement:
    rows_changed: int
    transaction_ms: float
    v1_ms: float
    v2_ms: float
    rows_read: int
    v1_rows_out: int
    recompute_v1_ms: float = 0.0
    recompute_v2_ms: float = 0.0


class Changes:
    """Makes transactions of a given size from the data itself; each row is used at most once."""

    def __init__(self, folder: Path, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._orders, self._lines = tpch.read(folder, "orders"), tpch.read(folder, "lineitem")
        self._free_lines = self._shuffled(self._lines.num_rows)
        self._free_orders = self._shuffled(self._orders.num_rows)
        self._next_key = 1 + pc.max(self._orders["o_orderkey"]).as_py()

    def _shuffled(self, count: int) -> list[int]:
        positions = list(range(count))
        self._random.shuffle(positions)
        return positions

    def _take(self, table: pa.Table, free: list[int], count: int) -> pa.Table:
        return table.take([free.pop() for _ in range(count)])

    def transaction(self, size: int) -> dict[str, dict[str, pa.Table]]:
        """Rows to delete and to insert per table. An update is a delete and an insert of the same key."""
        if size == 1:
            return {"lineitem": self._updated_lines(1)}
        orders = max(1, size // 10)
        third = (size - orders) // 3
        updated = self._updated_lines(size - orders - 2 * third)
        gone = self._take(self._lines, self._free_lines, third)
        new_orders, new_lines = self._new_orders(orders // 2, third)
        changed_orders = self._updated_orders(orders - new_orders.num_rows)
        return {
            "orders": {
                "delete": changed_orders["delete"],
                "insert": pa.concat_tables([changed_orders["insert"], new_orders]),
            },
            "lineitem": {
                "delete": pa.concat_tables([gone, updated["delete"]]),
                "insert": pa.concat_tables([updated["insert"], new_lines]),
            },
        }

    def _updated_lines(self, count: int) -> dict[str, pa.Table]:
        before = self._take(self._lines, self._free_lines, count)
        return {"delete": before, "insert": _plus_one(before, "l_extendedprice")}

    def _updated_orders(self, count: int) -> dict[str, pa.Table]:
        before = self._take(self._orders, self._free_orders, count)
        return {"delete": before, "insert": _plus_one(before, "o_totalprice")}

    def _new_orders(self, orders: int, lines: int) -> tuple[pa.Table, pa.Table]:
        """New orders and lines that belong to them (or, without new orders, new lines of a fresh key)."""
        first = self._next_key
        self._next_key += max(1, orders)
        made = self._orders.slice(0, orders)
        made = _replaced(made, "o_orderkey", [first + i for i in range(orders)])
        copied = self._lines.take([self._random.randrange(self._lines.num_rows) for _ in range(lines)])
        keys = [first + i % max(1, orders) for i in range(lines)]
        copied = _replaced(copied, "l_orderkey", keys)
        return made, _replaced(copied, "l_linenumber", list(range(lines)))


def _plus_one(table: pa.Table, column: str) -> pa.Table:
    position = table.column_names.index(column)
    kind = table.schema.field(column).type
    return table.set_column(position, column, pc.add(table[column], pa.scalar(1, pa.int64())).cast(kind))


def _replaced(table: pa.Table, column: str, values: list[int]) -> pa.Table:
    position = table.column_names.index(column)
    return table.set_column(position, column, pa.array(values, table.schema.field(column).type))


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def run_transaction(db: tm.Database, work: dict[str, dict[str, pa.Table]]) -> None:
    with db.transaction() as tx:
        for table, change in work.items():
            tx.delete(table, change["delete"])
            tx.insert(table, change["insert"])


def measure(db: tm.Database, changes: Changes, size: int, repeats: int) -> Measurement:
    samples = []
    for _ in range(repeats + 1):  # the first one warms up and is thrown away
        work = changes.transaction(size)
        spent = timed(lambda w=work: run_transaction(db, w))  # type: ignore[misc]
        trace = db.trace(db.version).to_pylist()
        v1 = next((row for row in trace if row["node"] == "v1"), None)
        v2 = sum(row["milliseconds"] for row in trace if row["node"] != "v1")
        samples.append(
            Measurement(
                size,
                spent,
                v1["milliseconds"] if v1 else 0.0,
                v2,
                sum(row["rows_read"] for row in trace),
                v1["rows_out"] if v1 else 0,
            )
        )
    kept = sorted(samples[1:], key=lambda sample: sample.transaction_ms)
    return kept[len(kept) // 2]


def recompute(db: tm.Database, view: str, repeats: int) -> float:
    """Evaluate and store the definition again; the median."""
    spent = []
    for _ in range(repeats):
        spent.append(
            timed(
                lambda: db.execute(f"CREATE MATERIALIZED VIEW again WITH (strategy = 'complete') AS {tpch.VIEWS[view]}")
            )
        )
        db.execute("DROP MATERIALIZED VIEW again")
    return statistics.median(spent)


@contextmanager
def database(engine: str) -> Iterator[tm.Database]:
    """A durable database in a temporary folder, so that commits cost what they cost."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("data.duckdb" if engine == "duckdb" else "lake")
        with tm.connect(f"{engine}:{path}") as db:
            yield db


def benchmark(engine: str, scale: float, data: Path, repeats: int) -> dict[str, object]:
    folder = tpch.generate(scale, data)
    with database(engine) as db:
        load_ms = timed(lambda: tpch.load(db, folder))
        print(f"{engine}: loaded scale {scale:g} in {load_ms / 1000:.1f} s", flush=True)
        for view, definition in tpch.VIEWS.items():
            spent = timed(lambda v=view, d=definition: db.execute(f"CREATE MATERIALIZED VIEW {v} AS {d}"))  # type: ignore[misc]
            print(f"{engine}: materialized {view} in {spent / 1000:.2f} s", flush=True)
        again = {view: recompute(db, view, repeats) for view in tpch.VIEWS}
        changes, results = Changes(folder), []
        for size in SIZES:
            result = measure(db, changes, size, repeats)
            result.recompute_v1_ms, result.recompute_v2_ms = again["v1"], again["v2"]
            results.append(result)
            print_row(engine, result)
        differing = {view: db.audit(view).num_rows for view in tpch.VIEWS}
        lineitems = db.query("SELECT COUNT(*) AS n FROM lineitem")["n"][0].as_py()
    if any(differing.values()):
        raise SystemExit(f"the views differ from first principle: {differing}")
    print(f"{engine}: both views equal their definitions at the end")
    return {
        "engine": engine,
        "scale": scale,
        "lineitems": lineitems,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "load_ms": load_ms,
        "results": [asdict(result) for result in results],
    }


def print_head() -> None:
    print(
        f"{'engine':8} {'rows':>7} {'transaction':>12} {'of it V1':>10} {'of it V2':>10} "
        f"{'recompute V1':>13} {'recompute V2':>13} {'rows read':>11}   (ms, medians)"
    )


def print_row(engine: str, m: Measurement) -> None:
    print(
        f"{engine:8} {m.rows_changed:>7,} {m.transaction_ms:>12.1f} {m.v1_ms:>10.1f} {m.v2_ms:>10.1f} "
        f"{m.recompute_v1_ms:>13.1f} {m.recompute_v2_ms:>13.1f} {m.rows_read:>11,}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", action="append", choices=["duckdb", "spark"], help="default: both")
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor (0.1 is 600k lineitems)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(".bench"), help="where generated data is kept")
    parser.add_argument("--json", type=Path, help="where the figures go (default: in the data folder)")
    options = parser.parse_args()
    print_head()
    reports = []
    for engine in options.engine or ["duckdb", "spark"]:
        reports.append(benchmark(engine, options.scale, options.data, options.repeats))
    target = options.json or options.data / f"results-{options.scale:g}.json"
    target.write_text(json.dumps(reports, indent=2) + "\n")
    print(f"figures in {target}")


if __name__ == "__main__":
    main()
