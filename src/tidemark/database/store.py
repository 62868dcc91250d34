"""What is committed: the engine with its catalog, network and version, and how a transaction's work is committed."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import pyarrow as pa

from tidemark.algebra.plans import Aggregate
from tidemark.calculus.as_of import Block
from tidemark.database import records
from tidemark.database.constraints import check_constraints
from tidemark.database.progress import Progress, ToldRefreshes
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError
from tidemark.log.commit import Commit, Creation
from tidemark.network import Network, NodeKind, Wave, build, propagate
from tidemark.network.build import Definition
from tidemark.network.nodes import definition
from tidemark.network.propagate import given_deltas
from tidemark.network.settle import settle
from tidemark.sql.catalog import Catalog, Table


@dataclass(frozen=True)
class Work:
    """What a transaction asks to be committed: its catalog and the net deltas of tables."""

    catalog: Catalog
    pending: Mapping[str, pa.Table]
    statements: int


def network_of(catalog: Catalog) -> Network:
    return build(
        Definition(view.name, view.plan, view.options.get("strategy", "auto")) for view in catalog.materialized_views
    )


class Store:
    """The committed state of one database. All access goes through ``lock``."""

    def __init__(self, engine: Engine, clock: Callable[[], dt.datetime] | None = None) -> None:
        self.engine = engine
        self.lock = threading.RLock()
        self.committed = threading.Condition(self.lock)
        self._clock = clock or (lambda: dt.datetime.now(dt.UTC))
        loaded = engine.load()
        self.version = loaded.version
        self.catalog, self.created = records.restore(loaded.catalog)
        self.network = network_of(self.catalog)
        self.progress = Progress()
        self.refreshes = ToldRefreshes(self.progress)
        self.is_closed = False
        self._check_nodes()

    def _check_nodes(self) -> None:
        """Refuse a database whose stored nodes are not those that this version derives from its definitions."""
        for node in self.network.nodes.values():
            try:
                if node.is_stored:
                    self.engine.rows(node.name)
            except KeyError as error:
                raise TidemarkError(
                    "format",
                    f"the stored form of the view {' and '.join(map(repr, node.views))} is not the one that this "
                    "version of Tidemark uses",
                    hint="open the database with the version that wrote it",
                ) from error

    def stored_of(self, catalog: Catalog) -> frozenset[str]:
        """The relations of a transaction's catalog that the engine holds, as they are."""
        committed = self.catalog.relations
        return frozenset(name for name, relation in catalog.relations.items() if committed.get(name) is relation)

    def propagate(self, catalog: Catalog, pending: Mapping[str, pa.Table]) -> Wave:
        """Derive what pending changes do to the stored nodes that the catalog still needs."""
        stored = self.stored_of(catalog)
        changed = {name: delta for name, delta in pending.items() if name in stored}
        network = self.network if catalog is self.catalog else self._kept(catalog, network_of(catalog))
        wave = propagate(network, changed, self.engine, self.refreshes)
        wave.deltas.update({name: delta for name, delta in pending.items() if name not in stored})
        return wave

    def _kept(self, catalog: Catalog, network: Network) -> Network:
        """The part of the network that brings up to date what stays stored under the new catalog.

        Those are not only the nodes of views that stay: a state stays too when a new view takes it over.
        """
        needed = set(self._kept_nodes(catalog, network))
        for node in reversed(list(self.network.nodes.values())):
            if node.name in needed:
                needed |= node.influents
        return Network({name: node for name, node in self.network.nodes.items() if name in needed})

    def commit(self, work: Work) -> None:
        """Check, propagate and commit. On any error the database is as it was."""
        with self.lock:
            self.must_be_open()
            if not work.statements:
                return
            tables = {table.name: table for table in work.catalog.tables}
            stored = self.stored_of(work.catalog)
            self.progress.tell("checking constraints")
            check_constraints(tables, work.pending, stored, self.engine)
            wave = self.propagate(work.catalog, work.pending)
            network = self.network if work.catalog is self.catalog else network_of(work.catalog)
            version = self.version + 1
            commit = self._commit_of(work, wave, network, version)
            self.progress.tell(_step_of(commit))
            try:
                self.engine.commit(commit)
            except TidemarkError as error:
                raise _naming_creations(error, commit) from error
            self._install(work.catalog, network, version)

    def _commit_of(self, work: Work, wave: Wave, network: Network, version: int) -> Commit:
        created, given = self._creations(work, wave, network)
        before, after = self.catalog.relations, work.catalog.relations
        gone = [name for name, relation in before.items() if after.get(name) is not relation]
        come = [relation for name, relation in after.items() if before.get(name) is not relation]
        records_ = [records.dropped(name) for name in gone] + [records.created(r, version) for r in come]
        return Commit(
            version,
            self._clock(),
            deltas={name: delta for name, delta in wave.deltas.items() if not self._is_shared(name)},
            given=given,
            created=created,
            dropped=tuple(self._dropped(work.catalog, network)),
            catalog=tuple(records_),
            trace=json.dumps([asdict(step) for step in wave.steps]),
        )

    def _is_shared(self, name: str) -> bool:
        node = self.network.nodes.get(name)
        return node is not None and not node.is_stored

    def _creations(
        self, work: Work, wave: Wave, network: Network
    ) -> tuple[tuple[Creation, ...], Mapping[str, pa.Table]]:
        """New tables, then new nodes from the lowest level up, each filled from what is below it; and what is given."""
        given: Mapping[str, pa.Table] = given_deltas(wave.deltas)
        if work.catalog is self.catalog:
            return (), given
        stored, kept = self.stored_of(work.catalog), self._kept_nodes(work.catalog, network)
        tables = [r for r in work.catalog.relations.values() if isinstance(r, Table) and r.name not in stored]
        created = [Creation(table.name, table.schema, key=table.primary_key) for table in tables]
        block = Block(changed=frozenset(wave.deltas), unstored=frozenset(table.name for table in tables))
        new_nodes = {node.name for node in network.nodes.values() if node.name not in kept}
        for node in network.nodes.values():
            if node.is_stored and node.name in new_nodes:
                is_state = node.kind is NodeKind.STATE
                plan, given = settle(definition(node, block), given, self.engine, unstored=new_nodes)
                key = node.keys if isinstance(node.plan, Aggregate) and is_state else ()
                created.append(Creation(node.name, node.schema, plan, logged=not is_state, internal=is_state, key=key))
        return tuple(created), given

    def _kept_nodes(self, catalog: Catalog, network: Network) -> frozenset[str]:
        """The nodes of the new network that are stored already and still mean the same.

        A view is kept if its definition is; a state of the same name is kept unless something below it is not.
        """
        stored = self.stored_of(catalog)
        changed = {name for name in (*self.catalog.relations, *catalog.relations) if name not in stored}
        kept: set[str] = set()
        for node in network.nodes.values():
            is_known = node.name in self.network.nodes or not node.is_stored
            if not is_known or node.name in changed or node.influents & changed:
                changed.add(node.name)
            elif node.is_stored:
                kept.add(node.name)
        return frozenset(kept)

    def _dropped(self, catalog: Catalog, network: Network) -> list[str]:
        if catalog is self.catalog:
            return []
        stored = self.stored_of(catalog)
        dropped = [table.name for table in self.catalog.tables if table.name not in stored]
        kept = self._kept_nodes(catalog, network)
        return dropped + [name for name, node in self.network.nodes.items() if node.is_stored and name not in kept]

    def _install(self, catalog: Catalog, network: Network, version: int) -> None:
        if catalog is not self.catalog:
            for name, relation in catalog.relations.items():
                if self.catalog.relations.get(name) is not relation:
                    self.created[name] = version
            self.catalog, self.network, self.refreshes = catalog, network, ToldRefreshes(self.progress)
        self.version = version
        self.committed.notify_all()

    def must_be_open(self) -> None:
        if self.is_closed:
            raise TidemarkError("closed", "the database connection is closed")

    def close(self) -> None:
        with self.lock:
            if self.is_closed:
                return
            self.is_closed = True
            self.committed.notify_all()
            self.engine.close()


def _filled(commit: Commit) -> list[str]:
    """The new views that a commit fills."""
    return [creation.relation for creation in commit.created if creation.plan is not None and not creation.internal]


def _step_of(commit: Commit) -> str:
    return f"filling {' and '.join(_filled(commit))}" if _filled(commit) else "committing"


def _naming_creations(error: TidemarkError, commit: Commit) -> TidemarkError:
    """An error while new views are filled, with their names."""
    names = [repr(name) for name in _filled(commit)]
    if not names:
        return error
    return TidemarkError(
        error.code, f"the view {' or '.join(names)} cannot be filled: {error.message}", hint=error.hint
    )
