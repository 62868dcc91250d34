"""Derived keys are true: whatever the data, rows of the plan are told apart by each of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.laws.strategies import TABLES, databases, plans
from tidemark.algebra.expressions import Literal
from tidemark.algebra.keys import RelationKeys, keys_of
from tidemark.algebra.plans import Distinct, Plan, Repeat, Scan
from tidemark.algebra.types import BIGINT
from tidemark.calculus.as_of import Block, resolve
from tidemark.engines.reference.evaluate import evaluate

Row = tuple[Any, ...]

CHOICES: dict[str, list[frozenset[tuple[int, ...]]]] = {
    "r": [frozenset({(0, 1)}), frozenset({(0,)}), frozenset({(0,), (1,)}), frozenset({()}), frozenset()],
    "s": [frozenset({(0, 1)}), frozenset({(0,)}), frozenset({(1,)}), frozenset()],
    "t": [frozenset({(0,)}), frozenset()],
}


@st.composite
def keyed_databases(draw: st.DrawFn) -> tuple[RelationKeys, dict[str, dict[Row, int]]]:
    """Keys of the tables, and contents that keep them: of rows that agree in a key only the first stays, once."""
    keys = {name: draw(st.sampled_from(choices)) for name, choices in CHOICES.items()}
    content = {name: _keeping(rows, keys[name]) for name, rows in draw(databases).items()}
    return keys, content


def _keeping(rows: dict[Row, int], keys: frozenset[tuple[int, ...]]) -> dict[Row, int]:
    if not keys:
        return rows
    kept: dict[Row, int] = {}
    for row in rows:
        if not any(_agree(row, other, key) for other in kept for key in keys):
            kept[row] = 1
    return kept


def _agree(left: Row, right: Row, key: tuple[int, ...]) -> bool:
    return all(left[position] == right[position] for position in key)


@settings(max_examples=examples(500))
@given(st.integers(0, 3).flatmap(plans), keyed_databases())
def test_rows_are_unique_on_each_derived_key(plan: Plan, database: tuple[RelationKeys, dict[str, Any]]) -> None:
    keys, content = database
    found = keys_of(plan, keys)
    rows = evaluate(resolve(plan, Block()), content, {})
    for key in found:
        seen: set[Row] = set()
        for row, weight in rows.items():
            value = tuple(row[position] for position in key)
            assert weight == 1 and value not in seen, f"{key} of {sorted(found)} is no key: {row} × {weight}"
            seen.add(value)


@given(plans(), keyed_databases())
def test_no_derived_key_contains_another(plan: Plan, database: tuple[RelationKeys, dict[str, Any]]) -> None:
    found = [set(key) for key in keys_of(plan, database[0])]
    assert not any(one < other for one in found for other in found)


def test_every_table_of_the_strategies_has_choices_of_keys() -> None:
    assert CHOICES.keys() == TABLES.keys()


def test_rows_that_are_repeated_have_no_key_but_keep_what_determines_what() -> None:
    scan = Scan("r", TABLES["r"])
    repeated = Repeat(scan, Literal(2, BIGINT))
    keys: RelationKeys = {"r": frozenset({(0,)})}
    assert keys_of(repeated, keys) == frozenset()
    assert keys_of(Distinct(repeated), keys) == {(0,)}
