"""What windows become, and which frames are refused, with the reason."""

from __future__ import annotations

import pytest

from tests.specs.test_binder import bound
from tidemark.errors import TidemarkError

PLANS = {
    "SELECT SUM(a) OVER (PARTITION BY b ORDER BY a RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS s FROM t": """
Project sum AS s
└─ Window by (b) in order of a: sum(a) RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING AS sum
   └─ t
""",
    "SELECT COUNT(*) OVER (ORDER BY e RANGE INTERVAL '1 month 2 days' PRECEDING) AS n FROM t": """
Project count(*) AS n
└─ Window by () in order of e: count(*) RANGE BETWEEN INTERVAL '1 months 2 days' PRECEDING AND CURRENT ROW AS count(*)
   └─ t
""",
    "SELECT COUNT(*) OVER (ORDER BY d GROUPS BETWEEN 1 PRECEDING AND 0 FOLLOWING) AS n FROM t": """
Project count(*) AS n
└─ Window by () in order of d: count(*) GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW AS count(*)
   └─ t
""",
    "SELECT LAST_VALUE(c IGNORE NULLS) OVER (ORDER BY a RANGE CURRENT ROW) AS l FROM t": """
Project last_value AS l
└─ Window by () in order of a: last_value(c) IGNORE NULLS RANGE BETWEEN CURRENT ROW AND CURRENT ROW AS last_value
   └─ t
""",
    # What the select list computes is not computed again for ORDER BY.
    "SELECT RANK() OVER (ORDER BY b) AS r FROM t ORDER BY RANK() OVER (ORDER BY b), LAG(a) OVER (ORDER BY b)": """
Sort r, hidden
└─ Project rank AS r, lag AS hidden0
   └─ Window by () in order of b: lag(a, 1, NULL) AS lag
      └─ Window by () in order of b: rank() AS rank
         └─ t
""",
}
OVER = "SELECT SUM(b) OVER (ORDER BY {}) FROM t"
REFUSED = {
    "a ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING": ("syntax", "ends before it starts"),
    "a ROWS BETWEEN CURRENT ROW AND 1 PRECEDING": ("syntax", "ends before it starts"),
    "a ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW": ("syntax", "ends before it starts"),
    "a ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING": ("unsupported", "no rows"),
    "a ROWS BETWEEN 0 PRECEDING AND 1 PRECEDING": ("unsupported", "no rows"),
    "a GROUPS BETWEEN 2 FOLLOWING AND 1 FOLLOWING": ("unsupported", "no rows"),
    "a RANGE BETWEEN 2 FOLLOWING AND 1 FOLLOWING": ("unsupported", "no rows"),
    "e RANGE BETWEEN INTERVAL '1 day' PRECEDING AND INTERVAL '25 hours' PRECEDING": ("unsupported", "no rows"),
    "a ROWS 3000000000 PRECEDING": ("type", "too large"),
    "a ROWS b PRECEDING": ("unsupported", "literal whole number"),
    "a ROWS 1 PRECEDING EXCLUDE CURRENT ROW": ("unsupported", "EXCLUDE"),
    "a, b RANGE 1 PRECEDING": ("type", "one ORDER BY"),
    "c RANGE 1 PRECEDING": ("type", "VARCHAR"),
    "a RANGE b PRECEDING": ("unsupported", "constant"),
    "a RANGE 1.5 PRECEDING": ("type", "a distance from INT cannot be DECIMAL(2,1)"),
    "a RANGE NULL PRECEDING": ("type", "cannot be NULL"),
    "a RANGE -1 PRECEDING": ("type", "negative"),
    "a RANGE '1' PRECEDING": ("type", "cannot be VARCHAR"),
    "a RANGE INTERVAL '1 day' PRECEDING": ("type", "cannot be an INTERVAL"),
    "d RANGE 1e0 PRECEDING": ("type", "cannot be DOUBLE"),
    "CAST(d AS DECIMAL(38,2)) RANGE 1 PRECEDING": ("unsupported", "39 digits"),
    "e RANGE 1 PRECEDING": ("type", "is an interval"),
    "e RANGE a * INTERVAL '1 day' PRECEDING": ("unsupported", "constant"),
    "e RANGE INTERVAL '-1 day' PRECEDING": ("type", "negative"),
    "e RANGE INTERVAL '1 month -1 day' PRECEDING": ("type", "both signs"),
    "e RANGE INTERVAL '20000 years' PRECEDING": ("type", "10,000 years"),
}


@pytest.mark.parametrize("sql", PLANS)
def test_windows_become_plans(sql: str) -> None:
    assert bound(sql).strip() == PLANS[sql].strip()


@pytest.mark.parametrize("window", REFUSED)
def test_frames_that_have_no_meaning_are_refused(window: str) -> None:
    code, part = REFUSED[window]
    with pytest.raises(TidemarkError) as caught:
        bound(OVER.format(window))
    assert caught.value.code == code and part in caught.value.message


def test_nth_value_of_a_frame_that_begins_at_a_distance_is_refused() -> None:
    with pytest.raises(TidemarkError, match="UNBOUNDED PRECEDING"):
        bound("SELECT NTH_VALUE(b, 2) OVER (ORDER BY a RANGE 1 PRECEDING) FROM t")
