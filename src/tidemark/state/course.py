"""The course of an open transaction: what its statements did to each relation, in order.

    place    the number of a statement or of a signal; a block goes from one place to another
    step     what one statement did to one relation: its net delta, and old and new rows in pairs, if it is known
             which row became which

A net delta does not say which row became which, nor what came first. Steps do, and nothing of them is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import Schema
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import Rows


@dataclass(frozen=True)
class Act:
    """What happened to a relation at one place. ``pairs`` has the columns of old rows, those of new ones, and
    ``_weight``."""

    place: int
    change: Rows
    paired: Rows | None = None

    @property
    def delta(self) -> pa.Table:
        return self.change.table

    @property
    def pairs(self) -> pa.Table | None:
        return None if self.paired is None else self.paired.table


class Course:
    """The steps of one open transaction."""

    def __init__(self) -> None:
        self.place = 0
        self._steps: dict[str, list[Act]] = {}
        self._paired: set[str] = set()

    def advance(self) -> int:
        """The next place, for what is no step of a relation."""
        self.place += 1
        return self.place

    def take(self, relation: str, change: Rows, pairs: Rows | None = None) -> None:
        """A statement changed a table."""
        self.advance()
        self.follow(relation, change, pairs)

    def follow(self, relation: str, change: Rows, pairs: Rows | None = None) -> None:
        """What happened at this place changed a relation, too."""
        if pairs is not None:
            self._paired.add(relation)
        if change.count or pairs is not None:
            self._steps.setdefault(relation, []).append(Act(self.place, change, pairs))

    def between(self, relation: str, since: int, until: int) -> list[Act]:
        """The steps of a relation after one place, up to another."""
        return [step for step in self._steps.get(relation, ()) if since < step.place <= until]

    @property
    def relations(self) -> tuple[str, ...]:
        """Those to which something happened."""
        return tuple(self._steps)

    def paired(self) -> list[str]:
        """The relations of which it is known, at some place, which rows became which."""
        return [name for name in self._steps if self.has_pairs(name)]

    @property
    def has_paired(self) -> bool:
        """Whether there is any such relation."""
        return bool(self._paired)

    def has_pairs(self, relation: str) -> bool:
        return relation in self._paired

    def forget(self, relation: str) -> None:
        """The relation is not there any more."""
        self._steps.pop(relation, None)
        self._paired.discard(relation)

    def altered(self, relation: str, schema: Schema, added: Sequence[Value]) -> None:
        """The relation has more columns now, so what happened to it before has them, too."""
        self._steps[relation] = [
            replace(
                step,
                change=Rows.of(delta_tables.extended(step.delta, schema, added)),
                paired=None if step.pairs is None else Rows.of(_extended(step.pairs, schema, added)),
            )
            for step in self._steps.get(relation, ())
        ]


def side_by_side(schema: Schema) -> Schema:
    """The columns of old and new rows in pairs."""
    old, new = (tuple(replace(f, name=f"{which} {f.name}") for f in schema) for which in ("old", "new"))
    return Schema(old + new)


def old_rows(pairs: pa.Table, schema: Schema) -> pa.Table:
    """The old rows of pairs, with their weights."""
    return _columns(pairs, range(len(schema)), schema)


def new_rows(pairs: pa.Table, schema: Schema) -> pa.Table:
    """The new rows of pairs, with their weights."""
    return _columns(pairs, range(len(schema), 2 * len(schema)), schema)


def _columns(pairs: pa.Table, positions: range, schema: Schema) -> pa.Table:
    chosen = pairs.select([*positions, pairs.num_columns - 1])
    return chosen.rename_columns(schema.weighted.names).cast(schema.weighted)


def _extended(pairs: pa.Table, schema: Schema, added: Sequence[Value]) -> pa.Table:
    before = Schema(schema.fields[: len(schema) - len(added)])
    old, new = (delta_tables.extended(part(pairs, before), schema, added) for part in (old_rows, new_rows))
    columns = [*old.columns[:-1], *new.columns[:-1], pairs.columns[-1]]
    return pa.Table.from_arrays(columns, schema=side_by_side(schema).weighted)
