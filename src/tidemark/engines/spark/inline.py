"""Small deltas, which stand inline in the rows of the transactions table, and are read many at a time.

The log of one relation, read from the transactions table and from the files that its rows name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.types import VERSION
from tidemark.engines.spark.in_process import read_entries, read_rows
from tidemark.engines.spark.integrity import Verified
from tidemark.engines.spark.records import Committed, are_commits
from tidemark.engines.spark.relations import Relation
from tidemark.storage import delta as deltas
from tidemark.storage.streams import entries, log_schema

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

    def until(self, version: int) -> Log:
        """The log up to a version: another relation may have taken the name since."""
        remaining, runs = iter(self.versions), list[tuple[list[int], pa.Table]]()
        for counts, table in self.runs:
            there = sum(known <= version for known in islice(remaining, len(counts)))  # they ascend
            if there:
                runs.append((counts[:there], table.slice(0, sum(counts[:there]))))
        known = [known for known in self.versions if known <= version]
        return Log(known, runs, [(record, delta) for record, delta in self.filed if record.version <= version])


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


def later_than(kept: pa.Table, since: int) -> pa.Table:
    """The entries of a log that are later than a version."""
    return kept.filter(pc.greater(kept.column(VERSION), since))


def logged_changes(verified: Verified, relation: Relation, log: Log, kept: pa.Table | None = None) -> pa.Table:
    """Columns, ``_version``, ``_weight``; net per version, in the order of versions.

    What a relation was first filled with is not in the log: it is the content now, rolled back over the log.
    """
    schema = log_schema(relation.schema)
    tables = [schema.empty_table()]
    if kept is not None and kept.num_rows:
        tables.append(_extended(kept, relation).cast(schema))
    tables += entries(log.versions, log.runs, relation.schema, relation.added)
    if not log.filed:
        return pa.concat_tables(tables)
    large = [_change(verified, relation, record, inline) for record, inline in log.filed]
    runs = [([change.num_rows], change) for change in large]
    tables += entries([record.version for record, _ in log.filed], runs, relation.schema, relation.added)
    return pa.concat_tables(tables).sort_by(VERSION)


def _extended(kept: pa.Table, relation: Relation) -> pa.Table:
    """What was kept of a log before the relation got more columns."""
    rows = kept.drop_columns([VERSION])
    extended = deltas.extended(rows, relation.schema, relation.added)
    return extended.add_column(extended.num_columns - 1, VERSION, kept.column(VERSION))


def _change(verified: Verified, relation: Relation, record: Committed, inline: pa.Table | None) -> pa.Table:
    """What one transaction did to the relation: new rows in whole files, weighted entries, and a small delta."""
    schema, added = relation.schema, relation.added
    parts = [] if inline is None else [deltas.extended(inline, schema, added).rename_columns(schema.weighted.names)]
    for changed in record.changed:
        if changed.relation == relation.name:
            if changed.inserted:
                parts.append(deltas.weighted(read_rows(verified, relation.directory, changed.inserted, schema, added)))
            if changed.weighted:
                parts.append(read_entries(verified, relation.directory, changed.weighted, schema, added))
    return deltas.combine(*parts)
