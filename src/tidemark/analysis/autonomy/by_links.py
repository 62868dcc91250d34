"""Any change of a relation whose partners can be seen: the stored relation itself stands for what is joined.

Let U occur once, in the only term, and let V show its *links*: all columns of U that conditions on its partners read.
Then the partners of a row are a function of its links, T(links), and V holds T(links) whole as soon as it holds one row
with these links:

    π[links, partners] V  =  {(l, t) : some row of U with the links l passes the local conditions, and t ∈ T(l)}

so that, where V covers the links of a change,

    ΔV = σ[local] ΔU ⋈[links] δ π[links, partners] V_old

For weights to follow, T(l) must have no two equal rows in the columns that V shows of them: its relations have keys
that the links and these columns determine. Then every partner counts once, however often V has it.

A row that leaves was in V with its partners, so its links are covered or it has no partner at all; a row that comes
with links that V does not show, and that no leaving row had, is undecided. This is the coverage of Theorem 4.4 B
where links are compared for equality: it needs no proof, only a look at V.

A grouping whose keys show links and partners is V for this purpose; what its aggregates read must follow from the row
of U and from those keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tidemark.algebra.expressions import Expression, substitute
from tidemark.algebra.keys import RelationKeys, keys_of
from tidemark.algebra.plans import Difference, Distinct, Join, Negate, Plan, Project, Touched, union
from tidemark.analysis.autonomy.by_key import lost_extrema, same, without_partner
from tidemark.analysis.autonomy.stored import Criterion, Refusal, Seen


def by_links(seen: Seen, keys: RelationKeys) -> Criterion | Refusal:
    """The rule for a relation that is there once, in the only term."""
    name, schema, kept = seen.relation.relation, seen.relation.schema, seen.kept
    if len(seen.terms) > 1 or seen.terms[0].negative:
        return Refusal(f"{name!r} is part of an outer join or of a union")
    if kept.is_grouped and not (kept.calls and all(call.is_merged for call in kept.calls)):
        return Refusal("its groups keep no counts and sums that the change could be added to")
    argued = range(len(kept.shown), len(seen.terms[0].outputs))
    hidden = [place for place in argued if place not in seen.own and not _is_shown(seen, place)]
    if hidden:
        return Refusal("an aggregate reads what the groups do not show of the rows that are joined")
    links = sorted(seen.condition_links | seen.output_links(range(len(kept.shown))))
    if not links:
        return Refusal(f"no condition links {name!r} to what it is joined with")
    places = {link: seen.shown_at(link) for link in links}
    missing = tuple(schema[link].name for link, place in places.items() if place is None)
    if missing:
        return Refusal(
            f"what links {name!r} to the others cannot be seen: {', '.join(missing)}",
            tuple(f"{name}.{column}" for column in missing),
        )
    if not _partners_are_told_apart(seen, keys):
        return Refusal(f"equal rows of what {name!r} is joined with cannot be told apart")
    found = {link: place for link, place in places.items() if place is not None}
    return _Links(seen, found).rule()


def _is_shown(seen: Seen, place: int) -> bool:
    outputs = seen.terms[0].outputs
    return outputs[place] in outputs[: len(seen.kept.shown)]


def _partners_are_told_apart(seen: Seen, keys: RelationKeys) -> bool:
    """Whether the partners of one row differ in the columns that are shown of them.

    Rows of the relation are given a key, all their columns, whether they have one or not: then rows of the join with
    all of these columns, and what is shown of the partners, have a key exactly if partners of one row are told apart.
    """
    term = seen.terms[0]
    shown = tuple(term.outputs[place] for place in range(len(seen.kept.shown)) if place not in seen.own)
    outputs = seen.relation.columns() + shown
    known = {**keys, seen.relation.relation: frozenset({tuple(range(seen.width))})}
    return bool(keys_of(replace(term, outputs=outputs).plan(tuple(f"c{i}" for i in range(len(outputs)))), known))


@dataclass(frozen=True)
class _Links:
    """The links of a relation, each with the stored column that shows it."""

    seen: Seen
    places: dict[int, int]

    def rule(self) -> Criterion:
        seen = self.seen
        name, schema = seen.relation.relation, seen.relation.schema
        links = ", ".join(schema[link].name for link in self.places)
        reason = f"what {name!r} is joined with can be seen for each {links} that is there already"
        lost = lost_extrema(seen.kept, seen.change)
        undecided = self.uncovered if lost is None else union((self.uncovered, lost), schema)
        return Criterion(
            self.delta,
            reason,
            undecided,
            alone=without_partner(seen, tuple(self.places)) if lost is None else None,
            of_input=seen.kept.is_grouped,
            deletions=lost is None,
            steady=frozenset(self.places) if lost is None else None,
            local=seen.local,
        )

    @cached_property
    def near(self) -> Plan:
        """The stored rows that have the links of a changed row."""
        change = self.seen.change
        links = tuple(change.column(link) for link in self.places)
        names = tuple(link.name for link in links) + change.schema.names
        # All columns stand behind the links, because entries that agree in the links would cancel without them.
        touched = Project(change, names, links + change.columns())
        return Touched(self.seen.kept.old, touched, tuple(self.places.values()))

    @property
    def delta(self) -> Plan:
        """σ[local] ΔU ⋈[links] δ π[links, partners] V_old, as rows of V, or as rows that are grouped."""
        seen, kept = self.seen, self.seen.kept
        shown = [place for place in range(len(kept.shown)) if place not in seen.own]
        read = list(dict.fromkeys((*self.places.values(), *shown)))
        near = self.near
        partners = Distinct(Project(near, tuple(f"c{i}" for i in read), tuple(near.column(i) for i in read)))
        pairs = {link: read.index(place) for link, place in self.places.items()}
        both = Join(seen.change, partners, same(seen.change, partners, pairs))
        columns, outputs = both.columns(), seen.terms[0].outputs

        def cell(place: int) -> Expression:
            if place in seen.own:
                return substitute(seen.own[place], columns)
            stored = place if place < len(kept.shown) else outputs.index(outputs[place])
            return columns[seen.width + read.index(stored)]

        names = kept.row_names if kept.is_grouped else kept.schema.names
        return Project(both, names, tuple(cell(place) for place in range(len(outputs))))

    @property
    def uncovered(self) -> Plan:
        """The entries of rows that come with links that neither V nor a row that leaves has."""
        change, near = self.seen.change, self.near
        names = tuple(change.schema[link].name for link in self.places)

        def links(plan: Plan) -> Project:
            return Project(plan, names, tuple(plan.column(link) for link in self.places))

        shown = Project(near, names, tuple(near.column(place) for place in self.places.values()))
        known = union((shown, links(Distinct(Negate(change)))), shown.schema)
        missing = Difference(Distinct(links(Distinct(change))), Distinct(known))
        return Touched(change, missing, tuple(self.places))
