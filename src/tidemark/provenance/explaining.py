"""Both directions together: a derivation needs absences, and an absence derivations."""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.plans import Fixpoint, Plan
from tidemark.algebra.scalar import Row
from tidemark.provenance.fixpoints import fixpoint_absence, fixpoint_derivation, on_demand
from tidemark.provenance.narrowing import narrowed
from tidemark.provenance.questions import Bag, Pattern, Questions
from tidemark.provenance.tree import Absence, Answer, Derivation, Kind
from tidemark.provenance.why import derivation
from tidemark.provenance.why_not import absence
from tidemark.provenance.wording import with_values


class Explaining(Questions):
    """Explanations of what an engine holds."""

    def answer(self, plan: Plan) -> Bag:
        return self.ask(on_demand(self, narrowed(plan)))

    def why(self, plan: Plan, row: Row) -> Derivation:
        if isinstance(plan, Fixpoint):
            return replace(fixpoint_derivation(self, plan, row), plan=plan)
        return derivation(self, plan, row)

    def why_not(self, plan: Plan, pattern: Pattern) -> Absence:
        if isinstance(plan, Fixpoint):
            return fixpoint_absence(self, plan, pattern)
        return absence(self, plan, pattern)

    def explain(self, name: str, scan: Plan, definition: Plan | None, pattern: Pattern) -> Answer:
        """Why the first row of a relation that has the values of the pattern is there; or why there is none.

        ``scan`` is how the relation is read; ``definition`` is None for a table.
        """
        few = self.few(self.matching(scan, pattern), 1)
        if not few:
            if definition is None:
                return self.why_not(scan, pattern)
            wanted = tuple((scan.schema[i].name, value) for i, value in pattern)
            what = f"({with_values(scan, pattern, joint=', ')})" if pattern else "any row"
            return Absence(name, wanted, f"{what} is not in {name}", (self.why_not(definition, pattern),))
        row, _ = few[0]
        times = self.times(scan, row)
        if definition is None:
            note = self.notes.get((name, row), "")
            return Derivation(Kind.TABLE, name, scan.schema.names, row, note, times=times, plan=scan)
        children = (self.why(definition, row),)
        return Derivation(Kind.VIEW, name, scan.schema.names, row, "", children, times, plan=scan)
