"""Binding WITH RECURSIVE: ``t AS (what it begins with UNION what follows from t)`` is a fixpoint of rules.

The branches of the UNION that do not name t are what it begins with. The others are bound with t as a relation, and
become the same rules that a program in Datalog would have; only what rules can say may name t: joins, conditions and
projections, no grouping, no negation, no outer join. Types are as in a UNION: the common ones of all branches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.clauses import Atom, DatalogRule, Var
from tidemark.algebra.coerce import coerce, common_of
from tidemark.algebra.plans import Fixpoint, Plan, Project, Scan, Union, relations_of
from tidemark.algebra.types import Field, Schema
from tidemark.datalog.from_plans import NotARule, Sources, rules_from
from tidemark.datalog.plans import Bounds
from tidemark.sql.parse.text import Source, fold

MOST_ROUNDS = 8
"""So often types may widen before they are what they are."""
BindBranch = Callable[[exp.Expr, Plan | None], Plan]
"""Binds a branch of the UNION; the second argument stands for the recursive relation."""


def names_itself(cte: exp.Expr) -> bool:
    """Whether the query of a WITH names the relation that it defines."""
    name = fold(cte.args["alias"].this)
    return any(_is_named(table, name) for table in cte.this.find_all(exp.Table))


def _is_named(table: exp.Table, name: str) -> bool:
    return isinstance(table.this, exp.Identifier) and fold(table.this) == name and table.args.get("db") is None


def bind_recursive(cte: exp.Expr, names: list[str], bind: BindBranch, source: Source, bounds: Bounds) -> Plan:
    """The fixpoint that a recursive relation of WITH denotes; ``names`` are those of its columns that are given."""
    name = fold(cte.args["alias"].this)
    branches = _branches(cte.this, source)
    first, own = list[exp.Expr](), list[exp.Expr]()
    for branch in branches:
        recurs = any(_is_named(table, name) for table in branch.find_all(exp.Table))
        (own if recurs else first).append(branch)
    if not first:
        raise source.error(
            "cycle",
            f"every branch of {name!r} names {name!r}, so that it has nothing to begin with",
            cte.this,
            hint="WITH RECURSIVE t AS (SELECT … UNION SELECT … FROM t …)",
        )
    begins = [bind(branch, None) for branch in first]
    columns = _columns(begins, first, source, names)
    for _ in range(MOST_ROUNDS):
        itself = Scan(f"{name}^", columns)
        follows = [bind(branch, itself) for branch in own]
        wider = _columns([itself, *begins, *follows], [cte.this, *first, *own], source, names)
        if wider == columns:
            return _fixpoint(name, columns, begins, follows, source, own, bounds)
        columns = wider
    raise source.error("type", f"the types of {name!r} widen without end", cte.this, hint="CAST its columns")


def _branches(node: exp.Expr, source: Source) -> list[exp.Expr]:
    """The queries that UNION puts together."""
    if isinstance(node, exp.Subquery) and not node.args.get("with_"):
        return _branches(node.this, source)
    if not isinstance(node, exp.Union):
        return [node]
    for part in ("order", "limit", "offset", "with_"):
        if node.args.get(part) is not None:
            raise source.error("unsupported", "ORDER BY, LIMIT and WITH cannot stand in a recursive UNION", node)
    if not node.args.get("distinct"):
        raise source.error(
            "unsupported",
            "UNION ALL in a recursive query is not supported: equal rows would be derived without end",
            node,
            hint="use UNION",
        )
    return [*_branches(node.left, source), *_branches(node.right, source)]


def _columns(plans: list[Plan], nodes: list[exp.Expr], source: Source, names: list[str]) -> Schema:
    """The columns that all branches have in common."""
    fields = list(plans[0].schema.fields)
    for plan, node in zip(plans[1:], nodes[1:], strict=True):
        if len(plan.schema) != len(fields):
            message = f"the branches of a recursive query have {len(fields)} and {len(plan.schema)} columns"
            raise source.error("type", message, node)
        for position, (mine, other) in enumerate(zip(fields, plan.schema, strict=True)):
            shared = common_of([mine.type, other.type])
            if shared is None:
                where = f"column {position + 1} of a recursive query"
                raise source.error("type", f"{where} is {mine.type} in one branch, {other.type} in another", node)
            fields[position] = Field(mine.name, shared, mine.nullable or other.nullable)
    if len(names) > len(fields):
        raise source.error("type", f"{len(names)} column names for {len(fields)} columns", nodes[0])
    shown = (*names, *(column.name for column in fields[len(names) :]))
    return Schema(tuple(Field(name, column.type, column.nullable) for name, column in zip(shown, fields, strict=True)))


def _fixpoint(
    name: str,
    columns: Schema,
    begins: list[Plan],
    follows: list[Plan],
    source: Source,
    nodes: list[exp.Expr],
    bounds: Bounds,
) -> Plan:
    member = f"{name}^"
    sources = Sources(name)
    parts = tuple(_as_types(plan, columns) for plan in begins)
    base = sources.name_of(parts[0] if len(parts) == 1 else Union(parts))
    row = tuple(Var(i, f.name) for i, f in enumerate(columns))
    rules = [DatalogRule(Atom(member, row), (Atom(base, row),), columns, "1")]
    for number, (plan, node) in enumerate(zip(follows, nodes, strict=True), 2):
        try:
            rules += rules_from(plan, member, columns, sources, str(number))
        except NotARule as error:
            what = _WORDS.get(type(error.plan).__name__, type(error.plan).__name__)
            raise source.error(
                "unsupported",
                f"{name!r} is named inside {what} of its own definition",
                node,
                hint="a recursive query may join and filter what it defines; group or subtract outside of it, and put "
                "NOT EXISTS, NOT IN and outer joins into a subquery of FROM that does not name it",
            ) from error
    named = tuple(_renamed(rule, member, name) for rule in rules)
    stored = Schema(
        tuple(Field(own, f.type, f.nullable) for own, f in zip(_apart(columns.names), columns, strict=True))
    )
    given = {"max_rounds": bounds.rounds, "max_rows": bounds.rows}
    limits = {limit: value for limit, value in given.items() if value is not None}
    assert not any(member in relations_of(part) for part in sources.names)
    plan = Fixpoint(tuple(sources.names), tuple(sources.names.values()), named, ((name, stored),), name, **limits)
    return plan if stored == columns else Project(plan, columns.names, plan.columns())


def _apart(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, or others if two are the same: what is stored needs one for each column."""
    folded = [name.lower() for name in names]
    return names if len(set(folded)) == len(names) else tuple(f"c{i}" for i in range(1, len(names) + 1))


def _renamed(rule: DatalogRule, member: str, name: str) -> DatalogRule:
    """The rule with the relation under its own name. While it was bound, another relation could have had it."""
    body = tuple(p.renamed(name) if isinstance(p, Atom) and p.predicate == member else p for p in rule.body)
    return replace(rule, head=rule.head.renamed(name), body=body)


_WORDS = {
    "Aggregate": "a grouping",
    "Window": "a window",
    "Difference": "EXCEPT",
    "Intersection": "INTERSECT",
    "Negate": "a negation or an outer join",
    "Sort": "LIMIT",
    "Fixpoint": "another recursion",
    "Unnest": "UNNEST",
}


def _as_types(plan: Plan, columns: Schema) -> Plan:
    cells = tuple(coerce(column, target.type) for column, target in zip(plan.columns(), columns, strict=True))
    same = plan.schema.types == columns.types and plan.schema.names == columns.names
    return plan if same else Project(plan, columns.names, cells)
