"""All eight tables of TPC-H, with all their columns, generated once for each scale."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.cli.bench import tpch

NAMES: Final = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")


def generate(scale: float, folder: Path) -> Path:
    """The folder with the Parquet files of a scale factor; they are made on first use."""
    return tpch.generate(scale, folder, NAMES, "tpch-all")


def read(folder: Path, table: str) -> pa.Table:
    """The rows of a table. At the smallest scales the generator repeats keys of partsupp: the first of each stays."""
    found = pq.read_table(folder / f"{table}.parquet")
    names = found.column_names
    kinds = (pa.string() if pa.types.is_string_view(kind) else kind for kind in found.schema.types)
    found = found.cast(pa.schema(zip(names, kinds, strict=True)))
    if table != "partsupp":
        return found
    numbered = found.append_column("row", pa.array(range(found.num_rows), pa.int64()))
    kept = numbered.group_by(["ps_partkey", "ps_suppkey"], use_threads=False).aggregate([("row", "min")])
    return found if kept.num_rows == found.num_rows else found.take(kept["row_min"])
