"""The limits that choose between ways, for each engine: from how many rows on another way is the better one.

They were measured, and no answer depends on them. They stand with the engines, below the strategies, because both ask
them: an engine by which of its own ways it evaluates a plan, a strategy (``engine.limits``) whether it pays to do
without the engine. Bounds of a proof or of a cache stand beside what they bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidemark.storage.arrangements import ADMISSION, Admission

OF_A_LAKE: Final = Admission(rows_per_use=200_000, rows_at_once=0)
"""A look-up in a lake costs some tens of milliseconds, and a scan of a few rows as many."""


@dataclass(frozen=True)
class Budget:
    """How far rules are followed over look-ups: rounds, rows of one member at any rate, and else which part of the rows
    that are stored of it."""

    rounds: int | None
    least: int
    share: int

    def rows(self, stored: int) -> int:
        return max(self.least, stored // self.share)


@dataclass(frozen=True)
class Prices:
    """What the steps of a refresh cost, in microseconds of processor time."""

    stage: float = 1_000
    """One stage of differentials."""
    look_up: float = 6
    """What a changed row finds at one place, where it is looked up by itself."""
    few: int = 1_000
    looked_up_together: float = 1
    """The same for each row more than a few."""
    most_looked_up: int = 50_000
    """More changed rows meet the stored ones in statements that read all of these."""
    met: float = 0.5
    """What a changed row costs at one place then."""
    changed: float = 0
    """What it costs beside that: to be handed over, made net and summed up."""
    small_stage: float = 1_000
    """A stage for few changed rows that meet nothing that is stored below."""
    statement: float = 12_000
    """Evaluating a node anew, beside its rows."""
    scanned: float = 0.25
    """A row that a statement reads."""
    scanned_near: float = 0.25
    """The same where only those are wanted that changed rows meet."""
    compared: float = 1.5
    """A row that is compared with what is stored, or is stored."""


@dataclass(frozen=True)
class EngineLimits:
    """What strategies ask of any engine."""

    prices: Prices = Prices()
    """By which a node is evaluated anew when its differentials would cost more."""

    prices_ahead: Prices = Prices(
        stage=2_500,
        small_stage=300,
        most_looked_up=0,
        met=0.03,
        changed=0.3,
        statement=1_500,
        scanned=0.02,
        scanned_near=0.006,
        compared=0.12,
    )
    """The same where the change is written before it is followed: everything is a statement, over what is stored."""
    least_ahead: int = 20_000
    part_ahead: int = 128
    """A change is written ahead if it has so many rows and is no smaller part than this of the relations changed."""

    worth_a_proof: int = 1_000_000
    """If so many rows stand below a step, it may take a proof about the statement to do without them."""
    many_readers: int = 16
    """Where more nodes than these read a relation, those to which its change can matter are looked up."""
    bulk_rows: int = 50_000
    """From how many changed rows on a grouping's input is summed up inside the engine."""
    bulk_rows_ahead: int = 2_000
    """The same where the change is written ahead."""
    small_part: int = 4
    """A part of a delta that is smaller by this factor is better looked up by itself than together with others."""
    small_whole: int = 64
    """A delta of so few rows that others read too is looked up as a whole: asking again would cost more than its
    rows."""
    small_fixpoint_input: int = 20_000
    """Up to so many rows below it, a fixpoint is iterated in this process."""
    small_fixpoint_result: int = 100_000
    """Up to so many rows of one member; one that has more is left to the engine."""
    beside_rounds: Budget = Budget(rounds=None, least=20_000, share=4)
    """How far the rules of a recursion are followed if all would be evaluated again by rounds too."""
    beside_an_iteration: Budget = Budget(rounds=100, least=4_000, share=1_000)
    """How far they are followed if the engine iterates by itself."""
    rederived_rows: int = 200_000
    """Of a predicate that has more rows than these derived, the view is evaluated before and after the change
    instead."""
    rederivation_rounds: int = 10_000
    admission: Admission = ADMISSION
    """When rows are arranged in memory by what they are looked up by."""


@dataclass(frozen=True)
class DuckDBLimits(EngineLimits):
    """What DuckDB's engine asks of its own: by look-ups, in this process by row or by Arrow, or by a statement."""

    few_below: int = 300
    """Recursion over so few rows is mostly over before a statement has begun."""
    few_keys: int = 64
    """The keys of so few rows are taken one by one, those of more as columns of Arrow."""
    literal_keys: int = 8
    """Up to so many keys are written into the statement; parsing more costs more than handing over an Arrow table."""
    parameter_keys: int = 2_000
    """Up to so many keys are parameters; each of them is converted by itself, so that for more Arrow is the better
    way."""
    fetched_rows: int = 500
    """What few keys find comes as Python values, up to so many rows: that is cheaper than Arrow for a few."""
    selective: int = 8
    """A column may drive a join if it has a value of its own for each so many rows of the delta, and more than one."""
    literal_rows: int = 8
    """Up to so many rows are written into a statement; parsing more costs more than handing over an Arrow table."""
    inline_rows: int = 50_000
    """Up to so many entries are logged as Arrow, which takes half the time of adding them to a table."""
    tail_commits: int = 1_000
    tail_rows: int = 100_000
    tail_bytes: int = 16_000_000
    """What was committed is merged into the tables, although nobody reads them, when it is so much."""
    idle_seconds: float = 2.0
    """So long after the last commit it is merged into the tables of a file in any case."""
    tail_beside: int = 32
    """Up to so many rows that are not merged are read one by one beside those of the table."""
    tide_bytes: int = 4_000_000
    """Records that are merged stay in their file until it has so many bytes: cutting it takes a while, too."""


@dataclass(frozen=True)
class SparkLimits(EngineLimits):
    """What Spark's engine asks of its own; the sizes up to which it works in this process are options of its user."""

    admission: Admission = OF_A_LAKE
    prices: Prices = Prices(statement=300_000, scanned=0.3)
    fan_out: int = 10
    """How many rows one row of a delta may meet in a join before estimates of its size are too low."""


@dataclass(frozen=True)
class ProcessLimits:
    """What is asked of the ways of this process, whichever engine they serve."""

    calls_at_once: int = 1_000
    """So many calls of a statement by key wait for each other, to be run together."""
    few_changed: int = 300
    """Up to so many given rows are followed row by row, by compiled steps."""
    few_at_hand: int = 10_000
    """Up to so many are, if they are there as Python values, as what they meet is: to make columns of them would cost
    as much as to follow them."""
    few_keys: int = 64
    """So many keys are looked up one by one, more of them as columns of Arrow."""
    met_by_few: int = 500
    """So many rows of one key are taken one by one, more of them as columns, too."""
    few_met: int = 8_000
    """So many stored rows may be looked up for that, and so many may come of a join."""
    many_changed: int = 20_000
    """Up to so many given rows are followed by compiled steps over columns, if they are too many for tuples."""
    many_met: int = 200_000
    """So many stored rows may be looked up for that, and so many may come of a join."""
    tiny: int = 150
    """A relation of so few rows is read as a whole rather than by a statement."""
    most_looked_up: int = 50_000
    """A delta of more rows is left to one statement, and so is a relation of which more would be found."""


REFERENCE: Final = EngineLimits()
DUCKDB: Final = DuckDBLimits()
SPARK: Final = SparkLimits()
PROCESS: Final = ProcessLimits()
