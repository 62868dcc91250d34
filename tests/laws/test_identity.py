"""Rules, changes in pairs and subscribers tell of the same rows as a model in which every row has a number.

The model keeps rows by numbers: an UPDATE leaves a row its number, whatever it does to its key. A block is what the
numbers stood for at its beginning and at its end. A row that went and one with the same key that came (without a key,
an equal one) are the same: then the numbers become one at the end of the transaction.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.support import check_invariant
from tidemark.engines.spark import SparkEngine

Row = tuple[Any, ...]
Rows = dict[int, Row]
Pair = tuple[Row | None, Row | None]
COUPLINGS = ("immediate", "deferred", "detached")
TABLES = {"t": True, "h": False}
"""Whether the first column is a key."""
EVENTS = {
    "came": ("INSERT", "nk, nv", "k, v FROM inserted"),
    "went": ("DELETE", "ok, ov", "k, v FROM deleted"),
    "other": ("UPDATE", "ok, ov, nk, nv", "old_k, old_v, new_k, new_v FROM updated"),
    "value": ("UPDATE OF v", "ok, ov, nk, nv", "old_k, old_v, new_k, new_v FROM updated"),
    "new": ("UPDATE", "nk, nv", "k, v FROM inserted"),
    "old": ("UPDATE OF k", "ok, ov", "k, v FROM deleted"),
}
FIRST: dict[str, list[Row]] = {"t": [(0, 0), (1, 1), (2, 0), (4, 4)], "h": [(0, 0), (0, 0), (1, 0), (1, 1), (3, 3)]}
SETUP = """
CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE TABLE h (k INT, v INT);
CREATE TABLE log (w VARCHAR, ok INT, ov INT, nk INT, nv INT);
"""


def rules() -> list[str]:
    return [
        f"CREATE RULE {name}_{table}_{coupling} ON {event} ON {table} DO INSERT INTO log (w, {into}) "
        f"SELECT '{name} {table} {coupling}', {columns} WITH (coupling = '{coupling}'); "
        f"ACTIVATE RULE {name}_{table}_{coupling}"
        for table in TABLES
        for coupling in COUPLINGS
        for name, (event, into, columns) in EVENTS.items()
    ]


def pairs(before: Rows, after: Rows, has_key: bool) -> list[Pair]:
    """What happened to rows in a block: (old, new), with None for what was not there."""
    found: list[Pair] = [(before[n], after[n]) for n in before.keys() & after.keys() if before[n] != after[n]]
    gone = [row for n, row in before.items() if n not in after]
    for row in [row for n, row in after.items() if n not in before]:
        same = [one for one in gone if (one[0] == row[0] if has_key else one == row)]
        if same:
            gone.remove(same[0])
        old = same[0] if same else None
        if old != row:
            found.append((old, row))
    return found + [(row, None) for row in gone]


def merged(before: Rows, after: Rows, has_key: bool) -> Rows:
    """The rows after a transaction, where those that went and came back have the number that they had."""
    result, gone = dict(after), {n: row for n, row in before.items() if n not in after}
    for n in [n for n in after if n not in before]:
        row = result.pop(n)
        same = [m for m, one in gone.items() if (one[0] == row[0] if has_key else one == row)]
        if same:
            gone.pop(same[0])
        result[same[0] if same else n] = row
    return result


@dataclass
class Model:
    """The tables by numbers, and what rules must have noted."""

    rows: dict[str, Rows] = field(default_factory=lambda: {name: {} for name in TABLES})
    noted: Counter[Row] = field(default_factory=Counter)
    numbers: int = 0

    def note(self, coupling: str, table: str, before: Rows) -> None:
        for old, new in pairs(before, self.rows[table], TABLES[table]):
            names = ["came"] if old is None else ["went"] if new is None else ["other", "new"]
            if old is not None and new is not None:
                names += (["old"] if old[0] != new[0] else []) + (["value"] if old[1] != new[1] else [])
            for name in names:
                left, right = (
                    (None if name == "new" else old) or (None, None),
                    (None if name == "old" else new) or (None, None),
                )
                self.noted[(f"{name} {table} {coupling}", *left, *right)] += 1

    def insert(self, table: str, row: Row) -> None:
        self.numbers += 1
        self.rows[table][self.numbers] = row

    def update(self, table: str, chosen: Callable[[Row], bool], made: Callable[[Row], Row]) -> None:
        self.rows[table] = {n: made(row) if chosen(row) else row for n, row in self.rows[table].items()}

    def delete(self, table: str, chosen: Callable[[Row], bool]) -> None:
        self.rows[table] = {n: row for n, row in self.rows[table].items() if not chosen(row)}

    def is_valid(self) -> bool:
        keys = [row[0] for row in self.rows["t"].values()]
        return len(set(keys)) == len(keys)


SMALL = st.integers(0, 4)
STATEMENT = st.tuples(
    st.sampled_from(["insert", "insert", "delete", "key", "all keys", "value", "swap", "both", "back", "nothing"]),
    st.sampled_from(["t", "t", "h"]),
    SMALL,
    SMALL,
)
TRANSACTION = st.tuples(st.lists(STATEMENT, min_size=1, max_size=5), st.sampled_from(["commit"] * 7 + ["rollback"]))
HISTORY = st.lists(TRANSACTION, min_size=1, max_size=5)
Statement = tuple[str, str, int, int]


def run(statement: Statement, model: Model) -> str:
    """A statement's text; the model does the same."""
    kind, table, a, b = statement
    match kind:
        case "insert":
            model.insert(table, (a, b))
            return f"INSERT INTO {table} VALUES ({a}, {b})"
        case "delete":
            model.delete(table, lambda row: row[0] == a)
            return f"DELETE FROM {table} WHERE k = {a}"
        case "key":
            model.update(table, lambda row: row[0] == a, lambda row: (b, row[1]))
            return f"UPDATE {table} SET k = {b} WHERE k = {a}"
        case "all keys":
            model.update(table, lambda row: row[0] >= a, lambda row: (row[0] + 1 + b, row[1]))
            return f"UPDATE {table} SET k = k + {1 + b} WHERE k >= {a}"
        case "value":
            model.update(table, lambda row: row[0] <= a, lambda row: (row[0], b))
            return f"UPDATE {table} SET v = {b} WHERE k <= {a}"
        case "swap":
            other = {a: b, b: a}
            model.update(table, lambda row: row[0] in other, lambda row: (other[row[0]], row[1]))
            return f"UPDATE {table} SET k = CASE k WHEN {a} THEN {b} ELSE {a} END WHERE k IN ({a}, {b})"
        case "both":
            model.update(table, lambda row: True, lambda row: (row[1] + 5 * row[0], row[0]))
            return f"UPDATE {table} SET k = v + 5 * k, v = k"
        case "back":
            model.update(table, lambda row: row[0] > 4, lambda row: (row[0] - 5, row[1]))
            return f"UPDATE {table} SET k = k - 5 WHERE k > 4"
    return f"UPDATE {table} SET v = v, k = k"


def follow(db: tm.Database, history: list[tuple[list[Statement], str]], reopen: Callable[[], tm.Database]) -> None:
    model, told = Model(), list[tuple[int, list[Pair]]]()
    db.execute(SETUP)
    for table, first in FIRST.items():
        for row in first:
            model.insert(table, row)
        db.insert(table, first)
    for text in rules():
        db.execute(text)
    began, at_first = db.version, dict(model.rows["t"])
    each, net = (
        db.subscribe("t", since=began, paired=True),
        db.subscribe("t", since=began, paired=True, precision="net"),
    )
    for statements, end in history:
        before, noted = {name: dict(rows) for name, rows in model.rows.items()}, Counter(model.noted)
        tx = db.transaction()
        for statement in statements:
            table, at = statement[1], {name: dict(rows) for name, rows in model.rows.items()}
            text = run(statement, model)
            if not model.is_valid():
                model.rows = at
                continue
            tx.execute(text)
            model.note("immediate", table, at[table])
        if end == "rollback":
            tx.rollback()
            model.rows, model.noted = before, noted
            continue
        version = db.version + 1
        tx.commit()
        for table, has_key in TABLES.items():
            for coupling in ("deferred", "detached"):
                model.note(coupling, table, before[table])
            found = pairs(before[table], model.rows[table], has_key)
            if table == "t":
                told.append((version, found))
            model.rows[table] = merged(before[table], model.rows[table], has_key)
    for table, rows in model.rows.items():
        assert bag(db.query(f"SELECT * FROM {table}")) == Counter(rows.values())
    assert bag(db.query("SELECT * FROM log")) == model.noted
    expected = Counter((version, pair) for version, found in told for pair in found)
    assert polled(each) == expected
    whole = Counter(pairs(at_first, model.rows["t"], True))
    assert Counter(pair for _, pair in polled(net).elements()) == whole
    assert read(db, began) == expected
    check_invariant(db)
    again = reopen()
    assert read(again, began) == expected
    later = again.subscribe("t", since=began, paired=True)
    assert polled(later) == expected


def bag(table: Any) -> Counter[Row]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def read(db: tm.Database, since: int) -> Counter[tuple[int, Pair]]:
    found = db.changes("t", since=since, paired=True).to_pylist()
    for change in found:
        assert change["key"] == {"k": (change["old"] or change["new"])["k"]}
        assert change["_change"] == ("inserted" if not change["old"] else "updated" if change["new"] else "deleted")
    return Counter((change["_version"], (cells(change["old"]), cells(change["new"]))) for change in found)


def polled(subscription: tm.Subscription) -> Counter[tuple[int, Pair]]:
    found = Counter[tuple[int, Pair]]()
    while (change := subscription.poll(0)) is not None:
        assert change.updated is not None
        found.update((change.version, (None, tuple(row.values()))) for row in change.inserted.to_pylist())
        found.update((change.version, (tuple(row.values()), None)) for row in change.deleted.to_pylist())
        for row in change.updated.to_pylist():
            found[change.version, (cells(row["old"]), cells(row["new"]))] += 1
    return found


def cells(row: dict[str, Any] | None) -> Row | None:
    return None if row is None else tuple(row.values())


@settings(max_examples=examples(60))
@given(HISTORY)
def test_rows_have_one_identity_for_all_who_ask(history: list[tuple[list[Statement], str]]) -> None:
    with tm.connect("reference") as db:
        follow(db, history, lambda: db)


@settings(max_examples=examples(12))
@given(HISTORY)
def test_identity_outlives_the_process(history: list[tuple[list[Statement], str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        reopened(f"duckdb:{Path(folder) / 'db.duckdb'}", history)


def reopened(target: str, history: list[tuple[list[Statement], str]]) -> None:
    opened = [tm.connect(target)]

    def again() -> tm.Database:
        opened[-1].close()
        opened.append(tm.connect(target))
        return opened[-1]

    try:
        follow(opened[0], history, again)
    finally:
        opened[-1].close()


@pytest.mark.spark
@settings(max_examples=examples(3))
@given(HISTORY)
def test_identity_outlives_the_process_on_a_lake(spark: Any, history: list[tuple[list[Statement], str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        opened = [tm.Database(SparkEngine(folder, spark))]

        def again() -> tm.Database:
            opened[-1].close()
            opened.append(tm.Database(SparkEngine(folder, spark)))
            return opened[-1]

        try:
            follow(opened[0], history, again)
        finally:
            opened[-1].close()
