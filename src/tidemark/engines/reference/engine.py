"""The reference engine: relations are bags in dictionaries, a commit is a few assignments."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tidemark.algebra.plans import Plan
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.engines.base import Iteration
from tidemark.engines.reference.arrow import from_bag, from_rows, to_bag
from tidemark.engines.reference.evaluate import Bag, evaluate, ordered
from tidemark.log import deltas as delta_tables
from tidemark.log.commit import Commit, Forgetting, Loaded, Logged, take_notes


class ReferenceEngine:
    """An engine without durability, for tests and for reading: it exists to be obviously right."""

    name = "reference"

    def __init__(self) -> None:
        self._schemas: dict[str, Schema] = {}
        self._relations: dict[str, Bag] = {}
        self._log: dict[str, list[tuple[int, pa.Table]]] = {}
        self._traces: dict[int, str] = {}
        self._notes: dict[str, str] = {}

    def load(self) -> Loaded:
        return Loaded(0, ())

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return from_bag(evaluate(plan, self._relations, _bags(given)), plan.schema)

    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return from_rows(ordered(plan, self._relations, _bags(given)), plan.schema)

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        return False

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        raise NotImplementedError("it iterates nothing, and says so")

    def commit(self, commit: Commit) -> None:
        given = _bags(commit.given)
        relations = {name: bag for name, bag in self._relations.items() if name not in commit.dropped}
        for alteration in commit.altered:
            bag = relations[alteration.relation]
            relations[alteration.relation] = {row + alteration.values: weight for row, weight in bag.items()}
        before = dict(relations)
        for creation in commit.created:
            content = {} if creation.plan is None else evaluate(creation.plan, before, given)
            if creation.kept:
                before[creation.relation] = relations[creation.relation] = content
        for name in commit.deltas.keys() & relations.keys():
            relations[name] = _apply(relations[name], to_bag(commit.deltas[name]))
        self._relations = relations
        for name in commit.dropped:
            self._schemas.pop(name, None)
            self._log.pop(name, None)
        for alteration in commit.altered:
            self._schemas[alteration.relation] = alteration.schema
            self._log[alteration.relation] = [
                (version, delta_tables.extended(delta, alteration.schema, alteration.values))
                for version, delta in self._log[alteration.relation]
            ]
        for creation in commit.created:
            self._schemas[creation.relation] = creation.schema
            if creation.logged:
                self._log[creation.relation] = []
        for name, delta in commit.deltas.items():
            if name in self._log and delta.num_rows:
                self._log[name].append((commit.version, delta))
        self._traces[commit.version] = commit.trace
        self.note(commit.notes)

    def changes(self, relation: str, since: int) -> pa.Table:
        schema = self._schemas[relation].arrow.append(pa.field(VERSION, pa.int64()))
        schema = schema.append(pa.field(WEIGHT, pa.int64()))
        parts = [schema.empty_table()]
        for version, delta in self._log[relation]:
            if version > since:
                stamp = pa.array([version] * delta.num_rows, pa.int64())
                parts.append(delta.add_column(delta.num_columns - 1, VERSION, stamp))
        return pa.concat_tables(parts)

    def note(self, notes: Mapping[str, str | None]) -> None:
        take_notes(self._notes, notes)

    def forget(self, log: Mapping[str, Forgetting], traces: int, notes: Mapping[str, str | None]) -> None:
        for name, forgetting in log.items():
            later = [(version, delta) for version, delta in self._log[name] if version > forgetting.up_to]
            kept = delta_tables.by_version(forgetting.kept) if forgetting.kept is not None else []
            self._log[name] = kept + later
        self._traces = {version: trace for version, trace in self._traces.items() if version > traces}
        self.note(notes)

    def logged(self) -> list[Logged]:
        return [Logged(name, version, delta.nbytes) for name, log in self._log.items() for version, delta in log]

    def trace(self, version: int) -> str | None:
        return self._traces.get(version)

    def rows(self, relation: str) -> int:
        return sum(self._relations[relation].values())

    def interrupt(self) -> None:
        """Its steps are short; it stops between them only, which is not this engine's business."""

    def close(self) -> None:
        self._relations = {}


def _bags(given: Mapping[str, pa.Table]) -> dict[str, Bag]:
    return {name: to_bag(table) for name, table in given.items()}


def _apply(bag: Bag, delta: Bag) -> Bag:
    result = dict(bag)
    for row, weight in delta.items():
        result[row] = result.get(row, 0) + weight
        if result[row] < 0:
            raise AssertionError(f"a row would be stored {result[row]} times: {row}")
        if not result[row]:
            del result[row]
    return result
