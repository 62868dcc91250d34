"""Database events of a block, from its net change: what was inserted, deleted and updated.

A row that left and one that came with the same key are one row, updated. What a transaction did and undid is no event.
Of a relation without a key every change is a deletion or an insertion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidemark.algebra.types import Schema
from tidemark.engines.reference.arrow import from_bag, to_bag
from tidemark.sql.rule_statements import DatabaseEvent

Row = tuple[Any, ...]


@dataclass
class Happened:
    """What happened to one relation: rows, as often as they came or went, and pairs of old and new."""

    inserted: dict[Row, int] = field(default_factory=dict)
    deleted: dict[Row, int] = field(default_factory=dict)
    updated: list[tuple[Row, Row]] = field(default_factory=list)


def happened(delta: pa.Table, key: tuple[int, ...]) -> Happened:
    """A net change, with the rows that agree in the key in pairs.

    >>> delta = pa.table({"k": [1, 1, 2], "q": [5, 6, 7], "_weight": pa.array([-1, 1, 1], pa.int64())})
    >>> happened(delta, (0,))
    Happened(inserted={(2, 7): 1}, deleted={}, updated=[((1, 5), (1, 6))])
    """
    rows, found = to_bag(delta), Happened()
    leaving = {row: -weight for row, weight in rows.items() if weight < 0}
    coming = {row: weight for row, weight in rows.items() if weight > 0}
    old = {tuple(row[i] for i in key): row for row in leaving} if key else {}
    for row, weight in coming.items():
        before = old.pop(tuple(row[i] for i in key), None) if key else None
        if before is None:
            found.inserted[row] = weight
        else:
            found.updated.append((before, row))
            del leaving[before]
    found.deleted = leaving
    return found


def transitions(
    events: Iterable[DatabaseEvent],
    changes: Mapping[str, pa.Table],
    keys: Mapping[str, tuple[int, ...]],
    schemas: Mapping[str, Schema],
    is_several: bool,
    given: Mapping[str, Schema],
) -> dict[str, pa.Table]:
    """The transition relations of a rule's events that happened; none if no event did.

    Rows that were updated are in all three: the old ones in ``deleted``, the new ones in ``inserted``.
    """
    events = list(events)
    relations = dict.fromkeys(event.relation for event in events)
    ending = "_{}" if is_several else ""
    bags: dict[str, dict[Row, int]] = {name: {} for name in given}
    is_any = False
    for relation in relations:
        if relation not in changes:
            continue
        suffix = ending.format(relation)
        width = len(given[f"inserted{suffix}"])  # a rule sees the columns that there were when it was created
        found = happened(changes[relation], keys[relation])
        inserted, deleted = bags[f"inserted{suffix}"], bags[f"deleted{suffix}"]
        for event in (event for event in events if event.relation == relation):
            if event.kind == "insert":
                _add(inserted, found.inserted, width)
            elif event.kind == "delete":
                _add(deleted, found.deleted, width)
            else:
                columns = [schemas[relation].position(name) for name in event.columns]
                for old, new in found.updated:
                    if not columns or any(old[i] != new[i] for i in columns):
                        inserted[new[:width]], deleted[old[:width]] = 1, 1
                        bags[f"updated{suffix}"][old[:width] + new[:width]] = 1
        is_any = is_any or bool(inserted or deleted)
    if not is_any:
        return {}
    return {name: from_bag(bag, given[name]) for name, bag in bags.items()}


def _add(bag: dict[Row, int], rows: Mapping[Row, int], width: int) -> None:
    for row, weight in rows.items():
        bag[row[:width]] = bag.get(row[:width], 0) + weight
