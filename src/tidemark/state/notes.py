"""The notes of a database in memory, and what they say of the results of continual queries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping

from tidemark.state.tidemarks import numbered
from tidemark.storage.commit import take_notes

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
