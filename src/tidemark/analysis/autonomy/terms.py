"""A linear plan as a sum of terms, each a selection of a product, seen from one of the relations in it.

    E  =  Σ ± π[outputs] σ[conditions] (U × others)

A plan of scans, selections, projections, joins, unions and negations is such a sum: a union adds terms, a negation
changes their sign, a join multiplies them. Outer, semi and anti joins are sums of this kind too, since the binder makes
them so. Whatever does not read the relation U stands in a term as it is, as one of the *others*: the sum says nothing
about what goes on inside of it, only that it does not depend on U.

If U occurs exactly once in every term, E is linear in U: each row u of U adds {u} × T(u) to E, where T(u), the
*partners* of u, depends on the others and on those columns of u that conditions on them read.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    conjunction,
    conjuncts,
    shift_all,
    substitute,
    substitute_all,
    transform,
)
from tidemark.algebra.plans import Filter, Join, Negate, Net, Plan, Project, Scan, State, Union, relations_of
from tidemark.algebra.types import Kind, Type

MOST_TERMS: Final = 16
"""How many terms of one plan are looked at."""


class NotLinear(Exception):
    """The plan is not a sum of terms in the relation that was asked for. The message says why."""


@dataclass(frozen=True)
class Term:
    """± π[outputs] σ[conditions] (leaves), the columns of the leaves, ``width`` of them, side by side; ``places`` are
    those of U in it."""

    leaves: tuple[Plan, ...]
    width: int
    outputs: tuple[Expression, ...]
    conditions: tuple[Expression, ...] = ()
    negative: bool = False
    places: tuple[int, ...] = ()

    def offset(self, place: int) -> int:
        """The position of the first column of a leaf."""
        return sum(len(leaf.schema) for leaf in self.leaves[:place])

    def columns_at(self, place: int) -> frozenset[int]:
        start = self.offset(place)
        return frozenset(range(start, start + len(self.leaves[place].schema)))

    def from_first(self, place: int) -> Term:
        """The same term with the given leaf first, so that its columns have the positions that they have in it."""
        start, width = self.offset(place), len(self.leaves[place].schema)
        moved = (*range(width, width + start), *range(width), *range(start + width, self.width))

        def move(expressions: tuple[Expression, ...]) -> tuple[Expression, ...]:
            return tuple(renumbered(e, dict(enumerate(moved))) for e in expressions)

        leaves = (self.leaves[place], *self.leaves[:place], *self.leaves[place + 1 :])
        places = tuple(sorted(0 if p == place else p + (p < place) for p in self.places))
        return replace(self, leaves=leaves, outputs=move(self.outputs), conditions=move(self.conditions), places=places)

    def product(self) -> Plan:
        """The leaves side by side."""
        product = self.leaves[0]
        for leaf in self.leaves[1:]:
            product = Join(product, leaf, TRUE)
        return product

    def plan(self, names: tuple[str, ...]) -> Plan:
        """The term as a plan again."""
        product = self.product()
        selected = Filter(product, conjunction(self.conditions)) if self.conditions else product
        projected = Project(selected, names, self.outputs)
        return Negate(projected) if self.negative else projected

    def equal_to(self, column: int) -> frozenset[int]:
        """The columns that have the same value in every row of the term, because conditions say so."""
        found, waiting = {column}, [column]
        while waiting:
            new = self._same_values.get(waiting.pop(), frozenset()) - found
            found |= new
            waiting.extend(new)
        return frozenset(found)

    @cached_property
    def _same_values(self) -> Mapping[int, Set[int]]:
        """The columns that single conditions make the same value as a column."""
        found: dict[int, set[int]] = {}
        for condition in self.conditions:
            pair = _same_value(condition) or ()
            for column in pair:
                found.setdefault(column, set()).update(pair)
        return found


def terms_of(plan: Plan, relation: str) -> tuple[Term, ...]:
    """The terms of a plan; raises ``NotLinear`` if it is no sum of terms in the relation.

    >>> from tidemark.algebra.types import INT, Field, Schema
    >>> r, s = Scan("r", Schema((Field("a", INT),))), Scan("s", Schema(()))
    >>> [(term.negative, term.places) for term in terms_of(Union((Negate(r), Join(s, r, TRUE))), "r")]
    [(True, (0,)), (False, (1,))]
    """
    match plan:
        case Scan(state=State.NEW) if plan.relation == relation:
            return (Term((plan,), len(plan.schema), plan.columns(), places=(0,)),)
        case _ if relation not in relations_of(plan):
            return (Term((plan,), len(plan.schema), plan.columns()),)
        case Filter(input=source, predicate=predicate):
            return tuple(_selected(term, predicate) for term in terms_of(source, relation))
        case Project(input=source, expressions=expressions):
            return tuple(
                replace(term, outputs=substitute_all(expressions, term.outputs)) for term in terms_of(source, relation)
            )
        case Join(left=left, right=right, predicate=predicate):
            lefts, rights = terms_of(left, relation), terms_of(right, relation)
            if len(lefts) * len(rights) > MOST_TERMS:
                raise NotLinear("its joins of unions have too many terms")
            return tuple(_selected(_product(a, b), predicate) for a in lefts for b in rights)
        case Union(parts=parts):
            found = tuple(term for part in parts for term in terms_of(part, relation))
            if len(found) > MOST_TERMS:
                raise NotLinear("its unions have too many terms")
            return found
        case Negate(input=source):
            return tuple(replace(term, negative=not term.negative) for term in terms_of(source, relation))
        case Net(input=source):
            return terms_of(source, relation)
    raise NotLinear(f"{relation!r} stands below {_operator(plan)}")


def _operator(plan: Plan) -> str:
    """An operator in the words of SQL."""
    words = {
        "Aggregate": "a grouping",
        "Distinct": "DISTINCT",
        "Window": "a window function",
        "Sort": "LIMIT",
        "Difference": "EXCEPT",
        "Intersection": "INTERSECT",
        "Unnest": "UNNEST",
    }
    return words.get(type(plan).__name__, f"an operator ({type(plan).__name__}) that is not linear")


def _selected(term: Term, predicate: Expression) -> Term:
    added = tuple(substitute(part, term.outputs) for part in conjuncts(predicate))
    return replace(term, conditions=term.conditions + added)


def _product(left: Term, right: Term) -> Term:
    by = left.width
    return Term(
        left.leaves + right.leaves,
        by + right.width,
        left.outputs + shift_all(right.outputs, by),
        left.conditions + shift_all(right.conditions, by),
        left.negative != right.negative,
        left.places + tuple(place + len(left.leaves) for place in right.places),
    )


def _same_value(condition: Expression) -> frozenset[int] | None:
    """The two columns that a condition makes the same value, not merely equal: of one type, and not DOUBLE, where
    0 and −0 are equal and print differently."""
    match condition:
        case Call(function="eq" | "is_not_distinct", arguments=(Column() as a, Column() as b)):
            return frozenset({a.index, b.index}) if a.type == b.type and is_identifying(a.type) else None
    return None


def is_identifying(type_: Type) -> bool:
    """Whether equal values of a type are the same value, so that rows can be found by them."""
    return type_.kind not in (Kind.REAL, Kind.DOUBLE, Kind.ARRAY)


def renumbered(expression: Expression, places: Mapping[int, int]) -> Expression:
    """The expression with each column at another position."""
    return transform(expression, lambda e: replace(e, index=places[e.index]) if isinstance(e, Column) else None)
