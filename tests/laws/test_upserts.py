"""A law of loads: a table holds what a dictionary would after the same upserts, syncs, inserts and deletes, and each
version tells exactly the difference. The same on Spark is in ``tests/test_spark_frames.py``."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.effort import examples
from tests.laws.upserts import play


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
def test_a_table_is_what_a_dictionary_would_be(engine: str) -> None:
    @settings(deadline=None, max_examples=examples(20))
    @given(st.integers(0, 10**6))
    def holds(seed: int) -> None:
        with tm.connect(engine) as db:
            play(db, seed, 4, (lambda table: table, lambda table: table.to_pylist(), lambda table: table.to_reader()))

    holds()
