"""WHY and WHY NOT for rows of Datalog predicates.

A derivation of a row is a rule, the values of its variables, and derivations of the rows of its body; what the rule
negates is absent. Rows of the same recursion come by rank (``datalog.proofs``), so no row rests on itself. It is put
together without recursion, because a proof can be as deep as a recursion goes.

WHY NOT takes each rule and says which part of its body fails, for values that come as far as any do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from tidemark.algebra.clauses import Assign, Atom, Condition, DatalogRule, Grouping, Not, Part
from tidemark.algebra.expressions import Call, Column, Value
from tidemark.algebra.functions import rank
from tidemark.algebra.scalar import Row, value_of
from tidemark.datalog.proofs import Binding, Facts, Search, bound_part
from tidemark.provenance.questions import Pattern
from tidemark.provenance.tree import Absence, Answer, Derivation, Kind, cell, counted, named_cells

Goal: TypeAlias = tuple[str, Row]
MOST_DEEP = 3
"""How many rules deep an absence is followed."""


class Base(Protocol):
    """What explains the rows of the relations that the rules read."""

    def why_base(self, relation: str, row: Row) -> Derivation: ...

    def why_not_base(self, relation: str, pattern: Pattern) -> Absence: ...


@dataclass(frozen=True)
class _Step:
    """How one row is derived: by a rule under a binding, or as a group of rows."""

    needs: tuple[Goal, ...]
    rule: DatalogRule | None = None
    binding: Binding = field(default_factory=dict)
    total: int = 0


class Clauses:
    """Explanations of the predicates of a program. ``rows`` is how many rows of a large group are shown, ``titles`` are
    names for people, of predicates that nobody named."""

    def __init__(self, facts: Facts, base: Base, rows: int = 3, titles: Mapping[str, str] | None = None) -> None:
        self.facts, self.base, self.rows, self.titles = facts, base, rows, titles or {}
        self.program = facts.program
        self._inner = frozenset(n for g in facts.program.groupings for n in (g.predicate, g.source))

    def explain(self, predicate: str, wanted: Mapping[int, Value]) -> Answer:
        """Why the first row that has the wanted values is there; or why none is."""
        found = sorted(self.facts.ask(predicate, wanted), key=_order)
        if found:
            return self._derivation((predicate, found[0]))
        return self._absence(predicate, wanted, frozenset())

    # Why

    def _derivation(self, goal: Goal) -> Derivation:
        steps: dict[Goal, _Step] = {}
        done: dict[Goal, Derivation] = {}
        waiting = [goal]
        while waiting:
            current = waiting[-1]
            if current in done:
                waiting.pop()
                continue
            if current not in steps:
                steps[current] = self._step(current)
            missing = [need for need in steps[current].needs if need not in done]
            if missing:
                waiting += missing
            else:
                done[current] = self._built(current, steps[current], done)
        return done[goal]

    def _step(self, goal: Goal) -> _Step:
        predicate, row = goal
        for grouping in self.program.groupings_of([predicate]):
            return self._group(grouping, row)
        for rule in self.program.rules_of([predicate]):
            wanted = dict(enumerate(row))
            search = Search(rule, wanted, self.facts.relations, lambda p, r: self.facts.may_rest_on(*goal, p, r))
            binding = next(search.solutions(), None)
            if binding is not None:
                atoms = [atom for atom in rule.atoms if atom.predicate in self.program.predicates]
                return _Step(tuple((atom.predicate, bound_part(atom, binding)[1]) for atom in atoms), rule, binding)
        raise AssertionError(f"{row} of {predicate} is there, but no rule derives it")

    def _group(self, grouping: Grouping, row: Row) -> _Step:
        """The rows of a group: those that hold its extrema first, then the first few."""
        keys = tuple(range(grouping.keys))
        rows = sorted(self.facts.relations[grouping.source].matching(keys, [row[: grouping.keys]]), key=_order)
        chosen: dict[Row, None] = {}
        for call, value in zip(grouping.calls, row[grouping.keys :], strict=True):
            if call.function in ("min", "max") and call.column is not None:
                column = call.column
                chosen.update(dict.fromkeys([one for one in rows if one[column] == value][:1]))
        shown = rows if len(rows) <= self.rows else list(dict.fromkeys([*chosen, *rows[: self.rows]]))
        return _Step(tuple((grouping.source, one) for one in shown), total=len(rows))

    def _built(self, goal: Goal, step: _Step, done: Mapping[Goal, Derivation]) -> Derivation:
        predicate, row = goal
        names = self.program.schemas[predicate].names
        if step.rule is None:
            shown = len(step.needs)
            size = counted(step.total, "row") + ("" if shown == step.total else f", of which {shown:,} here")
            children = tuple(done[need] for need in step.needs)
            return Derivation(Kind.GROUP, predicate, names, row, f"a group of {size}", children, total=step.total)
        below: list[Answer] = []
        for part in step.rule.body:
            if isinstance(part, Atom):
                one = (part.predicate, bound_part(part, step.binding)[1])
                below.append(done[one] if one in done else self.base.why_base(*one))
            elif isinstance(part, Not):
                below.append(self._excluded(part, step.binding))
        how = f"{self._text(step.rule)}   {self._values(step.rule, step.binding)}".rstrip()
        title = self._title(predicate)
        by = Derivation(Kind.RULE, title, names, row, how, tuple(below), rule=step.rule)
        return Derivation(Kind.PREDICATE, title, names, row, children=(by,), passes_on=predicate in self._inner)

    def _text(self, rule: DatalogRule) -> str:
        """The rule as it was written. That NULL never joins goes without saying."""
        text = self.program.text
        if text is not None and rule.label.isdigit() and 0 < int(rule.label) <= len(text.clauses):
            return " ".join(text.clauses[int(rule.label) - 1].text.split())
        body = tuple(self._titled(part) for part in rule.body if not _is_presence(part))
        return str(replace(rule, head=rule.head.renamed(self._title(rule.head.predicate)), body=body))

    def _title(self, predicate: str) -> str:
        return self.titles.get(predicate, predicate)

    def _titled(self, part: Part) -> Part:
        match part:
            case Atom(predicate=predicate):
                return part.renamed(self._title(predicate))
            case Not(atom=atom):
                return replace(part, atom=atom.renamed(self._title(atom.predicate)))
        return part

    def _excluded(self, part: Not, binding: Binding) -> Absence:
        """That no row of a negated atom is there."""
        positions, key = bound_part(part.atom, binding)
        shown = dict(zip(positions, key, strict=True))
        cells = ", ".join(cell(shown[i]) if i in shown else "_" for i in range(len(part.atom.arguments)))
        title = self._title(part.atom.predicate)
        return Absence(title, (), f"no row {title}({cells})")

    def _values(self, rule: DatalogRule, binding: Binding) -> str:
        if any(atom.predicate in self._inner for atom in rule.atoms):
            return ""  # the values of a group, which are those of the row
        names = [(index, rule.variables[index].name) for index in sorted(binding)]
        return ", ".join(f"{name} = {cell(binding[index])}" for index, name in names if not name.startswith("?"))

    # Why not

    def _absence(self, predicate: str, wanted: Mapping[int, Value], above: frozenset[object]) -> Absence:
        names = self.program.schemas[predicate].names
        pattern = tuple((names[i], value) for i, value in sorted(wanted.items()))
        what = named_cells(tuple(n for n, _ in pattern), tuple(v for _, v in pattern)) if pattern else "any row"
        reason = f"{what} is not in {self._title(predicate)}"
        if (predicate, pattern) in above:
            return Absence(self._title(predicate), pattern, f"{reason}, which is asked already above")
        if len(above) >= MOST_DEEP:
            return Absence(self._title(predicate), pattern, reason)
        below = above if predicate in self._inner else above | {(predicate, pattern)}
        for grouping in self.program.groupings_of([predicate]):
            return self._no_group(grouping, wanted, below)
        rules = self.program.rules_of([predicate])
        ways = tuple(self._failing(rule, wanted, below) for rule in rules)
        return Absence(self._title(predicate), pattern, reason, ways)

    def _no_group(self, grouping: Grouping, wanted: Mapping[int, Value], above: frozenset[object]) -> Absence:
        keys = {i: value for i, value in wanted.items() if i < grouping.keys}
        positions = tuple(sorted(keys))
        found = list(self.facts.relations[grouping.predicate].matching(positions, [tuple(keys[i] for i in positions)]))
        if not found:
            (rule,) = self.program.rules_of([grouping.source])
            inner = self._failing(rule, keys, above)
            return Absence(grouping.predicate, (), "there is no such group", inner.children)
        there = min(found, key=_order)
        text = f"the group is there, but with {', '.join(map(cell, there[grouping.keys :]))}"
        return Absence(grouping.predicate, (), text, (self._derivation((grouping.predicate, there)),))

    def _failing(self, rule: DatalogRule, wanted: Mapping[int, Value], above: frozenset[object]) -> Absence:
        search = Search(rule, wanted, self.facts.relations)
        assert next(search.solutions(), None) is None, "a row that is not there has no derivation"
        text, part, binding = self._text(rule), search.failed, search.reached
        if part is None:
            return Absence(rule.head.predicate, (), f"{text}   gives no such values")
        values = self._values(rule, binding)
        reason = f"{text}   fails" + (f" for {values}" if values else "")
        return Absence(rule.head.predicate, (), reason, (self._why_part(search, part, binding, above),))

    def _why_part(self, search: Search, part: Part, binding: Binding, above: frozenset[object]) -> Answer:
        match part:
            case Atom(predicate=predicate):
                positions, key = bound_part(part, binding)
                if any(True for _ in self.facts.relations[predicate].matching(positions, [key])):
                    return Absence(predicate, (), f"no row of {part} has the same value where a variable occurs twice")
                if predicate not in self.program.predicates:
                    return self.base.why_not_base(predicate, tuple(zip(positions, key, strict=True)))
                return self._absence(predicate, dict(zip(positions, key, strict=True)), above)
            case Not(atom=atom):
                positions, key = bound_part(atom, binding)
                there = min(self.facts.relations[atom.predicate].matching(positions, [key]), key=_order)
                if atom.predicate in self.program.predicates:
                    return self._derivation((atom.predicate, there))
                return self.base.why_base(atom.predicate, there)
            case Assign(variable=variable, expression=expression):
                value = cell(value_of(expression, search.values(binding)))
                text = str(Condition(expression))
                return Absence("", (), f"{text} = {value}, not {cell(binding.get(variable.index))}")
        return Absence("", (), f"{part} is not true")


def _is_presence(part: Part) -> bool:
    match part:
        case Condition(expression=Call(function="is_not_null", arguments=(Column(),))):
            return True
    return False


def _order(row: Row) -> tuple[tuple[bool, object], ...]:
    return tuple((value is None, rank(value)) for value in row)
