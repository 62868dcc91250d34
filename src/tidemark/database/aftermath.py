"""What is left to do for rules when a transaction has ended: tell who listens, and run what was detached."""

from __future__ import annotations

from collections.abc import Callable

from tidemark.database.actions import Program
from tidemark.database.apart import run_due
from tidemark.database.detaching import DETACHED_TABLE
from tidemark.database.store import Store
from tidemark.database.transaction import Transaction


class Aftermath:
    """The rules of one database between its transactions. What they do begins further ones, which end here, too."""

    def __init__(self, store: Store, program: Program, begin: Callable[[], Transaction]) -> None:
        self._store, self._program, self._begin = store, program, begin
        self.is_running = False

    def of(self, ended: Transaction) -> None:
        """Do what a transaction has left. One that was rolled back leaves what is independent of it."""
        reactions = ended.reactions
        if ended.is_committed:
            for channel, rows in reactions.acting.notices:
                self._program.tell(channel, rows)
        else:
            known = {activation.name for activation in self._store.catalog.activations}
            independent = [entry for entry in reactions.detached if entry.is_independent and entry.rule in known]
            if independent:
                apart = self._begin()
                for entry in independent:
                    apart.keep(DETACHED_TABLE, entry.added())
                apart.commit()
        if reactions.detached and not self.is_running:
            self.run_due()

    def run_due(self, *, is_timed: bool = False) -> int:
        """Run the actions of rules that wait in the queue and whose time has come; how many were run."""
        was_running, self.is_running = self.is_running, True
        try:
            return run_due(self._store, self._begin, is_timed=is_timed)
        finally:
            self.is_running = was_running
