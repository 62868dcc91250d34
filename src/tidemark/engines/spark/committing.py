"""Staging a commit: everything that its record will name is written first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidemark.algebra.plans import Plan, Project, Stored
from tidemark.engines.spark.inprocess import InProcess
from tidemark.engines.spark.lake import Lake
from tidemark.engines.spark.options import Options
from tidemark.engines.spark.records import Altered, Changed, Committed, Created, DataFile
from tidemark.engines.spark.relations import Relation, Relations, begin
from tidemark.engines.spark.routing import reads_nothing, without_empty
from tidemark.engines.spark.staging import Staging, expand
from tidemark.engines.spark.statements import Statements
from tidemark.log import deltas
from tidemark.log.commit import Alteration, Commit, Creation


@dataclass(frozen=True)
class Staged:
    """A record to append, the deltas that go into its row, and all entries that go to the relations' tails."""

    record: Committed
    inline: Mapping[str, pa.Table]
    entries: Mapping[str, pa.Table]


@dataclass
class Stager:
    """Stages one commit."""

    lake: Lake
    options: Options
    staging: Staging
    statements: Statements
    in_process: InProcess
    inline: dict[str, pa.Table] = field(default_factory=dict)
    entries: dict[str, pa.Table] = field(default_factory=dict)

    def stage(self, commit: Commit, relations: Relations) -> Staged:
        working = {name: relation for name, relation in relations.items() if name not in commit.dropped}
        altered = []
        for alteration in commit.altered:
            new = self._alter(alteration, working)
            working[alteration.relation] = working[alteration.relation].with_alteration(new, commit.version)
            altered.append(new)
        created = []
        for creation in commit.created:
            record = self._create(creation, commit, working)
            # Later ones may read it: relations are filled in order.
            working[creation.relation] = begin(record, commit.version)
            created.append(record)
        changed = tuple(self._change(working[name], delta) for name, delta in commit.deltas.items() if delta.num_rows)
        committed = Committed(commit.version, commit.catalog, tuple(created), changed, commit.dropped, tuple(altered))
        committed = replace(committed, notes=dict(commit.notes))
        return Staged(committed, self.inline, self.entries)

    def _create(self, creation: Creation, commit: Commit, working: Relations) -> Created:
        name, version = creation.relation, commit.version
        directory = self.lake.directory(name, internal=creation.internal, version=version)
        self.staging.begin(directory)
        empty = Created(name, creation.schema, directory, creation.logged, creation.internal, (), creation.kept)
        return replace(empty, files=self._filled(creation, begin(empty, version), commit.given, working))

    def _alter(self, alteration: Alteration, working: Relations) -> Altered:
        """All rows are written anew, with the new columns: any reader of the files finds them there."""
        before = working[alteration.relation]
        after = replace(before, schema=alteration.schema)
        files = self._filled(Creation(before.name, alteration.schema, alteration.rows), after, {}, working)
        added = before.added + alteration.values
        return Altered(before.name, alteration.schema, added, files, tuple(file.path for file in before.files))

    def _filled(
        self, creation: Creation, relation: Relation, given: Mapping[str, pa.Table], working: Relations
    ) -> tuple[DataFile, ...]:
        if creation.plan is None:
            return ()
        plan = without_empty(creation.plan, {name: stored.rows for name, stored in working.items()})
        if reads_nothing(plan, working, self.options) or self._is_short(plan, working):
            rows = self.in_process.rows(plan, given, working).rename_columns(creation.schema.arrow.names)
            rows = rows.cast(creation.schema.arrow).rename_columns(list(relation.columns))
            return self.staging.rows(relation.directory, rows)
        return self.statements.write(
            plan,
            given,
            working,
            lambda frame: self.staging.frame(relation.directory, frame.toDF(*relation.columns)),
        )

    def _is_short(self, plan: Plan, working: Relations) -> bool:
        """Whether the plan only copies a relation of a few rows, which Spark need not be asked for."""
        if not isinstance(plan, Project) or not isinstance(plan.input, Stored):
            return False
        return working[plan.input.relation].rows <= min(self.options.local_rows, self.options.merge_rows)

    def _change(self, relation: Relation, delta: pa.Table) -> Changed:
        """A small delta stays in memory and goes into the commit's row; of a large one, new rows become base files."""
        name, directory = relation.name, relation.directory
        delta = delta.rename_columns(relation.schema.weighted.names).cast(relation.schema.weighted)
        if self._is_small(delta):
            self.inline[name] = self.entries[name] = delta
            return Changed(name, inline=True)
        rows = expand(delta).rename_columns(list(relation.columns))
        inserted = self.staging.rows(directory, rows)
        leaving = deltas.deleted(delta)
        if not leaving.num_rows:
            return Changed(name, inserted)
        self.entries[name] = leaving
        if self._is_small(leaving):
            self.inline[name] = leaving
            return Changed(name, inserted, inline=True)
        return Changed(name, inserted, self.staging.weighted(directory, leaving))

    def _is_small(self, delta: pa.Table) -> bool:
        return bool(delta.num_rows <= self.options.inline_rows and delta.nbytes <= self.options.inline_bytes)
