"""The sizes at which the Spark engine changes its ways, all in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Options:
    """Thresholds; the defaults come from measurements on one machine, and tests make them small.

    ``inline_rows`` and ``inline_bytes``: a larger delta goes into Parquet files instead of the transactions table.
    ``merge_rows``, ``merge_share`` and ``merge_minimum``: a tail is folded into the base files when it has more
    than ``merge_rows`` entries, or more than that share of the base and at least the minimum.
    ``many_files`` files of fewer than ``small_file_rows`` rows are rewritten into larger ones.
    ``compact_every``: so many rows of the transactions table are one batch of its compaction.
    ``forget_every``: after so many times that something was forgotten the transactions table is rewritten without it.
    ``recent_bytes``: how much of the newest log is kept in memory for subscribers.
    ``broadcast_rows``: a given delta up to this size is sent to where the stored relations lie, never the reverse.
    ``point_rows``: point reads of a larger stored relation are left to Spark, which may have more than one machine.
    ``state_rows``: a grouping over an inner state of up to so many rows runs in this process.
    ``local_rows``: what follows from small deltas over stored relations of up to so many rows in all is derived in
    this process, and relations of up to so many rows are merged in it. What is larger is Spark's.
    ``iteration_rows``: a recursion over stored relations of up to so many rows in all is evaluated in this process.
    ``by_statements``: a handful of rows is not left to the interpreter but runs as a statement too.
    ``in_process_rows``: plans over so few stored rows in all run in this process, whatever they do. With 0 these
    are the plans that have nothing to read.
    ``sweep_after_seconds``: staged files of a dead process are removed when older; its JVM outlives it for a while.
    ``keep_merged_seconds``: how long files stay that a merge replaced, for foreign readers in the middle of a scan.
    """

    inline_rows: int = 20_000
    inline_bytes: int = 4 * 1024 * 1024
    merge_rows: int = 50_000
    merge_share: float = 0.2
    merge_minimum: int = 5_000
    many_files: int = 24
    small_file_rows: int = 500_000
    compact_every: int = 64
    forget_every: int = 16
    recent_bytes: int = 32 * 1024 * 1024
    broadcast_rows: int = 20_000
    point_rows: int = 50_000_000
    state_rows: int = 1_000
    local_rows: int = 20_000_000
    iteration_rows: int = 2_000_000
    by_statements: bool = False
    in_process_rows: int = 0
    sweep_after_seconds: int = 15 * 60
    keep_merged_seconds: int = 60 * 60


ON_SPARK: Final[dict[str, Any]] = {
    "by_statements": True,
    "point_rows": 0,
    "state_rows": 0,
    "local_rows": 0,
    "iteration_rows": 0,
}
"""Options under which everything that reads stored rows runs on Spark."""

IN_PROCESS: Final[dict[str, Any]] = {"by_statements": True, "in_process_rows": 10**12}
"""Options under which every plan is a statement in this process, as far as the engine decides."""
