"""Expressions as closures over rows, with the meanings of the function table.

    compiled(e)(row) = the value of e for the row          holds(p)(row) is true  ⇔  the value of p is TRUE

Which of the table's meanings is called, and how NULL and AND, OR, CASE and COALESCE go about it, is decided once. The
common comparisons and sums of columns and constants are closures of their own; whatever else there is in the table is
called as it stands there.

    in_order(keys)(rows) = the rows in order

Most keys are columns of values that Python compares as SQL does, without NULL among them: then one sort by the values
themselves does it. Only where that fails are values compared one key after the other, with what says where NULL stands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import islice
from operator import eq, itemgetter
from typing import Any, Final, TypeAlias

from tidemark.algebra.aggregates import SortKey
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
from tidemark.algebra.functions import FUNCTIONS, Signature, cast_scalar, cast_value, explicit_cast_allowed, rank
from tidemark.algebra.functions.values import EXACT, fit_decimal, fit_integer
from tidemark.algebra.scalar import Row, can_fail
from tidemark.algebra.types import INTEGER_BITS, Kind, Type
from tidemark.errors import TidemarkError

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
_DIVISIONS: Final = frozenset({"divide", "modulo"})
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
        return operator.itemgetter(slice(place, place + 1))
    return operator.itemgetter(*columns)


def compiled(expression: Expression) -> Of:
    """The value of the expression for any row.

    >>> from tidemark.algebra.types import INT
    >>> total = compiled(Call("add", (Column(0, "a", INT), Literal(1, INT)), INT))
    >>> total((41,)), total((None,))
    (42, None)
    """
    expression = _folded(expression)
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
    left, right = _folded(left), _folded(right)
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


def _folded(expression: Expression) -> Expression:
    """A constant of another type, if that has it, is a constant."""
    if not isinstance(expression, Cast) or not isinstance(expression.argument, Literal):
        return expression
    try:
        return Literal(
            _cast(compiled(expression.argument), expression.argument.type, expression.type)(()), expression.type
        )
    except TidemarkError:
        return expression  # an error is one where rows are, and only there


def _is_plain(type_: Type) -> bool:
    """Whether Python compares values of a type as SQL does: all but NaN and what has parts."""
    return not type_.is_float and not type_.is_nested


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
    if name in _DIVISIONS and call.type.is_integer and arguments[0].type == call.type:
        divisor = _folded(arguments[1])
        if isinstance(divisor, Literal) and divisor.value not in (None, 0, -1):
            return _divided(compiled(arguments[0]), divisor.value, of_rest=name == "modulo")
    if name == "not":
        of = compiled(arguments[0])
        return lambda row: None if (value := of(row)) is None else not value
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
    left, right = _folded(left), _folded(right)
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


def _divided(of: Of, divisor: Any, *, of_rest: bool) -> Of:
    """Division by a constant, toward zero, or what remains of it; neither is out of range."""
    size = abs(divisor)

    def rest(row: Row) -> Any:
        value = of(row)
        return None if value is None else value % size if value >= 0 else -(-value % size)

    def quotient(row: Row) -> Any:
        value = of(row)
        if value is None:
            return None
        return value // divisor if (value < 0) == (divisor < 0) else -(abs(value) // size)

    return rest if of_rest else quotient


def _of_decimals(operation: Callable[[Any, Any], Any], left: Of, right: Of, *, type_: Type) -> Of:
    return _strict(lambda a, b: fit_decimal(operation(a, b), type_), left, right)


def _cast(argument: Of, source: Type, target: Type) -> Of:
    if source == target or (source.is_integer and target.is_integer and _bits(source) <= _bits(target)):
        return argument

    if source.is_integer and target.is_integer:
        return _narrowed(argument, target)
    if source.is_integer and target.kind is Kind.DECIMAL and not target.scale and _holds_all(target, source):
        return lambda row: None if (value := argument(row)) is None else Decimal(value)
    if source.kind is Kind.DECIMAL and not source.scale and target.is_integer:
        return _narrowed(lambda row: None if (value := argument(row)) is None else int(value), target)
    if source.is_nested or not explicit_cast_allowed(source, target):
        return lambda row: None if (value := argument(row)) is None else cast_value(value, source, target)
    return lambda row: None if (value := argument(row)) is None else cast_scalar(value, source, target)


def _narrowed(argument: Of, target: Type) -> Of:
    limit = 1 << (_bits(target) - 1)

    def narrowed(row: Row) -> Any:
        value = argument(row)
        return value if value is None or -limit <= value < limit else fit_integer(value, target)

    return narrowed


def _holds_all(target: Type, source: Type) -> bool:
    """Whether a DECIMAL without a fraction has each value of an integer type."""
    return bool(10**target.precision > 1 << (_bits(source) - 1))


def _bits(type_: Type) -> int:
    return INTEGER_BITS[type_.kind]


def _case(branches: Sequence[tuple[Of, Of]], default: Of) -> Of:
    if len(branches) == 1:
        [(test, then)] = branches
        return lambda row: then(row) if test(row) else default(row)

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


# Order

Ordered: TypeAlias = Callable[[Iterable[Row]], list[Row]]
Place: TypeAlias = Callable[[Row], Any]


def in_order(keys: Sequence[SortKey]) -> Ordered:
    """Puts rows in order; those that the keys do not tell apart stay as they were."""
    at_once = _by_columns(keys)
    passes = [(_where(key), key.descending) for key in reversed(keys)]

    def ordered(rows: Iterable[Row]) -> list[Row]:
        found = list(rows)
        if at_once is not None:
            try:
                return at_once(found)
            except TypeError:
                pass  # NULL is not less than anything
        for where, descending in passes:
            found.sort(key=where, reverse=descending)
        return found

    return ordered


def _by_columns(keys: Sequence[SortKey]) -> Ordered | None:
    """Puts rows in order by columns without NULL, all of them upward or all downward; it raises TypeError if there is
    NULL: rows that end up beside each other have been compared."""
    columns = [key.expression.index for key in keys if isinstance(key.expression, Column)]
    if len(columns) < len(keys) or not keys or any(compares_by_rank(key.expression) for key in keys):
        return None
    if len({key.descending for key in keys}) == 1:
        of, descending = itemgetter(*columns), keys[0].descending
        return lambda rows: sorted(rows, key=of, reverse=descending)
    passes = [(itemgetter(column), key.descending) for column, key in zip(columns, keys, strict=True)][::-1]

    def ordered(rows: Iterable[Row]) -> list[Row]:
        found = list(rows)
        for of, descending in passes:
            found = sorted(found, key=of, reverse=descending)
        return found

    return ordered


def _where(key: SortKey) -> Callable[[Row], tuple[Any, ...]]:
    """What one key compares of a row: whether it is NULL first, then its value."""
    of = compiled(key.expression)
    null, other = (0, 1) if key.nulls_first != key.descending else (1, 0)
    if compares_by_rank(key.expression):
        return lambda row: (null,) if (value := of(row)) is None else (other, rank(value))
    return lambda row: (null,) if (value := of(row)) is None else (other, value)


def compares_by_rank(expression: Expression) -> bool:
    return expression.type.is_float or expression.type.is_nested


def in_total_order(
    keys: Sequence[SortKey], columns: Sequence[Column]
) -> Callable[[list[Row]], tuple[list[Row], list[Any] | None]]:
    """Puts rows in order by the keys and then by all columns, and says what the keys see of each, unless that is
    something else for each: rows of one place are those for which it is equal."""
    by_keys, by_columns, place = in_order(keys), in_order([SortKey(column) for column in columns]), _place(keys)

    def ordered(rows: list[Row]) -> tuple[list[Row], list[Any] | None]:
        found = by_keys(rows)
        places = list(map(place, found))
        if any(map(eq, places, islice(places, 1, None))):
            return by_keys(by_columns(rows)), places
        return found, None

    return ordered


def _place(keys: Sequence[SortKey]) -> Place:
    if not any(compares_by_rank(key.expression) for key in keys):
        values = [compiled(key.expression) for key in keys]
        columns = [key.expression.index for key in keys if isinstance(key.expression, Column)]
        if columns and len(columns) == len(keys):
            return itemgetter(*columns)
        return lambda row: [value(row) for value in values]
    places = [_where(key) for key in keys]
    return lambda row: [place(row) for place in places]
