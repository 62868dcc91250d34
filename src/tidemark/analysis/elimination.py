"""Leaving columns out of a condition: what remains is true wherever values for them could make the whole true.

    ∃ others: (p ∧ q) = p ∧ ∃ others: q          if p reads kept columns only

Parts of a conjunction that read kept columns only stay as they were written, as long as none that can fail stands
before them; if one stands behind them, they need only not be false. The rest is taken apart into alternatives, and the
others' variables are left out of each (exact for differences, and nearly so for sums, below). Leaving out
a part of a conjunction lets more rows pass, never fewer.

Leaving variables out of conjunctions of bounds by Fourier's and Motzkin's elimination.

    a·x ≥ A and b·x ≤ B, with a, b > 0, leave a·B − b·A ≥ 0

What remains is true wherever there are values of the variable, whole or not, that make all of it true; of whole numbers
it may be true elsewhere too, so that it is weaker and never stronger than it should be. Where the bounds would become
too many, those with the variable are left out, which is weaker still.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from tidemark.algebra.expressions import Call, Expression, columns_of, conjunction, conjuncts, disjuncts
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import BOOLEAN
from tidemark.analysis.budget import spend
from tidemark.analysis.formulas import (
    All,
    Atom,
    Bound,
    Conjunction,
    Flag,
    Formula,
    TooMany,
    Variable,
    alternatives,
    both,
    bounded,
    negation,
    variables,
)
from tidemark.analysis.rendering import FALSE, disjunction, rendered
from tidemark.analysis.solver import (
    ZERO,
    Closure,
    Model,
    OutOfClass,
    bound_of,
    closure,
    edge_of,
    is_difference,
    model_by_differences,
)
from tidemark.analysis.truth import Translation

MOST_BOUNDS: Final = 64


def without(bounds: Iterable[Bound], gone: Set[Variable]) -> list[Bound] | None:
    """What the bounds say about other variables; None if they contradict each other.

    >>> x, y, z = (Variable(name) for name in "xyz")
    >>> [left] = without([Bound(((x, 2), (y, -3)), 0), Bound(((x, -1), (z, 1)), 0)], {x})  # 2x ≤ 3y and z ≤ x
    >>> [(variable.name, factor) for variable, factor in left.terms], left.constant  # 2z ≤ 3y
    ([('y', -3), ('z', 2)], 0)
    """
    kept = dict.fromkeys(bounds)
    waiting = sorted(gone)
    while waiting:
        variable = min(waiting, key=lambda candidate: _pairs(kept, candidate))
        waiting.remove(variable)
        above, below, others = _parted(kept, variable)
        kept = dict.fromkeys(others)
        if len(kept) + len(above) * len(below) > max(MOST_BOUNDS, len(kept)):
            continue
        for upper, factor in above:
            for lower, opposite in below:
                combined = _combined(upper, -opposite, lower, factor)
                if combined is False:
                    return None
                if isinstance(combined, Bound):
                    kept[combined] = None
    return list(kept)


def _parted(
    bounds: Iterable[Bound], variable: Variable
) -> tuple[list[tuple[Bound, int]], list[tuple[Bound, int]], list[Bound]]:
    """The bounds that limit the variable from above and from below, with its factor in each, and the others."""
    above, below, others = list[tuple[Bound, int]](), list[tuple[Bound, int]](), list[Bound]()
    for bound in bounds:
        spend(len(bound.terms))
        factor = dict(bound.terms).get(variable, 0)
        if factor:
            (above if factor > 0 else below).append((bound, factor))
        else:
            others.append(bound)
    return above, below, others


def _pairs(bounds: Iterable[Bound], variable: Variable) -> int:
    above, below, _ = _parted(bounds, variable)
    return len(above) * len(below)


def _combined(one: Bound, times: int, other: Bound, others: int) -> Bound | bool:
    """The sum of both, each so many times."""
    spend(len(one.terms) + len(other.terms))
    factors = {variable: factor * times for variable, factor in one.terms}
    for variable, factor in other.terms:
        factors[variable] = factors.get(variable, 0) + factor * others
    terms = tuple(sorted((variable, factor) for variable, factor in factors.items() if factor))
    return bounded(terms, one.constant * times + other.constant * others, strict=one.strict or other.strict)


MOST_ALTERNATIVES: Final = 64
MOST_SIDES: Final = 8
FEW_CHOICES: Final = 6
"""So few alternatives are compared with each other."""
MOST_SHOWN: Final = 16
"""A filter with more alternatives than this is not worth its evaluation."""


def projection(asked: tuple[Expression, ...], kept: frozenset[int], translation: Translation) -> Expression | None:
    """What conditions that are asked one after the other say about the kept columns; None if that is nothing."""
    while asked and translation.is_true_unless_failing(asked[-1]):
        asked = asked[:-1]  # whichever of the two it is, the row has come this far
    own: list[Expression] = []
    rest: list[Expression] = []
    has_failed = False  # one of the rest can fail
    for condition in asked:
        parts = conjuncts(condition)
        if has_failed:
            rest.append(condition)
            continue
        fails = [translation.truth(part).error is not False for part in parts]
        before = fails.index(True) if any(fails) else len(parts)
        mine = [part for part in parts[:before] if columns_of(part) <= kept and not can_fail(part)]
        # Where a part is NULL a later one of the same condition can still fail.
        own += [_not_false(part, translation) for part in mine] if any(fails) else mine
        others = tuple(part for part in parts if part not in mine)
        if others:
            rest.append(conjunction(others))
            has_failed = translation.truth(rest[-1]).error is not False
    found = _rest(tuple(rest), kept, translation) if rest else None
    return _said((*own, *(() if found is None else (found,))))


def _rest(asked: tuple[Expression, ...], kept: frozenset[int], translation: Translation) -> Expression | None:
    """What conditions say that are not of kept columns alone. Of OR each side is looked at by itself, so that it
    keeps its own parts as they are written: ∃ others: (p ∨ q) = (∃ others: p) ∨ (∃ others: q)."""
    if all(translation.truth(condition).error is False for condition in asked):
        parts = tuple(part for condition in asked for part in conjuncts(condition))
        for part in parts:
            sides = disjuncts(part)
            if 1 < len(sides) <= MOST_SIDES and any(columns_of(p) <= kept for side in sides for p in conjuncts(side)):
                others = tuple(other for other in parts if other is not part)
                found = [projection((conjunction((*others, side)),), kept, translation) for side in sides]
                return None if None in found else _any_of([side for side in found if side is not None])
    return said_of(translation.true_or_failing(asked), kept, translation)


def _any_of(sides: list[Expression]) -> Expression:
    """OR of all sides but those that say what another one says, and more; what all of them say stands in front."""
    found = [conjuncts(side) for side in dict.fromkeys(sides) if side != FALSE]
    weakest = [side for side in found if not any(set(other) < set(side) for other in found)]
    if not weakest:
        return FALSE
    shared = tuple(part for part in weakest[0] if all(part in side for side in weakest))
    each = [tuple(part for part in side if part not in shared) for side in weakest]
    if not all(each):
        return conjunction(shared)
    return conjunction((*shared, disjunction(tuple(map(conjunction, each)))))


def _not_false(part: Expression, translation: Translation) -> Expression:
    never_null = translation.truth(part).null is False or not any(
        translation.facts.columns[index].nullable for index in columns_of(part)
    )
    return part if never_null else Call("is_not_false", (part,), BOOLEAN, nullable=False)


def said_of(formula: Formula, kept: frozenset[int], translation: Translation) -> Expression | None:
    """The formula about rows with all but the kept columns left out; None if it says nothing.

    It says nothing that is so only because types have ends: that ``i < k`` leaves out the greatest number.
    """
    whole = translation.with_facts(formula, ends_of_types=False)
    return rendered(left_out(whole, kept, translation), translation)


def _said(parts: tuple[Expression, ...]) -> Expression | None:
    return conjunction(parts) if parts else None


def left_out(formula: Formula, kept: frozenset[int], translation: Translation) -> list[Conjunction]:
    """Alternatives over kept columns, one of which holds wherever the formula can be made true."""
    found: dict[Conjunction, None] = {}
    for choice in _few_alternatives(formula):
        for whole in _by_nulls(choice, kept, translation):
            shown = _projected(whole, kept, translation)
            if shown is not None:
                found[shown] = None
    weakest = _weakest(_widened(list(found), translation))
    return [()] if len(weakest) > MOST_SHOWN else weakest


def _weakest(choices: list[Conjunction]) -> list[Conjunction]:
    """Without alternatives that say all that another one says, and more."""
    sets = [frozenset(choice) for choice in dict.fromkeys(choices)]
    return [tuple(sorted(own, key=_order)) for own in sets if not any(other < own for other in sets)]


def _order(atom: Atom) -> tuple[bool, Atom]:
    return isinstance(atom, Bound), atom


def _widened(choices: list[Conjunction], translation: Translation) -> list[Conjunction]:
    """The alternatives without what the others make needless: ``a ∧ b`` or ``¬b`` is ``a`` or ``¬b``."""
    if not 1 < len(choices) <= FEW_CHOICES:
        return choices
    whole = translation.with_facts(both(*(negation(both(*choice)) for choice in choices)))
    widened = list[Conjunction]()
    for choice in choices:
        for atom in sorted(choice, key=_order, reverse=True):  # bounds first: without them NULL may be left out, too
            shorter = tuple(other for other in choice if other != atom)
            if isinstance(atom, Flag) and any(atom.column in _columns(other) for other in shorter):
                continue
            if _is_impossible(both(whole, *shorter)):
                choice = shorter
        widened.append(choice)
    return [choice for place, choice in enumerate(widened) if not _is_said_by(choice, place, widened, translation)]


def _is_said_by(choice: Conjunction, place: int, choices: list[Conjunction], translation: Translation) -> bool:
    """Whether one of the other alternatives follows from this one; of two that say the same, the first is kept."""
    for other_place, other in enumerate(choices):
        follows = other_place != place and _is_impossible(translation.with_facts(both(*choice, negation(both(*other)))))
        if follows and (
            other_place < place or not _is_impossible(translation.with_facts(both(*other, negation(both(*choice)))))
        ):
            return True
    return False


def _is_impossible(formula: Formula) -> bool:
    try:
        return model_by_differences(formula) is Model.NONE
    except (OutOfClass, TooMany):
        return False


def _few_alternatives(formula: Formula) -> list[Conjunction]:
    """The disjunctive normal form, without those parts of a conjunction that would make it too long."""
    try:
        return alternatives(formula, MOST_ALTERNATIVES)
    except TooMany:
        if not isinstance(formula, All):
            return [()]
    few: list[Formula] = [part for part in formula.parts if isinstance(part, Flag | Bound)]
    for part in formula.parts:
        try:
            alternatives(both(*few, part), MOST_ALTERNATIVES)
        except TooMany:
            continue
        few.append(part)
    return alternatives(both(*few), MOST_ALTERNATIVES)


def _by_nulls(choice: Conjunction, kept: frozenset[int], translation: Translation) -> Iterable[Conjunction]:
    """The alternatives in each of which it is settled whether the kept columns that are compared are NULL."""
    flags = {atom for atom in choice if isinstance(atom, Flag)}
    for column in sorted(kept):
        null = translation.column_null(column)
        if not isinstance(null, Flag) or null in flags or null._replace(holds=False) in flags:
            continue
        if any(column in _columns(atom) for atom in choice):
            yield from _by_nulls((*choice, null), kept, translation)
            yield from _by_nulls((*choice, null._replace(holds=False)), kept, translation)
            return
    yield choice


def _projected(choice: Conjunction, kept: frozenset[int], translation: Translation) -> Conjunction | None:
    """The alternative without the others' variables and without what is true of every row; None if impossible."""
    flags = [atom for atom in choice if isinstance(atom, Flag)]
    nulls = {flag.column for flag in flags if flag.holds and flag == translation.column_null(flag.column)}
    there = kept - nulls  # the value of a column that is NULL means nothing
    bounds = _differences([atom for atom in choice if isinstance(atom, Bound)], there)
    whole = None if bounds is None else closure(bounds)
    if whole is None:
        return None
    gone = {node for pair in whole.edges for node in pair if node != ZERO and node.column not in there}
    shown = _needed(whole.without(gone), translation)
    told = tuple(f for f in flags if f.column in there or (f.column in kept and f.name.startswith("n")))
    return (*sorted(told), *sorted(shown))


def _differences(bounds: list[Bound], kept: frozenset[int]) -> list[Bound] | None:
    """The differences among the bounds, and those that follow from sums when the others' variables are left out of
    them; None if they contradict each other."""
    sums = [bound for bound in bounds if not is_difference(bound)]
    gone = {variable for variable in variables(sums) if variable.column not in kept}
    left = without(bounds, gone) if gone else bounds
    return None if left is None else [bound for bound in left if is_difference(bound)]


def _needed(whole: Closure, translation: Translation) -> list[Bound]:
    """Bounds from which all others follow, given the limits of the columns."""
    about = {node for pair in whole.edges for node in pair if node != ZERO}
    limits = [bound for bound in translation.bounds_of(about) if isinstance(bound, Bound)]
    needed = [bound_of(*pair, weight) for pair, weight in whole.edges.items()]
    # Bounds between two columns are left out first: those with a constant say more to a reader, and to an index.
    for bound in sorted(needed, key=lambda b: (-len(b.terms), b)):
        others = [other for other in needed if other != bound]
        implied = closure([*limits, *others])
        if implied is not None and _follows(bound, implied):
            needed = others
    return needed


def _follows(bound: Bound, whole: Closure) -> bool:
    origin, destination, weight = edge_of(bound)
    known = whole.edges.get((origin, destination))
    return known is not None and known <= weight


def _columns(atom: Atom) -> frozenset[int]:
    if isinstance(atom, Flag):
        return frozenset({atom.column})
    return frozenset(variable.column for variable, _ in atom.terms)
