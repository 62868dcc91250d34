"""Each pass by example: a query or its differential goes in, the rewritten plan comes out.

A pass, its module and its fixture share one name. A fixture is a list of cases, with blank lines between::

    # What the case shows.
    query    SELECT … FROM …              over the tables below
    minus    SELECT … FROM …              if there: these rows with opposite weights are added to the query's
    changed  r, s                         if there: the query is differentiated first, for these relations
    with     merge_filters                if there: passes that run before, one after the other
    before   the plan, as it is given to the pass
    after    the plan, as the pass leaves it; "the same" if it must not change

Plans are written in the notation of EXPLAIN.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tidemark.algebra.plans import Negate, Plan, Union
from tidemark.algebra.printing import show_algebra
from tidemark.calculus.chain import differentiate
from tidemark.passes import DEFINITION_PASSES, PASSES, checked
from tidemark.sql.bind.queries import QueryBinder
from tidemark.sql.catalog.catalog import Catalog
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.statements import Query
from tidemark.sql.parse.text import Source
from tidemark.state.records import define

FIXTURES = Path(__file__).parent / "fixtures"
BY_NAME = {apply.__name__: apply for apply in (*DEFINITION_PASSES, *PASSES)}


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    parts: dict[str, str]


def cases(file: Path) -> list[Case]:
    found = []
    for block in file.read_text().strip().split("\n\n"):
        title, *lines = block.splitlines()
        assert title.startswith("# "), f"{file.name}: a case begins with '# what it shows', not with {title!r}"
        parts = dict(line.split(None, 1) for line in lines)
        unknown = parts.keys() - {"query", "minus", "changed", "with", "before", "after"}
        assert not unknown, f"{file.name}: {title}: {unknown}"
        found.append(Case(file.stem, title.removeprefix("# "), parts))
    return found


CASES = [case for file in sorted(FIXTURES.glob("*.txt")) for case in cases(file)]


def catalog() -> Catalog:
    result = Catalog()
    for sql in (
        "CREATE TABLE r (a INT, b INT)",
        "CREATE TABLE s (b INT, c INT)",
        "CREATE TABLE t (c INT, d INT)",
    ):
        result = result.with_relation(define(sql, "postgres", result))
    return result


CATALOG = catalog()


def bound(sql: str) -> Plan:
    [(statement, source)] = parse_script(Source(sql))
    assert isinstance(statement, Query)
    return QueryBinder(source, CATALOG).bind(statement.tree)


def plan_of(case: Case) -> Plan:
    plan = bound(case.parts["query"])
    if "minus" in case.parts:
        plan = Union((plan, Negate(bound(case.parts["minus"]))))
    if "changed" in case.parts:
        plan = differentiate(plan, set(case.parts["changed"].split(", ")))
    for name in case.parts.get("with", "").split(", "):
        plan = checked(BY_NAME[name], plan) if name else plan
    return plan


@pytest.mark.parametrize("case", CASES, ids=[f"{case.name}: {case.title}" for case in CASES])
def test_a_pass_does_what_its_fixture_says(case: Case) -> None:
    plan = plan_of(case)
    assert show_algebra(plan) == case.parts["before"]
    changed = checked(BY_NAME[case.name], plan)
    if case.parts["after"] == "the same":
        assert changed == plan, show_algebra(changed)
    else:
        assert show_algebra(changed) == case.parts["after"]
        assert changed != plan, "say 'the same' where nothing changes"


def test_every_pass_has_a_module_and_a_fixture_with_positive_and_negative_cases() -> None:
    assert {file.stem for file in FIXTURES.iterdir()} == set(BY_NAME)
    for name, apply in BY_NAME.items():
        assert apply.__module__ == f"tidemark.passes.{name}"
        after = [case.parts["after"] for case in CASES if case.name == name]
        assert "the same" in after and any(text != "the same" for text in after), name
