"""When rules of one transaction have their turn: after each statement, and before the commit.

    immediate   after each statement, also of an action: the block is what happened since the rule was last considered
    deferred    before the commit, in a check phase: again and again the rule with the highest priority (then the
                oldest) that has instances acts; its block is the transaction, or begins where it acted last

Instances are derived when a rule has its turn, so what another action has made false is not there any more.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import Schema
from tidemark.errors import TidemarkError
from tidemark.rules.actions import Acting, HostProgram
from tidemark.rules.blocks import START, Moment
from tidemark.rules.detached import ACTION_STAGE, CONDITION_STAGE, Entry
from tidemark.rules.instances import Instances, RuleTurn, no_rows
from tidemark.rules.sequences import Sequences
from tidemark.sql.bind.rules import SIGNAL, SIGNAL_SCHEMA
from tidemark.sql.catalog.catalog import Catalog
from tidemark.sql.catalog.rules import DEFERRED, DETACHED, IMMEDIATE, INDEPENDENT, Activation, Rule
from tidemark.sql.parse.rules import Event, SignalEvent
from tidemark.state.host import Host
from tidemark.storage import delta as delta_tables


class Reactions:
    """The rules of one open transaction: where each was last considered, what waits, and what is to be done apart."""

    def __init__(self, transaction: Host, program: HostProgram) -> None:
        self._transaction = transaction
        self.instances, self.acting = Instances(transaction), Acting(transaction, program)
        self._marks: dict[str, Moment] = {}
        self._waiting: list[RuleTurn] = []
        self._occurred: list[tuple[Activation, Mapping[str, pa.Table]]] = []
        self.sequences = Sequences(transaction.course, transaction.store, self.instances)
        self.detached: list[Entry] = []

    # When rules are considered

    def activated(self, activation: Activation) -> None:
        """From here on, and not before, the rule is watched."""
        self._marks[activation.name] = now = self.instances.now()
        self.sequences.begin(self._rule(activation), now)

    def deactivated(self, activation: Activation) -> None:
        """What this transaction left for the rule to do is not done, and what has begun is over."""
        self._waiting = [turn for turn in self._waiting if turn.activation.name != activation.name]
        self._occurred = [one for one in self._occurred if one[0].name != activation.name]
        self.sequences.forget(activation.name)

    def altered(self, table: str, schema: Schema, added: Sequence[Value]) -> None:
        """The table has more columns now, so what happened to it before has them, too."""
        for name, moment in self._marks.items():
            if table in moment.deltas:
                delta = delta_tables.extended(moment.deltas[table], schema, added)
                self._marks[name] = replace(moment, deltas={**moment.deltas, table: delta})
        self.sequences.altered(table, schema, added)

    def follow(self) -> None:
        """Note, after a statement on a table below them, what it did to views of which the order of events matters."""
        catalog = self._transaction.catalog
        try:
            now = self.instances.now()
        except TidemarkError:
            return  # it may leave a state, for a while, in which a view has no value: it is looked at after the next
        self.sequences.follow(catalog.views_in_sequences, now)

    def after_statement(self) -> None:
        """Consider the immediate rules, after a statement of the program or of an action."""
        if not self._transaction.catalog.has_immediate:
            return
        self.acting.begin()
        while True:
            now = self.instances.now()
            immediate = (one for one in self._watched() if self._rule(one).coupling == IMMEDIATE)
            if not any(self._consider(activation, now) for activation in immediate):
                return

    def _consider(self, activation: Activation, now: Moment) -> bool:
        """Consider an immediate rule: whether it had something to do, so that others may have, too."""
        if self._rule(activation).last:
            ended = self._ended(activation, now)
            for given in ended:
                self.occur(activation, given)
            return bool(ended)
        turn = self._turn(activation, now)
        self._marks[activation.name] = now
        if turn is not None:
            self._dispatch(turn)
        return turn is not None

    def check(self) -> None:
        """The check phase: let deferred rules act until none has instances.

        Before it, immediate rules see what no statement did: that time has passed, or that a view means something else.
        """
        self.after_statement()
        # What was found before is no cascade, however much it is.
        owed = Counter(turn.activation.name for turn in self._waiting)
        owed.update(activation.name for activation, _ in self._occurred)
        self.acting.begin(owed)
        while True:
            turn = self._next_deferred()
            if turn is None:
                return
            self._dispatch(turn, is_checking=True)

    def _next_deferred(self) -> RuleTurn | None:
        now: Moment | None = None
        for activation in self._concerned():
            rule = self._rule(activation)
            if rule.last and rule.coupling != IMMEDIATE:
                now = now or self.instances.now()
                ended = self._ended(activation, now)
                self.acting.owe(activation.name, len(ended) - 1)  # those of one block are no cascade
                for given in ended:
                    self.occur(activation, given)
            left = self._left_over(activation) if self._waiting or self._occurred else None
            if left is not None:
                return left
            if rule.last or rule.coupling == IMMEDIATE:
                continue
            now = now or self.instances.now()
            turn = self._turn(activation, now)
            if turn is not None:
                self._marks[activation.name] = now
                return turn
        return None

    def _concerned(self) -> Iterable[Activation]:
        """Whom to look at before the commit: all, but for those who only have a condition that nothing has reached."""
        catalog, watched = self._transaction.catalog, self._watched()
        is_derived = catalog is self._transaction.store.catalog and not (self._waiting or self._occurred or self._marks)
        if not is_derived or not catalog.conditions:
            return watched
        wave = self.instances.now().wave
        reached = set() if wave is None else {*wave.rows, *wave.waiting} & catalog.conditions.keys()
        return [
            watched[place]
            for place in sorted([*catalog.beside_conditions, *(catalog.conditions[node] for node in reached)])
        ]

    def _left_over(self, activation: Activation) -> RuleTurn | None:
        """The first turn of a rule that was left for the check phase: an action, or a condition to be asked."""
        for turn in [turn for turn in self._waiting if turn.activation.name == activation.name]:
            self._waiting.remove(turn)
            kept = self.instances.still_true(turn)
            if kept is not None:
                return kept
        for occurred in [one for one in self._occurred if one[0].name == activation.name]:
            self._occurred.remove(occurred)
            found = self.instances.whole(activation, occurred[1])
            if found is not None:
                return found
        return None

    def _dispatch(self, turn: RuleTurn, *, is_checking: bool = False) -> None:
        """Act now, at the end of the transaction, or apart from it."""
        rule = self._rule(turn.activation)
        if rule.is_apart:
            due = None if rule.delay is None else self._transaction.store.now() + rule.delay
            self._detach(turn, CONDITION_STAGE, due)
        elif rule.action_coupling in (DETACHED, INDEPENDENT):
            self._detach(turn, ACTION_STAGE)
        elif rule.action_coupling == DEFERRED and not is_checking:
            self._waiting.append(turn)
        else:
            self.acting.act(turn)

    def _detach(self, turn: RuleTurn, stage: str, due: dt.datetime | None = None) -> None:
        rule, name = self._rule(turn.activation), turn.activation.name
        self.detached.append(Entry.of(rule, name, stage, turn.relations, self._transaction.store.version + 1, due))

    def signal(self, name: str, payload: str) -> bool:
        """An event that the program tells of: whether a rule waits for it."""
        self.acting.begin()
        time = self._transaction.store.now()
        columns = [
            pa.array([name]),
            pa.array([payload]),
            pa.array([time], pa.timestamp("us")),
            pa.array([1], pa.int64()),
        ]
        row = pa.Table.from_arrays(columns, schema=SIGNAL_SCHEMA.weighted)
        self._transaction.course.advance()
        waiting = [a for a in self._watched() if name in self._rule(a).signals]
        for activation in waiting:
            rule = self._rule(activation)
            nothing = {relation: delta_tables.no_change(schema) for relation, schema in rule.given}
            given: Mapping[str, pa.Table] = {**nothing, SIGNAL: row}
            if rule.last:
                begins, ends = (_has_signal(events, name) for events in (rule.events, rule.last))
                self.sequences.signalled(activation, given if begins else {}, given if ends else {})
                if rule.coupling == IMMEDIATE:
                    self._consider(activation, self.instances.now())
            else:
                self.occur(activation, given)
        return bool(waiting)

    def timed(self, activation: Activation, event: str, given: Mapping[str, pa.Table]) -> RuleTurn | None:
        """The turn of a rule whose time has come: by itself, or as what begins or ends a sequence or closure."""
        rule = self._rule(activation)
        if rule.last:
            begins, ends = (any(str(one) == event for one in events) for events in (rule.events, rule.last))
            given = self.sequences.partials.after(activation, rule, given if begins else {}, given if ends else {})
            if not given:
                return None
        return self.instances.whole(activation, given)

    def occur(self, activation: Activation, given: Mapping[str, pa.Table]) -> None:
        """An event happened that is none of the database: all instances that are true are the rule's, when it asks."""
        rule = self._rule(activation)
        if not given:
            return
        if rule.is_apart:
            self._dispatch(RuleTurn(activation, no_rows(activation), given))
        elif rule.coupling == DEFERRED:
            self._occurred.append((activation, given))
        else:
            turn = self.instances.whole(activation, given)
            if turn is not None:
                self._dispatch(turn)

    def rolled_back(self, committed: Catalog) -> None:
        """Before everything is forgotten: what is independent of the transaction is not, if its rule goes on.

        Where the transaction left a state in which views cannot be derived, what happened to tables is known all the
        same. Of a rule without events nothing is lost then: what it would ask is whether instances are still true.
        """
        known = {activation.name for activation in committed.activations}
        try:
            now, is_derived = self.instances.now(), True
        except TidemarkError:
            now, is_derived = Moment(dict(self._transaction.pending), self._transaction.course.place), False
        tables = {table.name for table in self._transaction.catalog.tables}
        for activation in self._watched():
            rule = self._rule(activation)
            if rule.coupling != INDEPENDENT or activation.name not in known:
                continue
            if is_derived or (rule.events and rule.event_relations <= tables):
                for given in self._ended(activation, now) if rule.last else ():
                    self.occur(activation, given)
                turn = None if rule.last else self._turn_if_derived(activation, now)
                if turn is not None:
                    self._dispatch(turn)

    def _turn_if_derived(self, activation: Activation, now: Moment) -> RuleTurn | None:
        """The turn of a rule, none if its condition has no value in the state that the transaction left."""
        try:
            return self._turn(activation, now)
        except TidemarkError:
            return None

    # Turns

    def _turn(self, activation: Activation, now: Moment) -> RuleTurn | None:
        """The rule's instances over its block, if there are any."""
        rule = self._rule(activation)
        since = self._marks.get(activation.name, START)
        if rule.events and not rule.database_events:
            return None
        given = self.instances.happened(rule, rule.database_events, since, now) if rule.events else {}
        if rule.events and not given:
            return None
        if rule.events and rule.is_apart:
            return RuleTurn(activation, no_rows(activation), given)  # the condition is asked when it runs
        return self.instances.anew(activation, since, now, given)

    def _ended(self, activation: Activation, now: Moment) -> list[Mapping[str, pa.Table]]:
        """Take a sequence or closure on by what happened since it was last looked at; the transition relations of
        each time that this ended it."""
        since, self._marks[activation.name] = self._marks.get(activation.name, START), now
        return self.sequences.ended(activation, self._rule(activation), since, now)

    def _watched(self) -> tuple[Activation, ...]:
        return self._transaction.catalog.activations

    def _rule(self, activation: Activation) -> Rule:
        return self._transaction.catalog.rules[activation.rule]


class Reacting(Host, Protocol):
    """An open transaction, with what rules make of it."""

    @property
    def reactions(self) -> Reactions: ...


def _has_signal(events: tuple[Event, ...], name: str) -> bool:
    return any(isinstance(event, SignalEvent) and event.name == name for event in events)
