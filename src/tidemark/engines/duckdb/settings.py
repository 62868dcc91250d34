"""How every DuckDB connection of ours is opened: it reads and writes its own files, and reaches nothing else.

No extension is installed or loaded, no other file is read or written, no variable of a program is taken for a table,
and none of that can be changed afterwards. Targets that DuckDB would take for another system never get to it.

How every DuckDB connection of ours is set: which rules of its optimizer run, and nothing that users did not ask for.

An optimizer's rule that is wrong gives wrong rows, and no test of ours would see all of them. So rules are named here
that may run, and every other rule is off, also one that a later DuckDB brings. A rule is named if two things hold:
random comparison over files that were deleted from, updated, reopened and checkpointed passes with it (``make hunt``),
and it pays on the queries of the benchmark. ``tests/test_duckdb_rules.py`` tells when DuckDB has other rules than were
looked at here, and when one of the defects that are known is gone.

Known defects of DuckDB 2.0.0:

- ``row_group_pruner``: ORDER BY … LIMIT over rows of which the extremum was deleted or became NULL gives no row or a
  wrong one, since bounds of row groups outlive their rows.
- ``common_subplan``: of branches that look alike one may be answered with the rows of the other.
- ``statistics_propagation``: bounds of sums are wrong, and comparisons are answered by them: beside a total of an
  empty relation, which has one row, it expects none, so that SUM(x) > 0 is false whatever it is. Scans are pruned all
  the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Set
from pathlib import Path
from typing import Any, Final

import duckdb

from tidemark.errors import TidemarkError

CHANGEABLE: Final = (
    "disabled_optimizers",
    "enable_progress_bar",
    "memory_limit",
    "parquet_metadata_cache",
    "threads",
)
"""What may be set in an open connection: how it works, never what it reaches."""

LOG_BYTES: Final = "256MB"
"""DuckDB's own log grows so large before a commit takes it into the file. That rewrites all that rows were deleted
from, which takes several times as long as a large commit itself; reading the log again takes about a second."""
_SCHEME: Final = re.compile("[A-Za-z][A-Za-z0-9+._-]+:")
_CLOSED: Final = {"enable_external_access": "false"}


def config() -> dict[str, Any]:
    """For ``duckdb.connect``, of a database in a file or in memory."""
    return {**_without_extensions(), **_CLOSED, "wal_autocheckpoint": LOG_BYTES}


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """From here on nothing but what is ``CHANGEABLE`` can be set. A database that turns out to be somebody else's is
    left before, since what leaves its files as they are has to be set, too."""
    # The zone of the machine has no say in what a time is.
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET lock_configuration = true")


def bytes_of(connection: duckdb.DuckDBPyConnection) -> int:
    """How much memory the database of a connection takes: blocks that are read, tables in memory, and what statements
    are at work with."""
    found = connection.execute("SELECT CAST(sum(memory_usage_bytes) AS BIGINT) FROM duckdb_memory()").fetchall()
    return int(found[0][0] or 0)


def connected_within(folder: Path, spill: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory that can also read and write the files in a folder; what is too large goes to ``spill``."""
    connection = duckdb.connect(":memory:", config={**_without_extensions(), "temp_directory": str(spill)})
    try:
        # Only an open connection takes folders, and only while it could still reach others.
        connection.execute("SET allowed_directories = $1", [[f"{folder}/"]])
        for name, value in _CLOSED.items():
            connection.execute(f"SET {name} = {value}")
        lock(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _without_extensions() -> dict[str, Any]:
    return {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_extension_repositories": "forbidden",
        "allow_persistent_secrets": "false",
        "python_enable_replacements": "false",
        "allowed_configs": list(CHANGEABLE),
    }


def real_path(path: str) -> str:
    """Where a file lies. What DuckDB would take for another system (``md:``, ``s3://`` …) or for memory is refused, and
    no path that is left can be taken so."""
    found = _SCHEME.match(path)
    if found is not None:
        raise TidemarkError(
            "target",
            f"duckdb: takes the path of a file, and {found[0]!r} names another system",
            hint=f"a file of that name is duckdb:./{path}",
        )
    if path.startswith(":") or "\0" in path:
        raise TidemarkError(
            "target", f"duckdb: takes the path of a file, not {path!r}", hint='"duckdb" alone is a database in memory'
        )
    return os.path.realpath(path)


RULES_IN_USE: Final = frozenset(
    {
        "build_side_probe_side",
        "expression_rewriter",
        "filter_pushdown",
        "in_clause",
        "join_filter_pushdown",
        "join_order",
        "top_n",
        "top_n_window_elimination",
        "unused_columns",
    }
)
"""The rules that run. The 22 queries of TPC-H at scale 0.1 take 0.8 s of processor time with them and 0.8 s with all.

Without ``expression_rewriter`` or ``filter_pushdown`` Q16, Q19 and Q22 become products and take minutes; without
``build_side_probe_side`` and ``unused_columns`` Q18 and Q21 take twice as long, without ``join_order`` Q18 does.
Elsewhere: ``top_n`` makes ORDER BY … LIMIT 10 of lineitem 5 times as fast, ``top_n_window_elimination`` the first row
of each group, ``in_clause`` a list of 100 keys, and ``join_filter_pushdown`` a semi join with 100 keys twice as fast.
The other rules, each added to these, gained nothing that could be told from noise.
"""

RULES_OF_AUDITS: Final = frozenset({"expression_rewriter", "filter_pushdown"})
"""The rules without which joins that are written as products stay products; an audit runs with no others. The queries
of TPC-H take 1.4 s so."""


def configure(connection: duckdb.DuckDBPyConnection) -> None:
    """Set a connection as all of ours are set. What takes long is shown by us: DuckDB's bar would fall into results."""
    use(connection, RULES_IN_USE)
    connection.execute("SET enable_progress_bar = false")


def use(connection: duckdb.DuckDBPyConnection, wanted: Set[str]) -> None:
    """Let these rules run, as far as this DuckDB has them, and no others."""
    unused = (rule for rule in rules(connection) if rule not in wanted)
    connection.execute(f"SET disabled_optimizers = '{','.join(unused)}'")


def rules(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """The rules that this DuckDB has."""
    return tuple(name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall())
