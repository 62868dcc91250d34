"""Binding queries: SELECT, set operations, VALUES, WITH and what stands in FROM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidemark.algebra.coerce import settle_null
from tidemark.algebra.history import as_of
from tidemark.algebra.plans import Distinct, Plan, Project, Scan, Sort, transform
from tidemark.algebra.types import Schema
from tidemark.datalog.plans import NO_BOUNDS, Bounds
from tidemark.sql.bind import windows
from tidemark.sql.bind.clock import beside_clock, clocked, names_now
from tidemark.sql.bind.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.bind.grouping import bind_grouped
from tidemark.sql.bind.joins import FromBinder
from tidemark.sql.bind.joins import Item as FromItem
from tidemark.sql.bind.lowering import attached, filtered
from tidemark.sql.bind.ordering import bind_distinct_on, bind_order
from tidemark.sql.bind.recursion import bind_recursive, names_itself
from tidemark.sql.bind.scope import Scope
from tidemark.sql.bind.set_operations import bind_set_operation, bind_values
from tidemark.sql.bind.subqueries import Frame, SubqueryBinder
from tidemark.sql.bind.syntax import Item, is_grouped, no_aggregates, output_name, star_of
from tidemark.sql.bind.windows import windowed
from tidemark.sql.catalog.catalog import Catalog, View
from tidemark.sql.catalog.columns import must_be_free
from tidemark.sql.functions.arrays import fields_of
from tidemark.sql.parse.as_of import version_of
from tidemark.sql.parse.text import Source, fold

_ORDER_PARTS = ("order", "limit", "offset")
_SELECT_PARTS = (
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "distinct",
    "with_",
    "windows",
    *_ORDER_PARTS,
)
_SET_OPERATION_PARTS = ("this", "expression", "distinct", "with_", *_ORDER_PARTS)


Ctes = Mapping[str, tuple[Plan, Frame | None]]
"""The relations of WITH that can be named, each with the subquery in which it was bound."""


@dataclass
class QueryBinder:
    """Binds one statement's queries against a catalog; collects the relations that the text names.

    Inside a subquery, ``frame`` is the query around it. ``version`` is the one at which relations are read that do not
    name another. Recursion may go as far as ``bounds`` say.
    """

    source: Source
    catalog: Catalog
    named: set[str] = field(default_factory=set)
    ctes: Ctes = field(default_factory=dict)
    frame: Frame | None = None
    bounds: Bounds = NO_BOUNDS
    version: int | None = None

    def bind(self, node: exp.Expr) -> Plan:
        """A query as somebody runs it: ORDER BY and LIMIT are allowed at its end."""
        return self._query(node, outermost=True)

    def bind_view(self, node: exp.Expr) -> Plan:
        """A query as the definition of a view: a bag of rows. ORDER BY decides which rows LIMIT takes, no more."""
        return self._query(node, outermost=False)

    def binder(self, scope: Scope) -> ExpressionBinder:
        """For expressions over the columns of a scope, with subqueries."""
        return ExpressionBinder(self.source, scope, None, SubqueryBinder(self.source, self), self.frame)

    def inner_query(self, node: exp.Expr, frame: Frame) -> Plan:
        """A subquery of an expression, or behind LATERAL."""
        return replace(self, frame=frame)._query(node, outermost=False)

    def ordered_query(self, node: exp.Expr, frame: Frame) -> Plan:
        """A subquery whose order matters: it ends in a ``Sort`` if it has one."""
        return replace(self, frame=frame)._query(node, outermost=True)

    def _query(self, node: exp.Expr, *, outermost: bool) -> Plan:
        return self._with(node)._body(node, outermost=outermost)

    def _body(self, node: exp.Expr, *, outermost: bool) -> Plan:
        match node:
            case exp.Select():
                return self._select(node, outermost=outermost)
            case exp.Subquery():
                refuse_other_parts(node, ("this", "with_"), self.source)
                return self._query(node.this, outermost=outermost)
            case exp.Union() | exp.Except() | exp.Intersect():
                return self._set_operation(node, outermost=outermost)
            case exp.Values():
                refuse_other_parts(node, ("expressions", *_ORDER_PARTS), self.source)
                return self._ordered(node, bind_values(node, self.source), None, outermost=outermost)
        raise self.source.error("unsupported", f"{node.key.upper()} is not a query", node)

    def _with(self, node: exp.Expr) -> QueryBinder:
        """The binder that knows the relations of the query's WITH too."""
        clause = node.args.get("with_")
        if clause is None:
            return self
        inside = self
        for cte in clause.expressions:
            refuse_other_parts(cte, ("this", "alias", "materialized"), self.source)
            name = fold(cte.args["alias"].this)
            if name in {fold(other.args["alias"].this) for other in clause.expressions if other is not cte}:
                raise self.source.error("ambiguous_name", f"WITH names {name!r} twice", cte.args["alias"])
            if clause.args.get("recursive") and names_itself(cte):
                plan: Plan = inside._recursive(cte, name)
            else:
                plan = self._renamed(inside._query(cte.this, outermost=False), cte.args["alias"])
            inside = replace(inside, ctes={**inside.ctes, name: (plan, self.frame)})
        return inside

    def _recursive(self, cte: exp.Expr, name: str) -> Plan:
        if self.frame is not None:
            raise self.source.error("unsupported", "WITH RECURSIVE inside a subquery is not supported", cte)

        def bind(branch: exp.Expr, itself: Plan | None) -> Plan:
            inside = self if itself is None else replace(self, ctes={**self.ctes, name: (itself, None)})
            return inside._query(branch, outermost=False)

        columns = [fold(column) for column in cte.args["alias"].args.get("columns") or ()]
        return bind_recursive(cte, columns, bind, self.source, self.bounds)

    # Set operations

    def _set_operation(self, node: exp.SetOperation, *, outermost: bool) -> Plan:
        refuse_other_parts(node, _SET_OPERATION_PARTS, self.source)
        left = self._query(node.left, outermost=False)
        right = self._query(node.right, outermost=False)
        plan = bind_set_operation(node, left, right, self.source)
        return self._ordered(node, plan, None, outermost=outermost)

    def _ordered(self, node: exp.Expr, plan: Plan, inner: ExpressionBinder | None, *, outermost: bool) -> Plan:
        ordered = bind_order(node, plan, inner, self.source)
        if outermost or not isinstance(ordered, Sort):
            return ordered
        # Rows of a bag have no order; LIMIT and OFFSET choose among them.
        return plan if ordered.limit is None and not ordered.offset else ordered

    # SELECT

    def _select(self, node: exp.Select, *, outermost: bool) -> Plan:
        refuse_other_parts(node, _SELECT_PARTS, self.source)
        if not node.expressions:
            raise self.source.error("syntax", "SELECT needs at least one column", node)
        plan, scope = FromBinder(self).bind(node)
        binder = self.binder(scope)
        where = node.args.get("where")
        if where is not None:
            no_aggregates(where, "WHERE", self.source)
            plan = self._where(plan, where.this, binder)
        if is_grouped(node):
            plan, items, hidden_binder = bind_grouped(node, plan, binder)
        else:
            hidden_binder = windowed(binder, tuple(node.args.get("windows") or ()))
            items = self._items(node, scope, hidden_binder)
        plan, cells = attached(plan, tuple(settle_null(item.expression) for item in items))
        plan, cells = windows.attached(plan, cells)
        listed = Project(plan, tuple(item.name for item in items), cells)
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            return bind_distinct_on(node, listed, hidden_binder, self.source, outermost=outermost)
        result = listed if distinct is None else Distinct(listed)
        return self._ordered(node, result, hidden_binder, outermost=outermost)

    def _where(self, plan: Plan, node: exp.Expr, binder: ExpressionBinder) -> Plan:
        if self.source.now is not None or not names_now(node):
            return filtered(plan, binder.condition(node, "WHERE"))
        timed, now = beside_clock(plan)
        kept = filtered(timed, clocked(binder, now).condition(node, "WHERE"))
        return Project(kept, plan.schema.names, kept.columns()[: len(plan.schema)])

    def _items(self, node: exp.Select, scope: Scope, binder: ExpressionBinder) -> list[Item]:
        items: list[Item] = []
        for position, entry in enumerate(node.expressions):
            starred = star_of(entry)
            if starred is not None:
                items.extend(self._star(entry, scope, starred))
                continue
            if isinstance(entry, exp.Dot) and isinstance(entry.expression, exp.Star):
                items.extend(self._fields(entry, binder))
                continue
            items.append(Item(output_name(entry, position), entry, binder.bind(entry.unalias())))
        return items

    def _fields(self, entry: exp.Dot, binder: ExpressionBinder) -> list[Item]:
        """``(s).*``: the fields of a struct."""
        refuse_other_parts(entry.expression, (), self.source)
        whole = binder.bind(entry.this)
        if not whole.type.fields:
            raise self.source.error("type", f"a {whole.type} has no fields", entry)
        return [Item(field.name, None, field) for field in fields_of(whole)]

    def _star(self, entry: exp.Expr, scope: Scope, relation: str) -> list[Item]:
        refuse_other_parts(entry if isinstance(entry, exp.Star) else entry.this, (), self.source)
        if relation and relation not in scope.relations:
            raise self.source.error("unknown_relation", f"there is no {relation!r} in FROM", entry)
        visible = scope.star(relation or None)
        if not visible:
            raise self.source.error("syntax", "* needs a FROM clause", entry)
        return [Item(v.name, None, v.column) for v in visible]

    # FROM

    def table(self, node: exp.Expr) -> tuple[Plan, Scope]:
        """A relation, a subquery, VALUES, or joins in parentheses."""
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            refuse_other_parts(node, ("this", "joins"), self.source)
            plan, scope = self.table(node.this)
            return self._with_joins(plan, scope, node)
        if isinstance(node, exp.Subquery):
            refuse_other_parts(node, ("this", "alias", "joins", "with_"), self.source)
            plan, alias = self._aliased(self._query(node.this, outermost=False), node, None)
        elif isinstance(node, exp.Values):
            refuse_other_parts(node, ("expressions", "alias", "joins"), self.source)
            plan, alias = self._aliased(bind_values(node, self.source), node, None)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            plan, alias = self._aliased(self._relation(node), node, fold(node.this))
        else:
            raise self.source.error(
                "unsupported",
                f"{self.source.written(node)!r} in FROM is not supported",
                node,
                hint="FROM takes relations, subqueries and VALUES",
            )
        return self._with_joins(plan, Scope.of(alias, plan.schema), node)

    def lateral(self, node: exp.Lateral, frame: Frame) -> tuple[Plan, Scope]:
        """A subquery that may name what stands left of it; its plan has parameters."""
        refuse_other_parts(node, ("this", "alias"), self.source)
        if not isinstance(node.this, exp.Subquery):
            raise self.source.error("unsupported", "LATERAL takes a subquery", node)
        refuse_other_parts(node.this, ("this", "with_"), self.source)
        plan, alias = self._aliased(self.inner_query(node.this, frame), node, None)
        return plan, Scope.of(alias, plan.schema)

    def _with_joins(self, plan: Plan, scope: Scope, node: exp.Expr) -> tuple[Plan, Scope]:
        item = FromItem(plan, scope)
        for join in node.args.get("joins") or ():
            item = FromBinder(self).join(item, join)
        return item.plan, item.scope

    def _relation(self, node: exp.Table) -> Plan:
        if node.args.get("db") is not None:
            raise self.source.error("unsupported", "schema names are not supported", node)
        refuse_other_parts(node, ("this", "alias", "joins", "version"), self.source)
        name = fold(node.this)
        asked = version_of(node, self.source)
        if asked is not None and (name in self.ctes or self.source.now is None):
            what = "a relation of WITH" if name in self.ctes else "what a definition reads"
            raise self.source.error("unsupported", f"{what} has no versions", node)
        if name in self.ctes:
            plan, home = self.ctes[name]
            return plan if self.frame is None else self.frame.inside(plan, home)
        if self.catalog.get(name) is None:
            raise self.source.error(
                "unknown_relation",
                f"there is no relation {name!r}",
                node,
                hint=self.catalog.suggestions(name),
            )
        self.named.add(name)
        version = self.version if asked is None else asked
        plan = self.catalog.scan(name)
        return plan if version is None else as_of(self._as_defined(plan), version)

    def _as_defined(self, plan: Plan) -> Plan:
        """The plan over the definitions of views that are refreshed on read: what is stored of them is from when they
        were read, and what they were at a version is what their definitions were then."""

        def defined(part: Plan) -> Plan | None:
            view = self.catalog.get(part.relation) if isinstance(part, Scan) else None
            if isinstance(view, View) and view.name in self.catalog.read_through:
                return self._as_defined(view.plan)
            return None

        return transform(plan, defined)

    def _aliased(self, plan: Plan, node: exp.Expr, name: str | None) -> tuple[Plan, str | None]:
        alias = node.args.get("alias")
        if alias is None:
            return plan, name
        return self._renamed(plan, alias), fold(alias.this) if alias.this is not None else name

    def _renamed(self, plan: Plan, alias: exp.Expr) -> Plan:
        """The plan with the column names of an alias, as in ``q (a, b)``."""
        columns = [fold(column) for column in alias.args.get("columns") or ()]
        return rename(plan, columns, self.source, alias) if columns else plan


def rename(plan: Plan, names: list[str], source: Source, node: exp.Expr | None) -> Plan:
    """The same plan with other column names; fewer names than columns rename the first ones."""
    if len(names) > len(plan.schema):
        raise source.error("type", f"{len(names)} column names for {len(plan.schema)} columns", node)
    complete = tuple(names) + plan.schema.names[len(names) :]
    return Project(plan, complete, plan.columns())


def check_output(schema: Schema, source: Source) -> None:
    """Refuse what cannot be stored: columns with the same name or a reserved one."""
    seen: set[str] = set()
    for column in schema.fields:
        must_be_free(column.name, source)
        if column.name.lower() in seen:
            raise source.error(
                "duplicate_column",
                f"two columns are named {column.name!r}",
                hint="give one of them an alias with AS",
            )
        seen.add(column.name.lower())
