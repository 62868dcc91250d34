"""The reference engine: relations are bags in dictionaries, a commit is a few assignments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidemark.algebra.plans import Plan
from tidemark.algebra.types import VERSION, WEIGHT, Schema
from tidemark.engines.engine import ByTables, Evaluator, Iteration, Memory, Unpublished
from tidemark.engines.limits import REFERENCE, EngineLimits
from tidemark.engines.reference.evaluate import Bag, evaluate, ordered
from tidemark.errors import TidemarkError
from tidemark.storage import delta as delta_tables
from tidemark.storage.arrangements import no_arrangements
from tidemark.storage.commit import Commit, Forgetting, Loaded, Logged, take_notes, times_table
from tidemark.storage.delta import from_bag, from_rows, to_bag


@dataclass(frozen=True)
class _Stored:
    """All that is committed at one moment."""

    version: int = 0
    catalog: tuple[str, ...] = ()
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    relations: Mapping[str, Bag] = field(default_factory=dict)
    log: Mapping[str, tuple[tuple[int, pa.Table], ...]] = field(default_factory=dict)
    traces: Mapping[int, str] = field(default_factory=dict)
    times: Mapping[int, dt.datetime] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


class ReferenceEngine(ByTables, Unpublished):
    """An engine without durability, for tests and for reading: it exists to be obviously right."""

    name = "reference"
    arrangements = ahead = None

    def __init__(self, limits: EngineLimits = REFERENCE) -> None:
        self._stored, self.limits = _Stored(), limits

    @property
    def version(self) -> int:
        return self._stored.version

    @contextmanager
    def snapshot(self) -> Iterator[ReferenceEngine]:
        """Another engine with what is committed, which is never changed in place."""
        copy = ReferenceEngine(self.limits)
        copy._stored = self._stored
        yield copy

    def notes(self) -> Mapping[str, str]:
        return self._stored.notes

    def load(self) -> Loaded:
        return Loaded(self._stored.version, self._stored.catalog, self._stored.notes)

    def evaluate(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return from_bag(evaluate(plan, self._stored.relations, _bags(given)), plan.schema)

    def fetch(self, plan: Plan, given: Mapping[str, pa.Table]) -> pa.Table:
        return from_rows(ordered(plan, self._stored.relations, _bags(given)), plan.schema)

    def iterates(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> bool:
        return False

    def iterate(self, iteration: Iteration, given: Mapping[str, pa.Table]) -> pa.Table:
        raise NotImplementedError("it iterates nothing, and says so")

    @contextmanager
    def plainly(self) -> Iterator[Evaluator]:
        """It has no other way: nothing here is clever."""
        yield self

    def commit(self, commit: Commit) -> None:
        """The commit point is the one assignment at the end."""
        before, given = self._stored, _bags(commit.given)
        relations = {name: bag for name, bag in before.relations.items() if name not in commit.dropped}
        schemas = {name: schema for name, schema in before.schemas.items() if name not in commit.dropped}
        log = {name: entries for name, entries in before.log.items() if name not in commit.dropped}
        for alteration in commit.altered:
            name, schema, values = alteration.relation, alteration.schema, alteration.values
            relations[name] = {row + values: weight for row, weight in relations[name].items()}
            schemas[name] = schema
            log[name] = tuple((version, delta_tables.extended(delta, schema, values)) for version, delta in log[name])
        known = dict(relations)
        for creation in commit.created:
            content = {} if creation.plan is None else evaluate(creation.plan, known, given)
            if creation.kept:
                known[creation.relation] = relations[creation.relation] = content
            schemas[creation.relation] = creation.schema
            if creation.logged:
                log[creation.relation] = ()
        for name, delta in commit.deltas.items():
            if name in relations:
                relations[name] = _apply(relations[name], to_bag(delta))
            if name in log and delta.num_rows:
                log[name] = (*log[name], (commit.version, delta))
        traces = {**before.traces, commit.version: commit.trace}
        times = {**before.times, commit.version: commit.time}
        catalog, notes = before.catalog + commit.catalog, _noted(before.notes, commit.notes)
        self._stored = _Stored(commit.version, catalog, schemas, relations, log, traces, times, notes)

    def changes(self, relation: str, since: int) -> pa.Table:
        schema = self._stored.schemas[relation].arrow.append(pa.field(VERSION, pa.int64()))
        schema = schema.append(pa.field(WEIGHT, pa.int64()))
        parts = [schema.empty_table()]
        for version, delta in self._stored.log[relation]:
            if version > since:
                stamp = pa.array([version] * delta.num_rows, pa.int64())
                parts.append(delta.add_column(delta.num_columns - 1, VERSION, stamp))
        return pa.concat_tables(parts)

    def note(self, notes: Mapping[str, str | None]) -> None:
        self.forget({}, 0, notes)

    def forget(
        self, log: Mapping[str, Forgetting], traces: int, notes: Mapping[str, str | None], oldest: int = 0
    ) -> None:
        before, later = self._stored, dict(self._stored.log)
        for name, forgetting in log.items():
            kept = delta_tables.by_version(forgetting.kept) if forgetting.kept is not None else []
            after = ((version, delta) for version, delta in before.log[name] if version > forgetting.up_to)
            later[name] = (*kept, *after)
        traced = {version: trace for version, trace in before.traces.items() if version > traces}
        times = {version: time for version, time in before.times.items() if version >= oldest}
        self._stored = replace(before, log=later, traces=traced, times=times, notes=_noted(before.notes, notes))

    def times(self) -> pa.Table:
        return times_table(self._stored.times.items())

    def backup(self, target: str) -> Callable[[], None]:
        raise TidemarkError("unsupported", "the reference engine stores nothing that could be backed up")

    idle_after = None

    def catch_up(self) -> None:
        """There is nothing to do, ever."""

    def checkpoint(self) -> bool:
        """It stores nothing elsewhere."""
        return True

    def logged(self) -> list[Logged]:
        return [Logged(name, version, delta.nbytes) for name, log in self._stored.log.items() for version, delta in log]

    def trace(self, version: int) -> str | None:
        return self._stored.traces.get(version)

    def rows(self, relation: str) -> int:
        return sum(self._stored.relations[relation].values())

    def arranged(self) -> pa.Table:
        return no_arrangements()

    def memory(self) -> list[Memory]:
        return []

    def internal(self) -> frozenset[str]:
        return frozenset(self._stored.relations.keys() - self._stored.log.keys())

    def interrupt(self) -> None:
        """Its steps are short; it stops between them only, which is not this engine's business."""

    def close(self) -> None:
        self._stored = _Stored()


def _bags(given: Mapping[str, pa.Table]) -> dict[str, Bag]:
    return {name: to_bag(table) for name, table in given.items()}


def _noted(known: Mapping[str, str], notes: Mapping[str, str | None]) -> dict[str, str]:
    after = dict(known)
    take_notes(after, notes)
    return after


def _apply(bag: Bag, delta: Bag) -> Bag:
    result = dict(bag)
    for row, weight in delta.items():
        result[row] = result.get(row, 0) + weight
        if result[row] < 0:
            raise AssertionError(f"a row would be stored {result[row]} times: {row}")
        if not result[row]:
            del result[row]
    return result
