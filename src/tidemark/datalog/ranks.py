"""What a program says about some rows, derived on demand, with the order in which it was derived.

The rows of a predicate that a pattern asks for are derived by the query rules (``demand``), which read no more of the
relations than they need. Each derived row has a *rank*: it rose when the row was added, after everything that the row
was derived from. So of the rows of its own stratum a row needs only such with a smaller rank, and a derivation that
keeps to them never leads back to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemark.algebra.expressions import Value
from tidemark.algebra.scalar import Row
from tidemark.datalog.demand import magic, query_rules
from tidemark.datalog.fixpoint import Evaluation, Limits
from tidemark.datalog.program import Program
from tidemark.datalog.rederive import Groups
from tidemark.datalog.relations import Lookup, Relation, Remembered, Rows


class Facts:
    """Rows of the predicates of a program, as far as they were asked for. More can be asked for at any time."""

    def __init__(self, program: Program, base: Lookup, limits: Limits | None = None) -> None:
        self.program = program
        self.limits = limits
        self._base: dict[str, Relation] = {name: Remembered(base, name) for name in program.base}
        self._level = {name: number for number, s in enumerate(program.strata) for name in s.predicates}
        self.relations: dict[str, Relation] = dict(self._base)
        self._ranks: dict[tuple[str, Row], int] = {}

    def ask(self, predicate: str, wanted: Mapping[int, Value]) -> list[Row]:
        """The rows of a predicate that have the wanted values, and all that they can be derived from."""
        width = len(self.program.schemas[predicate])
        demand = (predicate, "".join("b" if i in wanted else "f" for i in range(width)))
        queries = query_rules(self.program, [demand])
        relations: dict[str, Relation] = {**self._base, **{name: Rows() for name in self.program.predicates}}
        for asked in queries.demands:
            relations[magic(asked)] = Rows()
        evaluation = _Ranked(relations, self.limits, self._ranks)
        evaluation.add(queries.rules)
        for level, rule in queries.late:
            evaluation.add_late_rule(level, rule)
        for level, grouping, asked in queries.groupings:
            evaluation.add_late(level, Groups(evaluation, self.program, grouping, asked).answer)
        evaluation.rows(magic(demand)).add([tuple(wanted[i] for i in sorted(wanted))])
        evaluation.run()
        self.relations = relations
        positions = tuple(sorted(wanted))
        return list(relations[predicate].matching(positions, [tuple(wanted[i] for i in positions)]))

    def may_rest_on(self, head: str, row: Row, part: str, other: Row) -> bool:
        """Whether a derivation of one row may use another: any of a lower stratum, of its own only earlier ones."""
        if part not in self._level or self._level[part] != self._level[head]:
            return True
        return self._ranks[part, other] < self._ranks[head, row]


class _Ranked(Evaluation):
    """An evaluation that remembers when each row came."""

    def __init__(
        self, relations: dict[str, Relation], limits: Limits | None, ranks: dict[tuple[str, Row], int]
    ) -> None:
        super().__init__(relations, limits)
        self._ranks, self._time = ranks, 0
        ranks.clear()

    def _add(self, predicate: str, found: Iterable[Row]) -> list[Row]:
        added = super()._add(predicate, found)
        self._time += 1
        for row in added:
            self._ranks[predicate, row] = self._time
        return added
