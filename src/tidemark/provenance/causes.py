"""Which base changes brought a change: the rows that a transaction inserted or deleted without which it would not be.

*Without which* is meant literally: with these changes undone, and all others of the transaction kept, the row would be
there as often as before. All changes of the transaction together always are such a set. A small one is found by leaving
parts out as long as what remains still is one (delta debugging), so that in the end every single change is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tidemark.algebra.history import CLOCK
from tidemark.algebra.scalar import Row
from tidemark.provenance.tree import Answer, counted, lines, named_cells

MOST_TRIES = 200
MOST_SHOWN = 10


@dataclass(frozen=True)
class BaseChange:
    """A row of a table that a transaction inserted (a positive weight) or deleted (a negative one)."""

    table: str
    columns: tuple[str, ...]
    row: Row
    weight: int

    def __str__(self) -> str:
        if self.table == CLOCK:
            return f"the clock {'went to' if self.weight > 0 else 'left'} {named_cells(self.columns, self.row)}"
        times = f" {abs(self.weight):,} times" if abs(self.weight) > 1 else ""
        sign, verb = ("+", "inserted") if self.weight > 0 else ("−", "deleted")
        return f"{sign} {self.table} {named_cells(self.columns, self.row)}   {verb}{times}"


Changes: TypeAlias = tuple[BaseChange, ...]


@dataclass(frozen=True)
class Cause:
    """What one version did to a row of a relation, and the base changes that brought it.

    The row was there ``before`` times, and ``after`` times afterwards. With the ``changes`` undone it would be there as
    often as before; ``is_minimal`` says that this is so for no part of them that leaves one out. ``derivation`` is why
    the row is there, of the side on which it is more often.
    """

    relation: str
    columns: tuple[str, ...]
    row: Row
    version: int
    before: int
    after: int
    changes: Changes = ()
    is_minimal: bool = True
    derivation: Answer | None = None
    note: str = ""

    @property
    def is_there(self) -> bool:
        return self.after > 0

    def __str__(self) -> str:
        result = [self._headline()]
        for change in self.changes[:MOST_SHOWN]:
            result.append(f"  {change}")
        if len(self.changes) > MOST_SHOWN:
            result.append(f"  and {counted(len(self.changes) - MOST_SHOWN, 'more change')}")
        if not self.is_minimal:
            result.append("  (with all of these undone the row would not have changed; perhaps not all are needed)")
        if self.note:
            result.append(f"  {self.note}")
        if self.derivation is not None:
            result += ["", *lines(self.derivation)]
        return "\n".join(result)

    def _headline(self) -> str:
        cells = named_cells(self.columns, self.row)
        if self.before == self.after:
            where = f"it was there {self._often(self.after)} before and after" if self.after else "it was not there"
            return f"{cells} did not change in {self.relation} in version {self.version}: {where}"
        if self.before == 0:
            what = "came into"
        elif self.after == 0:
            what = "left"
        else:
            what = f"is there {self._often(self.after)} instead of {self._often(self.before)} in"
        because = ", which it would not have without" if self.changes else ""
        if self.before and self.after and self.changes:
            because = ", which it would not be without"
        return f"{cells} {what} {self.relation} in version {self.version}{because}"

    @staticmethod
    def _often(times: int) -> str:
        return "once" if times == 1 else f"{times:,} times"


def needed(changes: Changes, explains: Callable[[Changes], bool], most_tries: int = MOST_TRIES) -> tuple[Changes, bool]:
    """As few of the changes as can be found that explain as well as all do; and whether each single one is needed.

    >>> changes = tuple(BaseChange("t", ("a",), (i,), 1) for i in range(100))
    >>> found, is_minimal = needed(changes, lambda part: {(7,), (80,)} <= {change.row for change in part})
    >>> [change.row for change in found], is_minimal
    ([(7,), (80,)], True)
    """
    pieces, tries = 2, 0
    while len(changes) > 1:
        size = -(-len(changes) // pieces)
        for start in range(0, len(changes), size):
            if tries >= most_tries:
                return changes, False
            tries += 1
            rest = changes[:start] + changes[start + size :]
            if explains(rest):
                changes, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if size == 1:
                break
            pieces = min(2 * pieces, len(changes))
    return changes, True
