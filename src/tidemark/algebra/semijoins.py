"""Semi, anti, outer and mark joins, made of joins, unions and one duplicate elimination.

Let p be the conditions between A and B, and M the distinct values of A's part of p that find a row in B. Then

    A ⋉ B = A ⋈ M                                               semi join: rows of A that find a row, as often as before
    A ▷ B = A ⊎ −(A ⋈ M)                                        anti join: weights net out exactly
    A ⟕ B = (A ⋈ B) ⊎ (A ▷ B) × NULLs                           left outer join; a full one pads both sides

With equalities alone, M = δ π[B's side of p](B) and A joins it by p itself. Otherwise M = δ π[the columns of A that p
reads](A ⋈ B), and A joins it on these columns, NULL matching NULL. All parts but δ are linear, and δ keeps counts, so
every one of these joins is maintained by the laws that there are already.

A condition that can fail is evaluated on joined pairs only, so that it fails for no pair that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from tidemark.algebra.cache import term_count
from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    columns_of,
    conjunction,
    shift,
    substitute,
    transform,
)
from tidemark.algebra.plans import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Filter,
    Join,
    Negate,
    Plan,
    Project,
    Union,
)
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import BIGINT, BOOLEAN, INT, Schema

EQUALITIES = ("eq", "is_not_distinct")
Conditions = tuple[Expression, ...]


@dataclass(frozen=True)
class Match:
    """Which rows of ``right`` belong to a row of ``left``: those for which all conditions are true.

    Conditions read the columns of the left side first, then those of the right. M is made from the rows of ``base``,
    whose first columns are those of the left side that conditions read, and which has at least the left side's values
    in them: M stays small when the left side is itself a union of many joins.
    """

    left: Plan
    right: Plan
    conditions: Conditions
    base: Plan

    @staticmethod
    def of(left: Plan, right: Plan, conditions: Conditions, base: Plan | None = None) -> Match:
        """The match, with the base instead of the left side where the conditions read columns of the base alone."""
        width = len(left.schema)
        read = {i for c in conditions for i in columns_of(c) if i < width}
        small = base is not None and all(i < len(base.schema) for i in read)
        return Match(left, right, conditions, base if small and base is not None else left)

    @cached_property
    def pairs(self) -> Plan:
        """A ⋈ B."""
        return joined(self.left, self.right, self.conditions)

    @cached_property
    def found(self) -> Found:
        """M, with what a row of the left side has to have in common with it."""
        width = len(self.left.schema)
        on_left = tuple(c for c in self.conditions if all(i < width for i in columns_of(c)))
        on_right = tuple(c for c in self.conditions if c not in on_left and all(i >= width for i in columns_of(c)))
        sides = [sides_of(c, width) for c in self.conditions if c not in on_left + on_right]
        equalities = tuple(side for side in sides if side is not None)
        if any(map(can_fail, self.conditions)) or len(equalities) < len(sides):
            read = tuple(sorted({i for c in self.conditions for i in columns_of(c) if i < width}))
            back = len(self.base.schema) - width
            moved = tuple(_right_moved(c, width, back) for c in self.conditions)
            return found_in(joined(self.base, self.right, moved), self.left, self.base, read)
        keys = tuple(shift(side[2], -width) for side in equalities)
        present = tuple(
            Call("is_not_null", (key,), BOOLEAN, nullable=False)
            for side, key in zip(equalities, keys, strict=True)
            if side[0] == "eq" and key.nullable and side[1].nullable
        )
        there = filtered_by(self.right, tuple(shift(c, -width) for c in on_right) + present)
        outer = tuple(side[1] for side in equalities)
        strict = frozenset(i for i, side in enumerate(equalities) if side[0] == "eq")
        return Found(distinct_of(there, keys), outer, on_left, self.base, self.left, strict)

    @property
    def semi(self) -> Plan:
        return first_columns(self.found.joined, self.left.schema)

    @property
    def anti(self) -> Plan:
        """By subtraction; where the left side is a union of many joins already, by the rows that count nothing."""
        if term_count(self.left) <= FEW_TERMS:
            return _without(self.left, self.found.joined)
        wider, there = self.mark()
        return first_columns(Filter(wider, Call("not", (there,), BOOLEAN, nullable=False)), self.left.schema)

    def mark(self) -> tuple[Plan, Expression]:
        """A with further columns, and the condition over them that says whether the row finds one in B."""
        return self.found.mark()


FEW_TERMS = 2


@dataclass(frozen=True)
class Found:
    """M: the distinct values that find a row. A row of ``left`` does if ``outer``, expressions over it, equal the
    columns of M and the conditions on it alone are true. NULL matches NULL, except in ``strict`` columns, of which M
    has no NULL that could."""

    plan: Plan
    outer: tuple[Expression, ...]
    on_left: Conditions
    base: Plan
    left: Plan
    strict: frozenset[int] = frozenset()

    @property
    def joined(self) -> Plan:
        """A ⋈ M."""
        equal = same(self.outer, self.plan, len(self.left.schema), self.strict)
        return Join(self.left, self.plan, conjunction(tuple(c for c in (*self.on_left, equal) if c != TRUE)))

    def mark(self) -> tuple[Plan, Expression]:
        """A ⋈ K, where K counts for each value in A how often it is in M, which is once or never:

        K = γ[value; count(one)] (δ π[outer, NULL](A) ⊎ π[value, 1](M))
        """
        width, count = len(self.left.schema), len(self.outer)
        one, none = Literal(1, INT), Literal(None, INT)
        found = Project(self.plan, (*self.plan.schema.names[:count], "one"), (*self.plan.columns()[:count], one))
        source: Plan = found
        if count:
            values = distinct_of(self.base, self.outer)
            source = Union((Project(values, (*values.schema.names, "one"), (*values.columns(), none)), found))
        call = AggregateCall(AggregateFunction.COUNT, source.column(count))
        counts = Aggregate(source, source.schema.names, source.columns()[:count], (call,))
        wider = Join(self.left, counts, same(self.outer, counts, width))
        number = wider.column(width + count)
        mark: Expression = Call("gt", (number, Literal(0, BIGINT)), BOOLEAN, nullable=False)
        for condition in self.on_left:
            if condition != TRUE:
                holds = Call("is_true", (condition,), BOOLEAN, nullable=False)
                mark = Call("and", (holds, mark), BOOLEAN, nullable=False)
        return wider, mark


def found_in(pairs: Plan, left: Plan, base: Plan, read: tuple[int, ...]) -> Found:
    """δ π[read](pairs), for pairs whose first columns are those of the left side."""
    columns = tuple(left.column(i) for i in read)
    return Found(distinct_of(pairs, columns), columns, (), base, left)


def _right_moved(condition: Expression, width: int, back: int) -> Expression:
    """The condition for another left side, by ``back`` columns wider."""
    return transform(
        condition,
        lambda e: replace(e, index=e.index + back) if isinstance(e, Column) and e.index >= width else None,
    )


def joined(left: Plan, right: Plan, conditions: Conditions) -> Plan:
    """The inner join, with conditions that can fail above it, where pairs that never were have cancelled."""
    failing = tuple(c for c in conditions if can_fail(c))
    plan = Join(left, right, conjunction(tuple(c for c in conditions if c not in failing and c != TRUE)))
    return filtered_by(plan, failing)


def padded(
    left: Plan, right: Plan, conditions: Conditions, *, keep_left: bool = False, keep_right: bool = False
) -> Plan:
    """The join that also keeps rows without a partner, of the left side, of the right side, or of both."""
    pairs = joined(left, right, conditions)
    parts = [pairs]
    if keep_left:
        parts.append(_pad_right(Match.of(left, right, conditions).anti, right.schema, pairs.schema.names))
    if keep_right:
        swapped = _swapped(pairs.schema, len(left.schema))
        turned = Match.of(right, left, tuple(substitute(c, swapped) for c in conditions))
        parts.append(_pad_left(turned.anti, left.schema, pairs.schema.names))
    return Union(tuple(parts)) if len(parts) > 1 else pairs


def with_padding(
    pairs: Plan,
    left: Plan,
    right: Plan,
    *,
    keep_left: bool = False,
    keep_right: bool = False,
    read: tuple[int, ...] | None = None,
) -> Plan:
    """Any pairs of rows of two plans, and the rows that occur in no pair. Whether a row of the left side does is
    decided by the columns ``read``, if they are given."""
    parts, width = [pairs], len(left.schema)
    if keep_left:
        columns = tuple(range(width)) if read is None else read
        missing = _without(left, found_in(pairs, left, left, columns).joined)
        parts.append(_pad_right(missing, right.schema, pairs.schema.names))
    if keep_right:
        cells = pairs.columns()
        turned = Project(pairs, right.schema.names + left.schema.names, cells[width:] + cells[:width])
        everything = tuple(range(len(right.schema)))
        missing = _without(right, found_in(turned, right, right, everything).joined)
        parts.append(_pad_left(missing, left.schema, pairs.schema.names))
    return Union(tuple(parts)) if len(parts) > 1 else pairs


def _without(plan: Plan, found: Plan) -> Plan:
    return Union((plan, Negate(first_columns(found, plan.schema))))


def _pad_right(plan: Plan, absent: Schema, names: tuple[str, ...]) -> Plan:
    return Project(plan, names, (*plan.columns(), *_nulls(absent)))


def _pad_left(plan: Plan, absent: Schema, names: tuple[str, ...]) -> Plan:
    return Project(plan, names, (*_nulls(absent), *plan.columns()))


def sides_of(condition: Expression, width: int) -> tuple[str, Expression, Expression, bool] | None:
    """An equality between an expression of the left side and one of the right, in this order."""
    if not isinstance(condition, Call) or condition.function not in EQUALITIES:
        return None
    one, other = condition.arguments
    for left, right in ((one, other), (other, one)):
        here, there = columns_of(left), columns_of(right)
        if here and there and max(here) < width <= min(there):
            return condition.function, left, right, condition.nullable
    return None


def same(columns: Sequence[Expression], plan: Plan, offset: int, strict: Set[int] = frozenset()) -> Expression:
    """The columns equal those of the plan that stands ``offset`` columns to the right, NULL matching NULL unless the
    column is strict."""
    parts = []
    for position, column in enumerate(columns):
        other = shift(plan.column(position), offset)
        if column.nullable and other.nullable and position not in strict:
            parts.append(Call("is_not_distinct", (column, other), BOOLEAN, nullable=False))
        else:
            parts.append(Call("eq", (column, other), BOOLEAN, nullable=column.nullable or other.nullable))
    return conjunction(tuple(parts))


def distinct_of(plan: Plan, keys: tuple[Expression, ...]) -> Plan:
    """δ π[keys]; without keys, one row if there is any."""
    cells = keys or (TRUE,)
    return Distinct(Project(plan, tuple(f"m{i}" for i in range(len(cells))), cells))


def filtered_by(plan: Plan, conditions: Conditions) -> Plan:
    return Filter(plan, conjunction(conditions)) if conditions else plan


def first_columns(plan: Plan, schema: Schema) -> Plan:
    """The plan without the columns behind those of the schema."""
    return with_cells(plan, schema, ())


def with_cells(plan: Plan, schema: Schema, cells: tuple[Expression, ...]) -> Plan:
    """The first columns of the plan, under the names of the schema, and further cells."""
    names = schema.names + tuple(f"x{i}" for i in range(len(cells)))
    return Project(plan, names, plan.columns()[: len(schema)] + cells)


def _nulls(schema: Schema) -> tuple[Literal, ...]:
    return tuple(Literal(None, field.type) for field in schema.fields)


def _swapped(schema: Schema, width: int) -> tuple[Column, ...]:
    """For each column of (A, B), where A has ``width`` columns, the same column of (B, A)."""
    right = len(schema) - width
    places = [right + i for i in range(width)] + list(range(right))
    return tuple(Column(p, f.name, f.type, f.nullable) for p, f in zip(places, schema.fields, strict=True))
