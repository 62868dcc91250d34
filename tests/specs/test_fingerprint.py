"""Fingerprints name what is stored, so they stay what they are: whatever classes are called."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from tidemark.algebra import aggregates, expressions, fingerprint, plans, types, windows
from tidemark.algebra import clauses as rules
from tidemark.algebra import windows as frames
from tidemark.algebra.aggregates import AggregateCall, AggregateFunction, SortKey
from tidemark.algebra.cache import tree_size
from tidemark.algebra.clauses import Anything, Assign, Atom, Condition, Const, DatalogRule, Not, Var
from tidemark.algebra.expressions import Call, Case, Cast, Column, Expression, FieldOf, Literal
from tidemark.algebra.fingerprint import FORMS
from tidemark.algebra.plans import Plan
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    INT,
    REAL,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Field,
    Schema,
    array_of,
    decimal,
    struct_of,
)
from tidemark.algebra.windows import CURRENT, Bound, Frame, Span, Unit, WindowCall, WindowFunction

MODULES = (plans, expressions, aggregates, windows, frames, types, rules)
BASES = {"_Unary", "_Binary", "_SetOperation"}
"""Classes of which there is no object."""
MODULE_LEVEL_ONLY = {"Grouping", "GroupCall"}
"""Parts of programs, not of plans."""

SALE = Schema(
    (Field("id", INT, nullable=False), Field("amount", decimal(12, 2)), Field("name", VARCHAR), Field("day", TIMESTAMP))
)
ARRAYS = Schema((Field("id", INT), Field("parts", array_of(INT))))
EDGE = Schema((Field("a", INT), Field("b", INT)))


def plans_by_name() -> dict[str, Plan]:
    """Plans in which every kind of part stands at least once, made anew, since a plan remembers its fingerprint."""
    sale, edge = plans.Scan("sale", SALE), plans.Scan("edge", EDGE, plans.State.OLD)
    positive = Call(">", (sale.column(1), Literal(Decimal("1.50"), decimal(12, 2))), BOOLEAN)
    case = Case(((positive, sale.column(0)),), Literal(None, INT), INT)
    struct = struct_of(("a", INT), ("b", VARCHAR))
    row = Call("row", (sale.column(0), sale.column(2)), struct, nullable=False)
    range_frame = Frame(Unit.RANGE, Bound(Span(1, 2, 3), preceding=True), CURRENT, TIMESTAMP)
    x, y, z = Var(0, "x"), Var(1, "y"), Var(2, "z")
    variables = Schema((Field("x", INT), Field("y", INT), Field("z", INT)))
    step = DatalogRule(
        Atom("path", (x, z)),
        (
            Atom("path", (x, y)),
            Assign(z, Call("+", (Column(1, "y", INT), Literal(1, INT)), INT)),
            Condition(Call("<", (Column(0, "x", INT), Column(2, "z", INT)), BOOLEAN)),
            Not(Atom("edge", (Anything(), Const(Literal(7, INT))))),
        ),
        variables,
        "clause 2",
    )
    base = DatalogRule(Atom("path", (x, y)), (Atom("edge", (x, y)),), variables)
    return {
        "scan": sale,
        "stored": plans.Stored("sale", SALE),
        "given": plans.Given("delta", SALE),
        "values": plans.Values(((1, dt.date(2024, 1, 31)), (None, None)), Schema((Field("a", INT), Field("d", DATE)))),
        "filter": plans.Filter(sale, positive),
        "project a case": plans.Project(plans.Filter(sale, positive), ("c",), (case,)),
        "project a scan": plans.Project(sale, ("n",), (Cast(sale.column(0), BIGINT),)),
        "project a field": plans.Project(sale, ("f",), (FieldOf(row, 1),)),
        "join": plans.Join(sale, edge, Call("=", (sale.column(0), Column(4, "a", INT)), BOOLEAN)),
        "touched": plans.Touched(edge, plans.Given("keys", EDGE), (0,)),
        "union and negate": plans.Union((edge, plans.Negate(edge))),
        "difference": plans.Difference(edge, plans.Distinct(edge)),
        "intersection": plans.Intersection(edge, plans.Net(edge, in_place=True)),
        "repeat": plans.Repeat(edge, Literal(2, BIGINT)),
        "unnest": plans.Unnest(plans.Scan("lists", ARRAYS), Column(1, "parts", array_of(INT)), ("p", "n"), places=True),
        "aggregate": plans.Aggregate(
            sale,
            ("name", "n", "total", "names", "median"),
            (sale.column(2),),
            (
                AggregateCall(AggregateFunction.COUNT_ROWS),
                AggregateCall(AggregateFunction.SUM, sale.column(1), distinct=True),
                AggregateCall(
                    AggregateFunction.STRING_AGG, sale.column(2), order=(SortKey(sale.column(0)),), separator=","
                ),
                AggregateCall(AggregateFunction.PERCENTILE_DISC, sale.column(1), fraction=0.5, descending=True),
            ),
            signed=True,
        ),
        "window": plans.Window(
            sale,
            ("w",),
            (sale.column(2),),
            (SortKey(sale.column(3), descending=True, nulls_first=True),),
            (WindowCall(WindowFunction.FIRST_VALUE, (sale.column(1),), range_frame, ignores_nulls=True),),
        ),
        "sort": plans.Sort(sale, (SortKey(sale.column(0)),), 10, 2, 3),
        "fixpoint": plans.Fixpoint((edge,), ("edge",), (base, step), (("path", EDGE),), "path"),
    }


PINNED = {
    "scan": "2ee4f7bc8b5a",
    "stored": "69896b0d36c0",
    "given": "4f3e53a587d5",
    "values": "4c48a5138896",
    "filter": "36abeb93fcd7",
    "project a case": "8318c1097cde",
    "project a scan": "ab26fda4438f",
    "project a field": "edfe9256a6fe",
    "join": "47a6bff7f5b1",
    "touched": "cfa9ec350de0",
    "union and negate": "afdcdd74483a",
    "difference": "df98d8f03329",
    "intersection": "5da02d1e3c04",
    "repeat": "82d30a8f6fb4",
    "unnest": "2f2abd2e0891",
    "aggregate": "20bb7ef48733",
    "window": "902047831271",
    "sort": "d9b3cd747f0a",
    "fixpoint": "9151d918e395",
}


@pytest.mark.parametrize("name", PINNED)
def test_the_name_of_a_plan_is_the_one_that_older_databases_know(name: str) -> None:
    assert fingerprint.fingerprint(plans_by_name()[name]) == PINNED[name]


def test_every_plan_that_is_built_here_is_pinned() -> None:
    assert plans_by_name().keys() == PINNED.keys()
    assert len(set(PINNED.values())) == len(PINNED)


def test_a_plan_of_many_parts_has_the_name_that_older_databases_know() -> None:
    plan: Plan = plans.Scan("edge", EDGE)
    for _ in range(16):
        plan = plans.Union((plan, plan))
    assert tree_size(plan) > fingerprint.MOST_PARTS
    assert fingerprint.fingerprint(plan) == "f88d1f5bef4b"


def node_classes() -> set[type]:
    """The classes of all that a plan can be made of."""
    found = {
        one
        for module in MODULES
        for one in vars(module).values()
        if isinstance(one, type) and dataclasses.is_dataclass(one) and one.__module__ == module.__name__
    }
    return {one for one in found if one.__name__ not in BASES | MODULE_LEVEL_ONLY}


def test_every_class_of_plans_and_expressions_has_a_form() -> None:
    classes = node_classes()
    assert {one for one in classes if issubclass(one, Plan)} > {plans.Scan, plans.Fixpoint}
    assert {one for one in classes if issubclass(one, Expression)} > {Column, FieldOf}
    assert classes | {fingerprint._Plain} == FORMS.keys()


@pytest.mark.parametrize("one", FORMS, ids=lambda one: FORMS[one].tag)
def test_a_form_names_each_field_that_takes_part_in_comparison(one: type) -> None:
    assert dataclasses.is_dataclass(one)
    assert sorted(FORMS[one].fields) == sorted(field.name for field in dataclasses.fields(one) if field.compare)


def test_no_two_classes_share_a_tag() -> None:
    assert len({form.tag for form in FORMS.values()}) == len(FORMS)


def test_other_names_of_classes_and_another_order_of_fields_change_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    built = plans_by_name()
    names = {one: one.__name__ for one in FORMS}
    try:
        for one, name in names.items():
            fields = one.__dataclass_fields__  # type: ignore[attr-defined]
            monkeypatch.setattr(one, "__dataclass_fields__", dict(reversed(fields.items())))
            one.__name__ = f"Another{name}"
        assert {name: fingerprint.fingerprint(plan) for name, plan in built.items()} == PINNED
    finally:
        for one, name in names.items():
            one.__name__ = name


def test_what_has_no_form_is_refused() -> None:
    @dataclasses.dataclass(frozen=True)
    class Unknown(Plan):
        input: Plan

    with pytest.raises(TypeError, match="Unknown has no form"):
        fingerprint.fingerprint(Unknown(plans.Scan("edge", EDGE)))


MEMBERS = {
    plans.State: "NEW OLD DELTA INSERTED DELETED",
    AggregateFunction: (
        "COUNT_ROWS COUNT SUM MIN MAX VAR_SAMP VAR_POP STDDEV_SAMP STDDEV_POP STRING_AGG ARRAY_AGG "
        "PERCENTILE_DISC PERCENTILE_LOW PERCENTILE_HIGH MODE SINGLE"
    ),
    WindowFunction: (
        "ROW_NUMBER RANK DENSE_RANK PERCENT_RANK CUME_DIST NTILE LAG LEAD FIRST_VALUE LAST_VALUE NTH_VALUE"
    ),
    Unit: "ROWS RANGE GROUPS",
    types.Kind: "NULL BOOLEAN SMALLINT INT BIGINT DECIMAL DOUBLE VARCHAR DATE TIMESTAMP ARRAY STRUCT",
}
"""The members of enumerations are written by their names, which therefore stay; there may be more."""


@pytest.mark.parametrize("one", MEMBERS, ids=lambda one: one.__name__)
def test_members_that_stand_in_stored_names_keep_theirs(one: type[enum.Enum]) -> None:
    assert set(MEMBERS[one].split()) <= set(one.__members__)


def test_a_moment_has_one_name_whatever_says_that_it_is_in_utc() -> None:
    """Arrow's times have another object for the zone than those that are read from texts."""
    moment = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    same = moment.astimezone(ZoneInfo("UTC"))
    names = {
        fingerprint.fingerprint(plans.Values(((value,),), Schema((Field("z", TIMESTAMPTZ),))))
        for value in (moment, same, moment.astimezone(ZoneInfo("Asia/Tokyo")))
    }
    assert len(names) == 1
    others = (
        fingerprint.fingerprint(plans.Values(((value,),), Schema((Field("z", type),))))
        for value, type in ((moment.replace(tzinfo=None), TIMESTAMP), (b"a", BYTEA), (b"b", BYTEA), (0.5, REAL))
    )
    assert len({*names, *others}) == 5
