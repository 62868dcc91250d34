"""Deletions and updates of a relation whose key can be seen.

Let U occur once in each term, let k be a key of U, and let the stored relation V show k. Then the rows of V with one
value of k come from the one row u of U that has it: they are {u} × T(u), with the weights of the partners T(u). So

    u leaves                    V loses all rows with its key
    u becomes n, same key       V's rows with that key get n's values in their own columns, and go if n fails a local
                                condition; if u and n agree in their links, T(n) = T(u), and their weights stay

    ΔV = π[own columns from ΔU, others from V] (σ[local] ΔU ⋈[k] V_old)

Both signs at once: the entries of u take V's rows away, those of n bring them back as they are now. Undecided are the
rows that come without another one going that passed the local conditions with the same key and links: for those,
nothing in V tells the partners. The links count because what hangs on them was chosen for u.

A grouping that shows k keeps the same rows with aggregates of the partners behind them. Its groups with a value of k
are those of u, in which own columns are constant; so groups never meet, whatever the aggregates are, as long as what
they read of U counts among the links. Keys compare as groups do, NULL with NULL.

With U in a term more than once, rows of V go as soon as one of the rows behind them leaves, if the keys of all of them
can be seen; for rows that come, the rule is of no use.

Theorem 4.1, and more: where nothing else is joined, the change alone suffices.

    E = Σ ± π σ (U × constant rows) + what does not read U:    ΔE = Σ ± π σ (ΔU × constant rows)

With one occurrence of U in each term that has it, this holds for insertions, deletions and updates alike, whatever the
view shows and with all weights. The text states it for insertions into sets, and for a relation that is there once:
with a self join, ΔE needs U itself. A grouping of such an E whose counts and sums are kept needs its own counts
besides, and if it keeps an extremum, the rows below once one of them may go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemark.algebra.expressions import Call, Expression, conjunction, substitute
from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Distinct, Join, Negate, Plan, Project, Scan, State, Touched, relations_of, union
from tidemark.algebra.types import BOOLEAN
from tidemark.analysis.autonomy.stored import Criterion, Kept, Refusal, Seen
from tidemark.analysis.autonomy.terms import Term, is_identifying


def by_key(seen: Seen, keys: RelationKeys) -> Criterion | Refusal:
    """The rule for a relation that is there once in each term."""
    name, schema = seen.relation.relation, seen.relation.schema
    found = key_shown(seen, keys)
    if isinstance(found, Refusal):
        return found
    if seen.kept.is_grouped and not seen.kept.shown:
        return Refusal("a total over all rows is there also when there are none")
    links = seen.condition_links | seen.output_links(range(len(seen.kept.shown))) | seen.argument_links
    if not all(is_identifying(schema[link].type) for link in links):
        return Refusal(f"the rows that are joined depend on a DOUBLE or an array of {name!r}")
    columns = tuple(dict.fromkeys((*found, *sorted(links))))
    fixed = [schema[column].name for column in columns]
    shown = ", ".join(schema[column].name for column in found)
    reason = f"the key of {name!r} ({shown}) can be seen, so that the rows of a deleted or updated row are known"
    reason += f", as long as {', '.join(fixed)} stay" if fixed else ""
    return Criterion(
        _rewritten(seen, found),
        reason,
        without_partner(seen, columns),
        steady=frozenset(columns),
        local=seen.local,
    )


def key_shown(seen: Seen, keys: RelationKeys) -> dict[int, int] | Refusal:
    """A key of the relation, each of its columns with the stored column that shows it."""
    name, schema = seen.relation.relation, seen.relation.schema
    known = sorted(keys.get(name, ()), key=lambda key: (len(key), key))
    if not known:
        return Refusal(f"{name!r} has no key")
    missing: list[tuple[int, ...]] = []
    for key in known:
        places = {column: seen.shown_at(column) for column in key}
        found = {column: place for column, place in places.items() if place is not None}
        if len(found) == len(key):
            return found
        missing.append(tuple(column for column in key if column not in found))
    least = min(missing, key=len)
    names = tuple(schema[column].name for column in least)
    return Refusal(f"the key of {name!r} cannot be seen: {', '.join(names)}", tuple(f"{name}.{n}" for n in names))


def _rewritten(seen: Seen, key: dict[int, int]) -> Plan:
    """π[own columns from ΔU, others from V] (σ[local] ΔU ⋈[k] V_old)."""
    change, stored, width = seen.change, seen.kept.old, seen.width
    both = Join(change, stored, same(change, stored, key))
    shown = len(seen.kept.shown)
    cells = tuple(
        substitute(seen.own[place], both.columns())
        if place < shown and place in seen.own
        else both.column(width + place)
        for place in range(len(stored.schema))
    )
    return Project(both, stored.schema.names, cells)


def same(left: Plan, right: Plan, pairs: Mapping[int, int]) -> Expression:
    """The condition of a join that columns of both sides are the same, NULL with NULL."""
    width = len(left.schema)
    parts: list[Expression] = []
    for mine, others in pairs.items():
        a, b = left.column(mine), replace(right.column(others), index=width + others)
        # Equality is what engines join by; NULL meets NULL only where both can be NULL.
        function = "is_not_distinct" if a.nullable and b.nullable else "eq"
        parts.append(Call(function, (a, b), BOOLEAN, nullable=function == "eq" and (a.nullable or b.nullable)))
    return conjunction(tuple(parts))


def without_partner(seen: Seen, columns: tuple[int, ...]) -> Plan:
    """The entries of rows that come where none goes that agrees in the given columns.

    A row that goes and one that comes cancel in these columns; what has a positive weight then came alone.
    """
    change = seen.change
    names = tuple(change.schema[column].name for column in columns)
    alone = Distinct(Project(change, names, tuple(change.column(column) for column in columns)))
    return Touched(change, alone, columns)


def by_keys_of_all(kept: Kept, relation: str, keys: RelationKeys) -> Criterion | Refusal:
    """The rule for deletions from a relation that stands several times in the only term."""
    terms = kept.terms(relation)
    if len(terms) != 1 or not terms[0].places:
        return Refusal("its rows come from several parts of an outer join or of a union")
    change = Scan(relation, terms[0].leaves[terms[0].places[0]].schema, State.DELTA)
    left: Plan = kept.old
    parts: list[Plan] = []
    for place in terms[0].places:
        found = key_shown(Seen(kept, change, (terms[0].from_first(place),)), keys)
        if isinstance(found, Refusal):
            return found
        if not found:
            return Refusal(f"{relation!r} has one row at most")
        names = tuple(change.schema[column].name for column in found) + change.schema.names
        touched = Project(change, names, tuple(change.column(column) for column in found) + change.columns())
        gone = Touched(left, touched, tuple(found.values()))
        parts.append(Negate(gone))
        left = union((left, Negate(gone)), kept.schema)
    reason = f"the keys of all rows of {relation!r} behind a row can be seen, so that it goes with any of them"
    return Criterion(union(tuple(parts), kept.schema), reason, Distinct(change), steady=None)


def by_change(kept: Kept, relation: str) -> Criterion | Refusal:
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
        return Criterion(delta, reason, insertions=True)
    lost = lost_extrema(kept, _changed(terms[0]))
    return Criterion(
        delta,
        f"{reason}, and its counts and sums add up",
        lost,
        of_input=True,
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
    if not any(call.is_extremum for call in kept.calls):
        return None
    return Distinct(Negate(change))
