"""Tables with few values, views over them, and what statements do to the views in all small databases."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from tidemark.algebra.expressions import Value
from tidemark.algebra.plans import Plan, Scan, Stored, transform
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import Kind
from tidemark.analysis.conditions import Facts
from tidemark.analysis.relevance.filters import Influence, influence
from tidemark.engines.reference.evaluate import Bag, evaluate
from tidemark.errors import TidemarkError
from tidemark.sql.bind.changes import DeleteRows, InsertRows, UpdateRows, bind_delete, bind_insert, bind_update
from tidemark.sql.bind.queries import QueryBinder
from tidemark.sql.catalog.catalog import Catalog, Table
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.statements import Delete, Insert, Query, Update
from tidemark.sql.parse.text import Source
from tidemark.state.records import define

Row = tuple[Value, ...]
Instance = Mapping[str, Bag]


@dataclass(frozen=True)
class World:
    """Some tables, given by CREATE TABLE."""

    texts: tuple[str, ...]

    @cached_property
    def catalog(self) -> Catalog:
        result = Catalog()
        for sql in self.texts:
            result = result.with_relation(define(sql, "postgres", result))
        return result

    @cached_property
    def facts(self) -> dict[str, Facts]:
        return {t.name: Facts.of(t.schema, tuple(c.condition for c in t.checks)) for t in self.catalog.tables}

    def plan(self, query: str) -> Plan:
        [(statement, source)] = parse_script(Source(query))
        assert isinstance(statement, Query)
        return QueryBinder(source, self.catalog).bind_view(statement.tree)

    def influence(self, query: str, relation: str) -> Influence:
        return influence(self.plan(query), relation, self.facts)

    def statement(self, sql: str) -> InsertRows | DeleteRows | UpdateRows:
        [(statement, source)] = parse_script(Source(sql))
        match statement:
            case Insert(tree=tree):
                inserted = bind_insert(tree, self.catalog, source)
                assert isinstance(inserted, InsertRows)
                return inserted
            case Delete(tree=tree):
                return bind_delete(tree, self.catalog, source)
            case Update(tree=tree):
                return bind_update(tree, self.catalog, source)
        raise AssertionError(f"not a change of a table: {sql}")

    # Databases

    def rows(self, name: str, numbers: tuple[int, ...]) -> list[Row]:
        """Every row of the table whose numbers are among the given ones."""
        table = self.table(name)
        values: list[list[Value]] = []
        for field in table.schema.fields:
            own: list[Value] = list(numbers) if field.type.is_integer else ["", "a", "b"]
            own = [False, True] if field.type.kind is Kind.BOOLEAN else own
            values.append(own + [None] * field.nullable)
        return [row for row in product(*values) if self.allows(name, row)]

    def table(self, name: str) -> Table:
        table = self.catalog.get(name)
        assert isinstance(table, Table)
        return table

    def allows(self, name: str, row: Row) -> bool:
        """Whether NOT NULL and CHECK hold for a row."""
        table = self.table(name)
        there = all(f.nullable or value is not None for f, value in zip(table.schema, row, strict=True))
        return there and all(value_of(check.condition, row) is not False for check in table.checks)

    def smallest(self, numbers: tuple[int, ...], without: str) -> Iterator[Instance]:
        """The databases with one row in each table but one, which is empty."""
        names = [table.name for table in self.catalog.tables if table.name != without]
        for chosen in product(*(self.rows(name, numbers) for name in names)):
            yield {without: {}, **{name: {row: 1} for name, row in zip(names, chosen, strict=True)}}

    def samples(self, numbers: tuple[int, ...], count: int, most: int = 2) -> list[Instance]:
        """Random databases with few rows in each table, equal ones among them."""
        chance = random.Random(7)
        found: list[Instance] = []
        for _ in range(count):
            instance: dict[str, Bag] = {}
            for table in self.catalog.tables:
                bag: Bag = {}
                for row in chance.choices(self.rows(table.name, numbers), k=chance.randint(0, most)):
                    bag[row] = bag.get(row, 0) + 1
                instance[table.name] = bag
            found.append(instance)
        return found


def content(plan: Plan, instance: Instance) -> Bag | str:
    """The rows of a plan on a database, or the code of its error."""
    try:
        return evaluate(stored(plan), instance, {})
    except TidemarkError as error:
        return error.code


def stored(plan: Plan) -> Plan:
    return transform(plan, lambda p: Stored(p.relation, p.columns_) if isinstance(p, Scan) else None)


def with_row(instance: Instance, name: str, row: Row) -> Instance:
    return {**instance, name: {**instance[name], row: instance[name].get(row, 0) + 1}}
