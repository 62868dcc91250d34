"""Binding INSERT, UPDATE and DELETE: each becomes plans for the rows that leave and the rows that come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from tidemark.algebra.expressions import Expression, Literal, Value
from tidemark.algebra.history import CLOCK
from tidemark.algebra.plans import Given, Plan, Project, Scan
from tidemark.algebra.types import Field
from tidemark.errors import TidemarkError
from tidemark.sql.bind.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.bind.lowering import attached, filtered
from tidemark.sql.bind.queries import QueryBinder
from tidemark.sql.bind.scope import Scope
from tidemark.sql.bind.syntax import no_aggregates
from tidemark.sql.bind.types import assigned, constant
from tidemark.sql.catalog.catalog import RULE_TABLES, Catalog, Table, View
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.lists import Listed, node_of, values_of
from tidemark.sql.parse.text import Source, fold

LEAVING = "leaving"


@dataclass(frozen=True)
class InsertRows:
    """INSERT … VALUES: whole rows of the table, ready."""

    table: Table
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class InsertCells:
    """INSERT … VALUES with values that are still to come: each cell is an expression that reads no column."""

    table: Table
    rows: tuple[tuple[Expression, ...], ...]


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
    if relation.origin is not None:
        raise source.error(
            "read_only",
            f"{name!r} follows {relation.origin.relation!r} of the source {relation.origin.source!r}: "
            "nothing else changes it",
            node,
            hint="change it where it comes from; pull brings the changes here",
        )
    return relation


BoundChange: TypeAlias = InsertRows | InsertQuery | DeleteRows | UpdateRows


def bind_open(statement: st.Statement, catalog: Catalog, source: Source) -> BoundChange | InsertCells:
    """A statement that changes a table, some of whose values come when it runs: ``source.values`` stand for them."""
    if isinstance(statement, st.Insert) and isinstance(statement.tree.expression, exp.Values):
        table, positions = _inserted_into(statement.tree, catalog, source)
        entries = statement.tree.expression.expressions
        return InsertCells(table, tuple(_cells(entry, table, positions, source)[0] for entry in entries))
    return bind_change(statement, catalog, source)


def bind_change(statement: st.Statement, catalog: Catalog, source: Source) -> BoundChange:
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
    table, positions = _inserted_into(tree, catalog, source)
    if isinstance(tree.expression, exp.Values):
        return InsertRows(table, _rows(tree.expression.expressions, table, positions, source))
    if tree.expression is None:
        raise source.error("unsupported", "INSERT needs VALUES or a query", tree)
    plan = QueryBinder(source, catalog).bind_view(tree.expression)
    _right_number(len(plan.schema), positions, table, source, tree, tree.expression)
    cells = list(_defaults(table))
    for column, position in zip(plan.columns(), positions, strict=False):
        cells[position] = assigned(column, table.schema[position], source, tree.expression)
    return InsertQuery(table, Project(plan, table.schema.names, tuple(cells)))


def _inserted_into(tree: exp.Insert, catalog: Catalog, source: Source) -> tuple[Table, list[int]]:
    """The table, and the positions of the columns that are given."""
    refuse_other_parts(tree, ("this", "expression"), source)
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    table = table_for_change(table_name(target, source), catalog, source, target)
    named = [fold(column) for column in tree.this.expressions] if isinstance(tree.this, exp.Schema) else None
    return table, _positions(table, named, source, tree.this)


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
            raise source.error("syntax", f"the column {name!r} is named twice", node.expressions[position])
    return [table.schema.position(name) for name in named]


def _right_number(
    given: int, positions: list[int], table: Table, source: Source, tree: exp.Insert | None, node: exp.Expr
) -> None:
    if given != len(positions):
        is_named = tree is not None and isinstance(tree.this, exp.Schema)
        what = "columns are named" if is_named else f"columns are in {table.name!r}"
        raise source.error("type", f"{given} values are given, but {len(positions)} {what}", node)


def _rows(entries: list[exp.Expr], table: Table, positions: list[int], source: Source) -> tuple[tuple[Value, ...], ...]:
    """The rows of VALUES. Of a long list each column is read at once, if all of it can be."""
    listed = Listed.of(entries, source)
    columns = None if listed is None else listed.columns()
    if columns is not None and len(columns) == len(positions):
        cells = [_column_cells(texts, table.schema[at], source) for texts, at in zip(columns, positions, strict=True)]
        read = {at: found for at, found in zip(positions, cells, strict=True) if found is not None}
        if len(read) == len(positions):
            filled = [read.get(at, [default] * len(columns[0])) for at, default in enumerate(table.defaults)]
            return tuple(zip(*filled, strict=True))
    written = entries if listed is None else listed.rows()
    return tuple(_row(entry, table, positions, source) for entry in written)


def _column_cells(texts: list[str], column: Field, source: Source) -> list[Value] | None:
    """The constants as values of a column, equal ones worked out once; None if one cannot be assigned."""
    plain = values_of(texts, column.type)
    if plain is not None:
        return plain
    binder, known = ExpressionBinder(source, Scope()), dict.fromkeys(texts)
    try:
        for text in known:
            node = node_of(text)
            known[text] = constant(assigned(binder.bind(node), column, source, node), column, source, node)
    except TidemarkError:
        return None  # it is told when the rows are read one by one
    return [known[text] for text in texts]


def _row(entry: exp.Expr, table: Table, positions: list[int], source: Source) -> tuple[Value, ...]:
    row: list[Value] = list(table.defaults)
    cells, nodes = _cells(entry, table, positions, source)
    for node, position in zip(nodes, positions, strict=True):
        row[position] = constant(cells[position], table.schema[position], source, node)
    return tuple(row)


def _cells(
    entry: exp.Expr, table: Table, positions: list[int], source: Source
) -> tuple[tuple[Expression, ...], list[exp.Expr]]:
    """An expression for each column of the table, and what was written for the columns that are given."""
    nodes = list(entry.expressions) if isinstance(entry, exp.Tuple) else [entry]
    _right_number(len(nodes), positions, table, source, None, entry)
    binder = ExpressionBinder(source, Scope())
    cells = list(_defaults(table))
    for node, position in zip(nodes, positions, strict=True):
        cells[position] = assigned(binder.bind(node), table.schema[position], source, node)
    return tuple(cells), nodes


def _defaults(table: Table) -> tuple[Expression, ...]:
    return tuple(Literal(value, field.type) for value, field in zip(table.defaults, table.schema.fields, strict=True))
