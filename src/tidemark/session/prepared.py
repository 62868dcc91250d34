"""Statements are bound once: the shape of a text, or a text with parameters, finds what was bound before.

All of this may be forgotten at any time, and a text about which anything is unusual goes the long way, which gives its
errors, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from itertools import count
from operator import itemgetter
from threading import Lock
from typing import Any, Final, TypeAlias

from tidemark.algebra.coerce import Placeholder, Step
from tidemark.algebra.expressions import Expression, Literal
from tidemark.algebra.text import number
from tidemark.algebra.types import Type
from tidemark.errors import TidemarkError
from tidemark.session.forms import CHANGING, Call, Form, Written, formed, unfit
from tidemark.sql.catalog.catalog import Catalog
from tidemark.sql.parse import statements as st
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.shapes import Template, constants, rows_alike, template
from tidemark.sql.parse.text import Source
from tidemark.state.values import Unfit, plain, type_of

Params: TypeAlias = "Sequence[Any] | Mapping[str, Any] | None"

MOST_SHAPES: Final = 512
MOST_FORMS: Final = 32
"""Of so many shapes what is bound is kept, and for so many of the constants that stay in one."""
MOST_KEPT: Final = 100_000
"""Of a longer text nothing is kept."""


Kept: TypeAlias = "tuple[tuple[str, ...], tuple[Type, ...]]"
"""The constants that stay in the text, and the types of values that matter."""
_ANY: Final[Kept] = ((), ())


@dataclass
class Shape:
    """What is known of the texts of one shape: which values are but values (``free``), of which of those not even the
    type matters (``loose``), and what is bound for the others."""

    free: frozenset[int] | None = None
    loose: frozenset[int] | None = None
    forms: dict[Kept, Form | None] = field(default_factory=dict)
    pinned: tuple[int, ...] = ()
    exact: tuple[int, ...] = ()
    """The values that stay in the text, and those whose type a kind does not tell and which matters."""

    def key_of(self, call: Call) -> Kept:
        if not self.pinned and not self.exact:
            return _ANY
        values = call.values
        return tuple([repr(values[i]) for i in self.pinned]), tuple([type_of(values[i]) for i in self.exact])

    def serves_all(self) -> bool:
        """Whether all calls of the shape are bound to the same."""
        return self.free is not None and not self.pinned and not self.exact

    def keep(self, call: Call, free: frozenset[int], form: Form | None) -> None:
        """Remember what a call was bound to. What was bound for other free values, or while the type of more values
        seemed not to matter, is forgotten."""
        known = frozenset[int]() if self.loose is None else self.loose
        loose = known if form is None else form.loose if self.loose is None else known & form.loose
        if (free, loose) != (self.free, self.loose):
            self.forms.clear()
        self.free, self.loose = free, loose
        self.pinned = tuple([i for i in range(len(call.values)) if i not in free])
        self.exact = tuple([i for i, value in enumerate(call.values) if type(value) is Decimal and i not in loose])
        while len(self.forms) >= MOST_FORMS:
            self.forms.pop(next(iter(self.forms)))
        self.forms[self.key_of(call)] = form


class Prepared:
    """What was bound over one catalog, the shapes used last at the end."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shapes: OrderedDict[tuple[object, ...], Shape] = OrderedDict()
        self._catalog: Catalog | None = None

    def recognised(self, source: Source) -> Call | None:
        """A text without parameters, if its shape was there before."""
        found = constants(source.text) if source.dialect == "postgres" else None
        if found is None:
            return None
        shape, written = found
        try:
            values = tuple([_constant(text) for text in written])
        except TidemarkError:
            return None  # a number of too many digits; the long way says where
        alike = rows_alike(shape)
        if alike is not None:
            return self._several(alike, written, values)
        key = (shape, _kinds(values))
        return Call(key, Written(shape, written), values, False, _verb(shape)) if self._is_known(key) else None

    def _several(self, alike: str, written: list[str], values: tuple[Any, ...]) -> Call | None:
        """The calls of the rows of an INSERT, each as if it stood alone."""
        calls, width = [], alike.count("\x00")
        for start in range(0, len(values), width):
            some, end = values[start : start + width], start + width
            calls.append(Call((alike, _kinds(some)), Written(alike, written[start:end]), some, False, "INSERT"))
        known = [self._is_known(key) for key in {call.key for call in calls}]
        return replace(calls[0], rows=tuple(calls)) if all(known) else None

    def _is_known(self, key: tuple[object, ...]) -> bool:
        """Whether the shape was there before; it is now."""
        with self._lock:
            is_known = key in self._shapes
            self._shape(key)
        return is_known

    def serves_all(self, call: Call, catalog: Catalog) -> bool:
        """Whether what a call was bound to is that of all calls with its key."""
        with self._lock:
            shape = self._shapes.get(call.key)
            return catalog is self._catalog and shape is not None and shape.serves_all()

    def form(self, call: Call, catalog: Catalog, source: Source) -> Form | None:
        """What the call is bound to; None if a text without parameters has to go the long way."""
        with self._lock:
            if catalog is not self._catalog:
                self._shapes.clear()
                self._catalog = catalog
            shape = self._shape(call.key)
            known = shape.free
            if known is not None and (place := shape.key_of(call)) in shape.forms:
                return shape.forms[place]
        form, is_kept = formed(call, catalog, source, known)
        if is_kept and len(call.wording.text) <= MOST_KEPT:
            everything = frozenset(range(len(call.values)))
            free = form.free if form is not None else everything if known is None else known
            with self._lock:
                shape.keep(call, free, form)
        return form

    def _shape(self, key: tuple[object, ...]) -> Shape:
        found = self._shapes.get(key)
        if found is None:
            while len(self._shapes) >= MOST_SHAPES:
                self._shapes.popitem(last=False)
            found = self._shapes[key] = Shape()
        self._shapes.move_to_end(key)
        return found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._shapes.clear()


# Calls


@lru_cache(maxsize=MOST_SHAPES)
def _verb(shape: str) -> str:
    return shape.split(None, 1)[0].upper()


def _constant(text: str) -> Any:
    """The value of a constant as it is written: a text, a whole number, or one with a point or very many digits."""
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > _SAFE_DIGITS:
        return number(text).value
    return int(text) if text.isdigit() else Decimal(text)


_SAFE_DIGITS: Final = 18
_LARGE: Final = 2**31


def _kinds(values: Sequence[Any]) -> tuple[object, ...]:
    """What of values decides how they are bound, but for the digits of numbers."""
    return tuple(
        [
            kind if kind is not int or -_LARGE < value < _LARGE else type_of(value)
            for value, kind in zip(values, map(type, values), strict=True)
        ]
    )


def statements_of(source: Source, params: Params, prepared: Prepared) -> Sequence[tuple[st.Statement | Call, Source]]:
    """The statements of a text, or a call of what was bound before. Parameters are handed to one statement."""
    is_empty = isinstance(params, Sequence | Mapping) and not len(params)
    if params is not None and not (is_empty and not template(source.text, source.dialect).blanks):
        return [(handed(source, params), source)]
    call = prepared.recognised(source)
    return parse_script(source) if call is None else [(call, source)]


def must_change(source: Source) -> None:
    """Refuse a text with parameters that is no INSERT, UPDATE or DELETE."""
    if template(source.text, source.dialect).verb not in CHANGING:
        raise TidemarkError("parameter", "executemany takes an INSERT, UPDATE or DELETE")


def taken_cell(cell: Expression) -> Callable[[Sequence[Any]], Any] | None:
    """How a cell of a new row comes from values, if it is a constant, or is taken as it is handed over."""
    match cell:
        case Literal(value=value):
            return lambda values: value
        case Placeholder(index=index, handed=True, steps=((Step.TAKE, _, _),)):
            return itemgetter(index)
    return None


def handed(source: Source, params: Any) -> Call:
    """A call of a text with parameters. Their number and names are checked here."""
    if isinstance(params, str | bytes | bytearray | memoryview) or not isinstance(params, Sequence | Mapping):
        raise TidemarkError("parameter", f"parameters are a sequence or a dict, not {type(params).__name__}")
    found = template(source.text, source.dialect)
    values = tuple(map(_plain, count(), found.values(params)))
    alike = found.alike
    if alike is None:
        return _handed(source, found, values)
    one, width = replace(source, text=alike), template(alike, source.dialect).count
    single = template(alike, source.dialect)
    calls = [_handed(one, single, values[start : start + width]) for start in range(0, len(values), width)]
    return replace(_handed(source, found, values), rows=tuple(calls))


def _handed(source: Source, found: Template, values: tuple[Any, ...]) -> Call:
    return Call((source.text, source.dialect, _kinds(values)), found, values, True, found.verb)


def _plain(place: int, value: Any) -> Any:
    try:
        return plain(value)
    except Unfit as error:
        raise unfit(place, error) from error
