"""Binding queries: SELECT, set operations, VALUES, WITH and what stands in FROM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from tidemark.algebra.expressions import conjunction, conjuncts
from tidemark.algebra.failing import can_fail
from tidemark.algebra.plans import Distinct, Filter, Join, Plan, Project, Values
from tidemark.algebra.types import RESERVED, Schema
from tidemark.sql.arrays import NOT_STORED, bind_unnest, unnest_node
from tidemark.sql.catalog import Catalog
from tidemark.sql.coerce import settle_null
from tidemark.sql.expressions import ExpressionBinder, refuse_other_parts
from tidemark.sql.grouping import bind_grouped, is_grouped
from tidemark.sql.ordering import bind_order
from tidemark.sql.scope import Scope, Visible
from tidemark.sql.selectlist import Item, output_name, star_of
from tidemark.sql.setoperations import bind_set_operation, bind_values
from tidemark.sql.text import Source, fold, tokenize

_ORDER_PARTS = ("order", "limit", "offset")
_SELECT_PARTS = ("expressions", "from_", "joins", "where", "group", "having", "distinct", "with_", *_ORDER_PARTS)
_SET_OPERATION_PARTS = ("this", "expression", "distinct", "with_", *_ORDER_PARTS)
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
            case exp.Union() | exp.Except() | exp.Intersect():
                return self._set_operation(node, visible, outermost=outermost)
            case exp.Values():
                refuse_other_parts(node, ("expressions", *_ORDER_PARTS), self.source)
                return self._ordered(node, bind_values(node, self.source), None, outermost=outermost)
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
            if name in {fold(other.args["alias"].this) for other in clause.expressions if other is not cte}:
                raise self.source.error("ambiguous_name", f"WITH names {name!r} twice", cte.args["alias"])
            plan = self._query(cte.this, visible, outermost=False)
            visible[name] = self._renamed(plan, cte.args["alias"])
        return visible

    # Set operations

    def _set_operation(self, node: exp.SetOperation, ctes: Mapping[str, Plan], *, outermost: bool) -> Plan:
        refuse_other_parts(node, _SET_OPERATION_PARTS, self.source)
        left = self._query(node.left, ctes, outermost=False)
        right = self._query(node.right, ctes, outermost=False)
        plan = bind_set_operation(node, left, right, self.source)
        return self._ordered(node, plan, None, outermost=outermost)

    def _ordered(self, node: exp.Expr, plan: Plan, inner: ExpressionBinder | None, *, outermost: bool) -> Plan:
        if outermost:
            return bind_order(node, plan, inner, self.source)
        self._no_order(node)
        return plan

    # SELECT

    def _select(self, node: exp.Select, ctes: Mapping[str, Plan], *, outermost: bool) -> Plan:
        refuse_other_parts(node, _SELECT_PARTS, self.source)
        if not node.expressions:
            raise self.source.error("syntax", "SELECT needs at least one column", node)
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
        self._no_arrays(items, node)
        result: Plan = Project(plan, tuple(i.name for i in items), tuple(settle_null(i.expression) for i in items))
        distinct = node.args.get("distinct")
        if distinct is not None:
            if distinct.args.get("on") is not None:
                raise self.source.error("unsupported", "DISTINCT ON is not supported yet", distinct)
            result = Distinct(result)
        return self._ordered(node, result, hidden_binder, outermost=outermost)

    def _items(self, node: exp.Select, scope: Scope, binder: ExpressionBinder) -> list[Item]:
        items: list[Item] = []
        for position, entry in enumerate(node.expressions):
            starred = star_of(entry)
            if starred is not None:
                items.extend(self._star(entry, scope, starred))
                continue
            items.append(Item(output_name(entry, position), entry, binder.bind(entry.unalias())))
        return items

    def _no_arrays(self, items: list[Item], node: exp.Select) -> None:
        for item in items:
            if item.expression.type.element is not None:
                raise self.source.error(
                    "unsupported", NOT_STORED, item.node or node, hint="array_to_string, UNNEST, a[1]"
                )

    def _star(self, entry: exp.Expr, scope: Scope, relation: str) -> list[Item]:
        refuse_other_parts(entry if isinstance(entry, exp.Star) else entry.this, (), self.source)
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
        items, nodes = [self._first(clause.this, ctes)], [clause.this]
        for join in node.args.get("joins") or ():
            unnested = unnest_node(join.this)
            if unnested is not None:
                # Its array may read any relation before it, so those are brought together first.
                items, nodes = [self._unnested(unnested, join, self._together(items, nodes))], nodes[:1]
            elif self._is_comma(join):
                items.append(self._table(join.this, ctes))
                nodes.append(join.this)
            else:
                items[-1] = self._join(*items[-1], join, ctes)
        return self._together(items, nodes)

    def _together(self, items: list[tuple[Plan, Scope]], nodes: list[exp.Expr]) -> tuple[Plan, Scope]:
        plan, scope = items[0]
        for (other, other_scope), written in zip(items[1:], nodes[1:], strict=True):
            self._no_name_twice(scope, other_scope, written)
            scope = scope.beside(other_scope.shifted(len(plan.schema)))
            plan = Join(plan, other, conjunction(()))
        return plan, scope

    def _first(self, node: exp.Expr, ctes: Mapping[str, Plan]) -> tuple[Plan, Scope]:
        unnested = unnest_node(node)
        if unnested is None:
            return self._table(node, ctes)
        return self._unnested(unnested, None, (Values(((),), Schema(())), Scope()))

    def _unnested(self, node: exp.Unnest, join: exp.Join | None, left: tuple[Plan, Scope]) -> tuple[Plan, Scope]:
        """UNNEST after a comma, CROSS JOIN or JOIN … ON TRUE; each row before it gives its elements."""
        refuse_other_parts(node, ("expressions", "alias", "offset"), self.source)
        if join is not None:
            refuse_other_parts(join, ("this", "kind", "on"), self.source)
            on = join.args.get("on")
            if on is not None and not (isinstance(on, exp.Boolean) and on.this):
                raise self.source.error("unsupported", "UNNEST is joined ON TRUE", join, hint="put conditions in WHERE")
        plan, scope = left
        return bind_unnest(ExpressionBinder(self.source, scope), node, plan, scope, self.source)

    def _is_comma(self, join: exp.Join) -> bool:
        """Whether a join without kind and condition was written as a comma. JOIN binds tighter than a comma does, and
        needs a condition; sqlglot's tree does not tell the two apart, so the tokens are asked."""
        if any(join.args.get(part) for part in ("kind", "on", "using", "side", "method")):
            return False
        start = self.source.place_offset(join.this)
        before = [token for token in tokenize(self.source) if token.start < start]
        operator = next(t for t in reversed(before) if t.token_type in (TokenType.COMMA, TokenType.JOIN))
        if operator.token_type is TokenType.JOIN:
            raise self.source.error("syntax", "JOIN needs ON or USING", operator, hint="CROSS JOIN makes all pairs")
        return True

    def _no_name_twice(self, left: Scope, right: Scope, node: exp.Expr) -> None:
        shared = left.relations & right.relations
        if shared:
            raise self.source.error(
                "ambiguous_name", f"{sorted(shared)[0]!r} stands twice in FROM", node, hint="give one of them an alias"
            )

    def _table(self, node: exp.Expr, ctes: Mapping[str, Plan]) -> tuple[Plan, Scope]:
        if isinstance(node, exp.Subquery):
            refuse_other_parts(node, ("this", "alias", "joins", "with_"), self.source)
            plan = self._query(node.this, ctes, outermost=False)
            plan, alias = self._aliased(plan, node, None)
        elif isinstance(node, exp.Values):
            refuse_other_parts(node, ("expressions", "alias", "joins"), self.source)
            plan, alias = self._aliased(bind_values(node, self.source), node, None)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            plan, alias = self._aliased(self._relation(node, ctes), node, fold(node.this))
        else:
            raise self.source.error(
                "unsupported",
                f"{node.sql('postgres')[:60]!r} in FROM is not supported",
                node,
                hint="FROM takes relations, subqueries and VALUES",
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
        if kind == "CROSS" and (node.args.get("on") or node.args.get("using")):
            raise self.source.error("syntax", "CROSS JOIN takes no condition", node)
        natural = method == "NATURAL" and kind != "CROSS"
        if side or (method and not natural) or kind not in _JOIN_KINDS:
            asked = " ".join(word for word in (method, side, kind) if word)
            raise self.source.error("unsupported", f"{asked} JOIN is not supported yet", node)
        right, right_scope = self._table(node.this, ctes)
        self._no_name_twice(left_scope, right_scope, node.this)
        right_scope = right_scope.shifted(len(left.schema))
        using = node.args.get("using")
        if natural:
            using = self._common(left_scope, right_scope, node)
        if using:
            return self._join_using(left, left_scope, right, right_scope, using)
        scope = left_scope.beside(right_scope)
        on = node.args.get("on")
        if on is not None:
            self._no_aggregates(on, "ON")
        if on is None:
            return Join(left, right, conjunction(())), scope
        parts = conjuncts(ExpressionBinder(self.source, scope).condition(on, "ON"))
        # A condition that can fail is checked on joined rows, where pairs that never were have cancelled.
        plan: Plan = Join(left, right, conjunction(tuple(part for part in parts if not can_fail(part))))
        failing = tuple(part for part in parts if can_fail(part))
        return (Filter(plan, conjunction(failing)) if failing else plan), scope

    def _common(self, left: Scope, right: Scope, node: exp.Join) -> list[exp.Expr]:
        """The columns of a NATURAL join: those that both sides list, in the order of the left side."""
        refuse_other_parts(node, ("this", "kind", "method"), self.source)
        there = {visible.name for visible in right.listed}
        names = dict.fromkeys(visible.name for visible in left.listed if visible.name in there)
        common: list[exp.Expr] = [exp.to_identifier(name, quoted=True) for name in names]
        place = next((part.meta for part in node.walk() if "start" in part.meta), {})
        for identifier in common:  # so that an error points at the joined relation
            identifier.meta.update(place)
        return common

    def _join_using(
        self, left: Plan, left_scope: Scope, right: Plan, right_scope: Scope, using: list[exp.Expr]
    ) -> tuple[Plan, Scope]:
        names = [fold(column) for column in using]
        if len(set(names)) < len(names):
            raise self.source.error("duplicate_column", "a column stands twice in USING", using[-1])
        both = ExpressionBinder(self.source, Scope())
        predicates, merged = [], []
        for column in using:
            node = exp.Column(this=column)
            pair = (left_scope.resolve(node, self.source), right_scope.resolve(node, self.source))
            equal = both.call("eq", pair, node)
            predicates.append(equal)
            # The merged column has the type in which the two are compared.
            merged.append(Visible(None, fold(column), equal.children()[0]))
        rest = tuple(v for v in left_scope.listed + right_scope.listed if v.name not in names)
        scope = Scope(left_scope.qualified + right_scope.qualified, tuple(merged) + rest)
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
        if column.name.lower() in RESERVED or not column.name:
            raise source.error("reserved_name", f"the column name {column.name!r} is reserved")
        if column.name.lower() in seen:
            raise source.error(
                "duplicate_column",
                f"two columns are named {column.name!r}",
                hint="give one of them an alias with AS",
            )
        seen.add(column.name.lower())
