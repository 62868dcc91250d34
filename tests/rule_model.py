"""Rules in plain Python, over whole states: what a transaction must do, from first principles.

A block is a pair of states, an instance became true if it is in the second and not in the first, and an action is a
function of the state. Nothing here is incremental, and nothing is shared with what is tested.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]
Bag = Counter[Row]
State = dict[str, Bag]
Delta = tuple[str, Bag]
Ids = dict[str, dict[Row, int]]
LIMIT = 6
"""So often a rule may fire in one check phase."""


class Refused(Exception):
    """The transaction is rolled back."""


@dataclass(frozen=True)
class Condition:
    """A query, its columns, its rows, and its rows with what tells their derivations apart (if that is known)."""

    sql: str
    names: tuple[str, ...]
    rows: Callable[[State], Bag]
    derivations: Callable[[State], Bag] | None = None


@dataclass(frozen=True)
class Action:
    """A statement over ``condition``, and what it does to a state for the rows of it."""

    sql: str
    delta: Callable[[State, set[Row]], Delta]


@dataclass(frozen=True)
class ModelRule:
    name: str
    condition: Condition
    each: tuple[str, ...]
    actions: tuple[Action, ...]
    is_nervous: bool = False
    coupling: str = "deferred"
    action_coupling: str = "deferred"
    priority: int = 0
    events: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        events = f"ON {' OR '.join(f'{kind} ON {table}' for kind, table in self.events)}" if self.events else ""
        each = f"FOR EACH ({', '.join(self.each)})" if self.each else ""
        actions = "; ".join(action.sql for action in self.actions)
        return f"""CREATE RULE {self.name} {events} {each} WHEN {self.condition.sql} DO BEGIN {actions}; END WITH (
            coupling = '{self.coupling}', action_coupling = '{self.action_coupling}', priority = {self.priority},
            semantics = '{"nervous" if self.is_nervous else "strict"}', cascade_limit = {LIMIT}, retries = 0)"""

    def instance(self, row: Row) -> Row:
        return tuple(row[self.condition.names.index(name)] for name in self.each or self.condition.names)

    def became_true(self, before: State, now: State) -> set[Row]:
        if self.is_nervous:
            assert self.condition.derivations is not None
            added = Counter(self.condition.derivations(now))
            added.subtract(self.condition.derivations(before))
            return {row[: len(self.condition.names)] for row, weight in added.items() if weight > 0}
        known = {self.instance(row) for row in +self.condition.rows(before)}
        return {row for row in +self.condition.rows(now) if self.instance(row) not in known}

    def still_true(self, rows: set[Row], now: State) -> set[Row]:
        wanted = {self.instance(row) for row in rows}
        return {row for row in +self.condition.rows(now) if self.instance(row) in wanted}


@dataclass
class Model:
    """A database: ``keys`` has the tables with a primary key, which is their first column."""

    state: State
    keys: frozenset[str]
    rules: list[ModelRule] = field(default_factory=list)
    active: set[str] = field(default_factory=set)
    queue: list[tuple[ModelRule, str, set[Row]]] = field(default_factory=list)

    @property
    def watched(self) -> list[ModelRule]:
        return [rule for rule in sorted(self.rules, key=lambda rule: -rule.priority) if rule.name in self.active]

    def run_detached(self) -> Counter[tuple[str, object]]:
        """Do what is queued; the firings, and what failed."""
        fired: Counter[tuple[str, object]] = Counter()
        while self.queue:
            rule, stage, rows = self.queue.pop(0)
            transaction = ModelTransaction(self)
            try:
                if stage == "condition":
                    rows = rule.still_true(rows, transaction.state)
                if rows and stage == "condition" and rule.action_coupling == "detached":
                    transaction.queue.append((rule, "action", rows))
                elif rows:
                    transaction.act(rule, rows)
                transaction.commit()
                fired += transaction.fired
            except Refused:
                fired[rule.name, "dead"] += 1
        return fired


class ModelTransaction:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.start, self.state = copy.deepcopy(model.state), copy.deepcopy(model.state)
        self.ids: Ids = {t: {row: n for n, row in enumerate(self.state[t])} for t in model.keys}
        """Of tables with a key, which row is which."""
        self.start_ids, self._made = copy.deepcopy(self.ids), 10**6
        self.marks: dict[str, tuple[State, Ids]] = {}
        self.waiting: list[tuple[ModelRule, set[Row]]] = []
        self.queue: list[tuple[ModelRule, str, set[Row]]] = []
        self.fired: Counter[tuple[str, object]] = Counter()
        self._chain: list[str] = []
        self._owed: Counter[str] = Counter()
        self._depth = 0

    def change(self, delta: Delta) -> None:
        """A statement, and the immediate rules after it."""
        table, changes = delta
        after = Counter(self.state[table])
        after.update(changes)
        assert all(weight >= 0 for weight in after.values())
        if table in self.model.keys:
            self._identify(table, changes)
        self.state[table] = +after
        self._consider_immediate()

    def activate(self, rule: ModelRule) -> None:
        self.model.active.add(rule.name)
        self.marks[rule.name] = copy.deepcopy((self.state, self.ids))

    def _identify(self, table: str, changes: Bag) -> None:
        """A row that a statement updated is the same row. No statement deletes and inserts: if one row leaves and one
        with another key comes, it was given that key."""
        ids = self.ids[table]
        gone = {row[0]: ids.pop(row) for row, weight in changes.items() if weight < 0}
        come = [row for row, weight in changes.items() if weight > 0]
        for row in come:
            known = gone.pop(row[0], None)
            if known is None and len(come) == 1 and gone:
                known = gone.popitem()[1]
            self._made += 1
            ids[row] = self._made if known is None else known

    def deactivate(self, rule: ModelRule) -> None:
        self.model.active.discard(rule.name)
        self.waiting = [one for one in self.waiting if one[0] is not rule]

    def commit(self) -> None:
        self._check()
        for table in self.model.keys:
            keys = Counter(row[0] for row in self.state[table].elements())
            if any(count > 1 for count in keys.values()):
                raise Refused
        self.model.state = self.state
        self.model.queue += self.queue

    def _turn(self, rule: ModelRule) -> set[Row]:
        since, ids = self.marks.get(rule.name, (self.start, self.start_ids))
        if rule.events and not any(self._happened(kind, table, since, ids) for kind, table in rule.events):
            return set()
        return rule.became_true(since, self.state)

    def _happened(self, kind: str, table: str, since: Mapping[str, Bag], ids: Ids) -> bool:
        if table not in self.model.keys:
            delta = Counter(self.state[table])
            delta.subtract(since[table])
            return any(weight > 0 if kind == "INSERT" else weight < 0 for weight in delta.values())
        before, after = ({n: row for row, n in known[table].items()} for known in (ids, self.ids))
        pairs = [(before[n], after[n]) for n in before.keys() & after.keys()]
        gone = {row[0]: row for n, row in before.items() if n not in after}
        come = {row[0]: row for n, row in after.items() if n not in before}
        pairs += [(gone.pop(key), come.pop(key)) for key in gone.keys() & come.keys()]
        if kind == "UPDATE":
            return any(old != new for old, new in pairs)
        return bool(come if kind == "INSERT" else gone)

    def _consider_immediate(self) -> None:
        if not self._depth:
            self._chain = []
        while True:
            now, found = copy.deepcopy((self.state, self.ids)), None
            for rule in self.model.watched:
                if rule.coupling == "immediate":
                    rows = self._turn(rule)
                    self.marks[rule.name] = now
                    if rows:
                        found = (rule, rows)
                        break
            if found is None:
                return
            self._dispatch(*found)

    def _check(self) -> None:
        self._chain, self._owed = [], Counter(rule.name for rule, _ in self.waiting)
        while (found := self._next_deferred()) is not None:
            self._dispatch(*found, is_checking=True)

    def _next_deferred(self) -> tuple[ModelRule, set[Row]] | None:
        for rule in self.model.watched:
            for one in [one for one in self.waiting if one[0] is rule]:
                self.waiting.remove(one)
                kept = rule.still_true(one[1], self.state)
                if kept:
                    return rule, kept
            if rule.coupling != "immediate":
                now, rows = copy.deepcopy((self.state, self.ids)), self._turn(rule)
                if rows:
                    self.marks[rule.name] = now
                    return rule, rows
        return None

    def _dispatch(self, rule: ModelRule, rows: set[Row], *, is_checking: bool = False) -> None:
        if rule.coupling == "detached":
            self.queue.append((rule, "condition", rows))
        elif rule.action_coupling == "detached":
            self.queue.append((rule, "action", rows))
        elif rule.action_coupling == "deferred" and not is_checking:
            self.waiting.append((rule, rows))
        else:
            self.act(rule, rows)

    def act(self, rule: ModelRule, rows: set[Row]) -> None:
        self._chain.append(rule.name)
        if self._chain.count(rule.name) > LIMIT + self._owed[rule.name]:
            raise Refused
        self._depth += 1
        try:
            for action in rule.actions:
                self.change(action.delta(self.state, rows))
        finally:
            self._depth -= 1
        self.fired[rule.name, len(rows)] += 1
