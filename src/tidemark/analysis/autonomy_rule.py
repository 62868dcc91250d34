"""What a rule of autonomy gives: the change of a stored relation, without a look at any relation below it."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.algebra.expressions import Expression
from tidemark.algebra.plans import Plan


@dataclass(frozen=True)
class Rule:
    """How a stored relation follows one change of one relation below it, from what is stored and the change alone.

    ``delta`` reads two things: the stored relation in its old state, and the change of the relation below. It is the
    change of what is stored; with ``of_input`` it is that of the rows that a grouping groups, as its keys and then the
    arguments of its aggregates (each expression once, in order), and counts and sums are merged from it as always.

    It is right if ``undecided``, the entries of the change whose effect depends on more than that, is empty; None says
    that it always is. If ``splits``, the rule is also right for the change without those entries, whose effect can be
    derived apart: the effects of two parts of a change add up. ``alone``, if it is there, has all of these entries and
    perhaps more, and reads the change only: if it is empty, what is stored need not be looked at.

    ``reason`` says why the rule holds, in words.

    What is known beforehand: whether the rule decides every deletion and every insertion; and every update that leaves
    the ``steady`` columns alone and lets no row pass the ``local`` conditions that did not pass them before (None: it
    decides no update).
    """

    delta: Plan
    reason: str
    undecided: Plan | None = None
    alone: Plan | None = None
    of_input: bool = False
    splits: bool = True
    deletions: bool = True
    insertions: bool = False
    steady: frozenset[int] | None = frozenset()
    local: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """Why a rule does not hold, and the columns that the definition would have to show for it to hold, if that
    helps."""

    reason: str
    missing: tuple[str, ...] = ()
