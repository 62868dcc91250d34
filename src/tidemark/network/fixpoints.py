"""Recursion from first principle: the rows of a fixpoint, from all that stands below it.

What is small is fetched and iterated in this process. What is not stays with the engine: in each round one plan for
each member derives what follows from the rows that came last, semi-naive,

    new_p = δ(⊎ of p's rules, one atom read from the rows that came last) − p

Between rounds the rows are handed over as Arrow tables, so that no plan grows with the number of rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from tidemark.algebra.plans import Difference, Distinct, Fixpoint, Given, Plan, Stored, union, walk
from tidemark.algebra.rules import Atom, Rule
from tidemark.algebra.types import Schema
from tidemark.calculus.terms import distribute
from tidemark.datalog.evaluate import evaluate as evaluate_rows
from tidemark.datalog.fixpoint import Limits, TooFar
from tidemark.datalog.lowering import over, program_of
from tidemark.datalog.plans import rule_plan
from tidemark.datalog.relations import Memory
from tidemark.engines.base import Engine
from tidemark.engines.reference.arrow import from_bag, to_bag
from tidemark.log import deltas as delta_tables
from tidemark.network.lookups import Evaluate

SMALL_INPUT: Final = 20_000
"""Up to so many rows below it, a fixpoint is iterated in this process."""
SMALL_RESULT: Final = 100_000
"""Up to so many rows of one member; one that has more is left to the engine."""


def fixpoint(plan: Fixpoint, given: Mapping[str, pa.Table], engine: Engine, evaluate: Evaluate) -> pa.Table:
    """The rows of a resolved fixpoint, each of weight one."""
    if _rows_below(plan, given, engine) <= SMALL_INPUT:
        found = _in_process(plan, given, evaluate)
        if found is not None:
            return found
    return _by_plans(plan, given, evaluate)


def _rows_below(plan: Plan, given: Mapping[str, pa.Table], engine: Engine) -> int:
    rows = 0
    for part in walk(plan):
        if isinstance(part, Stored):
            rows += engine.rows(part.relation)
        elif isinstance(part, Given):
            rows += given[part.name].num_rows
    return rows


def _in_process(plan: Fixpoint, given: Mapping[str, pa.Table], evaluate: Evaluate) -> pa.Table | None:
    """The rows, iterated over fetched parts; None if they become too many for that."""
    limits = Limits(plan.max_rounds, min(plan.max_rows, SMALL_RESULT))
    parts = {name: to_bag(evaluate(part, given)) for name, part in zip(plan.sources, plan.parts, strict=True)}
    try:
        found = evaluate_rows(program_of(plan), Memory(parts), limits)
    except TooFar as error:
        if error.rows is None or plan.max_rows <= SMALL_RESULT:
            raise
        return None
    return from_bag(dict.fromkeys(found[plan.predicate], 1), plan.schema)


def _by_plans(plan: Fixpoint, given: Mapping[str, pa.Table], evaluate: Evaluate) -> pa.Table:
    schemas = program_of(plan).schemas
    members = dict(plan.members)
    reads = dict(zip(plan.sources, plan.parts, strict=True))
    reads.update({name: Given(_whole(name), schema) for name, schema in members.items()})
    reads.update({_last(name): Given(_last(name), schema) for name, schema in members.items()})
    schemas = {**schemas, **{_last(name): schema for name, schema in members.items()}}
    own = {name: [rule for rule in plan.rules if rule.head.predicate == name] for name in members}
    first = {name: [rule for rule in own[name] if not _recurring(rule, members)] for name in members}
    later = {name: [variant for rule in own[name] for variant in _variants(rule, members)] for name in members}
    content = {name: delta_tables.no_change(schema) for name, schema in members.items()}
    last = content
    for number in range(plan.max_rounds + 1):
        known = {**given, **{_whole(n): t for n, t in content.items()}, **{_last(n): t for n, t in last.items()}}
        rules = later if number else first
        last = {
            name: evaluate(_new_rows(rules[name], name, schemas, reads), known)
            if rules[name]
            else delta_tables.no_change(schema)
            for name, schema in members.items()
        }
        if not any(rows.num_rows for rows in last.values()):
            return content[plan.predicate]
        content = {name: pa.concat_tables([content[name], rows]) for name, rows in last.items()}
        if any(rows.num_rows > plan.max_rows for rows in content.values()):
            raise TooFar(plan.predicate, rows=plan.max_rows)
    raise TooFar(plan.predicate, rounds=plan.max_rounds)


def _new_rows(rules: list[Rule], name: str, schemas: Mapping[str, Schema], reads: Mapping[str, Plan]) -> Plan:
    derived = union(tuple(rule_plan(rule, schemas) for rule in rules), schemas[name])
    return distribute(Difference(Distinct(over(derived, reads)), reads[name]))


def _recurring(rule: Rule, members: Mapping[str, Schema]) -> list[int]:
    """Which parts of the body are atoms of members."""
    return [i for i, part in enumerate(rule.body) if isinstance(part, Atom) and part.predicate in members]


def _variants(rule: Rule, members: Mapping[str, Schema]) -> list[Rule]:
    """The rule with one of its atoms of members read from what came last, for each of them."""
    found = []
    for position in _recurring(rule, members):
        atom = rule.body[position]
        assert isinstance(atom, Atom)
        # The join begins with the few rows that came last.
        rest = rule.body[:position] + rule.body[position + 1 :]
        found.append(replace(rule, body=(atom.renamed(_last(atom.predicate)), *rest)))
    return found


def _whole(name: str) -> str:
    return f"all {name}"


def _last(name: str) -> str:
    return f"last {name}"
