"""Rederivation on Demand: the rules of Figure 3 as corrected, Examples 3 and 4, and exact changes at random."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tests.datalog import naive
from tests.datalog.programs import PROGRAMS, changes
from tests.datalog.test_maintenance import EDGE, EDGES, GRAPH, OTHERS, after, assert_exact, pairs
from tests.effort import examples
from tidemark.algebra.clauses import listing
from tidemark.algebra.types import VARCHAR, Field, Schema
from tidemark.datalog.fixpoint import Evaluation
from tidemark.datalog.maintain import FactChange, maintain
from tidemark.datalog.program import bind_program
from tidemark.datalog.rederive import demand_program, rederive
from tidemark.datalog.relations import IndexedRows, Memory
from tidemark.strategy.recursion.complete import evaluate_program as evaluate

PAIR = Schema((Field("a", VARCHAR, nullable=False), Field("b", VARCHAR, nullable=False)))


class Watched(Memory):
    """A look-up that keeps what it gave out."""

    def __init__(self, relations: Any) -> None:
        super().__init__(relations)
        self.seen: set[tuple[Any, ...]] = set()

    def matching(self, relation: str, positions: Any, keys: Any) -> Any:
        rows = list(super().matching(relation, positions, keys))
        self.seen.update(rows)
        return rows


def test_example_3_the_rules_of_figure_3_as_corrected() -> None:
    rules = demand_program(GRAPH)
    (stratum,) = rules.strata
    assert listing(stratum.deletions.rules) == (
        "(1.D1) closure^del(x, y) :- edge^del(x, y).\n"
        "(M 2.D1) m_closure^bf(z) :- edge^del(x, z).\n"
        "(2.D1) closure^del(x, y) :- edge^del(x, z), closure(z, y).\n"
        "(2.D2) closure^del(x, y) :- closure^del(z, y), edge(x, z)."
    )
    assert listing([*stratum.additions.rules, *stratum.idle]) == (
        "(1.R) closure^red(x, y) :- closure^del(x, y), edge^new(x, y).\n"
        "(S 2.R) sup^2.R.1(x, z, y) :- closure^del(x, y), edge^new(x, z).\n"
        "(M 2.R) m_closure^bb(z, y) :- sup^2.R.1(x, z, y).\n"
        "(2.R) closure^red(x, y) :- sup^2.R.1(x, z, y), closure^new(z, y).\n"
        "(1.I1) closure^ins(x, y) :- edge^ins(x, y).\n"
        "(M 2.I1) m_closure^bf(z) :- edge^ins(x, z).\n"
        "(2.I1) closure^ins(x, y) :- edge^ins(x, z), closure^new(z, y).\n"
        "(2.I2) closure^ins(x, y) :- closure^ins(z, y), edge^new(x, z).\n"
        "(M E1) m_closure^bb(x, y) :- closure^ins(x, y)."
    )
    assert listing(rules.queries.rules) == (
        "(1.bf) closure(x, y) :- m_closure^bf(x), edge(x, y).\n"
        "(S 2.bf) sup^2.bf.1(x, z) :- m_closure^bf(x), edge(x, z).\n"
        "(M 2.bf) m_closure^bf(z) :- sup^2.bf.1(x, z).\n"
        "(2.bf) closure(x, y) :- sup^2.bf.1(x, z), closure(z, y).\n"
        "(1.bb) closure(x, y) :- m_closure^bb(x, y), edge(x, y).\n"
        "(S 2.bb) sup^2.bb.1(x, z, y) :- m_closure^bb(x, y), edge(x, z).\n"
        "(M 2.bb) m_closure^bb(z, y) :- sup^2.bb.1(x, z, y).\n"
        "(2.bb) closure(x, y) :- sup^2.bb.1(x, z, y), closure(z, y)."
    )
    assert not rules.queries.late and not stratum.deletions.late and not stratum.additions.late


def test_example_4_the_rest_of_the_graph_is_never_touched() -> None:
    edges = Watched({"edge": EDGES | OTHERS})
    found = rederive(GRAPH, edges, {"edge": FactChange(plus=pairs("hd"), minus=pairs("bc"))})
    assert found.changes["closure"] == FactChange(pairs("hd hc hg"), pairs("ac ag bc bg"))
    assert not any(cell.isdigit() for row in edges.seen for cell in row), "G' was read"
    whole = naive.evaluate(GRAPH, {"edge": set(EDGES)})["closure"]
    assert 0 < found.rederived["closure"] <= len(whole)


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=examples(25), deadline=None)
@given(change=changes())
def test_changes_are_exact(name: str, change: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]) -> None:
    program = PROGRAMS[name]
    old, plus, minus = change
    changed = {r: FactChange(frozenset(plus[r]), frozenset(minus[r])) for r in old}
    found = rederive(program, Memory(old), changed)
    assert_exact(program, old, after(old, changed), dict(found.changes))
    content = naive.evaluate(program, old)
    assert dict(found.changes) == dict(maintain(program, Memory(content), changed))
    for predicate, count in found.rederived.items():
        assert count <= len(content[predicate]), "more was rederived than there was"


def test_nothing_is_rederived_where_nothing_changed() -> None:
    found = rederive(GRAPH, Memory({"edge": EDGES}), {})
    assert found.rederived == {"closure": 0} and not any(found.changes.values())


# Where the text is wrong: each of these would fail with the rules as printed.


def test_two_streams_from_the_change_find_rows_that_never_were() -> None:
    """4.1.1 for ``p :- r, s, t`` and a change of s: sup1(x, z) and sup3(y, w) have no variable in common."""
    text = "p(x, w) :- r(x, y), s(y, z), t(z, w)."
    relations = dict.fromkeys(("r", "s", "t"), PAIR)
    old = {"r": set(pairs("a1 b3")), "s": set(pairs("12 34")), "t": set(pairs("2c 4d"))}
    deleted = pairs("12 34")
    printed = bind_program(
        "sup1(x, z) :- r(x, y), sdel(y, z). sup3(y, w) :- sdel(y, z), t(z, w). pdel(x, w) :- sup1(x, z), sup3(y, w).",
        {**relations, "sdel": PAIR},
    )
    wrong = set(evaluate(printed, Memory({**old, "sdel": deleted}))["pdel"])
    assert wrong - pairs("ac bd") == pairs("ad bc"), "the printed rules are as wrong as they were"
    program = bind_program(text, relations)
    assert rederive(program, Memory(old), {"s": FactChange(minus=deleted)}).changes["p"].minus == pairs("ac bd")


def test_one_chain_keeps_what_holds_it_together() -> None:
    program = bind_program("p(x, w) :- q(x, y), s(y, z), q(z, w). q(x, y) :- r(x, y).", dict.fromkeys(("r", "s"), PAIR))
    deletions = demand_program(program).strata[1].deletions.rules
    assert [str(rule) for rule in deletions if rule.label.endswith("1.D2")] == [
        "m_q^fb(y) :- s^del(y, z).",
        "sup^1.D2.1(x, z) :- s^del(y, z), q(x, y).",
        "m_q^bf(z) :- sup^1.D2.1(x, z).",
        "p^del(x, w) :- sup^1.D2.1(x, z), q(z, w).",
    ]


def test_effects_that_do_not_wait_for_answers_report_idle_insertions() -> None:
    """A second way from a to c is no change; before the demand for (a, c) is answered, E1 takes it for one."""
    change = FactChange(plus=pairs("ac"))
    rules = demand_program(GRAPH)
    (stratum,) = rules.strata
    relations = {"edge": "ab bc", "edge^ins": "ac", "edge^del": "", "edge^new": "ab bc ac", "closure": ""}
    early = Evaluation({name: IndexedRows(pairs(text)) for name, text in relations.items()})
    early.add([*stratum.deletions.rules, *stratum.additions.rules, *stratum.idle])
    early.add(rule for rule in stratum.maintenance.additions if rule.head.predicate == "closure^new")
    early.run()
    early.add(stratum.maintenance.effects)
    early.run()
    assert set(early.rows("closure^plus")) == pairs("ac")
    assert not rederive(GRAPH, Memory({"edge": pairs("ab bc")}), {"edge": change}).changes["closure"]


def test_an_insertion_reads_the_new_state_on_both_sides_of_a_negation() -> None:
    """4.2 prints ``r(i+1)`` for the old state: with t deleted in the same transaction, a phantom would be inserted."""
    relations = dict.fromkeys(("r", "s", "t"), EDGE)
    program = bind_program("p(x, y) :- r(x, y), not s(x, y), t(x, y).", relations)
    old = {"r": set(pairs("ab")), "s": set(pairs("ab")), "t": set(pairs("ab"))}
    changed = {"s": FactChange(minus=pairs("ab")), "t": FactChange(minus=pairs("ab"))}
    assert not rederive(program, Memory(old), changed).changes["p"]
    assert not maintain(program, Memory(naive.evaluate(program, old)), changed)["p"]


def test_negation_waits_for_what_it_asks() -> None:
    """Of closure nothing is stored: whether y leads to x must be derived before its absence counts."""
    program = bind_program(
        "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y). "
        "oneway(x, y) :- link(x, y), not closure(y, x).",
        {"edge": EDGE, "link": EDGE},
    )
    rules = demand_program(program)
    assert [str(rule) for rule in rules.strata[1].additions.late if rule.label == "3.I1"] == [
        "oneway^ins(x, y) :- link^ins(x, y), not closure^new(y, x)."
    ]
    old = {"edge": pairs("bc cd da"), "link": frozenset[Any]()}
    assert not rederive(program, Memory(old), {"link": FactChange(plus=pairs("ab"))}).changes["oneway"]
    cut = {"link": FactChange(plus=pairs("ab")), "edge": FactChange(minus=pairs("cd"))}
    assert rederive(program, Memory(old), cut).changes["oneway"].plus == pairs("ab")


def test_groups_are_rederived_by_their_keys() -> None:
    program = bind_program(
        "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y). size(x, count(*)) :- closure(x, _).",
        {"edge": EDGE},
    )
    edges = Watched({"edge": EDGES | OTHERS})
    found = rederive(program, edges, {"edge": FactChange(plus=pairs("cx"))})
    assert found.changes["size"] == FactChange(
        plus=frozenset({("a", 4), ("b", 3), ("c", 2), ("d", 3), ("e", 6), ("f", 7)}),
        minus=frozenset({("a", 3), ("b", 2), ("c", 1), ("d", 2), ("e", 5), ("f", 6)}),
    )
    assert not any(cell.isdigit() for row in edges.seen for cell in row)
