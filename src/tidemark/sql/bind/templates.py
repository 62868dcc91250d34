"""Statements with parameters, ``DELETE FROM r WHERE i < :p``: families of statements, to be analysed and not run.

A parameter is a column behind those of the table, so that conditions and values are ordinary expressions. Its type is
that of what it is compared with or assigned to; ``:p::int`` says it where nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidemark.algebra.expressions import TRUE, Expression, Literal
from tidemark.algebra.types import Field, Kind, Schema, Type
from tidemark.sql.bind.changes import table_for_change, table_name
from tidemark.sql.bind.expressions import ExpressionBinder
from tidemark.sql.bind.scope import Scope
from tidemark.sql.bind.types import assigned, bind_type
from tidemark.sql.catalog.catalog import Catalog, Table
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.text import Source, fold

_PARAMETERS = "_parameters"
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Add, exp.Sub, exp.Mul)


@dataclass(frozen=True)
class Template:
    """A statement over one table. ``cells`` are the values of an UPDATE by column, or of the row of an INSERT; the
    parameters are columns behind those of the table."""

    kind: str
    table: Table
    parameters: tuple[Field, ...]
    where: Expression = TRUE
    cells: tuple[tuple[int, Expression], ...] = ()


def has_parameters(statement: st.Statement) -> bool:
    """Whether a statement is a family of statements."""
    tree = getattr(statement, "tree", None)
    return isinstance(tree, exp.Expr) and next(tree.find_all(exp.Placeholder), None) is not None


def bind_template(statement: st.Statement, catalog: Catalog, source: Source) -> Template:
    """A DELETE, an UPDATE or an INSERT of one row, with or without parameters, without subqueries."""
    match statement:
        case st.Delete(tree=tree) | st.Update(tree=tree) | st.Insert(tree=tree):
            return _Binding(tree, catalog, source).template()
    raise source.error("syntax", "INSERT, UPDATE or DELETE is expected here")


class _Binding:
    def __init__(self, tree: exp.Expr, catalog: Catalog, source: Source) -> None:
        self._tree, self._source = tree.copy(), source
        target = self._tree.this.this if isinstance(self._tree.this, exp.Schema) else self._tree.this
        self._table = table_for_change(table_name(target, source), catalog, source, target)
        self._scope = Scope.of(self._table.name, self._table.schema)
        self._fields: dict[str, Field] = {}

    def template(self) -> Template:
        kind = type(self._tree).__name__.lower()
        assigned_to = {id(value): position for position, value in self._assignments()}
        for node in list(self._tree.find_all(exp.Placeholder)):
            self._declare(node, assigned_to)
        parameters = tuple(self._fields.values())
        scope = Scope.of(_PARAMETERS, Schema(parameters)).shifted(len(self._table.schema))
        binder = ExpressionBinder(self._source, self._scope.beside(scope))
        where = self._tree.args.get("where")
        condition = TRUE if where is None else binder.condition(where.this, "WHERE")
        cells = tuple((position, self._cell(binder, position, value)) for position, value in self._assignments())
        if kind == "insert":
            given = dict(cells)
            defaults = zip(self._table.defaults, self._table.schema.types, strict=True)
            cells = tuple((i, given.get(i, Literal(value, type_))) for i, (value, type_) in enumerate(defaults))
        return Template(kind, self._table, parameters, condition, cells)

    def _cell(self, binder: ExpressionBinder, position: int, value: exp.Expr) -> Expression:
        return assigned(binder.bind(value), self._table.schema[position], self._source, value)

    def _assignments(self) -> list[tuple[int, exp.Expr]]:
        """The expressions of SET, or of the one row of VALUES, with the columns that they are for."""
        schema = self._table.schema
        if isinstance(self._tree, exp.Update):
            return [(self._position(part.this), part.expression) for part in self._tree.expressions]
        if not isinstance(self._tree, exp.Insert):
            return []
        values = self._tree.expression
        if not isinstance(values, exp.Values) or len(values.expressions) != 1:
            raise self._source.error("unsupported", "an INSERT with parameters takes one row of VALUES", self._tree)
        row = values.expressions[0]
        named = self._tree.this.expressions if isinstance(self._tree.this, exp.Schema) else None
        positions = list(range(len(schema))) if named is None else [self._position(column) for column in named]
        cells = list(row.expressions) if isinstance(row, exp.Tuple) else [row]
        if len(cells) != len(positions):
            raise self._source.error("type", f"{len(cells)} values are given for {len(positions)} columns", row)
        return list(zip(positions, cells, strict=True))

    def _position(self, node: exp.Expr) -> int:
        name = fold(node.this if isinstance(node, exp.Column) else node)
        if name not in self._table.schema.names:
            raise self._source.error("unknown_column", f"{self._table.name!r} has no column {name!r}", node)
        return self._table.schema.position(name)

    def _declare(self, node: exp.Placeholder, assigned_to: dict[int, int]) -> None:
        """Give a parameter its type, and let a column stand in its place."""
        name = str(node.this or "")
        if not name:
            raise self._source.error("syntax", "a parameter has a name here", node, hint=":name instead of ?")
        if name in self._table.schema.names:
            message = f"the parameter :{name} has the name of a column of {self._table.name!r}"
            raise self._source.error("syntax", message, node, hint="give it another name")
        type_ = self._type_of(node, assigned_to)
        known = self._fields.setdefault(name, Field(name, type_, nullable=False))
        if known.type != type_:
            raise self._source.error("type", f"the parameter :{name} is {known.type} and {type_}", node)
        node.replace(exp.column(exp.to_identifier(name, quoted=True), table=_PARAMETERS))

    def _type_of(self, node: exp.Expr, assigned_to: dict[int, int]) -> Type:
        if id(node) in assigned_to:
            return self._table.schema[assigned_to[id(node)]].type
        parent = node.parent
        if isinstance(parent, exp.Cast):
            return bind_type(parent.to, self._source)
        others: list[exp.Expr] = []
        if isinstance(parent, _COMPARISONS):
            others = [part for part in (parent.this, parent.expression) if part is not node]
        elif isinstance(parent, exp.Between | exp.In):
            others = [parent.this]
        for other in others:
            if next(other.find_all(exp.Placeholder), None) is None:
                found = ExpressionBinder(self._source, self._scope).bind(other).type
                if found.kind is not Kind.NULL:
                    return found
        raise self._source.error(
            "type", f"the type of :{node.this} cannot be told", node, hint=f"write :{node.this}::int, or another type"
        )
