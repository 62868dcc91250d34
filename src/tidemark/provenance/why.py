"""WHY: one derivation of a row, step by step down to stored rows.

Each function takes a row that is there. It finds rows of the inputs that give it, by a question restricted to the row,
and explains those. What has to be missing (the other side of EXCEPT, the partner of an anti join) is explained by
``why_not``.

Both directions together: a derivation needs absences, and an absence derivations.
"""

from __future__ import annotations

from dataclasses import replace

from tidemark.algebra.approximate import approximate_columns
from tidemark.algebra.expressions import TRUE, Expression
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Fixpoint,
    Intersection,
    Join,
    Plan,
    Repeat,
    Scan,
    Sort,
    Touched,
    Union,
    Unnest,
    Values,
    Window,
)
from tidemark.algebra.printing import show_node
from tidemark.algebra.scalar import Row
from tidemark.provenance.blocks import JoinBlock, block_of, labels, signed
from tidemark.provenance.fixpoints import fixpoint_absence, fixpoint_derivation, on_demand
from tidemark.provenance.questions import Bag, Pattern, Questions, filtered, narrowed, whole
from tidemark.provenance.tree import Absence, Answer, Derivation, Kind, counted
from tidemark.provenance.why_not import absence, missing_or_there
from tidemark.provenance.wording import block_text, condition_text, name_of, with_values


def derivation(questions: Questions, plan: Plan, row: Row) -> Derivation:
    """One derivation of a row that is in the plan."""
    match plan:
        case Scan():
            return _scanned(questions, plan, row)
        case Values():
            return _made(Kind.WRITTEN, plan, row, "is written in the definition")
        case Union():
            return _united(questions, plan, row)
        case Distinct(input=source):
            return _distinct(questions, plan, source, row)
        case Aggregate():
            return _grouped(questions, plan, row)
        case Window():
            return _windowed(questions, plan, row)
        case Sort():
            return _first(questions, plan, row)
        case Difference(left=left, right=right):
            taken = missing_or_there(questions, right, row)
            children = (questions.why(left, row), *taken)
            return _made(Kind.DIFFERENCE, plan, row, f"is in {name_of(left)} and not as often in the rest", children)
        case Intersection(left=left, right=right):
            both = tuple(questions.why(side, row) for side in (left, right))
            return _made(Kind.INTERSECTION, plan, row, "is in both", both)
        case Unnest(input=source, array=array):
            below = questions.why(source, row[: len(source.schema)])
            return _made(Kind.UNNEST, plan, row, f"is an element of {condition_text(array)}", (below,))
        case Repeat(input=source):
            return _made(Kind.REPEAT, plan, row, "", (questions.why(source, row),))
        case Touched(input=source):
            return questions.why(source, row)
    return _from_block(questions, plan, row)


def _made(
    kind: Kind, plan: Plan, row: Row, how: str, children: tuple[Answer, ...] = (), total: int | None = None
) -> Derivation:
    return Derivation(kind, name_of(plan), labels(plan), row, how, children, total=total, plan=plan)


def _scanned(questions: Questions, scan: Scan, row: Row) -> Derivation:
    definition = questions.definitions.get(scan.relation)
    if definition is None:
        note = questions.notes.get((scan.relation, row), "")
        return Derivation(Kind.TABLE, scan.relation, scan.schema.names, row, note, plan=scan)
    return _made(Kind.VIEW, scan, row, "", (questions.why(definition, row),))


def _from_block(questions: Questions, plan: Plan, row: Row) -> Derivation:
    """One row of each leaf, all from one question; none is needed if the row shows them."""
    block = block_of(plan)
    found = block.inverse(row)
    if found is None:
        approximate = approximate_columns(plan, questions.approximate)
        wanted = questions.wanted_of(block.outputs, whole(row), approximate)
        found = questions.one(block_plan(block, (*block.conditions, *wanted)))
        assert found is not None, "a row that is there comes from somewhere"
    parts = zip(block.leaves, block.parts_of(found), strict=True)
    children = tuple(questions.why(leaf, part) for leaf, part in parts)
    step = _made(Kind.QUERY, plan, row, block_text(block), children)
    return replace(step, passes_on=len(block.leaves) == 1 and not block.conditions)


def block_plan(block: JoinBlock, conditions: tuple[Expression, ...]) -> Plan:
    """The leaves side by side, where the conditions hold."""
    plan = block.leaves[0]
    for leaf in block.leaves[1:]:
        plan = Join(plan, leaf, TRUE)
    return filtered(plan, conditions)


def _distinct(questions: Questions, plan: Plan, source: Plan, row: Row) -> Derivation:
    times = questions.times(source, row)
    how = f"one of {times:,} ways" if times > 1 else ""
    return _made(Kind.DISTINCT, plan, row, how, (questions.why(source, row),), total=times)


def _united(questions: Questions, plan: Union, row: Row) -> Derivation:
    """The first part that has the row, and, of the parts that are taken away, why they do not have it as often."""
    signs = [signed(part) for part in plan.parts]
    bodies = tuple(body for _, body in signs)
    times = questions.times_in_each(bodies, whole(row))
    positive = [i for i, (sign, _) in enumerate(signs) if sign > 0]
    chosen = next(i for i in positive if times[i] > 0)
    children: list[Answer] = [questions.why(bodies[chosen], row)]
    for sign, body in signs:
        if sign < 0:
            children += missing_or_there(questions, body, row)
    how = f"part {positive.index(chosen) + 1} of {len(positive)}" if len(positive) > 1 else ""
    if len(children) > 1:
        taken = any(times[i] for i in range(len(bodies)) if i not in positive)
        how = "is there more often than it is taken away" if taken else "is there, and nothing excludes it"
    return _made(Kind.UNION, plan, row, how, tuple(children), total=chosen)


def _grouped(questions: Questions, plan: Aggregate, row: Row) -> Derivation:
    """The rows of the group: those that hold its extrema first, then the first few."""
    keys = tuple(zip(plan.keys, row, strict=False))
    group = filtered(plan.input, questions.wanted_of(plan.keys, whole(row[: len(keys)]), frozenset()))
    total = questions.count(group)
    found: dict[Row, int] = {}
    for call, value in zip(plan.aggregates, row[len(keys) :], strict=True):
        if call.is_extremum and value is not None and call.argument is not None:
            holding = filtered(group, questions.wanted_of((call.argument,), ((0, value),), frozenset()))
            found.update(questions.few(holding, 1))
    few = dict(questions.few(group, max(questions.rows, 1)))
    if total > sum(few.values()):
        few = {**found, **few}
    children = tuple(_repeated(questions.why(plan.input, one), times) for one, times in few.items())
    shown = sum(few.values())
    by = ", ".join(map(condition_text, plan.keys))
    size = counted(total, "row") if shown >= total else f"{counted(total, 'row')}, of which {shown:,} here"
    how = f"groups {name_of(plan.input)}" + (f" by {by}" if by else "") + f": {size}"
    return _made(Kind.GROUP, plan, row, how, children, total=total)


def _repeated(step: Derivation, times: int) -> Derivation:
    return replace(step, times=times) if times > 1 else step


def _windowed(questions: Questions, plan: Window, row: Row) -> Derivation:
    """The row itself, and the first rows of its partition."""
    width = len(plan.input.schema)
    own = row[:width]
    pattern: Pattern = tuple((column.index, own[column.index]) for column in plan.partition)
    partition = questions.matching(plan.input, pattern)
    total = questions.count(partition)
    few = dict(questions.few(partition, order=plan.order))
    few.setdefault(own, questions.times(plan.input, own))
    children = tuple(_repeated(questions.why(plan.input, one), times) for one, times in few.items())
    shown = sum(few.values())
    size = counted(total, "row") if shown >= total else f"{counted(total, 'row')}, of which {shown:,} here"
    return _made(
        Kind.WINDOW, plan, row, f"{_lowered(show_node(plan))}; the partition has {size}", children, total=total
    )


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _first(questions: Questions, plan: Sort, row: Row) -> Derivation:
    """The row of the input, with the columns that only the order looks at."""
    full = replace(plan, visible=None)
    found = questions.one(questions.matching(full, whole(row)))
    assert found is not None, "a row that is there comes from somewhere"
    how = (
        f"is one of the first rows: {_lowered(show_node(plan))}"
        if plan.limit is not None or plan.offset
        else "in order"
    )
    return _made(Kind.FIRST, plan, row, how, (questions.why(plan.input, found),))


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
