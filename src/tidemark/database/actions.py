"""Actions that reach outside the database, and the record of what rules did."""

from __future__ import annotations

import datetime as dt
import inspect
import threading
import warnings
from collections.abc import Callable, MutableSet
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from tidemark.algebra.types import BIGINT, TIMESTAMP, VARCHAR, Field, Schema
from tidemark.errors import TidemarkError
from tidemark.log import deltas as delta_tables
from tidemark.sql.text import fold

FIRINGS: Final = "_firings"
FIRINGS_SCHEMA: Final = Schema(
    (
        Field("rule", VARCHAR, nullable=False),
        Field("version", BIGINT, nullable=False),
        Field("instances", BIGINT, nullable=False),
        Field("outcome", VARCHAR, nullable=False),
        Field("time", TIMESTAMP, nullable=False),
    )
)
FIRINGS_TEXT: Final = (
    f"CREATE TABLE {FIRINGS} (rule VARCHAR NOT NULL, version BIGINT NOT NULL, instances BIGINT NOT NULL, "
    "outcome VARCHAR NOT NULL, time TIMESTAMP NOT NULL)"
)


class Outcome:
    """How a firing ended."""

    DONE = "done"
    QUEUED = "queued"


@dataclass
class Program:
    """What the program lends to rules: functions that CALL names, and who listens to NOTIFY."""

    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    listeners: dict[str, list[Callable[[str, pa.Table], None]]] = field(default_factory=dict)
    is_calling: bool = False

    def must_not_be_calling(self) -> None:
        """Refuse a change by a function that a rule calls: it would happen inside the transaction of the action, or
        beside it, and could be neither rolled back nor repeated with it."""
        if self.is_calling:
            raise TidemarkError(
                "transaction",
                "a function that a rule calls cannot change the database",
                hint="put the change into the rule's action, beside CALL; reading is possible",
            )

    def lend(self, name: str, function: Callable[..., Any]) -> None:
        _must_be_callable(name, function)
        self.functions[fold(name)] = function

    def listen(self, channel: str, listener: Callable[[str, pa.Table], None]) -> None:
        _must_be_callable(channel, listener)
        self.listeners.setdefault(fold(channel), []).append(listener)

    def tell(self, channel: str, rows: pa.Table) -> None:
        """Call who listens. What they do is done after the commit, so their errors are warnings."""
        for listener in tuple(self.listeners.get(channel, ())):
            try:
                listener(channel, rows)
            except Exception as error:
                warnings.warn(f"a listener of {channel!r} failed: {error!r}", RuntimeWarning, stacklevel=2)


def _must_be_callable(name: object, function: object) -> None:
    if not isinstance(name, str) or not callable(function):
        raise TidemarkError("type", f"a name and a function are needed, not {name!r} and {function!r}")


def call(
    program: Program,
    name: str,
    rows: pa.Table,
    key: str,
    timeout: float | None = None,
    outsiders: MutableSet[threading.Thread] | None = None,
) -> None:
    """Call a registered function with the instances and, if it takes a second argument, the idempotency key.

    The same key comes again if a call is repeated, so that the function can tell. A function that takes longer than
    the timeout counts as failed; it cannot be stopped, only left behind. It runs in a thread of its own, which is one
    of the ``outsiders``: the transaction that calls it has the database for itself.
    """
    function = program.functions.get(name)
    if function is None:
        known = ", ".join(sorted(program.functions)) or "none"
        raise TidemarkError("unknown_function", f"no function {name!r} is registered", hint=f"registered: {known}")
    arguments = (delta_tables.expand(rows), key)[: _takes(function)]
    was_calling, program.is_calling = program.is_calling, True
    try:
        if timeout is None:
            function(*arguments)
        else:
            _call_within(timeout, name, function, arguments, outsiders if outsiders is not None else set())
    except _TookTooLong as error:
        raise TidemarkError("action", f"{name} took longer than {timeout} seconds") from error
    except TidemarkError as error:
        raise TidemarkError(error.code, f"{name} failed: {error.message}", hint=error.hint) from error
    except Exception as error:
        raise TidemarkError("action", f"{name} failed: {type(error).__name__}: {error}") from error
    finally:
        program.is_calling = was_calling


class _TookTooLong(Exception):
    """A function has not come to its end in time."""


def _call_within(
    timeout: float,
    name: str,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    outsiders: MutableSet[threading.Thread],
) -> None:
    """Call a function, and leave it behind when its time is over: its thread does not keep the process alive."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            function(*arguments)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name=f"tidemark {name}", daemon=True)
    outsiders.add(thread)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise _TookTooLong
    if failed:
        raise failed[0]


def _takes(function: Callable[..., Any]) -> int:
    """How many arguments a function is called with: the rows, and the key if it has a place for it."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return 1
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return 2 if len(places) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters) else 1


def firing(name: str, version: int, instances: int, outcome: str, time: dt.datetime) -> tuple[str, pa.Table]:
    """The record of a firing, as a change of the table of firings."""
    columns = ([name], [version], [instances], [outcome], [time])
    arrays = [pa.array(values, f.type.arrow) for values, f in zip(columns, FIRINGS_SCHEMA.fields, strict=True)]
    return FIRINGS, delta_tables.weighted(pa.Table.from_arrays(arrays, schema=FIRINGS_SCHEMA.arrow))
