"""What a change does to its table: the delta of an INSERT, UPDATE or DELETE, or of rows that are handed over.

Whoever asks says how plans are evaluated, over what is stored and over what is given to them by name.

Sources without old values: a table is brought to the state that an export, an interface or a file drop gives.

Of the whole state the net change is the difference as bags, taken in the engine:

    Δ = state − table

A source that knows what it wrote since the last time sends that, and the keys of all that it holds (BLAKELEY's
Procedures 7.1 and 7.2, for one relation):

    T_d = the keys of what was written  ∪  the stored keys that the source does not hold any more
    Δ   = what was written  −  the stored rows with a key in T_d

All that was written counts into T_d, not only what is known as modified: a key may have been given away again.

Rows that are to stand in the table, whatever had their keys before (``upsert``), are the same without a source that may
have lost some:

    Δ = rows − the stored rows with a key of theirs

A statement that picks rows by what stands in columns is one plan for all its values, which are a relation of one row:

    UPDATE r SET b = p1 WHERE k = p2      old and new rows:  π[r.*, r.* with b = p1] (r ⋈[k = p2] {(p1, p2)})

So it is answered by a look-up, as a differential is, and what engines know of a plan is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import pyarrow as pa

from tidemark.algebra.coerce import Placeholder
from tidemark.algebra.compiled import key_of
from tidemark.algebra.expressions import Call, Column, Expression, conjuncts, parts_once, transform_all
from tidemark.algebra.plans import (
    Difference,
    Distinct,
    Filter,
    Given,
    Join,
    Negate,
    Plan,
    Project,
    Scan,
    Touched,
    union,
)
from tidemark.algebra.scalar import Row, can_fail
from tidemark.algebra.types import WEIGHT, Field, Schema
from tidemark.errors import TidemarkError
from tidemark.sql.bind.changes import LEAVING, BoundChange, DeleteRows, InsertQuery, InsertRows, UpdateRows
from tidemark.sql.catalog.catalog import Table
from tidemark.state.constraints import twice_among
from tidemark.state.course import new_rows, side_by_side
from tidemark.state.rows import Rows, as_table
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import Rows as Change
from tidemark.storage.delta import Tables

NOTHING: Final[Mapping[str, pa.Table]] = {}
WANTED: Final = "wanted"


class EvaluateRows(Protocol):
    """The same of rows in either form."""

    def __call__(self, plan: Plan, named: Mapping[str, Change]) -> Change: ...


class Evaluate(Protocol):
    """The net rows of a plan with their weights, over what is stored and what is given by name."""

    def __call__(self, plan: Plan, named: Mapping[str, pa.Table] = NOTHING) -> pa.Table: ...


Changed = tuple[Change, Change | None]
"""The delta of a statement, and, if it is asked for, what it made of which row: old and new ones in pairs."""


def delta_of(bound: BoundChange, evaluate: EvaluateRows, *, in_pairs: bool = False) -> Changed:
    """What a bound statement does to its table."""
    match bound:
        case InsertRows(table=table, rows=rows):
            return Change.of(added(table, rows)), None
        case InsertQuery(plan=plan):
            return evaluate(plan, {}), None
        case DeleteRows(plan=plan):
            return evaluate(plan, {}).negated(), None
        case UpdateRows(table=table, plan=plan, coming=coming):
            leaving = evaluate(plan, {})
            pairs = evaluate(_both(table, coming), {LEAVING: leaving}) if in_pairs else None
            if pairs is None:
                made = evaluate(coming, {LEAVING: leaving})
            else:
                made = Change.of(new_rows(pairs.table, table.schema))
            return Change.together([leaving.negated(), made]), pairs


def coming(table: Table, rows: Iterable[Row]) -> Change:
    """The delta of rows that come, each cell a value of its column's type."""
    bag: dict[Row, int] = {}
    for row in rows:
        bag[row] = bag.get(row, 0) + 1
    return Change(table.schema, bag=bag)


PARAMETERS: Final = "parameters"


@dataclass(frozen=True)
class Keyed:
    """A DELETE or UPDATE by what stands in some columns, as a plan over its ``parts``, the values that it asks for. Of
    an UPDATE the plan gives old and new rows in pairs; if new values can be errors, ``coming`` does, over the rows that
    leave, which are net."""

    table: Table
    plan: Plan
    coming: Plan | None
    parts: tuple[Placeholder, ...]
    schema: Schema
    links: tuple[tuple[int, int], ...]
    """Columns, and the parts that they equal."""
    is_update: bool
    changes_key: bool
    """Whether rows get other primary keys, perhaps."""
    is_stable: bool
    """Whether rows that it has changed are found by the same values as before."""

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """Columns of the rows that values of the parts are about."""
        return tuple([column for column, _ in self.links])

    @cached_property
    def key_of(self) -> Callable[[Row], Row]:
        """What stands in them, of values of the parts."""
        return key_of([part for _, part in self.links])

    def delta(self, rows: Iterable[Row], evaluate: EvaluateRows) -> Changed:
        """The delta for values of the parts, and of an UPDATE old and new rows in pairs. Several rows of values are
        about different keys."""
        given = {PARAMETERS: Change(self.schema, bag=dict.fromkeys(rows, 1))}
        found = evaluate(self.plan, given)
        if self.coming is not None:
            found = evaluate(self.coming, {**given, LEAVING: found})
        if not self.is_update:
            return found.negated(), None
        width, bag = len(self.table.schema), dict[Row, int]()
        for both, weight in found.bag.items():
            old, new = both[:width], both[width:]
            bag[old] = bag.get(old, 0) - weight
            bag[new] = bag.get(new, 0) + weight
        if 0 in bag.values():
            bag = {row: weight for row, weight in bag.items() if weight}
        return Change(self.table.schema, bag=bag), found


def keyed(bound: object) -> Keyed | None:
    """The plan of a statement that asks for equality with columns, if no row that it leaves aside could have been an
    error."""
    match bound:
        case DeleteRows(table=table, plan=Filter(input=Scan() as rows, predicate=condition)):
            cells: tuple[Expression, ...] = ()
        case UpdateRows(
            table=table,
            plan=Filter(input=Scan() as rows, predicate=condition),
            coming=Project(input=Given(name=name), expressions=cells),
        ) if name == LEAVING:
            pass
        case _:
            return None
    links = dict(filter(None, map(_link, conjuncts(condition))))
    if not links or can_fail(condition):
        return None
    found = (part for part in parts_once((condition, *cells)) if isinstance(part, Placeholder))
    parts = tuple(dict.fromkeys(found))
    schema = Schema(tuple(Field(f"p{i}", part.type, part.nullable) for i, part in enumerate(parts)))
    width = len(table.schema)
    columns = {part: Column(width + i, f"p{i}", part.type, part.nullable) for i, part in enumerate(parts)}
    asked, *made = transform_all((condition, *cells), lambda part: columns.get(part))  # type: ignore[call-overload]
    values = Given(PARAMETERS, schema)
    plan: Plan = Join(rows, values, asked)
    coming: Plan | None = None
    if any(map(can_fail, cells)):
        beside = Join(Given(LEAVING, table.schema), values, asked)
        coming = _pairs(table, beside, made)
        made = []
    plan = _pairs(table, plan, made)
    at = tuple((column, parts.index(part)) for column, part in links.items())
    is_stable = all(isinstance(cell := cells[i], Column) and cell.index == i for i in links) if cells else True
    return Keyed(
        table, plan, coming, parts, schema, at, isinstance(bound, UpdateRows), changes_key(bound), is_stable=is_stable
    )


def _pairs(table: Table, plan: Plan, made: list[Expression]) -> Project:
    """The rows of a table that a plan begins with, beside those that come of them."""
    names = side_by_side(table.schema).names if made else table.schema.names
    return Project(plan, names, (*plan.columns()[: len(table.schema)], *made))


def _link(condition: Expression) -> tuple[int, Placeholder] | None:
    """A column and the value that it is asked to equal."""
    match condition:
        case (
            Call(function="eq", arguments=(Column() as column, Placeholder() as part))
            | Call(function="eq", arguments=(Placeholder() as part, Column() as column))
        ):
            if column.type == part.type:
                return column.index, part
    return None


def changes_key(bound: BoundChange) -> bool:
    """Whether a statement is an UPDATE that gives rows other keys, perhaps."""
    if not isinstance(bound, UpdateRows):
        return False
    assert isinstance(bound.coming, Project)
    cells = bound.coming.expressions
    return any(not isinstance(c := cells[i], Column) or c.index != i for i in bound.table.primary_key)


def _both(table: Table, coming: Plan) -> Plan:
    """The rows that leave beside those that come of them."""
    assert isinstance(coming, Project)
    before = coming.input.columns()[: len(table.schema)]
    return Project(coming.input, side_by_side(table.schema).names, (*before, *coming.expressions))


def added(table: Table, rows: Rows) -> pa.Table:
    """The delta of rows that come."""
    return delta_tables.net(delta_tables.weighted(as_table(rows, table.schema, table.name)))


def removed(table: Table, rows: Rows, evaluate: Evaluate) -> pa.Table:
    """The delta of whole rows that leave, one equal row for each; all of them must be there."""
    wanted = added(table, rows)
    missing = delta_tables.inserted(delta_tables.combine(wanted, delta_tables.negated(_found(table, wanted, evaluate))))
    if missing.num_rows:
        row = missing.select(range(missing.num_columns - 1)).slice(0, 1).to_pylist()[0]
        raise TidemarkError(
            "absent",
            f"{table.name!r} does not hold the row that is to be deleted (or not as often): {row}",
            hint="delete takes whole rows, as they are stored",
        )
    return delta_tables.negated(wanted)


def _found(table: Table, wanted: pa.Table, evaluate: Evaluate) -> pa.Table:
    return evaluate(_beside_wanted(table), {WANTED: wanted})


def _beside_wanted(table: Table) -> Plan:
    """The rows that have the key of a wanted row (or, without a key, equal one)."""
    keys = table.primary_key or tuple(range(len(table.schema)))
    given = Given(WANTED, table.schema)
    wanted_keys = Project(given, tuple(table.schema.names), _first(keys, given.columns()))
    return Touched(Scan(table.name, table.schema), wanted_keys, keys)


def must_have_key(table: Table) -> None:
    if not table.primary_key:
        raise TidemarkError(
            "no_key",
            f"{table.name!r} has no PRIMARY KEY, by which rows are told to be there",
            hint="declare one, or use insert, delete or sync",
        )


def written_once(table: Table, rows: Rows | Change) -> Change:
    """The delta of rows that come, no two of them with the same key."""
    coming = rows.table if isinstance(rows, Change) else added(table, rows)
    keys = coming.select([*table.primary_key, coming.num_columns - 1])
    _must_be_none(table, Change.of(delta_tables.net(keys)).at_least(2).table.drop_columns([WEIGHT]))
    return rows if isinstance(rows, Change) else Change.of(coming)


def _must_be_none(table: Table, twice: pa.Table) -> None:
    """Refuse keys that stand twice."""
    if not twice.num_rows:
        return
    [key] = twice.slice(0, 1).to_pylist()
    shown = ", ".join(f"{name}={value}" for name, value in key.items())
    raise TidemarkError(
        "primary_key",
        f"the key ({shown}) stands twice among the rows for {table.name!r}",
        hint="give one row for each key",
    )


def must_be_once(table: Table, coming: Change, evaluate: Callable[[Plan, Mapping[str, pa.Table]], pa.Table]) -> None:
    """The same of rows that lie in files."""
    found = evaluate(twice_among(Given(WANTED, table.schema), table.primary_key), Tables({WANTED: coming}))
    _must_be_none(table, found.select([table.schema[position].name for position in table.primary_key]))


def upserted(table: Table, coming: Change, evaluate: EvaluateRows) -> Change:
    """The delta of rows that come in place of those with their keys. Of a row that is there already nothing is left."""
    if not coming.count:
        return coming
    leaving = evaluate(_beside_wanted(table), {WANTED: coming})
    return Change.together([leaving.negated(), coming])


def _first(positions: tuple[int, ...], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns with the given ones in front."""
    return tuple(columns[p] for p in positions) + tuple(c for c in columns if c.index not in positions)


def replacing(table: Table) -> Plan:
    """The same change as a plan over the wanted rows."""
    return union((Given(WANTED, table.schema), Negate(_beside_wanted(table))), table.schema)


STATE, CHANGED, PRESENT = "state", "changed", "present"


def brought_to(table: Table) -> Plan:
    """The change that brings a table to a state, as a plan over that."""
    return union((Given(STATE, table.schema), Negate(Scan(table.name, table.schema))), table.schema)


@dataclass(frozen=True)
class Synced:
    """How many rows came and went."""

    inserted: int
    deleted: int

    @staticmethod
    def of(delta: pa.Table) -> Synced:
        return Synced.of_rows(Change.of(delta))

    @staticmethod
    def of_rows(delta: Change) -> Synced:
        return Synced((delta.size + delta.growth) // 2, (delta.size - delta.growth) // 2)


def differences(
    table: Table, state: Rows | None, changed: Rows | None, present: Rows | None
) -> tuple[Plan, Mapping[str, pa.Table]]:
    """The plan of the net change, and what it needs given."""
    stored = Scan(table.name, table.schema)
    if state is not None:
        if changed is not None or present is not None:
            raise TidemarkError("type", "sync takes the whole state, or what changed and what is present")
        given = delta_tables.net(delta_tables.weighted(as_table(state, table.schema, table.name)))
        return brought_to(table), {STATE: given}
    if changed is None or present is None:
        raise TidemarkError("type", "sync takes the whole state, or what changed and what is present, both")
    if not table.primary_key:
        raise TidemarkError(
            "no_key",
            f"{table.name!r} has no PRIMARY KEY by which its rows could be told to be present",
            hint="declare one, or give the whole state",
        )
    keys = Schema(tuple(table.schema[position] for position in table.primary_key))
    written = delta_tables.net(delta_tables.weighted(as_table(changed, table.schema, table.name)))
    there = delta_tables.net(delta_tables.weighted(as_table(present, keys, f"the keys of {table.name}")))
    rows = Given(CHANGED, table.schema)
    gone = Difference(_keys(stored, table), Distinct(Given(PRESENT, keys)))
    touched = Distinct(union((_keys(rows, table), gone), keys))
    leaving = Touched(stored, touched, table.primary_key)
    return union((rows, Negate(leaving)), table.schema), {CHANGED: written, PRESENT: there}


def must_be_present(
    table: Table, given: Mapping[str, pa.Table], evaluate: Callable[[Plan, Mapping[str, pa.Table]], pa.Table]
) -> None:
    """Refuse rows that were written and have a key that the source does not hold: it contradicts itself."""
    if CHANGED not in given:
        return
    keys = Schema(tuple(table.schema[position] for position in table.primary_key))
    absent = Difference(_keys(Given(CHANGED, table.schema), table), Distinct(Given(PRESENT, keys)))
    found = evaluate(absent, given)
    if found.num_rows:
        key = found.select(keys.names).slice(0, 1).to_pylist()[0]
        raise TidemarkError(
            "absent",
            f"a row of {table.name!r} was changed, but its key is not present: {key}",
            hint="present has the keys of all that the source holds, also of what it wrote since the last time",
        )


def _keys(plan: Plan, table: Table) -> Plan:
    columns = plan.columns()
    names = tuple(table.schema[position].name for position in table.primary_key)
    return Distinct(Project(plan, names, tuple(columns[position] for position in table.primary_key)))
