"""Which memory the databases of the tests have: ``TIDEMARK_TEST_MEMORY``, for all that say nothing of it themselves.

``arranged``: all that is looked up is arranged in memory when it is first asked for, in many small runs; ``off``:
nothing is; ``starved``: there is room for next to nothing. Unset, a database has what its users have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidemark.engines.limits import DUCKDB, SPARK
from tidemark.storage.arrangements import Admission, Shares, shared

AT_ONCE: Final = Admission(10**9, least_uses=1, rows_at_once=10**9, newest_rows=2, whole_rows=0)
ARRANGED: Final = replace(DUCKDB, admission=AT_ONCE)
ARRANGED_LAKE: Final = replace(SPARK, admission=AT_ONCE)
HELD: Final = replace(DUCKDB, admission=replace(AT_ONCE, whole_rows=5_000))
"""All relations of a test are held in memory as a whole when they are first asked for."""
OFF: Final = 0
STARVED: Final = 2_000
"""As bytes."""
WAYS: Final = ("arranged", "off", "starved")


def use(way: str) -> None:
    """Let all databases of this process have it so."""
    if way not in WAYS:
        raise ValueError(f"TIDEMARK_TEST_MEMORY is {way!r}, not one of {', '.join(WAYS)}")
    from tidemark.engines.duckdb import engine as duckdb
    from tidemark.engines.spark import engine as spark

    if way == "arranged":
        duckdb.DuckDBEngine.__init__.__kwdefaults__["limits"] = ARRANGED  # type: ignore[index]
        spark.SPARK = ARRANGED_LAKE  # type: ignore[attr-defined]
        return
    unsaid = OFF if way == "off" else STARVED

    def divided(memory: int | None) -> Shares:
        return shared(unsaid if memory is None else memory)

    for module in (duckdb, spark):
        module.shared = divided  # type: ignore[attr-defined]
