"""Expressions as closures over rows, with the meanings of the function table.

    compiled(e)(row) = the value of e for the row          holds(p)(row) is true  ⇔  the value of p is TRUE

Which of the table's meanings is called, and how NULL and AND, OR, CASE and COALESCE go about it, is decided once. The
common comparisons and sums of columns and constants are closures of their own; whatever else there is in the table is
called as it stands there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from tidemark.algebra.expressions import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    FieldOf,
    Literal,
    Value,
    conjuncts,
    disjuncts,
)
from tidemark.algebra.functions import FUNCTIONS, Signature, cast_scalar, cast_value, explicit_cast_allowed
from tidemark.algebra.functions.values import EXACT, fit_decimal, fit_integer
from tidemark.algebra.scalar import Row, can_fail
from tidemark.algebra.types import INTEGER_BITS, Kind, Type

Of: TypeAlias = Callable[[Row], Any]
"""The value of an expression for a row."""

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_TURNED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_INTEGERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}
_DECIMALS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": EXACT.add,
    "subtract": EXACT.subtract,
    "multiply": EXACT.multiply,
}


def key_of(columns: Sequence[int]) -> Callable[[Row], Row]:
    """Some columns of a row, as a row.

    >>> key_of((1, 0))(("a", "b", "c")), key_of((2,))(("a", "b", "c")), key_of(())(("a",))
    (('b', 'a'), ('c',), ())
    """
    if not columns:
        return lambda row: ()
    if len(columns) == 1:
        [place] = columns
        return lambda row: (row[place],)
    return operator.itemgetter(*columns)


def compiled(expression: Expression) -> Of:
    """The value of the expression for any row.

    >>> from tidemark.algebra.types import INT
    >>> total = compiled(Call("add", (Column(0, "a", INT), Literal(1, INT)), INT))
    >>> total((41,)), total((None,))
    (42, None)
    """
    match expression:
        case Column(index=index):
            return operator.itemgetter(index)
        case Literal(value=value):
            return lambda row: value
        case Cast(argument=argument, type=target):
            return _cast(compiled(argument), argument.type, target)
        case Case(branches=branches, default=default):
            return _case([(holds(condition), compiled(result)) for condition, result in branches], compiled(default))
        case FieldOf(argument=argument, place=place):
            return _field(compiled(argument), place)
        case Call():
            return _call(expression)
    raise TypeError(f"not an expression: {expression!r}")


def compiled_row(expressions: Sequence[Expression]) -> Callable[[Row], Row]:
    """The values of several expressions for any row, as a row."""
    if all(isinstance(expression, Column) for expression in expressions):
        return key_of([expression.index for expression in expressions if isinstance(expression, Column)])
    parts = [compiled(expression) for expression in expressions]
    return lambda row: tuple([part(row) for part in parts])


def holds(predicate: Expression) -> Of:
    """Whether the predicate is TRUE for a row: neither FALSE nor NULL. The answer is to be taken as true or false.

    >>> from tidemark.algebra.types import BOOLEAN, INT
    >>> above = holds(Call("gt", (Column(0, "a", INT), Literal(1, INT)), BOOLEAN))
    >>> [bool(above((value,))) for value in (2, 1, None)]
    [True, False, False]
    """
    if isinstance(predicate, Literal):
        is_true = predicate.value is True
        return lambda row: is_true
    if isinstance(predicate, Call):
        if predicate.function == "and":
            return _all_hold(conjuncts(predicate))
        if predicate.function == "or":
            return _any_holds([holds(part) for part in disjuncts(predicate)])
        if predicate.function == "eq" and _is_plain(predicate.arguments[0].type):
            return _equal(*predicate.arguments)
    of = compiled(predicate)
    return lambda row: of(row) is True


def _all_hold(parts: Sequence[Expression]) -> Of:
    """NULL does not end a conjunction, so what comes after it is evaluated, and may fail; if nothing there can, the
    first part that is not TRUE ends it."""
    if any(can_fail(part) for part in parts[1:]):
        of = _connective([compiled(part) for part in parts], decisive=False)
        return lambda row: of(row) is True
    tests = [holds(part) for part in parts]
    if len(tests) == 2:
        first, second = tests
        return lambda row: first(row) and second(row)

    def all_hold(row: Row) -> bool:
        for test in tests:  # noqa: SIM110 (a generator takes three times as long)
            if not test(row):
                return False
        return True

    return all_hold


def _any_holds(tests: Sequence[Of]) -> Of:
    def any_holds(row: Row) -> bool:
        for test in tests:  # noqa: SIM110
            if test(row):
                return True
        return False

    return any_holds


def _equal(left: Expression, right: Expression) -> Of:
    """NULL is unequal to all that is not NULL; that it is not equal to itself is to be seen to."""
    if isinstance(right, Column) and isinstance(left, Literal):
        left, right = right, left
    if isinstance(left, Column) and isinstance(right, Literal):
        place, value = left.index, right.value
        return (lambda row: False) if value is None else (lambda row: row[place] == value)
    if isinstance(left, Column) and isinstance(right, Column):
        one, other = left.index, right.index
        return lambda row: row[one] == row[other] and row[one] is not None
    first, second = compiled(left), compiled(right)

    def equal(row: Row) -> bool:
        a, b = first(row), second(row)
        return a is not None and a == b

    return equal


def _is_plain(type_: Type) -> bool:
    """Whether Python compares values of a type as SQL does: all but NaN and what has parts."""
    return type_.kind is not Kind.DOUBLE and not type_.is_nested


def _call(call: Call) -> Of:
    name, arguments = call.function, call.arguments
    if name == "coalesce":
        return _first([compiled(argument) for argument in arguments])
    if name in ("and", "or"):
        parts = conjuncts(call) if name == "and" else disjuncts(call)
        return _connective([compiled(part) for part in parts], decisive=name == "or")
    if name in _COMPARISONS and _is_plain(arguments[0].type):
        return _comparison(name, *arguments)
    if name == "is_null":
        of = compiled(arguments[0])
        return lambda row: of(row) is None
    if name == "is_not_null":
        of = compiled(arguments[0])
        return lambda row: of(row) is not None
    if name == "in_list" and all(isinstance(part, Literal) for part in arguments[1:]) and _is_plain(arguments[0].type):
        return _member(compiled(arguments[0]), [part.value for part in arguments[1:] if isinstance(part, Literal)])
    if name in _INTEGERS and all(argument.type == call.type and call.type.is_integer for argument in arguments):
        return _of_integers(_INTEGERS[name], *map(compiled, arguments), type_=call.type)
    if name in _DECIMALS and all(part.type.kind is Kind.DECIMAL for part in (*arguments, call)):
        return _of_decimals(_DECIMALS[name], *map(compiled, arguments), type_=call.type)
    return _by_the_table(call)


def _by_the_table(call: Call) -> Of:
    """All arguments are evaluated, whatever the first ones are: one of them may fail."""
    function = FUNCTIONS[call.function]
    meaning, is_strict = function.meaning, function.strict
    signature = Signature(tuple(argument.type for argument in call.arguments), call.type)
    parts = [compiled(argument) for argument in call.arguments]
    if is_strict and len(parts) == 1:
        [part] = parts

        def of_one(row: Row) -> Value:
            value = part(row)
            return None if value is None else meaning((value,), signature)

        return of_one

    def of(row: Row) -> Value:
        values = tuple([part(row) for part in parts])
        if is_strict:
            for value in values:
                if value is None:
                    return None
        return meaning(values, signature)

    return of


def _comparison(name: str, left: Expression, right: Expression) -> Of:
    if isinstance(left, Literal) and isinstance(right, Column):
        name, left, right = _TURNED[name], right, left
    compare = _COMPARISONS[name]
    if isinstance(left, Column) and isinstance(right, Literal):
        place, constant = left.index, right.value
        if constant is None:
            return lambda row: None

        def with_constant(row: Row) -> bool | None:
            value = row[place]
            return None if value is None else compare(value, constant)

        return with_constant
    return _strict(compare, compiled(left), compiled(right))


def _strict(operation: Callable[[Any, Any], Any], left: Of, right: Of) -> Of:
    def of(row: Row) -> Any:
        a, b = left(row), right(row)
        return None if a is None or b is None else operation(a, b)

    return of


def _of_integers(operation: Callable[[Any, Any], Any], left: Of, right: Of, *, type_: Type) -> Of:
    limit = 1 << (INTEGER_BITS[type_.kind] - 1)

    def of(a: int, b: int) -> int:
        value: int = operation(a, b)
        return value if -limit <= value < limit else fit_integer(value, type_)

    return _strict(of, left, right)


def _of_decimals(operation: Callable[[Any, Any], Any], left: Of, right: Of, *, type_: Type) -> Of:
    return _strict(lambda a, b: fit_decimal(operation(a, b), type_), left, right)


def _cast(argument: Of, source: Type, target: Type) -> Of:
    if source == target or (source.is_integer and target.is_integer and _bits(source) <= _bits(target)):
        return argument

    if source.is_nested or not explicit_cast_allowed(source, target):
        return lambda row: None if (value := argument(row)) is None else cast_value(value, source, target)
    return lambda row: None if (value := argument(row)) is None else cast_scalar(value, source, target)


def _bits(type_: Type) -> int:
    return INTEGER_BITS[type_.kind]


def _case(branches: Sequence[tuple[Of, Of]], default: Of) -> Of:
    def case(row: Row) -> Any:
        for condition, result in branches:
            if condition(row):
                return result(row)
        return default(row)

    return case


def _field(argument: Of, place: int) -> Of:
    def field(row: Row) -> Value:
        whole = argument(row)
        return None if whole is None else whole[place]

    return field


def _first(parts: Sequence[Of]) -> Of:
    def first(row: Row) -> Value:
        for part in parts:
            value: Value = part(row)
            if value is not None:
                return value
        return None

    return first


def _connective(parts: Sequence[Of], *, decisive: bool) -> Of:
    """AND and OR from left to right: the first decisive value ends the evaluation."""
    end, otherwise = decisive, not decisive

    def connective(row: Row) -> bool | None:
        unknown = False
        for part in parts:
            value = part(row)
            if value is end:
                return decisive
            unknown = unknown or value is None
        return None if unknown else otherwise

    return connective


def _member(of: Of, listed: Sequence[Value]) -> Of:
    """Whether a value is one of many constants, found by its hash; NULL among them leaves it open."""
    among = frozenset(listed) - {None}
    otherwise: bool | None = None if None in listed else False

    def member(row: Row) -> bool | None:
        value: Value = of(row)
        if value is None:
            return None
        return True if value in among else otherwise

    return member
