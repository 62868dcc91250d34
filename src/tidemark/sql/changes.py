"""Binding INSERT, UPDATE and DELETE: each becomes plans for the rows that leave and the rows that come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from tidemark.algebra.clock import CLOCK
from tidemark.algebra.expressions import Expression, Literal, Value
from tidemark.algebra.plans import Given, Plan, Project, Scan
from tidemark.errors import TidemarkError
from tidemark.sql import statements as st
from tidemark.sql.assignment import assigned, constant
from tidemark.sql.catalog import RULE_TABLES, Catalog, Table, View
from tidemark.sql.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.grouping import no_aggregates
from tidemark.sql.lowering import attached, filtered
from tidemark.sql.queries import QueryBinder
from tidemark.sql.scope import Scope
from tidemark.sql.text import Source, fold

LEAVING = "leaving"


@dataclass(frozen=True)
class InsertRows:
    """INSERT … VALUES: whole rows of the table, ready."""

    table: Table
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class InsertQuery:
    """INSERT … SELECT: a plan whose rows are whole rows of the table."""

    table: Table
    plan: Plan


@dataclass(frozen=True)
class DeleteRows:
    """DELETE: the plan gives the rows that leave."""

    table: Table
    plan: Plan


@dataclass(frozen=True)
class UpdateRows:
    """UPDATE: the plan gives the rows that leave; ``coming`` makes of each, given as LEAVING, the row that comes."""

    table: Table
    plan: Plan
    coming: Plan


def table_for_change(name: str, catalog: Catalog, source: Source, node: exp.Expr | None = None) -> Table:
    relation = catalog.get(name)
    if relation is None:
        raise source.error("unknown_relation", f"there is no table {name!r}", node, hint=catalog.suggestions(name))
    if isinstance(relation, View):
        raise source.error("not_a_table", f"{name!r} is a view: change the tables below it", node)
    if name == CLOCK:
        raise source.error("reserved_name", "the clock is moved by transactions and by tick()", node)
    if name in RULE_TABLES:
        raise source.error("reserved_name", f"{name!r} is written by rules alone", node)
    return relation


Change: TypeAlias = InsertRows | InsertQuery | DeleteRows | UpdateRows


def bind_change(statement: st.Statement, catalog: Catalog, source: Source) -> Change:
    """A statement that changes a table; any other is refused."""
    match statement:
        case st.Insert(tree=tree):
            return bind_insert(tree, catalog, source)
        case st.Update(tree=tree):
            return bind_update(tree, catalog, source)
        case st.Delete(tree=tree):
            return bind_delete(tree, catalog, source)
    raise TidemarkError("syntax", "INSERT, UPDATE or DELETE is expected here")


def bind_insert(tree: exp.Insert, catalog: Catalog, source: Source) -> InsertRows | InsertQuery:
    refuse_other_parts(tree, ("this", "expression"), source)
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    table = table_for_change(table_name(target, source), catalog, source, target)
    named = [fold(column) for column in tree.this.expressions] if isinstance(tree.this, exp.Schema) else None
    positions = _positions(table, named, source, tree.this)
    if isinstance(tree.expression, exp.Values):
        rows = tuple(_row(entry, table, positions, source) for entry in tree.expression.expressions)
        return InsertRows(table, rows)
    if tree.expression is None:
        raise source.error("unsupported", "INSERT needs VALUES or a query", tree)
    plan = QueryBinder(source, catalog).bind_view(tree.expression)
    _right_number(len(plan.schema), positions, named, table, source, tree.expression)
    cells: list[Expression] = [
        Literal(value, f.type) for value, f in zip(table.defaults, table.schema.fields, strict=True)
    ]
    for column, position in zip(plan.columns(), positions, strict=False):
        cells[position] = assigned(column, table.schema[position], source, tree.expression)
    return InsertQuery(table, Project(plan, table.schema.names, tuple(cells)))


def bind_delete(tree: exp.Delete, catalog: Catalog, source: Source) -> DeleteRows:
    refuse_other_parts(tree, ("this", "where"), source)
    table, plan, _ = _selected(tree.this, tree.args.get("where"), catalog, source)
    return DeleteRows(table, plan)


def bind_update(tree: exp.Update, catalog: Catalog, source: Source) -> UpdateRows:
    refuse_other_parts(tree, ("this", "expressions", "where"), source)
    table, plan, scope = _selected(tree.this, tree.args.get("where"), catalog, source)
    if not tree.expressions:
        raise source.error("syntax", "UPDATE needs SET column = expression", tree)
    binder = QueryBinder(source, catalog).binder(scope)
    cells: list[Expression] = list(plan.columns())
    taken: set[int] = set()
    for assignment in tree.expressions:
        if not isinstance(assignment, exp.EQ) or not isinstance(assignment.this, exp.Column):
            raise source.error("unsupported", "SET takes column = expression", assignment)
        refuse_other_parts(assignment.this, ("this",), source)
        name = fold(assignment.this.this)
        if name not in table.schema.names:
            raise source.error(
                "unknown_column",
                f"{table.name!r} has no column {name!r}",
                assignment,
                hint=f"columns: {', '.join(table.schema.names)}",
            )
        position = table.schema.position(name)
        if position in taken:
            raise source.error("syntax", f"the column {name!r} is assigned twice", assignment)
        taken.add(position)
        bound = binder.bind(assignment.expression)
        cells[position] = assigned(bound, table.schema[position], source, assignment.expression)
    leaving, made = attached(Given(LEAVING, table.schema), tuple(cells))
    return UpdateRows(table, plan, Project(leaving, table.schema.names, made))


def _selected(target: exp.Expr, where: exp.Expr | None, catalog: Catalog, source: Source) -> tuple[Table, Plan, Scope]:
    """The table, the plan of its rows that the condition picks, and the scope of its columns."""
    table = table_for_change(table_name(target, source), catalog, source, target)
    alias = target.args.get("alias")
    if alias is not None:
        refuse_other_parts(alias, ("this",), source)
    scope = Scope.of(table.name if alias is None else fold(alias.this), table.schema)
    plan: Plan = Scan(table.name, table.schema)
    if where is not None:
        no_aggregates(where, "WHERE", source)
        plan = filtered(plan, QueryBinder(source, catalog).binder(scope).condition(where.this, "WHERE"))
    return table, plan, scope


def table_name(node: exp.Expr, source: Source) -> str:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise source.error("unsupported", "a table's name is expected here", node)
    if node.args.get("db") is not None:
        raise source.error("unsupported", "schema names are not supported", node)
    refuse_other_parts(node, ("this", "alias"), source)
    return fold(node.this)


def _positions(table: Table, named: list[str] | None, source: Source, node: exp.Expr) -> list[int]:
    if named is None:
        return list(range(len(table.schema)))
    for position, name in enumerate(named):
        if name not in table.schema.names:
            raise source.error(
                "unknown_column",
                f"{table.name!r} has no column {name!r}",
                node.expressions[position],
                hint=f"columns: {', '.join(table.schema.names)}",
            )
        if name in named[:position]:
            raise source.error("syntax", f"the column {name!r} stands twice", node.expressions[position])
    return [table.schema.position(name) for name in named]


def _right_number(
    given: int, positions: list[int], named: list[str] | None, table: Table, source: Source, node: exp.Expr
) -> None:
    if given != len(positions):
        what = "columns are named" if named is not None else f"columns are in {table.name!r}"
        raise source.error("type", f"{given} values are given, but {len(positions)} {what}", node)


def _row(entry: exp.Expr, table: Table, positions: list[int], source: Source) -> tuple[Value, ...]:
    cells = list(entry.expressions) if isinstance(entry, exp.Tuple) else [entry]
    _right_number(len(cells), positions, None, table, source, entry)
    binder = ExpressionBinder(source, Scope())
    row: list[Value] = list(table.defaults)
    for cell, position in zip(cells, positions, strict=True):
        bound = assigned(binder.bind(cell), table.schema[position], source, cell)
        row[position] = constant(bound, table.schema[position], source, cell)
    return tuple(row)
