"""What rules do in one transaction: considering them after each statement and before the commit, and acting.

    immediate   after each statement, also of an action: the block is what happened since the rule was last considered
    deferred    before the commit, in a check phase: again and again the rule with the highest priority (then the
                oldest) that has instances acts; its block is the transaction, or begins where it acted last

Instances are derived when a rule has its turn, so what another action has made false is not there any more.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Given, Plan, Scan, transform
from tidemark.algebra.types import Schema
from tidemark.database.actions import NO_PROGRAM, Outcome, Program, call, firing
from tidemark.database.detaching import ACTION_STAGE, CONDITION_STAGE, Entry
from tidemark.database.pairing import relation_keys, shortest
from tidemark.database.partial import Partials
from tidemark.database.reading import expanded
from tidemark.database.seeing import Point
from tidemark.engines.reference.arrow import from_bag, to_bag
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.rules.blocks import START, Moment, Span
from tidemark.rules.conditions import became_true, derived_anew, still_true
from tidemark.rules.events import transitions
from tidemark.sql.activerules import DEFERRED, DETACHED, IMMEDIATE, INDEPENDENT, NERVOUS, Activation, Rule
from tidemark.sql.catalog import Catalog, View
from tidemark.sql.changes import Change, DeleteRows, InsertQuery, InsertRows, UpdateRows
from tidemark.sql.rule_statements import Action, Call, DatabaseEvent, Event, Notify, SignalEvent
from tidemark.sql.rules import CONDITION, SIGNAL, SIGNAL_SCHEMA, bind_action, given_name
from tidemark.sql.text import Source

MOST_NESTED: Final = 64
"""How deep actions of immediate rules may set each other off, one inside the other."""


class Changing(Point, Protocol):
    """The transaction that rules act in."""

    def change(self, bound: Change, named: Mapping[str, pa.Table]) -> None: ...
    def keep(self, table: str, delta: pa.Table) -> None: ...


@dataclass(frozen=True)
class Turn:
    """A rule with the instances that it fires for, and the transition relations of its event."""

    activation: Activation
    rows: pa.Table
    given: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def relations(self) -> dict[str, pa.Table]:
        return {**self.given, CONDITION: self.rows}


class Reactions:
    """The rules of one open transaction: where each was last considered, what waits, and what goes out at the end."""

    def __init__(self, transaction: Changing, program: Program = NO_PROGRAM) -> None:
        self._transaction, self._program = transaction, program
        self._marks: dict[str, Moment] = {}
        self._waiting: list[Turn] = []
        self._occurred: list[tuple[Activation, Mapping[str, pa.Table]]] = []
        self._calls, self._id = 0, uuid.uuid4().hex
        self._chain: list[str] = []
        self._owed: Counter[str] = Counter()
        self._nested = 0
        self._keys: tuple[Catalog, RelationKeys] | None = None
        self.partials = Partials(transaction.store)
        self.detached: list[Entry] = []
        self.notices: list[tuple[str, pa.Table]] = []

    @property
    def is_acting(self) -> bool:
        return self._nested > 0

    # When rules are considered

    def activated(self, activation: Activation) -> None:
        """From here on, and not before, the rule is watched."""
        self._marks[activation.name] = self._now()

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
        if not self._nested:
            self._chain = []
        while True:
            now = self._now()
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
        self._chain = []
        # What was found before is no cascade, however much it is.
        self._owed = Counter(turn.activation.name for turn in self._waiting)
        self._owed.update(activation.name for activation, _ in self._occurred)
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
            now = now or self._now()
            turn = self._turn(activation, now)
            if turn is not None:
                self._marks[activation.name] = now
                return turn
        return None

    def _left_over(self, activation: Activation) -> Turn | None:
        """The first turn of a rule that was left for the check phase: an action, or a condition to be asked."""
        for turn in [turn for turn in self._waiting if turn.activation.name == activation.name]:
            self._waiting.remove(turn)
            kept = self.still_true(turn)
            if kept is not None:
                return kept
        for occurred in [one for one in self._occurred if one[0].name == activation.name]:
            self._occurred.remove(occurred)
            found = self.whole(activation, occurred[1])
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
            self.act(turn)

    def _detach(self, turn: Turn, stage: str, due: dt.datetime | None = None) -> None:
        rule, name = self._rule(turn.activation), turn.activation.name
        self.detached.append(Entry.of(rule, name, stage, turn.relations, self._version, due))

    def signal(self, name: str, payload: str) -> bool:
        """An event that the program tells of: whether a rule waits for it."""
        if not self._nested:
            self._chain = []
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
        return self.whole(activation, given)

    def occur(self, activation: Activation, given: Mapping[str, pa.Table]) -> None:
        """An event happened that is none of the database: all instances that are true are the rule's, when it asks."""
        rule = self._rule(activation)
        if not given:
            return
        if rule.is_apart:
            self._dispatch(Turn(activation, self._no_rows(activation), given))
        elif rule.coupling == DEFERRED:
            self._occurred.append((activation, given))
        else:
            turn = self.whole(activation, given)
            if turn is not None:
                self._dispatch(turn)

    def rolled_back(self, committed: Catalog) -> None:
        """Before everything is forgotten: what is independent of the transaction is not, if its rule goes on.

        Where the transaction left a state in which views cannot be derived, what happened to tables is known all the
        same. Of a rule without events nothing is lost then: what it would ask is whether instances are still true.
        """
        known = {activation.name for activation in committed.activations}
        try:
            now, is_derived = self._now(), True
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

    # Instances

    def whole(self, activation: Activation, given: Mapping[str, pa.Table]) -> Turn | None:
        """All instances that are true now."""
        rule = self._rule(activation)
        if not rule.has_condition:
            return Turn(activation, _one_row(rule), given)
        rows = self._span(START, self._now(), given).after(self._readable(activation.condition), {})
        distinct = from_bag(dict.fromkeys(to_bag(rows), 1), activation.condition.schema)
        return Turn(activation, distinct, given) if distinct.num_rows else None

    def _no_rows(self, activation: Activation) -> pa.Table:
        return delta_tables.no_change(activation.condition.schema)

    def _turn(self, activation: Activation, now: Moment) -> Turn | None:
        """The rule's instances over its block, if there are any."""
        rule = self._rule(activation)
        since = self._marks.get(activation.name, START)
        if rule.events and not rule.database_events:
            return None
        if rule.last:
            return self._ended(activation, rule, since, now)
        given = self._happened(rule, rule.database_events, since, now) if rule.events else {}
        if rule.events and not given:
            return None
        span = self._span(since, now, given)
        if rule.events and rule.is_apart:
            return Turn(activation, self._no_rows(activation), given)  # the condition is asked when it runs
        if not rule.has_condition:
            return Turn(activation, _one_row(rule), given)
        if self._is_in_network and not activation.transitions:
            change = now.since(since, activation.node)
        else:
            change = span.change(self._readable(activation.watched))
        if change is None:
            return None
        if rule.semantics == NERVOUS:
            rows = derived_anew(activation.condition.schema, change)
        else:
            rows = became_true(self._readable(activation.condition), rule.identity, change, span)
        return None if rows is None else Turn(activation, rows, given)

    def still_true(self, turn: Turn) -> Turn | None:
        rule = self._rule(turn.activation)
        if not rule.has_condition:
            return turn
        span = self._span(START, self._now(), turn.given)
        rows = still_true(self._readable(turn.activation.condition), rule.identity, turn.rows, span)
        return None if rows is None else replace(turn, rows=rows)

    def _ended(self, activation: Activation, rule: Rule, since: Moment, now: Moment) -> Turn | None:
        """The turn of a rule whose sequence or closure of events came to its end; it is considered then, or not."""
        given = self._progress(activation, rule, since, now)
        if not given:
            return None
        return Turn(activation, self._no_rows(activation), given) if rule.is_apart else self.whole(activation, given)

    def _progress(
        self, activation: Activation, rule: Rule, since: Moment, until: Moment | None = None
    ) -> Mapping[str, pa.Table]:
        """Take a sequence or closure on by the events of the database since it was last looked at; its transition
        relations if that ended it."""
        if not rule.database_events:
            return {}
        self._marks[activation.name] = now = until or self._now()
        first, last = (
            self._happened(rule, tuple(event for event in events if isinstance(event, DatabaseEvent)), since, now)
            for events in (rule.events, rule.last)
        )
        return self.partials.after(activation, rule, first, last)

    def _happened(
        self, rule: Rule, events: tuple[DatabaseEvent, ...], since: Moment, now: Moment
    ) -> dict[str, pa.Table]:
        changes = {}
        for relation in dict.fromkeys(event.relation for event in events):
            delta = self._change_of(relation, since, now)
            if delta is not None:
                changes[relation] = delta
        if not changes:
            return {}
        catalog = self._transaction.catalog
        if self._keys is None or self._keys[0] is not catalog:
            self._keys = (catalog, relation_keys(catalog))
        known = self._keys[1]
        keys = {name: shortest(known[name]) if known[name] else () for name in changes}
        schemas = {name: catalog.relations[name].schema for name in changes}
        return transitions(events, changes, keys, schemas, rule.several, dict(rule.given))

    def _change_of(self, relation: str, since: Moment, now: Moment) -> pa.Table | None:
        """What a block did to a relation. A view that the transaction itself defined is not derived with the others."""
        catalog = self._transaction.catalog
        view = None if self._is_in_network else catalog.get(relation)
        if not isinstance(view, View) or relation in self._transaction.store.stored_of(catalog):
            return now.since(since, relation)
        change = self._span(since, now, {}).change(self._readable(view.plan))
        return change if change.num_rows else None

    def _span(self, since: Moment, now: Moment, given: Mapping[str, pa.Table]) -> Span:
        store, catalog = self._transaction.store, self._transaction.catalog
        stored = store.stored_of(catalog)
        fresh = frozenset(name for name in catalog.relations if name not in stored) if not self._is_in_network else ()
        transitions = {given_name(name): table for name, table in given.items()}
        return Span(since, now, store.reading(catalog), frozenset(fresh), transitions)

    def _readable(self, plan: Plan) -> Plan:
        catalog = self._transaction.catalog
        return plan if self._is_in_network else expanded(plan, catalog, self._transaction.store.stored_of(catalog))

    @property
    def _is_in_network(self) -> bool:
        """Whether conditions are nodes of the network: not in a transaction that has other definitions."""
        return self._transaction.catalog is self._transaction.store.catalog

    def _now(self) -> Moment:
        return Moment(dict(self._transaction.derived_deltas()))

    def _watched(self) -> tuple[Activation, ...]:
        return self._transaction.catalog.activations

    def _rule(self, activation: Activation) -> Rule:
        return self._transaction.catalog.rules[activation.rule]

    @property
    def _version(self) -> int:
        return self._transaction.store.version + 1

    # Actions

    def act(self, turn: Turn, key: str | None = None) -> None:
        """Run a rule's action for all its instances at once. The key of detached work is the same if it is run again;
        otherwise each call has a key that there is only once."""
        activation, rule = turn.activation, self._rule(turn.activation)
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
                        self._transaction.change(self._bound(action, activation), self._named(turn))
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
        self._transaction.keep(*firing(name, self._version, instances, outcome, self._transaction.store.now()))

    def _bound(self, action: Action, activation: Activation) -> Change:
        rule = self._rule(activation)
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

    def _named(self, turn: Turn) -> dict[str, pa.Table]:
        return {given_name(name): table for name, table in turn.relations.items()}

    def _endless(self, why: str) -> TidemarkError:
        chain = self._chain if len(self._chain) <= 12 else [*self._chain[:6], "…", *self._chain[-5:]]
        return TidemarkError(
            "cascade",
            f"rules set each other off without an end: {' → '.join(chain)}",
            hint=f"{why}; DEACTIVATE one of them, or change its condition",
        )


def _has_signal(events: tuple[Event, ...], name: str) -> bool:
    return any(isinstance(event, SignalEvent) and event.name == name for event in events)


def _one_row(rule: Rule) -> pa.Table:
    """What a rule without a condition fires for: the event itself."""
    return pa.table([pa.array([1], pa.int32()), pa.array([1], pa.int64())], schema=rule.schema.weighted)


def _given(plan: Plan, names: set[str]) -> Plan:
    """The plan with the relations that say what happened given to it."""

    def replaced(part: Plan) -> Plan | None:
        if isinstance(part, Scan) and part.relation in names:
            return Given(part.relation, part.schema)
        return None

    return transform(plan, replaced)
