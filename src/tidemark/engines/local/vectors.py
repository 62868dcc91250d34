"""Expressions over columns: for a whole batch at once where that means the same as for each row, else row by row.

Arithmetic and comparisons of numbers are done on 64 bits, and only where no result can need more; texts are compared by
Arrow. Whatever else there is in the table of functions, and whatever does not fit, is evaluated by ``algebra.compiled``
over the columns that it reads, once for each different value if it reads one. So an error is raised where a row raises
it, and nowhere else: what can fail is evaluated for those rows alone that come to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.algebra.compiled import compiled
from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    columns_of,
    conjuncts,
    disjuncts,
    substitute,
)
from tidemark.algebra.functions import canonical
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import BOOLEAN, INTEGER_BITS, Kind, Type
from tidemark.storage.batches import Batch, Mask, Unfit, Vector, magnitude
from tidemark.storage.runs import Numbers, code_of

Of: TypeAlias = Callable[[Batch], Vector]
"""The values of an expression for the rows of a batch."""
Truth: TypeAlias = Callable[[Batch], tuple[Mask, Mask | None]]
"""For which rows a condition is true, and for which it is not NULL; None if for all."""

LIMIT: Final = 2**63
_NUMBERED: Final = frozenset(
    {
        *(Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.BOOLEAN),
        *(Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ),
    }
)
_COMPARED: Final[dict[str, tuple[Callable[[Any, Any], Any], Callable[..., Any]]]] = {
    "eq": (np.equal, pc.equal),
    "ne": (np.not_equal, pc.not_equal),
    "lt": (np.less, pc.less),
    "le": (np.less_equal, pc.less_equal),
    "gt": (np.greater, pc.greater),
    "ge": (np.greater_equal, pc.greater_equal),
}
_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
}
_WILD: Final = frozenset("_\\")
_WORTH_A_LOOK: Final = 32
"""Of so many values some may be equal, so that each need be looked at once."""


def computed(expression: Expression) -> Of:
    """The values of an expression for any batch.

    >>> from tidemark.algebra.types import INT
    >>> total = computed(Call("add", (Column(0, "a", INT), Literal(1, INT)), INT))
    >>> table = pa.table({"a": pa.array([41, None], pa.int32()), "_weight": [1, 1]})
    >>> total(Batch.of(table)).array().to_pylist()
    [42, None]
    """
    if isinstance(expression, Column):
        place = expression.index
        return lambda batch: batch.vectors[place]
    by_row, at_once = _by_row(expression), _at_once(expression)
    if at_once is None:
        return by_row

    def of(batch: Batch) -> Vector:
        try:
            return at_once(batch)
        except Unfit:
            return by_row(batch)

    return of


def passing(predicate: Expression) -> Callable[[Batch], Batch]:
    """The rows for which a predicate is TRUE. Parts that cannot fail are asked one after the other, of the rows that
    are left, cheap ones first."""
    parts = conjuncts(predicate)
    if any(can_fail(part) for part in parts):
        parts = (predicate,)
    tests = [truth(part) for part in sorted(parts, key=lambda part: _at_once(part) is None) if part != TRUE]

    def chosen(batch: Batch) -> Batch:
        for test in tests:
            if not len(batch):
                break
            batch = batch.where(test(batch)[0])
        return batch

    return chosen


def truth(predicate: Expression) -> Truth:
    """A condition for any batch."""
    at_once = _truth(predicate)
    if at_once is None:
        return _truth_of(_by_row(predicate))
    by_row = _truth_of(_by_row(predicate))

    def of(batch: Batch) -> tuple[Mask, Mask | None]:
        try:
            return at_once(batch)
        except Unfit:
            return by_row(batch)

    return of


def _truth_of(of: Of) -> Truth:
    def found(batch: Batch) -> tuple[Mask, Mask | None]:
        numbers, present = of(batch).numbers()
        return numbers != 0, present

    return found


# Row by row


def _by_row(expression: Expression) -> Of:
    """The expression by its meaning for a row, over the columns that it reads."""
    places = sorted(columns_of(expression))
    inputs = [Column(0, "", BOOLEAN)] * (places[-1] + 1 if places else 0)
    for number, place in enumerate(places):
        inputs[place] = Column(number, "", _type_of(expression, place))
    of, type_ = compiled(substitute(expression, tuple(inputs))), expression.type

    def values(batch: Batch) -> Vector:
        if not places:
            return _repeated(of, type_, len(batch))
        if len(places) == 1 and len(batch) > _WORTH_A_LOOK:
            once = _for_each_value(of, type_, batch.vectors[places[0]])
            if once is not None:
                return once
        columns = [_values(batch.vectors[place]) for place in places]
        return Vector(type_, array=pa.array([of(row) for row in zip(*columns, strict=True)], type_.arrow))

    return values


def _type_of(expression: Expression, place: int) -> Type:
    if isinstance(expression, Column):
        return expression.type
    return next(_type_of(part, place) for part in expression.children() if place in columns_of(part))


def _repeated(of: Callable[[Any], Any], type_: Type, count: int) -> Vector:
    """The values of an expression that reads no column. No row asks for none."""
    if not count:
        return Vector(type_, array=pa.array([], type_.arrow))
    return Vector(type_, array=pa.repeat(pa.scalar(of(()), type_.arrow), count))


def _for_each_value(of: Callable[[Any], Any], type_: Type, vector: Vector) -> Vector | None:
    """The expression for each different value of one column; None if most values are different."""
    if vector.type.is_nested or vector.type.is_float or vector.type.kind is Kind.NULL:
        return None
    coded = vector.array().dictionary_encode(null_encoding="encode")
    if 2 * len(coded.dictionary) > len(coded):
        return None
    found = pa.array([of((value,)) for value in coded.dictionary.to_pylist()], type_.arrow)
    return Vector(type_, array=found.take(coded.indices))


def _values(vector: Vector) -> list[Any]:
    values: list[Any] = vector.array().to_pylist()
    has_forms = vector.type.is_float or vector.type.is_nested
    return [canonical(value) for value in values] if has_forms else values


# At once


def _at_once(expression: Expression) -> Of | None:
    """None if the expression is not known to mean the same for columns."""
    match expression:
        case Column(index=index):
            return lambda batch: batch.vectors[index]
        case Literal():
            return _literal(expression)
        case Cast(argument=argument, type=target):
            return _cast(argument, target)
        case Case(branches=branches, default=default):
            return _case([(truth(condition), computed(result)) for condition, result in branches], computed(default))
        case Call(function="coalesce", arguments=arguments):
            return _first([computed(argument) for argument in arguments])
        case Call(function=name, arguments=(left, right)) if name in _ARITHMETIC:
            return _arithmetic(name, left, right, expression.type)
        case Call(function="negate", arguments=(argument,)) if expression.type.is_exact:
            zero = Literal(0, argument.type)
            return _arithmetic("subtract", zero, argument, expression.type) if argument.type.is_integer else None
        case Call(function="extract_year", arguments=(argument,)) if argument.type.kind is Kind.DATE:
            return _year(computed(argument), expression.type)
        case Call() if expression.type == BOOLEAN:
            found = _truth(expression)
            return None if found is None else _as_vector(found)
    return None


def _as_vector(of: Truth) -> Of:
    def vector(batch: Batch) -> Vector:
        found, present = of(batch)
        return Vector(BOOLEAN, numbers=found.astype(np.int64), present=present)

    return vector


def _literal(literal: Literal) -> Of | None:
    """A constant as a number, if it is one."""
    value, type_ = literal.value, literal.type
    if type_.kind not in _NUMBERED:
        return None
    number = 0 if value is None else code_of(type_)(value)
    if value is not None and type_.kind is Kind.DECIMAL and type_.precision > 18 and not _fits(value, type_, number):
        return None

    def of(batch: Batch) -> Vector:
        present = np.zeros(len(batch), bool) if value is None else None
        return Vector(type_, numbers=np.full(len(batch), number, np.int64), present=present)

    return of


def _fits(value: Any, type_: Type, code: int) -> bool:
    """Whether the code of a wide decimal is all of it, and not its low half."""
    return bool(value.scaleb(type_.scale) == code)


def _cast(argument: Expression, target: Type) -> Of | None:
    """Whole numbers and decimals as decimals of as many digits behind the point, or more."""
    source = argument.type
    if source == target:
        return _at_once(argument)
    is_wider = source.is_integer and target.is_integer and INTEGER_BITS[source.kind] <= INTEGER_BITS[target.kind]
    is_decimal = source.is_exact and target.kind is Kind.DECIMAL and target.scale >= source.scale
    if not (is_wider or is_decimal):
        return None
    of = computed(argument)

    def cast(batch: Batch) -> Vector:
        numbers, present = of(batch).numbers()
        if is_decimal:
            numbers = _scaled(numbers, target.scale - source.scale, 10**target.precision)
        return Vector(target, numbers=numbers, present=present)

    return cast


def _scaled(numbers: Numbers, digits: int, limit: int) -> Numbers:
    """Unfit if a number is not less than the limit then."""
    if not digits and limit >= LIMIT:
        return numbers
    if magnitude(numbers) * 10**digits >= min(limit, LIMIT):
        raise Unfit
    return numbers * 10**digits if digits else numbers


def _arithmetic(name: str, left: Expression, right: Expression, type_: Type) -> Of | None:
    scales = (left.type.scale, right.type.scale)
    if type_.is_integer:
        limit = 1 << (INTEGER_BITS[type_.kind] - 1)
        scale = 0
        if left.type != type_ or right.type != type_:
            return None
    elif type_.kind is Kind.DECIMAL and left.type.kind is right.type.kind is Kind.DECIMAL:
        limit, scale = 10**type_.precision, sum(scales) if name == "multiply" else max(scales)
        if type_.scale < scale:
            return None
    else:
        return None
    one, other, operation = computed(left), computed(right), _ARITHMETIC[name]

    def of(batch: Batch) -> Vector:
        (a, there), (b, too) = one(batch).numbers(), other(batch).numbers()
        if name != "multiply":
            a, b = _scaled(a, scale - scales[0], LIMIT), _scaled(b, scale - scales[1], LIMIT)
        largest, second = magnitude(a), magnitude(b)
        if (largest * second if name == "multiply" else largest + second) >= LIMIT:
            raise Unfit
        found = _scaled(operation(a, b), type_.scale - scale, LIMIT)
        present = _both(there, too)
        if present is not None:
            found = np.where(present, found, 0)
        if magnitude(found) >= limit:
            raise Unfit
        return Vector(type_, numbers=found, present=present)

    return of


def _both(one: Mask | None, other: Mask | None) -> Mask | None:
    return other if one is None else one if other is None else one & other


def _year(of: Of, type_: Type) -> Of:
    def year(batch: Batch) -> Vector:
        days, present = of(batch).numbers()
        years = days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
        return Vector(type_, numbers=years if present is None else np.where(present, years, 0), present=present)

    return year


def _case(branches: Sequence[tuple[Truth, Of]], default: Of) -> Of:
    """Each condition is asked, and each result computed, for the rows alone that come to it."""

    def case(batch: Batch) -> Vector:
        waiting, parts = np.arange(len(batch)), list[tuple[Numbers, Vector]]()
        rest = batch
        for condition, result in branches:
            if not len(waiting):
                break
            holds, _ = condition(rest)
            if bool(holds.any()):
                parts.append((waiting[holds], result(rest.where(holds))))
                waiting, rest = waiting[~holds], rest.where(~holds)
        if len(waiting) or not parts:
            parts.append((waiting, default(rest)))
        return _assembled(parts)

    return case


def _first(parts: Sequence[Of]) -> Of:
    """The first value that is not NULL; what comes after it is not computed."""

    def first(batch: Batch) -> Vector:
        waiting, rest, found = np.arange(len(batch)), batch, list[tuple[Numbers, Vector]]()
        for part in parts[:-1]:
            vector = part(rest)
            present = vector.present()
            if present is None:
                found.append((waiting, vector))
                return _assembled(found)
            found.append((waiting[present], vector.take(np.flatnonzero(present))))
            waiting, rest = waiting[~present], rest.where(~present)
        found.append((waiting, parts[-1](rest)))
        return _assembled(found)

    return first


def _assembled(parts: Sequence[tuple[Numbers, Vector]]) -> Vector:
    """One column of the values for some rows each."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.concatenate([places for places, _ in parts])
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return Vector.together([vector for _, vector in parts]).take(back)


# Conditions


def _truth(predicate: Expression) -> Truth | None:
    match predicate:
        case Column():
            return _truth_of(computed(predicate))
        case Call(function="and" | "or" as name):
            parts = conjuncts(predicate) if name == "and" else disjuncts(predicate)
            return _connective([truth(p) for p in parts], [can_fail(p) for p in parts], decisive=name == "or")
        case Call(function="not", arguments=(argument,)):
            return _not(truth(argument))
        case Call(function="is_null" | "is_not_null" as name, arguments=(argument,)):
            return _is_null(computed(argument), expected=name == "is_null")
        case Call(function="is_distinct" | "is_not_distinct" as name, arguments=(left, right)):
            if left.type == right.type and left.type.kind in _NUMBERED:
                return _is_same(computed(left), computed(right), expected=name == "is_not_distinct")
        case Call(function=name, arguments=(left, right)) if name in _COMPARED:
            if left.type == right.type and left.type.kind is Kind.VARCHAR:
                return _texts_compared(_COMPARED[name][1], left, right)
            if (left.type == right.type and left.type.kind in _NUMBERED) or (
                left.type.is_exact and right.type.is_exact
            ):
                return _compared(_COMPARED[name][0], left, right)
        case Call(function="like", arguments=(argument, Literal(value=str() as shape))) if not _WILD & set(shape):
            return _like(computed(argument), shape)
        case Call(function="in_list", arguments=(argument, *listed)) if all(isinstance(p, Literal) for p in listed):
            values = [part.value for part in listed if isinstance(part, Literal)]
            if argument.type.kind is Kind.VARCHAR or argument.type.kind in _NUMBERED - {Kind.DECIMAL}:
                return _member(computed(argument), argument.type, values)
    return None


def _connective(parts: Sequence[Truth], fails: Sequence[bool], *, decisive: bool) -> Truth:
    """From left to right; what can fail is asked only of the rows that are not decided yet."""

    def found(batch: Batch) -> tuple[Mask, Mask | None]:
        decided, unknown = np.zeros(len(batch), bool), np.zeros(len(batch), bool)
        for part, may_fail in zip(parts, fails, strict=True):
            asked = np.flatnonzero(~decided) if may_fail else None
            if asked is not None and not len(asked):
                continue
            value, present = part(batch if asked is None else batch.take(asked))
            ends = value if decisive else ~value if present is None else present & ~value
            if asked is None:
                decided |= ends
                unknown |= False if present is None else ~present
            else:
                decided[asked[ends]] = True
                if present is not None:
                    unknown[asked[~present]] = True
        value = decided if decisive else ~decided & ~unknown
        unknown &= ~decided
        return value, ~unknown if bool(unknown.any()) else None

    return found


def _not(of: Truth) -> Truth:
    def found(batch: Batch) -> tuple[Mask, Mask | None]:
        value, present = of(batch)
        return (~value if present is None else present & ~value), present

    return found


def _is_null(of: Of, *, expected: bool) -> Truth:
    def found(batch: Batch) -> tuple[Mask, Mask | None]:
        present = of(batch).present()
        if present is None:
            return np.full(len(batch), not expected), None
        return (~present if expected else present), None

    return found


def _compared(compare: Callable[[Any, Any], Any], left: Expression, right: Expression) -> Truth:
    """Numbers of several scales are brought to the finest."""
    one, other, scale = computed(left), computed(right), max(left.type.scale, right.type.scale)

    def found(batch: Batch) -> tuple[Mask, Mask | None]:
        (a, there), (b, too) = one(batch).numbers(), other(batch).numbers()
        a, b = _scaled(a, scale - left.type.scale, LIMIT), _scaled(b, scale - right.type.scale, LIMIT)
        present, value = _both(there, too), compare(a, b)
        return (value if present is None else value & present), present

    return found


def _is_same(left: Of, right: Of, *, expected: bool) -> Truth:
    def found(batch: Batch) -> tuple[Mask, Mask | None]:
        (a, there), (b, too) = left(batch).numbers(), right(batch).numbers()
        same = a == b  # NULL is zero on both sides
        if there is not None or too is not None:
            same &= (True if there is None else there) == (True if too is None else too)
        return (same if expected else ~same), None

    return found


def _texts_compared(compare: Callable[..., Any], left: Expression, right: Expression) -> Truth:
    one, other = _text(left), _text(right)

    def found(batch: Batch) -> tuple[Mask, Mask | None]:
        a, b = one(batch), other(batch)
        if isinstance(a, pa.Scalar) and isinstance(b, pa.Scalar):
            raise Unfit
        return _mask(compare(a, b))

    return found


def _text(expression: Expression) -> Callable[[Batch], Any]:
    if isinstance(expression, Literal):
        value = pa.scalar(expression.value, expression.type.arrow)
        return lambda batch: value
    of = computed(expression)
    return lambda batch: of(batch).array()


def _mask(array: Any) -> tuple[Mask, Mask | None]:
    if not array.null_count:
        return np.asarray(array.to_numpy(zero_copy_only=False)), None
    present = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False)), present


def _like(of: Of, shape: str) -> Truth:
    """A pattern in which nothing but ``%`` stands for something else."""
    return lambda batch: _mask(pc.match_like(of(batch).array(), shape))


def _member(of: Of, type_: Type, values: Sequence[Any]) -> Truth:
    """Whether a value is one of many constants; NULL among them leaves it open."""
    there = [value for value in values if value is not None]
    has_null = len(there) < len(values)
    texts = pa.array(there, pa.string()) if type_.kind is Kind.VARCHAR else None
    numbers = None if texts is not None else np.array([code_of(type_)(value) for value in there], np.int64)

    def found(batch: Batch) -> tuple[Mask, Mask | None]:
        vector = of(batch)
        if numbers is not None:
            codes, present = vector.numbers()
            value = np.isin(codes, numbers)
        else:
            value, present = _mask(pc.is_in(vector.array(), value_set=texts))[0], vector.present()
        if present is not None:
            value = value & present
        if has_null:
            return value, value
        return value, present

    return found
