"""Rules as plans: how they print, and that the reference engine gives what the oracle gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.datalog import naive
from tests.datalog.programs import PROGRAMS, RELATIONS, contents
from tests.effort import examples
from tidemark.algebra.plans import Plan, Scan, Stored
from tidemark.algebra.printing import show_plan
from tidemark.datalog.plans import expanded, plans_of
from tidemark.datalog.program import bind_program
from tidemark.engines.reference.evaluate import evaluate


def resolved(plan: Plan) -> Plan:
    if isinstance(plan, Scan):
        return Stored(plan.relation, plan.schema)
    return plan.with_inputs(tuple(resolved(part) for part in plan.inputs()))


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=examples(20), deadline=None)
@given(base=contents)
def test_the_plans_of_a_program_hold_at_its_fixpoint(name: str, base: dict[str, naive.Rows]) -> None:
    """Each predicate's plan, over the content of all predicates, gives the predicate's content again."""
    program = PROGRAMS[name]
    content = naive.evaluate(program, base)
    stored = {relation: dict.fromkeys(rows, 1) for relation, rows in content.items()}
    for predicate, plan in plans_of(program).items():
        assert plan.schema.types == program.schemas[predicate].types
        assert evaluate(resolved(plan), stored, {}) == stored[predicate], predicate


@settings(max_examples=examples(30), deadline=None)
@given(base=contents)
def test_a_program_without_recursion_is_one_plan(base: dict[str, naive.Rows]) -> None:
    program = PROGRAMS["an aggregate and a plain clause"]
    plans = plans_of(program)
    # A base relation is a bag: that rows repeat does not matter to a set.
    stored = {relation: dict.fromkeys(rows, 2) for relation, rows in base.items()}
    content = naive.evaluate(program, base)
    for predicate in ("p", "q"):
        whole = expanded(plans[predicate], plans)
        assert set(evaluate(resolved(whole), stored, {})) == content[predicate]


def test_a_rule_prints_as_a_join_with_an_anti_join() -> None:
    program = bind_program("p(x, y) :- link(x, z), link(z, y), not node(y), x < 3.", RELATIONS)
    assert show_plan(plans_of(program)["p"]) == SHOWN


SHOWN = """\
Distinct
└─ Project a AS x, b AS y
   └─ Union
      ├─ Join (b = CAST(a AS BIGINT))
      │  ├─ Filter (a < 3)
      │  │  └─ link
      │  └─ link
      └─ Negate
         └─ Project a, b, a, b
            └─ Join (b = m0)
               ├─ Join (b = CAST(a AS BIGINT))
               │  ├─ Filter (a < 3)
               │  │  └─ link
               │  └─ link
               └─ Distinct
                  └─ Project CAST(n AS BIGINT) AS m0
                     └─ node"""
