"""Assertions: no transaction may leave a row in the view of violations.

Before a transaction there are none, so those after it are what it adds: the change of the view, which the network
derives and does not store. In a transaction with other definitions they are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from tidemark.database.reading import expanded, readable
from tidemark.engines.base import Engine
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.network import Wave
from tidemark.network.settle import settle
from tidemark.sql.catalog import Catalog

SHOWN: Final = 5


def must_hold(
    catalog: Catalog, before: Catalog, wave: Wave, stored: Callable[[], frozenset[str]], engine: Engine
) -> None:
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
