"""What is known of the rows of tables and views, which relevance and autonomy rest on: NOT NULL, CHECK and keys.

A change has rows that leave and rows that come, so what is known must be true before the block and after it. Between
two statements of a transaction constraints may be violated, and a transaction may change the definitions themselves.

Boundaries that are kept with the views: for which constants statements are irrelevant (BLAKELEY 8.2).

What a view and a shape of statements give is worked out once, when a statement of the shape is first asked about, and
stays with the view: other statements of the shape only compare their constants with it. It goes with the view, with its
definition and with what is known of the tables below.

A boundary is certain where it says irrelevant. Elsewhere it says nothing: it may be narrower than what can be proved of
one statement.

Bound statements as the analysis sees them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final

from tidemark.algebra.expressions import TRUE, Expression
from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Plan, relations_of
from tidemark.algebra.types import Field
from tidemark.analysis.autonomy.dml import AnalysedStatement, Deletion, Insertion, Update
from tidemark.analysis.facts import Facts
from tidemark.analysis.relevance.dml import cells_of, condition_of
from tidemark.analysis.relevance.filters import Influence, influence
from tidemark.analysis.relevance.shapes import Shape, boundary_of
from tidemark.sql.bind.changes import BoundChange, DeleteRows, UpdateRows
from tidemark.sql.catalog.catalog import Catalog, Table, View
from tidemark.state.pairs import Key, relation_keys, shortest
from tidemark.strategy.autonomous import KnownFacts


def known_of(catalog: Catalog, before: Catalog | None = None, known_before: KnownFacts | None = None) -> KnownFacts:
    """What is true of all rows while definitions stay and constraints hold. What is known of the catalog ``before`` is
    taken over if this one only has more relations."""
    added = None if before is None else catalog.relations.since(before.relations)
    if added is None or known_before is None:
        return KnownFacts(_facts(catalog.tables), relation_keys(catalog))
    fresh = [relation for relation in added if isinstance(relation, Table)]
    facts = {**known_before.facts, **_facts(fresh)} if fresh else known_before.facts
    return KnownFacts(facts, relation_keys(catalog, known_before.keys))


def _facts(tables: Iterable[Table]) -> dict[str, Facts]:
    return {table.name: Facts.of(table.schema, tuple(check.condition for check in table.checks)) for table in tables}


def known_between(before: Catalog, known_before: KnownFacts, after: Catalog, going_on: Set[str]) -> KnownFacts:
    """What is true before and after definitions change. Rows that leave need not satisfy what an ALTER TABLE of the
    same transaction asks for, nor be told apart by a key that a view has since it was replaced."""
    known_after, earlier = known_of(after, before, known_before), known_before.keys
    facts = dict(known_after.facts)
    for table in after.tables:
        known = before.get(table.name)
        if table.name in going_on and isinstance(known, Table):
            facts[table.name] = Facts(_fields(table, known), tuple(check.condition for check in known.checks))
    return KnownFacts(facts, _KeysBetween(known_after.keys, earlier, going_on))


class _KeysBetween(Mapping[str, frozenset[Key]]):
    """The keys after a change of definitions; of what goes on those that it had before, too."""

    def __init__(self, after: RelationKeys, before: RelationKeys, going_on: Set[str]) -> None:
        self._after, self._before, self._going_on = after, before, going_on

    def __getitem__(self, name: str) -> frozenset[Key]:
        found = self._after[name]
        return found & self._before[name] if name in self._going_on else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._after)

    def __len__(self) -> int:
        return len(self._after)


def known_of_nothing(catalog: Catalog) -> KnownFacts:
    """What is true while constraints are violated: the types of columns."""
    tables = {table.name: table.schema.fields for table in catalog.tables}
    return KnownFacts({name: Facts(tuple(map(_nullable, fields))) for name, fields in tables.items()})


def view_keys(catalog: Catalog, known: KnownFacts) -> Mapping[str, Key]:
    """A key of each materialized view that has one."""
    return ViewKeys(catalog, known.keys)


class ViewKeys(Mapping[str, Key]):
    """A key of each materialized view that has one, worked out when it is asked for."""

    def __init__(self, catalog: Catalog, keys: RelationKeys) -> None:
        self._catalog, self._keys = catalog, keys

    def __getitem__(self, name: str) -> Key:
        view = self._catalog.relations[name]
        found = self._keys[name] if isinstance(view, View) and view.materialized and view.lag is None else None
        if not found:
            raise KeyError(name)
        return shortest(found)

    def __iter__(self) -> Iterator[str]:
        return (view.name for view in self._catalog.materialized_views if self._keys[view.name])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _fields(table: Table, before: Table) -> tuple[Field, ...]:
    """The columns of a table, of which those that were added are NULL in the rows that were there, unless they have a
    default."""
    width = len(before.schema)
    added = zip(table.schema.fields[width:], table.defaults[width:], strict=True)
    return table.schema.fields[:width] + tuple(_nullable(f) if value is None else f for f, value in added)


def _nullable(field: Field) -> Field:
    return replace(field, nullable=True)


MOST_SHAPES: Final = 256


@dataclass
class ViewBoundaries:
    """What is kept with one view: its definition over the tables, and what is known of them, are what it rests on."""

    plan: Plan
    facts: Mapping[str, Facts]
    shapes: dict[Shape, Expression | None] = field(default_factory=dict)
    _influences: dict[str, Influence] = field(default_factory=dict)

    def influence(self, table: str) -> Influence:
        """How the rows of a table reach the view."""
        if table not in self._influences:
            self._influences[table] = influence(self.plan, table, self.facts)
        return self._influences[table]

    def boundary(self, shape: Shape) -> Expression | None:
        """The condition on the constants within which statements of the shape are irrelevant to the view."""
        if shape not in self.shapes:
            if len(self.shapes) >= MOST_SHAPES:
                del self.shapes[next(iter(self.shapes))]
            self.shapes[shape] = boundary_of(self.influence(shape.relation), shape)
        return self.shapes[shape]


class Boundaries:
    """Those of all views."""

    def __init__(self) -> None:
        self._views: dict[str, ViewBoundaries] = {}

    def of(self, view: str, plan: Plan, facts: Mapping[str, Facts]) -> ViewBoundaries:
        """What is kept with a view, given its definition over the tables and what is known of these."""
        below = {name: facts[name] for name in relations_of(plan) if name in facts}
        kept = self._views.get(view)
        if kept is None or kept.plan != plan or kept.facts != below:
            kept = self._views[view] = ViewBoundaries(plan, below)
        return kept

    def keep_only(self, names: Container[str]) -> None:
        """Drop what belongs to views that are there no more."""
        self._views = {name: kept for name, kept in self._views.items() if name in names}


def analysed(change: BoundChange) -> tuple[AnalysedStatement | None, bool]:
    """The statement as far as the analysis can look into it, and whether that is all of it.

    A condition that asks other tables is taken to hold for any row; of an UPDATE whose values come from other tables
    nothing is said.
    """
    table = change.table
    match change:
        case DeleteRows(plan=rows):
            where = condition_of(rows)
            return Deletion(table.name, TRUE if where is None else where), where is not None
        case UpdateRows(plan=rows, coming=coming):
            cells, where = cells_of(coming), condition_of(rows)
            if cells is None:
                return None, False
            values = tuple(cells[position] for position in range(len(table.schema)))
            return Update(table.name, values, TRUE if where is None else where), where is not None
    return Insertion(table.name), True
