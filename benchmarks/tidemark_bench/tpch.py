"""TPC-H data, generated once for each scale by tpchgen-cli: the columns that V1 and V2 and their transactions need, or
all eight tables with all their columns, for the queries."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.errors import TidemarkError

TABLES: Final = {
    "nation": "n_nationkey INT PRIMARY KEY, n_name VARCHAR NOT NULL",
    "customer": "c_custkey BIGINT PRIMARY KEY, c_name VARCHAR NOT NULL, c_nationkey INT NOT NULL, "
    "c_mktsegment VARCHAR NOT NULL",
    "orders": "o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT NOT NULL, o_orderstatus VARCHAR NOT NULL, "
    "o_totalprice DECIMAL(15,2) NOT NULL, o_orderdate DATE NOT NULL",
    "lineitem": "l_orderkey BIGINT NOT NULL, l_linenumber INT NOT NULL, l_quantity DECIMAL(15,2) NOT NULL, "
    "l_extendedprice DECIMAL(15,2) NOT NULL, l_discount DECIMAL(15,2) NOT NULL, l_returnflag VARCHAR NOT NULL, "
    "l_shipdate DATE NOT NULL, l_shipmode VARCHAR NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber)",
}
VIEWS: Final = {
    "v1": """
        SELECT c_custkey, c_name, o_orderkey, o_orderdate, l_linenumber, l_extendedprice
        FROM customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey
        WHERE c_mktsegment = 'BUILDING' AND o_orderdate >= DATE '1995-01-01' AND l_shipdate >= DATE '1995-06-01'
    """,
    "v2": """
        SELECT n_name, EXTRACT(YEAR FROM o_orderdate) AS year,
               SUM(l_extendedprice * (1 - l_discount)) AS revenue, COUNT(*) AS items
        FROM nation JOIN customer ON c_nationkey = n_nationkey JOIN orders ON o_custkey = c_custkey
             JOIN lineitem ON l_orderkey = o_orderkey
        GROUP BY n_name, EXTRACT(YEAR FROM o_orderdate)
    """,
}


ALL_TABLES: Final = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")


def generate_all(scale: float, folder: Path) -> Path:
    """The folder with the Parquet files of all tables."""
    return generate(scale, folder, ALL_TABLES, "tpch-all")


def generate(scale: float, folder: Path, tables: Iterable[str] = TABLES, name: str = "tpch") -> Path:
    """The folder with the Parquet files of a scale factor; they are made on first use."""
    target = folder / f"{name}-{scale:g}"
    if (target / "lineitem.parquet").exists():
        return target
    program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
    if program is None:
        raise TidemarkError(
            "unsupported",
            "the benchmark needs tpchgen-cli, which makes its data, and it is not installed",
            hint="pip install tpchgen-cli",
        )
    unfinished = folder / f"{name}-{scale:g}.unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    arguments = ["parquet", "-s", f"{scale:g}", "--output-dir", str(unfinished), "--tables", ",".join(tables)]
    done = subprocess.run([program, *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise TidemarkError("unsupported", f"tpchgen-cli failed for the scale {scale:g}: {reason}")
    unfinished.rename(target)
    return target


def columns_of(table: str) -> list[str]:
    words = [column.split()[0] for column in TABLES[table].split(", ")]
    return [word for word in words if word.startswith(f"{table[0]}_") and word.isidentifier()]


def read(folder: Path, table: str) -> pa.Table:
    """The wanted columns of a table, of the wanted types."""
    found = pq.read_table(folder / f"{table}.parquet", columns=columns_of(table))
    fields = []
    for field in found.schema.remove_metadata():
        kind = pa.int32() if field.name in ("n_nationkey", "c_nationkey") else field.type
        fields.append(pa.field(field.name, pa.string() if pa.types.is_string_view(kind) else kind))
    return found.cast(pa.schema(fields)).replace_schema_metadata(None)


def read_all(folder: Path) -> dict[str, pa.Table]:
    """All tables. At the smallest scales the generator repeats keys of partsupp: the first of each stays."""
    tables = {}
    for table in ALL_TABLES:
        found = pq.read_table(folder / f"{table}.parquet")
        kinds = (pa.string() if pa.types.is_string_view(kind) else kind for kind in found.schema.types)
        tables[table] = found.cast(pa.schema(zip(found.column_names, kinds, strict=True)))
    supplies = tables["partsupp"].append_column("row", pa.array(range(tables["partsupp"].num_rows), pa.int64()))
    kept = supplies.group_by(["ps_partkey", "ps_suppkey"], use_threads=False).aggregate([("row", "min")])
    if kept.num_rows < supplies.num_rows:
        tables["partsupp"] = tables["partsupp"].take(kept["row_min"])
    return tables
