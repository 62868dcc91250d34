"""Texts of statements, bound at both sides to the same definitions.

Statements that a local view can run on what it holds of a table, instead of taking in what they changed.

It holds  L = π σ[p] T,  the rows that pass the filter p, with NULL in columns that it does not read. A statement S is
run there, as S', only if that is exactly right whatever T holds:  π σ[p] S(T) = S'(L).

    DELETE WHERE w             w reads held columns alone:  π σ[p] (T − σ[w] T) = L − σ[w] L
    UPDATE SET F WHERE w       w, and the values of held columns, read held columns alone, and no column is set that p
                               reads:  σ[p] F = F σ[p], so that π σ[p] (T − σ[w] T ⊎ F σ[w] T) = L − σ[w] L ⊎ F' σ[w] L,
                               where F' sets the held columns; if it sets none, nothing happens to L
    INSERT VALUES              all rows pass the filter, and are the same by the definitions that are known there; if
                               none passes it, nothing happens to L

S has run at the source without an error, and L has no rows of which S did not see the same columns: S' cannot fail.
What asks other tables, or the time, or computes floating point, is not run there.

Statements that a holder of a view can follow by itself: the view and the statement say all (BLAKELEY, Theorems 4.1
to 4.3). The source and the holder derive the same step from the same definitions, so that only the text is shipped.

Steps rest on what the definitions say of rows, such as NOT NULL, which is true between transactions. So in a
transaction that says several things about a table, all but the last must leave that true: deletions do, and updates of
columns that may be NULL and are in no key. Nothing is taken from CHECK constraints, which a holder does not know.

The statements of transactions, as a source hears of them: whoever ran them, from its beginning on.

Only texts are kept, and not too many: what is forgotten is shipped in other ways.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa

from tidemark.algebra.columns import Columns
from tidemark.algebra.expressions import Call, Expression, Literal, Value, columns_of, walk
from tidemark.algebra.plans import Given, Plan, Project, Stored, expressions_of, transform
from tidemark.algebra.plans import walk as walk_of_plans
from tidemark.algebra.scalar import value_of
from tidemark.analysis.relevance.dml import cells_of, changed_cells, condition_of
from tidemark.calculus.as_of import delta_name
from tidemark.client.definitions import Part
from tidemark.engines.engine import Engine
from tidemark.errors import TidemarkError
from tidemark.sql.bind.changes import BoundChange, DeleteRows, InsertRows, UpdateRows, bind_change
from tidemark.sql.catalog.catalog import Catalog
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.text import Source
from tidemark.state.events import Committed, Settled
from tidemark.state.facts import analysed, known_of
from tidemark.state.rows import as_table
from tidemark.state.transition import network_of
from tidemark.storage import delta as delta_tables
from tidemark.strategy.autonomous import KnownFacts, attempts, by_statement
from tidemark.strategy.nodes import Refresh
from tidemark.strategy.wave import given_deltas


def bound(text: str, dialect: str, catalog: Catalog) -> BoundChange | None:
    """The statement over these definitions; None if it has no meaning there: it names other columns, or the time."""
    try:
        [(statement, source)] = parse_script(Source(text, dialect))
        return bind_change(statement, catalog, source)
    except (TidemarkError, ValueError):
        return None


def is_exact(expressions: Iterable[Expression]) -> bool:
    """Whether every engine computes the same: the last digits of floating point may differ between them."""
    computed = (part for one in expressions for part in walk(one) if isinstance(part, Call))
    return not any(part.type.is_float for part in computed)


MOST_ROWS: Final = 1000
"""Of so many inserted rows each is looked at."""


class Effect(enum.Enum):
    """What is to be done at the local view for a statement."""

    RUN = "run it"
    NOTHING = "nothing"
    UNKNOWN = "it cannot be run there"


class LocalStatements:
    """Which statements a local view can run, given the definitions that it has and what it holds of each table."""

    def __init__(self, dialect: str, local: Catalog, parts: Mapping[str, Part]) -> None:
        self._dialect, self._local, self._parts = dialect, local, parts

    def texts(self, said: Iterable[Mapping[str, Sequence[str]]], catalog: Catalog) -> list[str] | None:
        """Of the statements of some transactions those that are to be run, in order; None if some cannot be."""
        found: list[str] = []
        for texts in said:
            for table, about in texts.items():
                for text in about:
                    effect = self.effect(text, table, catalog)
                    if effect is Effect.UNKNOWN:
                        return None
                    if effect is Effect.RUN:
                        found.append(text)
        return found

    def effect(self, text: str, table: str, catalog: Catalog) -> Effect:
        """What is to be done for a statement about a table, which ran over the definitions of a catalog."""
        change, part = bound(text, self._dialect, self._local), self._parts[table]
        match change:
            case DeleteRows(plan=rows):
                where = condition_of(rows)
                return Effect.RUN if _is_held((where,), part.columns) else Effect.UNKNOWN
            case UpdateRows():
                return _of_update(change, part)
            case InsertRows(rows=rows):
                there = bound(text, self._dialect, catalog)
                if isinstance(there, InsertRows) and len(there.rows) <= MOST_ROWS:
                    return _of_rows(rows, there.rows, part)
        return Effect.UNKNOWN


def _of_update(change: UpdateRows, part: Part) -> Effect:
    cells = cells_of(change.coming)
    if cells is None:
        return Effect.UNKNOWN
    changed = changed_cells(cells)
    if changed.keys() & part.filtered_by:
        return Effect.UNKNOWN
    values = [cell for position, cell in changed.items() if position in part.columns]
    if not values:
        return Effect.NOTHING
    return Effect.RUN if _is_held((condition_of(change.plan), *values), part.columns) else Effect.UNKNOWN


def _of_rows(local: Sequence[tuple[Value, ...]], there: Sequence[tuple[Value, ...]], part: Part) -> Effect:
    seen = [row[: len(part.schema)] for row in there]
    try:
        passing = [part.filter is None or value_of(part.filter, row) is True for row in seen]
    except TidemarkError:
        return Effect.UNKNOWN
    if not any(passing):
        return Effect.NOTHING
    is_same = [_nulled(row, part.columns) for row in local] == [_nulled(row, part.columns) for row in seen]
    return Effect.RUN if all(passing) and is_same else Effect.UNKNOWN


def _is_held(expressions: Iterable[Expression | None], columns: Columns) -> bool:
    """Whether expressions are known, exact, and read no other columns."""
    found = list(expressions)
    known = [one for one in found if one is not None]
    return len(known) == len(found) and is_exact(known) and all(columns_of(one) <= columns for one in known)


def local_change(text: str, dialect: str, local: Catalog, columns: Mapping[str, Columns]) -> BoundChange | None:
    """The statement as a local view runs it, on what it holds; None if it is none that it could run."""
    change = bound(text, dialect, local)
    if change is None:
        return None
    held = columns[change.table.name]
    match change:
        case InsertRows(table=table, rows=rows):
            return InsertRows(table, tuple(_nulled(row, held) for row in rows))
        case UpdateRows(coming=Project() as coming):
            fields = change.table.schema.fields
            cells = (
                cell if position in held else Literal(None, fields[position].type)
                for position, cell in enumerate(coming.expressions)
            )
            return replace(change, coming=replace(coming, expressions=tuple(cells)))
        case DeleteRows():
            return change
    return None


def _nulled(row: tuple[Value, ...], columns: Columns) -> tuple[Value, ...]:
    return tuple(value if position in columns else None for position, value in enumerate(row))


HELD = "held"


@dataclass(frozen=True)
class ViewStep:
    """What brings a view up to date for a statement: a plan over its content, given as HELD, and over the rows of an
    INSERT. ``is_settled`` if what is known of rows is still true after it, whatever the statement did."""

    plan: Plan
    is_settled: bool
    given: Mapping[str, pa.Table] = field(default_factory=dict)

    def of(self, content: pa.Table, engine: Engine) -> pa.Table:
        """The content after the statement."""
        change = engine.evaluate(self.plan, {HELD: content, **self.given})
        return delta_tables.combine(content, change.cast(content.schema))


class Following:
    """How statements are followed by a view alone, with the definitions that its holder has."""

    def __init__(self, view: str, dialect: str, catalog: Catalog) -> None:
        self._view, self._dialect, self._catalog = view, dialect, catalog
        self._node = network_of(catalog).nodes[view]
        self._keys = known_of(catalog).keys
        self.step = lru_cache(maxsize=256)(self._step)

    def can_follow(self, said: Iterable[Mapping[str, Sequence[str]]]) -> bool:
        """Whether the statements of some transactions can be followed, one after the other.

        Each reads its own table alone, so that only the order of those about one table matters.
        """
        for texts in said:
            for about in texts.values():
                steps = [self.step(text) for text in about]
                if None in steps or not all(step is not None and step.is_settled for step in steps[:-1]):
                    return False
        return True

    def _step(self, text: str) -> ViewStep | None:
        """The step for a statement; None if there is none."""
        change = bound(text, self._dialect, self._catalog)
        if change is None:
            return None
        refresh = self._refresh(change)
        if refresh is None or len(refresh.stages) != 1:
            return None
        plan, given = refresh.stages[0].plan, dict[str, pa.Table]()
        if isinstance(change, InsertRows):
            rows = delta_tables.weighted(as_table(change.rows, change.table.schema, change.table.name))
            given = given_deltas({change.table.name: delta_tables.net(rows)})
        if not self._is_alone(plan, change) or not is_exact(
            e for part in walk_of_plans(plan) for e in expressions_of(part)
        ):
            return None
        return ViewStep(transform(plan, self._held), _is_settled(change), given)

    def _refresh(self, change: BoundChange) -> Refresh | None:
        if isinstance(change, InsertRows):
            found = attempts(self._node, change.table.name, self._keys, frozenset())
            return next((attempt.refresh for attempt in found if attempt.undecided is None), None)
        statement, is_whole = analysed(change)
        if not is_whole or statement is None:
            return None
        return by_statement(self._node, statement, KnownFacts({}, self._keys), frozenset())

    def _is_alone(self, plan: Plan, change: BoundChange) -> bool:
        """Whether the plan reads the view and what the statement says, and nothing else."""
        rows = delta_name(change.table.name) if isinstance(change, InsertRows) else None
        for part in walk_of_plans(plan):
            match part:
                case Stored(relation=relation) if relation != self._view:
                    return False
                case Given(name=name) if name != rows:
                    return False
        return True

    def _held(self, part: Plan) -> Plan | None:
        return Given(HELD, part.schema) if isinstance(part, Stored) else None


def _is_settled(change: BoundChange) -> bool:
    if isinstance(change, UpdateRows):
        statement, _ = analysed(change)
        changed = getattr(statement, "changed", frozenset(range(len(change.table.schema))))
        return not any(i in change.table.primary_key or not change.table.schema[i].nullable for i in changed)
    return isinstance(change, DeleteRows)


MOST_CHARACTERS: Final = 1_000_000
MOST_VERSIONS: Final = 10_000


class Said(NamedTuple):
    """What a version did to tables: for each the texts of statements, in order; None if there was more to it."""

    version: int
    texts: Mapping[str, tuple[str, ...]] | None

    @property
    def size(self) -> int:
        return 0 if self.texts is None else sum(len(text) for said in self.texts.values() for text in said)


class Heard:
    """What was said of some tables. It listens to a store (``Events.hearers``) as long as somebody holds it."""

    def __init__(self, tables: Set[str], version: int) -> None:
        self._tables, self._since = tables, version
        self._said: deque[Said] = deque()
        self._size = 0

    def hear(self, event: Committed | Settled) -> None:
        if isinstance(event, Settled):
            self._missed(event.version)
        else:
            self._committed(event)

    def _committed(self, event: Committed) -> None:
        changed = [name for name in event.pending if name in self._tables]
        if not changed:
            return
        texts: dict[str, tuple[str, ...]] | None = {}
        for name in changed:
            said = event.said.get(name, (None,))
            known = tuple(text for text in said if text is not None)
            if texts is None or len(known) < len(said):
                texts = None
                break
            texts[name] = known
        one = Said(event.version, texts)
        if one.size > MOST_CHARACTERS:
            one = Said(event.version, None)
        self._said.append(one)
        self._size += one.size
        while self._size > MOST_CHARACTERS or len(self._said) > MOST_VERSIONS:
            gone = self._said.popleft()
            self._since, self._size = gone.version, self._size - gone.size

    def _missed(self, version: int) -> None:
        """Something failed: nobody knows what was said up to a version."""
        self._said.clear()
        self._since, self._size = version, 0

    def since(self, version: int) -> list[Said] | None:
        """What was said after a version, as far as it was about the tables; None if that is not known."""
        if version < self._since:
            return None
        return [one for one in self._said if one.version > version]
