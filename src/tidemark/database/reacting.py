"""When rules of one transaction have their turn: after each statement, and before the commit.

    immediate   after each statement, also of an action: the block is what happened since the rule was last considered
    deferred    before the commit, in a check phase: again and again the rule with the highest priority (then the
                oldest) that has instances acts; its block is the transaction, or begins where it acted last

Instances are derived when a rule has its turn, so what another action has made false is not there any more.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.types import Schema
from tidemark.database.acting import Acting, Changing
from tidemark.database.actions import Program
from tidemark.database.detaching import ACTION_STAGE, CONDITION_STAGE, Entry
from tidemark.database.instances import Instances, Turn, no_rows
from tidemark.database.partial import Partials
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.rules.blocks import START, Moment
from tidemark.sql.activerules import DEFERRED, DETACHED, IMMEDIATE, INDEPENDENT, Activation, Rule
from tidemark.sql.catalog import Catalog
from tidemark.sql.rule_statements import DatabaseEvent, Event, SignalEvent
from tidemark.sql.rules import SIGNAL, SIGNAL_SCHEMA


class Reactions:
    """The rules of one open transaction: where each was last considered, what waits, and what is to be done apart."""

    def __init__(self, transaction: Changing, program: Program) -> None:
        self._transaction = transaction
        self.instances, self.acting = Instances(transaction), Acting(transaction, program)
        self._marks: dict[str, Moment] = {}
        self._waiting: list[Turn] = []
        self._occurred: list[tuple[Activation, Mapping[str, pa.Table]]] = []
        self.partials = Partials(transaction.store)
        self.detached: list[Entry] = []

    # When rules are considered

    def activated(self, activation: Activation) -> None:
        """From here on, and not before, the rule is watched."""
        self._marks[activation.name] = self.instances.now()

    def deactivated(self, activation: Activation) -> None:
        """What this transaction left for the rule to do is not done, and what has begun is over."""
        self._waiting = [turn for turn in self._waiting if turn.activation.name != activation.name]
        self._occurred = [one for one in self._occurred if one[0].name != activation.name]
        self.partials.forget(activation.name)

    def altered(self, table: str, schema: Schema, added: Sequence[Value]) -> None:
        """The table has more columns now, so what happened to it before has them, too."""
        for name, moment in self._marks.items():
            if table in moment.deltas:
                delta = delta_tables.extended(moment.deltas[table], schema, added)
                self._marks[name] = Moment({**moment.deltas, table: delta})

    def after_statement(self) -> None:
        """Consider the immediate rules, after a statement of the program or of an action."""
        if not any(self._rule(a).coupling == IMMEDIATE for a in self._watched()):
            return
        self.acting.begin()
        while True:
            now = self.instances.now()
            turn = None
            for activation in self._watched():
                if self._rule(activation).coupling != IMMEDIATE:
                    continue
                turn = self._turn(activation, now)
                self._marks[activation.name] = now
                if turn is not None:
                    break
            if turn is None:
                return
            self._dispatch(turn)

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

    def _next_deferred(self) -> Turn | None:
        now: Moment | None = None
        for activation in self._watched():
            left = self._left_over(activation) if self._waiting or self._occurred else None
            if left is not None:
                return left
            rule = self._rule(activation)
            if rule.coupling == IMMEDIATE:
                continue
            now = now or self.instances.now()
            turn = self._turn(activation, now)
            if turn is not None:
                self._marks[activation.name] = now
                return turn
        return None

    def _left_over(self, activation: Activation) -> Turn | None:
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

    def _dispatch(self, turn: Turn, *, is_checking: bool = False) -> None:
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

    def _detach(self, turn: Turn, stage: str, due: dt.datetime | None = None) -> None:
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
        waiting = [a for a in self._watched() if name in self._rule(a).signals]
        for activation in waiting:
            rule = self._rule(activation)
            nothing = {relation: delta_tables.no_change(schema) for relation, schema in rule.given}
            given: Mapping[str, pa.Table] = {**nothing, SIGNAL: row}
            if rule.last:
                # What happened in the database before the signal comes before it in the sequence, too.
                self.occur(activation, self._progress(activation, rule, self._marks.get(activation.name, START)))
                begins, ends = (_has_signal(events, name) for events in (rule.events, rule.last))
                given = self.partials.after(activation, rule, given if begins else {}, given if ends else {})
            self.occur(activation, given)
        return bool(waiting)

    def timed(self, activation: Activation, event: str, given: Mapping[str, pa.Table]) -> Turn | None:
        """The turn of a rule whose time has come: by itself, or as what begins or ends a sequence or closure."""
        rule = self._rule(activation)
        if rule.last:
            begins, ends = (any(str(one) == event for one in events) for events in (rule.events, rule.last))
            given = self.partials.after(activation, rule, given if begins else {}, given if ends else {})
            if not given:
                return None
        return self.instances.whole(activation, given)

    def occur(self, activation: Activation, given: Mapping[str, pa.Table]) -> None:
        """An event happened that is none of the database: all instances that are true are the rule's, when it asks."""
        rule = self._rule(activation)
        if not given:
            return
        if rule.is_apart:
            self._dispatch(Turn(activation, no_rows(activation), given))
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
            now, is_derived = Moment(dict(self._transaction.pending)), False
        tables = {table.name for table in self._transaction.catalog.tables}
        for activation in self._watched():
            rule = self._rule(activation)
            if rule.coupling != INDEPENDENT or activation.name not in known:
                continue
            if is_derived or (rule.events and rule.event_relations <= tables):
                turn = self._turn(activation, now)
                if turn is not None:
                    self._dispatch(turn)

    # Turns

    def _turn(self, activation: Activation, now: Moment) -> Turn | None:
        """The rule's instances over its block, if there are any."""
        rule = self._rule(activation)
        since = self._marks.get(activation.name, START)
        if rule.events and not rule.database_events:
            return None
        if rule.last:
            return self._ended(activation, rule, since, now)
        given = self.instances.happened(rule, rule.database_events, since, now) if rule.events else {}
        if rule.events and not given:
            return None
        if rule.events and rule.is_apart:
            return Turn(activation, no_rows(activation), given)  # the condition is asked when it runs
        return self.instances.anew(activation, since, now, given)

    def _ended(self, activation: Activation, rule: Rule, since: Moment, now: Moment) -> Turn | None:
        """The turn of a rule whose sequence or closure of events came to its end; it is considered then, or not."""
        given = self._progress(activation, rule, since, now)
        if not given:
            return None
        return (
            Turn(activation, no_rows(activation), given) if rule.is_apart else self.instances.whole(activation, given)
        )

    def _progress(
        self, activation: Activation, rule: Rule, since: Moment, until: Moment | None = None
    ) -> Mapping[str, pa.Table]:
        """Take a sequence or closure on by the events of the database since it was last looked at; its transition
        relations if that ended it."""
        if not rule.database_events:
            return {}
        self._marks[activation.name] = now = until or self.instances.now()
        first, last = (
            self.instances.happened(
                rule, tuple(event for event in events if isinstance(event, DatabaseEvent)), since, now
            )
            for events in (rule.events, rule.last)
        )
        return self.partials.after(activation, rule, first, last)

    def _watched(self) -> tuple[Activation, ...]:
        return self._transaction.catalog.activations

    def _rule(self, activation: Activation) -> Rule:
        return self._transaction.catalog.rules[activation.rule]


def _has_signal(events: tuple[Event, ...], name: str) -> bool:
    return any(isinstance(event, SignalEvent) and event.name == name for event in events)
