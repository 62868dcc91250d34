"""Running what rules have detached: each entry in a transaction of its own, until nothing is due.

An entry that fails is tried again later, ever later, and in the end it is dead, for a person to look at and replay.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tidemark.algebra.plans import Stored
from tidemark.database.actions import Outcome
from tidemark.database.detaching import DEAD, DETACHED_SCHEMA, DETACHED_TABLE, WAITING, Entry, entries
from tidemark.database.reacting import Turn
from tidemark.database.store import Store
from tidemark.database.transaction import Transaction
from tidemark.errors import TidemarkError
from tidemark.sql.activerules import DETACHED, INDEPENDENT, Activation, Rule
from tidemark.sql.rules import CONDITION

MOST_AT_ONCE: Final = 10_000
"""Entries may ask for further ones; so many are run before control goes back."""


def queued(store: Store) -> list[Entry]:
    """All entries, the oldest first."""
    if DETACHED_TABLE not in store.catalog.relations or not store.engine.rows(DETACHED_TABLE):
        return []
    return entries(store.engine.fetch(Stored(DETACHED_TABLE, DETACHED_SCHEMA), {}))


def run_due(store: Store, begin: Callable[[], Transaction]) -> int:
    """Run the entries whose time has come, and those that they ask for; how many were run."""
    done = 0
    while done < MOST_AT_ONCE:
        now = store.now()
        due = next((e for e in queued(store) if e.state == WAITING and (e.due is None or e.due <= now)), None)
        if due is None:
            break
        _run(due, store, begin, now)
        done += 1
    return done


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
        failed = entry.failed(str(error.message), rule, now)
        apart = begin()
        outcome = f"dead: {error.message}" if failed.state == DEAD else f"failed: {error.message}"
        apart.reactions.record(entry.rule, entry.relations[CONDITION].num_rows, outcome)
        _replace(apart, entry, failed)


def _act(entry: Entry, rule: Rule, activation: Activation, transaction: Transaction) -> None:
    given = entry.relations
    turn = Turn(activation, given.pop(CONDITION), given)
    if entry.stage == "condition":
        kept = transaction.reactions.still_true(turn)
        if kept is None:
            return
        turn = kept
        if rule.action_coupling in (DETACHED, INDEPENDENT):
            other = Entry.of(rule, activation.name, "action", turn.relations, store_version(transaction))
            transaction.keep(DETACHED_TABLE, other.added())
            transaction.reactions.record(activation.name, turn.rows.num_rows, Outcome.QUEUED)
            return
    transaction.reactions.act(turn, entry.id)


def store_version(transaction: Transaction) -> int:
    return transaction.store.version + 1


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
    found = next((entry for entry in queued(store) if entry.id == identity and entry.state == DEAD), None)
    if found is None:
        raise TidemarkError("unknown_entry", f"there is no dead letter {identity!r}", hint="db.dead_letters() has them")
    _replace(begin(), found, replace(found, state=WAITING, attempts=0, due=None))
