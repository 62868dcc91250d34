"""Telling what goes on while a transaction is worked on, for those who wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidemark.network.autonomous import Known
from tidemark.network.nodes import Node, Refresh
from tidemark.network.refreshes import RefreshCache

Listener = Callable[[str], None]


@dataclass
class Progress:
    """Hands each step to the listener, if there is one, before the step is taken.

    Steps are: checking constraints, propagating to each node, and filling new views or committing. A listener may
    raise: the transaction then fails like any other, and nothing of it is stored.
    """

    listener: Listener | None = None

    def tell(self, step: str) -> None:
        if self.listener is not None:
            self.listener(step)


class ToldRefreshes(RefreshCache):
    """Refresh plans as ever; asking for a node's is the beginning of its step."""

    def __init__(self, progress: Progress, known: Known, unstored: frozenset[str] = frozenset()) -> None:
        super().__init__(unstored=unstored, known=known)
        self._progress = progress

    def get(self, node: Node, changed: frozenset[str], deltas: Mapping[str, pa.Table]) -> Refresh:
        self._progress.tell(f"propagating to {node.label}")
        return super().get(node, changed, deltas)
