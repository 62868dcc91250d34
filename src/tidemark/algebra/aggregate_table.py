"""The table of aggregates: what each one is, in one row that all others read.

*Merged* functions are kept up to date from the change alone: counts and exact sums add up, and an extremum changes only
when something beyond it comes or when it goes itself. All others are evaluated again, for touched groups only.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tidemark.algebra import aggregate_meanings as meanings
from tidemark.algebra import aggregate_texts as texts
from tidemark.algebra.types import (
    BIGINT,
    DOUBLE,
    INTEGER_DIGITS,
    MAX_PRECISION,
    VARCHAR,
    Kind,
    Type,
    array_of,
    decimal,
)


class AggregateFunction(enum.Enum):
    COUNT_ROWS = "count(*)"
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    VAR_SAMP = "var_samp"
    VAR_POP = "var_pop"
    STDDEV_SAMP = "stddev_samp"
    STDDEV_POP = "stddev_pop"
    STRING_AGG = "string_agg"
    ARRAY_AGG = "array_agg"
    PERCENTILE_DISC = "percentile_disc"
    PERCENTILE_LOW = "percentile_low"
    PERCENTILE_HIGH = "percentile_high"
    MODE = "mode"
    SINGLE = "single"

    @property
    def row(self) -> Aggregation:
        return AGGREGATES[self]


class Upkeep(enum.Enum):
    """How the value follows a change: a *count* adds up, a *sum* does if it is exact, an *extremum* stays unless it
    goes or is beaten; what is evaluated *again* follows from the rows of its group."""

    COUNT = "count"
    SUM = "sum"
    EXTREMUM = "extremum"
    AGAIN = "again"


@dataclass(frozen=True)
class Aggregation:
    """One row of the table.

    ``result`` gives the type from that of the argument, ``empty`` is the value over no rows. ``upkeep`` says how the
    value follows a change, and ``letter`` begins the name of the column that keeps it. ``adds_doubles`` if a value of
    type DOUBLE depends on the order of addition; ``compares`` if values are asked whether they are equal, so that they
    must not be approximate; ``fails`` says in words when it raises, beside sums that do not fit. ``sees_nulls`` if rows
    whose argument is NULL count; ``counts_copies`` if each copy of a row adds to the value in a way that a weight
    cannot stand for. ``beats`` is the comparison by which an extremum beats another value. ``over`` is its SQL over a
    window, None if it cannot stand there.
    """

    function: AggregateFunction
    result: Callable[[Type], Type]
    meaning: meanings.Meaning
    duckdb: texts.Text
    spark: texts.Text
    over: texts.OverText | None = None
    upkeep: Upkeep = Upkeep.AGAIN
    letter: str = "v"
    empty: int | None = None
    adds_doubles: bool = False
    compares: bool = False
    fails: str | None = None
    sees_nulls: bool = False
    counts_copies: bool = True
    has_fraction: bool = False
    has_condition: bool = False
    beats: str | None = None


def sum_type(argument: Type) -> Type:
    """The type that holds the running sum of a column without a partial sum overflowing.

    SMALLINT and INT add up in BIGINT; BIGINT adds up in DECIMAL(38,0) and is cast to BIGINT where the user sees it,
    so that only the sum itself, never the order of addition, can overflow.
    """
    if argument.is_float:
        return DOUBLE
    if argument.kind in INTEGER_DIGITS:
        return BIGINT if argument.kind is not Kind.BIGINT else decimal(MAX_PRECISION, 0)
    return decimal(MAX_PRECISION, argument.scale)


def _same(argument: Type) -> Type:
    return argument


def _always(type: Type) -> Callable[[Type], Type]:
    return lambda _: type


def _spread(function: AggregateFunction, meaning: meanings.Meaning) -> Aggregation:
    text, over = texts.spread, texts.spread_over
    return Aggregation(function, _always(DOUBLE), meaning, text, text, over, adds_doubles=True)


def _percentile(function: AggregateFunction, meaning: meanings.Meaning, place: texts.Text) -> Aggregation:
    duckdb, spark = texts.duckdb_percentile(place), texts.spark_percentile(place)
    return Aggregation(function, _same, meaning, duckdb, spark, has_fraction=True)


def _extremum(function: AggregateFunction, meaning: meanings.Meaning, beats: str) -> Aggregation:
    text, over = texts.plain, texts.plain_over
    return Aggregation(
        function, _same, meaning, text, text, over, upkeep=Upkeep.EXTREMUM, counts_copies=False, beats=beats
    )


_ROWS: Final = (
    Aggregation(
        AggregateFunction.COUNT_ROWS,
        _always(BIGINT),
        meanings.rows,
        texts.rows,
        texts.rows,
        texts.rows_over,
        upkeep=Upkeep.COUNT,
        empty=0,
        counts_copies=False,
    ),
    Aggregation(
        AggregateFunction.COUNT,
        _always(BIGINT),
        meanings.count,
        texts.count,
        texts.count,
        texts.plain_over,
        upkeep=Upkeep.COUNT,
        letter="n",
        empty=0,
        counts_copies=False,
    ),
    Aggregation(
        AggregateFunction.SUM,
        sum_type,
        meanings.total,
        texts.total,
        texts.total,
        texts.total_over,
        upkeep=Upkeep.SUM,
        letter="s",
        adds_doubles=True,
    ),
    _extremum(AggregateFunction.MIN, meanings.least, "le"),
    _extremum(AggregateFunction.MAX, meanings.greatest, "ge"),
    _spread(AggregateFunction.VAR_SAMP, meanings.VAR_SAMP),
    _spread(AggregateFunction.VAR_POP, meanings.VAR_POP),
    _spread(AggregateFunction.STDDEV_SAMP, meanings.STDDEV_SAMP),
    _spread(AggregateFunction.STDDEV_POP, meanings.STDDEV_POP),
    Aggregation(
        AggregateFunction.STRING_AGG, _always(VARCHAR), meanings.joined, texts.duckdb_joined, texts.spark_joined
    ),
    Aggregation(
        AggregateFunction.ARRAY_AGG,
        array_of,
        meanings.listed,
        texts.duckdb_listed,
        texts.spark_listed,
        sees_nulls=True,
        has_condition=True,
    ),
    _percentile(AggregateFunction.PERCENTILE_DISC, meanings.DISCRETE, texts.discrete_place),
    _percentile(AggregateFunction.PERCENTILE_LOW, meanings.LOW, texts.low_place),
    _percentile(AggregateFunction.PERCENTILE_HIGH, meanings.HIGH, texts.high_place),
    Aggregation(
        AggregateFunction.MODE, _same, meanings.most_frequent, texts.duckdb_mode, texts.spark_mode, compares=True
    ),
    Aggregation(
        AggregateFunction.SINGLE,
        _same,
        meanings.only,
        texts.duckdb_single,
        texts.spark_single,
        fails="if there is more than one row",
        sees_nulls=True,
        counts_copies=False,
    ),
)

AGGREGATES: Final[Mapping[AggregateFunction, Aggregation]] = MappingProxyType({row.function: row for row in _ROWS})
assert AGGREGATES.keys() == set(AggregateFunction), "each aggregate has its row"
