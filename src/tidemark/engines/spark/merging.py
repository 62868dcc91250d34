"""Merging: folding a relation's tail into its base files, and many small files into few.

What was inserted becomes a new file; of what was deleted, only the files in which it occurs are rewritten: in this
process if they are not too large for it, else by Spark. The content does not change and neither does the log, so a
merge may come at any time, or fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidemark.algebra.types import WEIGHT
from tidemark.engines.spark.dialect import SparkDialect
from tidemark.engines.spark.inprocess import InProcess
from tidemark.engines.spark.options import Options
from tidemark.engines.spark.records import DataFile, Merged
from tidemark.engines.spark.relations import Relation, Relations
from tidemark.engines.spark.rewriting import Rewriter
from tidemark.engines.spark.routing import Sizes
from tidemark.engines.spark.staging import Staging, expand
from tidemark.engines.spark.statements import Statements
from tidemark.errors import TidemarkError
from tidemark.log import deltas

ROWS_PER_FILE: Final = 2_000_000


def most_due(relations: Relations, options: Options) -> Relation | None:
    """The relation to merge next, if one is due. One at a time, so that no commit has to wait for many."""
    due = [relation for relation in relations.values() if is_due(relation, options)]
    return max(due, key=lambda relation: relation.tail_entries, default=None)


def is_due(relation: Relation, options: Options) -> bool:
    entries = relation.tail_entries
    if entries > options.merge_rows:
        return True
    base = sum(file.rows for file in relation.files)
    if entries >= options.merge_minimum and entries > options.merge_share * base:
        return True
    return len(_small_files(relation, options)) > options.many_files


@dataclass(frozen=True)
class Merger:
    """Merges relations of one lake."""

    root: Path
    options: Options
    in_process: InProcess
    statements: Statements

    def merge(self, relation: Relation, version: int, staging: Staging) -> Merged:
        """Stage the files of a merge and say what it replaces."""
        entries = deltas.combine(relation.schema.weighted.empty_table(), *relation.tail)
        leaving = deltas.deleted(entries)
        rewriter = Rewriter(self.in_process, self.root, relation)
        here = rewriter.numbers_rows and sum(file.rows for file in relation.files) <= self.options.local_rows
        places = rewriter.places(leaving) if here else {}
        small = _small_files(relation, self.options)
        removed = set(places if here else rewriter.files_with(leaving))
        removed |= set(small if len(small) > self.options.many_files else ())
        replaced = tuple(file for file in relation.files if file in removed)
        staying = sum(file.rows for file in replaced) + deltas.growth(leaving)
        added = staging.rows(relation.directory, expand(entries).rename_columns(list(relation.columns)))
        if here:
            groups = _groups(replaced, self.options)
            written = tuple(file for group in groups for file in rewriter.without(group, places, staging))
        else:
            written = self._by_spark(relation, replaced, leaving, staying, staging)
        if sum(file.rows for file in written) != staying:
            raise _damaged(relation)
        return Merged(version, relation.name, tuple(file.path for file in replaced), added + written)

    def _by_spark(
        self,
        relation: Relation,
        replaced: tuple[DataFile, ...],
        leaving: pa.Table,
        staying: int,
        staging: Staging,
    ) -> tuple[DataFile, ...]:
        if staying <= 0:
            return ()
        files = 1 + staying // ROWS_PER_FILE
        with (
            self.statements.file_view(relation, replaced) as base,
            self.statements.table_views({"": leaving}) as views,
        ):
            text = _staying_rows(len(relation.columns), base, views[""], any_leave=leaving.num_rows > 0)
            return self.statements.run(
                text,
                lambda frame: staging.frame(relation.directory, frame.toDF(*relation.columns).coalesce(files)),
            )


def _groups(replaced: tuple[DataFile, ...], options: Options) -> list[tuple[DataFile, ...]]:
    """Which files become one: small ones together, each large one by itself."""
    small = tuple(file for file in replaced if file.rows < options.small_file_rows)
    return [(file,) for file in replaced if file not in small] + ([small] if small else [])


def _damaged(relation: Relation) -> TidemarkError:
    return TidemarkError(
        "damaged",
        f"{relation.name} holds fewer equal rows than were deleted from it",
        hint="run AUDIT on its views; the stored content was changed by somebody else",
    )


def _staying_rows(columns: int, base: str, leaving: str, *, any_leave: bool) -> str:
    names = [f"c{i}" for i in range(columns)]
    listed = ", ".join(names)
    if not any_leave:
        return f"SELECT {listed} FROM {base}"
    equal = " AND ".join(f"b.{name} <=> d.{name}" for name in names)
    keys = f"(SELECT /*+ BROADCAST(l) */ * FROM {leaving} AS l) AS d ON {equal}"
    shown = ", ".join(f"b.{name} AS {name}" for name in names)
    counted = (
        f"SELECT {listed}, CAST(SUM({WEIGHT}) AS BIGINT) AS {WEIGHT} FROM "
        f"(SELECT {shown}, CAST(1 AS BIGINT) AS {WEIGHT} FROM {base} AS b LEFT SEMI JOIN {keys} "
        f"UNION ALL SELECT {listed}, {WEIGHT} FROM {leaving}) GROUP BY {listed} HAVING SUM({WEIGHT}) <> 0"
    )
    copies = SparkDialect({}, {}, Sizes({}, 0)).repeated(counted, "r", WEIGHT)
    repeated = ", ".join(f"r.{name} AS {name}" for name in names)
    return f"SELECT {shown} FROM {base} AS b LEFT ANTI JOIN {keys} UNION ALL SELECT {repeated} FROM {copies}"


def _small_files(relation: Relation, options: Options) -> tuple[DataFile, ...]:
    return tuple(file for file in relation.files if file.rows < options.small_file_rows)
