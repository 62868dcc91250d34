"""The statements of transactions, as a source hears of them: whoever ran them, from its beginning on.

Only texts are kept, and not too many: what is forgotten is shipped in other ways.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Set
from typing import Final, NamedTuple

from tidemark.database.store import Work

MOST_CHARACTERS: Final = 1_000_000
MOST_VERSIONS: Final = 10_000


class Said(NamedTuple):
    """What a version did to tables: for each the texts of statements, in order; None if there was more to it."""

    version: int
    texts: Mapping[str, tuple[str, ...]] | None

    @property
    def size(self) -> int:
        return 0 if self.texts is None else sum(len(text) for said in self.texts.values() for text in said)


class Heard:
    """What was said of some tables. It listens to a store (``Store.listeners``) as long as somebody holds it."""

    def __init__(self, tables: Set[str], version: int) -> None:
        self._tables, self._since = tables, version
        self._said: deque[Said] = deque()
        self._size = 0

    def committed(self, version: int, work: Work) -> None:
        changed = [name for name in work.pending if name in self._tables]
        if not changed:
            return
        texts: dict[str, tuple[str, ...]] | None = {}
        for name in changed:
            said = work.said.get(name, (None,))
            known = tuple(text for text in said if text is not None)
            if texts is None or len(known) < len(said):
                texts = None
                break
            texts[name] = known
        one = Said(version, texts)
        if one.size > MOST_CHARACTERS:
            one = Said(version, None)
        self._said.append(one)
        self._size += one.size
        while self._size > MOST_CHARACTERS or len(self._said) > MOST_VERSIONS:
            gone = self._said.popleft()
            self._since, self._size = gone.version, self._size - gone.size

    def since(self, version: int) -> list[Said] | None:
        """What was said after a version, as far as it was about the tables; None if that is not known."""
        if version < self._since:
            return None
        return [one for one in self._said if one.version > version]
