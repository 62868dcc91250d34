"""Sources without old values: a table is brought to the state that an export, an interface or a file drop gives.

Of the whole state the net change is the difference as bags, taken in the engine:

    Δ = state − table

A source that knows what it wrote since the last time sends that, and the keys of all that it holds (BLAKELEY's
Procedures 7.1 and 7.2, for one relation):

    T_d = the keys of what was written  ∪  the stored keys that the source does not hold any more
    Δ   = what was written  −  the stored rows with a key in T_d

All that was written counts into T_d, not only what is known as modified: a key may have been given away again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidemark.algebra.plans import Difference, Distinct, Given, Negate, Plan, Project, Scan, Touched, union
from tidemark.algebra.types import Schema
from tidemark.database.rows import Rows, as_table
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.sql.catalog import Table

STATE, CHANGED, PRESENT = "state", "changed", "present"


@dataclass(frozen=True)
class Synced:
    """How many rows came and went."""

    inserted: int
    deleted: int

    @staticmethod
    def of(delta: pa.Table) -> Synced:
        came = delta_tables.size(delta_tables.inserted(delta))
        return Synced(came, delta_tables.size(delta) - came)


def differences(
    table: Table, state: Rows | None, changed: Rows | None, present: Rows | None
) -> tuple[Plan, Mapping[str, pa.Table]]:
    """The plan of the net change, and what it needs given."""
    stored = Scan(table.name, table.schema)
    if state is not None:
        if changed is not None or present is not None:
            raise TidemarkError("type", "sync takes the whole state, or what changed and what is present")
        given = delta_tables.net(delta_tables.weighted(as_table(state, table.schema, table.name)))
        return union((Given(STATE, table.schema), Negate(stored)), table.schema), {STATE: given}
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
