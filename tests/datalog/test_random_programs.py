"""Random programs over random relations and changes: plans, evaluation, maintenance and rederivation say the same."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings

from tests.datalog import naive
from tests.datalog.programs import changes
from tests.datalog.random_programs import programs
from tests.datalog.test_maintenance import after, assert_exact
from tests.datalog.test_plans import resolved
from tests.effort import examples
from tidemark.datalog.maintain import FactChange, maintain
from tidemark.datalog.plans import plans_of
from tidemark.datalog.program import Program
from tidemark.datalog.rederive import rederive
from tidemark.datalog.relations import Memory
from tidemark.engines.reference.evaluate import evaluate as evaluate_plan
from tidemark.strategy.recursion.complete import evaluate_program as evaluate


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(program=programs, change=changes())
def test_all_ways_agree_with_nested_loops(program: Program, change: tuple[dict[str, Any], ...]) -> None:
    old, plus, minus = change
    changed = {name: FactChange(frozenset(plus[name]), frozenset(minus[name])) for name in old}
    content = naive.evaluate(program, old)
    assert {name: set(rows) for name, rows in evaluate(program, Memory(old)).items()} == {
        name: content[name] for name in program.predicates
    }
    stored = {name: dict.fromkeys(rows, 1) for name, rows in content.items()}
    for predicate, plan in plans_of(program).items():
        assert evaluate_plan(resolved(plan), stored, {}) == stored[predicate]
    new = after(old, changed)
    assert_exact(program, old, new, dict(maintain(program, Memory(content), changed)))
    assert_exact(program, old, new, dict(rederive(program, Memory(old), changed).changes))
