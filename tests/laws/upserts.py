"""Random loads by key beside a dictionary, which says what a table is to hold and what each load is to change."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import tidemark as tm
from tests.support import changes_at, check_invariant, rows

Row = tuple[int, str | None, float | None]
Frames = Callable[[pa.Table], Any]

SETUP = """
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR, c DOUBLE);
CREATE TABLE other (b VARCHAR, name VARCHAR);
CREATE MATERIALIZED VIEW counted AS SELECT b, COUNT(*) AS n, MAX(c) AS most FROM t GROUP BY b;
CREATE MATERIALIZED VIEW joined AS SELECT t.a, o.name FROM t LEFT JOIN other o ON o.b = t.b;
INSERT INTO other VALUES ('x', 'X'), ('x', 'XX'), (NULL, 'none');
"""
SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.float64())])


def arrow(found: list[Row]) -> pa.Table:
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(_columns(found), SCHEMA, strict=True)], SCHEMA
    )


def _columns(found: list[Row]) -> list[Any]:
    return list(zip(*found, strict=True)) if found else [(), (), ()]


def a_row(draw: random.Random, key: int) -> Row:
    return key, draw.choice(["x", "y", "", None]), draw.choice([0.0, -0.0, 1.5, math.nan, None])


def play(db: tm.Database, seed: int, loads: int, frames: tuple[Frames, ...], keys: int = 12) -> None:
    """Load at random; after each load the table, its change and every view are what the dictionary says."""
    draw, model = random.Random(seed), dict[int, Row]()
    db.execute(SETUP)
    for _ in range(loads):
        before = Counter(model.values())
        with db.transaction() as tx:
            for _ in range(draw.choice([1, 1, 2, 3])):
                _load(tx, model, draw, draw.choice(frames), keys)
        expected = Counter(map(_plain, model.values()))
        assert Counter(map(tuple, rows(db.query("SELECT * FROM t")))) == _as_read(expected)
        change = Counter(map(_plain, before.elements()))
        net = {row: expected[row] - change[row] for row in {*expected, *change} if expected[row] != change[row]}
        assert changes_at(db, "t") == dict(_as_read(net))
    check_invariant(db)


def _load(tx: tm.Transaction, model: dict[int, Row], draw: random.Random, frame: Frames, keys: int) -> None:
    chosen = draw.sample(range(keys), draw.randint(0, keys))
    match draw.choice(["upsert", "upsert", "sync", "insert", "delete"]):
        case "upsert":
            coming = [model[key] if key in model and draw.random() < 0.3 else a_row(draw, key) for key in chosen]
            tx.upsert("t", frame(arrow(coming)))
            model.update({row[0]: row for row in coming})
        case "sync":
            state = [model.get(key, a_row(draw, key)) for key in chosen]
            tx.sync("t", frame(arrow(state)))
            model.clear()
            model.update({row[0]: row for row in state})
        case "insert":
            fresh = [a_row(draw, key) for key in chosen if key not in model]
            tx.insert("t", frame(arrow(fresh)))
            model.update({row[0]: row for row in fresh})
        case "delete":
            gone = [model.pop(key) for key in chosen if key in model]
            tx.delete("t", frame(arrow(gone)))


def _plain(row: Row) -> Row:
    """A row as a dictionary can tell it from others: one zero, and one text for not-a-number."""
    a, b, c = row
    return a, b, None if c is None else ("nan" if math.isnan(c) else c + 0.0)  # type: ignore[return-value]


def _as_read(bag: Any) -> Counter[Any]:
    from tidemark.algebra.functions import canonical

    return Counter({(a, b, canonical(math.nan) if c == "nan" else c): count for (a, b, c), count in bag.items()})
