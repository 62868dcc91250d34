"""Running the actions of rules inside an open transaction, and what keeps them from setting each other off for ever."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

import pyarrow as pa

from tidemark.algebra.plans import Given, Plan, Scan, transform
from tidemark.database.actions import Outcome, Program, call, firing
from tidemark.database.instances import Turn
from tidemark.database.seeing import Point
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.sql.activerules import Activation
from tidemark.sql.changes import Change, DeleteRows, InsertQuery, InsertRows, UpdateRows
from tidemark.sql.rule_statements import Action, Call, Notify
from tidemark.sql.rules import CONDITION, bind_action, given_name
from tidemark.sql.text import Source

MOST_NESTED: Final = 64
"""How deep actions of immediate rules may set each other off, one inside the other."""


class Changing(Point, Protocol):
    """The transaction that rules act in."""

    def change(self, bound: Change, named: Mapping[str, pa.Table]) -> None: ...
    def keep(self, table: str, delta: pa.Table) -> None: ...


class Acting:
    """The actions of one open transaction: how deep they stand in one another, and what goes out at the end."""

    def __init__(self, transaction: Changing, program: Program) -> None:
        self._transaction, self._program = transaction, program
        self._calls, self._id = 0, uuid.uuid4().hex
        self._chain: list[str] = []
        self._owed = Counter[str]()
        self._nested = 0
        self.notices: list[tuple[str, pa.Table]] = []

    @property
    def is_nested(self) -> bool:
        """Whether this happens inside an action."""
        return self._nested > 0

    def begin(self, owed: Counter[str] | None = None) -> None:
        """What happens from here on is not set off by what was done before, unless it happens inside an action.

        A rule may act as often more as it is ``owed``."""
        if not self._nested:
            self._chain = []
        if owed is not None:
            self._owed = owed

    def act(self, turn: Turn, key: str | None = None) -> None:
        """Run a rule's action for all its instances at once. The key of detached work is the same if it is run again;
        otherwise each call has a key that there is only once."""
        activation, rule = turn.activation, self._transaction.catalog.rules[turn.activation.rule]
        self._chain.append(activation.name)
        if self._chain.count(activation.name) > rule.cascade_limit + self._owed[activation.name]:
            raise self._endless(f"{rule.name!r} may fire {rule.cascade_limit} times in a transaction (cascade_limit)")
        if self._nested >= MOST_NESTED:
            raise self._endless(f"actions of immediate rules stand at most {MOST_NESTED} deep inside one another")
        self._nested += 1
        try:
            for place, action in enumerate(activation.actions):
                match action:
                    case Call(name=name):
                        self._calls += 1
                        which = f"{self._id}:{self._calls}" if key is None else f"{key}:{place}"
                        outsiders = self._transaction.store.outsiders
                        call(self._program, name, turn.rows, f"{activation.name}:{which}", rule.timeout, outsiders)
                    case Notify(channel=channel):
                        self.notices.append((channel, delta_tables.expand(turn.rows)))
                    case _:
                        self._transaction.change(self._bound(action, activation), _named(turn))
        except TidemarkError as error:
            if error.code == "cascade":  # it has the chain
                raise
            raise TidemarkError(
                error.code, f"the action of the rule {activation.name!r} failed: {error.message}", hint=error.hint
            ) from error
        finally:
            self._nested -= 1
        self.record(activation.name, turn.rows.num_rows, Outcome.DONE)

    def record(self, name: str, instances: int, outcome: str) -> None:
        """Note a firing; it becomes true with the transaction."""
        self._transaction.keep(
            *firing(name, self._transaction.store.version + 1, instances, outcome, self._transaction.store.now())
        )

    def _bound(self, action: Action, activation: Activation) -> Change:
        rule = self._transaction.catalog.rules[activation.rule]
        source = Source(rule.text, rule.dialect, self._transaction.store.now())
        catalog = self._transaction.catalog
        bound = bind_action(action, catalog, dict(rule.given), activation.condition.schema, source)
        names = {given_name(name) for name in (CONDITION, *(name for name, _ in rule.given))}
        match bound:
            case InsertQuery(plan=plan) | DeleteRows(plan=plan):
                return replace(bound, plan=_given(plan, names))
            case UpdateRows(plan=plan, coming=coming):
                return replace(bound, plan=_given(plan, names), coming=_given(coming, names))
        assert isinstance(bound, InsertRows)
        return bound

    def _endless(self, why: str) -> TidemarkError:
        chain = self._chain if len(self._chain) <= 12 else [*self._chain[:6], "…", *self._chain[-5:]]
        return TidemarkError(
            "cascade",
            f"rules set each other off without an end: {' → '.join(chain)}",
            hint=f"{why}; DEACTIVATE one of them, or change its condition",
        )


def _named(turn: Turn) -> dict[str, pa.Table]:
    return {given_name(name): table for name, table in turn.relations.items()}


def _given(plan: Plan, names: set[str]) -> Plan:
    """The plan with the relations that say what happened given to it."""

    def replaced(part: Plan) -> Plan | None:
        if isinstance(part, Scan) and part.relation in names:
            return Given(part.relation, part.schema)
        return None

    return transform(plan, replaced)
