"""The answers: a derivation is a proof that a row is there, an absence says for each way why it is not.

Both are immutable trees that print as text. The leaves of a derivation are rows that are stored or written in a
definition, and absences, where something has to be missing. Every other step follows from its children alone: its
``plan`` or ``rule``, evaluated on the rows of its children, gives its row. Only where a step has more rows below it
than are shown (``total``) does it need those as well.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tidemark.algebra.clauses import DatalogRule
from tidemark.algebra.expressions import Value
from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import Plan
from tidemark.algebra.printing import show_value
from tidemark.algebra.scalar import Row


class Kind(enum.Enum):
    """What a step of a derivation is."""

    TABLE = "table"
    VIEW = "view"
    WRITTEN = "written"
    QUERY = "query"
    UNION = "union"
    DISTINCT = "distinct"
    GROUP = "group"
    WINDOW = "window"
    FIRST = "first"
    DIFFERENCE = "difference"
    INTERSECTION = "intersection"
    UNNEST = "unnest"
    REPEAT = "repeat"
    PREDICATE = "predicate"
    RULE = "rule"


MERGED = (Kind.UNION, Kind.DISTINCT, Kind.REPEAT)
"""Steps that pass a row on: with one child they take no line of their own, and their words become a note."""


@dataclass(frozen=True)
class Derivation:
    """A row that is there, and one way in which it comes to be.

    ``how`` says in words what the step does. The row is there ``times`` times. ``total`` is how many rows stand below
    the step if not all of them are shown. A step that ``passes_on`` only picks columns of the row below it.
    """

    kind: Kind
    relation: str
    columns: tuple[str, ...]
    row: Row
    how: str = ""
    children: tuple[Answer, ...] = ()
    times: int = 1
    total: int | None = None
    passes_on: bool = False
    plan: Plan | None = field(default=None, compare=False, repr=False)
    rule: DatalogRule | None = field(default=None, compare=False, repr=False)

    @property
    def is_there(self) -> bool:
        return True

    @property
    def base_rows(self) -> tuple[tuple[str, Row], ...]:
        """The stored rows that the derivation rests on, each once, as pairs of table and row."""
        return tuple(dict.fromkeys(_base_rows(self)))

    def __str__(self) -> str:
        return "\n".join(lines(self))


@dataclass(frozen=True)
class Absence:
    """Rows that are not there: those of a relation that have the ``wanted`` values, by name. ``reason`` says what
    fails.

    Children are the ways in which such a row could have come, each with what fails on it, or the derivation of a row
    that takes it away. With ``is_partner`` one side of a join is there, and the child says what it does not find.
    """

    relation: str
    wanted: tuple[tuple[str, Value], ...]
    reason: str
    children: tuple[Answer, ...] = ()
    is_partner: bool = False

    @property
    def is_there(self) -> bool:
        return False

    def __str__(self) -> str:
        return "\n".join(lines(self))


Answer: TypeAlias = Derivation | Absence


def _base_rows(answer: Answer) -> Iterator[tuple[str, Row]]:
    """Without recursion, since a derivation can be as deep as a recursion went."""
    waiting: list[Answer] = [answer]
    seen: set[int] = set()
    while waiting:
        step = waiting.pop()
        if isinstance(step, Derivation) and id(step) not in seen:
            seen.add(id(step))
            if step.kind is Kind.TABLE:
                yield step.relation, step.row
            waiting += reversed(step.children)


# As text

MOST_LETTERS = 60
MOST_LEVELS = 40
"""How deep a tree is shown."""


def cell(value: Value) -> str:
    """A value, shortened if it is long."""
    text = f"[{', '.join(map(cell, value))}]" if isinstance(value, tuple) else show_value(value)
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def named_cells(columns: tuple[str, ...], row: Row) -> str:
    """``(a = 1, b = NULL)``."""
    return f"({', '.join(f'{name} = {cell(value)}' for name, value in zip(columns, row, strict=True))})"


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def lines(answer: Answer) -> list[str]:
    """The tree, one line for each step; what was shown before is not shown again.

    >>> leaf = Derivation(Kind.TABLE, "t", ("a",), (1,))
    >>> print(Derivation(Kind.VIEW, "v", ("a",), (1,), children=(leaf,)))
    (a = 1) is in v
    └─ t (a = 1)   a stored row
    """
    return _lines(answer, set(), None, MOST_LEVELS)


def _lines(answer: Answer, shown: set[object], above: Derivation | None, levels: int) -> list[str]:
    step, text, children = _headline(answer, above)
    known = (type(answer), answer.relation, answer.row if isinstance(answer, Derivation) else answer.wanted, text)
    if children and known in shown:
        return [f"{text}   as above"]
    if children and levels <= 0:
        return [f"{text}   and so on, deeper than is shown"]
    shown.add(known)
    result = [text]
    for position, child in enumerate(children):
        last = position == len(children) - 1
        first, *rest = _lines(child, shown, step, levels - 1)
        result.append(("└─ " if last else "├─ ") + first)
        result.extend(("   " if last else "│  ") + line for line in rest)
    return result


def _headline(answer: Answer, above: Derivation | None) -> tuple[Derivation | None, str, tuple[Answer, ...]]:
    """A step, its line, and the steps below it; steps that only pass the row on are passed over."""
    if isinstance(answer, Absence):
        return None, answer.reason, _unwrapped(answer)
    notes: list[str] = []
    while len(answer.children) == 1 and isinstance(answer.children[0], Derivation):
        if answer.kind in MERGED and answer.how:
            notes.append(answer.how)
        if answer.kind not in MERGED and not answer.passes_on:
            break
        answer = answer.children[0]
    below = [child for child in answer.children if isinstance(child, Derivation)]
    repeated = answer.kind is Kind.QUERY and answer.columns == sum((child.columns for child in below), ())
    same = above is not None and (above.columns, above.row) == (answer.columns, answer.row)
    text = _step(answer, same_row=same or repeated)
    if answer.times > 1:
        notes.append(f"{answer.times:,} times")
    return answer, (f"{text}   {'; '.join(notes)}" if notes else text), _unwrapped(answer)


def _unwrapped(answer: Answer) -> tuple[Answer, ...]:
    """What stands below; a view that is a predicate of the same name is one thing."""
    children = answer.children
    if len(children) == 1 and children[0].relation == answer.relation and _said(children[0]) == _said(answer):
        return children[0].children
    return children


def _said(answer: Answer) -> object:
    return answer.reason if isinstance(answer, Absence) else (answer.row, answer.kind in (Kind.VIEW, Kind.PREDICATE))


def _step(step: Derivation, *, same_row: bool) -> str:
    cells = named_cells(step.columns, step.row)
    match step.kind:
        case Kind.TABLE if step.relation == CLOCK:
            return f"the clock {cells}"
        case Kind.TABLE:
            return f"{step.relation} {cells}   {step.how or 'a stored row'}"
        case Kind.VIEW | Kind.PREDICATE:
            return f"{cells} is in {step.relation}" + (f"   {step.how}" if step.how else "")
        case Kind.RULE:
            return step.how
        case Kind.GROUP if step.plan is None:
            return step.how
        case Kind.WRITTEN:
            return f"{cells}   {step.how}"
    return step.how if same_row else f"{cells} {step.how}"
