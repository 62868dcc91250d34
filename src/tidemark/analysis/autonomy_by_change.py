"""Theorem 4.1, and more: where nothing else is joined, the change alone suffices.

    E = Σ ± π σ (U × constant rows) + what does not read U:    ΔE = Σ ± π σ (ΔU × constant rows)

With one occurrence of U in each term that has it, this holds for insertions, deletions and updates alike, whatever the
view shows and with all weights. The text states it for insertions into sets, and for a relation that is there once:
with a self join, ΔE needs U itself. A grouping of such an E whose counts and sums are kept needs its own counts
besides, and if it keeps an extremum, the rows below once one of them may go.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.aggregates import EXTREMA
from tidemark.algebra.plans import Distinct, Negate, Plan, Scan, State, relations_of, union
from tidemark.analysis.autonomy_kept import Kept
from tidemark.analysis.autonomy_rule import Refusal, Rule
from tidemark.analysis.autonomy_terms import Term


def by_change(kept: Kept, relation: str) -> Rule | Refusal:
    """The rule for a stored relation in which the changed one is joined with no other."""
    terms = tuple(term for term in kept.terms(relation) if term.places)
    joined = sorted({name for term in terms for leaf in term.leaves for name in relations_of(leaf)} - {relation})
    if joined:
        return Refusal(f"{relation!r} is joined with {', '.join(map(repr, joined))}")
    if any(len(term.places) > 1 for term in terms):
        return Refusal(f"{relation!r} is joined with itself")
    if kept.is_grouped and not (kept.calls and all(call.is_merged for call in kept.calls)):
        return Refusal("its groups keep no counts and sums that the change could be added to")
    names = kept.row_names if kept.is_grouped else kept.schema.names
    parts = tuple(_of_change(term).plan(names) for term in terms)
    delta = union(parts, parts[0].schema)
    reason = f"every row of it that comes from {relation!r} comes from one row of it alone"
    if not kept.is_grouped:
        return Rule(delta, reason, insertions=True)
    lost = lost_extrema(kept, _changed(terms[0]))
    return Rule(
        delta,
        f"{reason}, and its counts and sums add up",
        lost,
        of_input=True,
        splits=lost is None,
        deletions=lost is None,
        insertions=True,
        steady=frozenset() if lost is None else None,
    )


def _changed(term: Term) -> Scan:
    scan = term.leaves[term.places[0]]
    assert isinstance(scan, Scan)
    return replace(scan, state=State.DELTA)


def _of_change(term: Term) -> Term:
    """The term with the change of the relation in its place."""
    place = term.places[0]
    return replace(term, leaves=(*term.leaves[:place], _changed(term), *term.leaves[place + 1 :]))


def lost_extrema(kept: Kept, change: Plan) -> Plan | None:
    """The deletions below a grouping that keeps an extremum, any of which may be it; None if it keeps none."""
    if not any(call.function in EXTREMA for call in kept.calls):
        return None
    return Distinct(Negate(change))
