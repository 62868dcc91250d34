"""Compiled steps give what the reference gives: every operator, bound or not, every function, aggregate and window.

A run looks up keys in relations that are held as bags here, which leave unneeded columns empty, as engines do.
"""

from __future__ import annotations

from collections.abc import Collection
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cast_cases import CASTS
from tests.function_case import Case, same
from tests.function_cases import CALLS
from tests.laws.strategies import TABLES, plans, predicates, scalars, transitions, values
from tests.laws.test_calculus import Tables, block_of
from tests.laws.test_unnest import unnested
from tidemark.algebra.aggregates import AggregateCall, AggregateFunction, SortKey
from tidemark.algebra.compiled import compiled, holds
from tidemark.algebra.expressions import TRUE, Call, Cast, Column, Expression, Literal, Value, conjunction
from tidemark.algebra.expressions import Case as Choice
from tidemark.algebra.plans import (
    Aggregate,
    Filter,
    Given,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Sort,
    Stored,
    Touched,
    Union,
    Window,
    transform,
)
from tidemark.algebra.scalar import Row, value_of
from tidemark.algebra.types import BIGINT, BOOLEAN, INT, Field, Schema, Type, decimal
from tidemark.algebra.windows import Bound, Frame, Unit, WindowCall, WindowFunction
from tidemark.calculus.as_of import new, resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.terms import distribute
from tidemark.engines.engine import Columns, Keys
from tidemark.engines.local.compiler import Compiler, Run, TooMany
from tidemark.engines.local.steps import ROWS, steps
from tidemark.engines.reference.evaluate import evaluate
from tidemark.engines.reference.grouping import aggregate_value
from tidemark.errors import TidemarkError
from tidemark.storage.delta import as_bag

MOST = 100_000


class Lookups:
    """Rows by key of relations that are held as bags."""

    def __init__(self, stored: Tables) -> None:
        self.stored = stored
        self.asked: list[tuple[str, Columns, Keys]] = []

    def __call__(
        self, leaf: Stored, columns: Columns, keys: Collection[Row], needed: Columns | None
    ) -> dict[Row, dict[Row, int]]:
        assert not any(None in key for key in keys), "NULL is not looked up"
        assert needed is None or set(columns) <= set(needed), "what is looked up is there"
        self.asked.append((leaf.relation, columns, keys))
        found: dict[Row, dict[Row, int]] = {}
        for row, weight in self.stored[leaf.relation].items():
            key = tuple(row[column] for column in columns)
            if key in keys:
                shown = tuple(v if needed is None or i in needed else None for i, v in enumerate(row))
                rows = found.setdefault(key, {})
                rows[shown] = rows.get(shown, 0) + weight
        return found


def outcome(evaluate: Any, *arguments: Any) -> Any:
    """What comes of it: a value, or the code of an error."""
    try:
        return evaluate(*arguments)
    except TidemarkError as error:
        return error.code


# Plans


@given(plans(), transitions(), st.booleans())
def test_a_compiled_differential_gives_what_the_reference_gives(
    plan: Plan, states: tuple[Tables, Tables], flat: bool
) -> None:
    block, stored, given_ = block_of(*states)
    for shape in (differentiate(plan, block.changed), new(plan)):
        resolved = distribute(resolve(shape, block)) if flat else resolve(shape, block)
        found = steps(resolved)
        if found is not None:
            try:
                rows = found.evaluate(Run(given_, Lookups(stored), MOST))
            except TooMany:
                continue
            assert rows == evaluate(resolved, stored, given_)


def as_given(plan: Plan) -> Plan:
    return transform(plan, lambda part: Given(part.relation, part.schema) if isinstance(part, Stored) else None)


@given(plans(), transitions())
def test_a_plan_over_what_is_given_is_always_compiled(plan: Plan, states: tuple[Tables, Tables]) -> None:
    block, stored, given_ = block_of(*states)
    resolved = resolve(new(plan), block)
    found = steps(as_given(resolved))
    assert found is not None
    assert found.evaluate(Run({**stored, **given_}, Lookups({}), MOST)) == evaluate(resolved, stored, given_)


@st.composite
def operators(draw: st.DrawFn) -> Plan:
    """A random plan below an operator that random plans do not have."""
    source = draw(plans(2))
    other = draw(plans(1))
    match draw(st.sampled_from(["join", "touched", "unnest", "repeat", "net", "negate", "window", "sort", "plain"])):
        case "join":
            return draw(equal_joins(source, other))
        case "touched":
            keys = tuple(draw(st.lists(st.integers(0, len(source.schema) - 1), min_size=0, max_size=2)))
            return Touched(source, Project(other, ("x", "y"), tuple(other.columns()[:1] * 2)), keys)
        case "unnest":
            return unnested(source, places=draw(st.booleans()))
        case "repeat":
            times = Cast(draw(scalars(source.schema)), BIGINT)
            return Repeat(source, Call("coalesce", (times, Literal(2, BIGINT)), BIGINT))
        case "net":
            return Net(source)
        case "negate":
            return Union((source, Negate(Filter(source, draw(predicates(source.schema))))))
        case "window":
            return draw(windows(source))
        case "sort":
            return draw(sorts(source))
    return source


@st.composite
def equal_joins(draw: st.DrawFn, source: Plan, other: Plan) -> Plan:
    """A join on one or two pairs of equal columns, perhaps with something else that it asks for."""
    width, both = len(source.schema), source.schema + other.schema
    pairs = st.tuples(st.integers(0, width - 1), st.integers(width, len(both) - 1))
    conditions: list[Expression] = [equal(*pair) for pair in draw(st.lists(pairs, min_size=1, max_size=2))]
    if draw(st.booleans()):
        conditions.append(draw(predicates(both)))
    joined = Join(source, other, conjunction(tuple(conditions)))
    if draw(st.booleans()):
        return joined
    shown = draw(st.lists(st.sampled_from(joined.columns()), min_size=1, max_size=3))
    return Project(joined, tuple(f"j{i}" for i in range(len(shown))), tuple(shown))


@st.composite
def orders(draw: st.DrawFn, schema: Schema) -> tuple[SortKey, ...]:
    keys = st.builds(SortKey, scalars(schema), st.booleans(), st.booleans())
    return tuple(draw(st.lists(keys, max_size=2)))


@st.composite
def sorts(draw: st.DrawFn, source: Plan) -> Plan:
    limit, visible = draw(st.none() | st.integers(0, 3)), draw(st.none() | st.integers(1, len(source.schema)))
    return Sort(source, draw(orders(source.schema)), limit, draw(st.integers(0, 2)), visible)


def bounds(draw: st.DrawFn) -> tuple[Bound, Bound]:
    bound = st.builds(Bound, st.none() | st.integers(0, 2), st.booleans())
    return draw(bound), draw(bound)


@st.composite
def windows(draw: st.DrawFn, source: Plan) -> Plan:
    partition = draw(st.lists(st.sampled_from(source.columns()), max_size=2))
    value = draw(scalars(source.schema))
    calls = []
    for function in draw(
        st.lists(
            st.sampled_from([*WindowFunction, *map(AggregateFunction, ("sum", "max", "min", "count"))]), min_size=1
        )
    ):
        frame, number, arguments = None, Literal(draw(st.integers(1, 3)), INT), tuple[Expression, ...]()
        ignores = False
        match function:
            case WindowFunction.NTILE:
                arguments = (number,)
            case WindowFunction.LAG | WindowFunction.LEAD:
                arguments, ignores = (value, number, draw(scalars(source.schema))), draw(st.booleans())
            case WindowFunction.NTH_VALUE:
                arguments, ignores = (value, number), draw(st.booleans())
                frame = Frame(Unit.ROWS, *bounds(draw))
            case WindowFunction.FIRST_VALUE | WindowFunction.LAST_VALUE:
                arguments, ignores = (value,), draw(st.booleans())
                frame = Frame(draw(st.sampled_from([Unit.ROWS, Unit.GROUPS])), *bounds(draw))
            case AggregateFunction():
                arguments = (value,)
                frame = Frame(draw(st.sampled_from([Unit.ROWS, Unit.GROUPS])), *bounds(draw))
        calls.append(WindowCall(function, arguments, frame, ignores))
    names = tuple(f"w{i}" for i in range(len(calls)))
    return Window(source, names, tuple(partition), draw(orders(source.schema)), tuple(calls))


@given(operators(), transitions(), st.data())
def test_a_restriction_to_touched_keys_is_followed_into_every_operator(
    plan: Plan, states: tuple[Tables, Tables], data: st.DataObject
) -> None:
    """As the differentials of groupings and of DISTINCT have it, over stored relations."""
    block, stored, given_ = block_of(*states)
    whole = resolve(new(plan), block)
    columns = data.draw(st.lists(st.integers(0, len(whole.schema) - 1), min_size=1, max_size=3))
    touched = Given("touched", Schema(tuple(whole.schema[column] for column in columns)))
    keys = data.draw(st.sets(st.tuples(*(values for _ in columns)), max_size=3))
    resolved = Touched(whole, touched, tuple(columns))
    found = steps(resolved)
    if found is None:
        return
    handed = {**given_, "touched": dict.fromkeys(keys, 1)}
    try:
        rows = outcome(found.evaluate, Run(handed, Lookups(stored), MOST))
    except TooMany:
        return
    expected = outcome(evaluate, resolved, stored, handed)
    assert rows == expected or isinstance(expected, str)


@given(operators(), transitions())
def test_every_operator_gives_what_the_reference_gives(plan: Plan, states: tuple[Tables, Tables]) -> None:
    block, stored, given_ = block_of(*states)
    resolved = resolve(new(plan), block)
    found = steps(as_given(resolved))
    assert found is not None
    run = Run({**stored, **given_}, Lookups({}), MOST)
    assert outcome(found.evaluate, run) == outcome(evaluate, resolved, stored, given_)


@given(operators(), transitions(), st.data())
def test_a_bound_plan_has_the_rows_that_its_keys_choose_and_no_others(
    plan: Plan, states: tuple[Tables, Tables], data: st.DataObject
) -> None:
    block, stored, given_ = block_of(*states)
    resolved = resolve(new(plan), block)
    width = len(resolved.schema)
    columns = tuple(data.draw(st.lists(st.integers(0, width - 1), min_size=1, max_size=3)))
    bound = Compiler(resolved, ROWS).bound(resolved, columns)
    if bound is None:
        return
    keys = data.draw(st.sets(st.tuples(*(values for _ in columns)), max_size=3))
    try:
        found = outcome(lambda run, keys: as_bag(bound(run, keys)), Run(given_, Lookups(stored), MOST), keys)
    except TooMany:
        return
    whole = outcome(evaluate, resolved, stored, given_)
    if isinstance(whole, str):
        return  # a row that is not asked for may be the one that fails
    read = {row: weight for row, weight in whole.items() if tuple(row[column] for column in columns) in keys}
    assert found == read


R, S = Stored("r", TABLES["r"]), Stored("s", TABLES["s"])
DELTA = Given("Δr", TABLES["r"])


def equal(left: int, right: int) -> Call:
    return Call("eq", (Column(left, "", INT), Column(right, "", INT)), BOOLEAN)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), transitions(), st.data())
def test_a_join_is_bound_by_any_columns_of_its_two_sides(
    columns: list[int], states: tuple[Tables, Tables], data: st.DataObject
) -> None:
    _, stored, given_ = block_of(*states)
    deltas = {"Δr": given_.get("Δr", {(1, 2): 1})}
    for plan in (Join(R, S, equal(0, 2)), Join(DELTA, S, equal(0, 2)), Join(S, DELTA, equal(0, 2))):
        whole = evaluate(plan, stored, deltas)
        among = [tuple(row[column] for column in columns) for row in whole]
        keys = data.draw(st.sets(st.tuples(*(values for _ in columns)), max_size=2))
        keys |= set(data.draw(st.lists(st.sampled_from(among), max_size=3))) if among else set()
        bound = Compiler(plan, ROWS).bound(plan, tuple(columns))
        assert bound is not None
        try:
            found = as_bag(bound(Run(deltas, Lookups(stored), MOST), keys))
        except TooMany:
            assert any(None in key for key in keys)
            continue
        assert found == {row: n for row, n in whole.items() if tuple(row[column] for column in columns) in keys}


def test_of_a_chain_of_joins_only_rows_are_read_that_the_delta_leads_to() -> None:
    plan = Join(Join(DELTA, S, equal(0, 2)), Stored("t", TABLES["t"]), equal(3, 4))
    lookups = Lookups({"s": {(1, 2): 1, (9, 9): 1}, "t": {(2,): 3, (9,): 1}})
    run = Run({"Δr": {(1, 5): 1, (None, 5): 1, (7, 7): 1}}, lookups, MOST)
    found = steps(plan)
    assert found is not None
    assert found.names == ("Δr",)
    assert found.evaluate(run) == {(1, 5, 1, 2, 2): 3}
    assert [(name, columns, set(keys)) for name, columns, keys in lookups.asked] == [
        ("s", (0,), {(1,), (7,)}),
        ("t", (0,), {(2,)}),
    ]
    assert run.read == {"s": 1, "t": 1}


def test_what_a_filter_on_the_deltas_side_leaves_out_is_not_looked_up() -> None:
    above = Call("gt", (Column(1, "b", INT), Literal(3, INT)), BOOLEAN)
    lookups = Lookups({"s": {(1, 2): 1}})
    found = steps(Join(Filter(DELTA, above), S, equal(0, 2)))
    assert found is not None
    assert found.evaluate(Run({"Δr": {(1, 3): 1}}, lookups, MOST)) == {}
    assert not lookups.asked


def test_groups_and_windows_are_found_by_their_keys() -> None:
    counted = Aggregate(R, ("a", "n"), (Column(0, "a", INT),), (AggregateCall(AggregateFunction.COUNT_ROWS),))
    ranked = Window(
        R, ("n",), (Column(0, "a", INT),), (SortKey(Column(1, "b", INT)),), (WindowCall(WindowFunction.ROW_NUMBER),)
    )
    for plan, expected in ((counted, {(1, 2): 1}), (ranked, {(1, 3, 1): 1, (1, 4, 2): 1})):
        lookups = Lookups({"r": {(1, 3): 1, (1, 4): 1, (2, 3): 1}})
        found = steps(Touched(plan, DELTA, (0,)))
        assert found is not None
        assert found.evaluate(Run({"Δr": {(1, 0): -1, (1, 9): 1}}, lookups, MOST)) == expected
        assert [(name, columns, set(keys)) for name, columns, keys in lookups.asked] == [("r", (0,), {(1,)})]


def test_a_relation_that_no_key_leads_to_is_read_as_a_whole() -> None:
    lookups = Lookups({"r": {(1, 3): 2}, "s": {(4, 5): 1, (6, 7): -1}})
    for plan, expected in (
        (R, {(1, 3): 2}),
        (Join(DELTA, S, TRUE), {(1, 0, 4, 5): -1, (1, 0, 6, 7): 1}),
        (Join(S, DELTA, equal(0, 2)), {}),
    ):
        found = steps(plan)
        assert found is not None
        assert found.evaluate(Run({"Δr": {(1, 0): -1}}, lookups, MOST)) == expected
    asked = [(name, columns, set(keys)) for name, columns, keys in lookups.asked]
    assert asked == [("r", (), {()}), ("s", (), {()}), ("s", (0,), {(1,)})], "nothing is, that a key leads to"


def test_what_must_have_constants_is_looked_into_first() -> None:
    chosen = Filter(S, Call("eq", (Column(1, "b", INT), Literal(5, INT)), BOOLEAN))
    for joined in (Join(R, chosen, equal(0, 2)), Join(chosen, R, equal(0, 2))):
        lookups = Lookups({"r": {(1, 3): 1}, "s": {(1, 5): 1, (2, 6): 1}})
        found = steps(Touched(joined, DELTA, (0,)))
        assert found is not None
        assert len(found.evaluate(Run({"Δr": {(1, 0): -1, (2, 0): 1}}, lookups, MOST))) == 1
        assert [(name, set(keys)) for name, _, keys in lookups.asked] == [("s", {(1,), (2,)}), ("r", {(1,)})]


def test_too_many_rows_end_a_run() -> None:
    found = steps(Join(DELTA, S, equal(0, 2)))
    assert found is not None
    for most, is_enough in ((2, True), (1, False)):
        run = Run({"Δr": {(1, 5): 1}}, Lookups({"s": {(1, 2): 1, (1, 3): 1}}), most)
        if is_enough:
            assert len(found.evaluate(run)) == 2
        else:
            with pytest.raises(TooMany):
                found.evaluate(run)


def test_what_the_two_states_share_is_not_seen_by_an_expression_that_fails() -> None:
    """Entries of a stored row and of the delta that removes it cancel before anything is divided by them."""
    quotient = Call("divide", (Literal(1, INT), Column(0, "a", INT)), INT)
    old = Touched(Union((R, DELTA)), DELTA, (0,))
    found = steps(Project(old, ("q",), (quotient,)))
    assert found is not None
    assert found.evaluate(Run({"Δr": {(0, 5): -1}}, Lookups({"r": {(0, 5): 1}}), MOST)) == {}
    with pytest.raises(TidemarkError) as caught:
        found.evaluate(Run({"Δr": {(0, 5): -1}}, Lookups({"r": {(0, 5): 2}}), MOST))
    assert caught.value.code == "division_by_zero"


# Expressions


def expression_of(case: Case, arguments: tuple[Expression, ...]) -> Expression:
    if case.target is not None:
        return Cast(arguments[0], case.target)
    return Call(case.name, arguments, case.signature.result)


def agree(expression: Expression, row: Row) -> bool:
    expected, found = outcome(value_of, expression, row), outcome(compiled(expression), row)
    return type(found) is type(expected) and (found == expected or same(found, expected))


CASES = [*CALLS, *CASTS]


@pytest.mark.parametrize("name", dict.fromkeys(case.name for case in CASES))
def test_every_function_and_cast_means_what_it_means(name: str) -> None:
    for case in (case for case in CASES if case.name == name):
        wanted = case.types if case.target is not None else case.signature.arguments
        columns = tuple(brought(Column(i, f"c{i}", t), wanted[i]) for i, t in enumerate(case.types))
        literals = tuple(brought(Literal(v, t), w) for v, t, w in zip(case.values, case.types, wanted, strict=True))
        for arguments in (columns, literals, (*columns[:1], *literals[1:]), (*literals[:1], *columns[1:])):
            assert agree(expression_of(case, arguments), case.values), f"{case} of {arguments}"
        for missing in range(len(columns)):
            row = tuple(None if i == missing else value for i, value in enumerate(case.values))
            assert agree(expression_of(case, columns), row), f"{case} without argument {missing}"


def brought(expression: Expression, wanted: Type) -> Expression:
    return expression if expression.type == wanted else Cast(expression, wanted)


MIXED = Schema((Field("a", INT), Field("b", INT), Field("c", BOOLEAN)))
FAILING = Call("eq", (Call("divide", (Literal(6, INT), Column(0, "a", INT)), INT), Column(1, "b", INT)), BOOLEAN)


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> Expression:
    if not depth:
        some = [FAILING, Column(2, "c", BOOLEAN), Literal(True, BOOLEAN), Literal(None, BOOLEAN)]
        return draw(st.sampled_from(some) | predicates(Schema(MIXED.fields[:2]), 1))
    parts = [draw(conditions(depth - 1)) for _ in range(draw(st.integers(2, 3)))]
    match draw(st.sampled_from(["and", "or", "not", "case"])):
        case "not":
            return Call("not", (parts[0],), BOOLEAN)
        case "case":
            return Choice(((parts[0], parts[1]),), parts[-1], BOOLEAN)
        case connective:
            return Call(connective, tuple(parts), BOOLEAN)


@given(conditions(), st.tuples(values, values, st.none() | st.booleans()))
def test_conditions_fail_where_the_reference_does(condition: Expression, row: Row) -> None:
    expected = outcome(value_of, condition, row)
    assert outcome(compiled(condition), row) == expected
    found = outcome(holds(condition), row)
    assert found == expected if isinstance(expected, str) else bool(found) == (expected is True)


# Aggregates


@given(
    st.dictionaries(st.tuples(values, values), st.integers(-2, 3).filter(bool), max_size=5),
    st.booleans(),
    st.sampled_from([INT, BIGINT, decimal(38, 2)]),
)
def test_every_aggregate_means_what_it_means(group: dict[Row, int], distinct: bool, type_: Any) -> None:
    cells = {value: value_of(Cast(Literal(value, INT), type_), ()) for value in (None, *range(4))}
    rows: dict[Row, int] = {(cells[v], w): n for (v, w), n in group.items()}
    for function in AggregateFunction:
        call = AggregateCall(
            function,
            None if function is AggregateFunction.COUNT_ROWS else Column(0, "x", type_),
            distinct=distinct and function in (AggregateFunction.COUNT, AggregateFunction.SUM),
            order=(SortKey(Column(1, "y", INT), descending=True),) if function is AggregateFunction.STRING_AGG else (),
            fraction=0.5 if function.row.has_fraction else None,
        )
        plan = Aggregate(Given("g", Schema((Field("x", type_), Field("y", INT)))), ("v",), (), (call,))
        found = steps(plan)
        assert found is not None
        expected = outcome(aggregate_value, call, rows)
        rows_found = outcome(found.evaluate, Run({"g": rows}, Lookups({}), MOST))
        if isinstance(rows_found, str):
            assert rows_found == expected
        else:
            [(value,)] = rows_found
            assert same(value, expected)


@pytest.mark.parametrize("type_", [BIGINT, decimal(38, 2), decimal(38, 0)])
def test_a_sum_is_refused_where_the_reference_refuses_it(type_: Any) -> None:
    call = AggregateCall(AggregateFunction.SUM, Column(0, "x", type_))
    plan = Aggregate(Given("g", Schema((Field("x", type_),))), ("v",), (), (call,))
    found = steps(plan)
    assert found is not None
    most = 2**63 - 1 if type_ == BIGINT else 10**38 - 1
    for value in (most, -most - 1, -most, 1):
        cell: Value = value if type_ == BIGINT else decimal_of(value, type_.scale)
        for weight in (1, 2, -1, 3):
            run = Run({"g": {(cell,): weight}}, Lookups({}), MOST)
            expected = outcome(aggregate_value, call, {(cell,): weight})
            rows = outcome(found.evaluate, run)
            assert rows == (expected if isinstance(expected, str) else {(expected,): 1})


def decimal_of(value: int, scale: int) -> Any:
    return Decimal(value).scaleb(-scale, context=Context(prec=60))
