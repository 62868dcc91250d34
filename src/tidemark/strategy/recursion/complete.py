"""Recursion from first principle: the rows of a fixpoint, from all that stands below it.

An engine that can iterate by itself is asked first. It cannot do so for members that need each other, for rules that
join a member with itself, and for rules that compute values, which may go on without end. Then what is small is fetched
and iterated in this process. What is not stays with the engine: in each round one plan for each member derives what
follows from the rows that came last, semi-naive,

    new_p = δ(⊎ of p's rules, one atom read from the rows that came last) − p

Between rounds the rows are handed over as Arrow tables, so that no plan grows with the number of rounds.

A whole program from first principle: stratum by stratum, each semi-naive to its fixpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from tidemark.algebra.cache import PerPlan, leaves_read
from tidemark.algebra.clauses import Assign, Atom, Condition, DatalogRule
from tidemark.algebra.expressions import Cast, Column, Expression, Literal
from tidemark.algebra.plans import Difference, Distinct, Fixpoint, Given, Plan, Stored, union
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import Schema
from tidemark.calculus.terms import distribute
from tidemark.datalog.fixpoint import Evaluation, RecursionLimits, TooFar
from tidemark.datalog.heads import grouped
from tidemark.datalog.plans import over, program_of, rule_plan
from tidemark.datalog.program import Program
from tidemark.datalog.relations import IndexedRows, Lookup, Memory, Relation, Remembered
from tidemark.engines.engine import Evaluator, Iteration
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import from_bag, to_bag
from tidemark.strategy.recursion.lookups import Evaluate


def evaluate_program(
    program: Program, base: Lookup, limits: RecursionLimits | None = None
) -> Mapping[str, IndexedRows]:
    """The content of every predicate of the program.

    >>> from tidemark.algebra.types import INT, Field, Schema
    >>> from tidemark.datalog.program import bind_program
    >>> from tidemark.datalog.relations import Memory
    >>> edge = Schema((Field("a", INT, nullable=False), Field("b", INT, nullable=False)))
    >>> text = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y)."
    >>> content = evaluate_program(bind_program(text, {"edge": edge}), Memory({"edge": {(1, 2), (2, 3)}}))
    >>> sorted(content["closure"])
    [(1, 2), (1, 3), (2, 3)]
    """
    relations: dict[str, Relation] = {name: Remembered(base, name) for name in program.base}
    derived = {name: IndexedRows() for name in program.predicates}
    relations.update(derived)
    for stratum in program.strata:
        for grouping in program.groupings_of(stratum.predicates):
            rows = derived[grouping.source]
            derived[grouping.predicate].add(grouped(grouping, program.schemas[grouping.source], rows))
        evaluation = Evaluation(relations, limits)
        evaluation.add(program.rules_of(stratum.predicates))
        evaluation.run()
    return derived


def fixpoint(plan: Fixpoint, given: Mapping[str, pa.Table], engine: Evaluator, evaluate: Evaluate) -> pa.Table:
    """The rows of a resolved fixpoint, each of weight one."""
    iteration = iteration_of(plan)
    if iteration is not None and engine.iterates(iteration, given):
        found = engine.iterate(iteration, given)
        if found.num_rows > plan.max_rows:
            raise TooFar(plan.predicate, rows=plan.max_rows)
        return found
    if _rows_below(plan, given, engine) <= engine.limits.small_fixpoint_input:
        small = _in_process(plan, given, evaluate, engine.limits.small_fixpoint_result)
        if small is not None:
            return small
    return _by_plans(plan, given, evaluate)


def _iteration(plan: Plan) -> Iteration | None:
    """The fixpoint as something that an engine may iterate by itself, if it is of that form.

    Rounds are not counted there, so a fixpoint with a limit of its own on them is not. An expression that can fail must
    not see rows that cancel, or that a negation leaves out: it may stand over stored relations and without negation.
    """
    assert isinstance(plan, Fixpoint)
    members, schemas = dict(plan.members), program_of(plan).schemas
    later = [rule for rule in plan.rules if _recurring(rule, members)]
    first = [rule for rule in plan.rules if rule not in later]
    if (
        len(members) > 1
        or not plan.schema.fields
        or plan.max_rounds < Fixpoint.max_rounds
        or not first
        or any(len(_recurring(rule, members)) > 1 or _computes(rule) for rule in later)
    ):
        return None
    failing = [rule for rule in plan.rules if any(can_fail(e) for e in _expressions(rule))]
    if failing and (not all(isinstance(p, Stored) for p in plan.parts) or any(rule.negations for rule in failing)):
        return None
    parts = tuple((f"part {name}", part) for name, part in zip(plan.sources, plan.parts, strict=True))
    reads: dict[str, Plan] = {name: Given(f"part {name}", schemas[name]) for name in plan.sources}
    last = _last(plan.predicate)
    reads[last] = Given(last, plan.schema)
    schemas = {**schemas, last: plan.schema}

    def derived(rules: Iterable[DatalogRule]) -> Plan:
        return over(union(tuple(rule_plan(rule, schemas) for rule in rules), plan.schema), reads)

    step = derived(variant for rule in later for variant in _variants(rule, members))
    return Iteration(parts, derived(first), step, last, plan.max_rows)


iteration_of = PerPlan(_iteration)


def _computes(rule: DatalogRule) -> bool:
    """Whether the rule makes new values. A value in another type is not one: it stays the same from then on."""
    assigned = (part.expression for part in rule.body if isinstance(part, Assign))
    return any(not isinstance(e.argument if isinstance(e, Cast) else e, Column | Literal) for e in assigned)


def _expressions(rule: DatalogRule) -> Iterable[Expression]:
    return (part.expression for part in rule.body if isinstance(part, Condition | Assign))


def _rows_below(plan: Plan, given: Mapping[str, pa.Table], engine: Evaluator) -> int:
    rows = 0
    for leaf, times in leaves_read(plan):
        if isinstance(leaf, Stored):
            rows += engine.rows(leaf.relation) * times
        elif isinstance(leaf, Given):
            rows += given[leaf.name].num_rows * times
    return rows


def _in_process(plan: Fixpoint, given: Mapping[str, pa.Table], evaluate: Evaluate, most_rows: int) -> pa.Table | None:
    """The rows, iterated over fetched parts; None if they become too many for that."""
    limits = RecursionLimits(plan.max_rounds, min(plan.max_rows, most_rows))
    parts = {name: to_bag(evaluate(part, given)) for name, part in zip(plan.sources, plan.parts, strict=True)}
    try:
        found = evaluate_program(program_of(plan), Memory(parts), limits)
    except TooFar as error:
        if error.rows is None or plan.max_rows <= most_rows:
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


def _new_rows(rules: list[DatalogRule], name: str, schemas: Mapping[str, Schema], reads: Mapping[str, Plan]) -> Plan:
    derived = union(tuple(rule_plan(rule, schemas) for rule in rules), schemas[name])
    return distribute(Difference(Distinct(over(derived, reads)), reads[name]))


def _recurring(rule: DatalogRule, members: Mapping[str, Schema]) -> list[int]:
    """Which parts of the body are atoms of members."""
    return [i for i, part in enumerate(rule.body) if isinstance(part, Atom) and part.predicate in members]


def _variants(rule: DatalogRule, members: Mapping[str, Schema]) -> list[DatalogRule]:
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
