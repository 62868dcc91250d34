"""Running what rules have detached: each entry in a transaction of its own, until nothing is due.

An entry that fails is tried again later, ever later; in the end it is a dead letter, for people to look at and replay.

What is left to do for rules when a transaction has ended: call listeners of NOTIFY, and run what was detached.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from tidemark.algebra.text import show_value
from tidemark.errors import TidemarkError
from tidemark.rules.actions import FiringOutcome, HostProgram
from tidemark.rules.catalog import arguments_in
from tidemark.rules.coupling import Reacting
from tidemark.rules.detached import (
    ACTION_STAGE,
    CONDITION_STAGE,
    DEAD,
    DETACHED_TABLE,
    TIMER_STAGE,
    WAITING,
    Entry,
    in_order,
    queued,
)
from tidemark.rules.instances import RuleTurn
from tidemark.sql.bind.rules import CONDITION, span_of
from tidemark.sql.catalog.rules import DETACHED, INDEPENDENT, Activation, Rule
from tidemark.sql.parse.text import Source
from tidemark.state.events import Action, Ended
from tidemark.state.records import activation
from tidemark.state.state import Store
from tidemark.storage import delta as delta_tables

MOST_AT_ONCE: Final = 10_000
"""Entries may ask for further ones; so many are run before control goes back."""


def run_due(store: Store, begin: Callable[[], Reacting], *, is_timed: bool = False) -> int:
    """Run the entries whose time has come, and those that they ask for; how many were run.

    ``is_timed`` leaves out those that wait for no time: what a crash left behind may need functions that the program
    has not registered yet.
    """
    done = 0
    while done < MOST_AT_ONCE:
        now = store.now()
        waiting = (entry for entry in queued(store) if entry.state == WAITING)
        due = [entry for entry in waiting if _is_due(entry, now, is_timed=is_timed)]
        if not due:
            break
        for entry in in_order(due):  # those that they ask for are of later versions
            _run(entry, store, begin)
        done += len(due)
    return done


def next_due(store: Store) -> dt.datetime | None:
    """When the next entry of the queue is due that waits for a time."""
    times = (entry.due for entry in queued(store) if entry.state == WAITING and entry.due is not None)
    return min(times, default=None)


def _is_due(entry: Entry, now: dt.datetime, *, is_timed: bool) -> bool:
    return not is_timed if entry.due is None else entry.due <= now


def _run(entry: Entry, store: Store, begin: Callable[[], Reacting]) -> None:
    rule = store.catalog.rules.get(entry.rule_name)
    if rule is None or (entry.stage == TIMER_STAGE and not _is_watched(entry, rule)):
        _replace(begin(), entry, None)
        return
    transaction = begin()
    try:
        transaction.keep(DETACHED_TABLE, entry.added(-1))
        _act(entry, rule, _activation(entry, rule, store), transaction)
        transaction.commit()
    except Exception as error:
        if transaction.is_committed:
            raise  # it was done, and is not to be done again
        _leave(transaction)
        told = error.message if isinstance(error, TidemarkError) else f"{type(error).__name__}: {error}"
        apart = begin()
        again = _next(entry, rule, apart) if entry.stage == TIMER_STAGE else None
        failed = again or entry.failed(told, rule, store.now())
        outcome = f"dead: {told}" if failed.state == DEAD else f"failed: {told}"
        apart.reactions.acting.record(entry.rule, _instances(entry), outcome)
        _replace(apart, entry, failed)
    except BaseException:
        _leave(transaction)
        raise


def _leave(transaction: Reacting) -> None:
    if transaction.is_open:
        transaction.rollback()


def _act(entry: Entry, rule: Rule, watched: Activation, transaction: Reacting) -> None:
    given, reactions = entry.relations, transaction.reactions
    if entry.stage == TIMER_STAGE:
        after = _next(entry, rule, transaction)
        if after is not None:
            transaction.keep(DETACHED_TABLE, after.added())
        nothing = {name: delta_tables.no_change(schema) for name, schema in rule.given}
        turn = reactions.timed(watched, entry.event, nothing)
    else:
        turn = RuleTurn(watched, given.pop(CONDITION), given)
        if entry.stage == CONDITION_STAGE:
            turn = reactions.instances.whole(watched, given) if rule.events else reactions.instances.still_true(turn)
    if turn is None:
        return
    if entry.stage != ACTION_STAGE and rule.action_coupling in (DETACHED, INDEPENDENT):
        other = Entry.of(rule, watched.name, ACTION_STAGE, turn.relations, transaction.store.version + 1)
        transaction.keep(DETACHED_TABLE, other.added())
        reactions.acting.record(watched.name, turn.rows.num_rows, FiringOutcome.QUEUED)
        return
    reactions.acting.act(turn, entry.id)


def _next(entry: Entry, rule: Rule, transaction: Reacting) -> Entry | None:
    """The timer for the next time, which is not before now; none if it was to go off once."""
    now, due = transaction.store.now(), entry.due or transaction.store.now()
    event = next((event for event in rule.times if str(event) == entry.event), None)
    if event is None or event.kind != "every":
        return None
    span = span_of(event.text, Source(rule.text, rule.dialect))
    missed = max(0, (now - due) // span)
    return replace(entry, due=due + span * (missed + 1), attempts=0, error="")


def _instances(entry: Entry) -> int:
    rows = entry.relations.get(CONDITION)
    return 0 if rows is None else rows.num_rows


def _is_watched(entry: Entry, rule: Rule) -> bool:
    return any(known.name == entry.rule for known in rule.active)


def _activation(entry: Entry, rule: Rule, store: Store) -> Activation:
    """The rule for the values for which it was set off, also if it is not watched for them any more."""
    known = next((known for known in rule.active if known.name == entry.rule), None)
    return known or activation(rule, arguments_in(entry.rule, rule.dialect), store.catalog)


def _replace(transaction: Reacting, entry: Entry, by: Entry | None) -> None:
    transaction.keep(DETACHED_TABLE, entry.added(-1) if by is None else entry.replaced_by(by))
    transaction.commit()


def replay(identity: str, store: Store, begin: Callable[[], Reacting]) -> None:
    """Let a dead entry wait for its next attempt."""
    found = _dead(identity, store)
    _replace(begin(), found, replace(found, state=WAITING, attempts=0, due=None))


def discard(identity: str, store: Store, begin: Callable[[], Reacting]) -> None:
    """Throw a dead entry away."""
    _replace(begin(), _dead(identity, store), None)


def dead_letters(store: Store) -> pa.Table:
    """The entries that are dead, with what they were to be done for: the rows of each relation that they have."""
    dead = in_order(entry for entry in queued(store) if entry.state == DEAD)
    columns = {
        "id": pa.array([entry.id for entry in dead], pa.string()),
        "rule": pa.array([entry.rule for entry in dead], pa.string()),
        "error": pa.array([entry.error for entry in dead], pa.string()),
        "attempts": pa.array([entry.attempts for entry in dead], pa.int64()),
        "version": pa.array([entry.version for entry in dead], pa.int64()),
        "payload": pa.array([_told(entry) for entry in dead], pa.string()),
    }
    return pa.table(columns)


def _told(entry: Entry) -> str:
    rows = {name: delta_tables.expand(table).to_pylist() for name, table in entry.relations.items() if table.num_rows}
    return json.dumps(rows, default=lambda value: show_value(value) if isinstance(value, bytes) else str(value))


def _dead(identity: str, store: Store) -> Entry:
    found = next((entry for entry in queued(store) if entry.id == identity and entry.state == DEAD), None)
    if found is None:
        raise TidemarkError("unknown_entry", f"there is no dead letter {identity!r}", hint="db.dead_letters() has them")
    return found


class Aftermath:
    """The rules of one database between its transactions. What they do begins further ones, which end here, too."""

    def __init__(self, store: Store, program: HostProgram, begin: Callable[[], Reacting]) -> None:
        self._store, self._program, self._begin = store, program, begin
        self.is_running = False

    def ended(self, event: Ended) -> Action:
        """A transaction in which rules had something to do has ended."""
        return partial(self._react, event.transaction)

    def settled(self) -> None:
        """Nothing is under way any more, whatever exceptions have left."""
        self._program.calls.forget()
        self.is_running = False

    def _react(self, ended: Reacting) -> None:
        reactions = ended.reactions
        if ended.is_committed:
            while reactions.acting.notices:
                self._program.tell(*reactions.acting.notices.pop(0))
        else:
            known = {activation.name for activation in self._store.catalog.activations}
            independent = [entry for entry in reactions.detached if entry.is_independent and entry.rule in known]
            there = {entry.id for entry in queued(self._store)} if independent else set[str]()
            if any(entry.id not in there for entry in independent):
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
            self._store.stopping.deafen()
            return run_due(self._store, self._begin, is_timed=is_timed)
        finally:
            self.is_running = was_running
