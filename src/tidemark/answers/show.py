"""SHOW: what there is, how much, and how far it has come. Each word of it has a function in one table.

SHOW RULES and SHOW ASSERTIONS.

What a statement reads: the database as it is, or one version of it beside those who change it.

The trace of a version: what was done for each affected node in the transaction that made it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final, NoReturn

import pyarrow as pa

from tidemark.algebra.history import CLOCK
from tidemark.changes.consumers import Consumers
from tidemark.changes.retention import LogKeeper
from tidemark.errors import TidemarkError
from tidemark.rules.catalog import Graph
from tidemark.rules.firings import Count, counts
from tidemark.snapshots.refresh import Continual
from tidemark.sources.positions import positions_shown, standing_of, tables_shown
from tidemark.sql.catalog.catalog import RULE_TABLES, Catalog, View
from tidemark.sql.parse.lagging import QUERY, SNAPSHOT
from tidemark.state.draft import Work
from tidemark.state.history import retained
from tidemark.state.snapshot import StoreAt
from tidemark.state.state import Store


def show_rules(catalog: Catalog, known: Mapping[str, Count]) -> pa.Table:
    """Each rule with its state, how often it fired, for how many instances, and how often its action failed."""
    rules, graph = list(catalog.rules.values()), Graph(catalog)
    states = [", ".join(a.name for a in r.active) if r.parameters else "active" for r in rules]
    columns = {
        "name": [rule.name for rule in rules],
        "state": [state if rule.active else "inactive" for rule, state in zip(rules, states, strict=True)],
        "group": [rule.group for rule in rules],
        "events": [rule.event_text for rule in rules],
        "semantics": [rule.semantics for rule in rules],
        "coupling": [rule.coupling for rule in rules],
        "action_coupling": [rule.action_coupling for rule in rules],
        "warnings": ["; ".join(graph.warnings(rule)) for rule in rules],
    }
    counts = [known.get(rule.name, Count()) for rule in rules]
    texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    numbers = {
        "priority": [rule.priority for rule in rules],
        "firings": [count.firings for count in counts],
        "instances": [count.instances for count in counts],
        "failures": [count.failures for count in counts],
    }
    return pa.table(texts | {name: pa.array(values, pa.int64()) for name, values in numbers.items()})


def show_assertions(catalog: Catalog, rows: Callable[[str], int]) -> pa.Table:
    """Each assertion, what is done about violations, and how many there are."""
    views = [view for view in catalog.views if view.options.get("assertion")]
    return pa.table(
        {
            "name": pa.array([view.name for view in views], pa.string()),
            "on_violation": pa.array([view.options["assertion"] for view in views], pa.string()),
            "violations": pa.array([rows(v.name) if v.materialized else 0 for v in views], pa.int64()),
        }
    )


class Side:
    """The store, with the lagging relations, the consumers of the log, and what the log keeps."""

    def __init__(self, store: Store, continual: Continual, consumers: Consumers, log: LogKeeper) -> None:
        self.store, self.continual, self.consumers, self.log = store, continual, consumers, log


class SideAt(Side):
    """The same of a snapshot. Most statements ask for the store alone, so the others are made when they are asked for;
    ``consumers`` are those of the database, of which those that are open are open here, too."""

    def __init__(self, store: StoreAt, consumers: Consumers) -> None:
        self.store, self._consumers = store, consumers

    @cached_property
    def continual(self) -> Continual:  # type: ignore[override]
        return Continual(self.store, _nothing)

    @cached_property
    def consumers(self) -> Consumers:  # type: ignore[override]
        return Consumers(self.store, self.continual, self._consumers)

    @cached_property
    def log(self) -> LogKeeper:  # type: ignore[override]
        return LogKeeper(self.store, self.continual, self.consumers)


def _nothing(work: Work) -> NoReturn:
    raise NotImplementedError("a snapshot is read")


def tables(side: Side) -> pa.Table:
    store = side.store
    found = [t for t in store.catalog.tables if t.name != CLOCK and t.name not in RULE_TABLES]
    return pa.table(
        {
            "name": pa.array([table.name for table in found], pa.string()),
            "columns": pa.array([str(table.schema) for table in found], pa.string()),
            "rows": pa.array([store.engine.rows(table.name) for table in found], pa.int64()),
        }
    )


def views(side: Side) -> pa.Table:
    store, continual = side.store, side.continual
    found = [view for view in store.catalog.views if view.lag is None or view.lag.is_read_through]
    return pa.table(
        {
            "name": pa.array([view.name for view in found], pa.string()),
            "materialized": pa.array([view.materialized for view in found], pa.bool_()),
            "rows": pa.array([store.engine.rows(v.name) if v.materialized else None for v in found], pa.int64()),
            "tidemark": pa.array([_tidemark(view, store, continual) for view in found], pa.int64()),
        }
    )


def _tidemark(view: View, store: Store, continual: Continual) -> int | None:
    if view.lag is not None:
        return continual.standing(view.name).tidemark
    return store.version if view.materialized or view.external else None


def snapshots(side: Side) -> pa.Table:
    return _shown(side.store, side.continual, SNAPSHOT)


def continual_queries(side: Side) -> pa.Table:
    return _shown(side.store, side.continual, QUERY)


def _shown(store: Store, continual: Continual, kind: str) -> pa.Table:
    views = [view for view in store.catalog.lagging_views if view.lag is not None and view.lag.kind == kind]
    columns: list[tuple[str, pa.DataType, Callable[[View], Any]]] = [
        ("name", pa.string(), lambda view: view.name),
        ("rows", pa.int64(), lambda view: store.engine.rows(view.name)),
        ("tidemark", pa.int64(), lambda view: continual.standing(view.name).tidemark),
        ("executed", pa.timestamp("us"), lambda view: continual.standing(view.name).executed),
        ("status", pa.string(), lambda view: _status(view, continual)),
        ("error", pa.string(), lambda view: continual.standing(view.name).error),
    ]
    if kind == QUERY:
        columns.insert(4, ("results", pa.int64(), lambda view: continual.standing(view.name).results))
    return pa.table({name: pa.array([value(view) for view in views], type) for name, type, value in columns})


def _status(view: View, continual: Continual) -> str:
    standing = continual.standing(view.name)
    return "invalid" if standing.invalid else standing.status


def versions(side: Side) -> pa.Table:
    """The versions as far back as the log reaches, the newest first: when each was committed, which relations that are
    there began in it, and which changed. What the oldest changed is not known any more where the log was cut."""
    store = side.store
    cuts, born, times = retained(store), store.created, store.times
    changed, created = dict[int, list[str]](), dict[int, list[str]]()
    for one in store.engine.logged():
        if one.relation in born and one.version > cuts.of(one.relation, born[one.relation]).full:
            changed.setdefault(one.version, []).append(one.relation)
    for name, version in born.items():
        created.setdefault(version, []).append(name)
    shown = range(times.newest, times.oldest - 1, -1)
    return pa.table(
        {
            "version": pa.array(shown, pa.int64()),
            "time": pa.array([times.get(version) for version in shown], pa.timestamp("us")),
            "created": pa.array([_listed(created.get(version, [])) for version in shown], pa.string()),
            "changed": pa.array(
                [_listed(changed.get(v, [])) if v > cuts.full or v in changed else None for v in shown], pa.string()
            ),
        }
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names) - {CLOCK, *RULE_TABLES}))


def log(side: Side) -> pa.Table:
    return side.log.shown()


def consumers(side: Side) -> pa.Table:
    return side.consumers.shown()


def rules(side: Side) -> pa.Table:
    return show_rules(side.store.catalog, counts(side.store))


def assertions(side: Side) -> pa.Table:
    return show_assertions(side.store.catalog, side.store.engine.rows)


def arrangements(side: Side) -> pa.Table:
    return side.store.engine.arranged()


def memory(side: Side) -> pa.Table:
    """What of size this process keeps in memory for the database."""
    found = side.store.engine.memory()
    numbers = {
        "bytes": [one.used for one in found],
        "most_bytes": [one.most for one in found],
        "entries": [one.entries for one in found],
    }
    columns = {name: pa.array(values, pa.int64()) for name, values in numbers.items()}
    return pa.table({"part": pa.array([one.part for one in found], pa.string()), **columns})


def sources(side: Side) -> pa.Table:
    """The sources, with how far their tables were followed, and why one has stopped."""
    store = side.store
    catalog, notes, created = store.catalog, store.notes, store.created
    found = list(catalog.sources.values())
    standings = [standing_of(one.name, notes) for one in found]
    pulled = [None if s.pulled is None else dt.datetime.fromisoformat(s.pulled) for s in standings]
    texts = {
        "name": [one.name for one in found],
        "type": [one.kind for one in found],
        "path": [one.options.get("path") for one in found],
        "status": [standing.status for standing in standings],
        "tables": [tables_shown(catalog, one.name) for one in found],
        "position": [positions_shown(catalog.tables_from(one.name), notes, created) for one in found],
        "compared": [standing.compared for standing in standings],
        "error": [standing.error for standing in standings],
    }
    columns = {name: pa.array(values, pa.string()) for name, values in texts.items()}
    columns["version"] = pa.array([standing.version for standing in standings], pa.int64())
    columns["pulled"] = pa.array(pulled, pa.timestamp("us"))
    order = ("name", "type", "path", "status", "tables", "position", "version", "pulled", "compared", "error")
    return pa.table({name: columns[name] for name in order})


def publications(side: Side) -> pa.Table:
    """How far the Delta tables have come that other programs read of a lake."""
    found = [one for one in side.store.engine.publications() if one.name not in RULE_TABLES]
    texts = {"name": [one.name for one in found], "path": [one.path for one in found]}
    numbers = {
        "version": [one.version for one in found],
        "behind": [one.behind for one in found],
        "delta_version": [one.entry for one in found],
    }
    return pa.table(
        {name: pa.array(values, pa.string()) for name, values in texts.items()}
        | {name: pa.array(values, pa.int64()) for name, values in numbers.items()}
        | {
            "time": pa.array([one.time for one in found], pa.timestamp("us")),
            "error": pa.array([one.error for one in found], pa.string()),
        }
    )


SHOWN: Mapping[str, Callable[[Side], pa.Table]] = {
    "tables": tables,
    "views": views,
    "snapshots": snapshots,
    "continual queries": continual_queries,
    "log": log,
    "consumers": consumers,
    "versions": versions,
    "rules": rules,
    "assertions": assertions,
    "arrangements": arrangements,
    "memory": memory,
    "sources": sources,
    "publications": publications,
}
"""What stands behind SHOW, in the order in which the parser lists it."""


TRACE: Final = pa.schema(
    [
        ("node", pa.string()),
        ("strategy", pa.string()),
        ("reason", pa.string()),
        ("rows_in", pa.int64()),
        ("rows_out", pa.int64()),
        ("rows_read", pa.int64()),
        ("milliseconds", pa.float64()),
        ("rows_filtered", pa.int64()),
        ("rows_rederived", pa.int64()),
    ]
)


def trace(version: int, store: Store) -> pa.Table:
    if isinstance(version, int) and 0 < version <= retained(store).full:
        raise TidemarkError("version", f"the trace of version {version} is no longer kept")
    is_there = isinstance(version, int) and 0 < version <= store.version
    text = store.engine.trace(int(version)) if is_there else None
    if text is None:
        raise TidemarkError("version", f"there is no version {version}", hint=f"the last one is {store.version}")
    return pa.Table.from_pylist(json.loads(text), schema=TRACE)
