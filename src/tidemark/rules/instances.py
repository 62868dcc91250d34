"""The instances of rules over blocks of an open transaction.

Conditions are nodes of the network, so that what a block did to them is known with what it did to views. A transaction
that has other definitions than what is committed evaluates them instead, and the views that it defined, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Plan, given_name
from tidemark.rules.blocks import (
    START,
    Found,
    Moment,
    Span,
    became_true,
    derived_anew,
    is_any,
    places,
    still_true,
    transitions,
)
from tidemark.sql.bind.rules import CONDITION
from tidemark.sql.catalog.catalog import Catalog, View
from tidemark.sql.catalog.rules import NERVOUS, Activation, Rule
from tidemark.sql.parse.rules import DatabaseEvent
from tidemark.state.course import Act
from tidemark.state.host import Host
from tidemark.state.lives import Happening, happenings, lived
from tidemark.state.pairs import Key, relation_keys, shortest
from tidemark.state.point import expanded
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import Rows, from_bag, to_bag


@dataclass(frozen=True)
class RuleTurn:
    """A rule with the instances that it fires for, and the transition relations of its event."""

    activation: Activation
    rows: pa.Table
    given: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def relations(self) -> dict[str, pa.Table]:
        return {**self.given, CONDITION: self.rows}


class Instances:
    """What blocks of one open transaction did, to relations and to the conditions of rules."""

    def __init__(self, transaction: Host) -> None:
        self._transaction = transaction
        self._keys: tuple[Catalog, RelationKeys] | None = None

    def now(self) -> Moment:
        """This moment of the transaction."""
        wave, place = self._transaction.derived_wave(), self._transaction.course.place
        return Moment({} if wave is None else dict(wave.deltas), place, wave)

    @property
    def catalog(self) -> Catalog:
        return self._transaction.catalog

    def whole(self, activation: Activation, given: Mapping[str, pa.Table]) -> RuleTurn | None:
        """All instances that are true now."""
        rule = self._rule(activation)
        if not rule.has_condition:
            return RuleTurn(activation, _one_row(rule), given)
        rows = self._span(START, self.now(), given).after(self._condition(activation), {})
        distinct = from_bag(dict.fromkeys(to_bag(rows), 1), activation.condition.schema)
        return RuleTurn(activation, distinct, given) if distinct.num_rows else None

    def anew(
        self, activation: Activation, since: Moment, now: Moment, given: Mapping[str, pa.Table]
    ) -> RuleTurn | None:
        """The instances over a block: those that became true in it, or, of a nervous rule, have more derivations."""
        rule, span = self._rule(activation), self._span(since, now, given)
        if not rule.has_condition:
            return RuleTurn(activation, _one_row(rule), given)
        if not activation.is_condition:
            return None  # it is true of nothing that changes
        watched = self._watched(activation)
        if self._is_in_network and not activation.transitions:
            change = now.of_condition_since(since, activation.node, watched)
        else:
            change = span.change(watched) if span.may_add(watched) else None
        if change is None:
            return None
        if rule.semantics == NERVOUS:
            rows = derived_anew(activation.condition.schema, change)
        else:
            rows = became_true(self._condition(activation), rule.identity, change, span)
        return None if rows is None else RuleTurn(activation, rows, given)

    def still_true(self, turn: RuleTurn) -> RuleTurn | None:
        rule = self._rule(turn.activation)
        if not rule.has_condition:
            return turn
        span = self._span(START, self.now(), turn.given)
        rows = still_true(self._condition(turn.activation), rule.identity, turn.rows, span)
        return None if rows is None else replace(turn, rows=rows)

    def happened(
        self, rule: Rule, events: tuple[DatabaseEvent, ...], since: Moment, now: Moment
    ) -> dict[str, pa.Table]:
        """The transition relations of the events that happened in a block; none if none did."""
        found = []
        for relation, wanted in _by_relation(events).items():
            schema = self.catalog.relations[relation].schema
            happened = self._happenings(relation, since, now)
            found += [(relation, one) for one in happened if is_any(wanted, one, schema)]
        return transitions(found, rule.several, dict(rule.given))

    def in_order(self, events: tuple[DatabaseEvent, ...], since: Moment, now: Moment) -> Iterator[tuple[int, Found]]:
        """The events that happened in a block, net, each with its place in the course of the transaction."""
        for relation, wanted in _by_relation(events).items():
            schema = self.catalog.relations[relation].schema
            for one in lived(self._steps(relation, since, now), self._key(relation)):
                found = places(wanted, one, schema)
                if found:
                    yield min(found), (relation, one)

    def _happenings(self, relation: str, since: Moment, now: Moment) -> list[Happening]:
        """What a block did to the rows of a relation. Its net change tells all but which row was given which key."""
        steps = self._transaction.course.between(relation, since.place, now.place)
        if any(step.pairs is not None for step in steps):
            return lived(steps, self._key(relation))
        delta = self.change_of(relation, since, now)
        return [] if delta is None else happenings(delta, self._key(relation))

    def _steps(self, relation: str, since: Moment, now: Moment) -> list[Act]:
        """What a block did to a relation, in order; at its end, if it was no statement that did it."""
        steps = self._transaction.course.between(relation, since.place, now.place)
        delta = None if steps else self.change_of(relation, since, now)
        return steps if delta is None else [Act(now.place, Rows.of(delta))]

    def _key(self, relation: str) -> Key | None:
        catalog = self._transaction.catalog
        if self._keys is None or self._keys[0] is not catalog:
            self._keys = (catalog, relation_keys(catalog))
        known = self._keys[1][relation]
        return shortest(known) if known else None

    def change_of(self, relation: str, since: Moment, now: Moment) -> pa.Table | None:
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

    def _watched(self, activation: Activation) -> Plan:
        """What is followed of a condition, over the states of its groupings."""
        if not self._is_in_network:
            return self._readable(activation.watched)
        return self._transaction.store.network.cut(activation.node)

    def _condition(self, activation: Activation) -> Plan:
        """A condition, over the states of its groupings if just its rows are followed."""
        is_watched = activation.is_condition and activation.watched is activation.condition
        return self._watched(activation) if is_watched else self._readable(activation.condition)

    @property
    def _is_in_network(self) -> bool:
        """Whether conditions are nodes of the network: not in a transaction that has other definitions."""
        return self._transaction.catalog is self._transaction.store.catalog

    def _rule(self, activation: Activation) -> Rule:
        return self._transaction.catalog.rules[activation.rule]


def _by_relation(events: Iterable[DatabaseEvent]) -> dict[str, list[DatabaseEvent]]:
    found: dict[str, list[DatabaseEvent]] = {}
    for event in events:
        found.setdefault(event.relation, []).append(event)
    return found


def no_rows(activation: Activation) -> pa.Table:
    return delta_tables.no_change(activation.condition.schema)


def _one_row(rule: Rule) -> pa.Table:
    """What a rule without a condition fires for: the event itself."""
    return pa.table([pa.array([1], pa.int32()), pa.array([1], pa.int64())], schema=rule.schema.weighted)
