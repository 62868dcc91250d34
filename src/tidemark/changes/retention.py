"""Keeping the log bounded: what its consumers need of it, and dropping the rest.

It is done after some commits, not after each, and apart from them: what is dropped is what nobody asks for, so that a
crash before or after it leaves a database that answers alike.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from tidemark.algebra.history import CLOCK
from tidemark.changes.consumers import Consumers
from tidemark.errors import TidemarkError, is_fenced
from tidemark.snapshots.refresh import Continual
from tidemark.snapshots.triggers import earlier
from tidemark.sql.catalog.catalog import View
from tidemark.sql.parse.lagging import period_of
from tidemark.sql.parse.text import Source
from tidemark.state.events import Action, Committed
from tidemark.state.history import NOTE, retained
from tidemark.state.identity import moves_name
from tidemark.state.state import Store
from tidemark.state.tidemarks import note_name, result_note
from tidemark.storage.commit import Forgetting
from tidemark.storage.retention import (
    INVALIDATE,
    REFRESH,
    Consumer,
    Cut,
    LogLimits,
    Retained,
    bytes_of,
    compacted,
    cut_for,
    horizon_by_size,
)

_logger = logging.getLogger("tidemark.storage")
LIMITS, TIMES = "log limits", "log times"
EVERY: Final = 128
"""After so many versions at most the log is looked through."""
SHARE: Final = 8
"""A net effect that is kept is made anew when an eighth as many versions have come as it has rows."""
SAMPLES: Final = 256
"""So many versions are kept with their times, to know how old others are about."""


class LogKeeper:
    """Drops what nobody needs of the log of one database."""

    def __init__(self, store: Store, continual: Continual, consumers: Consumers) -> None:
        self._store, self._continual, self._consumers = store, continual, consumers
        self._last = max((version for version, _ in self._known_times()), default=0)
        self._is_keeping = False
        self._kept_rows: dict[str, int] = {}
        store.times.forget(retained(store).oldest(store.created))

    @property
    def limits(self) -> LogLimits:
        return LogLimits.of_note(self._store.notes.get(LIMITS))

    def set_limits(self, options: Mapping[str, str]) -> None:
        """ALTER LOG SET: the options that are named; what is not named stays."""
        limits = self.limits
        for name, text in options.items():
            none = text.lower() in ("none", "null")
            try:
                match name:
                    case "versions":
                        limits = replace(limits, versions=None if none else _count(text))
                    case "age":
                        limits = replace(limits, age=None if none else period_of(text, Source(text)).text)
                    case "size":
                        limits = replace(limits, size=None if none else bytes_of(text))
                    case _:
                        raise TidemarkError(
                            "unsupported", f"the log has no option {name!r}", hint="versions, age and size"
                        )
            except ValueError as error:
                raise TidemarkError("syntax", str(error)) from error
        self._store.note({LIMITS: limits.to_note()})
        self.keep()

    # Keeping

    def settled(self, is_outermost: bool) -> None:
        """What is stored was read again."""
        if is_outermost:
            self._is_keeping = False
        self._kept_rows.clear()

    def committed(self, event: Committed) -> Action | None:
        """Look through the log after some versions."""
        return self._keep_if_due if self._is_due() else None

    def _is_due(self) -> bool:
        versions = self.limits.versions
        every = EVERY if versions is None else max(1, min(EVERY, versions // 4))
        return self._store.version - self._last >= every and not self._is_keeping

    def _keep_if_due(self) -> None:
        if not self._is_due():
            return  # what came before it has seen to that
        try:
            self.keep()
        except Exception as error:  # the transaction is committed: what comes after must not fail it
            if not is_fenced(error):  # which the engine tells once
                _logger.exception("the log could not be looked through")

    def keep(self) -> None:
        """Drop what nobody needs, now."""
        store = self._store
        self._last = store.version
        if not self.limits.any or self._is_keeping:
            return
        self._is_keeping = True
        try:
            times = self._times()
            horizon = self._horizon(times)
            if horizon > retained(store).full:
                self._urge(horizon)
                self._drop(horizon, times)
            else:
                self._store.note({TIMES: json.dumps(times)})
        finally:
            self._is_keeping = False

    def _times(self) -> list[tuple[int, str]]:
        """Some versions with the times when they were the last, the newest at the end."""
        known = [*self._known_times(), (self._store.version, self._store.now().isoformat())]
        return known if len(known) <= SAMPLES else known[-1 : -len(known) : -2][::-1]

    def _known_times(self) -> list[tuple[int, str]]:
        """Those that are noted; the last is when the log was last looked through, by whatever process."""
        return [(int(v), str(t)) for v, t in json.loads(self._store.notes.get(TIMES, "[]"))]

    def _horizon(self, times: Iterable[tuple[int, str]]) -> int:
        """The version up to which the limits let the log go."""
        limits, store = self.limits, self._store
        found = [0]
        if limits.versions is not None:
            found.append(store.version - limits.versions)
        if limits.age is not None:
            oldest = earlier(store.now(), period_of(limits.age, Source(limits.age)))
            found += [version for version, time in times if dt.datetime.fromisoformat(time) <= oldest]
        if limits.size is not None:
            found.append(horizon_by_size(((one.version, one.bytes) for one in store.engine.logged()), limits.size))
        return max(found)

    def _urge(self, horizon: int) -> None:
        """Let consumers that lag too far behind catch up, all at once, or give up."""
        late = [one for one in self._consumers.all() if one.mark < horizon]
        self._continual.catch_up(one.name for one in late if one.policy == REFRESH)
        invalid = dict[str, str | None]()
        for one in late:
            if one.policy == INVALIDATE and one.each_version:
                self._consumers.forget(one.name)
            elif one.policy == INVALIDATE:
                invalid[note_name(one.name)] = replace(self._continual.standing(one.name), invalid=True).to_note()
        if invalid:
            self._store.note(invalid)

    def _drop(self, horizon: int, times: list[tuple[int, str]]) -> None:
        store, reading = self._store, dict[str, list[Consumer]]()
        for one in self._consumers.all():
            for name in one.relations if one.mark < horizon else ():
                reading.setdefault(name, []).append(one)
        before = retained(store)
        others: dict[str, Cut] = {}
        log: dict[str, Forgetting] = {}
        for name, relation in store.catalog.relations.items():
            if isinstance(relation, View) and not relation.is_logged:
                continue
            born = store.created[name]
            was = before.of(name, born)
            cut = self._worth(name, cut_for(name, horizon, reading.get(name, ())), was)
            if born >= cut.full or cut == was:
                cut = was
            else:
                log[name] = self._forgetting(name, cut)
                if name in store.moved:
                    log[moves_name(name)] = Forgetting(cut.full)
            if cut != Retained(horizon).of(name, born):
                others[name] = cut
        after = Retained(horizon, others)
        notes: dict[str, str | None] = {
            NOTE: after.to_note(),
            TIMES: json.dumps([(version, time) for version, time in times if version >= horizon]),
        }
        for query, known in store.notes.results.items():
            cut_of = after.of(query, store.created.get(query, 0)).full
            notes.update((result_note(query, number), None) for number, (at, _) in known.items() if at <= cut_of)
        oldest = after.oldest(store.created)
        store.forget(log, horizon, notes, oldest)

    def _worth(self, name: str, cut: Cut, was: Cut) -> Cut:
        """The cut, which is not before the one that was made; that one, if another is not worth it.

        The net effect that is kept is read and written again with each cut, so it is not cut before as many versions
        have come as a share of it: what a row costs while a consumer lags does not grow with how far it lags.
        """
        if cut.points and cut.points == was.points and cut.full - was.full < self._kept_rows.get(name, 0) // SHARE:
            return was
        return replace(cut, full=max(cut.full, was.full))

    def _forgetting(self, name: str, cut: Cut) -> Forgetting:
        self._kept_rows.pop(name, None)
        if not cut.points:
            return Forgetting(cut.full)
        kept = compacted(self._store.engine.changes(name, cut.points[0]), cut)
        self._kept_rows[name] = 0 if kept is None else kept.num_rows
        return Forgetting(cut.full, kept)

    # Showing

    def shown(self) -> pa.Table:
        """SHOW LOG: of each relation the oldest version to be asked for, how much there is, and who needs most of
        it."""
        store, sizes, versions = self._store, dict[str, int](), dict[str, int]()
        for one in store.engine.logged():
            sizes[one.relation] = sizes.get(one.relation, 0) + one.bytes
            versions[one.relation] = versions.get(one.relation, 0) + 1
        for name in store.moved:
            sizes[name] = sizes.get(name, 0) + sizes.get(moves_name(name), 0)
        consumers = self._consumers.all()
        rows = []
        for name, relation in store.catalog.relations.items():
            if name == CLOCK or (isinstance(relation, View) and not relation.is_logged):
                continue
            cut = retained(store).of(name, store.created[name])
            reading = sorted((one.mark, one.name) for one in consumers if name in one.relations)
            mark, slowest = reading[0] if reading else (None, None)
            oldest = max(cut.full, store.created[name])
            rows.append((name, oldest, versions.get(name, 0), sizes.get(name, 0), len(reading), mark, slowest))
        names = ("relation", "oldest", "versions", "bytes", "consumers", "water_mark", "slowest")
        types = (pa.string(), *[pa.int64()] * 5, pa.string())
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a number of versions")
    return int(text)
