"""Actions that reach outside the database, and the record of what rules did.

Running the actions of rules inside an open transaction, and what keeps them from setting each other off for ever.
"""

from __future__ import annotations

import datetime as dt
import inspect
import threading
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, MutableSet
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from tidemark.algebra.plans import Given, Plan, Scan, given_name, transform
from tidemark.algebra.types import BIGINT, TIMESTAMP, VARCHAR, Field, Schema
from tidemark.errors import TidemarkError
from tidemark.rules.instances import RuleTurn
from tidemark.sql.bind.changes import BoundChange, DeleteRows, InsertQuery, InsertRows, UpdateRows
from tidemark.sql.bind.rules import CONDITION, bind_action
from tidemark.sql.catalog.rules import Activation
from tidemark.sql.parse.rules import Action, Call, Notify
from tidemark.sql.parse.text import fold
from tidemark.state.host import Calls, Host
from tidemark.storage import delta as delta_tables

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


class FiringOutcome:
    """How a firing ended."""

    DONE = "done"
    QUEUED = "queued"


@dataclass
class HostProgram:
    """What the program lends to rules: functions that CALL names, and the listeners of NOTIFY."""

    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    listeners: dict[str, list[Callable[[str, pa.Table], None]]] = field(default_factory=dict)
    calls: Calls = field(default_factory=Calls)
    """Which threads stand in one of these functions."""

    def lend(self, name: str, function: Callable[..., Any]) -> None:
        _must_be_callable(name, function)
        self.functions[fold(name)] = function

    def listen(self, channel: str, listener: Callable[[str, pa.Table], None]) -> None:
        _must_be_callable(channel, listener)
        self.listeners.setdefault(fold(channel), []).append(listener)

    def tell(self, channel: str, rows: pa.Table) -> None:
        """Call the listeners of a channel. What they do is done after the commit, so their errors are warnings."""
        for listener in tuple(self.listeners.get(channel, ())):
            try:
                listener(channel, rows)
            except Exception as error:
                warnings.warn(f"a listener of {channel!r} failed: {error!r}", RuntimeWarning, stacklevel=2)


def _must_be_callable(name: object, function: object) -> None:
    if not isinstance(name, str) or not callable(function):
        raise TidemarkError("type", f"a name and a function are needed, not {name!r} and {function!r}")


def call(
    program: HostProgram,
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
    try:
        with program.calls.one():
            if timeout is None:
                function(*arguments)
            else:
                _call_within(timeout, name, function, arguments, outsiders if outsiders is not None else set())
    except _TookTooLong as error:
        raise TidemarkError("action", f"{name} took longer than {timeout} seconds") from error
    except TidemarkError as error:
        raise error.without_place().within(f"{name} failed") from error
    except Exception as error:
        raise TidemarkError("action", f"{name} failed: {type(error).__name__}: {error}") from error


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


MOST_NESTED: Final = 64
"""How deep actions of immediate rules may set each other off, one inside the other."""


class Acting:
    """The actions of one open transaction: how deep they stand in one another, and what goes out at the end."""

    def __init__(self, transaction: Host, program: HostProgram) -> None:
        self._transaction, self._program = transaction, program
        self._calls, self._id = 0, uuid.uuid4().hex
        self._chain: list[str] = []
        self._owed = Counter[str]()
        self._nested = 0
        self.notices: list[tuple[str, pa.Table]] = []

    @property
    def is_nested(self) -> bool:
        """Whether this happens inside an action."""
        return self._nested > 0

    def begin(self, owed: Counter[str] | None = None) -> None:
        """What happens from here on is not set off by what was done before, unless it happens inside an action.

        A rule may act as often more as it is ``owed``."""
        if not self._nested:
            self._chain = []
        if owed is not None:
            self._owed = owed

    def owe(self, name: str, more: int) -> None:
        """A rule may act so often more."""
        self._owed[name] += max(0, more)

    def act(self, turn: RuleTurn, key: str | None = None) -> None:
        """Run a rule's action for all its instances at once. The key of detached work is the same if it is run again;
        otherwise each call has a key that there is only once."""
        activation, rule = turn.activation, self._transaction.catalog.rules[turn.activation.rule]
        self._chain.append(activation.name)
        if self._chain.count(activation.name) > rule.cascade_limit + self._owed[activation.name]:
            raise self._endless(f"{rule.name!r} may fire {rule.cascade_limit} times in a transaction (cascade_limit)")
        if self._nested >= MOST_NESTED:
            raise self._endless(f"actions of immediate rules stand at most {MOST_NESTED} deep inside one another")
        self._nested += 1
        try:
            for place, action in enumerate(activation.actions):
                match action:
                    case Call(name=name):
                        self._calls += 1
                        which = f"{self._id}:{self._calls}" if key is None else f"{key}:{place}"
                        outsiders = self._transaction.store.outsiders
                        call(self._program, name, turn.rows, f"{activation.name}:{which}", rule.timeout, outsiders)
                    case Notify(channel=channel):
                        self.notices.append((channel, delta_tables.expand(turn.rows)))
                    case _:
                        self._transaction.change(self._bound(action, activation), _named(turn))
        except TidemarkError as error:
            if error.code == "cascade":  # it has the chain
                raise
            raise error.without_place().within(f"the action of the rule {activation.name!r} failed") from error
        finally:
            self._nested -= 1
        self.record(activation.name, turn.rows.num_rows, FiringOutcome.DONE)

    def record(self, name: str, instances: int, outcome: str) -> None:
        """Note a firing; it becomes true with the transaction."""
        self._transaction.keep(
            *firing(name, self._transaction.store.version + 1, instances, outcome, self._transaction.store.now())
        )

    def _bound(self, action: Action, activation: Activation) -> BoundChange:
        rule = self._transaction.catalog.rules[activation.rule]
        source = self._transaction.store.source(rule.text, rule.dialect)
        catalog = self._transaction.catalog
        bound = bind_action(action, catalog, dict(rule.given), activation.condition.schema, source)
        names = {given_name(name) for name in (CONDITION, *(name for name, _ in rule.given))}
        match bound:
            case InsertQuery(plan=plan) | DeleteRows(plan=plan):
                return replace(bound, plan=_given(plan, names))
            case UpdateRows(plan=plan, coming=coming):
                return replace(bound, plan=_given(plan, names), coming=_given(coming, names))
        assert isinstance(bound, InsertRows)
        return bound

    def _endless(self, why: str) -> TidemarkError:
        chain = self._chain if len(self._chain) <= 12 else [*self._chain[:6], "…", *self._chain[-5:]]
        return TidemarkError(
            "cascade",
            f"rules set each other off without an end: {' → '.join(chain)}",
            hint=f"{why}; DEACTIVATE one of them, or change its condition",
        )


def _named(turn: RuleTurn) -> dict[str, pa.Table]:
    return {given_name(name): table for name, table in turn.relations.items()}


def _given(plan: Plan, names: set[str]) -> Plan:
    """The plan with the relations that say what happened given to it."""

    def replaced(part: Plan) -> Plan | None:
        if isinstance(part, Scan) and part.relation in names:
            return Given(part.relation, part.schema)
        return None

    return transform(plan, replaced)
