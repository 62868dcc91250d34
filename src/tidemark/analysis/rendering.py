"""Formulas as expressions that every engine can run and that never fail.

A bound of one column is a comparison with a constant of its type. A bound between two columns is a comparison, with a
constant added in a type that is wide enough for every sum. What has no such form is left out, which lets more rows
pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from tidemark.algebra.expressions import Call, Cast, Column, Expression, Literal, conjunction
from tidemark.algebra.functions import FUNCTIONS, implicit_cast_allowed
from tidemark.algebra.types import BIGINT, BOOLEAN, INT, Kind, Type, common_type
from tidemark.analysis.domains import is_dense, range_of, unit_of, value_of_number
from tidemark.analysis.formulas import Atom, Bound, Conjunction, Flag, Variable
from tidemark.analysis.unknowns import Unknowns

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


def disjuncts(condition: Expression) -> tuple[Expression, ...]:
    """The parts of a disjunction, left to right."""
    if isinstance(condition, Call) and condition.function == "or":
        return tuple(part for argument in condition.arguments for part in disjuncts(argument))
    return (condition,)


def disjunction(parts: tuple[Expression, ...]) -> Expression:
    """OR of all parts, of which there is one at least."""
    return reduce(lambda a, b: Call("or", (a, b), BOOLEAN, a.nullable or b.nullable), parts)


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
