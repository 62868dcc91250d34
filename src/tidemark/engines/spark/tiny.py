"""Plans over a handful of rows, stored ones included, evaluated by the interpreter.

The counts of a grouping often are a few dozen rows. Reading such a relation with a statement costs several
milliseconds, so its base rows are kept here, and go to ``evaluate_small`` together with the plan's deltas.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from tidemark.algebra.plans import Given, Plan, Stored, transform, walk
from tidemark.engines.small import MOST_ROWS, evaluate_small
from tidemark.engines.spark.files import read_rows
from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.relations import Relation, Relations
from tidemark.log import deltas

_Key: TypeAlias = tuple[str, tuple[DataFile, ...], tuple[str, ...]]
"""The folder, the base files and the columns, which are more after an alteration."""


class Tiny:
    """Evaluates what is tiny, and remembers the base rows of tiny relations."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._bases: dict[_Key, pa.Table] = {}

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table], relations: Relations) -> pa.Table | None:
        """The plan's net rows, or None if it is not a matter of a few rows."""
        names = {part.relation for part in walk(plan) if isinstance(part, Stored)}
        if not all(_is_tiny(relations[name]) for name in names):
            return None
        handed = dict(given)
        handed.update((_name(name), self._content(relations[name])) for name in names)
        return evaluate_small(transform(plan, _given_instead) if names else plan, handed)

    def keep_only(self, relations: Relations) -> None:
        kept = {_key(relation) for relation in relations.values()}
        self._bases = {key: rows for key, rows in self._bases.items() if key in kept}

    def _content(self, relation: Relation) -> pa.Table:
        key = _key(relation)
        if key not in self._bases:
            rows = read_rows(self._root / relation.directory, relation.files, relation.schema)
            self._bases[key] = deltas.weighted(rows).cast(relation.schema.weighted)
        return pa.concat_tables([self._bases[key], *relation.tail])


def _key(relation: Relation) -> _Key:
    return relation.directory, relation.files, relation.columns


def _is_tiny(relation: Relation) -> bool:
    return sum(file.rows for file in relation.files) + relation.tail_entries <= MOST_ROWS


def _given_instead(part: Plan) -> Plan | None:
    return Given(_name(part.relation), part.schema) if isinstance(part, Stored) else None


def _name(relation: str) -> str:
    return f"stored {relation}"
