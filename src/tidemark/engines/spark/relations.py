"""The stored relations as values, and how records change them.

A relation is its *base*, Parquet files of plain rows, plus its *tail*, the entries since the base was last merged,
in memory. The tail is a few Arrow tables of falling size: a commit adds to the smallest, so that a large old part
need not be handed to Spark again after each commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import Schema
from tidemark.engines.spark.lake import column_names
from tidemark.engines.spark.records import Altered, Changed, Committed, Created, DataFile, Noted, Record
from tidemark.storage import delta as deltas

FALL: Final = 8
"""How many times larger each part of a tail is than the next."""


@dataclass(frozen=True)
class Relation:
    """One stored relation at one moment."""

    name: str
    schema: Schema
    directory: str
    logged: bool
    internal: bool
    created_at: int
    files: tuple[DataFile, ...] = ()
    tail: tuple[pa.Table, ...] = ()
    changed_at: int = 0
    """The last version that changed the content, or the columns."""
    added: tuple[Value, ...] = ()
    """What entries that were logged before have in the columns that came later, which are the last ones."""
    kept: bool = True
    """Whether there is content, and not only a log."""
    named: bool = True
    """Whether columns that came together can have their own names in files. Earlier Tidemarks took them one by one."""

    @cached_property
    def rows(self) -> int:
        return sum(file.rows for file in self.files) + sum(deltas.growth(part) for part in self.tail)

    @property
    def tail_entries(self) -> int:
        return sum(part.num_rows for part in self.tail)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns in the files."""
        first = len(self.schema.names) - len(self.added) if self.named else 0
        return column_names(self.schema.names, first)

    @cached_property
    def file_schema(self) -> pa.Schema:
        fields = zip(self.columns, self.schema.types, strict=True)
        return pa.schema([pa.field(name, type.arrow) for name, type in fields])

    def with_change(self, inserted: tuple[DataFile, ...], entries: pa.Table | None, version: int) -> Relation:
        if not self.kept:
            return self
        tail = self.tail
        if entries is not None and entries.num_rows:
            tail = _pushed(tail, entries)
        return replace(self, files=self.files + inserted, tail=tail, changed_at=version)

    def with_merge(self, removed: tuple[str, ...], added: tuple[DataFile, ...]) -> Relation:
        gone = frozenset(removed)
        kept = tuple(file for file in self.files if file.path not in gone)
        return replace(self, files=kept + added, tail=())

    def with_alteration(self, altered: Altered, version: int) -> Relation:
        before = replace(self, schema=altered.schema, added=altered.added)
        return replace(before, files=altered.files, tail=(), changed_at=version)


Relations: TypeAlias = Mapping[str, Relation]
Entries: TypeAlias = Callable[[Relation, Changed], pa.Table | None]
"""From a relation and its change to the entries for its tail: the delta inline, or what its weighted files hold."""


def apply(relations: Relations, record: Record, entries: Entries) -> dict[str, Relation]:
    """The stored relations after a record."""
    result = dict(relations)
    if isinstance(record, Noted):
        return result
    if not isinstance(record, Committed):
        result[record.relation] = result[record.relation].with_merge(record.removed, record.added)
        return result
    for name in record.dropped:
        del result[name]
    for altered in record.altered:
        result[altered.relation] = result[altered.relation].with_alteration(altered, record.version)
    for created in record.created:
        result[created.relation] = begin(created, record.version)
    for changed in record.changed:
        relation = result[changed.relation]
        result[changed.relation] = relation.with_change(changed.inserted, entries(relation, changed), record.version)
    return result


def begin(created: Created, version: int) -> Relation:
    """A relation as it is created."""
    relation = Relation(
        created.relation,
        created.schema,
        created.directory,
        created.logged,
        created.internal,
        version,
        kept=created.kept,
        named=created.named,
    )
    return relation.with_change(created.files, None, version)


def _pushed(tail: tuple[pa.Table, ...], entries: pa.Table) -> tuple[pa.Table, ...]:
    parts = [*tail, entries]
    while len(parts) > 1 and parts[-2].num_rows < FALL * parts[-1].num_rows:
        last = parts.pop()
        parts[-1] = deltas.combine(parts[-1], last)
        if not parts[-1].num_rows:
            parts.pop()
    return tuple(parts)
