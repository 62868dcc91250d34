"""Rules evaluated together until nothing is new, semi-naive: only what is new is joined, with all others as they stand.

Every predicate that grows keeps its rows in the order of arrival, and every atom of a rule remembers how far it has
read. A rule that is added later reads its first atom from the beginning, so an evaluation can go on with more rules.

*Late* steps look at what must be complete: negation and groupings of predicates that are derived on demand. They run
when nothing else can, lowest stratum first, and after any success everything else goes on. By then each demand that
their rows made has been answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidemark.algebra.clauses import DatalogRule
from tidemark.algebra.scalar import Row
from tidemark.datalog.chains import Chain, chain_of
from tidemark.datalog.relations import EVERYTHING, IndexedRows, NewState, Relation
from tidemark.errors import EvaluationError

Accept = Callable[[set[Row]], Iterable[Row]]
LateStep = Callable[[], bool]


@dataclass(frozen=True)
class RecursionLimits:
    """How far a recursion may go before it is taken for one that does not end; None is without limit."""

    rounds: int | None = None
    rows: int | None = None

    def check(self, rounds: int, rows: int, predicate: str) -> None:
        if self.rounds is not None and rounds > self.rounds:
            raise TooFar(predicate, rounds=self.rounds)
        if self.rows is not None and rows > self.rows:
            raise TooFar(predicate, rows=self.rows)


class TooFar(EvaluationError):
    """A recursion went on for longer than a limit lets it."""

    def __init__(self, predicate: str, rounds: int | None = None, rows: int | None = None) -> None:
        self.rounds, self.rows = rounds, rows
        what = f"{rows} rows" if rounds is None else f"{rounds} rounds"
        super().__init__(
            "runaway",
            f"the recursion of {predicate!r} went on for more than {what}",
            hint="bound what it computes, such as d < 100, or raise max_rounds or max_rows of the view",
        )


@dataclass
class _Reading:
    """A rule, and for each of its atoms how many rows have been read; None before the first time."""

    rule: DatalogRule
    accept: Accept | None = None
    cursors: list[int] | None = None
    chains: dict[int, Chain] = field(default_factory=dict)

    def chain(self, start: int) -> Chain:
        if start not in self.chains:
            self.chains[start] = chain_of(self.rule, start)
        return self.chains[start]


class Evaluation:
    """Relations by name, and the rules that make some of them grow."""

    def __init__(self, relations: dict[str, Relation], limits: RecursionLimits | None = None) -> None:
        self.relations = relations
        self.limits = limits or RecursionLimits()
        self._readings: list[_Reading] = []
        self._late: list[tuple[int, LateStep]] = []
        self._rounds = 0
        self._grew = ""

    def rows(self, predicate: str) -> IndexedRows:
        """The rows that a predicate grows by; it begins empty."""
        relation = self.relations.setdefault(predicate, IndexedRows())
        if isinstance(relation, NewState):
            return relation.more
        assert isinstance(relation, IndexedRows), f"{predicate} does not grow"
        return relation

    def add(self, rules: Iterable[DatalogRule], accept: Accept | None = None) -> None:
        """Rules whose answers count when ``accept`` lets them pass."""
        for rule in rules:
            self.rows(rule.head.predicate)
            self._readings.append(_Reading(rule, accept))

    def add_late(self, level: int, step: LateStep) -> None:
        self._late.append((level, step))
        self._late.sort(key=lambda entry: entry[0])

    def add_late_rule(self, level: int, rule: DatalogRule) -> None:
        self.rows(rule.head.predicate)
        reading = _Reading(rule)
        self.add_late(level, lambda: self._advance(reading))

    def mark(self) -> tuple[int, tuple[tuple[int, LateStep], ...]]:
        """The rules and late steps so far, for ``release``."""
        return len(self._readings), tuple(self._late)

    def release(self, mark: tuple[int, tuple[tuple[int, LateStep], ...]]) -> None:
        """Forget the rules and late steps that came after the mark; what they derived stays."""
        del self._readings[mark[0] :]
        self._late = list(mark[1])

    def run(self) -> None:
        """To the fixpoint."""
        while any([self._advance(reading) for reading in self._readings]) or self._advance_late():
            self._rounds += 1
            self.limits.check(self._rounds, 0, self._grew)

    def _advance_late(self) -> bool:
        return any(step() for _, step in self._late)

    def _advance(self, reading: _Reading) -> bool:
        """One step of one rule; whether it found anything new."""
        rule = reading.rule
        if reading.cursors is None:
            reading.cursors = [len(self._grown(atom.predicate)) for atom in rule.atoms]
            start, rows = (0, self._all(rule.atoms[0].predicate)) if rule.atoms else (-1, [()])
            return self._take(reading, reading.chain(start).derive(rows, self.relations))
        progress = False
        for position, atom in enumerate(rule.atoms):
            grown = self._grown(atom.predicate)
            if reading.cursors[position] < len(grown):
                rows = grown.order[reading.cursors[position] :]
                reading.cursors[position] = len(grown)
                progress = self._take(reading, reading.chain(position).derive(rows, self.relations)) or progress
        return progress

    def _take(self, reading: _Reading, found: set[Row]) -> bool:
        added = self._add(reading.rule.head.predicate, reading.accept(found) if reading.accept and found else found)
        if added:
            self._grew = reading.rule.head.predicate
            self.limits.check(0, len(self.rows(self._grew)), self._grew)
        return bool(added)

    def _add(self, predicate: str, found: Iterable[Row]) -> list[Row]:
        """Those of the rows that are new; what they were derived from was there before."""
        return self.rows(predicate).add(found)

    def _grown(self, predicate: str) -> IndexedRows:
        relation = self.relations[predicate]
        if isinstance(relation, NewState):
            return relation.more
        return relation if isinstance(relation, IndexedRows) else _NOTHING

    def _all(self, predicate: str) -> Iterable[Row]:
        relation = self.relations[predicate]
        return list(relation.order) if isinstance(relation, IndexedRows) else relation.matching((), EVERYTHING)


_NOTHING = IndexedRows()
