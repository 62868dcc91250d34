"""PRIMARY KEY, NOT NULL and CHECK, enforced on the net effect of a transaction.

Assertions: no transaction may leave a row in the view of violations.

Before a transaction there are none, so those after it are what it adds: the change of the view, which the network
derives and does not store. In a transaction with other definitions they are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from tidemark.algebra.aggregates import AggregateFunction
from tidemark.algebra.compiled import key_of
from tidemark.algebra.expressions import Call, Expression, Literal
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    Difference,
    Filter,
    Given,
    Net,
    Plan,
    Project,
    Sort,
    Stored,
    Touched,
    union,
)
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import BIGINT, BOOLEAN, WEIGHT, Schema
from tidemark.engines.engine import Engine
from tidemark.errors import TidemarkError
from tidemark.network import Wave
from tidemark.sql.catalog.catalog import Catalog, Table
from tidemark.state.point import expanded, readable
from tidemark.storage import delta as delta_tables
from tidemark.storage.commit import Alteration
from tidemark.storage.delta import Bag, Rows, Tables
from tidemark.storage.filed import FiledRows
from tidemark.strategy.settle import settle
from tidemark.strategy.visit import evaluated


def check_constraints(
    tables: Mapping[str, Table], deltas: Mapping[str, Rows], stored: Set[str], engine: Engine
) -> None:
    """Refuse the transaction if the rows that it adds violate a constraint of their table."""
    for name, delta in deltas.items():
        table = tables[name]
        if isinstance(delta, FiledRows):
            _check_staged(table, delta, stored, engine)
            continue
        inserted = delta.inserted()
        if not inserted.count:
            continue
        if not inserted.is_few or inserted.has_null(_asked(table).required):
            _check_not_null(table, inserted.table)
        _check_conditions(table, inserted, engine)
        if table.primary_key:
            _check_key(table, delta, stored, engine)


def _check_staged(table: Table, delta: FiledRows, stored: Set[str], engine: Engine) -> None:
    """The same of rows that lie in files: of each constraint one row that violates it is asked for."""
    if not delta.coming:
        return
    coming = FiledRows(table.schema, delta.files)
    inserted, given = Given("inserted", table.schema), Tables({"inserted": coming})
    for position in _asked(table).required:
        missing = Call("is_null", (inserted.column(position),), BOOLEAN, nullable=False)
        _check_not_null(table, engine.evaluate(_one_of(Filter(inserted, missing)), given))
    violating = _asked(table).violating
    if violating is not None:
        _check_conditions(table, Rows.of(engine.evaluate(_one_of(violating), given)), engine)
    if not table.primary_key:
        return
    twice = engine.evaluate(twice_among(inserted, table.primary_key), given)
    if not twice.num_rows and table.name in stored and engine.rows(table.name):
        asked = _asked(table).taken
        assert isinstance(asked, Touched)
        met: Plan = replace(asked, touched=_keys(inserted, table))
        if delta.leaving.num_rows:
            met = Difference(met, _keys(Given("leaving", table.schema), table))
            leaving = Rows.of(delta_tables.negated(delta.leaving))
            given = Tables({"inserted": coming, "leaving": leaving})
        twice = engine.evaluate(_one_of(met), given)
    if twice.num_rows:
        raise _taken(table, twice.select([table.schema[position].name for position in table.primary_key]))


def _keys(rows: Plan, table: Table) -> Plan:
    columns = tuple(rows.column(position) for position in table.primary_key)
    return Project(rows, tuple(column.name for column in columns), columns)


def _one_of(plan: Plan) -> Plan:
    return Sort(plan, (), limit=1).total


def twice_among(rows: Plan, key: tuple[int, ...]) -> Plan:
    """One of the keys that more than one of the rows has, if there is any."""
    columns = tuple(rows.column(position) for position in key)
    names = (*(column.name for column in columns), "times")
    counted = Aggregate(rows, names, columns, (AggregateCall(AggregateFunction.COUNT_ROWS),))
    many = Call("gt", (counted.column(len(key)), Literal(1, BIGINT)), BOOLEAN, nullable=False)
    return _one_of(Filter(counted, many))


def check_alterations(
    altered: Iterable[Alteration],
    before: Mapping[str, Table],
    after: Mapping[str, Table],
    deltas: Mapping[str, pa.Table],
    engine: Engine,
) -> None:
    """Refuse the transaction if rows that were there before it violate a constraint of a column that it adds."""
    for alteration in altered:
        table = after[alteration.relation]
        rows: Plan = Stored(table.name, table.schema)
        given: Mapping[str, pa.Table] = {}
        if table.name in deltas:
            # Conditions may fail, so they must not see rows that the transaction removes.
            given = {"delta": deltas[table.name]}
            rows = Net(union((rows, Given("delta", table.schema)), table.schema))
        added = zip(range(len(alteration.before), len(table.schema)), alteration.values, strict=True)
        failed: list[Expression] = [
            Call("is_null", (rows.column(position),), BOOLEAN, nullable=False)
            for position, value in added
            if value is None and not table.schema[position].nullable
        ]
        new_checks = table.checks[len(before[table.name].checks) :]
        failed += [Call("is_false", (check.condition,), BOOLEAN, nullable=False) for check in new_checks]
        for condition in failed:
            found = engine.evaluate(*settle(Filter(rows, condition), given, engine))
            if found.num_rows:
                _check_not_null(table, found)
                _check_conditions(table, Rows.of(found), engine)


def _check_not_null(table: Table, inserted: pa.Table) -> None:
    for position, field in enumerate(table.schema.fields):
        column = inserted.column(position)
        if not field.nullable and column.null_count:
            row = inserted.filter(column.is_null()).slice(0, 1)
            raise TidemarkError(
                "not_null",
                f"column {field.name!r} of {table.name!r} is NOT NULL, but a row has no value there: {_show(row)}",
            )


def _check_conditions(table: Table, inserted: Rows, engine: Engine) -> None:
    violating = _asked(table).violating
    if violating is None:
        return
    found = evaluated(violating, {"inserted": inserted}, engine)
    if not found.count:
        return
    row, given = found.table.slice(0, 1), Given("inserted", table.schema)
    for check in table.checks:
        failed = Call("is_false", (check.condition,), BOOLEAN, nullable=False)
        if engine.evaluate(Filter(given, failed), {"inserted": row}).num_rows:
            raise TidemarkError("check", f"a row of {table.name!r} violates CHECK ({check.text}): {_show(row)}")


def _check_key(table: Table, delta: Rows, stored: Set[str], engine: Engine) -> None:
    """The table has no duplicate key afterwards.

    Keys were unique before, so one can only be a duplicate if the transaction adds more rows of it than it removes:
    by two, or by one while one is stored. Updates that keep their keys need no look at the table.
    """
    grown = _grown(table, delta)
    if not grown.count:
        return
    twice = grown.at_least(2)
    if not twice.count and table.name in stored:
        twice = evaluated(_asked(table).taken, {"grown": grown}, engine)
    if twice.count:
        raise _taken(table, twice.table.select(range(len(table.primary_key))))


def _taken(table: Table, keys: pa.Table) -> TidemarkError:
    record: dict[str, Any] = keys.slice(0, 1).to_pylist()[0]
    shown = "(" + ", ".join(f"{name}={value}" for name, value in record.items()) + ")"
    return TidemarkError(
        "primary_key", f"duplicate key {shown} in {table.name!r}", hint="delete or update the row that has it"
    )


def _grown(table: Table, delta: Rows) -> Rows:
    """The keys that the transaction adds more rows of than it removes."""
    asked = _asked(table)
    if not delta.is_few:
        names = [delta.table.schema.names[position] for position in table.primary_key]
        return Rows.of(delta_tables.inserted(delta_tables.net(delta.table.select([*names, WEIGHT]))))
    of, totals = asked.key_of, Bag()
    for row, weight in delta.bag.items():
        found = of(row)
        totals[found] = totals.get(found, 0) + weight
    return Rows(asked.keys, bag={found: total for found, total in totals.items() if total > 0})


class _Asked:
    """What is asked of a table, as plans."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @cached_property
    def required(self) -> tuple[int, ...]:
        """The columns that are NOT NULL."""
        return tuple([position for position, field in enumerate(self.table.schema.fields) if not field.nullable])

    @cached_property
    def keys(self) -> Schema:
        return Schema(tuple([self.table.schema[position] for position in self.table.primary_key]))

    @cached_property
    def key_of(self) -> Callable[[Row], Row]:
        return key_of(self.table.primary_key)

    @cached_property
    def violating(self) -> Plan | None:
        """The ``inserted`` rows that violate a condition; None if there is no condition."""
        violated: Expression | None = None
        for check in self.table.checks:
            failed = Call("is_false", (check.condition,), BOOLEAN, nullable=False)
            violated = failed if violated is None else Call("or", (violated, failed), BOOLEAN, nullable=False)
        return None if violated is None else Filter(Given("inserted", self.table.schema), violated)

    @cached_property
    def taken(self) -> Plan:
        """The keys among those that have ``grown`` of which a row is stored."""
        source = Stored(self.table.name, self.table.schema)
        columns = tuple(source.column(position) for position in self.table.primary_key)
        keys = Project(source, tuple(column.name for column in columns), columns)
        return Touched(keys, Given("grown", keys.schema), tuple(range(len(columns))))


MOST_KEPT: Final = 256
_kept: Final[dict[int, _Asked]] = {}


def _asked(table: Table) -> _Asked:
    """The same for the same table, so that what is worked out about its plans is kept, too."""
    asked = _kept.get(id(table))
    if asked is None or asked.table is not table:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        asked = _kept[id(table)] = _Asked(table)
    return asked


def _show(table: pa.Table) -> str:
    """The first row of a weighted table, for a message."""
    record: dict[str, Any] = table.select(range(table.num_columns - 1)).to_pylist()[0]
    return "(" + ", ".join(f"{name}={value}" for name, value in record.items()) + ")"


SHOWN: Final = 5


def must_hold(catalog: Catalog, before: Catalog, wave: Wave, stored: Callable[[], Set[str]], engine: Engine) -> None:
    """Refuse a transaction that violates an assertion, with the rows that do."""
    for view in catalog.assertions:
        if catalog is before:
            found = wave.deltas.get(f"_assertion {view.name}")
        elif not wave.deltas and before.get(view.name) is view:
            continue
        else:
            plan, given = readable(expanded(view.plan, catalog, stored()), stored(), wave.deltas)
            found = engine.evaluate(*settle(plan, given, engine))
        if found is not None and found.num_rows:
            raise _violated(view.name, delta_tables.inserted(found))


def _violated(name: str, rows: pa.Table) -> TidemarkError:
    count = delta_tables.size(rows)
    listed = rows.select(range(rows.num_columns - 1)).slice(0, SHOWN).to_pylist()
    more = "" if count <= len(listed) else f", and {count - len(listed)} more"
    what = "row" if count == 1 else "rows"
    return TidemarkError(
        "assertion",
        f"the assertion {name!r} does not hold for {count} {what}: {', '.join(map(str, listed))}{more}",
        hint="the transaction was rolled back; mend these rows in it, or DROP ASSERTION",
    )
