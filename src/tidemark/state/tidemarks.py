"""How far a snapshot or continual query has come: its tidemark, its last execution and its results, as a note.

The note is committed together with the content, so that after any crash both are of the same version.

The notes of a database in memory, and what they say of the results of continual queries.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tidemark.algebra.plans import Plan
from tidemark.errors import TidemarkError
from tidemark.network.lagging import Lagging, lagging
from tidemark.sql.catalog.catalog import Catalog, Token, View, kind_of
from tidemark.sql.parse.lagging import QUERY, SNAPSHOT
from tidemark.storage.commit import take_notes
from tidemark.storage.retention import KEEP

ACTIVE, STOPPED = "active", "stopped"
_NOTE, _RESULT, FORGOTTEN, CONSUMER = "lag ", "result ", "forgotten ", "consumer "


@dataclass(frozen=True)
class Standing:
    """``tidemark``: the version up to which the content is true. ``executed``: when it was last brought up to date.

    ``results``: the number of the last result of a continual query. ``invalid``: the log since the tidemark is gone, so
    that the next time it is evaluated as a whole. ``error``: why the last attempt failed.
    """

    tidemark: int
    executed: dt.datetime
    results: int = 0
    status: str = ACTIVE
    invalid: bool = False
    error: str | None = None

    def to_note(self) -> str:
        """What is stored: the keys are read by later versions, whatever the fields are called."""
        return json.dumps(
            {
                "tidemark": self.tidemark,
                "executed": self.executed.isoformat(),
                "results": self.results,
                "status": self.status,
                "invalid": self.invalid,
                "error": self.error,
            }
        )

    @staticmethod
    def of_note(text: str) -> Standing:
        shown = json.loads(text)
        return Standing(
            tidemark=shown["tidemark"],
            executed=dt.datetime.fromisoformat(shown["executed"]),
            results=shown.get("results", 0),
            status=shown.get("status", ACTIVE),
            invalid=shown.get("invalid", False),
            error=shown.get("error"),
        )


@dataclass(frozen=True)
class Subscribed:
    """A subscriber with a name, as it is noted: the relation and the version up to which it has read."""

    relation: str
    mark: int
    policy: str = KEEP

    def to_note(self) -> str:
        return json.dumps([self.relation, self.mark, self.policy])

    @staticmethod
    def of_note(text: str) -> Subscribed:
        relation, mark, *policy = json.loads(text)
        return Subscribed(relation=relation, mark=mark, policy=policy[0] if policy else KEEP)


def consumers_of(notes: Mapping[str, str], relations: Set[str]) -> list[str]:
    """The notes of the subscribers and readers with a name that follow one of these relations."""
    noted = ((name, text) for name, text in notes.items() if name.startswith(CONSUMER))
    return [name for name, text in noted if Subscribed.of_note(text).relation in relations]


def note_name(relation: str) -> str:
    return f"{_NOTE}{relation}"


def position_note(table: str) -> str:
    """The note of how far a table has followed its source."""
    return f"position {table}"


def source_note(source: str) -> str:
    """The note of how a source stands."""
    return f"source {source}"


_ONCE = "once "
KEPT_KEYS = dt.timedelta(hours=24)
"""So long the key of a transaction is known after it."""


def first_version(key: str, notes: Mapping[str, str], now: dt.datetime) -> int | None:
    """The version of the transaction that was done under a key, if that is not too long ago."""
    noted = notes.get(f"{_ONCE}{key}")
    if noted is None:
        return None
    version, time = _done(noted)
    return version if now - time <= KEPT_KEYS else None


def once_notes(key: str, version: int, notes: Mapping[str, str], now: dt.datetime) -> dict[str, str | None]:
    """What a transaction notes that is to be done once under its key; keys that are too old go.

    >>> noon = dt.datetime(2026, 1, 1, 12)
    >>> known = once_notes("a", 7, {}, noon)
    >>> first_version("a", known, noon + dt.timedelta(hours=24))
    7
    >>> once_notes("b", 8, known, noon + dt.timedelta(hours=25))
    {'once a': None, 'once b': '8 2026-01-02T13:00:00'}
    """
    old = (name for name, text in notes.items() if name.startswith(_ONCE) and now - _done(text)[1] > KEPT_KEYS)
    return {**dict.fromkeys(old), f"{_ONCE}{key}": f"{version} {now.isoformat()}"}


def _done(text: str) -> tuple[int, dt.datetime]:
    version, _, time = text.partition(" ")
    return int(version), dt.datetime.fromisoformat(time)


def result_note(relation: str, number: int) -> str:
    return f"{_RESULT}{number} of {relation}"


def numbered(note: str) -> tuple[str, int] | None:
    """The continual query and the number of a result, from the name of its note.

    >>> numbered(result_note("q", 3)), numbered("lag q")
    (('q', 3), None)
    """
    if not note.startswith(_RESULT):
        return None
    number, _, relation = note.removeprefix(_RESULT).partition(" of ")
    return relation, int(number)


_kept: WeakKeyDictionary[Token, tuple[Plan, Lagging]] = WeakKeyDictionary()


def lagging_of(view: View) -> Lagging:
    """The network of a lagging view; it is kept as long as there is such a view."""
    found = _kept.get(view.identity)
    if found is None or found[0] is not view.plan:
        made = lagging(view.name, view.plan, view.options.get("strategy", "auto"))
        found = _kept[view.identity] = (view.plan, made)
    return found[1]


def notes_of(
    begins: Iterable[View], ends: Iterable[View], dropped: Iterable[str], version: int, now: dt.datetime
) -> dict[str, str | None]:
    """What a commit notes about the lagging relations that begin in it, and about what is gone."""
    notes: dict[str, str | None] = {note_name(view.name): None for view in ends}
    notes.update((f"{FORGOTTEN}{name}", None) for name in dropped)
    for view in begins:
        notes[note_name(view.name)] = Standing(version, now).to_note()
        if view.lag is not None and view.lag.kind == QUERY:
            notes[result_note(view.name, 0)] = f"{version} {now.isoformat()}"
    return notes


def dropped_as(view: View) -> str:
    """The word by which DROP names a view."""
    return kind_of(view).upper() if kind_of(view) in (SNAPSHOT, QUERY) else "VIEW"


def must_mean_the_same(before: Catalog, after: Catalog, changed: str) -> None:
    """Refuse another definition under a lagging relation, if what is stored of it would no longer go with the log."""
    for view in after.lagging_views:
        known = before.get(view.name)
        if not isinstance(known, View) or known.plan is view.plan:
            continue
        if known.meaning is not view.meaning or lagging_of(known).shape != lagging_of(view).shape:
            raise TidemarkError(
                "dependents",
                f"{changed!r} cannot be redefined, because the {kind_of(view)} {view.name!r} stands on it and lags",
                hint=f"DROP {dropped_as(view)} {view.name} first, and create it again afterwards",
            )


Answered = tuple[int, dt.datetime]
"""The version and the time of a result."""


class Notes(Mapping[str, str]):
    """Small texts by name. ``take`` changes some of them; what that costs follows how many they are."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts: dict[str, str] = {}
        self._results: dict[str, dict[int, Answered]] = {}
        self.take(texts)

    def take(self, notes: Mapping[str, str | None]) -> None:
        """Change notes; those that are None go."""
        take_notes(self._texts, notes)
        for name, text in notes.items():
            found = numbered(name)
            if found is not None:
                self._number(*found, text)

    def _number(self, query: str, number: int, text: str | None) -> None:
        if text is not None:
            version, _, time = text.partition(" ")
            self._results.setdefault(query, {})[number] = (int(version), dt.datetime.fromisoformat(time))
        elif query in self._results:
            self._results[query].pop(number, None)
            if not self._results[query]:
                del self._results[query]

    def results_of(self, query: str) -> Mapping[int, Answered]:
        """The results of a continual query that are kept, by number."""
        return self._results.get(query, {})

    @property
    def results(self) -> Mapping[str, Mapping[int, Answered]]:
        """The results that are kept, by query and number."""
        return self._results

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)
