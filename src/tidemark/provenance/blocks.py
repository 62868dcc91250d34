"""A block: what filters, projections and joins make of the relations below them, read as one rule.

    π[outputs] σ[conditions] (leaf × leaf × …)

A row of the block comes from one row of each leaf. So one question to the engine finds all of them at once, and people
read one step instead of many. Leaves are scans and the operators that are not linear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tidemark.algebra.expressions import TRUE, Column, Expression, columns_of, conjuncts, shift, substitute, transform
from tidemark.algebra.plans import Distinct, Filter, Join, Negate, Net, Plan, Project, Values
from tidemark.algebra.scalar import Row


@dataclass(frozen=True)
class JoinBlock:
    """Conditions and outputs read the columns of all leaves, side by side. Conditions are in the order in which they
    are asked, from the inside out."""

    leaves: tuple[Plan, ...]
    conditions: tuple[Expression, ...]
    outputs: tuple[Expression, ...]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where the columns of each leaf begin; and their end."""
        result = [0]
        for leaf in self.leaves:
            result.append(result[-1] + len(leaf.schema))
        return tuple(result)

    def leaf_of(self, column: int) -> int:
        return next(i for i in range(len(self.leaves)) if column < self.offsets[i + 1])

    def leaves_of(self, expression: Expression) -> frozenset[int]:
        return frozenset(self.leaf_of(column) for column in columns_of(expression))

    def parts_of(self, row: Row) -> tuple[Row, ...]:
        """A row of all leaves' columns, leaf by leaf."""
        return tuple(row[begin:end] for begin, end in zip(self.offsets, self.offsets[1:], strict=False))

    def inverse(self, row: Row) -> Row | None:
        """The leaves' columns, if the outputs show them all; else None."""
        known = {o.index: value for o, value in zip(self.outputs, row, strict=True) if isinstance(o, Column)}
        width = self.offsets[-1]
        return tuple(known[i] for i in range(width)) if all(i in known for i in range(width)) else None


def block_of(plan: Plan) -> JoinBlock:
    """The largest block at the top of the plan; of any other operator, the block that only reads it."""
    match plan:
        case Filter(input=source, predicate=predicate):
            inner = block_of(source)
            added = tuple(substitute(part, inner.outputs) for part in conjuncts(predicate) if part != TRUE)
            return replace(inner, conditions=inner.conditions + added)
        case Project(input=source, expressions=expressions):
            inner = block_of(source)
            return replace(inner, outputs=tuple(substitute(e, inner.outputs) for e in expressions))
        case Net(input=source):
            return block_of(source)
        case Join(left=left, right=right, predicate=predicate):
            return _joined(block_of(left), block_of(right), predicate)
        case Values(rows=((),)):
            return JoinBlock((), (), ())  # one row of no columns, as a query without FROM has
    return JoinBlock((plan,), (), plan.columns())


def _joined(left: JoinBlock, right: JoinBlock, predicate: Expression) -> JoinBlock:
    width = left.offsets[-1]
    outputs = left.outputs + tuple(shift(e, width) for e in right.outputs)
    conditions = left.conditions + tuple(shift(c, width) for c in right.conditions)
    between = tuple(substitute(part, outputs) for part in conjuncts(predicate) if part != TRUE)
    return JoinBlock(left.leaves + right.leaves, conditions + between, outputs)


def signed(plan: Plan) -> tuple[int, Plan]:
    """The sign of a linear plan, and the plan without it: −R is what R takes away, wherever the sign stands in it."""
    match plan:
        case Negate(input=source):
            sign, body = signed(source)
            return -sign, body
        case Filter() | Project() | Net() | Join():
            sign, bodies = 1, []
            for part in plan.inputs():
                inner, body = signed(part)
                sign *= inner
                bodies.append(body)
            return (sign, plan.with_inputs(tuple(bodies))) if sign < 0 else (1, plan)
    return 1, plan


def labels(plan: Plan) -> tuple[str, ...]:
    """The names of the columns for people: those that a semi join gave to distinct values are the names below."""
    match plan:
        case Distinct(input=source):
            return labels(source)
        case Project(input=source, names=names, expressions=expressions) if names == tuple(
            f"m{i}" for i in range(len(names))
        ):
            below = labels(source)
            pairs = zip(names, expressions, strict=True)
            return tuple(below[e.index] if isinstance(e, Column) else name for name, e in pairs)
        case Filter(input=source) | Net(input=source):
            return labels(source)
    return plan.schema.names


def qualified(block: JoinBlock, names: tuple[str, ...], expression: Expression) -> Expression:
    """The expression with the leaf's name before each column whose name several leaves have."""
    fields = [(name, number) for number, leaf in enumerate(block.leaves) for name in labels(leaf)]

    def renamed(part: Expression) -> Expression | None:
        if not isinstance(part, Column):
            return None
        name, number = fields[part.index]
        clashes = any(other == name and leaf != number for other, leaf in fields)
        return replace(part, name=f"{names[number]}.{name}" if clashes else name)

    return transform(expression, renamed)
