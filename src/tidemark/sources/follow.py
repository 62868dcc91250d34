"""Following a source: what its tables are to take over, up to where the source stands now.

    Δ(table)  =  changes(position, now)                    where the source can tell them
                 content(now)  −  content(table)           where it cannot: the table is compared as a whole

Both are exact, so whoever follows a table need not know which it was.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa

from tidemark.algebra.types import WEIGHT
from tidemark.engines.opening import translated
from tidemark.errors import (
    ConstraintError,
    EvaluationError,
    StatementError,
    TidemarkError,
    UnsupportedError,
    was_pressed,
)
from tidemark.sources.delta import DeltaSource
from tidemark.sources.positions import Followed
from tidemark.sources.protocol import ChangesLostError, Position, Source
from tidemark.sql.bind.sources import must_have_all, taken_columns
from tidemark.sql.catalog.catalog import Table
from tidemark.sql.catalog.sources import SourceColumn, SourceDefinition
from tidemark.state.rows import as_table
from tidemark.state.tidemarks import position_note
from tidemark.storage import delta as delta_tables
from tidemark.storage.disk import first_line

MustAllow = Callable[[str], None]
_logger = logging.getLogger("tidemark.sources")
_PASSING: Final = frozenset({"interrupted", "timeout", "out_of_memory"})


class Receiving(Protocol):
    """The transaction that takes over what has changed."""

    def compared(self, table: Table, rows: pa.Table) -> pa.Table:
        """The net change that brings a table to these rows."""

    def receive(self, table: Table, delta: pa.Table) -> None:
        """Take over the change of a table that follows a source."""


@dataclass(frozen=True)
class Taken:
    """What one table takes over: a net change, the position up to which that is, and why it was compared, if it was."""

    table: Table
    delta: pa.Table
    followed: Followed
    compared: str | None = None
    is_moved: bool = True


@dataclass(frozen=True)
class Pulled:
    """What a pull did for one source: how many rows came and went in each of its tables, net; the version that it made,
    if it made one; the tables that were compared as a whole, with the reason; and the error that stopped it."""

    source: str
    status: str
    tables: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    version: int | None = None
    compared: Mapping[str, str] = field(default_factory=dict)
    error: TidemarkError | None = None

    @property
    def rows(self) -> int:
        """How many net rows there were."""
        return sum(came + went for came, went in self.tables.values())


def opened(definition: SourceDefinition, must_allow: MustAllow) -> Source:
    """A connection to a source."""
    path = definition.options["path"]
    must_allow(path)
    return _Guarded(DeltaSource(path, must_allow))


def stops(error: TidemarkError) -> bool:
    """Whether an error is one of the source and its rows, and not of the database or of whoever asks."""
    if error.code in _PASSING:
        return False
    families = (StatementError, UnsupportedError, ConstraintError, EvaluationError)
    return error.code == "source" or isinstance(error, families)


def taken(
    source: Source,
    tables: Iterable[Table],
    known: Mapping[str, Followed | None],
    created: Mapping[str, int],
    transaction: Receiving,
    check: Callable[[], None],
    *,
    is_asked: bool,
) -> list[Taken]:
    """What tables that follow a source take over. Where each stands is fixed before any is read.

    ``known`` says how far each was followed before; all are compared as a whole if that ``is_asked`` for."""
    names = {table.name: _columns(table, source) for table in tables}
    now = {table.name: source.newest(_relation(table), names[table.name]) for table in tables}
    found = []
    for table in tables:
        check()
        after = Followed(now[table.name], created.get(table.name, 0))
        named, before = names[table.name], known[table.name]
        found.append(_taken(table, named, source, before, after, transaction, is_asked=is_asked))
    return found


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """While a source is read, or what it gave: whatever that raises is an error of the source, but for an interrupt
    and a lack of memory."""
    known = sys.exception()
    try:
        yield
    except (TidemarkError, ChangesLostError):
        raise
    except Exception as error:
        told = translated(error)
        if was_pressed(error, known) or (told is not None and told.code in _PASSING):
            raise
        reason = f"{type(error).__name__}: {first_line(error)}"
        hint = "look at the table with another reader: it is damaged, or written in a way that is not known here"
        raise TidemarkError("source", f"{what!r} cannot be read: {reason}", hint=hint) from error


class _Guarded:
    """A source, of which nothing is raised but errors that say what of it cannot be read."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def columns(self, relation: str) -> tuple[SourceColumn, ...]:
        with _reading(relation):
            return self._source.columns(relation)

    def newest(self, relation: str, columns: Sequence[str]) -> Position:
        with _reading(relation):
            return self._source.newest(relation, columns)

    def snapshot(self, relation: str, at: Position, columns: Sequence[str]) -> pa.Table:
        with _reading(relation):
            return self._source.snapshot(relation, at, columns)

    def changes(self, relation: str, since: Position, until: Position, columns: Sequence[str]) -> pa.Table:
        with _reading(relation):
            return self._source.changes(relation, since, until, columns)

    def acknowledge(self, positions: Mapping[str, Position]) -> None:
        with _reading(", ".join(positions)):
            self._source.acknowledge(positions)


def _columns(table: Table, source: Source) -> tuple[str, ...]:
    """The columns of the source that a table takes; an error if they do not fit it any more."""
    found = source.columns(_relation(table))
    names = taken_columns(table, found)
    must_have_all(table, found)
    return names


def _taken(
    table: Table,
    names: Sequence[str],
    source: Source,
    before: Followed | None,
    after: Followed,
    transaction: Receiving,
    *,
    is_asked: bool,
) -> Taken:
    relation, now = _relation(table), after.position
    if before is None:
        return Taken(table, _first(_named(source.snapshot(relation, now, names), table), table), after)
    if before == after and not is_asked:
        return Taken(table, delta_tables.no_change(table.schema), after, is_moved=False)
    why = "RESYNC asks for it" if is_asked else None
    if why is None:
        try:
            moved = source.changes(relation, before.position, now, names)
            return Taken(table, _net(moved, table), after)
        except ChangesLostError as error:
            why = str(error)
            _logger.warning("%s is compared as a whole with %s: %s", table.name, relation, why)
    rows = _named(source.snapshot(relation, now, names), table)
    return Taken(table, transaction.compared(table, rows), after, why)


def apply(found: list[Taken], transaction: Receiving) -> dict[str, str | None]:
    """Let a transaction take over what was found; the notes that go with it."""
    for one in found:
        if one.delta.num_rows:
            transaction.receive(one.table, one.delta)
    return {position_note(one.table.name): one.followed.to_note() for one in found if one.is_moved}


def counted(found: list[Taken]) -> dict[str, tuple[int, int]]:
    """How many rows came and went, by table."""
    return {one.table.name: came_and_went(one.delta) for one in found}


def came_and_went(delta: pa.Table) -> tuple[int, int]:
    """How many rows a net change inserts and deletes."""
    came = delta_tables.size(delta_tables.inserted(delta))
    return came, delta_tables.size(delta) - came


def _first(rows: pa.Table, table: Table) -> pa.Table:
    """The change that brings an empty table to these rows. That no row is there twice is seen by the key, if there is
    one, for much less than by whole rows."""
    made = delta_tables.weighted(rows)
    key = [table.schema[position].name for position in table.primary_key]
    is_plain = key and not any(pa.types.is_nested(rows.schema.field(name).type) for name in key)
    if is_plain and rows.group_by(key).aggregate([]).num_rows == rows.num_rows:
        return made
    return delta_tables.net(made)


def _net(moved: pa.Table, table: Table) -> pa.Table:
    weights = moved.column(WEIGHT)
    rows = _named(moved.drop_columns([WEIGHT]), table)
    with _reading(_relation(table)):
        return delta_tables.net(rows.append_column(pa.field(WEIGHT, pa.int64()), weights))


def _named(rows: pa.Table, table: Table) -> pa.Table:
    """Rows of a source as rows of the table: by its names, as its types."""
    with _reading(_relation(table)):
        return as_table(rows.rename_columns(list(table.schema.names)), table.schema, table.name)


def _relation(table: Table) -> str:
    assert table.origin is not None
    return table.origin.relation
