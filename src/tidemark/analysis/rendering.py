"""Formulas as expressions that every engine can run and that never fail, and as words for reasons that people read.

A bound of one column is a comparison with a constant of its type. A bound between two columns is a comparison, with a
constant added in a type that is wide enough for every sum. What has no such form is left out, which lets more rows
pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import reduce

from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    columns_in,
    conjunction,
    conjuncts,
    disjuncts,
    transform,
)
from tidemark.algebra.functions import FUNCTIONS, implicit_cast_allowed
from tidemark.algebra.printing import show_expression
from tidemark.algebra.types import BIGINT, BOOLEAN, INT, Kind, Type, common_type
from tidemark.analysis.formulas import Atom, Bound, Conjunction, Flag, Variable
from tidemark.analysis.relevance.ways import Way, is_computed
from tidemark.analysis.unknowns import Unknowns, is_dense, range_of, unit_of, value_of_number

FALSE = Literal(False, BOOLEAN)


def rendered(choices: list[Conjunction], unknowns: Unknowns) -> Expression | None:
    """The alternatives as one condition, what they share in front; None if it says nothing."""
    if not choices:
        return FALSE
    shared = tuple(atom for atom in choices[0] if all(atom in choice for choice in choices))
    others = [tuple(atom for atom in choice if atom not in shared) for choice in choices]
    told = frozenset.intersection(*(_compared(choice, unknowns) for choice in choices))
    parts = list(_parts(shared, told, unknowns))
    each = [tuple(_parts(c, _compared(whole, unknowns), unknowns)) for c, whole in zip(others, choices, strict=True)]
    if all(each):  # else one of them says nothing more
        parts.append(disjunction(tuple(map(conjunction, each))))
    return conjunction(tuple(parts)) if parts else None


def disjunction(parts: tuple[Expression, ...]) -> Expression:
    """OR of all parts, of which there is one at least."""
    return reduce(lambda a, b: Call("or", (a, b), BOOLEAN, a.nullable or b.nullable), parts)


def simple(condition: Expression) -> Expression:
    """The condition without what says nothing: FALSE in a disjunction, TRUE in a conjunction, a part that is there."""
    match condition:
        case Call(function="or"):
            return _settled(disjuncts(condition), nothing=FALSE, all_=TRUE, joined=disjunction)
        case Call(function="and"):
            return _settled(conjuncts(condition), nothing=TRUE, all_=FALSE, joined=conjunction)
    return condition


def _settled(
    parts: tuple[Expression, ...],
    nothing: Expression,
    all_: Expression,
    joined: Callable[[tuple[Expression, ...]], Expression],
) -> Expression:
    kept = tuple(dict.fromkeys(part for part in map(simple, parts) if part != nothing))
    return all_ if all_ in kept else joined(kept) if kept else nothing


def _compared(choice: Conjunction, unknowns: Unknowns) -> frozenset[int]:
    """The columns that cannot be NULL where the alternative is true, because it compares them."""
    found: set[int] = set()
    for atom in choice:
        if isinstance(atom, Bound) and _comparison(atom, unknowns) is not None:
            found.update(variable.column for variable, _ in atom.terms)
        elif isinstance(atom, Flag) and atom.name.startswith("b"):
            found.add(atom.column)
    return frozenset(found)


def _parts(choice: tuple[Atom, ...], told: frozenset[int], unknowns: Unknowns) -> Iterator[Expression]:
    """What the atoms say, one after the other. ``told`` are columns that other parts already tell not to be NULL."""
    for atom in choice:
        match atom:
            case Flag(name=name, column=column, holds=holds):
                reference = unknowns.facts.column(column)
                if name.startswith("b"):
                    yield reference if holds else Call("not", (reference,), BOOLEAN, reference.nullable)
                elif holds:
                    yield Call("is_null", (reference,), BOOLEAN, nullable=False)
                elif column not in told:
                    yield Call("is_not_null", (reference,), BOOLEAN, nullable=False)
            case Bound():
                opposite = Bound(tuple((v, -f) for v, f in atom.terms), -atom.constant, atom.strict)
                if opposite not in choice or atom.strict:
                    compared = _comparison(atom, unknowns)
                elif atom.terms[0][1] > 0:
                    compared = _comparison(atom, unknowns, "eq")
                else:
                    continue  # said by its opposite
                if compared is not None:
                    yield compared


def _comparison(bound: Bound, unknowns: Unknowns, name: str = "") -> Expression | None:
    match bound.terms:
        case ((variable, 1),):
            column, limit = _column(variable, unknowns), -bound.constant
            return _with_constant(column, name or ("lt" if bound.strict else "le"), limit, unknowns)
        case ((variable, -1),):
            column, limit = _column(variable, unknowns), bound.constant
            return _with_constant(column, name or ("gt" if bound.strict else "ge"), limit, unknowns)
        case ((first, 1), (second, -1)):
            return _between(_column(first, unknowns), _column(second, unknowns), -bound.constant, bound.strict, name)
        case ((first, -1), (second, 1)):
            return _between(_column(second, unknowns), _column(first, unknowns), -bound.constant, bound.strict, name)
    return None


def _column(variable: Variable, unknowns: Unknowns) -> Column:
    return unknowns.facts.column(variable.column)


def _with_constant(column: Column, name: str, limit: int, unknowns: Unknowns) -> Expression:
    value = value_of_number(limit, column.type, unknowns.texts)
    return Call(name, (column, Literal(value, column.type)), BOOLEAN, column.nullable)


def _between(left: Column, right: Column, apart: int, strict: bool, name: str) -> Expression | None:
    """left ≤ right + apart, in units of both; without the constant where another operator says the same."""
    nullable = left.nullable or right.nullable
    if apart == -1 and not is_dense(left.type) and not name:
        apart, strict = 0, True
    if apart == 0:
        shared = common_type(left.type, right.type)
        if shared is None or not all(implicit_cast_allowed(side.type, shared) for side in (left, right)):
            return None
        sides = _as(left, shared), _as(right, shared)
        return Call(name or ("lt" if strict else "le"), sides, BOOLEAN, nullable)
    if left.type.kind is Kind.DATE and right.type.kind is Kind.DATE:
        distance = Call("subtract", (left, right), INT, nullable)
        return Call(name or "le", (distance, Literal(apart, INT)), BOOLEAN, nullable)
    if not left.type.is_exact or not right.type.is_exact:
        return None
    if apart < 0:  # left + |apart| ≤ right
        return _with_sum(right, left, -apart, name or "ge")
    return _with_sum(left, right, apart, name or "le")


def _with_sum(left: Column, right: Column, apart: int, name: str) -> Expression | None:
    """left op right + apart, in a type that the sum cannot leave."""
    low, high = range_of(right.type)
    if low is None or high is None or not low <= apart * unit_of(right.type) <= high:
        return None
    if all(side.type.kind in (Kind.SMALLINT, Kind.INT) for side in (left, right)):
        wide = total = shared = BIGINT
    else:
        wide = right.type.as_decimal()
        signature = FUNCTIONS["add"].resolve((wide, wide))
        if signature is None or signature.result.precision <= wide.precision:
            return None
        total = signature.result
        common = common_type(left.type, total)
        if common is None or not all(implicit_cast_allowed(type, common) for type in (left.type, total)):
            return None
        shared = common
    constant = Literal(value_of_number(apart, wide, ()), wide)
    sum_ = Call("add", (_as(right, wide), constant), total, right.nullable)
    return Call(name, (_as(left, shared), _as(sum_, shared)), BOOLEAN, left.nullable or right.nullable)


def _as(expression: Expression, type: Type) -> Expression:
    return expression if expression.type == type else Cast(expression, type)


MOST_SHOWN = 3


def plain(condition: Expression) -> str:
    """A condition as one would write it.

    >>> from tidemark.algebra.expressions import Call, Column, Literal, conjunction
    >>> from tidemark.algebra.types import BOOLEAN, INT
    >>> above = Call("gt", (Column(0, "k", INT), Literal(10, INT)), BOOLEAN)
    >>> plain(conjunction((above, Call("eq", (Column(1, "j", INT), Column(0, "k", INT)), BOOLEAN))))
    'k > 10 and j = k'

    What says nothing is left out.

    >>> plain(Call("or", (Literal(False, BOOLEAN), above), BOOLEAN))
    'k > 10'
    """
    parts = conjuncts(simple(condition))
    texts = ((show_expression(part), len(disjuncts(part)) > 1 < len(parts)) for part in parts)
    return " and ".join(text if grouped else _without_parentheses(text) for text, grouped in texts)


def needs(ways: Iterable[Way]) -> str:
    """What the view asks of the rows, for each way in which they reach it."""
    texts = dict.fromkeys(_asked(way) for way in ways)
    shown = list(texts)[:MOST_SHOWN] + ["…"] * (len(texts) > MOST_SHOWN)
    return ", or ".join(shown) or "nothing"


def _asked(way: Way) -> str:
    """What a way asks, with the names of relations where columns of the same name are asked about."""
    conditions = [condition for condition in way.conditions if not is_computed(condition)]
    read = sorted(columns_in(conditions))
    names = Counter(way.facts.columns[index].name for index in read)

    def named(part: Expression) -> Expression | None:
        if isinstance(part, Column) and names[part.name] > 1 and way.origins[part.index]:
            return replace(part, name=f"{way.origins[part.index]}.{part.name}")
        return None

    return " and ".join(plain(transform(condition, named)) for condition in conditions) or "nothing"


def _without_parentheses(text: str) -> str:
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text
