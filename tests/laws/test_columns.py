"""Compiled steps over columns give what the reference gives, and expressions over columns what they give for each row.

Look-ups are answered from bags, with the number of each row's key or without.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cast_cases import CASTS
from tests.function_case import Case, same
from tests.function_cases import CALLS
from tests.laws.strategies import plans, transitions
from tests.laws.test_calculus import Tables, block_of
from tests.laws.test_steps import as_given, brought, expression_of, operators, outcome
from tidemark.algebra.aggregates import AggregateCall, AggregateFunction
from tidemark.algebra.compiled import compiled as compiled_expression
from tidemark.algebra.expressions import Call, Cast, Column, Expression, Literal
from tidemark.algebra.expressions import Case as Choice
from tidemark.algebra.functions import FUNCTIONS, canonical
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Filter,
    Given,
    Join,
    Net,
    Plan,
    Project,
    Stored,
    Touched,
    Union,
)
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    TIMESTAMP,
    VARCHAR,
    Field,
    Schema,
    Type,
    decimal,
)
from tidemark.calculus.as_of import new, resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.terms import distribute
from tidemark.engines.engine import Columns
from tidemark.engines.local.columns import COLUMNS
from tidemark.engines.local.compiler import Compiler, Run, TooMany, compiled, names_given
from tidemark.engines.local.steps import nothing_stored, steps
from tidemark.engines.local.vectors import computed
from tidemark.engines.reference.evaluate import evaluate
from tidemark.errors import TidemarkError
from tidemark.storage.batches import Batch, Unfit, Vector
from tidemark.storage.delta import Bag, Rows
from tidemark.storage.whole import Whole

MOST = 100_000


def batch_of(bag: Bag, schema: Schema) -> Batch:
    return Rows(schema, bag=bag).batch


def bag_in(batch: Batch, schema: Schema) -> Bag:
    return Rows(schema, batch=batch.net()).bag


class Lookups:
    """Rows by key of relations that are held as bags, perhaps several entries for one row."""

    def __init__(self, stored: Tables, schemas: dict[str, Schema], *, with_owners: bool) -> None:
        self.stored, self.schemas, self.with_owners = stored, schemas, with_owners

    def __call__(
        self, leaf: Stored, columns: Columns, keys: Sequence[Vector], needed: Columns | None
    ) -> tuple[Batch, Any]:
        wanted = list(zip(*(vector.array().to_pylist() for vector in keys), strict=True)) if keys else [()]
        assert len(set(wanted)) == len(wanted) and not any(None in key for key in wanted)
        rows, owners, weights = list[Row](), list[int](), list[int]()
        for row, weight in self.stored[leaf.relation].items():
            key = tuple(row[column] for column in columns)
            if key in wanted:
                shown = tuple(v if needed is None or i in needed else None for i, v in enumerate(row))
                for part in (weight, 2, -2):
                    rows.append(shown)
                    owners.append(wanted.index(key))
                    weights.append(part)
        cells = list(zip(*rows, strict=True)) if rows else [()] * len(leaf.schema)
        vectors = [Vector(t, array=pa.array(c, t.arrow)) for t, c in zip(leaf.schema.types, cells, strict=True)]
        found = Batch(vectors, np.array(weights, np.int64), is_net=False)
        return found, np.array(owners, np.int64) if self.with_owners else None


def by_columns(plan: Plan, stored: Tables, given_: Tables, *, with_owners: bool = True) -> Bag | None:
    """The plan's rows by columns; None if it is not compiled."""
    closed = compiled(plan, COLUMNS)
    if closed is None:
        return None
    schemas = {part.name: part.schema for part in _givens(plan)}
    run = Run(
        {name: batch_of(given_[name], schemas[name]) for name in names_given(plan)},
        Lookups(stored, {}, with_owners=with_owners),
        MOST,
    )
    return bag_in(closed(run), plan.schema)


def _givens(plan: Plan) -> list[Given]:
    return [plan] if isinstance(plan, Given) else [part for child in plan.inputs() for part in _givens(child)]


# Plans


@given(plans(), transitions(), st.booleans(), st.booleans())
def test_a_differential_over_columns_gives_what_the_reference_gives(
    plan: Plan, states: tuple[Tables, Tables], flat: bool, with_owners: bool
) -> None:
    block, stored, given_ = block_of(*states)
    for shape in (differentiate(plan, block.changed), new(plan)):
        resolved = distribute(resolve(shape, block)) if flat else resolve(shape, block)
        try:
            found = by_columns(resolved, stored, given_, with_owners=with_owners)
        except TooMany:
            continue
        assert found is None or found == evaluate(resolved, stored, given_)


@given(st.one_of(plans(), operators()), transitions())
def test_operators_over_columns_give_what_the_reference_gives(plan: Plan, states: tuple[Tables, Tables]) -> None:
    block, stored, given_ = block_of(*states)
    resolved = resolve(new(plan), block)
    expected = outcome(evaluate, resolved, stored, given_)
    found = outcome(by_columns, as_given(resolved), {}, {**stored, **given_})
    assert found == expected


@given(st.data(), st.one_of(plans(), operators()), transitions(), st.booleans())
def test_bound_columns_give_the_rows_that_have_the_keys(
    data: st.DataObject, plan: Plan, states: tuple[Tables, Tables], with_owners: bool
) -> None:
    block, stored, given_ = block_of(*states)
    resolved = resolve(new(plan), block)
    columns = tuple(data.draw(st.lists(st.integers(0, len(plan.schema) - 1), min_size=1, max_size=3)))
    bound = Compiler(resolved, COLUMNS).bound(resolved, columns)
    expected = outcome(evaluate, resolved, stored, given_)
    if bound is None or isinstance(expected, str):
        return
    keys = [tuple(row[column] for column in columns) for row in expected]
    keys = list(dict.fromkeys(data.draw(st.lists(st.sampled_from(keys), min_size=1)) if keys else []))
    if not keys:
        return
    types = [plan.schema.types[column] for column in columns]
    vectors = [Vector(t, array=pa.array(c, t.arrow)) for t, c in zip(types, zip(*keys, strict=True), strict=True)]
    asked = COLUMNS.part(range(len(columns)))(type(COLUMNS.all_keys)(vectors, len(keys)))
    schemas = {part.name: part.schema for part in _givens(resolved)}
    run = Run(
        {name: batch_of(given_[name], schemas[name]) for name in names_given(resolved)},
        Lookups(stored, {}, with_owners=with_owners),
        MOST,
    )
    try:
        found = bag_in(bound(run, asked), resolved.schema)
    except TooMany:
        return
    assert found == {
        row: weight for row, weight in expected.items() if tuple(row[column] for column in columns) in set(keys)
    }


# Expressions

CASES = [*CALLS, *CASTS]


def batch_of_rows(rows: Sequence[Row], types: Sequence[Type]) -> Batch:
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    vectors = [Vector(t, array=pa.array(c, t.arrow)) for t, c in zip(types, cells, strict=True)]
    return Batch(vectors, np.ones(len(rows), np.int64), is_net=True)


def values_over(of: Any, rows: Sequence[Row], types: Sequence[Type]) -> list[Any]:
    return [canonical(value) for value in of(batch_of_rows(rows, types)).array().to_pylist()]


def must_agree(expression: Expression, rows: Sequence[Row], types: Sequence[Type]) -> None:
    """Over columns an expression gives what it gives for each row, or fails as one of them does."""
    by_row = [outcome(compiled_expression(expression), row) for row in rows]
    failing = [row for row in rows if _fails(expression, row)]
    of = computed(expression)
    if failing:
        codes = {outcome(compiled_expression(expression), row) for row in failing}
        with pytest.raises(TidemarkError) as caught:
            of(batch_of_rows(rows, types)).array()
        assert caught.value.code in codes
    rest = [row for row in rows if row not in failing]
    expected = [value for row, value in zip(rows, by_row, strict=True) if row not in failing]
    found = values_over(of, rest, types)
    assert all(f == e or same(f, e) for f, e in zip(found, expected, strict=True)), (expression, rest, found, expected)


def _fails(expression: Expression, row: Row) -> bool:
    try:
        compiled_expression(expression)(row)
    except TidemarkError:
        return True
    return False


@pytest.mark.parametrize("name", dict.fromkeys(case.name for case in CASES))
def test_every_function_and_cast_means_over_columns_what_it_means_for_rows(name: str) -> None:
    by_types: dict[tuple[Type, ...], list[Case]] = {}
    for case in (case for case in CASES if case.name == name):
        by_types.setdefault((*case.types, case.signature.result), []).append(case)
    for cases in by_types.values():
        first = cases[0]
        wanted = first.types if first.target is not None else first.signature.arguments
        columns = tuple(brought(Column(i, f"c{i}", t), wanted[i]) for i, t in enumerate(first.types))
        rows: list[Row] = [case.values for case in cases]
        rows += [
            tuple(None if i == missing else v for i, v in enumerate(first.values)) for missing in range(len(columns))
        ]
        must_agree(expression_of(first, columns), rows, first.types)
        must_agree(expression_of(first, columns), rows * 40, first.types)
        for case in cases:
            literals = tuple(brought(Literal(v, t), w) for v, t, w in zip(case.values, case.types, wanted, strict=True))
            for arguments in ((*columns[:1], *literals[1:]), (*literals[:1], *columns[1:])):
                must_agree(expression_of(case, arguments), rows, first.types)


WIDE, NARROW, AMOUNT = decimal(38, 2), decimal(18, 4), decimal(12, 2)
TYPES = (BIGINT, INT, AMOUNT, NARROW, WIDE, VARCHAR, DATE, TIMESTAMP, BOOLEAN, DOUBLE)
SCHEMA = Schema(tuple(Field(f"c{i}", type_) for i, type_ in enumerate(TYPES)))


def decimals(type_: Type) -> st.SearchStrategy[Decimal]:
    most = 10**type_.precision - 1
    near = [0, 1, -1, 150, most, -most, 2**63 - 1, 2**63, -(2**63), 2**62, 10**18]
    numbers = st.sampled_from([number for number in near if abs(number) <= most]) | st.integers(-300, 300)
    return numbers.map(lambda number: Decimal(number).scaleb(-type_.scale, Context(prec=50)))


CELLS: tuple[st.SearchStrategy[Any], ...] = (
    st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 2**62, 2**32]) | st.integers(-3, 3),
    st.sampled_from([0, 2**31 - 1, -(2**31), 2**16]) | st.integers(-3, 3),
    decimals(AMOUNT),
    decimals(NARROW),
    decimals(WIDE),
    st.sampled_from(["", "a", "ab", "ä%", "a\nb", "special requests", "𝄞"]),
    st.sampled_from([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2000, 2, 29), dt.date(9999, 12, 31)]),
    st.sampled_from([dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29, 1)]),
    st.booleans(),
    st.sampled_from([0.0, 1.5, -1.5, float("inf"), canonical(float("nan"))]),
)
ROW = st.tuples(*(st.none() | cell for cell in CELLS))
COLUMNS_OF_ALL = tuple(Column(i, f"c{i}", type_) for i, type_ in enumerate(TYPES))
NUMBERS = COLUMNS_OF_ALL[:5]


@st.composite
def numbers(draw: st.DrawFn, depth: int = 2) -> Expression:
    """A number: columns, constants, and what is computed of two numbers."""
    column = draw(st.sampled_from(NUMBERS))
    if not depth:
        return draw(st.sampled_from([column, Literal(draw(st.none() | CELLS[column.index]), column.type)]))
    match draw(st.sampled_from(["column", "arithmetic", "arithmetic", "case", "coalesce", "negate", "cast"])):
        case "arithmetic":
            name = draw(st.sampled_from(["add", "subtract", "multiply", "divide"]))
            left, right = draw(numbers(depth - 1)), draw(numbers(depth - 1))
            signature = FUNCTIONS[name].resolve((left.type, right.type))
            if signature is None:
                return left
            arguments = tuple(brought(a, w) for a, w in zip((left, right), signature.arguments, strict=True))
            return Call(name, arguments, signature.result)
        case "case":
            result = draw(numbers(depth - 1))
            return Choice(((draw(conditions_of_all(depth - 1)), result),), Literal(None, result.type), result.type)
        case "coalesce":
            return Call("coalesce", (column, Literal(draw(CELLS[column.index]), column.type)), column.type)
        case "negate":
            inner = draw(numbers(depth - 1))
            return Call("negate", (inner,), inner.type)
        case "cast":
            return Cast(draw(numbers(depth - 1)), draw(st.sampled_from([BIGINT, WIDE, NARROW])))
    return column


@st.composite
def conditions_of_all(draw: st.DrawFn, depth: int = 2) -> Expression:
    column = draw(st.sampled_from(COLUMNS_OF_ALL))
    constant = Literal(draw(st.none() | CELLS[column.index]), column.type)
    kinds = ["compare", "null", "distinct", "in", "like", *(["and", "or", "not", "numbers"] if depth else [])]
    match draw(st.sampled_from(kinds)):
        case "compare":
            sides = draw(st.permutations((column, constant)))
            return Call(draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"])), tuple(sides), BOOLEAN)
        case "null":
            return Call(draw(st.sampled_from(["is_null", "is_not_null"])), (column,), BOOLEAN)
        case "distinct":
            return Call(draw(st.sampled_from(["is_distinct", "is_not_distinct"])), (column, constant), BOOLEAN)
        case "in":
            more = Literal(draw(CELLS[column.index]), column.type)
            return Call("in_list", (column, constant, more), BOOLEAN)
        case "like":
            shapes = ["%", "", "a%", "%b", "%a%", "a_b", "%special%requests%", "\\%", "ä\\%", "%\n%", "_"]
            return Call("like", (COLUMNS_OF_ALL[5], Literal(draw(st.sampled_from(shapes)), VARCHAR)), BOOLEAN)
        case "not":
            return Call("not", (draw(conditions_of_all(depth - 1)),), BOOLEAN)
        case "numbers":
            left = draw(numbers(depth - 1))
            return Call("lt", (left, left), BOOLEAN)
        case connective:
            both = (draw(conditions_of_all(depth - 1)), draw(conditions_of_all(depth - 1)))
            return Call(connective, both, BOOLEAN)


@given(st.lists(ROW, max_size=6), st.one_of(numbers(), conditions_of_all()))
def test_an_expression_over_columns_gives_what_it_gives_for_each_row(rows: list[Row], expression: Expression) -> None:
    must_agree(expression, rows, TYPES)


# All types


WEIGHTED = st.dictionaries(ROW, st.sampled_from([1, 2, -1, -3]), max_size=8)
LEFT, RIGHT = Given("l", SCHEMA), Given("r", SCHEMA)


@st.composite
def over_all_types(draw: st.DrawFn) -> Plan:
    left: Plan = draw(st.sampled_from([LEFT, Union((LEFT, RIGHT)), Filter(LEFT, draw(conditions_of_all(1)))]))
    column = draw(st.sampled_from(COLUMNS_OF_ALL[:-1]))
    if draw(st.booleans()):
        other = Column(column.index + len(SCHEMA), column.name, column.type)
        equal = Call("eq", (column, other), BOOLEAN)
        joined = Join(left, RIGHT, equal)
        left = Project(joined, SCHEMA.names, joined.columns()[: len(SCHEMA)])
    match draw(st.sampled_from(["aggregate", "aggregate", "distinct", "net", "touched", "project", "difference"])):
        case "aggregate":
            keys = tuple(draw(st.lists(st.sampled_from(COLUMNS_OF_ALL[:-1]), max_size=2, unique=True)))
            calls = tuple(draw(st.lists(calls_of_all(), min_size=1, max_size=3)))
            names = tuple(f"x{i}" for i in range(len(keys) + len(calls)))
            return Aggregate(left, names, keys, calls, signed=draw(st.booleans()))
        case "distinct":
            return Distinct(left)
        case "touched":
            return Touched(left, Project(RIGHT, ("k",), (column,)), (column.index,))
        case "project":
            return Project(left, ("p", "q"), (draw(numbers(1)), column))
        case "difference":
            return Difference(left, RIGHT)
    return Net(left)


@st.composite
def calls_of_all(draw: st.DrawFn) -> AggregateCall:
    match draw(st.sampled_from(["rows", "count", "sum", "least", "greatest", "distinct"])):
        case "rows":
            return AggregateCall(AggregateFunction.COUNT_ROWS)
        case "sum":
            return AggregateCall(AggregateFunction.SUM, draw(st.sampled_from(NUMBERS)))
        case "least":
            return AggregateCall(AggregateFunction.MIN, draw(st.sampled_from(COLUMNS_OF_ALL)))
        case "greatest":
            return AggregateCall(AggregateFunction.MAX, draw(st.sampled_from(COLUMNS_OF_ALL)))
        case "distinct":
            return AggregateCall(AggregateFunction.COUNT, draw(st.sampled_from(COLUMNS_OF_ALL[:-1])), distinct=True)
    return AggregateCall(AggregateFunction.COUNT, draw(st.sampled_from(COLUMNS_OF_ALL)))


@given(over_all_types(), WEIGHTED, WEIGHTED)
def test_columns_of_all_types_give_what_rows_give(plan: Plan, left: Bag, right: Bag) -> None:
    given_ = {"l": left, "r": right}
    expected = outcome(by_rows, plan, given_)
    try:
        found = outcome(by_columns, plan, {}, given_)
    except (TooMany, Unfit):
        return
    assert found == expected or same_bags(found, expected)


def by_rows(plan: Plan, given_: dict[str, Bag]) -> Bag:
    compiled_steps = steps(plan)
    assert compiled_steps is not None
    return compiled_steps.evaluate(Run(given_, nothing_stored, MOST))


def same_bags(one: Any, other: Any) -> bool:
    """As ``==`` where not-a-number is equal to itself."""
    return (
        isinstance(one, dict)
        and isinstance(other, dict)
        and {str(k): w for k, w in one.items()} == {str(k): w for k, w in other.items()}
    )


def test_weights_beyond_64_bits_are_left_to_rows() -> None:
    rows: dict[str, Bag] = {"l": {(2**62,) + (None,) * (len(SCHEMA) - 1): 2**62}}
    counted = Aggregate(LEFT, ("n",), (), (AggregateCall(AggregateFunction.SUM, COLUMNS_OF_ALL[0]),))
    assert by_columns(counted, {}, rows) == by_rows(counted, rows) == {(Decimal(2**124),): 1}
    with pytest.raises(Unfit):
        by_columns(Join(LEFT, LEFT, Call("eq", (COLUMNS_OF_ALL[0], Column(10, "c0", BIGINT)), BOOLEAN)), {}, rows)


def test_small_relations_tell_of_each_row_which_key_it_has() -> None:
    """Texts alone tell these rows apart, and they come in another order than that of their values."""
    texts = Schema((Field("k", VARCHAR), Field("v", VARCHAR)))
    stored = [("b", "x"), ("a", "y"), ("c", "x"), ("a", "z"), ("b", "a")]
    cells = [pa.array(column, pa.string()) for column in zip(*stored, strict=True)]
    whole = Whole(texts, pa.Table.from_arrays(cells, schema=texts.arrow), 100)
    keys = ["c", "b", "a", "nowhere"]
    asked = [Vector(VARCHAR, array=pa.array(keys))]
    for _ in range(3):  # one by one at first, then all of them as columns
        found = whole.matching_batch((0,), asked, MOST)
        assert found is not None
        rows, owners = found
        assert [keys[owner] for owner in owners] == rows.vectors[0].array().to_pylist()
        assert bag_in(rows, texts) == dict.fromkeys(stored, 1)
        assert whole.matching_batch((0,), asked, 4) is None
        every = whole.matching_batch((), [], MOST)
        assert every is not None and bag_in(every[0], texts) == dict.fromkeys(stored, 1)
    whole.feed(Rows(texts, bag={("a", "y"): -1, ("nowhere", "new"): 2}))
    found = whole.matching_batch((0,), asked, MOST)
    assert found is not None
    left = dict.fromkeys(stored, 1) | {("nowhere", "new"): 2}
    del left["a", "y"]
    assert bag_in(found[0], texts) == left
