"""Small deltas, which stand inline in the rows of the transactions table, and are read many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engines.spark.records import Committed, are_commits

T = TypeVar("T")
_EACH: Final = ("sequence", "version")


@dataclass(frozen=True)
class Small:
    """A delta, as an Arrow stream, with the row of the table and the version that it is of."""

    sequence: int
    version: int
    data: bytes


@dataclass(frozen=True)
class Log:
    """What transactions logged of a relation: small deltas, many of them in one table, by version; and the records that
    name files of it, each with its small delta."""

    versions: list[int]
    runs: list[tuple[list[int], pa.Table]]
    filed: list[tuple[Committed, pa.Table | None]]

    @classmethod
    def of(
        cls,
        inline: Iterable[tuple[int, T]],
        filed: Mapping[int, Committed],
        read_many: Callable[[list[T]], Iterable[tuple[list[int], pa.Table]]],
        read: Callable[[T], pa.Table],
    ) -> Log:
        """The log from small deltas in some form, which are read together as far as they stand alone."""
        alone, beside = list[tuple[int, T]](), dict[int, pa.Table]()
        for version, delta in inline:
            if version in filed:
                beside[version] = read(delta)
            else:
                alone.append((version, delta))
        return cls(
            [version for version, _ in alone],
            list(read_many([delta for _, delta in alone])),
            [(record, beside.get(version)) for version, record in filed.items()],
        )


def of_transactions(rows: pa.Table) -> pa.Table:
    """The small deltas of transactions among the rows, each in a row of its own: what they changed, and how if that is
    among the columns."""
    rows = rows.filter(are_commits(rows.column("record")))
    cells = {"relations": "relation", "deltas": "delta"}
    parts = [_flat(batch, [name for name in cells if name in rows.column_names]) for batch in rows.to_batches()]
    empty = {name: rows.schema.field(name).type for name in _EACH}
    empty |= {name: rows.schema.field(name).type.value_type for name in cells if name in rows.column_names}
    table = pa.Table.from_batches(parts, pa.schema(list(empty.items())))
    return table.rename_columns([cells.get(name, name) for name in table.column_names]).sort_by("sequence")


def _flat(batch: pa.RecordBatch, cells: list[str]) -> pa.RecordBatch:
    parents = pc.list_parent_indices(batch.column("relations"))
    columns = {name: batch.column(name).take(parents) for name in _EACH}
    return pa.RecordBatch.from_pydict(columns | {name: pc.list_flatten(batch.column(name)) for name in cells})
