"""Running what rules have detached: each entry in a transaction of its own, until nothing is due.

An entry that fails is tried again later, ever later, and in the end it is dead, for a person to look at and replay.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tidemark.database.actions import Outcome
from tidemark.database.detaching import (
    ACTION_STAGE,
    CONDITION_STAGE,
    DEAD,
    DETACHED_TABLE,
    TIMER_STAGE,
    WAITING,
    Entry,
    queued,
)
from tidemark.database.reacting import Turn
from tidemark.database.store import Store
from tidemark.database.transaction import Transaction
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.sql.activerules import DETACHED, INDEPENDENT, Activation, Rule
from tidemark.sql.rules import CONDITION, span_of
from tidemark.sql.text import Source

MOST_AT_ONCE: Final = 10_000
"""Entries may ask for further ones; so many are run before control goes back."""


def run_due(store: Store, begin: Callable[[], Transaction], *, is_timed: bool = False) -> int:
    """Run the entries whose time has come, and those that they ask for; how many were run.

    ``is_timed`` leaves out those that wait for no time: what a crash left behind may need functions that the program
    has not registered yet.
    """
    done = 0
    while done < MOST_AT_ONCE:
        now = store.now()
        waiting = (entry for entry in queued(store.engine, store.catalog) if entry.state == WAITING)
        due = next((entry for entry in waiting if _is_due(entry, now, is_timed=is_timed)), None)
        if due is None:
            break
        _run(due, store, begin, now)
        done += 1
    return done


def next_due(store: Store) -> dt.datetime | None:
    """When the next entry of the queue is due that waits for a time."""
    if DETACHED_TABLE not in store.catalog.relations or not store.engine.rows(DETACHED_TABLE):
        return None
    waiting = [entry for entry in queued(store.engine, store.catalog) if entry.state == WAITING]
    return min((entry.due for entry in waiting if entry.due is not None), default=None)


def _is_due(entry: Entry, now: dt.datetime, *, is_timed: bool) -> bool:
    return not is_timed if entry.due is None else entry.due <= now


def _run(entry: Entry, store: Store, begin: Callable[[], Transaction], now: dt.datetime) -> None:
    found = _activation(entry.rule, store)
    if found is None:
        _replace(begin(), entry, None)  # the rule is gone, or is not watched for these values any more
        return
    rule, activation = found
    transaction = begin()
    try:
        transaction.keep(DETACHED_TABLE, entry.added(-1))
        _act(entry, rule, activation, transaction)
        transaction.commit()
    except TidemarkError as error:
        if transaction.is_open:
            transaction.rollback()
        apart = begin()
        again = _next(entry, rule, apart) if entry.stage == TIMER_STAGE else None
        failed = again or entry.failed(str(error.message), rule, now)
        outcome = f"dead: {error.message}" if failed.state == DEAD else f"failed: {error.message}"
        apart.reactions.record(entry.rule, _instances(entry), outcome)
        _replace(apart, entry, failed)


def _act(entry: Entry, rule: Rule, activation: Activation, transaction: Transaction) -> None:
    given, reactions = entry.relations, transaction.reactions
    if entry.stage == TIMER_STAGE:
        after = _next(entry, rule, transaction)
        if after is not None:
            transaction.keep(DETACHED_TABLE, after.added())
        nothing = {name: delta_tables.no_change(schema) for name, schema in rule.given}
        turn = reactions.whole(activation, nothing)
    else:
        turn = Turn(activation, given.pop(CONDITION), given)
        if entry.stage == CONDITION_STAGE:
            turn = reactions.whole(activation, given) if rule.events else reactions.still_true(turn)
    if turn is None:
        return
    if entry.stage != ACTION_STAGE and rule.action_coupling in (DETACHED, INDEPENDENT):
        other = Entry.of(rule, activation.name, ACTION_STAGE, turn.relations, transaction.store.version + 1)
        transaction.keep(DETACHED_TABLE, other.added())
        reactions.record(activation.name, turn.rows.num_rows, Outcome.QUEUED)
        return
    reactions.act(turn, entry.id)


def _next(entry: Entry, rule: Rule, transaction: Transaction) -> Entry | None:
    """The timer for the next time, which is not before now; none if it was to go off once."""
    now, due = transaction.store.now(), entry.due or transaction.store.now()
    source = Source(rule.text, rule.dialect)
    spans = [span_of(event.text, source) for event in rule.times if event.kind == "every"]
    if not spans:
        return None
    missed = max(0, (now - due) // spans[0])
    return replace(entry, due=due + spans[0] * (missed + 1), attempts=0, error="")


def _instances(entry: Entry) -> int:
    rows = entry.relations.get(CONDITION)
    return 0 if rows is None else rows.num_rows


def _activation(name: str, store: Store) -> tuple[Rule, Activation] | None:
    for activation in store.catalog.activations:
        if activation.name == name:
            return store.catalog.rules[activation.rule], activation
    return None


def _replace(transaction: Transaction, entry: Entry, by: Entry | None) -> None:
    transaction.keep(DETACHED_TABLE, entry.added(-1) if by is None else entry.replaced_by(by))
    transaction.commit()


def replay(identity: str, store: Store, begin: Callable[[], Transaction]) -> None:
    """Let a dead entry wait for its next attempt."""
    found = next(
        (entry for entry in queued(store.engine, store.catalog) if entry.id == identity and entry.state == DEAD), None
    )
    if found is None:
        raise TidemarkError("unknown_entry", f"there is no dead letter {identity!r}", hint="db.dead_letters() has them")
    _replace(begin(), found, replace(found, state=WAITING, attempts=0, due=None))
