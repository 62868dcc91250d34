"""From the types of the given arguments to a signature: the few rules that most functions share."""

from __future__ import annotations

from collections.abc import Callable

from tidemark.algebra.functions.casts import implicit_cast_allowed
from tidemark.algebra.functions.table import Resolver, Signature
from tidemark.algebra.types import DOUBLE, NULL, VARCHAR, Kind, Type, common_type


def fixed(*choices: Signature) -> Resolver:
    """The first of the choices that the arguments can be widened to."""

    def resolve(types: tuple[Type, ...]) -> Signature | None:
        for choice in choices:
            if len(choice.arguments) == len(types) and all(map(implicit_cast_allowed, types, choice.arguments)):
                return choice
        return None

    return resolve


def takes(*arguments: Type, gives: Type) -> Signature:
    return Signature(arguments, gives)


def alike(minimum: int, maximum: int | None = None, gives: Type | None = None, *, nested: bool = False) -> Resolver:
    """All arguments are brought to one common type, which is also the result's unless ``gives`` says otherwise.

    Arrays and structs are among them only where ``nested`` says so: they are equal or not, but have no order that users
    see.
    """

    def resolve(types: tuple[Type, ...]) -> Signature | None:
        if len(types) < minimum or (maximum is not None and len(types) > maximum):
            return None
        shared: Type | None = NULL
        for given in types:
            shared = shared and common_type(shared, given)
        if shared is None:
            return None
        if shared.is_nested and not nested:
            return None
        if shared.kind is Kind.NULL:
            shared = VARCHAR  # PostgreSQL, too, takes what has no type for text
        return Signature((shared,) * len(types), gives or shared)

    return resolve


def numeric(decimals: Callable[[Type], Type]) -> Resolver:
    """One numeric argument; the result has its type, or for DECIMAL what ``decimals`` makes of it. With a REAL is
    calculated as DOUBLE."""

    def resolve(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 or not types[0].is_numeric:
            return None
        given = DOUBLE if types[0].is_float else types[0]
        return Signature((given,), decimals(given) if given.kind is Kind.DECIMAL else given)

    return resolve
