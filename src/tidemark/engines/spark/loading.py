"""From the rows of the transactions table to the stored relations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

from tidemark.engines.spark.files import read_entries
from tidemark.engines.spark.records import Changed, Committed, Merged, Noted
from tidemark.engines.spark.relations import Relation, apply
from tidemark.engines.spark.transactions import Row, from_bytes


def replay(
    root: Path, rows: Iterable[Row], deltas_after: Callable[[int], dict[int, dict[str, bytes]]]
) -> dict[str, Relation]:
    """The stored relations after all rows. Deltas that a later merge folded into base files are not read."""
    rows = list(rows)
    settled = settled_at(rows)
    inline = deltas_after(_first_needed(rows, settled) - 1)
    relations: dict[str, Relation] = {}
    for row in rows:

        def entries(relation: Relation, changed: Changed, sequence: int = row.sequence) -> pa.Table | None:
            if sequence < settled.get(relation.name, 0):
                return None
            if changed.inline:
                return from_bytes(inline[sequence][relation.name])
            return read_entries(root / relation.directory, changed.weighted, relation.schema)

        relations = apply(relations, row.record, entries)
    return relations


def kept_after(rows: Iterable[Row], deltas_after: Callable[[int], dict[int, dict[str, bytes]]]) -> dict[str, pa.Table]:
    """What is kept of forgotten logs, by relation: that of the last row that forgot something of it."""
    last: dict[str, int] = {}
    for row in rows:
        if isinstance(row.record, Noted):
            last.update((name, row.sequence) for name in row.record.forgotten)
        elif isinstance(row.record, Committed):
            for name in (*row.record.dropped, *(created.relation for created in row.record.created)):
                last.pop(name, None)
    if not last:
        return {}
    inline = deltas_after(min(last.values()) - 1)
    found = {name: inline.get(sequence, {}).get(name) for name, sequence in last.items()}
    return {name: from_bytes(data) for name, data in found.items() if data is not None}


def settled_at(rows: list[Row]) -> dict[str, int]:
    """For each relation the last row before which none of its deltas is needed for its content: creation, merge,
    alteration or drop. Of one without content none is needed ever."""
    result: dict[str, int] = {}
    after_all = rows[-1].sequence + 1 if rows else 1
    for row in rows:
        if isinstance(row.record, Merged):
            result[row.record.relation] = row.sequence
        elif isinstance(row.record, Committed):
            result.update((name, row.sequence) for name in row.record.dropped)
            result.update((new.relation, row.sequence if new.kept else after_all) for new in row.record.created)
            result.update((altered.relation, row.sequence) for altered in row.record.altered)
    return result


def _first_needed(rows: list[Row], settled: dict[str, int]) -> int:
    for row in rows:
        if isinstance(row.record, Committed):
            for changed in row.record.changed:
                if changed.inline and row.sequence >= settled.get(changed.relation, 0):
                    return row.sequence
    return rows[-1].sequence + 1 if rows else 1
