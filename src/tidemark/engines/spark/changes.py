"""The log of one relation, read from the transactions table and from the files that its rows name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.types import VERSION, WEIGHT
from tidemark.engines.spark.files import read_entries, read_rows
from tidemark.engines.spark.records import Committed
from tidemark.engines.spark.relations import Relation
from tidemark.engines.spark.transactions import Row
from tidemark.log import deltas


def later_than(kept: pa.Table, since: int) -> pa.Table:
    """The entries of a log that are later than a version."""
    return kept.filter(pc.greater(kept.column(VERSION), since))


def logged_changes(
    root: Path, relation: Relation, log: Iterable[tuple[Row, pa.Table | None]], kept: pa.Table | None = None
) -> pa.Table:
    """Columns, ``_version``, ``_weight``; net per version, in the order of versions.

    What a relation was first filled with is not in the log: it is the content now, rolled back over the log.
    """
    schema = relation.schema.arrow.append(pa.field(VERSION, pa.int64())).append(pa.field(WEIGHT, pa.int64()))
    tables = [schema.empty_table()]
    if kept is not None and kept.num_rows:
        tables.append(_extended(kept, relation).cast(schema))
    for row, inline in log:
        if not isinstance(row.record, Committed):
            continue
        change = _change(root / relation.directory, relation, row.record, inline)
        if change is not None and change.num_rows:
            stamp = pa.array([row.version] * change.num_rows, pa.int64())
            columns = [*change.columns[:-1], stamp, change.columns[-1]]
            tables.append(pa.table(columns, schema=schema))
    return pa.concat_tables(tables)


def _extended(kept: pa.Table, relation: Relation) -> pa.Table:
    """What was kept of a log before the relation got more columns."""
    rows = kept.drop_columns([VERSION])
    extended = deltas.extended(rows, relation.schema, relation.added)
    return extended.add_column(extended.num_columns - 1, VERSION, kept.column(VERSION))


def _change(folder: Path, relation: Relation, record: Committed, inline: pa.Table | None) -> pa.Table | None:
    """What one transaction did to the relation: new rows in whole files, and weighted entries."""
    schema, added = relation.schema, relation.added
    parts = [] if inline is None else [deltas.extended(inline, schema, added).rename_columns(schema.weighted.names)]
    for changed in record.changed:
        if changed.relation == relation.name:
            if changed.inserted:
                parts.append(deltas.weighted(read_rows(folder, changed.inserted, schema, added)))
            if changed.weighted:
                parts.append(read_entries(folder, changed.weighted, schema, added))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 and inline is not None else deltas.combine(*parts)
