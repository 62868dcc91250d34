"""Derivations of rows of predicates are proofs, without a circle, and there is one for exactly the rows that are there.

The checker knows only the oracle: each rule, evaluated by nested loops over the rows of its children (and, for what it
negates, over everything), gives its row; each group has exactly its rows below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidemark as tm
from tests.datalog import naive
from tests.datalog.programs import PROGRAMS, RELATIONS, contents
from tests.datalog.random_programs import programs
from tests.effort import examples
from tests.proofs import resolved
from tidemark.algebra.plans import Fixpoint, Plan, Scan, walk
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import INT, Field, Schema
from tidemark.datalog.fixpoint import RecursionLimits
from tidemark.datalog.program import Program, bind_program
from tidemark.datalog.proofs import Facts
from tidemark.datalog.relations import Memory
from tidemark.engines.reference.evaluate import evaluate
from tidemark.provenance import Absence, Derivation, Kind
from tidemark.provenance.clauses import Clauses
from tidemark.provenance.fixpoints import Parts, fixpoint_absence, fixpoint_derivation
from tidemark.provenance.questions import Pattern, Questions
from tidemark.provenance.why import Explaining


class Stored:
    """Explains rows of relations, which are there or not."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = content

    def why_base(self, relation: str, row: Row) -> Derivation:
        assert row in self.content[relation]
        return Derivation(Kind.TABLE, relation, RELATIONS[relation].names, row)

    def why_not_base(self, relation: str, pattern: Pattern) -> Absence:
        assert not [row for row in self.content[relation] if all(row[i] == value for i, value in pattern)]
        return Absence(relation, (), f"nothing in {relation}")


def check(step: Derivation, program: Program, everything: Mapping[str, Any], above: tuple[Any, ...] = ()) -> None:
    goal = (step.relation, step.row)
    assert step.row in everything[step.relation]
    below = [child for child in step.children if isinstance(child, Derivation)]
    match step.kind:
        case Kind.TABLE:
            assert step.relation in program.base
            return
        case Kind.PREDICATE:
            assert goal not in above, "a row rests on itself"
            assert [child.kind for child in below] == [Kind.RULE]
            above = (*above, goal)
        case Kind.RULE:
            assert step.rule in program.rules
            rows: dict[str, set[Any]] = {atom.predicate: set() for atom in step.rule.atoms}
            for child in below:
                rows[child.relation].add(child.row)
            negated = {negation.atom.predicate for negation in step.rule.negations}
            only = {**rows, **{name: everything[name] for name in negated - rows.keys()}}
            if not negated & rows.keys():
                assert step.row in naive.derive(step.rule, only)
            assert len(below) == len(step.rule.atoms)
            assert [child.relation for child in below] == [atom.predicate for atom in step.rule.atoms]
        case Kind.GROUP:
            (grouping,) = program.groupings_of([step.relation])
            assert step.total == len(
                [r for r in everything[grouping.source] if r[: grouping.keys] == step.row[: grouping.keys]]
            )
            if len(below) == step.total:
                assert naive.grouped(grouping, {grouping.source: {child.row for child in below}}) == {step.row}
        case _:
            raise AssertionError(step.kind)
    for child in below:
        check(child, program, everything, above)


def check_program(program: Program, base: Mapping[str, Any], choice: Any) -> None:
    content = naive.evaluate(program, base)
    for predicate in program.predicates:
        if "^" in predicate:
            continue
        width = len(program.schemas[predicate])
        absent = tuple(choice(st.one_of(st.none(), st.integers(0, 4))) for _ in range(width))
        for row in [*sorted(content[predicate], key=repr)[:4], absent]:
            clauses = Clauses(Facts(program, Memory(base)), Stored(base), rows=50)
            answer = clauses.explain(predicate, dict(enumerate(row)))
            assert answer.is_there == (row in content[predicate]), str(answer)
            assert str(answer)
            if isinstance(answer, Derivation):
                check(answer, program, content)
        some = {0: choice(st.integers(0, 4))}
        answer = Clauses(Facts(program, Memory(base)), Stored(base), rows=1).explain(predicate, some)
        assert answer.is_there == any(row[0] == some[0] for row in content[predicate])


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=examples(4), deadline=None)
@given(base=contents, data=st.data())
def test_programs(name: str, base: dict[str, Any], data: st.DataObject) -> None:
    check_program(PROGRAMS[name], base, data.draw)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(program=programs, base=contents, data=st.data())
def test_random_programs(program: Program, base: dict[str, Any], data: st.DataObject) -> None:
    check_program(program, base, data.draw)


CLOSURE = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y)."


def test_a_long_chain_is_explained_to_its_end_and_shown_in_part() -> None:
    program = bind_program(CLOSURE, {"edge": RELATIONS["edge"]})
    chain = {(i, i + 1) for i in range(2000)}
    answer = Clauses(Facts(program, Memory({"edge": chain})), Stored({"edge": chain})).explain(
        "closure", {0: 0, 1: 2000}
    )
    assert isinstance(answer, Derivation)
    assert len(answer.base_rows) == 2000
    assert "deeper than is shown" in str(answer)


class Counting:
    """A look-up that counts the rows that it gives."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.memory, self.given = Memory(content), 0

    def matching(self, relation: str, positions: Any, keys: Any) -> Any:
        found = list(self.memory.matching(relation, positions, keys))
        self.given += len(found)
        return found


def test_only_what_the_row_can_come_from_is_read() -> None:
    program = bind_program(CLOSURE, {"edge": RELATIONS["edge"]})
    edges = {(i, i + 1) for i in range(5)} | {(i, i + 1) for i in range(100, 10_000)}
    lookup = Counting({"edge": edges})
    assert Clauses(Facts(program, lookup), Stored({"edge": edges})).explain("closure", {0: 0, 1: 5}).is_there
    assert lookup.given < 20


def test_a_runaway_recursion_is_stopped() -> None:
    program = bind_program("p(x) :- node(x). p(x + 1) :- p(x).", RELATIONS)
    clauses = Clauses(Facts(program, Memory({"node": {(0,)}}), RecursionLimits(rounds=50)), Stored({"node": {(0,)}}))
    with pytest.raises(tm.TidemarkError, match="more than 50 rounds"):
        clauses.explain("p", {0: -1})


@pytest.mark.parametrize("small", [0, 1000])
def test_a_fixpoint_over_plans_reads_them_by_key_or_as_a_whole(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemark.provenance.fixpoints.SMALL_ROWS", small)
    edge = Schema((Field("a", INT), Field("b", INT)))
    program = bind_program(CLOSURE, {"edge": edge})
    plan = Fixpoint((Scan("e", edge),), ("edge",), program.rules, (("closure", program.schemas["closure"]),), "closure")
    content: dict[Row, int] = {(1, 2): 1, (2, 3): 2, (3, 1): 1, (7, 8): 1, (None, 1): 1}

    def ask(asked: Plan) -> Mapping[Row, int]:
        return evaluate(resolved(asked), {"e": content}, {})

    questions: Questions = Explaining(ask, {})
    answer = fixpoint_derivation(questions, plan, (1, 1))
    assert answer.base_rows == (("e", (1, 2)), ("e", (2, 3)), ("e", (3, 1)))
    assert str(answer).splitlines()[1] == "└─ closure(x, y) :- edge(x, z), closure(z, y).   x = 1, z = 2, y = 1"
    missing = fixpoint_absence(questions, plan, ((0, 7), (1, 1)))
    assert "no row of e with a = 7 has b = 1; the nearest is (a = 7, b = 8)" in str(missing)
    assert sorted(Parts(questions, {"edge": plan.parts[0]}).matching("edge", (0,), [(1,), (7,)])) == [(1, 2), (7, 8)]


def test_a_question_about_some_rows_of_a_fixpoint_does_not_evaluate_it() -> None:
    edge = Schema((Field("a", INT), Field("b", INT)))
    program = bind_program(CLOSURE, {"edge": edge})
    plan = Fixpoint((Scan("e", edge),), ("edge",), program.rules, (("closure", program.schemas["closure"]),), "closure")
    content: dict[Row, int] = {(1, 2): 1, (2, 3): 1}

    def ask(asked: Plan) -> Mapping[Row, int]:
        assert not [part for part in walk(asked) if isinstance(part, Fixpoint)]
        return evaluate(resolved(asked), {"e": content}, {})

    explaining = Explaining(ask, {})
    answer = explaining.explain("v", plan, plan, ((0, 1), (1, 3)))
    assert str(answer).splitlines()[0] == "(x = 1, y = 3) is in v"
    assert str(explaining.explain("v", plan, plan, ((0, 3),))).splitlines()[0] == "(x = 3) is not in v"
