"""The figures of views at the client, for people and programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from tidemark.cli.show import Display
from tidemark_bench.harness.clock import middle
from tidemark_bench.harness.run import show, tenths, whole, words


@dataclass(frozen=True)
class Refreshed:
    """One refresh, after one transaction: bytes in every way, what was chosen, and milliseconds at both sides."""

    whole_bytes: int
    view_changes_bytes: int
    base_changes_bytes: int
    holder_kind: str
    holder_bytes: int
    holder_server_milliseconds: float
    holder_client_milliseconds: float
    local_kind: str
    local_bytes: int
    local_server_milliseconds: float
    local_client_milliseconds: float


@dataclass
class ViewReport:
    """A view, and what it took to keep it elsewhere. ``first_bytes`` is what a local view begins with."""

    view: str
    definition: str
    rows: int
    first_bytes: int
    refreshed: list[Refreshed] = field(default_factory=list)

    def total(self, name: str) -> int:
        """The bytes of all refreshes."""
        return sum(int(getattr(one, name)) for one in self.refreshed)

    def median(self, name: str) -> float:
        return middle(self.refreshed, name)

    def kinds(self, name: str) -> dict[str, int]:
        """How often what was chosen."""
        return dict(Counter(str(getattr(one, name)) for one in self.refreshed))


@dataclass
class ClientReport:
    rows: int
    transactions: int
    views: list[ViewReport] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        found = asdict(self)
        for view, shown in zip(self.views, found["views"], strict=True):
            shown["holder_kinds"], shown["local_kinds"] = view.kinds("holder_kind"), view.kinds("local_kind")
        return found

    def show(self, display: Display) -> None:
        title = f"duckdb, {self.rows:,} rows, {self.transactions:,} transactions"
        show(display, f"{title}: bytes in all", self.bytes_columns())
        show(display, f"{title}: milliseconds for one refresh", self.times_columns())

    def bytes_columns(self) -> dict[str, pa.Array]:
        """The bytes of all refreshes, in each way."""
        names = ("whole_bytes", "view_changes_bytes", "holder_bytes", "base_changes_bytes", "local_bytes")
        ways = ("whole results", "view changes", "to a holder", "base changes", "to a local view")
        columns: dict[str, pa.Array] = {
            "view": words(view.view for view in self.views),
            "rows": whole(view.rows for view in self.views),
        }
        columns |= {way: whole(view.total(name) for view in self.views) for name, way in zip(names, ways, strict=True)}
        columns["local view, at first"] = whole(view.first_bytes for view in self.views)
        return columns

    def times_columns(self) -> dict[str, pa.Array]:
        """Medians for one refresh, and what was shipped how often."""
        names = (
            ("holder: server", "holder_server_milliseconds"),
            ("holder: client", "holder_client_milliseconds"),
            ("local view: server", "local_server_milliseconds"),
            ("local view: client", "local_client_milliseconds"),
        )
        columns: dict[str, pa.Array] = {"view": words(view.view for view in self.views)}
        columns |= {way: tenths(view.median(name) for view in self.views) for way, name in names}
        for way, name in (("shipped to the holder", "holder_kind"), ("to the local view", "local_kind")):
            shown = (view.kinds(name) for view in self.views)
            texts = [", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items())) for kinds in shown]
            columns[way] = words(texts)
        return columns
