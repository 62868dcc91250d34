"""Random plans, relations and changes, small on purpose: with few values, rows meet, repeat and cancel often."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tidemark.algebra.expressions import TRUE, Call, Case, Cast, Expression, Literal
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Difference,
    Distinct,
    Filter,
    Intersection,
    Join,
    Plan,
    Project,
    Scan,
    Union,
)
from tidemark.algebra.types import BIGINT, BOOLEAN, INT, Field, Schema, Type

TABLES: dict[str, Schema] = {
    "r": Schema((Field("a", INT), Field("b", INT))),
    "s": Schema((Field("a", INT), Field("c", INT, nullable=False))),
    "t": Schema((Field("d", INT),)),
}
MOST_COLUMNS = 3

values = st.one_of(st.none(), st.integers(0, 3))


def row_of(schema: Schema) -> st.SearchStrategy[tuple[int | None, ...]]:
    return st.tuples(*(values if f.nullable else st.integers(0, 3) for f in schema.fields))


def contents(schema: Schema, *, most: int = 6) -> st.SearchStrategy[dict[tuple[int | None, ...], int]]:
    """A relation: rows with positive weights."""
    return st.dictionaries(row_of(schema), st.integers(1, 3), max_size=most)


databases = st.fixed_dictionaries({name: contents(schema) for name, schema in TABLES.items()})
"""The old content and the new content of each table give a change of both signs, always consistent."""


@st.composite
def transitions(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two states of the database; some tables stay as they are."""
    before = draw(databases)
    after = draw(databases)
    kept = draw(st.sets(st.sampled_from(sorted(TABLES))))
    return before, {name: before[name] if name in kept else after[name] for name in TABLES}


def literal(value: int | None) -> Literal:
    return Literal(value, INT)


def call(name: str, *arguments: Expression, type: Type = BOOLEAN) -> Call:
    return Call(name, arguments, type)


@st.composite
def predicates(draw: st.DrawFn, schema: Schema, depth: int = 2) -> Expression:
    columns = [Scan("x", schema).column(i) for i in range(len(schema))]
    left = draw(st.sampled_from(columns))
    right = draw(st.one_of(st.sampled_from(columns), st.integers(0, 3).map(literal)))
    kinds = ["compare", "compare", "null", "distinct"] + (["and", "or", "not"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "compare":
            return call(draw(st.sampled_from(["eq", "ne", "lt", "ge"])), left, right)
        case "null":
            return call(draw(st.sampled_from(["is_null", "is_not_null"])), left)
        case "distinct":
            return call("is_not_distinct", left, right)
        case "not":
            return call("not", draw(predicates(schema, depth - 1)))
        case connective:
            return call(connective, draw(predicates(schema, depth - 1)), draw(predicates(schema, depth - 1)))


@st.composite
def scalars(draw: st.DrawFn, schema: Schema) -> Expression:
    """An INT expression that cannot overflow: values stay small because they are brought into 0…3 again."""
    column = Scan("x", schema).column(draw(st.integers(0, len(schema) - 1)))
    match draw(st.sampled_from(["column", "column", "sum", "case", "coalesce", "literal"])):
        case "sum":
            other = Scan("x", schema).column(draw(st.integers(0, len(schema) - 1)))
            return call("modulo", call("add", column, other, type=INT), literal(4), type=INT)
        case "case":
            return Case(((draw(predicates(schema, 0)), column),), literal(draw(values)), INT)
        case "coalesce":
            return call("coalesce", column, literal(2), type=INT)
        case "literal":
            return literal(draw(values))
    return column


def small(plan: Plan) -> Plan:
    """All columns as INT in 0…3, so that any two plans can be joined and united and sums stay small."""
    cells: list[Expression] = []
    for column in plan.columns():
        wide = column if column.type == BIGINT else Cast(column, BIGINT)
        cells.append(column if column.type == INT else Cast(call("modulo", wide, Literal(4, BIGINT), type=BIGINT), INT))
    return Project(plan, tuple(f"x{i}" for i in range(len(cells))), tuple(cells))


def with_arity(plan: Plan, arity: int) -> Plan:
    columns = plan.columns()
    cells: tuple[Expression, ...] = tuple(columns[i] if i < len(columns) else literal(0) for i in range(arity))
    return Project(plan, tuple(f"x{i}" for i in range(arity)), cells)


@st.composite
def plans(draw: st.DrawFn, depth: int = 3, *, linear: bool = False) -> Plan:
    """A random plan over the tables; ``linear`` leaves out distinct, grouping and set operations."""
    if depth == 0:
        name = draw(st.sampled_from(sorted(TABLES)))
        return Scan(name, TABLES[name])
    kinds = ["leaf", "filter", "project", "join", "join", "union"]
    kinds += [] if linear else ["distinct", "group", "group", "difference", "intersection"]
    kind = draw(st.sampled_from(kinds))
    if kind == "leaf":
        return draw(plans(0))
    source = draw(plans(depth - 1, linear=linear))
    match kind:
        case "filter":
            return Filter(source, draw(predicates(source.schema)))
        case "project":
            cells = draw(st.lists(scalars(source.schema), min_size=1, max_size=MOST_COLUMNS))
            return Project(source, tuple(f"p{i}" for i in range(len(cells))), tuple(cells))
        case "join":
            other = draw(plans(depth - 1, linear=linear))
            both = source.schema + other.schema
            predicate = draw(st.one_of(st.just(TRUE), predicates(both)))
            joined = Join(source, other, predicate)
            return joined if len(both) <= MOST_COLUMNS else with_arity(joined, MOST_COLUMNS)
        case "union":
            other = draw(plans(depth - 1, linear=linear))
            part = with_arity(other, len(source.schema))
            return Union((source, part))
        case "difference" | "intersection":
            other = with_arity(draw(plans(depth - 1)), len(source.schema))
            sides = (Distinct(source), Distinct(other)) if draw(st.booleans()) else (source, other)
            return Difference(*sides) if kind == "difference" else Intersection(*sides)
        case "distinct":
            return Distinct(source)
    return draw(groupings(source))


@st.composite
def groupings(draw: st.DrawFn, source: Plan) -> Plan:
    keys = draw(st.lists(scalars(source.schema), max_size=2))
    calls = draw(
        st.lists(
            st.one_of(
                st.just(AggregateCall(AggregateFunction.COUNT_ROWS)),
                scalars(source.schema).map(lambda e: AggregateCall(AggregateFunction.COUNT, e)),
                scalars(source.schema).map(lambda e: AggregateCall(AggregateFunction.SUM, e)),
            ),
            min_size=0 if keys else 1,
            max_size=2,
        )
    )
    names = tuple(f"g{i}" for i in range(len(keys) + len(calls)))
    return small(Aggregate(source, names, tuple(keys), tuple(calls)))
