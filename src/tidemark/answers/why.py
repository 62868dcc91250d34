"""EXPLAIN WHY and WHY NOT: provenance over what a transaction sees, or over what a version did.

EXPLAIN WHY … AT VERSION: what a version did to a row, over logical rollback of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.expressions import Value
from tidemark.algebra.plans import Plan, Scan, relations_of
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import VERSION, Schema
from tidemark.calculus.as_of import Block, log_name, resolve
from tidemark.calculus.terms import distribute
from tidemark.errors import TidemarkError
from tidemark.provenance import Answer, Cause
from tidemark.provenance.causes import BaseChange, Changes, needed
from tidemark.provenance.questions import Bag, whole
from tidemark.provenance.tree import Derivation
from tidemark.provenance.why import Explaining
from tidemark.sql.catalog.catalog import Catalog, Relation, Table, View
from tidemark.sql.parse.text import Source
from tidemark.sql.parse.why import ExplainWhy, bind_row
from tidemark.state.host import Reader
from tidemark.state.names import relation_named
from tidemark.state.point import first_principle
from tidemark.state.rows import as_table
from tidemark.state.state import Store
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import from_bag, to_bag, to_rows
from tidemark.strategy.nodes import expand
from tidemark.strategy.settle import settle

MOST_CANDIDATES = 1000
"""How many rows with some wanted values are compared before and after."""


def cause(store: Store, relation: Relation, wanted: Mapping[int, Value], version: int, rows: int = 3) -> Cause:
    """What a version did to the first row with the wanted values that it changed."""
    if not isinstance(version, int) or not 1 <= version <= store.version:
        raise TidemarkError("version", f"there is no version {version!r}", hint=f"the last one is {store.version}")
    born = store.created[relation.name]
    if version < born:
        raise TidemarkError("version", f"{relation.name!r} was created in version {born}", hint="name a later version")
    before, after = _Rollback(store, version - 1), _Rollback(store, version)
    plan = relation.plan if isinstance(relation, View) else Scan(relation.name, relation.schema)
    base = first_principle(plan, store.catalog)
    row = _row(after.explaining(rows), before.explaining(rows), base, wanted)
    times = [state.explaining(rows).times(base, row) for state in (before, after)]
    found = Cause(relation.name, relation.schema.names, row, version, times[0], times[1])
    if isinstance(relation, View) and version == born:
        return replace(found, before=0, note=f"{relation.name} was created in this version")
    if times[0] == times[1]:
        return found
    changes = _changes(store, base, version)
    notes = {(c.table, c.row): f"{'inserted' if c.weight > 0 else 'deleted'} in this version" for c in changes}
    state = after if times[1] > times[0] else before
    why = state.explaining(rows, notes).explain(
        relation.name, plan, plan if isinstance(relation, View) else None, whole(row)
    )

    def explains(undone: Changes) -> bool:
        try:
            return after.without(undone).explaining(rows).times(base, row) == times[0]
        except TidemarkError:  # a view can fail in a state that never was
            return False

    start = _start(changes, why, explains)
    least, is_minimal = needed(start, explains)
    return replace(found, changes=least, is_minimal=is_minimal, derivation=why)


def _row(after: Explaining, before: Explaining, plan: Plan, wanted: Mapping[int, Value]) -> Row:
    """The first row with the wanted values that is there another number of times; the wanted row, if it is whole."""
    if len(wanted) == len(plan.schema):
        return tuple(wanted[i] for i in range(len(plan.schema)))
    pattern = tuple(wanted.items())
    found = [dict(state.few(state.matching(plan, pattern), MOST_CANDIDATES)) for state in (after, before)]
    for row in (*found[0], *found[1]):
        if found[0].get(row, 0) != found[1].get(row, 0):
            return row
    raise TidemarkError(
        "no_change",
        "no row with these values came or went in this version",
        hint="changes() lists what changed in which version",
    )


def _start(changes: Changes, why: Answer, explains: Callable[[Changes], bool]) -> Changes:
    """Where to begin: the changes that the derivation rests on, if they explain it; else all."""
    if isinstance(why, Derivation):
        below = set(why.base_rows)
        own = tuple(change for change in changes if (change.table, change.row) in below)
        if own and explains(own):
            return own
    return changes


def _changes(store: Store, base: Plan, version: int) -> Changes:
    """The net changes of all tables that a plan reads, in one version."""
    result: list[BaseChange] = []
    for name in sorted(relations_of(base)):
        table = store.catalog.relations[name]
        assert isinstance(table, Table)
        logged = store.engine.changes(name, version - 1)
        own = logged.filter(pc.equal(logged[VERSION], version)).drop_columns([VERSION])
        names = table.schema.names
        result += [BaseChange(name, names, row, weight) for row, weight in sorted(to_bag(own).items(), key=repr)]
    return tuple(result)


class _Rollback:
    """The database as of a version, perhaps with some changes of tables undone as well."""

    def __init__(self, store: Store, version: int, undone: Mapping[str, Mapping[Row, int]] | None = None) -> None:
        self.store, self.version, self.undone = store, version, undone or {}
        self._logs: dict[str, pa.Table] = {}

    def without(self, changes: Changes) -> _Rollback:
        undone: dict[str, dict[Row, int]] = {}
        for change in changes:
            undone.setdefault(change.table, {})[change.row] = change.weight
        result = _Rollback(self.store, self.version, undone)
        result._logs = self._logs if not self.undone else {}
        return result

    def explaining(self, rows: int, notes: Mapping[tuple[str, Row], str] | None = None) -> Explaining:
        views = self.store.catalog.materialized_views
        definitions = {view.name: view.plan for view in views}
        approximate = {view.name: view.approximate for view in views}
        return Explaining(self._ask, definitions, approximate, rows, notes or {})

    def _ask(self, plan: Plan) -> Bag:
        created = self.store.created
        young = {v.name: v.plan for v in self.store.catalog.materialized_views if created[v.name] > self.version}
        plan = expand(plan, young)
        read = relations_of(plan)
        given = {log_name(name): log for name in read if (log := self._log(name)).num_rows}
        since = frozenset(name for name in read if log_name(name) in given)
        resolved = distribute(resolve(plan, Block(since=since)))
        return to_bag(self.store.engine.evaluate(*settle(resolved, given, self.store.engine)))

    def _log(self, name: str) -> pa.Table:
        """The net changes of a relation since the version, and those of it that are undone."""
        if name not in self._logs:
            self._logs[name] = delta_tables.net(self.store.engine.changes(name, self.version).drop_columns([VERSION]))
        if name not in self.undone:
            return self._logs[name]
        undone = from_bag(self.undone[name], self.store.catalog.relations[name].schema)
        return delta_tables.combine(self._logs[name], undone)


WantedRow: TypeAlias = "Sequence[Any] | Mapping[str, Any]"
"""A whole row, or some of its columns by name."""


class Asked(Protocol):
    """What provenance asks: a transaction, with its definitions and what it sees."""

    catalog: Catalog

    def evaluate(self, plan: Plan) -> pa.Table: ...


def wanted_values(row: WantedRow, relation: Relation) -> dict[int, Value]:
    """The values by position of their columns, as values of the columns' types."""
    names = relation.schema.names
    if isinstance(row, Mapping):
        unknown = [str(name) for name in row if name not in names]
        if unknown:
            raise TidemarkError(
                "unknown_column",
                f"{relation.name!r} has no column {unknown[0]!r}",
                hint=f"columns: {', '.join(names)}",
            )
        positions = [relation.schema.position(name) for name in row]
    else:
        positions = list(range(len(names)))
    schema = Schema(tuple(relation.schema[position] for position in positions))
    nullable = Schema(tuple(type(f)(f.name, f.type, True) for f in schema.fields))
    if isinstance(row, Mapping) and not row:
        return {}  # any row; a table without columns has no rows to read it from
    (values,) = to_rows(as_table([row], nullable, relation.name))
    return dict(zip(positions, values, strict=True))


def explained(relation: Relation, wanted: Mapping[int, Value], transaction: Reader, rows: int = 3) -> Answer:
    """Why the first row with the wanted values is in the relation; or why none is."""

    def ask(plan: Plan) -> Bag:
        return to_bag(transaction.evaluate(plan))

    catalog = transaction.catalog
    views = catalog.materialized_views
    explaining = Explaining(
        ask,
        {view.name: view.plan for view in views},
        {view.name: view.approximate for view in views},
        rows,
    )
    definition = None if isinstance(relation, Table) else relation.plan
    scan = catalog.scan(relation.name) if definition is not None else Scan(relation.name, relation.schema)
    return explaining.explain(relation.name, scan, definition, tuple(wanted.items()))


def answered(
    relation: Relation,
    wanted: Mapping[int, Value],
    transaction: Asked,
    store: Store,
    version: int | None,
    rows: int = 3,
) -> Answer | Cause:
    """Why a row is there or is not; with a version, why that did to it what it did."""
    if version is None:
        return explained(relation, wanted, transaction, rows)
    return cause(store, relation_named(relation.name, store.catalog), wanted, version, rows)


def explain_row(statement: ExplainWhy, transaction: Asked, store: Store, source: Source) -> pa.Table:
    """EXPLAIN WHY, as lines for people."""
    found = relation_named(statement.relation, transaction.catalog)
    values = bind_row(statement.row, found.schema, found.name, source)
    answer = answered(found, values, transaction, store, statement.version)
    return pa.table({"explain": str(answer).splitlines()})
