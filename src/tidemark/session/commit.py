"""The commit, as a tuple of phases: those that prepare one storage record, the commit point, those that install it.

A phase takes a draft and returns it completed. While a record is prepared any phase may raise: nothing has happened.
After the commit point the commit is true, and what fails is made up for by reading again what is stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

import pyarrow as pa

from tidemark.algebra.history import CLOCK
from tidemark.calculus.as_of import Block
from tidemark.errors import TidemarkError
from tidemark.sql.bind.changes import BoundChange
from tidemark.sql.catalog.catalog import Catalog, Table
from tidemark.state import constraints, identity, records
from tidemark.state.constraints import must_hold
from tidemark.state.draft import NO_TABLES, Derivation, Draft, Work
from tidemark.state.events import Committed
from tidemark.state.facts import known_of, known_of_nothing, view_keys
from tidemark.state.fill import filled
from tidemark.state.state import Store
from tidemark.state.tidemarks import consumers_of, notes_of, position_note, result_note, source_note
from tidemark.state.times import Laps
from tidemark.state.transition import Transition
from tidemark.storage.commit import Commit, Creation
from tidemark.storage.delta import Tables, as_rows
from tidemark.strategy.cache import RefreshCache
from tidemark.strategy.wave import named_rows, trace_of

Phase = Callable[[Draft], Draft]
STORE: Final = "store"
"""The commit point, among the phases whose time is told."""
AFTERWARDS: Final = "afterwards"
"""What those want to be done who heard of a commit: told as a phase, if there is anything."""


def commit(state: Store, work: Work) -> None:
    """Commit work that belongs to no transaction of a user's, so that no rule acts in it."""
    run(Draft(state, work))


def run(draft: Draft) -> None:
    """Take a draft through all phases. On any error before the commit point the database is as it was."""
    state = draft.state
    with state.in_use():
        if not draft.work.statements:
            return
        laps = Laps(draft.work.spent)
        draft = _prepared(draft, laps)
        laps.begin(STORE)
        underway = state.begin_commit(draft.stored, draft.work.catalog, draft.work.outcome)
        try:
            _hand_over(draft)
            for phase in INSTALL:
                laps.begin(phase.__name__)
                draft = _observed(phase, draft)
            laps.begin(AFTERWARDS if draft.afterwards else None)
            for action in draft.afterwards:
                action()
        except BaseException as error:
            state.make_up(underway, error)
        state.end_commit()
        laps.begin(None)
        state.laps.take(draft.stored.version, laps.seconds)


def _prepared(draft: Draft, laps: Laps) -> Draft:
    """The draft through all phases before the commit point; if one fails, nothing is left that was written ahead."""
    try:
        for phase in PREPARE:
            laps.begin(phase.__name__)
            draft = _observed(phase, draft)
    except BaseException:
        draft.state.forget_ahead()
        raise
    return draft


def _observed(phase: Phase, draft: Draft) -> Draft:
    """One phase, inside the contexts of those who observe the state's commits."""
    if not draft.state.observers:
        return phase(draft)
    with ExitStack() as stack:
        for observer in tuple(draft.state.observers):
            stack.enter_context(observer(phase.__name__))
        return phase(draft)


# Before the commit point


def advance_clock(draft: Draft) -> Draft:
    """Move the clock on, if views or rules read it."""
    state, work = draft.state, draft.work
    if CLOCK not in work.catalog.relations:
        return draft
    now = work.now or state.now()
    return draft._replace(work=replace(work, now=now, pending=state.in_time(work.catalog, work.pending, now)))


def run_rules(draft: Draft) -> Draft:
    """Let deferred rules act in the transaction until none has an instance."""
    if draft.react is None:
        return draft
    work, derivation = draft.react(draft.work)
    return draft._replace(work=work, derivation=derivation)


def check_constraints(draft: Draft) -> Draft:
    """Check the net deltas of tables, but for those that were found good when they were derived from."""
    state, work, known = draft.state, draft.work, draft.derivation
    if known is None or work.catalog is not state.catalog:
        check(state, work.catalog, work.pending)
        return draft
    unchecked = known.unchecked(state.version, work.catalog, work.pending)
    if unchecked or not work.pending:
        check(state, work.catalog, unchecked)
    return draft


def derive(draft: Draft) -> Draft:
    """The wave: a net delta for every affected node. One that was derived from the same deltas is kept."""
    state, work, known = draft.state, draft.work, draft.derivation
    if known is not None and work.catalog is state.catalog:
        read = state.network.read
        if known.serves(state.version, work.catalog, work.pending, read) and known.is_checked(read):
            return draft._replace(derivation=known.over(work.pending))
    wave = state.propagate(work.catalog, work.pending, work.change, is_last=True)
    made = Derivation(state.version, work.catalog, work.pending, work.change, work.pending, wave)
    return draft._replace(derivation=made)


def check_assertions(draft: Draft) -> Draft:
    """No row may stand in a view of violations."""
    state, catalog = draft.state, draft.work.catalog
    if catalog.assertions:
        stored = state.transition(catalog).going_on
        must_hold(catalog, state.catalog, draft.wave, lambda: stored, state.reading(catalog))
    return draft


def fill(draft: Draft) -> Draft:
    """New tables, then new nodes from the lowest level up, each filled from what is below it; and what is given."""
    state, wave = draft.state, draft.wave
    transition = state.transition(draft.work.catalog)
    if transition.after is state.catalog:
        return draft
    given: Mapping[str, pa.Table] = named_rows(wave.rows)
    tables = transition.new_tables
    created = [Creation(table.name, table.schema, key=table.primary_key) for table in tables]
    block = Block(changed=frozenset(wave.deltas), unstored=frozenset(table.name for table in tables))
    engine = state.reading(transition.after)
    known = known_of(transition.after, state.catalog, state.refreshes.known)
    transition.prove(RefreshCache(known=known), engine.limits)
    keys = view_keys(transition.after, known)
    nodes, given = filled(transition.new_nodes, block, given, engine, keys)
    created.extend(nodes)
    for view in transition.new_external:
        created.append(Creation(view.name, view.schema, internal=True, kept=False))
    return draft._replace(created=tuple(created), given=given)


def encode(draft: Draft) -> Draft:
    """One storage record: deltas, definitions, notes and the trace."""
    state, work, wave = draft.state, draft.work, draft.wave
    transition, version, is_same = state.transition(work.catalog), state.version + 1, work.catalog is state.catalog
    begun, gone, moved_note = _moves_of(state, work, transition)
    is_stored, logged = transition.passing.is_stored, {view.name for view in work.catalog.external_views}
    record = Commit(
        version,
        state.times.next(state.now()),
        deltas=Tables(
            {
                **{name: delta for name, delta in wave.rows.items() if is_stored(name) or name in logged},
                **as_rows(work.own),
                **{identity.moves_name(name): delta for name, delta in as_rows(work.moved).items()},
            }
        ),
        given=draft.given,
        created=(*draft.created, *begun),
        dropped=() if is_same else (*transition.dropped, *gone),
        altered=tuple(transition.altered.values()),
        keys=state.view_keys if is_same else {},
        catalog=tuple(records.changes(state.catalog, work.catalog, state.created, version, transition.known_of_view)),
        trace=trace_of((*work.steps, *wave.steps)),
        notes={**_notes_of(state, transition, version), **work.notes, **moved_note},
    )
    state.progress.tell(lambda: _step_of(record))
    return draft._replace(record=record)


# The commit point


def _hand_over(draft: Draft) -> None:
    try:
        draft.state.engine.commit(draft.stored)
    except TidemarkError as error:
        named = _naming_creations(error, draft.stored)
        if named is error:
            raise
        raise named from error


# After it


def swap(draft: Draft) -> Draft:
    """Catalog, network and version are those of the commit. It is the same if some of that was done before."""
    before = draft.state.catalog
    draft.state.swap()
    return draft._replace(before=before)


def feed(draft: Draft) -> Draft:
    """What memory keeps of stored rows and notes takes the net deltas."""
    draft.state.feed(draft.stored, is_same=draft.work.catalog is draft.before)
    return draft


def announce(draft: Draft) -> Draft:
    """Let those who follow the database hear of the version."""
    state, work = draft.state, draft.work
    state.committed.notify_all()
    assert draft.before is not None, "the phase `swap` has not run"
    event = Committed(draft.stored.version, work.pending, work.said, draft.wave.deltas, draft.before, work.catalog)
    return draft._replace(afterwards=state.events.tell(event))


PREPARE: Final[tuple[Phase, ...]] = (
    advance_clock,  # the clock relation moves on, if a view reads it
    run_rules,  # deferred rules act until none has an instance
    check_constraints,  # on net deltas, but for those that are remembered as good
    derive,  # the wave: a net delta for every affected node, kept if its inputs are the same
    check_assertions,  # no row in a view of violations
    fill,  # contents of new views and states
    encode,  # one storage record: deltas, records, notes, trace
)
INSTALL: Final[tuple[Phase, ...]] = (
    swap,  # catalog, network, version, caches
    feed,  # notes, times and the queue of detached work take the net deltas
    announce,  # the event, and what is to be done after it
)


# What phases share with open transactions


def check(state: Store, catalog: Catalog, pending: Mapping[str, pa.Table]) -> None:
    """Refuse net deltas, and columns that are added, that violate a constraint."""
    state.progress.tell("checking constraints")
    engine, transition = state.reading(catalog), state.transition(catalog)
    after = {name: table for name in pending if isinstance(table := catalog.get(name), Table)}
    changed = {name: rows for name, rows in as_rows(pending).items() if name in after}
    constraints.check_constraints(after, changed, transition.going_on, engine)
    if transition.altered:
        before = {table.name: table for table in state.catalog.tables}
        after = {table.name: table for table in catalog.tables}
        constraints.check_alterations(transition.altered.values(), before, after, pending, engine)


def derived(
    state: Store,
    catalog: Catalog,
    pending: Mapping[str, pa.Table],
    change: Callable[[], BoundChange] | None = None,
) -> Derivation:
    """Propagate in the middle of a transaction, where constraints may be violated: then nothing is known of the rows,
    and no step may be taken that rests on it."""
    try:
        check(state, catalog, pending)
    except TidemarkError:
        wave = state.propagate(catalog, pending, known=known_of_nothing(catalog))
        return Derivation(state.version, catalog, pending, change, NO_TABLES, wave)
    return Derivation(state.version, catalog, pending, change, pending, state.propagate(catalog, pending, change))


# Parts of the record


def _moves_of(
    state: Store, work: Work, transition: Transition
) -> tuple[list[Creation], list[str], Mapping[str, str | None]]:
    """The logs of other keys that begin, those that go with their tables, and the note of those that there are."""
    if not work.moved and work.catalog is state.catalog:
        return [], [], {}
    dropped = state.moved & set(transition.dropped)
    fresh = [name for name in work.moved if name not in state.moved - dropped]
    if not fresh and not dropped:
        return [], [], {}
    tables = [table for name in fresh if isinstance(table := work.catalog.get(name), Table)]
    begun, gone = [identity.creation(table) for table in tables], [identity.moves_name(name) for name in dropped]
    return begun, gone, {identity.NOTE: json.dumps(sorted((state.moved - dropped).union(fresh)))}


def _notes_of(state: Store, transition: Transition, version: int) -> Mapping[str, str | None]:
    if transition.after is state.catalog:
        return {}
    begins, ends = transition.new_lagging, transition.dropped_lagging
    results = [result_note(view.name, n) for view in ends for n in state.notes.results_of(view.name)]
    followed = consumers_of(state.notes, frozenset(transition.dropped))
    positions = [note for name in transition.dropped if (note := position_note(name)) in state.notes]
    sources = [source_note(name) for name in state.catalog.sources if name not in transition.after.sources]
    gone: dict[str, str | None] = dict.fromkeys((*results, *followed, *positions, *sources))
    return {**gone, **notes_of(begins, ends, transition.dropped, version, state.now())}


def _filled(record: Commit) -> list[str]:
    """The new views that a commit fills."""
    return [creation.relation for creation in record.created if creation.plan is not None and not creation.internal]


def _step_of(record: Commit) -> str:
    return f"filling {' and '.join(_filled(record))}" if _filled(record) else "committing"


def _naming_creations(error: TidemarkError, record: Commit) -> TidemarkError:
    """An error while new views are filled, with their names."""
    names = [repr(name) for name in _filled(record)]
    if not names:
        return error
    return error.within(f"the view {' or '.join(names)} cannot be filled")
