"""The log of one relation, read from the transactions table and from the files that its rows name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.types import VERSION
from tidemark.engines.spark.files import read_entries, read_rows
from tidemark.engines.spark.inline import Log
from tidemark.engines.spark.records import Committed
from tidemark.engines.spark.relations import Relation
from tidemark.log import deltas
from tidemark.log.entries import entries, log_schema


def later_than(kept: pa.Table, since: int) -> pa.Table:
    """The entries of a log that are later than a version."""
    return kept.filter(pc.greater(kept.column(VERSION), since))


def logged_changes(root: Path, relation: Relation, log: Log, kept: pa.Table | None = None) -> pa.Table:
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
    large = [_change(root / relation.directory, relation, record, inline) for record, inline in log.filed]
    runs = [([change.num_rows], change) for change in large]
    tables += entries([record.version for record, _ in log.filed], runs, relation.schema, relation.added)
    return pa.concat_tables(tables).sort_by(VERSION)


def _extended(kept: pa.Table, relation: Relation) -> pa.Table:
    """What was kept of a log before the relation got more columns."""
    rows = kept.drop_columns([VERSION])
    extended = deltas.extended(rows, relation.schema, relation.added)
    return extended.add_column(extended.num_columns - 1, VERSION, kept.column(VERSION))


def _change(folder: Path, relation: Relation, record: Committed, inline: pa.Table | None) -> pa.Table:
    """What one transaction did to the relation: new rows in whole files, weighted entries, and a small delta."""
    schema, added = relation.schema, relation.added
    parts = [] if inline is None else [deltas.extended(inline, schema, added).rename_columns(schema.weighted.names)]
    for changed in record.changed:
        if changed.relation == relation.name:
            if changed.inserted:
                parts.append(deltas.weighted(read_rows(folder, changed.inserted, schema, added)))
            if changed.weighted:
                parts.append(read_entries(folder, changed.weighted, schema, added))
    return deltas.combine(*parts)
