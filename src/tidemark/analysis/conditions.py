"""Questions about conditions: can one be true, does one follow from another, what does one say about some columns.

A condition is a BOOLEAN expression over columns of which ``Facts`` are known. It is *true* for a row in the sense of
SQL: neither false nor NULL, and without an error. UNKNOWN is the safe answer to each question, given when its steps are
used up (``budget.py``), or when there is something in the condition that is not understood (floats, most functions) and
the answer depends on it.

Conjunctions (and disjunctions of few of them) of ``x op y + c`` and ``x op c`` are decided by ``solver.py``; only
what is outside of that class is left to a solver.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from tidemark.algebra.expressions import TRUE, Expression, columns_of, conjuncts
from tidemark.analysis.budget import MOST_FOR_A_QUESTION, spend, within
from tidemark.analysis.elimination import projection
from tidemark.analysis.facts import Facts as Facts
from tidemark.analysis.formulas import Formula, both, negation
from tidemark.analysis.rendering import FALSE
from tidemark.analysis.solver import Model, model_of
from tidemark.analysis.truth import Translation


class Answer(enum.Enum):
    """UNKNOWN promises nothing."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def possible(condition: Expression, facts: Facts, *, or_fails: bool = False) -> Answer:
    """Whether there is a row for which the condition is true (or, if asked, for which it fails).

    Of a conjunction a part that fails counts where no part before it is false.
    Rows are those that the facts allow. Of the CHECK conditions those count which share columns with the condition,
    directly or through others; that some row satisfies the rest is taken for granted.

    >>> from tidemark.algebra.expressions import Call, Literal, conjunction
    >>> from tidemark.algebra.types import BOOLEAN, INT, Field
    >>> facts = Facts((Field("a", INT), Field("b", INT)))
    >>> a, b = facts.all_columns()
    >>> above, below = Call("gt", (a, b), BOOLEAN), Call("lt", (a, Literal(5, INT)), BOOLEAN)
    >>> possible(conjunction((above, below)), facts)
    <Answer.YES: 'yes'>
    >>> possible(conjunction((above, below, Call("gt", (b, Literal(10, INT)), BOOLEAN))), facts)
    <Answer.NO: 'no'>
    """

    def ask() -> Answer:
        translation = translate((condition,), facts)
        if or_fails:
            return answer(translation.true_or_failing((condition,)), translation)
        return answer(translation.truth(condition).true, translation)

    return within(MOST_FOR_A_QUESTION, ask, Answer.UNKNOWN)


def never_true(condition: Expression, facts: Facts) -> bool:
    """Whether it is proved that no row makes the condition true."""
    return possible(condition, facts) is Answer.NO


def implies(premise: Expression, conclusion: Expression, facts: Facts) -> Answer:
    """Whether for every row for which the premise is true the conclusion is true, too.

    >>> from tidemark.algebra.expressions import Call, Literal
    >>> from tidemark.algebra.types import BOOLEAN, INT, Field
    >>> facts = Facts((Field("a", INT),))
    >>> above = [Call("gt", (facts.column(0), Literal(n, INT)), BOOLEAN) for n in (3, 5)]
    >>> implies(above[1], above[0], facts), implies(above[0], above[1], facts)
    (<Answer.YES: 'yes'>, <Answer.NO: 'no'>)
    """

    def ask() -> Answer:
        translation = translate((premise, conclusion), facts)
        counterexample = both(translation.truth(premise).true, negation(translation.truth(conclusion).true))
        return answer(counterexample, translation)

    found = within(MOST_FOR_A_QUESTION, ask, Answer.UNKNOWN)
    return {Answer.YES: Answer.NO, Answer.NO: Answer.YES}.get(found, found)


def always_true(condition: Expression, facts: Facts) -> bool:
    """Whether it is proved that the condition is true for every row."""
    return implies(TRUE, condition, facts) is Answer.YES


def eliminated(condition: Expression, kept: frozenset[int], facts: Facts) -> Expression | None:
    """What the condition says about the kept columns alone: that there are values of the others for which it is true.

    The result is true for each row for whose kept columns there are values of the others that make the condition true
    or let it fail, and perhaps for more rows: as a filter it is sound. Every engine can run it, and it never fails.
    None says nothing: every row may pass. FALSE says that no row does.

    >>> from tidemark.algebra.expressions import Call, Literal, conjunction
    >>> from tidemark.algebra.printing import show_expression
    >>> from tidemark.algebra.types import BOOLEAN, INT, Field
    >>> facts = Facts((Field("i", INT), Field("k", INT), Field("l", INT)))
    >>> i, k, l = facts.all_columns()
    >>> parts = Call("eq", (i, k), BOOLEAN), Call("lt", (k, l), BOOLEAN), Call("lt", (l, Literal(9, INT)), BOOLEAN)
    >>> show_expression(eliminated(conjunction(parts), frozenset({0}), facts))
    '(i <= 7)'
    """
    return eliminated_one_by_one((condition,), kept, facts)


def eliminated_one_by_one(conditions: tuple[Expression, ...], kept: frozenset[int], facts: Facts) -> Expression | None:
    """The same for conditions that are asked one after the other, each of the rows for which those before are true."""

    def is_impossible() -> bool:
        translation = translate(conditions, facts)
        return answer(translation.true_or_failing(conditions), translation) is Answer.NO

    def project() -> Expression | None:
        return projection(conditions, kept, translate(conditions, facts))

    if within(MOST_FOR_A_QUESTION, is_impossible, False):
        return FALSE
    return within(MOST_FOR_A_QUESTION, project, None)


def translate(conditions: Iterable[Expression], facts: Facts) -> Translation:
    """A translation in which the CHECK conditions that touch these conditions are assumed."""
    asked = tuple(conditions)
    checks = _connected(frozenset().union(*map(columns_of, asked)), facts)
    translation = Translation(facts, (*asked, *checks))
    translation.assume(checks)
    return translation


def _connected(columns: frozenset[int], facts: Facts) -> tuple[Expression, ...]:
    """The parts of CHECK conditions that share columns with the given ones, directly or through each other."""
    return connected(columns, (part for check in facts.checks for part in conjuncts(check)))


def connected(columns: frozenset[int], parts: Iterable[Expression]) -> tuple[Expression, ...]:
    """The parts that share columns with the given ones, directly or through each other."""
    reading: dict[int, list[Expression]] = {}
    for part in parts:
        spend()
        for column in columns_of(part):
            reading.setdefault(column, []).append(part)
    found: dict[Expression, None] = {}
    waiting = sorted(columns, reverse=True)
    while waiting:
        for part in reading.pop(waiting.pop(), ()):
            spend()
            if part not in found:
                found[part] = None
                waiting.extend(columns_of(part))
    return tuple(found)


def answer(formula: Formula, translation: Translation) -> Answer:
    """Whether the formula can be true of a row of which the facts of the translation are true."""
    if formula is False:
        return Answer.NO
    match model_of(translation.with_facts(formula)):
        case Model.NONE:
            return Answer.NO
        case Model.SOME if translation.exact:
            return Answer.YES
    return Answer.UNKNOWN
