"""Playing a round: the same steps on an engine, on the reference and on SQLite, and every answer compared."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import tidemark as tm
from tests.hunt.sqlite_voice import SQLite
from tests.hunt.steps import Ask, Checkpoint, Define, Load, Reopen, Round, Run, Step
from tests.oracle import same_bag
from tests.support import Bag, rows_in_order
from tidemark.engines.duckdb import DuckDBEngine
from tidemark.engines.reference import ReferenceEngine
from tidemark.errors import TidemarkError

MOST_FOR_REFERENCE: Final = 20_000
"""Of more rows than these SQLite alone is asked: the reference interprets."""
SHOWN_ROWS: Final = 12


@dataclass(frozen=True)
class Finding:
    """A wrong answer: where, what was found, and what it should be."""

    step: int
    what: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"step {self.step}, {self.what}\n  found    {self.found}\n  expected {self.expected}"


@dataclass
class Tally:
    """How much was compared."""

    rounds: int = 0
    answers: int = 0
    by_sqlite: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


Opening = Callable[[Path], tm.Database]


def openings() -> dict[str, Opening]:
    """The engines by the names that ``make hunt ENGINE=…`` takes."""
    from tidemark.engines.spark import SparkEngine
    from tidemark.engines.spark.session import ON_SPARK

    return {
        "reference": lambda _: tm.Database(ReferenceEngine()),
        "duckdb": lambda path: tm.Database(DuckDBEngine(str(path / "file.db"))),
        "statements": lambda path: tm.Database(DuckDBEngine(str(path / "file.db"), by_statements=True, gather_at=3)),
        "spark": lambda path: tm.Database(SparkEngine(str(path / "lake"))),
        "forced": lambda path: tm.Database(SparkEngine(str(path / "lake"), **ON_SPARK)),
    }


def play(round_: Round, engine: str, tally: Tally | None = None) -> Finding | None:
    """The first wrong answer of an engine in a round."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemark-hunt-")))
        player = _Player(round_, openings()[engine], folder, tally or Tally())
        stack.callback(player.close)
        return player.play()


class _Wrong(Exception):
    """Ends a round."""


class _Player:
    def __init__(self, round_: Round, opening: Opening, folder: Path, tally: Tally) -> None:
        self.schema, self.widths, self.steps, self.ties = round_.schema, round_.widths, round_.steps, round_.ties
        self.opening, self.folder, self.tally = opening, folder, tally
        self.tested = opening(folder)
        self.in_memory = isinstance(self.tested._store.engine, ReferenceEngine)
        self.reference, self.sqlite = tm.connect("reference"), SQLite()
        self.views: dict[str, Define] = {}
        self.content: dict[str, Bag] = {}
        self.place = 0
        self.finding: Finding | None = None
        self.rows = self.since = 0

    def close(self) -> None:
        self.tested.close()
        self.reference.close()
        self.sqlite.close()

    def play(self) -> Finding | None:
        for db in (self.tested, self.reference):
            db.execute(self.schema)
        self.sqlite.create(self.schema)
        try:
            for place, step in enumerate(self.steps):
                self.place = place
                self._take(step)
        except _Wrong:
            pass
        return self.finding

    def _take(self, step: Step) -> None:
        match step:
            case Run():
                self._changed(lambda db: _run(db, step), "; ".join(step.texts))
            case Load():
                rows = step.rows()
                self._changed(lambda db: db.insert("p", rows), f"{step.count} rows from {step.first} on")
            case Define():
                self._define(step)
            case Ask(query=query):
                self._compare(query, query)
            case Reopen() if not self.in_memory:
                self.tested.close()
                self.tested = self.opening(self.folder)
                self._check_views("reopened")
            case Checkpoint():
                _checkpoint(self.tested, self.widths)

    # Steps

    def _changed(self, change: Callable[[tm.Database], object], what: str) -> None:
        self.since = self.tested.version
        if self._same_end(change, what, reference=self.rows <= MOST_FOR_REFERENCE):
            return
        tables = {table: rows_in_order(self.tested.query(f"SELECT * FROM {table}")) for table in self.widths}
        self.rows = sum(map(len, tables.values()))
        for table, width in self.widths.items():
            self.sqlite.copy(table, tables[table], width)
            if self._reference_is_asked():
                self._same(
                    f"content of {table}", Counter(tables[table]), self.reference.query(f"SELECT * FROM {table}")
                )
        self._check_views(what)

    def _same_end(self, change: Callable[[tm.Database], object], what: str, *, reference: bool = True) -> bool:
        """Whether the change was refused, by both alike."""
        ends = [_end(change, self.tested), _end(change, self.reference)] if reference else [_end(change, self.tested)]
        if not reference and not self.in_memory:
            _end(change, self.reference)
        if len(set(ends)) > 1:
            self._wrong(what, ends[0] or "no error", ends[1] or "no error")
        return ends[0] is not None

    def _define(self, step: Define) -> None:
        # To the reference it is a name for its definition: nothing that is kept there could be wrong.
        def define(db: tm.Database) -> None:
            db.execute(step.text if db is self.tested else f"CREATE VIEW {step.name} AS {step.query}")

        if _end(lambda db: db.query(step.query), self.reference) is not None:
            return  # an error in a view refuses later changes, which is compared where views are asked for
        if self._same_end(define, step.text):
            return
        self.sqlite.define(step.name, step.query)
        self.views[step.name] = step
        self._check_view(step, f"filled {step.name}", fresh=True)

    def _check_views(self, what: str) -> None:
        for view in self.views.values():
            self._check_view(view, f"{view.name} AS {view.query} after {what}")

    def _check_view(self, view: Define, what: str, *, fresh: bool = False) -> None:
        if view.how == "SNAPSHOT" and not fresh:
            self.tested.execute(f"REFRESH {view.name}")
        query = f"SELECT * FROM {view.name}"
        found = self._compare(query, what)
        if view.how == "MATERIALIZED VIEW":
            self._check_changes(view, found, what, fresh=fresh)
        if view.how != "EXTERNAL VIEW":
            difference = self.tested.audit(view.name)
            if difference.num_rows:
                self._wrong(f"AUDIT of {what}", str(difference.to_pylist()[:SHOWN_ROWS]), "no difference")

    def _check_changes(self, view: Define, found: Bag, what: str, *, fresh: bool) -> None:
        """Changes are the difference of contents; a version that did not touch the view has none."""
        before, self.content[view.name] = (Counter() if fresh else self.content[view.name]), found
        if fresh or before is found or "reopened" in what:
            return
        keys = before.keys() | found.keys()
        expected = {row: found[row] - before[row] for row in keys if found[row] != before[row]}
        changed = _changes(self.tested, view.name, self.since)
        if changed != expected and not _close(changed, expected):
            self._wrong(f"changes of {what}", _shown(changed), _shown(expected))

    # Answers

    def _reference_is_asked(self) -> bool:
        return self.rows <= MOST_FOR_REFERENCE

    def _compare(self, query: str, what: str) -> Bag:
        found = _answer(self.tested, query)
        if self._reference_is_asked():
            self._same_answer(what, found, _answer(self.reference, query), "the reference")
        if isinstance(found, Counter):
            said = None if self.ties else self.sqlite.answer(query)
            if said is not None:
                self.tally.by_sqlite += 1
                self._same_answer(what, found, said, "SQLite")
            return found
        return Counter()

    def _same(self, what: str, found: Bag, expected: Any) -> None:
        self._same_answer(what, found, Counter(rows_in_order(expected)), "the reference")

    def _same_answer(self, what: str, found: Bag | str, expected: Bag | str, who: str) -> None:
        self.tally.answers += 1
        alike = found == expected
        if not alike and isinstance(found, Counter) and isinstance(expected, Counter):
            alike = found.total() == expected.total() <= MOST_FOR_REFERENCE // 20 and same_bag(found, expected)
        if not alike:
            self._wrong(f"{what} (by {who})", _shown(found), _shown(expected))

    def _wrong(self, what: str, found: str, expected: str) -> None:
        self.finding = Finding(self.place, what, found, expected)
        raise _Wrong


def _run(db: tm.Database, step: Run) -> None:
    with db.transaction() as transaction:
        for text in step.texts:
            transaction.execute(text)


def _end(change: Callable[[tm.Database], object], db: tm.Database) -> str | None:
    """The code of the error that a change ends with, if it does."""
    try:
        change(db)
    except TidemarkError as error:
        return error.code
    return None


def _changes(db: tm.Database, view: str, since: int) -> dict[tuple[Any, ...], int]:
    """What the versions after one did to a view, all in all: a refresh of what lags is a version, too."""
    found = db.changes(view, since=since).drop_columns(["_time"])
    total: Counter[tuple[Any, ...]] = Counter()
    rows = rows_in_order(found.drop_columns(["_version", "_weight"]))
    for row, weight in zip(rows, found["_weight"].to_pylist(), strict=True):
        total[row] += weight
    return {row: weight for row, weight in total.items() if weight}


def _answer(db: tm.Database, query: str) -> Bag | str:
    try:
        return Counter(rows_in_order(db.query(query)))
    except TidemarkError as error:
        return f"the error {error.code}"


def _close(found: dict[tuple[Any, ...], int], expected: dict[tuple[Any, ...], int]) -> bool:
    """Whether changes are equal but for the last digits of approximate values."""
    sides = [[Counter({r: s * w for r, w in side.items() if s * w > 0}) for s in (1, -1)] for side in (found, expected)]
    return all(same_bag(left, right) for left, right in zip(*sides, strict=True))


def _checkpoint(db: tm.Database, tables: dict[str, int]) -> None:
    engine: Any = db._store.engine
    if isinstance(engine, DuckDBEngine):
        engine._connection.execute("CHECKPOINT")
    elif not isinstance(engine, ReferenceEngine):
        for table in tables:
            engine.merge(table)


def _shown(answer: Any) -> str:
    if not isinstance(answer, dict):
        return str(answer)
    listed = sorted(answer.items(), key=str)
    more = f" and {len(listed) - SHOWN_ROWS} more" if len(listed) > SHOWN_ROWS else ""
    return f"{dict(listed[:SHOWN_ROWS])}{more}"
