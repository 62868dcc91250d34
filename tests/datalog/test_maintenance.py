"""Algorithm 1: the rules of Example 1, the changes of Example 2, and exact changes of every program at random."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from tests.datalog import naive
from tests.datalog.programs import CLOSURE, PROGRAMS, RELATIONS, changes
from tests.effort import examples
from tidemark.algebra.clauses import Atom, listing
from tidemark.algebra.types import VARCHAR, Field, Schema
from tidemark.datalog.maintain import FactChange, maintain
from tidemark.datalog.maintenance import maintenance_rules
from tidemark.datalog.program import Program, bind_program
from tidemark.datalog.relations import Memory

EDGE = Schema((Field("a", VARCHAR, nullable=False), Field("b", VARCHAR, nullable=False)))
GRAPH = bind_program(CLOSURE, {"edge": EDGE})


def pairs(text: str) -> frozenset[tuple[Any, ...]]:
    """``"fe ed"`` as pairs of letters."""
    return frozenset(tuple(word) for word in text.split())


OTHERS = frozenset((f"{n}", f"{m}") for n in range(10) for m in range(n)) | {("3", "g")}
"""The subgraph that Figure 2 calls G', whose edges lead into g and to which none leads."""
EDGES = pairs("fe ed ea ab dc bc cg")


def changes_of(program: Program, old: dict[str, Any], changed: dict[str, FactChange]) -> dict[str, FactChange]:
    content = naive.evaluate(program, old)
    return dict(maintain(program, Memory(content), changed))


def after(old: dict[str, Any], changed: dict[str, FactChange]) -> dict[str, Any]:
    return {name: (set(rows) - changed[name].minus) | changed[name].plus for name, rows in old.items()}


def assert_exact(program: Program, old: dict[str, Any], new: dict[str, Any], found: dict[str, FactChange]) -> None:
    before, behind = naive.evaluate(program, old), naive.evaluate(program, new)
    for name in program.predicates:
        assert found[name].plus == behind[name] - before[name], name
        assert found[name].minus == before[name] - behind[name], name


def test_the_rules_of_example_1() -> None:
    (stratum,) = maintenance_rules(GRAPH)
    assert str(stratum) == (
        "(1.D1) closure^del(x, y) :- edge^del(x, y).\n"
        "(2.D1) closure^del(x, y) :- edge^del(x, z), closure(z, y).\n"
        "(2.D2) closure^del(x, y) :- closure^del(z, y), edge(x, z).\n"
        "(N1) edge^new(a, b) :- edge(a, b), not edge^del(a, b).\n"
        "(N1) closure^new(x, y) :- closure(x, y), not closure^del(x, y).\n"
        "(1.R) closure^red(x, y) :- closure^del(x, y), edge^new(x, y).\n"
        "(2.R) closure^red(x, y) :- closure^del(x, y), edge^new(x, z), closure^new(z, y).\n"
        "(1.I1) closure^ins(x, y) :- edge^ins(x, y).\n"
        "(2.I1) closure^ins(x, y) :- edge^ins(x, z), closure^new(z, y).\n"
        "(2.I2) closure^ins(x, y) :- closure^ins(z, y), edge^new(x, z).\n"
        "(N3) edge^new(a, b) :- edge^ins(a, b).\n"
        "(N2) closure^new(x, y) :- closure^red(x, y).\n"
        "(N3) closure^new(x, y) :- closure^ins(x, y).\n"
        "(E1) closure^plus(x, y) :- closure^ins(x, y), not closure(x, y).\n"
        "(E2) closure^minus(x, y) :- closure^del(x, y), not closure^ins(x, y), not closure^red(x, y)."
    )


def test_example_2() -> None:
    change = {"edge": FactChange(plus=pairs("hd"), minus=pairs("bc"))}
    found = changes_of(GRAPH, {"edge": EDGES | OTHERS}, change)["closure"]
    assert found.minus == pairs("ac ag bc bg")
    assert found.plus == pairs("hd hc hg")


def test_without_its_body_a_rederivation_brings_back_what_was_deleted() -> None:
    """Figure 3 prints R of the first rule as ``closure^red(x, y) :- closure^del(x, y)``: then nothing would ever go."""
    (stratum,) = maintenance_rules(GRAPH)
    printed = tuple(
        replace(rule, body=rule.body[:1]) if rule.label == "1.R" else rule for rule in stratum.rederivations
    )
    content = naive.evaluate(GRAPH, {"edge": set(EDGES)})
    change = {"edge": FactChange(minus=pairs("bc"))}
    wrong = maintain(GRAPH, Memory(content), change, rules=(replace(stratum, rederivations=printed),))
    assert wrong["closure"].minus == frozenset()
    assert maintain(GRAPH, Memory(content), change)["closure"].minus == pairs("ac ag bc bg")


def test_negation_turns_insertions_into_deletions() -> None:
    program = bind_program("p(x) :- node(x), not edge(x, x), not link(x, _).", RELATIONS)
    (stratum,) = maintenance_rules(program)
    assert listing(stratum.deletions + stratum.insertions) == (
        "(1.D1) p^del(x) :- node^del(x), not edge(x, x), not link(x, _).\n"
        "(1.D2) p^del(x) :- edge^ins(x, x), node(x), not link(x, _).\n"
        "(1.D3) p^del(x) :- link^ins(x, _), node(x), not edge(x, x), not link(x, _).\n"
        "(1.I1) p^ins(x) :- node^ins(x), not edge^new(x, x), not link^new(x, _).\n"
        "(1.I2) p^ins(x) :- edge^del(x, x), node^new(x), not link^new(x, _).\n"
        "(1.I3) p^ins(x) :- link^del(x, _), node^new(x), not edge^new(x, x), not link^new(x, _)."
    )


def test_null_that_comes_under_a_negation_deletes_nothing() -> None:
    """NULL finds nothing, so its coming is no change: without the conditions rows would be deleted and rederived."""
    program = bind_program("odd(x, y) :- edge(x, y), not edge(y, x).", RELATIONS)
    (stratum,) = maintenance_rules(program)
    assert [str(rule) for rule in stratum.deletions] == [
        "odd^del(x, y) :- edge^del(x, y), not edge(y, x).",
        "odd^del(x, y) :- edge^ins(y, x), y IS NOT NULL, x IS NOT NULL, edge(x, y).",
    ]


def test_the_change_stands_first_in_every_rule() -> None:
    for program in PROGRAMS.values():
        for stratum in maintenance_rules(program):
            for rule in (*stratum.deletions, *stratum.insertions, *stratum.rederivations):
                assert isinstance(rule.body[0], Atom)
                assert rule.body[0].predicate.rsplit("^", 1)[1] in ("del", "ins")


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=examples(40), deadline=None)
@given(change=changes())
def test_changes_are_exact(name: str, change: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]) -> None:
    program = PROGRAMS[name]
    old, plus, minus = change
    changed = {r: FactChange(frozenset(plus[r]), frozenset(minus[r])) for r in old}
    found = changes_of(program, old, changed)
    assert_exact(program, old, after(old, changed), found)


def test_a_cycle_that_supports_itself_goes_when_it_is_cut_off() -> None:
    old = {"edge": set(pairs("ab bc cb"))}
    found = changes_of(GRAPH, old, {"edge": FactChange(minus=pairs("ab"))})["closure"]
    assert found.minus == pairs("ab ac") and not found.plus
    reach = bind_program("r(y) :- edge('a', y). r(y) :- r(x), edge(x, y).", {"edge": EDGE})
    assert changes_of(reach, old, {"edge": FactChange(minus=pairs("ab"))})["r"].minus == {("b",), ("c",)}


def test_an_insertion_of_what_is_there_changes_nothing() -> None:
    content = naive.evaluate(GRAPH, {"edge": set(pairs("ab"))})
    assert maintain(GRAPH, Memory(content), {"edge": FactChange(plus=pairs("ab"))})["closure"] == FactChange()


def test_nothing_is_asked_where_nothing_changed() -> None:
    class Silent:
        def matching(self, relation: str, positions: Any, keys: Any) -> Any:
            raise AssertionError(f"{relation} was asked")

    program = PROGRAMS["negation above recursion"]
    assert not any(maintain(program, Silent(), {"price": FactChange(plus=frozenset({(None, 1)}))}).values())


def test_a_change_asks_only_for_what_is_near() -> None:
    """Theorem 1 with look-ups: the part of a large graph that the change does not reach is not read."""
    seen: set[tuple[Any, ...]] = set()

    class Watched(Memory):
        def matching(self, relation: str, positions: Any, keys: Any) -> Any:
            assert positions, "a whole relation was asked for"
            rows = list(super().matching(relation, positions, keys))
            seen.update(rows)
            return rows

    chain = {(str(i), str(i + 1)) for i in range(100, 160)}
    content = naive.evaluate(GRAPH, {"edge": set(EDGES) | {(a, b) for a, b in chain if int(a) < 110}})
    maintain(GRAPH, Watched(content), {"edge": FactChange(plus=pairs("hd"), minus=pairs("bc"))})
    assert not any(cell.isdigit() for row in seen for cell in row)
