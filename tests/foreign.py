"""Delta tables that another job writes, by delta-rs, and that is their plain reader, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.support import Bag, rows_in_order

SCHEMA = pa.schema([("id", pa.int64()), ("grp", pa.string()), ("amount", pa.decimal128(8, 2))])
Row = tuple[int, str | None, int | None]


def table_of(rows: Iterable[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows of an id, a group and an amount in hundredths."""
    made = [(i, g, None if a is None else Decimal(a).scaleb(-2)) for i, g, a in rows]
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=False)) for row in made], schema=schema)


@dataclass
class Foreign:
    """One table that somebody else writes. ``feed`` switches its change data feed on, ``parts`` partitions it."""

    path: Path
    feed: bool = False
    parts: bool = False

    def write(self, rows: Iterable[Row], mode: Any = "append") -> None:
        configuration = {"delta.enableChangeDataFeed": "true"} if self.feed else {}
        write_deltalake(
            str(self.path),
            table_of(rows),
            mode=mode,
            partition_by=["grp"] if self.parts else None,
            configuration=configuration,
        )

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.path))

    def content(self, version: int | None = None) -> Bag:
        """The rows at a version, by a plain read."""
        found = DeltaTable(str(self.path), version=version).to_pyarrow_table()
        return Counter(rows_in_order(found.select(SCHEMA.names)))

    def delete(self, condition: str | None) -> None:
        self.table.delete(condition)

    def update(self, condition: str, **cells: str) -> None:
        self.table.update(predicate=condition, updates=cells)

    def merge(self, rows: Iterable[Row]) -> None:
        """Rows with a known id are updated, those without an amount deleted, the others inserted."""
        (
            self.table.merge(table_of(rows), "t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_delete("s.amount IS NULL")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    def compact(self) -> None:
        self.table.optimize.compact()

    def restore(self, back: int) -> None:
        table = self.table
        if back and table.version() >= back:
            table.restore(table.version() - back)

    def checkpoint(self) -> None:
        self.table.create_checkpoint()

    def vacuum(self) -> None:
        self.table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)

    def annotate(self) -> None:
        """A commit that changes nothing."""
        self.table.alter.set_table_properties({"delta.logRetentionDuration": "interval 31 days"})
