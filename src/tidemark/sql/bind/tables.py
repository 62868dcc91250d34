"""Binding CREATE TABLE: columns, types and constraints."""

from __future__ import annotations

from sqlglot import exp

from tidemark.algebra.expressions import Literal, Value
from tidemark.algebra.types import INT, Field, Schema
from tidemark.sql.bind.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.bind.scope import Scope
from tidemark.sql.bind.types import assigned, bind_type, constant, length_limit
from tidemark.sql.catalog.catalog import Check, Table
from tidemark.sql.catalog.columns import must_be_free
from tidemark.sql.parse.statements import CreateTable
from tidemark.sql.parse.text import Source, fold


def bind_table(statement: CreateTable, source: Source) -> Table:
    """The table that a CREATE TABLE statement defines."""
    tree = statement.tree
    if not isinstance(tree.this, exp.Schema):
        raise source.error(
            "unsupported",
            "CREATE TABLE … AS is not supported yet",
            tree,
            hint="create it, then INSERT … SELECT",
        )
    refuse_other_parts(tree, ("this", "kind", "exists"), source)
    name_node = tree.this.this
    if name_node.args.get("db") is not None:
        raise source.error("unsupported", "schema names are not supported", name_node)
    name = fold(name_node.this)
    columns = [part for part in tree.this.expressions if isinstance(part, exp.ColumnDef)]
    constraints = [part for part in tree.this.expressions if not isinstance(part, exp.ColumnDef)]
    if not columns:
        raise source.error("syntax", f"the table {name!r} has no columns", tree.this)
    key, required, check_nodes = _constraints(columns, constraints, source)
    schema = Schema(bind_fields((), columns, required | set(key), source))
    missing = [column for column in key if column not in schema.names]
    if missing:
        raise source.error("unknown_column", f"the primary key names {missing[0]!r}, which is not a column", tree.this)
    positions = tuple(schema.position(column) for column in key)
    return Table(
        name,
        schema,
        statement.text,
        source.dialect,
        positions,
        bind_checks(columns, check_nodes, schema, source),
        bind_defaults(columns, schema, source),
    )


def bind_columns(columns: list[exp.ColumnDef], source: Source) -> tuple[set[str], list[exp.Expr]]:
    """The NOT NULL columns and the conditions of CHECK of columns that come to a table."""
    key, required, checks = _constraints(columns, [], source)
    if key:
        raise source.error("unsupported", "a column that is added cannot be the primary key", columns[0])
    return required, checks


def bind_checks(
    columns: list[exp.ColumnDef], conditions: list[exp.Expr], schema: Schema, source: Source
) -> tuple[Check, ...]:
    checks = tuple(_check(node, schema, source) for node in conditions)
    return checks + tuple(
        _length_check(c, schema, source) for c in columns if length_limit(c.args["kind"], source) is not None
    )


def bind_defaults(columns: list[exp.ColumnDef], schema: Schema, source: Source) -> tuple[Value, ...]:
    """The value of each column's DEFAULT, a constant; NULL without one."""
    binder = ExpressionBinder(source, Scope())
    values: list[Value] = []
    for column in columns:
        field = schema[schema.position(fold(column.this))]
        nodes = [
            constraint.args["kind"].this
            for constraint in column.args.get("constraints") or ()
            if isinstance(constraint.args["kind"], exp.DefaultColumnConstraint)
        ]
        if len(nodes) > 1:
            raise source.error("syntax", f"the column {field.name!r} has two defaults", column)
        values += [constant(assigned(binder.bind(node), field, source, node), field, source, node) for node in nodes]
        values += [] if nodes else [None]
    return tuple(values)


def bind_fields(
    before: tuple[Field, ...], columns: list[exp.ColumnDef], required: set[str], source: Source
) -> tuple[Field, ...]:
    """The fields of a table that has some already, with those of new columns."""
    fields = list(before)
    for column in columns:
        name = fold(column.this)
        must_be_free(name, source, column)
        if any(name.lower() == f.name.lower() for f in fields):
            raise source.error("duplicate_column", f"two columns are named {name!r}", column)
        kind = column.args.get("kind")
        if kind is None:
            raise source.error("syntax", f"the column {name!r} has no type", column)
        fields.append(Field(name, bind_type(kind, source), nullable=name not in required))
    return tuple(fields)


def _constraints(
    columns: list[exp.ColumnDef], others: list[exp.Expr], source: Source
) -> tuple[list[str], set[str], list[exp.Expr]]:
    """The primary key, the NOT NULL columns, and the conditions of CHECK."""
    key: list[str] = []
    required: set[str] = set()
    checks: list[exp.Expr] = []
    for column in columns:
        name = fold(column.this)
        for constraint in column.args.get("constraints") or ():
            match constraint.args["kind"]:
                case exp.PrimaryKeyColumnConstraint():
                    key = _only_key(key, [name], constraint, source)
                case exp.NotNullColumnConstraint(args=arguments):
                    required |= set() if arguments.get("allow_null") else {name}
                case exp.CheckColumnConstraint(this=condition):
                    checks.append(condition)
                case exp.DefaultColumnConstraint():
                    pass  # read by bind_defaults
                case other:
                    raise _unsupported(other, source)
    for part in others:
        inner = part.expressions[0] if isinstance(part, exp.Constraint) and part.expressions else part
        match inner:
            case exp.PrimaryKey():
                key = _only_key(key, [fold(_identifier(c)) for c in inner.expressions], inner, source)
            case exp.CheckColumnConstraint(this=condition):
                checks.append(condition)
            case _:
                raise _unsupported(inner, source)
    return key, required, checks


def _identifier(node: exp.Expr) -> exp.Expr:
    return node if isinstance(node, exp.Identifier) else node.find(exp.Identifier) or node


def _only_key(before: list[str], key: list[str], node: exp.Expr, source: Source) -> list[str]:
    if before:
        raise source.error("syntax", "a table has one primary key", node, hint="PRIMARY KEY (a, b) spans columns")
    if len(set(key)) < len(key):
        raise source.error("duplicate_column", "a column is named twice in the primary key", node)
    return key


def _unsupported(node: exp.Expr, source: Source) -> Exception:
    shown = node.sql("postgres")
    return source.error(
        "unsupported",
        f"the constraint {shown!r} is not supported",
        node,
        hint="PRIMARY KEY, NOT NULL, DEFAULT and CHECK are",
    )


def _check(node: exp.Expr, schema: Schema, source: Source) -> Check:
    condition = ExpressionBinder(source, Scope.of(None, schema)).condition(node, "CHECK")
    return Check(node.sql("postgres"), condition)


def _length_check(column: exp.ColumnDef, schema: Schema, source: Source) -> Check:
    """VARCHAR(n) is text with a check on its length."""
    name, limit = fold(column.this), length_limit(column.args["kind"], source)
    binder = ExpressionBinder(source, Scope.of(None, schema))
    position = schema.position(name)
    length = binder.call("length", (Scope.of(None, schema).listed[position].column,), column)
    return Check(f"length({name}) <= {limit}", binder.call("le", (length, Literal(limit, INT)), column))
