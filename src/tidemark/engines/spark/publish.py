"""The relations' own Delta tables, for foreign readers.

Publishing makes the active files of a relation's Delta table those of ``Relation.published``, whatever they were
before. It happens after the commit point and changes nothing of ours, so a crash in between costs nothing: the next
opening publishes again. The application transaction ``tidemark`` of each Delta commit is the Tidemark version that
the table is at, and its commit info says so in words.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.relations import Relation
from tidemark.engines.spark.transactions import APPLICATION

_CONFIGURATION = {
    # The log still needs files that a merge replaced: a foreign VACUUM must leave them.
    "delta.deletedFileRetentionDuration": "interval 36500 days",
}


def publish(root: Path, relation: Relation) -> bool:
    """Bring the relation's Delta table to what is published; says whether there was anything to do.

    It never goes back: a relation that was just read again may know an older moment without a tail than it did before.
    """
    path = root / relation.directory
    properties = CommitProperties(
        custom_metadata={"tidemark.relation": relation.name, "tidemark.version": str(relation.published_version)},
        app_transactions=[Transaction(APPLICATION, relation.published_version)],
    )
    if not (path / "_delta_log").is_dir():
        create_table_with_add_actions(
            path.as_uri(),
            delta_schema(relation),
            [_add(path, file) for file in relation.published],
            mode="error",
            name=relation.name,
            description=f"{relation.name}, kept by Tidemark; read it, but let only Tidemark write it",
            configuration=_CONFIGURATION,
            commit_properties=properties,
        )
        return True
    table = DeltaTable(path.as_uri())
    missing = delta_schema(relation).fields[len(table.schema().fields) :]
    if missing:
        # Until the files follow, in the commit below, foreign readers see NULL there.
        table.alter.add_columns(missing)
    if (table.transaction_version(APPLICATION) or 0) > relation.published_version:
        return bool(missing)
    active = set(pa.table(table.get_add_actions()).column("path").to_pylist())
    wanted = {file.path: file for file in relation.published}
    actions: list[AddAction | RemoveAction] = [_add(path, f) for name, f in wanted.items() if name not in active]
    now = int(time.time() * 1000)
    actions += [RemoveAction(name, True, now) for name in sorted(active) if name not in wanted]
    if not actions:
        return bool(missing)
    table.create_write_transaction(actions, "append", delta_schema(relation), commit_properties=properties)
    return True


def delta_schema(relation: Relation) -> DeltaSchema:
    return DeltaSchema.from_arrow(relation.file_schema)


def _add(path: Path, file: DataFile) -> AddAction:
    modified = int((path / file.path).stat().st_mtime * 1000)
    return AddAction(file.path, file.size_bytes, {}, modified, True, json.dumps({"numRecords": file.rows}))
