"""What a view would have to show for a statement to be autonomous: an aid for those who define it (BLAKELEY 8.2).

Each rule that does not hold names the columns that it misses. A view that shows them, too, is classified in the same
way; what is reported makes the statement's class stronger, and nothing in it is there in vain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Plan, Scan
from tidemark.analysis.autonomy_classes import Class, Verdict, class_of
from tidemark.analysis.autonomy_kept import Kept
from tidemark.analysis.autonomy_sight import Checks
from tidemark.analysis.autonomy_terms import NotLinear
from tidemark.analysis.autonomy_updates import Statement

MOST_ROUNDS: Final = 3


@dataclass(frozen=True)
class Advice:
    """Columns to show besides, as relation.column, and the class that the statement has then."""

    columns: tuple[str, ...]
    kind: Class
    reason: str


def advice(name: str, plan: Plan, statement: Statement, keys: RelationKeys, checks: Checks) -> tuple[Advice, ...]:
    """Which columns to add to a view so that a statement becomes autonomous, or conditional: the fewest first."""
    return advice_of(Kept.of(name, plan), statement, keys, checks)


def advice_of(kept: Kept, statement: Statement, keys: RelationKeys, checks: Checks) -> tuple[Advice, ...]:
    """The same for what is stored of any definition."""
    now = class_of(kept, statement, keys, checks)
    found: dict[frozenset[str], Advice] = {}
    tried: set[frozenset[str]] = set()
    waiting = [frozenset(missing) for missing in _missing(now)]
    for _ in range(MOST_ROUNDS):
        following: list[frozenset[str]] = []
        for columns in waiting:
            if columns in tried or any(known < columns for known in found):
                continue
            tried.add(columns)
            wider = showing(kept, statement.relation, tuple(sorted(columns)))
            if wider is None:
                continue
            verdict = class_of(wider, statement, keys, checks)
            if verdict.kind > now.kind:
                found[columns] = Advice(tuple(sorted(columns)), verdict.kind, verdict.reason)
            if verdict.kind is not Class.AUTONOMOUS:
                following += [columns | frozenset(missing) for missing in _missing(verdict)]
        waiting = following
    least = (given for columns, given in found.items() if not _is_in_vain(columns, found))
    return tuple(sorted(least, key=lambda given: (-given.kind, len(given.columns), given.columns)))


def _is_in_vain(columns: frozenset[str], found: dict[frozenset[str], Advice]) -> bool:
    return any(other < columns and found[other].kind >= found[columns].kind for other in found)


def _missing(verdict: Verdict) -> Iterator[tuple[str, ...]]:
    return (refusal.missing for refusal in verdict.refusals if refusal.missing)


def showing(kept: Kept, relation: str, columns: tuple[str, ...]) -> Kept | None:
    """The stored relation as it would be if it showed these columns too; None if it is not a single join."""
    try:
        terms = kept.terms(relation)
    except NotLinear:
        return None
    if len(terms) != 1 or terms[0].negative:
        return None
    term = terms[0]
    positions = {
        f"{leaf.relation}.{field.name}": term.offset(place) + index
        for place, leaf in reversed(tuple(enumerate(term.leaves)))
        if isinstance(leaf, Scan)
        for index, field in enumerate(leaf.schema.fields)
    }
    if not all(column in positions for column in columns):
        return None
    product = term.product()
    added = tuple(product.column(positions[column]) for column in columns)
    shown = len(kept.shown)
    outputs = (*term.outputs[:shown], *added, *term.outputs[shown:])
    input_ = replace(term, outputs=outputs).plan(tuple(f"c{i}" for i in range(len(outputs))))
    places = dict(zip(kept.arguments, input_.columns()[shown + len(added) :], strict=True))
    calls = tuple(call.with_expressions(tuple(places[e] for e in call.expressions())) for call in kept.calls)
    fields = (
        *kept.schema.fields[:shown],
        *input_.schema.fields[shown : shown + len(added)],
        *kept.schema.fields[shown:],
    )
    return Kept(
        kept.name,
        replace(kept.schema, fields=fields),
        input_,
        input_.columns()[: shown + len(added)],
        calls,
        kept.is_grouped,
    )
