"""The network as a whole: random views over random histories, one step at a time against one big step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.bags import changes, plus
from tests.effort import examples
from tests.laws.strategies import TABLES, plans, transitions
from tests.support import changes_at, check_invariant, materialized
from tidemark.algebra.plans import Plan, Project
from tidemark.session.commit import commit
from tidemark.sql.catalog.catalog import View
from tidemark.state.draft import Work

CREATE_TABLES = "CREATE TABLE r (a INT, b INT); CREATE TABLE s (a INT, c INT NOT NULL); CREATE TABLE t (d INT)"


def define(db: tm.Database, name: str, plan: Plan) -> None:
    """Create a materialized view from a plan, as CREATE MATERIALIZED VIEW does from text."""
    named = Project(plan, tuple(f"v{i}" for i in range(len(plan.schema))), plan.columns())
    view = View(name, named, f"-- {name}")
    commit(db._store, Work(db._store.catalog.with_relation(view), {}, 1))


def move(db: tm.Database, before: dict[str, Any], after: dict[str, Any]) -> None:
    """One transaction from one state of the tables to another."""
    with db.transaction() as tx:
        tx.insert("t", [])  # so that a move without changes takes a version too
        for name in TABLES:
            for row, weight in changes(before[name], after[name]).items():
                (tx.insert if weight > 0 else tx.delete)(name, [row] * abs(weight))


EMPTY: dict[str, Any] = {name: {} for name in TABLES}


@pytest.mark.parametrize("engine", ["reference", "duckdb"])
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(views=st.lists(plans(), min_size=1, max_size=3), states=transitions())
def test_views_follow_a_history_and_restore(engine: str, views: list[Plan], states: tuple[Any, Any]) -> None:
    """Forward in two steps, back in one: every step keeps the invariant, and all changes cancel."""
    first, second = states
    with tm.connect(engine) as db:
        db.execute(CREATE_TABLES)
        for number, plan in enumerate(views):
            define(db, f"v{number}", plan)
        initial = {view: changes_at(db, view, db._store.created[view]) for view in materialized(db)}
        move(db, EMPTY, first)
        steps = {view: [changes_at(db, view)] for view in materialized(db)}
        check_invariant(db)
        move(db, first, second)
        check_invariant(db)
        for view in steps:
            steps[view].append(changes_at(db, view))
        move(db, second, EMPTY)
        for view in steps:
            assert plus(*steps[view], changes_at(db, view)) == {}
            assert plus(initial[view], *steps[view], changes_at(db, view)) == initial[view]


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(plan=plans(), states=transitions())
def test_one_step_at_a_time_equals_one_big_step(plan: Plan, states: tuple[Any, Any]) -> None:
    first, second = states
    with tm.connect("reference") as small, tm.connect("reference") as big:
        for db in (small, big):
            db.execute(CREATE_TABLES)
            define(db, "v", plan)
        start = small.version
        move(small, EMPTY, first)
        state = dict(first)
        for name in TABLES:
            step = {**state, name: second[name]}
            move(small, state, step)
            state = step
        move(big, EMPTY, second)
        total: dict[Any, int] = {}
        for version in range(start + 1, small.version + 1):
            total = plus(total, changes_at(small, "v", version))
        assert total == changes_at(big, "v")


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(plan=plans(), states=transitions(), early=st.booleans())
def test_a_view_made_before_or_after_the_data_is_the_same(plan: Plan, states: tuple[Any, Any], early: bool) -> None:
    with tm.connect("reference") as db:
        db.execute(CREATE_TABLES)
        if early:
            define(db, "v", plan)
        move(db, EMPTY, states[0])
        if not early:
            define(db, "v", plan)
        move(db, states[0], states[1])
        check_invariant(db)
