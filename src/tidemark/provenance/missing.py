"""WHY NOT for a block: the first of its relations or conditions with which nothing is left.

The leaves that conditions link are taken one by one, beginning where the wanted row says most, each with the
equalities that lead to it from those before; then the other conditions as soon as they can be asked, those that can
fail last. What is left after the first n of these steps only becomes less with n, so the first that leaves nothing is
found by bisection. Leaves that nothing links are looked at apart: if each has a row, so has their product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tidemark.algebra.expressions import TRUE, Call, Column, Expression, Value, columns_of, shift, substitute
from tidemark.algebra.plans import Join, Plan, Project
from tidemark.algebra.scalar import Row, can_fail, value_of
from tidemark.algebra.semijoins import EQUALITIES
from tidemark.provenance.blocks import JoinBlock, block_of, labels, qualified
from tidemark.provenance.questions import Pattern, Questions, filtered
from tidemark.provenance.tree import Absence, cell, named_cells
from tidemark.provenance.wording import condition_text, leaf_names, listed


def failing_at(count: int, holds: Callable[[int], bool]) -> int:
    """The first of ``count`` steps with which nothing is left, counted from 0; ``count`` if something remains.

    ``holds(n)`` says whether something is left with the first n, and only ever turns from true to false.

    >>> failing_at(5, lambda n: n <= 3), failing_at(5, lambda n: True), failing_at(5, lambda n: n == 0)
    (3, 5, 0)
    """
    low, high = 0, count + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class Asked:
    """A condition over the leaves' columns; of a wanted value that is computed, with that value."""

    expression: Expression
    output: Expression | None = None
    value: Value = None


@dataclass(frozen=True)
class Leaf:
    """A leaf, what is wanted of its columns, and the equalities with leaves before it."""

    number: int
    pattern: Pattern
    links: tuple[Asked, ...]


def block_absence(questions: Questions, plan: Plan, pattern: Pattern) -> Absence:
    """Why no row of the block has the values of the pattern."""
    return _Search(questions, plan, pattern).run()


class _Search:
    def __init__(self, questions: Questions, plan: Plan, pattern: Pattern) -> None:
        self.questions, self.plan, self.pattern = questions, plan, pattern
        self.block: JoinBlock = block_of(plan)
        self.names = leaf_names(self.block)
        self.bound: dict[int, list[tuple[int, Value]]] = {}
        self.asked = [Asked(condition) for condition in self.block.conditions]
        for position, value in pattern:
            output = self.block.outputs[position]
            if isinstance(output, Column):
                leaf = self.block.leaf_of(output.index)
                self.bound.setdefault(leaf, []).append((output.index - self.block.offsets[leaf], value))
            else:
                wanted = questions.wanted(plan, ((position, value),))
                self.asked += [Asked(substitute(part, self.block.outputs), output, value) for part in wanted]

    def run(self) -> Absence:
        for asked in self.asked:
            if not columns_of(asked.expression) and value_of(asked.expression, ()) is not True:
                return self._absent(self._constant(asked))
        for component in self._components:
            steps = self._steps(component)
            failed = failing_at(len(steps), lambda n, steps=steps: self._one(steps[:n]) is not None)  # type: ignore[misc]
            if failed < len(steps):
                return self._failure(steps[:failed], steps[failed])
        return self._absent("nothing that was looked at fails by itself")

    def _absent(self, reason: str, below: Absence | None = None, *, is_partner: bool = False) -> Absence:
        wanted = tuple((self.plan.schema[i].name, value) for i, value in self.pattern)
        return Absence(listed(self.names), wanted, reason, () if below is None else (below,), is_partner)

    # The order of the steps

    @cached_property
    def _components(self) -> list[list[int]]:
        """The leaves, together where a condition links them."""
        groups = [{number} for number in range(len(self.block.leaves))]
        for asked in self.asked:
            touched = self.block.leaves_of(asked.expression)
            together = [group for group in groups if group & touched]
            if len(together) > 1:
                groups = [g for g in groups if g not in together] + [set[int]().union(*together)]
        return sorted(sorted(group) for group in groups)

    def _steps(self, component: list[int]) -> list[Leaf | Asked]:
        steps: list[Leaf | Asked] = []
        waiting = [a for a in self.asked if self.block.leaves_of(a.expression) & set(component)]
        taken: set[int] = set()
        while len(taken) < len(component):
            number = max(
                (n for n in component if n not in taken),
                key=lambda n: (bool(self._links(n, taken)), len(self.bound.get(n, ())), -n),
            )
            links = self._links(number, taken)
            taken.add(number)
            steps.append(Leaf(number, tuple(self.bound.get(number, ())), links))
            ready = [a for a in waiting if a not in links and self.block.leaves_of(a.expression) <= taken]
            waiting = [a for a in waiting if a not in links and (a not in ready or can_fail(a.expression))]
            steps += [a for a in ready if not can_fail(a.expression)]
        return steps + list(waiting)

    def _links(self, number: int, taken: set[int]) -> tuple[Asked, ...]:
        return tuple(a for a in self.asked if self._sides(a, number, taken) is not None)

    def _sides(self, asked: Asked, number: int, taken: set[int]) -> tuple[Expression, Expression] | None:
        """Of an equality between leaves that are taken and another one, both sides in this order."""
        expression = asked.expression
        if not isinstance(expression, Call) or expression.function not in EQUALITIES or can_fail(expression):
            return None
        one, other = expression.arguments
        for known, new in ((one, other), (other, one)):
            if (
                self.block.leaves_of(new) == {number}
                and self.block.leaves_of(known)
                and (self.block.leaves_of(known) <= taken)
            ):
                return known, new
        return None

    # Questions

    def _one(self, steps: list[Leaf | Asked]) -> Row | None:
        """A row of the leaves so far for which all steps hold, as a row of all leaves; None stands in other columns."""
        leaves = [step for step in steps if isinstance(step, Leaf)]
        if not leaves:
            return ()
        places: dict[int, int] = {}
        plan: Plan | None = None
        for leaf in leaves:
            source = self.block.leaves[leaf.number]
            begin = self.block.offsets[leaf.number]
            width = 0 if plan is None else len(plan.schema)
            places.update({begin + i: width + i for i in range(len(source.schema))})
            part = self.questions.matching(source, leaf.pattern)
            plan = part if plan is None else Join(plan, part, TRUE)
        assert plan is not None
        asked = [a for s in steps for a in (s.links if isinstance(s, Leaf) else (s,))]
        cells = tuple(plan.column(places[i]) if i in places else TRUE for i in range(self.block.offsets[-1]))
        found = self.questions.one(filtered(plan, (substitute(a.expression, cells) for a in asked)))
        if found is None:
            return None
        return tuple(found[places[i]] if i in places else None for i in range(self.block.offsets[-1]))

    # Words

    def _failure(self, before: list[Leaf | Asked], failed: Leaf | Asked) -> Absence:
        if isinstance(failed, Leaf) and not before:
            return self.questions.why_not(self.block.leaves[failed.number], failed.pattern)
        example = self._one(before)
        assert example is not None
        there = self._there([step.number for step in before if isinstance(step, Leaf)], example)
        if isinstance(failed, Leaf):
            return self._without_partner(failed, before, example, there)
        if failed.output is not None:
            text = condition_text(qualified(self.block, self.names, failed.output))
            return self._absent(
                f"{there}, but {text} = {cell(value_of(failed.output, example))}, not {cell(failed.value)}"
            )
        text = condition_text(qualified(self.block, self.names, failed.expression))
        others = [step for step in before[1:] if isinstance(step, Asked)]
        asked = [condition_text(qualified(self.block, self.names, other.expression)) for other in others]
        first = before[0]
        if len(asked) == len(before) - 1 and isinstance(first, Leaf) and not first.pattern:
            return self._absent(f"no row of {self.names[first.number]} has {' and '.join((*asked, text))}")
        truth = "unknown (NULL)" if value_of(failed.expression, example) is None else "false"
        return self._absent(f"{there}, but {text} is {truth}{self._values(failed.expression, example)}")

    def _there(self, numbers: list[int], example: Row) -> str:
        parts = self.block.parts_of(example)
        texts = [f"{self.names[n]} {named_cells(labels(self.block.leaves[n]), parts[n])}" for n in sorted(numbers)]
        return f"{listed(texts)} {'is' if len(texts) == 1 else 'are'} there"

    def _values(self, expression: Expression, example: Row) -> str:
        """The values of the columns that a condition reads."""
        fields = [field for leaf in self.block.leaves for field in leaf.schema.fields]
        columns = [Column(i, fields[i].name, fields[i].type) for i in sorted(columns_of(expression))]
        shown = [
            f"{condition_text(qualified(self.block, self.names, column))} = {cell(example[column.index])}"
            for column in columns
        ]
        return f": {', '.join(shown)}" if shown else ""

    def _without_partner(self, failed: Leaf, before: list[Leaf | Asked], example: Row, there: str) -> Absence:
        taken = {step.number for step in before if isinstance(step, Leaf)}
        leaf, begin = self.block.leaves[failed.number], self.block.offsets[failed.number]
        name = self.names[failed.number]
        cells: list[Expression] = list(leaf.columns())
        pattern: list[tuple[int, Value]] = []
        for link in failed.links:
            sides = self._sides(link, failed.number, taken)
            assert sides is not None and isinstance(link.expression, Call)
            known, new = sides
            value, new = value_of(known, example), shift(new, -begin)
            if value is None and link.expression.function == "eq":
                text = condition_text(qualified(self.block, self.names, known))
                return self._absent(f"{there}, but {text} is NULL, which equals nothing in {name}")
            if not isinstance(new, Column):
                cells.append(new)
            pattern.append((new.index if isinstance(new, Column) else len(cells) - 1, value))
        names = tuple(condition_text(e) for e in cells)
        source = leaf if len(cells) == len(leaf.schema) else Project(leaf, names, tuple(cells))
        below = self.questions.why_not(source, tuple(dict.fromkeys((*pattern, *failed.pattern))))
        return self._absent(f"{there}, but finds no partner in {name}", below, is_partner=True)

    def _constant(self, asked: Asked) -> str:
        if asked.output is None:
            return f"{condition_text(asked.expression)} is never true"
        names = [self.plan.schema[i].name for i, v in self.pattern if self.block.outputs[i] == asked.output]
        return f"{names[0]} is {cell(value_of(asked.output, ()))} here, not {cell(asked.value)}"
