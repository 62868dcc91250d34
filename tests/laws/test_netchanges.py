"""What is net since a version, made from what recent versions changed, is what their log gives."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tidemark.state import history as netchanges
from tidemark.state.history import NetChanges

SCHEMA = pa.schema([("a", pa.int32()), ("_weight", pa.int64())])
NAMES = ("r", "s")
ROWS = st.dictionaries(st.integers(0, 3), st.sampled_from((-2, -1, 1, 2)), min_size=1, max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.sampled_from(NAMES), ROWS),
        st.tuples(st.just("ask"), st.sampled_from(NAMES), st.integers(0, 40)),
        st.tuples(st.just("forget"), st.sampled_from(NAMES), st.integers(0, 40)),
    ),
    max_size=60,
)


def table(rows: dict[int, int]) -> pa.Table:
    return pa.table({"a": pa.array(rows, pa.int32()), "_weight": pa.array(rows.values(), pa.int64())})


@settings(max_examples=examples(200), deadline=None)
@given(STEPS, st.integers(2, 6), st.integers(4, 60))
def test_what_is_made_of_recent_changes_is_the_net_log(
    steps: list[tuple[str, str, Any]], packed: int, most: int
) -> None:
    version, log, asked = 5, list[tuple[int, str, dict[int, int]]](), 0
    net = NetChanges(lambda: version, lambda name: SCHEMA.empty_table())
    with patch.object(netchanges, "PACKED", packed), patch.object(netchanges, "MOST_ROWS", most):
        for kind, name, what in steps:
            if not isinstance(what, int):
                version += 1
                log.append((version, name, what))
                net.add({name: table(what)})
                continue
            since = min(what, version)
            if kind == "forget":
                net.forget([name], since)
                continue
            expected: Counter[int] = Counter()
            for at, relation, rows in log:
                if at > since and relation == name:
                    expected.update(rows)
            wanted = {a: weight for a, weight in expected.items() if weight}
            if (name, since) in net:
                asked += 1
                found = net[name, since]
                assert dict(zip(*(column.to_pylist() for column in found.columns), strict=True)) == wanted
            elif since >= 5:
                net[name, since] = table(wanted)  # as read from the log, if what was kept did not suffice
    if sum(len(rows) for _, _, rows in log) <= most:
        assert asked == sum(kind == "ask" and what >= 5 for kind, _, what in steps if isinstance(what, int)), (
            "what is kept suffices"
        )
