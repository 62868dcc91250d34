"""Binding queries: SELECT, UNION, WITH and what stands in FROM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tidemark.algebra.expressions import conjunction
from tidemark.algebra.plans import Distinct, Filter, Join, Plan, Project, Union, Values
from tidemark.algebra.types import RESERVED, Schema
from tidemark.sql.catalog import Catalog
from tidemark.sql.coerce import coerce, common_of, settle_null
from tidemark.sql.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.grouping import bind_grouped, is_grouped
from tidemark.sql.ordering import bind_order
from tidemark.sql.scope import Scope
from tidemark.sql.selectlist import Item, output_name, star_of
from tidemark.sql.text import Source, fold

_ORDER_PARTS = ("order", "limit", "offset")
_SELECT_PARTS = ("expressions", "from_", "joins", "where", "group", "having", "distinct", "with_", *_ORDER_PARTS)
_UNION_PARTS = ("this", "expression", "distinct", "with_", *_ORDER_PARTS)
_JOIN_KINDS = frozenset({"", "INNER", "CROSS"})


@dataclass
class QueryBinder:
    """Binds one statement's queries against a catalog; collects the relations that the text names."""

    source: Source
    catalog: Catalog
    named: set[str] = field(default_factory=set)

    def bind(self, node: exp.Expr) -> Plan:
        """A query as somebody runs it: ORDER BY and LIMIT are allowed at its end."""
        return self._query(node, {}, outermost=True)

    def bind_view(self, node: exp.Expr) -> Plan:
        """A query as the definition of a view: a bag of rows, in no order."""
        for clause in _ORDER_PARTS:
            found = node.args.get(clause)
            if found is not None:
                raise self.source.error(
                    "unsupported",
                    f"{clause.upper()} in a view is not supported yet",
                    found,
                    hint="a view is a bag of rows: order and limit the query that reads it",
                )
        return self._query(node, {}, outermost=False)

    def _query(self, node: exp.Expr, ctes: Mapping[str, Plan], *, outermost: bool) -> Plan:
        visible = self._with(node, ctes)
        match node:
            case exp.Select():
                return self._select(node, visible, outermost=outermost)
            case exp.Subquery():
                refuse_other_parts(node, ("this", "with_"), self.source)
                return self._query(node.this, visible, outermost=outermost)
            case exp.Union():
                return self._union(node, visible, outermost=outermost)
            case exp.Except() | exp.Intersect():
                raise self.source.error("unsupported", f"{node.key.upper()} is not supported yet", node)
            case exp.Values():
                raise self.source.error("unsupported", "VALUES as a query is not supported yet", node)
        raise self.source.error("unsupported", f"{node.key.upper()} is not a query", node)

    def _with(self, node: exp.Expr, ctes: Mapping[str, Plan]) -> Mapping[str, Plan]:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise self.source.error("unsupported", "WITH RECURSIVE is not supported yet", clause)
        visible = dict(ctes)
        for cte in clause.expressions:
            refuse_other_parts(cte, ("this", "alias", "materialized"), self.source)
            name = fold(cte.args["alias"].this)
            plan = self._query(cte.this, visible, outermost=False)
            visible[name] = self._renamed(plan, cte.args["alias"])
        return visible

    # Set operations

    def _union(self, node: exp.Union, ctes: Mapping[str, Plan], *, outermost: bool) -> Plan:
        refuse_other_parts(node, _UNION_PARTS, self.source)
        left = self._query(node.left, ctes, outermost=False)
        right = self._query(node.right, ctes, outermost=False)
        plan: Plan = Union(self._aligned(left, right, node))
        if node.args.get("distinct"):
            plan = Distinct(plan)
        if outermost:
            return bind_order(node, plan, None, self.source)
        self._no_order(node)
        return plan

    def _aligned(self, left: Plan, right: Plan, node: exp.Expr) -> tuple[Plan, Plan]:
        if len(left.schema) != len(right.schema):
            raise self.source.error(
                "type",
                f"the sides of UNION have {len(left.schema)} and {len(right.schema)} columns",
                node.expression,
            )
        targets = []
        for position, (a, b) in enumerate(zip(left.schema.fields, right.schema.fields, strict=True)):
            target = common_of([a.type, b.type])
            if target is None:
                raise self.source.error(
                    "type",
                    f"column {position + 1} of UNION is {a.type} on one side, {b.type} on the other",
                    node.expression,
                )
            targets.append(target)
        return tuple(  # type: ignore[return-value]
            side
            if side.schema.types == tuple(targets)
            else Project(
                side,
                side.schema.names,
                tuple(coerce(column, t) for column, t in zip(side.columns(), targets, strict=True)),
            )
            for side in (left, right)
        )

    # SELECT

    def _select(self, node: exp.Select, ctes: Mapping[str, Plan], *, outermost: bool) -> Plan:
        refuse_other_parts(node, _SELECT_PARTS, self.source)
        plan, scope = self._from(node, ctes)
        binder = ExpressionBinder(self.source, scope)
        where = node.args.get("where")
        if where is not None:
            self._no_aggregates(where, "WHERE")
            plan = Filter(plan, binder.condition(where.this, "WHERE"))
        if is_grouped(node):
            plan, items, hidden_binder = bind_grouped(node, plan, scope, self.source)
        else:
            items, hidden_binder = self._items(node, scope, binder), binder
        result: Plan = Project(plan, tuple(i.name for i in items), tuple(settle_null(i.expression) for i in items))
        distinct = node.args.get("distinct")
        if distinct is not None:
            if distinct.args.get("on") is not None:
                raise self.source.error("unsupported", "DISTINCT ON is not supported yet", distinct)
            result = Distinct(result)
        if outermost:
            return bind_order(node, result, hidden_binder, self.source)
        self._no_order(node)
        return result

    def _items(self, node: exp.Select, scope: Scope, binder: ExpressionBinder) -> list[Item]:
        items: list[Item] = []
        for position, entry in enumerate(node.expressions):
            starred = star_of(entry)
            if starred is not None:
                items.extend(self._star(entry, scope, starred))
                continue
            items.append(Item(output_name(entry, position), entry, binder.bind(entry.unalias())))
        return items

    def _star(self, entry: exp.Expr, scope: Scope, relation: str) -> list[Item]:
        if relation and relation not in scope.relations:
            raise self.source.error("unknown_relation", f"there is no {relation!r} in FROM", entry)
        visible = scope.star(relation or None)
        if not visible:
            raise self.source.error("syntax", "* needs a FROM clause", entry)
        return [Item(v.name, None, v.column) for v in visible]

    def _no_order(self, node: exp.Expr) -> None:
        for clause in _ORDER_PARTS:
            found = node.args.get(clause)
            if found is not None:
                raise self.source.error("unsupported", f"{clause.upper()} inside a query is not supported yet", found)

    def _no_aggregates(self, node: exp.Expr, where: str) -> None:
        found = node.find(exp.AggFunc)
        if found is not None:
            raise self.source.error("grouping", f"an aggregate cannot stand in {where}", found, hint="use HAVING")

    # FROM

    def _from(self, node: exp.Select, ctes: Mapping[str, Plan]) -> tuple[Plan, Scope]:
        clause = node.args.get("from_")
        if clause is None:
            return Values(((),), Schema(())), Scope()
        plan, scope = self._table(clause.this, ctes)
        for join in node.args.get("joins") or ():
            plan, scope = self._join(plan, scope, join, ctes)
        return plan, scope

    def _table(self, node: exp.Expr, ctes: Mapping[str, Plan]) -> tuple[Plan, Scope]:
        if isinstance(node, exp.Subquery):
            refuse_other_parts(node, ("this", "alias", "joins", "with_"), self.source)
            plan = self._query(node.this, ctes, outermost=False)
            plan, alias = self._aliased(plan, node, None)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            plan, alias = self._aliased(self._relation(node, ctes), node, fold(node.this))
        else:
            raise self.source.error(
                "unsupported",
                f"{node.sql('postgres')[:60]!r} in FROM is not supported",
                node,
                hint="FROM takes relations and subqueries",
            )
        joined = node.args.get("joins") or ()
        scope = Scope.of(alias, plan.schema)
        for join in joined:
            plan, scope = self._join(plan, scope, join, ctes)
        return plan, scope

    def _relation(self, node: exp.Table, ctes: Mapping[str, Plan]) -> Plan:
        if node.args.get("db") is not None:
            raise self.source.error("unsupported", "schema names are not supported", node)
        refuse_other_parts(node, ("this", "alias", "joins"), self.source)
        name = fold(node.this)
        if name in ctes:
            return ctes[name]
        if self.catalog.get(name) is None:
            raise self.source.error(
                "unknown_relation",
                f"there is no relation {name!r}",
                node,
                hint=self.catalog.suggestions(name),
            )
        self.named.add(name)
        return self.catalog.scan(name)

    def _aliased(self, plan: Plan, node: exp.Expr, name: str | None) -> tuple[Plan, str | None]:
        alias = node.args.get("alias")
        if alias is None:
            return plan, name
        return self._renamed(plan, alias), fold(alias.this) if alias.this is not None else name

    def _renamed(self, plan: Plan, alias: exp.Expr) -> Plan:
        """The plan with the column names of an alias, as in ``q (a, b)``."""
        columns = [fold(column) for column in alias.args.get("columns") or ()]
        return rename(plan, columns, self.source, alias) if columns else plan

    def _join(self, left: Plan, left_scope: Scope, node: exp.Join, ctes: Mapping[str, Plan]) -> tuple[Plan, Scope]:
        refuse_other_parts(node, ("this", "on", "using", "kind", "side", "method"), self.source)
        kind = str(node.args.get("kind") or "").upper()
        side = str(node.args.get("side") or "").upper()
        method = str(node.args.get("method") or "").upper()
        if side or method or kind not in _JOIN_KINDS:
            asked = " ".join(word for word in (method, side, kind) if word)
            raise self.source.error("unsupported", f"{asked} JOIN is not supported yet", node)
        right, right_scope = self._table(node.this, ctes)
        shared = left_scope.relations & right_scope.relations
        if shared:
            raise self.source.error(
                "ambiguous_name",
                f"{sorted(shared)[0]!r} stands twice in FROM",
                node.this,
                hint="give one of them an alias",
            )
        right_scope = right_scope.shifted(len(left.schema))
        using = node.args.get("using")
        if using:
            return self._join_using(left, left_scope, right, right_scope, using)
        scope = left_scope.beside(right_scope)
        on = node.args.get("on")
        if on is not None:
            self._no_aggregates(on, "ON")
        predicate = conjunction(()) if on is None else ExpressionBinder(self.source, scope).condition(on, "ON")
        return Join(left, right, predicate), scope

    def _join_using(
        self, left: Plan, left_scope: Scope, right: Plan, right_scope: Scope, using: list[exp.Expr]
    ) -> tuple[Plan, Scope]:
        names = [fold(column) for column in using]
        both = ExpressionBinder(self.source, Scope())
        predicates = []
        for column in using:
            node = exp.Column(this=column)
            pair = (left_scope.resolve(node, self.source), right_scope.resolve(node, self.source))
            predicates.append(both.call("eq", pair, node))
        merged = tuple(v for name in names for v in left_scope.listed if v.name == name)
        rest = tuple(v for v in left_scope.listed + right_scope.listed if v.name not in names)
        scope = Scope(left_scope.qualified + right_scope.qualified, merged + rest)
        return Join(left, right, conjunction(tuple(predicates))), scope


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
        if column.name in RESERVED:
            raise source.error("reserved_name", f"the column name {column.name} is reserved")
        if column.name.lower() in seen:
            raise source.error(
                "duplicate_column",
                f"two columns are named {column.name!r}",
                hint="give one of them an alias with AS",
            )
        seen.add(column.name.lower())
