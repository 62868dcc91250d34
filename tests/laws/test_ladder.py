"""Histories of random transactions under random views, whatever step of the ladder each of them takes.

After every transaction each view is audited, and its changes are the difference of its contents. The seeds are fixed,
so that it can be asserted that irrelevant, autonomous and differential steps really were taken.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

import tidemark as tm
from tests.effort import examples
from tests.laws import ladder_histories as histories
from tests.support import Bag, bag_of, changes_at
from tidemark.engines.limits import REFERENCE
from tidemark.sql.catalog.catalog import View
from tidemark.storage.delta import Rows
from tidemark.strategy.cost import Costs
from tidemark.strategy.irrelevant import can_add

REFUSED = {"primary_key", "check", "not_null"}
Lines = list[dict[str, Any]]


class History:
    """A database with some views, whose transactions are checked one by one. ``lines`` has all lines of the trace."""

    def __init__(self, engine: str, seed: int, definitions: Sequence[str]) -> None:
        self.choice = random.Random(seed)
        self.db = tm.connect(engine)
        self.db.execute(histories.TABLES)
        for statement in histories.first_rows(self.choice):
            self._try([statement])
        self.views = [f"v{number}" for number in range(len(definitions))]
        with self.db.transaction() as tx:
            for view, definition in zip(self.views, definitions, strict=True):
                tx.execute(f"CREATE MATERIALIZED VIEW {view} AS {definition}")
        self.contents = self.read()
        self.lines: Lines = []

    def read(self) -> dict[str, Bag]:
        return {view: bag_of(self.db.query(f"SELECT * FROM {view}")) for view in self.views}

    def transact(self, statements: Sequence[str], read: str | None = None) -> bool:
        """Run a transaction and check everything. Whether it was committed, or refused because of a constraint."""
        if not self._try(statements, read):
            assert self.read() == self.contents
            return False
        after = self.read()
        for view in self.views:
            audit = self.db.audit(view)
            assert audit.num_rows == 0, f"{view} after {statements}: {audit.to_pylist()}"
            before, now = self.contents[view], after[view]
            difference = {row: now[row] - before[row] for row in now.keys() | before.keys() if now[row] != before[row]}
            assert changes_at(self.db, view) == difference, f"{view} after {statements}"
        self.contents = after
        self.lines += self.last
        return True

    @property
    def last(self) -> Lines:
        lines: Lines = self.db.trace(self.db.version).to_pylist()
        return lines

    def _try(self, statements: Sequence[str], read: str | None = None) -> bool:
        try:
            with self.db.transaction() as tx:
                for statement in statements:
                    tx.execute(statement)
                    if read is not None:
                        tx.query(f"SELECT * FROM {read}")
        except tm.TidemarkError as error:
            assert error.code in REFUSED, f"{error} in {statements}"
            return False
        return True


def definitions(choice: random.Random, count: int) -> list[str]:
    found: list[str] = []
    for number in range(count):
        on_view = number and choice.random() < 0.15
        shape = choice.choice(histories.ON_VIEWS).format(v=f"v{choice.randrange(number)}") if on_view else None
        found.append(shape or histories.definition(choice))
    return found


def taken(lines: Lines) -> Counter[str]:
    return Counter(str(line["strategy"]) for line in lines)


def check_lines(lines: Lines) -> None:
    """What a line of the trace promises."""
    for line in lines:
        assert 0 <= line["rows_filtered"] <= line["rows_in"], line
        if line["strategy"] == "irrelevant":
            assert (line["rows_out"], line["rows_read"]) == (0, 0), line
            assert line["rows_filtered"] == line["rows_in"], line
        if line["strategy"] == "autonomous":
            assert line["rows_read"] == 0, line


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_every_step_of_the_ladder_keeps_the_invariant(engine: str) -> None:
    lines: Lines = []
    for seed in range(12):
        choice = random.Random(seed)
        history = History(engine, seed, definitions(choice, 5))
        for _ in range(8):
            read = choice.choice(history.views) if choice.random() < 0.3 else None
            history.transact(histories.transaction(choice), read)
        history.db.close()
        lines += history.lines
    check_lines(lines)
    steps = taken(lines)
    assert min(steps["irrelevant"], steps["autonomous"], steps["differential"]) > 50, steps
    assert any(0 < line["rows_filtered"] < line["rows_in"] for line in lines)
    by_rule = Counter(line["reason"].partition(" ")[2][:12] for line in lines if line["strategy"] == "autonomous")
    assert len(by_rule) >= 4, by_rule


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_nodes_that_are_evaluated_anew_keep_the_invariant(
    engine: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever nodes find their differentials too dear: all that may, or some of them, at random."""
    lines: Lines = []
    deciding = random.Random(7)
    for seed in range(40, 40 + examples(12)):
        choice = random.Random(seed)
        monkeypatch.setattr(Costs, "are_dearer", property(lambda _: deciding.random() < share))
        history = History(engine, seed, definitions(choice, 5))
        for _ in range(8):
            read = choice.choice(history.views) if choice.random() < 0.3 else None
            history.transact(histories.transaction(choice), read)
        history.db.close()
        lines += history.lines
    check_lines(lines)
    assert taken(lines)["complete"] > 4, taken(lines)


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_views_that_share_their_joins_keep_the_invariant(engine: str) -> None:
    """Several views of one shape, which differ in their conditions, and have what each of them has alone."""
    lines: Lines = []
    shapes = [shape for shape in histories.SHAPES if "JOIN" in shape or ", s WHERE" in shape]
    for seed in range(60, 60 + examples(15)):
        choice = random.Random(seed)
        alike = histories.alike(choice, choice.choice(shapes), 3) + definitions(choice, 1)
        together, apart = History(engine, seed, alike), [History(engine, seed, [one]) for one in alike[:3]]
        for _ in range(6):
            statements = histories.transaction(choice)
            committed = together.transact(statements)
            for number, alone in enumerate(apart):
                assert alone.transact(statements) == committed
                assert alone.contents["v0"] == together.contents[f"v{number}"], alike[number]
        for history in (together, *apart):
            history.db.close()
        lines += together.lines
    check_lines(lines)
    shared = [line for line in lines if "/shared" in line["node"]]
    assert {"irrelevant", "differential"} <= taken(shared).keys(), taken(shared)


def test_changes_that_can_add_no_row_add_none() -> None:
    said = Counter[bool]()
    for seed in range(80, 80 + examples(60)):
        choice = random.Random(seed)
        history = History("reference", seed, [histories.definition(choice)])
        view = history.db._store.catalog.relations["v0"]
        assert isinstance(view, View)
        for _ in range(8):
            if history.transact([histories.statement(choice, choice.choice(histories.NAMES))]):
                version = history.db.version
                changes = {name: history.db.changes(name, since=version - 1) for name in histories.NAMES}
                deltas = {n: Rows.of(c.drop_columns(["_version", "_time"])) for n, c in changes.items() if c.num_rows}
                may_grow = can_add(view.plan, deltas)
                said[may_grow] += 1
                assert may_grow or all(weight < 0 for weight in changes_at(history.db, "v0").values()), view.text
        history.db.close()
    assert min(said[True], said[False]) > examples(60) // 2, said


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_many_views_are_found_and_have_the_contents_that_they_have_alone(engine: str) -> None:
    """The same history under many views, of which those are looked up that matter, and under each of some alone."""
    choice = random.Random(77)
    many = definitions(choice, 5 * REFERENCE.many_readers)
    alone = [number for number in range(0, len(many), 9) if " v" not in many[number]]
    together = History(engine, 5, many)
    apart = {number: History(engine, 5, [many[number]]) for number in alone}
    assert len(apart) > 5
    for _ in range(6):
        statements = histories.transaction(choice)
        committed = together.transact(statements)
        for number, history in apart.items():
            assert history.transact(statements) == committed
            assert history.contents["v0"] == together.contents[f"v{number}"], many[number]
    for history in (together, *apart.values()):
        check_lines(history.lines)
        history.db.close()
    assert sum("other nodes" in line["node"] for line in together.lines) > 2
    assert {"irrelevant", "autonomous", "differential"} <= taken(together.lines).keys()


def test_classify_says_before_what_the_trace_says_after() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(100, 115):
        choice = random.Random(seed)
        # One view alone: a join that is shared with another one is evaluated for both.
        definition = histories.definition(choice)
        history = History("duckdb", seed, [definition])
        for _ in range(12):
            table = choice.choice(histories.tables_of(definition) * 3 + list(histories.NAMES))
            statements = [histories.statement(choice, table) for _ in range(choice.choice((1, 1, 2)))]
            said = history.db.classify("v0", "; ".join(statements))
            before = history.contents["v0"]
            if not history.transact(statements):
                continue
            kinds[said.kind] += 1
            strategies = {line["strategy"] for line in history.last}
            where = f"{said} for {statements}: {history.last}"
            if said.kind == "untouched":
                assert not strategies, where
            if said.kind in ("untouched", "irrelevant"):
                assert history.contents["v0"] == before, where
            if said.kind == "autonomous" and "proved of the statement" not in said.reason:
                assert strategies <= {"autonomous", "irrelevant"}, where
        history.db.close()
    assert min(kinds[kind] for kind in ("untouched", "irrelevant", "autonomous", "conditional", "differential")) > 3, (
        kinds
    )
