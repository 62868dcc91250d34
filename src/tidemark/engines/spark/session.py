"""Spark sessions: a local one when the user brings none, and the engine's own with pinned settings.

Only what Spark Connect offers too is used here, so that the user's session may be of either kind.

The sizes at which the Spark engine changes its ways, all in one place.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tidemark.engines.spark.shield import unbroken
from tidemark.errors import TidemarkError
from tidemark.storage.publishing import Rhythm

OLDEST_JAVA: Final = 17
HADOOP_AWS: Final = Path(sys.prefix) / "hadoop-aws"
"""Where ``scripts/hadoop_aws.sh`` puts what Spark needs to read and write buckets itself."""
DRIVER_MEMORY: Final = "2g"

_STARTUP: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.artifact.isolation.enabled": "false",
}
"""For a session that we start ourselves; most of these cannot be changed later."""

PINNED: Final = {
    # Meaning: these decide what a query answers.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.variable.substitute": "false",  # or ${env:HOME} in a string would be read as what it names
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.crossJoin.enabled": "true",
    # Files: these decide what is read of them. Days of before 1582 would be others, and a lost file just be left out.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # Speed: small statements over small deltas.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": str(16 * 1024 * 1024),
    "spark.sql.execution.arrow.localRelationThreshold": str(64 * 1024 * 1024),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "2000",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.parquet.mergeSchema": "false",
    # Spark looks for common parts of expressions in a time that doubles with each level of CASE inside CASE.
    "spark.sql.subexpressionElimination.enabled": "false",
    # Memory: the parser remembers how it read each kind of text, without a limit unless there is one here. Long
    # statements of many kinds filled two gigabytes with that (about six kilobytes for each state of its automaton).
    "spark.sql.parser.manageParserCaches": "true",
    "spark.sql.parser.parserDfaCacheFlushThreshold": "30000",
}
"""For the engine's own session, whoever started Spark."""
_LEGACY: Final = "spark.sql.legacy."
"""How the settings begin that bring back what older Sparks did. Some sites have them; here all have their defaults."""


def reads_bucket(session: SparkSession, options: Options) -> bool:
    """Whether a session reads and writes a lake's bucket itself: if that was asked for, or if it may run on other
    machines, which do not have the files of this one."""
    asked = dict(options.storage).get("spark")
    if asked is not None:
        return asked == "s3a"
    is_here = re.fullmatch(r"local(\[[^\]]*\])?", session.conf.get("spark.master", "") or "") is not None
    return not is_here or "connect" in type(session).__module__


def local_session(*, has_s3a: bool = False) -> SparkSession:
    """The session that is active in this process, or else a new local one.

    A session that we start lives until the process ends: starting one takes seconds, and since ``getOrCreate``
    hands it to anybody who asks, stopping it earlier could pull it from under somebody else's feet.

    ``TIDEMARK_DRIVER_MEMORY`` and ``TIDEMARK_JAVA_OPTIONS`` in the environment size and tune its Java process. For
    many short runs ``-XX:TieredStopAtLevel=1 -XX:+UseSerialGC`` halves the time to the first answer, at the price
    of slower long ones.
    """
    active = SparkSession.getActiveSession()
    return unbroken(lambda: _started(has_s3a=has_s3a)) if active is None else active


def _started(*, has_s3a: bool) -> SparkSession:
    """Start Spark, or find the session that was started meanwhile.

    Not in the main thread, where PySpark puts a handler of its own in place of the program's handler of Ctrl-C.
    """
    require_java()
    warehouse = Path(tempfile.gettempdir()) / f"tidemark-warehouse-{os.getuid()}"
    builder = SparkSession.builder.master("local[*]").appName("tidemark")
    builder = builder.config("spark.driver.memory", os.environ.get("TIDEMARK_DRIVER_MEMORY", DRIVER_MEMORY))
    builder = builder.config("spark.sql.warehouse.dir", str(warehouse))
    tuning = os.environ.get("TIDEMARK_JAVA_OPTIONS", "")
    java_options = f"-Dlog4j2.configurationFile={_quiet_logging()} {tuning}".strip()
    builder = builder.config("spark.driver.extraJavaOptions", java_options)
    if has_s3a and HADOOP_AWS.is_dir():
        builder = builder.config("spark.driver.extraClassPath", f"{HADOOP_AWS}/*")
    for key, value in _STARTUP.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark prints each exception with its JVM stack, besides raising it.
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    atexit.unregister(session.stop)
    atexit.register(session.stop)
    return session


def own_session(session: SparkSession) -> SparkSession:
    """A session beside the given one, on the same Spark, with our settings and our temporary views."""
    own = session.newSession()
    for key in own.conf.getAll:
        if key.startswith(_LEGACY) and own.conf.isModifiable(key):
            own.conf.unset(key)
    for key, value in PINNED.items():
        if own.conf.get(key) != value:
            own.conf.set(key, value)
    return own


def require_java() -> None:
    """Refuse to start Spark without a Java that can run it, with words that help."""
    java = _java_executable()
    if java is None:
        raise _java_missing("no Java was found (neither JAVA_HOME nor java on the PATH)")
    version = _java_version(java)
    if version is None:
        raise _java_missing(f"{java} does not tell its version")
    if version < OLDEST_JAVA:
        raise _java_missing(f"{java} is Java {version}")


def _java_missing(found: str) -> TidemarkError:
    return TidemarkError(
        "java_missing",
        f"Spark needs Java {OLDEST_JAVA} or newer: {found}",
        hint="install it with 'apt-get install openjdk-17-jre-headless' (Debian, Ubuntu) or 'brew install openjdk@17' "
        '(macOS), or set JAVA_HOME to one; connect("duckdb") works without Java',
    )


def _java_executable() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        # Spark's launcher takes JAVA_HOME without looking at the PATH, so a wrong one must not pass here.
        java = Path(home) / "bin" / "java"
        return str(java) if java.is_file() else None
    return shutil.which("java")


def _java_version(java: str) -> int | None:
    try:
        done = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            start_new_session=True,  # or Ctrl-C at the terminal would end it, and Java seem to be missing
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match.group(1)) if match else None


def _quiet_logging() -> str:
    """The logging settings beside this module: errors only, to the standard error stream."""
    return (Path(__file__).parent / "log4j2.properties").as_uri()


@dataclass(frozen=True)
class Options:
    """Thresholds; the defaults come from measurements on one machine, and tests make them small.

    ``inline_rows`` and ``inline_bytes``: a larger delta goes into Parquet files instead of the transactions table.
    ``staged_rows``: a DataFrame of the user's of more rows stays in the files that its executors write.
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
    ``by_statements``: a handful of rows is not left to compiled steps but runs as a statement too.
    ``in_process_rows``: plans over so few stored rows in all run in this process, whatever they do. With 0 these
    are the plans that have nothing to read.
    ``sweep_after_seconds``: staged files of a dead process are removed when older; its JVM outlives it for a while.
    ``power``: files and folders are on the disk before a commit is acknowledged.
    ``takeover``: the place of a writer that may be alive is taken.
    ``memory``: how many bytes arrangements and statements in this process may take; None leaves it to both.
    ``keep_merged_seconds``: how long files stay that a merge wrote and another replaced, for foreign readers in the
    middle of a scan.
    ``publish``: when relations are published to foreign readers; None leaves it to whoever asks for it.
    ``storage``: how to reach a lake on an object store, by name.
    ``checkpoint_every``: after so many publications a relation's own Delta log gets a checkpoint.
    ``keep_feed_seconds`` and ``keep_publications``: how far that log goes back, with its change data.
    """

    inline_rows: int = 20_000
    inline_bytes: int = 4 * 1024 * 1024
    staged_rows: int = 200_000
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
    power: bool = False
    takeover: bool = False
    memory: int | None = None
    publish: Rhythm | None = None
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # there are secrets in it
    checkpoint_every: int = 32
    keep_feed_seconds: int = 24 * 60 * 60
    keep_publications: int = 10_000


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

_EVERY_ROW: Final = 10**12
RUN: Final[dict[str, dict[str, Any]]] = {
    "auto": {},
    "spark": ON_SPARK,
    "process": {
        "point_rows": _EVERY_ROW,
        "state_rows": _EVERY_ROW,
        "local_rows": _EVERY_ROW,
        "iteration_rows": _EVERY_ROW,
        "in_process_rows": _EVERY_ROW,
    },
}
"""What the option ``run`` of a connection means here."""
