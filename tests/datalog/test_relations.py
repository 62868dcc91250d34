"""Relations that rules read find what a set of rows says, however they are asked, and whatever was asked before."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tidemark.datalog.relations import IndexedRows, Memory, NewState, Relation, Remembered

Row = tuple[Any, ...]
VALUES = (None, 0, 1, 2)
EVERY = list(product(VALUES, VALUES, VALUES))
rows = st.sets(st.sampled_from(EVERY), max_size=20)
positions = st.sampled_from([(), (0,), (2,), (0, 1), (1, 2), (0, 1, 2)])
asked = st.lists(st.tuples(positions, st.sets(st.sampled_from(EVERY), max_size=12)), min_size=1, max_size=6)


def check(relation: Relation, content: set[Row], by: tuple[int, ...], some: set[Row]) -> None:
    keys = {tuple(row[position] for position in by) for row in some}
    wanted = {key: {row for row in content if tuple(row[position] for position in by) == key} for key in keys}
    found = relation.by_key(by, keys)
    for key in keys:
        listed = list(found.get(key, ()))
        assert len(listed) == len(set(listed))
        assert set(listed) == wanted[key]
    assert relation.holding(by, keys) == {key for key in keys if wanted[key]}
    assert sorted(relation.matching(by, keys), key=repr) == sorted(set().union(*wanted.values()), key=repr)


@settings(max_examples=examples(150), deadline=None)
@given(old=rows, gone=rows, coming=st.lists(rows, min_size=1, max_size=3), questions=asked)
def test_a_new_state_is_the_old_one_without_what_is_gone_and_with_what_came(
    old: set[Row], gone: set[Row], coming: list[set[Row]], questions: list[tuple[tuple[int, ...], set[Row]]]
) -> None:
    before, gone = Remembered(Memory({"r": old}), "r"), gone & old
    more = IndexedRows()
    state = NewState(before, IndexedRows(gone), more)
    content = old - gone
    for some in coming:
        # A rule adds what is derived again, and what is new.
        assert set(more.add(some - content)) == some - content
        content |= some
        for by, keys in questions:
            check(before, old, by, keys)
            check(state, content, by, keys)
