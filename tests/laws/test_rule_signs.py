"""Rules look only at blocks that can add rows to their condition, and miss none: random transactions of several
statements, in which rows go and come again, against the model in plain Python.

What one statement deletes and the next brings back is nothing for the transaction, but an instance that became true for
an immediate rule; and a deferred rule that has acted begins a block of its own.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.laws.test_rule_histories import absent, either, joined, logging, low, sums, values
from tests.rule_model import Action, Bag, Condition, Delta, Model, ModelRule, ModelTransaction, Refused, Row, State
from tests.support import bag_of, check_invariant

SCHEMA = """
CREATE TABLE r (k INT PRIMARY KEY, a INT, b INT); CREATE TABLE s (a INT, c INT); CREATE TABLE log (w VARCHAR, x INT);
"""
JOIN = "FROM r JOIN s ON r.a = s.a"


def distinct(state: State) -> Bag:
    return Counter(set(values(state)))


CONDITIONS = (
    Condition("SELECT k, b FROM r WHERE b < 3", ("k", "b"), low, lambda state: low(state, again=2)),
    Condition(f"SELECT r.k, s.c {JOIN}", ("k", "c"), joined, lambda state: joined(state, is_apart=True)),
    Condition(f"SELECT DISTINCT r.k, s.c {JOIN}", ("k", "c"), lambda state: Counter(set(joined(state)))),
    Condition("SELECT DISTINCT c FROM s", ("c",), distinct),
    Condition("SELECT k, a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)", ("k", "a"), absent),
    Condition("SELECT a FROM r WHERE b > 4 UNION ALL SELECT a FROM s WHERE c < 1", ("a",), either),
    Condition("SELECT a, SUM(c) AS t FROM s GROUP BY a HAVING SUM(c) > 3", ("a", "t"), sums),
)
EVENTS = ((), (), (), (("INSERT", "s"),), (("DELETE", "s"),), (("INSERT", "r"),), (("UPDATE", "r"),))


def removing(name: str) -> Action:
    """An action that makes what set it off false where it can."""

    def delta(state: State, rows: set[Row]) -> Delta:
        keys = {row[0] for row in rows}
        return "s", Counter({row: -n for row, n in state["s"].items() if row[0] in keys})

    return Action(f"DELETE FROM s WHERE a IN (SELECT {name} FROM condition)", delta)


def random_rule(choice: random.Random, name: str) -> ModelRule:
    condition, coupling = choice.choice(CONDITIONS), choice.choice(["immediate", "immediate", "deferred"])
    first = condition.names[0]
    actions = [logging(name, first), *([removing(first)] if choice.random() < 0.3 else [])]
    return ModelRule(
        name,
        condition,
        choice.choice([(), condition.names[:1]]),
        tuple(actions),
        is_nervous=condition.derivations is not None and choice.random() < 0.5,
        coupling=coupling,
        action_coupling=choice.choice([coupling, "deferred"]),
        events=choice.choice(EVENTS),
    )


def random_change(choice: random.Random, state: State) -> tuple[str, Delta]:
    """A statement over few rows, so that what went comes again."""
    k, a, b, c = (choice.randint(0, most) for most in (2, 1, 5, 2))
    known = {row[0]: row for row in state["r"]}
    match choice.choice(["r", "s", "s", "less r", "less s", "less s", "other b", "other a"]):
        case "s":
            return f"INSERT INTO s VALUES ({a}, {c})", ("s", Counter({(a, c): 1}))
        case "less s":
            gone = Counter({row: -n for row, n in state["s"].items() if row[0] == a})
            return f"DELETE FROM s WHERE a = {a}", ("s", gone)
        case "r" if k not in known:
            return f"INSERT INTO r VALUES ({k}, {a}, {b})", ("r", Counter({(k, a, b): 1}))
        case "less r" if k in known:
            return f"DELETE FROM r WHERE k = {k}", ("r", Counter({known[k]: -1}))
        case "other b" if k in known and known[k][2] != b:
            delta = Counter({known[k]: -1, (k, known[k][1], b): 1})
            return f"UPDATE r SET b = {b} WHERE k = {k}", ("r", delta)
        case "other a" if k in known and known[k][1] != a:
            delta = Counter({known[k]: -1, (k, a, known[k][2]): 1})
            return f"UPDATE r SET a = {a} WHERE k = {k}", ("r", delta)
    return "UPDATE r SET b = b", ("r", Counter())


def undone(last: Delta) -> tuple[str, Delta]:
    """A statement that brings back what the last one took away."""
    table, before = last
    gone = sorted(row for row, n in before.items() for _ in range(-n))
    come = {row[0] for row, n in before.items() if n > 0}
    if not gone:
        return "UPDATE r SET b = b", ("r", Counter())
    if not come:
        return f"INSERT INTO {table} VALUES {', '.join(map(str, gone))}", (table, Counter(gone))
    [(k, a, b)] = gone
    return f"UPDATE r SET a = {a}, b = {b} WHERE k = {k}", ("r", Counter({row: -n for row, n in before.items()}))


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
@settings(max_examples=examples(100))
@given(seed=st.integers(0, 10**9))
def test_no_firing_is_missed_where_rules_do_not_look(engine: str, seed: int) -> None:
    choice = random.Random(seed)
    model = Model({"r": Counter(), "s": Counter(), "log": Counter()}, frozenset({"r"}))
    with tm.connect(engine) as db:
        db.execute(SCHEMA)
        if choice.random() < 0.5:  # shares the join with rules
            db.execute(f"CREATE MATERIALIZED VIEW both AS SELECT r.k, s.c {JOIN}")
        for number in range(choice.randint(1, 3)):
            rule = random_rule(choice, f"q{number}")
            db.execute(f"{rule.text}; ACTIVATE RULE {rule.name}")
            model.rules.append(rule)
            model.active.add(rule.name)
        acts = any(len(rule.actions) > 1 for rule in model.rules)
        for _ in range(5):
            since, ours, theirs = db.version, db.transaction(), ModelTransaction(model)
            last: Delta | None = None
            try:
                for _ in range(choice.randint(1, 6)):
                    if last is not None and not acts and choice.random() < 0.5:
                        text, delta = undone(last)
                    else:
                        text, delta = random_change(choice, theirs.state)
                    theirs.change(delta)
                    last = delta
                    ours.execute(text)
                theirs.commit()
            except Refused:
                ours.rollback()
                continue
            ours.commit()
            assert {name: bag_of(db.query(f"SELECT * FROM {name}")) for name in model.state} == model.state
            told = db.firings(since).to_pylist()
            assert Counter((row["rule"], row["instances"]) for row in told) == theirs.fired
        check_invariant(db)
