"""Algorithm 2, Rederivation on Demand: the maintenance rules when no view is stored, only the relations.

The rules D, R and I of Algorithm 1 are taken as chains with demands for the old state of every predicate that they
read, in the old state or in the new: what is demanded of p arrives in p^new by N1. Before E1 asks whether a row that
was derived for p^ins was there already, a demand asks for it (4.1.4). The query rules Q answer all demands.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.algebra.rules import Atom, Rule, Var, listing
from tidemark.datalog.demand import Demand, QueryRules, Rewritten, asking, query_rules, rewritten
from tidemark.datalog.maintenance_rules import (
    INSERTED,
    NEW,
    StratumRules,
    additions,
    maintenance_rules,
    survivor,
    variant,
)
from tidemark.datalog.program import Program


@dataclass(frozen=True)
class StratumDemands:
    """The rules of one stratum: D with its demands; R and I with theirs; E1's demands; those of changed groups.

    ``closing`` are N' and N'' of its own predicates, for the strata above.
    """

    maintenance: StratumRules
    deletions: Rewritten
    additions: Rewritten
    idle: tuple[Rule, ...]
    groups: tuple[Demand, ...]
    closing: tuple[Rule, ...]


@dataclass(frozen=True)
class DemandProgram:
    """M and Q of section 4.3."""

    strata: tuple[StratumDemands, ...]
    queries: QueryRules

    def __str__(self) -> str:
        maintenance = [
            rule
            for stratum in self.strata
            for rule in (
                *stratum.deletions.rules,
                *stratum.deletions.late,
                *stratum.additions.rules,
                *stratum.additions.late,
                *stratum.idle,
                *stratum.maintenance.survivors,
                *stratum.maintenance.additions,
                *stratum.maintenance.effects,
            )
        ]
        late = [rule for _, rule in self.queries.late]
        groupings = [str(grouping) for _, grouping, _ in self.queries.groupings]
        parts = [listing(maintenance), listing([*self.queries.rules, *late]), *dict.fromkeys(groupings)]
        return "\n".join(filter(None, parts))


def demand_program(program: Program) -> DemandProgram:
    strata = tuple(_of_stratum(stratum, program) for stratum in maintenance_rules(program))
    demands = [
        demand
        for stratum in strata
        for demand in (*stratum.deletions.demands, *stratum.additions.demands, *stratum.groups)
    ]
    demands += [_whole(name, program) for s in strata for name in s.maintenance.stratum.predicates if s.idle]
    return DemandProgram(strata, query_rules(program, demands))


def _of_stratum(stratum: StratumRules, program: Program) -> StratumDemands:
    derived = frozenset(program.predicates)

    def on_demand(name: str) -> str | None:
        plain = name.removesuffix(f"^{NEW}")
        return plain if plain in derived else None

    groups = tuple(_by_keys(grouping.source, grouping.keys, program) for grouping in stratum.groupings)
    return StratumDemands(
        stratum,
        rewritten(stratum.deletions, on_demand),
        rewritten((*stratum.rederivations, *stratum.insertions), on_demand),
        tuple(_idle_check(name, program) for name in stratum.stratum.predicates) if stratum.effects else (),
        groups,
        tuple(
            rule
            for name in stratum.stratum.predicates
            for rule in (survivor(name, program), *additions(name, program, (INSERTED,)))
        ),
    )


def _by_keys(source: str, keys: int, program: Program) -> Demand:
    return source, "b" * keys + "f" * (len(program.schemas[source]) - keys)


def _whole(predicate: str, program: Program) -> Demand:
    return predicate, "b" * len(program.schemas[predicate])


def _idle_check(predicate: str, program: Program) -> Rule:
    """M_E1: every row of p^ins is asked for in the old state."""
    schema = program.schemas[predicate]
    row = Atom(predicate, tuple(Var(position, name) for position, name in enumerate(schema.names)))
    inserted = row.renamed(variant(predicate, INSERTED))
    return Rule(asking(row, _whole(predicate, program)), (inserted,), schema, "M E1")
