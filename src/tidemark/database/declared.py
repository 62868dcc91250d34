"""``strategy = 'incremental'``: such a view is never evaluated as a whole, or it is refused where it is defined."""

from __future__ import annotations

from collections.abc import Iterable

from tidemark.database.transition import network_of
from tidemark.errors import TidemarkError
from tidemark.network.maintenance import maintenance
from tidemark.sql.catalog import Catalog, View


def must_be_as_declared(catalog: Catalog, defined: Iterable[View]) -> None:
    """Refuse a catalog if one of the views that were defined in it was declared incremental and cannot be kept so."""
    declared = [view for view in defined if view.materialized and view.options.get("strategy") == "incremental"]
    if not declared:
        return
    network = network_of(catalog)
    for view in declared:
        for part in maintenance(network, view.name):
            if part.reads_all_because is not None:
                raise TidemarkError(
                    "not_incremental",
                    f"the view {view.name!r} cannot be kept with strategy = 'incremental', because "
                    f"{part.reads_all_because} ({part.node.label})",
                    hint="leave the strategy out: the view is then kept by the cheapest way that is exact",
                )
