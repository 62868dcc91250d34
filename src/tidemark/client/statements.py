"""Statements that a holder of a view can follow by itself: the view and the statement say all (BLAKELEY, Theorems 4.1
to 4.3). The source and the holder derive the same step from the same definitions, so that only the text is shipped.

Steps rest on what the definitions say of rows, such as NOT NULL, which is true between transactions. So in a
transaction that says several things about a table, all but the last must leave that true: deletions do, and updates of
columns that may be NULL and are in no key. Nothing is taken from CHECK constraints, which a holder does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from tidemark.algebra.plans import Given, Plan, Stored, expressions_of, transform, walk
from tidemark.calculus.as_of import delta_name
from tidemark.client.texts import bound, is_exact
from tidemark.database.analysed import analysed
from tidemark.database.known import known_of
from tidemark.database.rows import as_table
from tidemark.database.transition import network_of
from tidemark.engines.base import Engine
from tidemark.log import deltas as delta_tables
from tidemark.network.autonomous import Attempt, Known, attempts, by_statement
from tidemark.network.nodes import Refresh
from tidemark.network.wave import given_deltas
from tidemark.sql.catalog import Catalog
from tidemark.sql.changes import Change, DeleteRows, InsertRows, UpdateRows

HELD = "held"


@dataclass(frozen=True)
class Step:
    """What brings a view up to date for a statement: a plan over its content, given as HELD, and over the rows of an
    INSERT. ``is_settled`` if what is known of rows is still true after it, whatever the statement did."""

    plan: Plan
    is_settled: bool
    given: Mapping[str, pa.Table] = field(default_factory=dict)

    def of(self, content: pa.Table, engine: Engine) -> pa.Table:
        """The content after the statement."""
        change = engine.evaluate(self.plan, {HELD: content, **self.given})
        return delta_tables.combine(content, change.cast(content.schema))


class Following:
    """How statements are followed by a view alone, with the definitions that its holder has."""

    def __init__(self, view: str, dialect: str, catalog: Catalog) -> None:
        self._view, self._dialect, self._catalog = view, dialect, catalog
        self._node = network_of(catalog).nodes[view]
        self._keys = known_of(catalog).keys
        self.step = lru_cache(maxsize=256)(self._step)

    def can_follow(self, said: Iterable[Mapping[str, Sequence[str]]]) -> bool:
        """Whether the statements of some transactions can be followed, one after the other.

        Each reads its own table alone, so that only the order of those about one table matters.
        """
        for texts in said:
            for about in texts.values():
                steps = [self.step(text) for text in about]
                if None in steps or not all(step is not None and step.is_settled for step in steps[:-1]):
                    return False
        return True

    def _step(self, text: str) -> Step | None:
        """The step for a statement; None if there is none."""
        change = bound(text, self._dialect, self._catalog)
        if change is None:
            return None
        refresh = self._refresh(change)
        if refresh is None or len(refresh.stages) != 1:
            return None
        plan, given = refresh.stages[0].plan, dict[str, pa.Table]()
        if isinstance(change, InsertRows):
            rows = delta_tables.weighted(as_table(change.rows, change.table.schema, change.table.name))
            given = given_deltas({change.table.name: delta_tables.net(rows)})
        if not self._is_alone(plan, change) or not is_exact(e for part in walk(plan) for e in expressions_of(part)):
            return None
        return Step(transform(plan, self._held), _is_settled(change), given)

    def _refresh(self, change: Change) -> Refresh | None:
        if isinstance(change, InsertRows):
            found = attempts(self._node, change.table.name, self._keys, frozenset())
            return next((attempt.refresh for attempt in found if _is_certain(attempt)), None)
        statement, is_whole = analysed(change)
        if not is_whole or statement is None:
            return None
        return by_statement(self._node, statement, Known({}, self._keys), frozenset())

    def _is_alone(self, plan: Plan, change: Change) -> bool:
        """Whether the plan reads the view and what the statement says, and nothing else."""
        rows = delta_name(change.table.name) if isinstance(change, InsertRows) else None
        for part in walk(plan):
            match part:
                case Stored(relation=relation) if relation != self._view:
                    return False
                case Given(name=name) if name != rows:
                    return False
        return True

    def _held(self, part: Plan) -> Plan | None:
        return Given(HELD, part.schema) if isinstance(part, Stored) else None


def _is_certain(attempt: Attempt) -> bool:
    return attempt.undecided is None


def _is_settled(change: Change) -> bool:
    if isinstance(change, UpdateRows):
        statement, _ = analysed(change)
        changed = getattr(statement, "changed", frozenset(range(len(change.table.schema))))
        return not any(i in change.table.primary_key or not change.table.schema[i].nullable for i in changed)
    return isinstance(change, DeleteRows)
