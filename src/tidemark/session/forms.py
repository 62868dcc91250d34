"""What a statement is bound to, with placeholders where constants or parameters stand.

Nothing that binds can look into a placeholder. A constant that decides more than a value (an ordinal, a LIMIT, a
pattern, a part of a type) so shows itself: with a placeholder for it the text cannot be bound, or is bound to something
else than the text as it stands. Such constants stay in the text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache, partial
from operator import itemgetter
from typing import Any, Final, Protocol, TypeAlias

from tidemark.algebra.coerce import Placeholder, Step
from tidemark.algebra.expressions import Expression, Literal, Value, parts_once, transform_all
from tidemark.algebra.functions import canonical, cast_scalar, cast_value, implicit_cast_allowed
from tidemark.algebra.functions.values import fit_decimal
from tidemark.algebra.plans import Fixpoint, Plan, Project, expressions_of, walk
from tidemark.algebra.scalar import Row, value_of
from tidemark.algebra.text import read_text, show_value
from tidemark.algebra.types import INTEGER_BITS, VARCHAR, Kind, Type
from tidemark.errors import TidemarkError
from tidemark.session.changes import Keyed, keyed
from tidemark.sql.bind.changes import (
    BoundChange,
    DeleteRows,
    InsertCells,
    InsertQuery,
    InsertRows,
    UpdateRows,
    bind_open,
)
from tidemark.sql.bind.clock import lasts
from tidemark.sql.bind.parameters import FILLED, change_expressions
from tidemark.sql.bind.queries import QueryBinder
from tidemark.sql.catalog.catalog import Catalog, Table
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.as_of import version_at
from tidemark.sql.parse.shapes import Blanks, parse_with, written_out
from tidemark.sql.parse.text import Source
from tidemark.state.values import PLAIN, taken, type_of

Bound: TypeAlias = BoundChange | Plan
Open: TypeAlias = Bound | InsertCells
CHANGING: Final = frozenset({"INSERT", "UPDATE", "DELETE"})
MOST_TRIED: Final = 12
"""Of a text with more constants, one by one is not tried which of them are but values."""


class Wording(Protocol):
    """A text, with the place of each constant or parameter and the number of its value."""

    @property
    def text(self) -> str: ...

    @property
    def blanks(self) -> Blanks: ...


class Written:
    """A text that has a shape and some constants, put together when a call has to be bound."""

    def __init__(self, shape: str, constants: Sequence[str]) -> None:
        self._shape, self._constants = shape, constants

    @cached_property
    def _whole(self) -> tuple[str, Blanks]:
        return written_out(self._shape, self._constants)

    @property
    def text(self) -> str:
        return self._whole[0]

    @property
    def blanks(self) -> Blanks:
        return self._whole[1]


@dataclass
class Call:
    """A statement that is to run: its shape, and what is to be filled in.

    ``wording`` is its text and what is left blank in it; of a text without parameters (``is_handed`` is false) the
    values are its constants. An INSERT of several rows that are written alike has a call for each of them in ``rows``.
    """

    key: tuple[object, ...]
    wording: Wording
    values: tuple[Any, ...]
    is_handed: bool
    verb: str
    rows: tuple[Call, ...] = ()

    @cached_property
    def types(self) -> tuple[Type, ...]:
        return tuple(map(type_of, self.values))

    @property
    def reads(self) -> bool:
        return self.verb not in CHANGING


@dataclass(frozen=True)
class Form:
    """What texts of a shape are bound to, with placeholders for the ``free`` values."""

    bound: Open
    free: frozenset[int]

    @cached_property
    def loose(self) -> frozenset[int]:
        """The values that are but given to columns: whatever numbers they are, or parameters, the same is bound."""
        cells = [cell for row in _cells_of(self.bound) for cell in row]
        given = {cell.index for cell in cells if isinstance(cell, Placeholder) and _is_loose(cell)}
        others = [cell for cell in cells if not (isinstance(cell, Placeholder) and _is_loose(cell))]
        if isinstance(self.bound, UpdateRows | DeleteRows | InsertQuery | Plan):
            plan = self.bound if isinstance(self.bound, Plan) else self.bound.plan
            others += [one for part in walk(plan) for one in expressions_of(part)]
        return frozenset(given - {part.index for part in parts_once(others) if isinstance(part, Placeholder)})

    @cached_property
    def cells(self) -> tuple[Callable[[Sequence[Any]], Value], ...] | None:
        """How the cells of the one new row come from values, if each is a value or a constant."""
        if not isinstance(self.bound, InsertCells) or len(self.bound.rows) != 1:
            return None
        read = tuple(map(cell_reader, self.bound.rows[0]))
        return None if None in read else read  # type: ignore[return-value]

    @cached_property
    def keyed(self) -> Keyed | None:
        """The same as one plan for all values, if it picks rows by key."""
        return keyed(self.bound)

    @cached_property
    def row_of(self) -> Callable[[Sequence[Any]], Row]:
        """What that plan asks for, of the values of a call."""
        assert self.keyed is not None
        reads = [reader_of(part) for part in self.keyed.parts]
        return lambda values: tuple([read(values) for read in reads])

    def filled(self, values: Sequence[Any]) -> Bound:
        """The same over values."""
        found = self.open(values)
        if not isinstance(found, InsertCells):
            return found
        return InsertRows(found.table, tuple(_row(row, found.table) for row in found.rows))

    def open(self, values: Sequence[Any]) -> Open:
        """The same with literals in place of placeholders."""
        known: dict[Expression, Literal] = {}

        def literal(part: Expression) -> Expression | None:
            if not isinstance(part, Placeholder):
                return None
            found = known.get(part)
            if found is None:
                found = known[part] = Literal(value_for(part, values), part.type)
            return found

        return _changed(self.bound, literal)


def _row(row: tuple[Expression, ...], table: Table) -> tuple[Value, ...]:
    cells: list[Value] = []
    for cell, column in zip(row, table.schema.fields, strict=True):
        try:
            cells.append(value_of(cell, ()))
        except TidemarkError as error:
            raise error.within(f"column {column.name!r}") from error
    return tuple(cells)


Change: TypeAlias = Callable[[Expression], "Expression | None"]


def value_for(part: Placeholder, values: Sequence[Any]) -> Value:
    """The value that a placeholder stands for."""
    return reader_of(part)(values)


Reader: TypeAlias = Callable[[Sequence[Any]], Value]


def cell_reader(cell: Expression) -> Reader | None:
    """How a cell comes from values, if it is one of them, or a constant."""
    match cell:
        case Literal(value=value):
            return lambda values: value
        case Placeholder():
            return reader_of(cell)
    return None


@lru_cache(maxsize=4_096)
def reader_of(part: Placeholder) -> Reader:
    """How the value that a placeholder stands for comes from all values."""
    index, steps = part.index, [_step_of(step, before, after) for step, before, after in part.steps]
    if part.type.kind is Kind.NULL:
        return lambda values: _of_no_type(index, values[index])
    if not steps:
        return itemgetter(index)

    def read(values: Sequence[Any]) -> Value:
        value = values[index]
        try:
            for step in steps:
                value = step(value)
        except ValueError as error:
            raise unfit(index, error) from error
        known: Value = value
        return known

    return read


def _of_no_type(place: int, value: Any) -> None:
    if value is not None:
        raise unfit(place, f"nothing tells the type of {value!r} here")


def _step_of(step: Step, before: Type, after: Type) -> Callable[[Any], Any]:
    match step:
        case Step.TAKE:
            if after.kind in PLAIN and not after.is_float:
                return partial(_taken_plain, PLAIN[after.kind], after)
            return lambda value: canonical(taken(value, after))
        case Step.READ:
            return str if after == VARCHAR else lambda value: read_text(value, after)
        case Step.NEGATE:
            return lambda value: value.copy_negate() if isinstance(value, Decimal) else -value
        case Step.CAST:
            if before.kind is after.kind is Kind.DECIMAL:  # however many digits the value has
                return lambda value: None if value is None else fit_decimal(value, after)
            if before.is_integer and after.is_integer and implicit_cast_allowed(before, after):
                return lambda value: value
            if before.kind in INTEGER_BITS and after.kind is Kind.DECIMAL:
                return lambda value: None if value is None else cast_scalar(value, before, after)
            return lambda value: None if value is None else cast_value(value, before, after)


def _taken_plain(plain: frozenset[type], type_: Type, value: Any) -> Any:
    """See ``taken``: of what has but one form only the range is looked at."""
    if value.__class__ not in plain:
        return canonical(taken(value, type_))
    if type_.is_integer and value is not None:
        return taken(value, type_)
    return value


def _cells_of(bound: Open) -> Iterable[tuple[Expression, ...]]:
    """The new values of the columns of a table."""
    match bound:
        case InsertCells(rows=rows):
            return rows
        case UpdateRows(coming=Project(expressions=expressions)):
            return (expressions,)
    return ()


def _is_loose(cell: Placeholder) -> bool:
    match cell.steps:
        case ((Step.TAKE, _, _),):
            return cell.handed
        case ((Step.CAST, before, after),):
            return before.kind is Kind.DECIMAL and after.is_numeric
    return False


def _loosened(bound: Open) -> Open:
    """The same, with decimals that are as wide as their columns brought to these like any others."""

    def brought(cell: Expression) -> Expression:
        if isinstance(cell, Placeholder) and not cell.steps and not cell.handed and cell.type.kind is Kind.DECIMAL:
            return cell.brought(Step.CAST, cell.type)
        return cell

    match bound:
        case InsertCells(table=table, rows=rows):
            return InsertCells(table, tuple(tuple(map(brought, row)) for row in rows))
        case UpdateRows(table=table, plan=plan, coming=Project() as coming):
            expressions = tuple(map(brought, coming.expressions))
            return UpdateRows(table, plan, replace(coming, expressions=expressions))
    return bound


def _changed(bound: Open, change: Change) -> Open:
    """A bound statement or a plan with each expression changed; what is not stays the same object."""
    match bound:
        case UpdateRows(table=table, plan=plan, coming=coming):
            return UpdateRows(table, change_expressions(plan, change), change_expressions(coming, change))
        case DeleteRows(table=table, plan=plan):
            return DeleteRows(table, change_expressions(plan, change))
        case InsertQuery(table=table, plan=plan):
            return InsertQuery(table, change_expressions(plan, change))
        case InsertCells(table=table, rows=rows):
            return InsertCells(table, tuple(transform_all(row, change) for row in rows))
        case Plan():
            return change_expressions(bound, change)
    return bound


# Binding


def formed(call: Call, catalog: Catalog, source: Source, free: frozenset[int] | None) -> tuple[Form | None, bool]:
    """What the call is bound to, and whether that holds for other times and versions, too."""
    binding = _Binding(call, catalog, source)
    if call.is_handed:
        return binding.with_parameters(free), binding.is_lasting
    try:
        return binding.with_constants(free), True
    except TidemarkError:
        return None, False


@dataclass
class _Binding:
    """Binds one call, with placeholders for some of its values."""

    call: Call
    catalog: Catalog
    source: Source
    is_lasting: bool = True

    def with_parameters(self, free: frozenset[int] | None) -> Form:
        """Parameters for which there can be no placeholder stand for what would be written there."""
        wanted = frozenset(range(len(self.call.values))) if free is None else free
        form = self._tried(wanted)
        if form is None:
            form = self._widened(Form(self.bound(frozenset()), frozenset()), lambda wider: True)
        return form

    def with_constants(self, free: frozenset[int] | None) -> Form | None:
        """Constants for which a placeholder gives what the text as it stands gives."""
        plain = Form(self.bound(frozenset()), frozenset())
        if not self.is_lasting:
            return None

        def is_equal(form: Form) -> bool:
            return _same(form.open(self.call.values), plain.bound)

        wanted = frozenset(range(len(self.call.values))) if free is None else free
        form = self._tried(wanted)
        if form is not None and is_equal(form):
            return form
        if free is not None:
            return None
        return self._widened(plain, is_equal) if len(wanted) <= MOST_TRIED else plain

    def _widened(self, form: Form, holds: Callable[[Form], bool]) -> Form:
        """The form with a placeholder for each value for which there can be one, tried one after the other."""
        for value in range(len(self.call.values)):
            wider = self._tried(form.free | {value})
            if wider is not None and holds(wider):
                form = wider
        return form

    def _tried(self, free: frozenset[int]) -> Form | None:
        try:
            bound = self.bound(free)
            return Form(bound, free) if _can_be_filled(bound) else None
        except (TidemarkError, LookupError, TypeError, ValueError, AttributeError, AssertionError):
            return None  # something looked for a literal, or for another statement than there is with one

    def bound(self, free: frozenset[int]) -> Open:
        """The statement with placeholders for the free values, and the others as they are written."""
        call = self.call
        filled: dict[int, int | str] = {at: value for at, value in call.wording.blanks if value in free}
        if call.is_handed:
            filled |= {at: _written(call.values[i], i) for at, i in call.wording.blanks if i not in free}
        statement = parse_with(self.source, call.wording.text, filled)
        handed = tuple(
            Placeholder(i, type_, nullable=type_.kind is Kind.NULL, handed=call.is_handed)
            for i, type_ in enumerate(call.types)
        )
        if not isinstance(statement, st.Insert | st.Update | st.Delete | st.Query):
            raise TidemarkError(
                "parameter", "parameters are taken by one SELECT, INSERT, UPDATE or DELETE", hint="write the values"
            )
        if not lasts(statement.tree) or (isinstance(statement, st.Query) and statement.as_of is not None):
            self.is_lasting = False
        opened = replace(self.source, values=handed)
        if isinstance(statement, st.Query):
            binder = QueryBinder(opened, self.catalog, version=version_at(statement.as_of, opened))
            return binder.bind(statement.tree)
        return _loosened(bind_open(statement, self.catalog, opened))


def _can_be_filled(bound: Open) -> bool:
    """Whether placeholders stand only where values are filled in. Rules of a recursion are not looked into."""
    match bound:
        case UpdateRows(plan=plan, coming=coming):
            plans: tuple[Plan, ...] = (plan, coming)
        case DeleteRows(plan=plan) | InsertQuery(plan=plan):
            plans = (plan,)
        case Plan():
            plans = (bound,)
        case _:
            return True
    parts = [part for plan in plans for part in walk(plan)]
    if any(isinstance(part, Fixpoint) for part in parts):
        return False
    others = (part for part in parts if not isinstance(part, FILLED))
    return not any(isinstance(one, Placeholder) for part in others for one in parts_once(expressions_of(part)))


def _same(one: Open, other: Open) -> bool:
    """Names take no part in the comparison of plans, but those of a result must be the same."""
    if isinstance(one, Plan) and isinstance(other, Plan):
        return one == other and one.schema == other.schema
    return one == other


def _written(value: Any, place: int) -> str:
    """The value as it would be written in the text, in PostgreSQL's words."""
    match value:
        case bool() | int() | str() | bytes() | dt.date() | None:
            return show_value(value)
        case Decimal():
            return format(value, "f")
        case float():
            return f"CAST('{value!r}' AS DOUBLE PRECISION)"
        case list():
            return f"ARRAY[{', '.join(_written(part, place) for part in value)}]"
    raise TidemarkError("parameter", f"parameter {place + 1}: {value!r} cannot stand here")


def unfit(place: int, why: object) -> TidemarkError:
    return TidemarkError("type", f"parameter {place + 1}: {why}")
