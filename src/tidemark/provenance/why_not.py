"""WHY NOT: for each way in which a row could have come, the first thing that fails, with the nearest facts.

Each function takes a pattern that no row of the plan has: some columns and the values that they should have.
"""

from __future__ import annotations

from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Intersection,
    Plan,
    Project,
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
from tidemark.provenance.blocks import signed
from tidemark.provenance.missing import block_absence, failing_at
from tidemark.provenance.questions import Pattern, Questions, whole
from tidemark.provenance.tree import Absence, Answer, cell, counted, named_cells
from tidemark.provenance.wording import condition_text, name_of, with_values


def absence(questions: Questions, plan: Plan, pattern: Pattern) -> Absence:
    """Why no row of the plan has the values of the pattern."""
    match plan:
        case Scan():
            return _scanned(questions, plan, pattern)
        case Values():
            return _absent(plan, pattern, f"no row that is written in the definition has {_cells(plan, pattern)}")
        case Union():
            return _united(questions, plan, pattern)
        case Distinct(input=source) | Touched(input=source):
            return questions.why_not(source, pattern)
        case Aggregate():
            return _grouped(questions, plan, pattern)
        case Window():
            return _windowed(questions, plan, pattern)
        case Sort():
            return _not_first(questions, plan, pattern)
        case Difference():
            return _taken(questions, plan, pattern)
        case Intersection(left=left, right=right):
            return _not_both(questions, plan, (left, right), pattern)
        case Unnest():
            return _no_element(questions, plan, pattern)
        case Repeat(input=source):
            found = questions.one(questions.matching(source, pattern))
            if found is None:
                return questions.why_not(source, pattern)
            return _absent(plan, pattern, f"{_row(plan, found)} is there, but is repeated zero times")
    return block_absence(questions, plan, pattern)


def missing_or_there(questions: Questions, plan: Plan, row: Row) -> tuple[Answer, ...]:
    """About a plan that takes rows away: why it does not have the row, or, if it has it, why."""
    if questions.times(plan, row) > 0:
        return (questions.why(plan, row),)
    found = questions.why_not(plan, whole(row))
    # Of a join, the side that is there is known already; what counts is what it does not find.
    return found.children if found.is_partner else (found,)


def _absent(plan: Plan, pattern: Pattern, reason: str, children: tuple[Answer, ...] = ()) -> Absence:
    wanted = tuple((plan.schema[i].name, value) for i, value in pattern)
    return Absence(name_of(plan), wanted, reason, children)


def _cells(plan: Plan, pattern: Pattern) -> str:
    return with_values(plan, pattern)


def _row(plan: Plan, row: Row) -> str:
    return named_cells(plan.schema.names, row)


def _scanned(questions: Questions, scan: Scan, pattern: Pattern) -> Absence:
    name = name_of(scan)
    definition = questions.definitions.get(scan.relation)
    if definition is not None:
        inner = questions.why_not(definition, pattern)
        return _absent(scan, pattern, f"{_what(scan, pattern)} is not in {name}", (inner,))
    # Rows are counted: whether a table has any is told by nothing that chooses among them, such as a LIMIT.
    held = failing_at(len(pattern), lambda n: questions.count(questions.matching(scan, pattern[:n])) > 0)
    if held == 0:
        there = questions.count(scan)
        if there == 0:
            return _absent(scan, pattern, f"{name} has no rows")
        if not pattern:
            return _absent(scan, pattern, f"{name} has {counted(there, 'row')}, any of which would do")
    failed = pattern[held : held + 1]
    if held == 0:
        return _absent(scan, pattern, f"no row of {name} has {_cells(scan, failed)}")
    nearest = questions.one(questions.matching(scan, pattern[:held]))
    assert nearest is not None
    reason = f"no row of {name} with {_cells(scan, pattern[:held])} has {_cells(scan, failed)}"
    return _absent(scan, pattern, f"{reason}; the nearest is {_row(scan, nearest)}")


def _what(plan: Plan, pattern: Pattern) -> str:
    return f"({with_values(plan, pattern, joint=', ')})" if pattern else "any row"


def _united(questions: Questions, plan: Union, pattern: Pattern) -> Absence:
    """Each part lacks the row; or one has it, and another takes it away."""
    signs = [signed(part) for part in plan.parts]
    kept = tuple(body for sign, body in signs if sign > 0)
    takers = tuple(body for sign, body in signs if sign < 0)
    for part in kept:
        there = questions.one(questions.matching(part, pattern)) if takers else None
        if there is not None:
            children = [questions.why(taker, there) for taker in takers if questions.times(taker, there)]
            return _absent(plan, pattern, f"{_row(plan, there)} is there, but something excludes it", tuple(children))
    ways = tuple(questions.why_not(part, pattern) for part in kept)
    return ways[0] if len(ways) == 1 else _absent(plan, pattern, f"none of {len(ways)} parts has it", ways)


def _grouped(questions: Questions, plan: Aggregate, pattern: Pattern) -> Absence:
    keys = len(plan.keys)
    of_group = tuple((i, value) for i, value in pattern if i < keys)
    there = questions.one(questions.matching(plan, of_group))
    if there is not None:
        differing = [(i, value) for i, value in pattern if i >= keys and there[i] != value]
        found = ", ".join(f"{plan.schema[i].name} = {cell(there[i])}" for i, _ in differing)
        wanted = ", ".join(cell(value) for _, value in differing)
        group = f"the group {_row_of(plan, of_group)} is there" if of_group else "there are groups"
        more = "" if not differing else f", but with {found}, not {wanted}"
        return _absent(plan, pattern, group + more, (questions.why(plan, there),))
    names, cells = plan.names[:keys], plan.keys
    inner = Project(plan.input, names, cells)
    below = questions.why_not(inner, of_group)
    text = f"there is no group {_row_of(plan, of_group)}" if of_group else "there is no group at all"
    return _absent(plan, pattern, text, (below,))


def _row_of(plan: Plan, pattern: Pattern) -> str:
    return named_cells(tuple(plan.schema[i].name for i, _ in pattern), tuple(value for _, value in pattern))


def _windowed(questions: Questions, plan: Window, pattern: Pattern) -> Absence:
    width = len(plan.input.schema)
    own = tuple((i, value) for i, value in pattern if i < width)
    there = questions.one(questions.matching(plan, own))
    if there is None:
        return questions.why_not(plan.input, own)
    differing = [(i, value) for i, value in pattern if i >= width and there[i] != value]
    texts = [f"{plan.schema[i].name} = {cell(there[i])}, not {cell(value)}" for i, value in differing]
    return _absent(plan, pattern, f"the row is there, but with {', '.join(texts)}", (questions.why(plan, there),))


def _not_first(questions: Questions, plan: Sort, pattern: Pattern) -> Absence:
    there = questions.one(questions.matching(plan.input, pattern))
    if there is None:
        return questions.why_not(plan.input, pattern)
    node = show_node(plan)
    reason = f"{_row(plan.input, there)} is there, but not among the first rows: {node[:1].lower()}{node[1:]}"
    return _absent(plan, pattern, reason)


def _taken(questions: Questions, plan: Difference, pattern: Pattern) -> Absence:
    there = questions.one(questions.matching(plan.left, pattern))
    if there is None:
        return questions.why_not(plan.left, pattern)
    reason = f"{_row(plan, there)} is there, but EXCEPT takes it away"
    return _absent(plan, pattern, reason, (questions.why(plan.right, there),))


def _not_both(questions: Questions, plan: Plan, sides: tuple[Plan, Plan], pattern: Pattern) -> Absence:
    lacking = tuple(side for side in sides if questions.one(questions.matching(side, pattern)) is None)
    if not lacking:  # some rows of each side have the values, but not the same rows
        there = questions.one(questions.matching(sides[0], pattern))
        assert there is not None
        below = questions.why_not(sides[1], whole(there))
        return _absent(plan, pattern, f"{_row(plan, there)} is in the first only", (below,))
    return _absent(plan, pattern, "is not in both", tuple(questions.why_not(side, pattern) for side in lacking))


def _no_element(questions: Questions, plan: Unnest, pattern: Pattern) -> Absence:
    width = len(plan.input.schema)
    own = tuple((i, value) for i, value in pattern if i < width)
    there = questions.one(questions.matching(plan.input, own))
    if there is None:
        return questions.why_not(plan.input, own)
    element = tuple((i, value) for i, value in pattern if i >= width)
    array = condition_text(plan.array)
    what = f"no element of {array} has {_cells(plan, element)}" if element else f"{array} has no elements"
    return _absent(plan, pattern, f"{what}; for example in {_row(plan.input, there)}")
