"""Settling: what must be net before it is computed with is evaluated first.

An expression that can fail (a division, a cast) must not see entries that cancel: a row that the transaction removed,
or a pair of a deleted and an inserted row that never was. ``Net`` marks such inputs. They are evaluated by themselves,
and their net rows are given to the rest, so that no optimizer can move the failing expression below the netting.

Recursion is evaluated first for another reason: it is no matter of one plan (``fixpoints.py``).

Of an input that is netted only the columns that the expressions read are evaluated. Rows that cancel in these columns
do not reach the expressions then, and need not: what they say, a stored row says as well, before and after the block.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tidemark.algebra.cache import PerPlan
from tidemark.algebra.expressions import Column, columns_of, substitute
from tidemark.algebra.fingerprint import fingerprint
from tidemark.algebra.plans import Fixpoint, Given, Net, Plan, Project, Values, relations_of, transform, walk
from tidemark.calculus.terms import distribute
from tidemark.engines.engine import Evaluator
from tidemark.storage import delta as delta_tables
from tidemark.storage.delta import Rows, Tables, as_rows
from tidemark.strategy.recursion.complete import fixpoint
from tidemark.strategy.recursion.lookups import Evaluate


@dataclass(frozen=True)
class _Steps:
    """Plans to evaluate first, each under the name by which those after it know its rows; the plan over them, and the
    long lists that stood in it."""

    first: tuple[tuple[str, Plan], ...]
    plan: Plan
    listed: tuple[tuple[str, pa.Table], ...] = ()


def settle(
    plan: Plan, given: Mapping[str, pa.Table], engine: Evaluator, unstored: Set[str] = frozenset()
) -> tuple[Plan, Mapping[str, pa.Table]]:
    """The plan without ``Net`` (but where it stands in place) and ``Fixpoint``, and what it needs given. Inputs over
    ``unstored`` relations are left as they are."""
    steps = _split(plan, unstored) if unstored else _steps(plan)
    if not steps.first and not steps.listed:
        return steps.plan, given
    known = Tables({**as_rows(given), **as_rows(dict(steps.listed))})
    for name, source in steps.first:
        if isinstance(source, Fixpoint):
            found = fixpoint(source, known, engine, evaluation(engine))
        else:
            found = engine.evaluate(source, known)
        known = Tables({**known.rows, name: Rows.of(found)})
    return steps.plan, known


def evaluation(engine: Evaluator) -> Evaluate:
    """The engine's net rows of plans that are settled first."""
    return lambda plan, given: engine.evaluate(*settle(plan, given, engine))


def _split(plan: Plan, unstored: Set[str] = frozenset()) -> _Steps:
    first: list[tuple[str, Plan]] = []
    plan, listed = _apart(plan)

    def replaced(part: Plan) -> Plan | None:
        if isinstance(part, Project) and isinstance(part.input, Net) and not part.input.in_place:
            part = _narrowed(part, part.input)
            return part.with_inputs((transform(part.input, replaced),))
        if isinstance(part, Fixpoint):
            source = part.with_inputs(tuple(transform(child, replaced) for child in part.parts))
            assert not relations_of(source) & unstored, "what a recursion reads is there before it is evaluated"
            first.append((f"net {fingerprint(source)}", source))
            return Given(first[-1][0], part.schema)
        if not isinstance(part, Net) or part.in_place:
            return None
        source = transform(part.input, replaced)
        if relations_of(source) & unstored:
            return source
        first.append((f"net {fingerprint(source)}", source))
        return Given(first[-1][0], part.schema)

    settled = transform(plan, replaced)
    return _Steps(tuple(first), settled if first else plan, listed)


_NUMBERS: Final = itertools.count()
MOST_WRITTEN: Final = 64
"""More rows of VALUES are handed over: in a statement each of them would be parsed and planned."""


def _apart(plan: Plan) -> tuple[Plan, tuple[tuple[str, pa.Table], ...]]:
    """The plan with long lists of rows as tables that it is given, and these tables."""
    lists = {part: f"listed {next(_NUMBERS)}" for part in walk(plan) if _is_long(part)}
    if not lists:
        return plan, ()
    tables = tuple((name, _table(part)) for part, name in lists.items())
    return transform(plan, lambda part: Given(lists[part], part.schema) if part in lists else None), tables


def _is_long(plan: Plan) -> bool:
    return isinstance(plan, Values) and len(plan.rows) > MOST_WRITTEN and len(plan.schema) > 0


def _table(plan: Plan) -> pa.Table:
    assert isinstance(plan, Values)
    return delta_tables.net(delta_tables.weighted(delta_tables.from_rows(plan.rows, plan.schema)))


def _narrowed(plan: Project, net: Net) -> Project:
    """The projection over the net rows of those columns that it reads."""
    read = sorted({column for expression in plan.expressions for column in columns_of(expression)})
    if not read or len(read) == len(net.schema):
        return plan
    columns = tuple(net.column(column) for column in read)
    narrow = Net(distribute(Project(net.input, tuple(net.schema[column].name for column in read), columns)))
    moved = [Column(read.index(c.index), c.name, c.type, c.nullable) if c.index in read else c for c in net.columns()]
    return Project(narrow, plan.names, tuple(substitute(e, tuple(moved)) for e in plan.expressions))


_steps = PerPlan(_split)
