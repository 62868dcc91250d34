"""Random histories of statements and of rules that change each other's data do what the model in plain Python does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemark as tm
from tests.rule_model import Action, Bag, Condition, Delta, Model, ModelRule, ModelTransaction, Refused, Row, State
from tests.support import bag_of, check_invariant

SEEDS = {"reference": 25, "duckdb": 8, "file": 8}
SCHEMA = """
CREATE TABLE r (k INT PRIMARY KEY, a INT, b INT); CREATE TABLE s (a INT, c INT); CREATE TABLE log (w VARCHAR, x INT);
CREATE VIEW low AS SELECT k, a, b FROM r WHERE b < 3; CREATE VIEW lower AS SELECT k, b FROM low;
CREATE MATERIALIZED VIEW kept AS SELECT k, a, b FROM r WHERE b < 5;
CREATE MATERIALIZED VIEW kept_low AS SELECT k, b FROM kept WHERE b < 3;
CREATE MATERIALIZED VIEW both AS SELECT r.k, s.c FROM r JOIN s ON r.a = s.a;
"""


def low(state: State, *, again: int = 1) -> Bag:
    return Counter({(k, b) * again: n for (k, _, b), n in state["r"].items() if b is not None and b < 3})


def joined(state: State, *, is_apart: bool = False) -> Bag:
    found: Bag = Counter()
    for (k, a, _), n in state["r"].items():
        for (key, c), m in state["s"].items():
            if a is not None and a == key:
                found[(k, c, a) if is_apart else (k, c)] += n * m
    return found


def sums(state: State) -> Bag:
    groups: dict[Any, list[int]] = {}
    for a, c in state["s"].elements():
        groups.setdefault(a, []).extend([] if c is None else [c])
    return Counter({(a, sum(values)): 1 for a, values in groups.items() if values and sum(values) > 3})


def absent(state: State) -> Bag:
    keys = {a for a, _ in state["s"]} - {None}
    return Counter({(k, a): n for (k, a, _), n in state["r"].items() if a not in keys})


def values(state: State) -> Bag:
    return Counter((c,) for _, c in state["s"].elements())


def either(state: State, *, is_apart: bool = False) -> Bag:
    found: Bag = Counter()
    for (_, a, b), n in state["r"].items():
        if b is not None and b > 4:
            found[(a, "r", b) if is_apart else (a,)] += n
    for (a, c), n in state["s"].items():
        if c is not None and c < 1:
            found[(a, "s", c) if is_apart else (a,)] += n
    return found


CONDITIONS = (
    Condition("SELECT k, b FROM r WHERE b < 3", ("k", "b"), low, lambda state: low(state, again=2)),
    Condition("SELECT k, b FROM lower", ("k", "b"), low, lambda state: low(state, again=2)),
    Condition("SELECT k, b FROM kept_low", ("k", "b"), low, low),
    Condition("SELECT r.k, s.c FROM r JOIN s ON r.a = s.a", ("k", "c"), joined, lambda s: joined(s, is_apart=True)),
    Condition("SELECT k, c FROM both", ("k", "c"), joined, joined),
    Condition("SELECT a, SUM(c) AS t FROM s GROUP BY a HAVING SUM(c) > 3", ("a", "t"), sums, sums),
    Condition("SELECT k, a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)", ("k", "a"), absent),
    Condition("SELECT c FROM s", ("c",), values, values),
    Condition("SELECT DISTINCT c FROM s", ("c",), lambda state: Counter(set(values(state))), values),
    Condition(
        "SELECT a FROM r WHERE b > 4 UNION ALL SELECT a FROM s WHERE c < 1",
        ("a",),
        either,
        lambda state: either(state, is_apart=True),
    ),
)


def updated(state: State, chosen: Any, change: Any) -> Delta:
    """What an UPDATE of r does: the rows that are chosen leave, and come changed."""
    delta: Bag = Counter()
    for row, n in state["r"].items():
        if chosen(row):
            delta[row] -= n
            delta[change(*row)] += n
    return "r", delta


def logging(name: str, column: str) -> Action:
    def delta(state: State, rows: set[Row]) -> Delta:
        return "log", Counter((name, row[0]) for row in rows)

    return Action(f"INSERT INTO log SELECT '{name}', CAST({column} AS INT) FROM condition", delta)


def changing(choice: random.Random, column: str) -> Action:
    """An action that changes a table below conditions."""
    if column in ("a", "c"):
        place = 0 if column == "a" else 1

        def gone(state: State, rows: set[Row]) -> Delta:
            keys = {row[0] for row in rows} - {None}
            return "s", Counter({row: -n for row, n in state["s"].items() if row[place] in keys})

        return Action(f"DELETE FROM s WHERE {column} IN (SELECT {column} FROM condition)", gone)
    keys = "WHERE k IN (SELECT k FROM condition)"

    def among(rows: set[Row]) -> Any:
        return lambda row: row[0] in {one[0] for one in rows}

    return choice.choice(
        [
            Action("INSERT INTO s SELECT k, 0 FROM condition", lambda _, rows: ("s", Counter((r[0], 0) for r in rows))),
            Action(
                f"UPDATE r SET b = b + 1 {keys}",
                lambda s, rows: updated(s, among(rows), lambda k, a, b: (k, a, None if b is None else b + 1)),
            ),
            Action(
                f"UPDATE r SET a = NULL {keys}", lambda s, rows: updated(s, among(rows), lambda k, a, b: (k, None, b))
            ),
        ]
    )


def random_rule(choice: random.Random, name: str) -> ModelRule:
    condition = choice.choice(CONDITIONS)
    coupling = choice.choice(["deferred", "deferred", "immediate", "immediate", "detached"])
    apart = {
        "deferred": ["deferred", "deferred", "detached"],
        "immediate": ["immediate", "immediate", "deferred", "detached"],
        "detached": ["immediate", "detached"],
    }
    events = [(), (), (("INSERT", "r"),), (("DELETE", "s"),), (("UPDATE", "r"),), (("INSERT", "s"), ("DELETE", "r"))]
    actions = [logging(name, condition.names[0])]
    if choice.random() < 0.5:
        actions.append(changing(choice, condition.names[0]))
        choice.shuffle(actions)
    return ModelRule(
        name,
        condition,
        choice.choice([(), condition.names[:1], condition.names]),
        tuple(actions),
        condition.derivations is not None and choice.random() < 0.3,
        coupling,
        choice.choice(apart[coupling]),
        choice.choice([0, 0, 1, -1]),
        () if coupling == "detached" else choice.choice(events),
    )


def random_statement(choice: random.Random, state: State) -> tuple[str, Delta]:
    """A statement, and what it does to the state."""

    def some(most: int) -> int | None:
        found = choice.randint(-1, most - 1)
        return None if found < 0 else found

    def text(*row: int | None) -> str:
        return f"({', '.join('NULL' if value is None else str(value) for value in row)})"

    k, keys = choice.randint(0, 9), {row[0] for row in state["r"]}
    range_ = f"k >= {k} AND k < {k + 3}"
    match choice.choice(["insert", "delete", "update a", "update b", "update k", *["more"] * 3, "fewer", "nothing"]):
        case "insert" if k not in keys:
            row = (k, some(6), some(7))
            return f"INSERT INTO r VALUES {text(*row)}", ("r", Counter([row]))
        case "insert" | "delete":
            gone: Bag = Counter({row: -n for row, n in state["r"].items() if k <= row[0] < k + 3})
            return f"DELETE FROM r WHERE {range_}", ("r", gone)
        case "update a":
            a = some(6)
            delta = updated(state, lambda row: k <= row[0] < k + 3, lambda k, _, b: (k, a, b))
            return f"UPDATE r SET a = {text(a)} WHERE {range_}", delta
        case "update b":
            new = some(7)
            delta = updated(state, lambda row: k <= row[0] < k + 3, lambda k, a, b: (k, a, new))
            return f"UPDATE r SET b = {text(new)} WHERE {range_}", delta
        case "update k":
            other = next(key for key in (*range(10, 15), k) if key not in keys - {k})
            delta = updated(state, lambda row: row[0] == k, lambda _, a, b: (other, a, b))
            return f"UPDATE r SET k = {other} WHERE k = {k}", delta
        case "more":
            rows = [(some(6), some(4)) for _ in range(choice.randint(1, 3))]
            return f"INSERT INTO s VALUES {', '.join(text(*row) for row in rows)}", ("s", Counter(rows))
        case "fewer":
            c = some(4)
            less: Bag = Counter({row: -n for row, n in state["s"].items() if row[1] == c})
            return f"DELETE FROM s WHERE c IS NOT DISTINCT FROM {text(c)}", ("s", less)
    return "UPDATE r SET b = b", ("r", Counter())


class History:
    def __init__(self, choice: random.Random, target: str) -> None:
        self.choice, self.target = choice, target
        self.db = tm.connect(target)
        self.model = Model({"r": Counter(), "s": Counter(), "log": Counter()}, frozenset({"r"}))
        self.done = list[str]()
        self.execute(SCHEMA)
        for number in range(choice.randint(1, 4)):
            self.create(f"q{number}")

    def execute(self, text: str) -> None:
        self.done.append(text)
        self.db.execute(text)

    def create(self, name: str) -> None:
        rule = random_rule(self.choice, name)
        self.execute(f"{rule.text}; ACTIVATE RULE {name}")
        self.model.rules.append(rule)
        self.model.active.add(name)

    def step(self) -> None:
        choice, rules = self.choice, self.model.rules
        match choice.choices(["rule", "drop", "open", "transaction"], [8, 4, 15, 73])[0]:
            case "rule" if rules:
                name = choice.choice(rules).name
                self.execute(f"{'DEACTIVATE' if name in self.model.active else 'ACTIVATE'} RULE {name}")
                self.model.active ^= {name}
            case "drop" if rules:
                rule = choice.choice(rules)
                self.execute(f"DROP RULE {rule.name}")
                rules.remove(rule)
                self.model.active.discard(rule.name)
                self.create(rule.name)
            case "open" if ":" in self.target:
                self.db.close()
                self.db = tm.connect(self.target)
            case _:
                self.transaction()

    def transaction(self) -> None:
        since, active = self.db.version, set(self.model.active)
        self.done.append("BEGIN")
        ours, model = self.db.transaction(), ModelTransaction(self.model)
        goes_on = all(self.statement(ours, model) for _ in range(self.choice.randint(1, 4)))
        if goes_on and self.choice.random() < 0.9:
            self.done.append("COMMIT")
            goes_on = self.both(model.commit, ours.commit)
        else:
            self.done.append("ROLLBACK")
            ours.rollback()
            goes_on = False
        if not goes_on:
            self.model.active = active
        fired = model.fired + self.model.run_detached() if goes_on else Counter()
        for table, rows in self.model.state.items():
            assert bag_of(self.db.query(f"SELECT * FROM {table}")) == rows, table
        assert fired == Counter(
            (row["rule"], row["instances"] if row["outcome"] == "done" else "dead")
            for row in self.db.firings(since).to_pylist()
            if row["outcome"] != "queued"
        )

    def statement(self, ours: tm.Transaction, model: ModelTransaction) -> bool:
        """Run a statement in both; whether the transaction goes on."""
        if self.choice.random() < 0.06:
            rule = self.choice.choice(self.model.rules)
            is_active = rule.name in self.model.active
            (model.deactivate if is_active else model.activate)(rule)
            text = f"{'DEACTIVATE' if is_active else 'ACTIVATE'} RULE {rule.name}"
            self.done.append(text)
            ours.execute(text)
            return True
        text, delta = random_statement(self.choice, model.state)
        self.done.append(text)
        return self.both(lambda: model.change(delta), lambda: ours.execute(text))

    @staticmethod
    def both(model: Callable[[], object], ours: Callable[[], object]) -> bool:
        """Do it in both; if the model refuses it, so must the database."""
        try:
            model()
        except Refused:
            with pytest.raises(tm.TidemarkError) as caught:
                ours()
            assert caught.value.code in ("cascade", "primary_key")
            return False
        ours()
        return True


@pytest.mark.parametrize("engine", ["reference", "duckdb", "file"])
def test_rules_do_what_the_model_does(engine: str, tmp_path: Path) -> None:
    for seed in range(SEEDS[engine]):
        target = f"duckdb:{tmp_path / f'{seed}.duckdb'}" if engine == "file" else engine
        history = History(random.Random(f"{engine} {seed}"), target)
        try:
            for _ in range(8):
                history.step()
            check_invariant(history.db)
        except BaseException:
            print(f"seed {seed}:", *history.done, sep=";\n")
            raise
        finally:
            history.db.close()
