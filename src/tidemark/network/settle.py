"""Settling: what must be net before it is computed with is evaluated first.

An expression that can fail (a division, a cast) must not see entries that cancel: a row that the transaction removed,
or a pair of a deleted and an inserted row that never was. ``Net`` marks such inputs. They are evaluated by themselves,
and their net rows are given to the rest, so that no optimizer can move the failing expression below the netting.

Recursion is evaluated first for another reason: it is no matter of one plan (``fixpoints.py``).

Of an input that is netted only the columns that the expressions read are evaluated. Rows that cancel in these columns
do not reach the expressions then, and need not: what they say, a stored row says as well, before and after the block.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import pyarrow as pa

from tidemark.algebra.derived import PerPlan
from tidemark.algebra.expressions import Column, columns_of, substitute
from tidemark.algebra.fingerprint import fingerprint
from tidemark.algebra.plans import Fixpoint, Given, Net, Plan, Project, relations_of, transform
from tidemark.calculus.terms import distribute
from tidemark.engines.base import Engine
from tidemark.network.fixpoints import fixpoint
from tidemark.network.lookups import Evaluate


@dataclass(frozen=True)
class _Steps:
    """Plans to evaluate first, each under the name by which those after it know its rows; and the plan over them."""

    first: tuple[tuple[str, Plan], ...]
    plan: Plan


def settle(
    plan: Plan, given: Mapping[str, pa.Table], engine: Engine, unstored: Set[str] = frozenset()
) -> tuple[Plan, Mapping[str, pa.Table]]:
    """The plan without ``Net`` and ``Fixpoint``, and what it needs given. Inputs over ``unstored`` relations are left
    as they are."""
    steps = _split(plan, unstored) if unstored else _steps(plan)
    if not steps.first:
        return steps.plan, given
    known = dict(given)
    for name, source in steps.first:
        if isinstance(source, Fixpoint):
            known[name] = fixpoint(source, known, engine, evaluation(engine))
        else:
            known[name] = engine.evaluate(source, known)
    return steps.plan, known


def evaluation(engine: Engine) -> Evaluate:
    """The engine's net rows of plans that are settled first."""
    return lambda plan, given: engine.evaluate(*settle(plan, given, engine))


def _split(plan: Plan, unstored: Set[str] = frozenset()) -> _Steps:
    first: list[tuple[str, Plan]] = []

    def replaced(part: Plan) -> Plan | None:
        if isinstance(part, Project) and isinstance(part.input, Net):
            part = _narrowed(part, part.input)
            return part.with_inputs((transform(part.input, replaced),))
        if isinstance(part, Fixpoint):
            source = part.with_inputs(tuple(transform(child, replaced) for child in part.parts))
            assert not relations_of(source) & unstored, "what a recursion reads is there before it is evaluated"
            first.append((f"net {fingerprint(source)}", source))
            return Given(first[-1][0], part.schema)
        if not isinstance(part, Net):
            return None
        source = transform(part.input, replaced)
        if relations_of(source) & unstored:
            return source
        first.append((f"net {fingerprint(source)}", source))
        return Given(first[-1][0], part.schema)

    settled = transform(plan, replaced)
    return _Steps(tuple(first), settled if first else plan)


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
