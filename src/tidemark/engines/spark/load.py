"""From the rows of the transactions table to the stored relations.

Most rows say no more than that small deltas stand in them. These are not looked at one by one: the small deltas of a
relation that follow each other become one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from tidemark.engines.spark.in_process import read_entries
from tidemark.engines.spark.inline import Small
from tidemark.engines.spark.integrity import Verified
from tidemark.engines.spark.records import Changed, Committed, Merged, Noted
from tidemark.engines.spark.relations import Relation, apply
from tidemark.engines.spark.transactions import TransactionRow
from tidemark.storage import delta as deltas
from tidemark.storage.streams import from_bytes, read_many

NEVER: Final = 2**63 - 1
"""The row at which a relation without content is settled: it is behind all others."""


def replay(
    verified: Verified, rows: Sequence[TransactionRow], small: Mapping[str, Sequence[Small]]
) -> dict[str, Relation]:
    """The stored relations after all rows, of which those may be missing that have nothing but small deltas.

    ``small`` are the small deltas that are needed: those that a later merge folded into base files are not.
    """
    settled = settled_at(rows)
    waiting = {name: list(reversed(found)) for name, found in small.items()}
    relations: dict[str, Relation] = {}
    for row in rows:

        def entries(relation: Relation, changed: Changed, sequence: int = row.sequence) -> pa.Table | None:
            if sequence < settled.get(relation.name, 0):
                return None
            if changed.inline:
                return from_bytes(waiting[relation.name].pop().data)
            return read_entries(verified, relation.directory, changed.weighted, relation.schema)

        for changed in row.record.changed if isinstance(row.record, Committed) else ():
            _take(relations, changed.relation, waiting, row.sequence)
        relations = apply(relations, row.record, entries)
    for name in waiting:
        _take(relations, name, waiting, None)
    return relations


def _take(relations: dict[str, Relation], name: str, waiting: Mapping[str, list[Small]], before: int | None) -> None:
    """Give a relation its small deltas, the oldest of which wait last, up to a row."""
    found, taken = waiting.get(name, []), list[Small]()
    while found and (before is None or found[-1].sequence < before):
        taken.append(found.pop())
    if taken:
        delta = deltas.combine(*(table for _, table in read_many([one.data for one in taken])))
        relations[name] = relations[name].with_change((), delta, taken[-1].version)


def kept_after(rows: Iterable[TransactionRow], cells: Callable[[int], dict[str, bytes]]) -> dict[str, pa.Table]:
    """What is kept of forgotten logs, by relation: that of the last row that forgot something of it."""
    last: dict[str, int] = {}
    for row in rows:
        if isinstance(row.record, Noted):
            last.update((name, row.sequence) for name in row.record.forgotten)
        elif isinstance(row.record, Committed):
            for name in (*row.record.dropped, *(created.relation for created in row.record.created)):
                last.pop(name, None)
    inline = {sequence: cells(sequence) for sequence in set(last.values())}
    found = {name: inline[sequence].get(name) for name, sequence in last.items()}
    return {name: from_bytes(data) for name, data in found.items() if data is not None}


def settled_at(rows: Iterable[TransactionRow]) -> dict[str, int]:
    """For each relation the last row before which none of its deltas is needed for its content: creation, merge,
    alteration or drop. Of one without content none is needed ever."""
    result: dict[str, int] = {}
    for row in rows:
        if isinstance(row.record, Merged):
            result[row.record.relation] = row.sequence
        elif isinstance(row.record, Committed):
            result.update((name, row.sequence) for name in row.record.dropped)
            result.update((new.relation, row.sequence if new.kept else NEVER) for new in row.record.created)
            result.update((altered.relation, row.sequence) for altered in row.record.altered)
    return result
