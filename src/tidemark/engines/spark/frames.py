"""DataFrames of the user's own session: over a stored relation, or over an Arrow table; and those that come in.

    rows of a relation  =  rows of its base files  −  entries of its tail that leave  +  those that come

The base is read where the files lie, by whoever runs the DataFrame; the tail, which is small, goes with its plan. Of
the base only rows that equal one that leaves are counted, so nothing else is moved between machines.

What comes in is written as files of the relation by whoever runs the DataFrame, before a commit names them; what stands
there already is compared with them on Spark. Here only a few rows, and those that leave, come into this process.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from tidemark.algebra.functions import spark_type
from tidemark.algebra.plans import Plan
from tidemark.algebra.types import WEIGHT, Kind, Type
from tidemark.engines.spark.dialect import quote
from tidemark.engines.spark.in_process import read_entries, read_rows
from tidemark.engines.spark.integrity import Verified
from tidemark.engines.spark.records import DataFile
from tidemark.engines.spark.relations import Relation, Relations
from tidemark.engines.spark.session import Options, local_session
from tidemark.engines.spark.stage import CHANGES, NEW, Staging
from tidemark.engines.spark.statements import InFiles, Statements, settings
from tidemark.errors import TidemarkError
from tidemark.storage import delta as deltas
from tidemark.storage.delta import Rows
from tidemark.storage.filed import MOST_READ, FiledRows, Files


def session_of(given: Any = None) -> SparkSession:
    """The session that a DataFrame is to be of: the given one, else the active one, else a local one that begins."""
    return local_session() if given is None else given


def local_frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """A DataFrame over an Arrow table, whatever the session takes a time without a zone for."""
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    if not table.num_rows:
        return session.createDataFrame([], schema)
    parts = [batch for batch in table.to_batches() if batch.num_rows]  # Spark takes an empty one for the end
    return session.createDataFrame(pa.Table.from_batches(parts, table.schema), schema)


def relation_frame(session: SparkSession, relation: Relation, verified: Verified) -> DataFrame:
    """A DataFrame over what is stored of a relation. It stays what it is when the relation changes."""
    names = [f"c{i}" for i in range(len(relation.columns))]
    entries = [part.rename_columns([*names, WEIGHT]) for part in relation.tail]
    tail = deltas.combine(*entries) if entries else None
    frame = _base(session, relation, verified, names)
    if tail is not None:
        leaving = deltas.deleted(tail)
        if leaving.num_rows:
            assert frame is not None, "what leaves was in a file"
            frame = _without(frame, local_frame(session, deltas.expand(leaving)), names)
        coming = deltas.inserted(tail)
        if coming.num_rows or frame is None:
            added = local_frame(session, deltas.expand(coming))
            frame = added if frame is None else frame.unionAll(added)
    if frame is None:
        return local_frame(session, relation.schema.arrow.empty_table())
    return frame.toDF(*relation.schema.names)


def _base(session: SparkSession, relation: Relation, verified: Verified, names: list[str]) -> DataFrame | None:
    if not relation.files:
        return None
    fields = zip(relation.columns, relation.schema.types, strict=True)
    schema = ", ".join(f"{quote(name)} {spark_type(type)}" for name, type in fields)
    paths = verified.spark_paths(relation.directory, relation.files)
    reader = session.read.schema(schema)
    reaching = verified.store.spark_settings() if verified.store.is_far else {}
    for name, value in {**_READING, **reaching}.items():
        reader = reader.option(name, value)
    return reader.parquet(*paths).toDF(*names)


_READING = {
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
}
"""What of the session's settings decides how files are read."""


def _without(frame: DataFrame, leaving: DataFrame, names: list[str]) -> DataFrame:
    """The rows without those that leave, each as often as it does."""
    gone = leaving.toDF(*(f"gone_{name}" for name in names))
    met = reduce(lambda one, other: one & other, (f.col(name).eqNullSafe(f.col(f"gone_{name}")) for name in names))
    met_once = f.broadcast(gone.distinct())
    untouched = frame.join(met_once, met, "left_anti")
    touched = frame.join(met_once, met, "left_semi")
    return untouched.unionAll(touched.exceptAll(leaving))


# What users hand over

_WORDS: Final = re.compile(r"tidemark column (\d+): (.*?) \(end of value\)", re.DOTALL)
_INTEGERS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The microseconds between which the years 0001 to 9999 lie."""
_WRITING: Final = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What of the session's settings decides how files are written."""


def fitted(frame: DataFrame, relation: Relation) -> DataFrame | None:
    """The frame with the columns of a relation, in its order and of its types, by expressions of Spark. A value that
    would not stay what it is fails the job that reads it. None if Spark cannot do that exactly with a column: see
    ``_made``."""
    types = dict(frame.dtypes)
    columns = []
    for place, field in enumerate(relation.schema.fields):
        column = f.col(quote(field.name))
        made = _made(column, types[field.name], field.type)
        if made is None:
            return None
        fits, value = made
        value = value.cast(spark_type(field.type))
        if fits is not None:
            words = f.concat(f.lit(f"tidemark column {place}: "), column.cast("string"), f.lit(" (end of value)"))
            value = f.when(column.isNull() | fits, value).otherwise(f.raise_error(words).cast(spark_type(field.type)))
        columns.append(value.alias(relation.columns[place]))
    return frame.select(*columns)


def _made(column: Column, source: str, type_: Type) -> tuple[Column | None, Column] | None:
    """Whether a value fits (None if every one does), and what it is as one of the type. Nothing for values of another
    kind, such as doubles for a DECIMAL or texts for a time, and for times, texts and DOUBLEs inside of others."""
    target = spark_type(type_).lower()
    if type_.is_nested:
        is_plain = not any(part.is_temporal or part.kind in (Kind.DOUBLE, Kind.VARCHAR) for part in type_.parts)
        return (None, column) if is_plain and source.replace(" ", "") == target.replace(" ", "") else None
    if type_.is_integer and source in _INTEGERS:
        most = 2 ** (_INTEGERS[target] - 1)
        return (None if _INTEGERS[source] <= _INTEGERS[target] else column.between(-most, most - 1)), column
    match type_.kind:
        case Kind.DECIMAL if source in _INTEGERS or source.startswith("decimal("):
            made = column.try_cast(target)
            return made.isNotNull() & made.try_cast(source).eqNullSafe(column), made
        case Kind.DOUBLE if source in ("double", "float"):
            wide = column.cast("double")
            return None, f.when(f.isnan(wide), f.lit(math.nan)).otherwise(wide + f.lit(0.0))
        case Kind.REAL if source == "float":
            return None, f.when(f.isnan(column), f.lit(math.nan).cast("float")).otherwise(
                column + f.lit(0.0).cast("float")
            )
        case Kind.BYTEA if source == "binary":
            return None, column
        case Kind.TIMESTAMPTZ if source == "timestamp":
            return f.unix_micros(column).between(_FIRST, _LAST), column
        case Kind.VARCHAR if source == "string":
            return f.is_valid_utf8(column), column
        case Kind.BOOLEAN if source == "boolean":
            return None, column
        case Kind.DATE if source == "date":
            return f.unix_date(column).between(_FIRST // _DAY, _LAST // _DAY), column
        case Kind.TIMESTAMP if source in ("date", "timestamp_ntz", "timestamp"):
            return _moment(column, source)
    return None


_DAY: Final = 24 * 60 * 60 * 1_000_000
_EPOCH: Final = "1970-01-01"


def _moment(column: Column, source: str) -> tuple[Column, Column]:
    """A time as one without a zone. A moment goes by its distance from the epoch, since the clocks of a zone show some
    times twice."""
    if source == "date":
        return f.unix_date(column).between(_FIRST // _DAY, _LAST // _DAY), column
    if source == "timestamp_ntz":
        bounds = (f.lit(text).cast("timestamp_ntz") for text in ("0001-01-01", "9999-12-31 23:59:59.999999"))
        return column.between(*bounds), column
    micros = f.unix_micros(column)
    seconds = (micros.cast("decimal(20,0)") * f.lit("0.000001").cast("decimal(7,6)")).cast("decimal(18,6)")
    none = f.lit(0)
    return micros.between(_FIRST, _LAST), f.lit(_EPOCH).cast("timestamp_ntz") + f.make_dt_interval(
        none, none, none, seconds
    )


@dataclass
class Intake:
    """Brings DataFrames into a lake. ``live`` are files that no commit has named yet."""

    verified: Verified
    statements: Statements
    options: Options
    epoch: Callable[[], int]
    live: list[Staging]

    def taken(self, frame: DataFrame, relation: Relation) -> Rows | None:
        """The rows of a frame as rows that come: in files, unless they are few. None if Spark cannot do that."""
        made = self.statements.ask(lambda: fitted(frame, relation))
        if made is None:
            return None
        with self._staging() as staging:
            with _naming(relation):
                files = self.statements.ask(lambda: self._written(made, relation, staging, NEW))
            found = FiledRows(relation.schema, (self._files(relation, files, staging),))
            if found.count > self.options.staged_rows:
                return found
            few = read_rows(self.verified, relation.directory, files, relation.schema)
        self._discard(staging)
        return Rows.of(deltas.net(deltas.weighted(few).cast(relation.schema.weighted)))

    def compared(self, plan: Plan, given: Mapping[str, pa.Table], relation: Relation, relations: Relations) -> Rows:
        """The net rows of a plan as a change of a relation: what comes in files, unless it is little."""
        with self._staging() as staging:
            entries = self.statements.write_weighted(
                plan, given, relations, lambda frame: self._entries(frame, relation, staging)
            )
            count = sum(file.rows for file in entries)
            if count <= self.options.staged_rows:
                found = read_entries(self.verified, relation.directory, entries, relation.schema)
                self._discard(staging)
                return Rows.of(found)
            leaving = self._leaving(entries, relation)
            files = self.statements.ask(lambda: self._coming(entries, relation, staging))
        return FiledRows(relation.schema, (self._files(relation, files, staging),), leaving)

    def adopt(self, change: FiledRows, into: Staging) -> tuple[DataFile, ...]:
        """The files of a change that a commit is about to name: from here on they are its own."""
        found: list[DataFile] = []
        for files in change.files:
            named: InFiles = files.named
            into.adopt(named.staging)
            self.live = [one for one in self.live if one is not named.staging]
            found += named.files
        return tuple(found)

    def names(self) -> set[str]:
        """The files that nothing has named yet, by their paths within folders of relations."""
        return {name for staging in self.live for name in staging.names()}

    @contextmanager
    def _staging(self) -> Iterator[Staging]:
        """What is staged here is thrown away if staging fails."""
        staging = Staging(self.verified, self.epoch(), power=self.options.power)
        self.live.append(staging)
        try:
            yield staging
        except BaseException:
            self._discard(staging)
            raise

    def _discard(self, staging: Staging) -> None:
        if any(one is staging for one in self.live):
            self.live = [one for one in self.live if one is not staging]
            staging.discard()

    def _files(self, relation: Relation, files: tuple[DataFile, ...], staging: Staging) -> Files:
        named = InFiles(relation, files, staging)
        rows = sum(file.rows for file in files)

        def read() -> pa.Table:
            return read_rows(self.verified, relation.directory, files, relation.schema)

        return Files(named, rows, read, lambda: self._discard(staging))

    def _written(self, frame: DataFrame, relation: Relation, staging: Staging, kind: str) -> tuple[DataFile, ...]:
        with settings(frame.sparkSession, _WRITING):
            return staging.frame(relation.directory, frame, kind)

    def _entries(self, frame: DataFrame, relation: Relation, staging: Staging) -> tuple[DataFile, ...]:
        return staging.frame(relation.directory, frame.toDF(*relation.columns, WEIGHT), f"{CHANGES}/")

    def _leaving(self, entries: tuple[DataFile, ...], relation: Relation) -> pa.Table:
        """The entries that leave. They stay here until the relation is merged, so there may not be too many."""
        self.verified.must_be_whole(relation.directory, entries)
        paths = [(self.verified.root / relation.directory / file.path).as_posix() for file in entries]
        found = ds.dataset(paths, format="parquet", partitioning=None)
        only = ds.field(WEIGHT) < 0
        count = found.count_rows(filter=only)
        if count > MOST_READ:
            raise TidemarkError(
                "unsupported",
                f"{count} rows of {relation.name!r} would leave it at once",
                hint=f"up to {MOST_READ} can: change it in parts",
            )
        leaving = found.to_table(filter=only)
        return leaving.rename_columns(relation.schema.weighted.names).cast(relation.schema.weighted)

    def _coming(self, entries: tuple[DataFile, ...], relation: Relation, staging: Staging) -> tuple[DataFile, ...]:
        """The rows that come, each as often as its entry says."""
        reader = self.statements.session.read
        frame = reader.parquet(*self.verified.spark_paths(relation.directory, entries)).where(f.col(WEIGHT) > 0)
        copies = f.explode(f.array_repeat(f.lit(0), f.col(WEIGHT).cast("int"))).alias("tidemark_copy")
        names = [f.col(quote(name)) for name in relation.columns]
        return staging.frame(relation.directory, frame.select(*names, copies).drop("tidemark_copy"))


class _naming:
    """A value that does not fit is an error that names the column."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        told = error.__cause__ if isinstance(error, TidemarkError) else error
        found = _WORDS.search(str(told)) if isinstance(told, PySparkException) else None
        if found is None:
            return
        field = self._relation.schema.fields[int(found[1])]
        raise TidemarkError(
            "type",
            f"a value for column {field.name!r} of {self._relation.name!r} is not a {field.type}: {found[2]}",
        ) from error
