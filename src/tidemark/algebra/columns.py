"""Which columns of the relations below matter to the rows of a plan.

Two relations that agree in those columns, as bags, give the same rows and the same errors. So an update that leaves
them as they were does not change the plan's rows, whatever else it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tidemark.algebra.clauses import Argument, Assign, Condition, Const, DatalogRule, Var
from tidemark.algebra.expressions import columns_in, columns_of
from tidemark.algebra.plans import (
    Aggregate,
    Filter,
    Fixpoint,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Scan,
    Union,
    expressions_of,
)
from tidemark.algebra.scalar import can_fail

Columns = frozenset[int]


def columns_read(
    plan: Plan, wanted: Columns | None = None, named: Mapping[Plan, str] = MappingProxyType({})
) -> dict[str, Columns]:
    """The columns that matter, by position, for each relation that the plan scans, and for each ``named`` part of it.

    Only the ``wanted`` columns of the plan's own rows are asked for, or all of them.
    """
    reading = _Reading(named)
    reading.read(plan, frozenset(range(len(plan.schema))) if wanted is None else wanted)
    return reading.found


class _Reading:
    """Collects what is read. A part that stands in several places is looked at once for the same columns."""

    def __init__(self, named: Mapping[Plan, str]) -> None:
        self.found: dict[str, Columns] = {}
        self._named = named
        self._seen: set[tuple[int, Columns]] = set()

    def read(self, plan: Plan, wanted: Columns) -> None:
        """Add what the plan must read so that the ``wanted`` columns of its rows come out right."""
        if (id(plan), wanted) in self._seen:
            return
        self._seen.add((id(plan), wanted))
        if self._named and plan in self._named:
            self._add(self._named[plan], wanted)
        match plan:
            case Scan(relation=relation):
                self._add(relation, wanted)
            case Filter(input=source) | Repeat(input=source):
                self.read(source, wanted | columns_in(expressions_of(plan)))
            case Negate(input=source) | Net(input=source):
                self.read(source, wanted)
            case Project(input=source, expressions=expressions):
                computed = (e for i, e in enumerate(expressions) if i in wanted or can_fail(e))
                self.read(source, columns_in(computed))
            case Aggregate(input=source):
                self.read(source, columns_in(expressions_of(plan)))
            case Union(parts=parts):
                for part in parts:
                    self.read(part, wanted)
            case Join(left=left, right=right, predicate=predicate):
                width, both = len(left.schema), wanted | columns_of(predicate)
                self.read(left, frozenset(i for i in both if i < width))
                self.read(right, frozenset(i - width for i in both if i >= width))
            case Fixpoint(sources=sources, parts=parts, rules=rules):
                for name, part in zip(sources, parts, strict=True):
                    self.read(part, _read_by_rules(rules, name))
            case _:
                # The others look at whole rows: equal ones, the order among them, their windows.
                for child in plan.inputs():
                    self.read(child, frozenset(range(len(child.schema))))

    def _add(self, name: str, columns: Columns) -> None:
        self.found[name] = self.found.get(name, frozenset()) | columns


def _read_by_rules(rules: Iterable[DatalogRule], name: str) -> Columns:
    """The columns of a source that its rules look at. They see sets, so that one whose variable stands nowhere else in
    a rule, and is not asked to be present, is as good as a wildcard there."""
    found: set[int] = set()
    for rule in rules:
        atoms = (*rule.atoms, *(negation.atom for negation in rule.negations))
        others = (part for part in rule.body if isinstance(part, Condition | Assign))
        times = Counter(a.index for atom in (rule.head, *atoms) for a in atom.arguments if isinstance(a, Var))
        times.update(index for part in others for index in part.variables)
        for atom in atoms:
            if atom.predicate == name:
                found.update(i for i, argument in enumerate(atom.arguments) if _matters(argument, times))
    return frozenset(found)


def _matters(argument: Argument, times: Mapping[int, int]) -> bool:
    return isinstance(argument, Const) or (isinstance(argument, Var) and times[argument.index] > 1)
