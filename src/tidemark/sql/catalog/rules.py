"""Active rules as the catalog keeps them. Immutable; activating one makes another rule of it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from tidemark.algebra.plans import Plan, relations_of
from tidemark.algebra.types import Schema
from tidemark.sql.parse.rules import Action, DatabaseEvent, Event, SignalEvent, TimeEvent

IMMEDIATE, DEFERRED, DETACHED, INDEPENDENT = "immediate", "deferred", "detached", "detached_independent"
STRICT, NERVOUS = "strict", "nervous"


@dataclass(frozen=True)
class Activation:
    """A rule that is watched, for given values of its parameters (as SQL texts).

    ``condition`` is the plan of WHEN; ``watched`` the one whose change is followed: for nervous rules it has further
    columns, which tell derivations of one instance apart. ``transitions`` are the transition relations that it names.
    """

    rule: str
    arguments: tuple[str, ...]
    condition: Plan
    watched: Plan
    transitions: frozenset[str]
    actions: tuple[Action, ...] = field(compare=False)

    @property
    def name(self) -> str:
        return f"{self.rule}({', '.join(self.arguments)})" if self.arguments else self.rule

    @property
    def is_condition(self) -> bool:
        """Whether there is a condition to watch, and not only an event."""
        return bool(relations_of(self.condition))

    @property
    def node(self) -> str:
        """The name of its node in the network."""
        return f"_rule {self.name}"


class Origin:
    """A statement that created a rule: only ever the same as itself."""


@dataclass(frozen=True)
class Rule:
    """An active rule. ``identity`` are the columns of WHEN that identify an instance; ``changes`` what its
    action does to which table; ``given`` the transition relations that it may name, with their columns; ``seen`` how
    many columns the relations that it names had when it was created; ``last`` the events that end what others begin;
    ``action_reads`` the relations that its actions read. A rule that is watched, or bound anew, has the ``origin`` that
    it had: it is as old as it was."""

    name: str
    text: str
    dialect: str
    events: tuple[Event, ...]
    schema: Schema
    identity: tuple[int, ...]
    has_condition: bool
    depends_on: frozenset[str]
    reads: frozenset[str]
    changes: frozenset[tuple[str, str]]
    given: tuple[tuple[str, Schema], ...] = ()
    seen: tuple[tuple[str, int], ...] = ()
    parameters: tuple[str, ...] = ()
    semantics: str = STRICT
    coupling: str = DEFERRED
    action_coupling: str = IMMEDIATE
    priority: int = 0
    group: str = ""
    cascade_limit: int = 100
    retries: int = 3
    backoff: float = 1.0
    timeout: float | None = None
    delay: dt.timedelta | None = None
    last: tuple[Event, ...] = ()
    is_closure: bool = False
    active: tuple[Activation, ...] = ()
    action_reads: frozenset[str] = frozenset()
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)

    @property
    def writes(self) -> frozenset[str]:
        """The tables that its action changes."""
        return frozenset(table for _, table in self.changes)

    @property
    def is_apart(self) -> bool:
        """Whether its condition is asked in a transaction of its own."""
        return self.coupling in (DETACHED, INDEPENDENT) or self.delay is not None

    @property
    def signals(self) -> frozenset[str]:
        """The signals that it waits for."""
        return frozenset(event.name for event in self.all_events if isinstance(event, SignalEvent))

    @property
    def all_events(self) -> tuple[Event, ...]:
        """Those that begin a sequence or a closure, and those that end it."""
        return self.events + self.last

    @property
    def times(self) -> tuple[TimeEvent, ...]:
        return tuple(event for event in self.all_events if isinstance(event, TimeEvent))

    @property
    def database_events(self) -> tuple[DatabaseEvent, ...]:
        return tuple(event for event in self.all_events if isinstance(event, DatabaseEvent))

    @property
    def several(self) -> bool:
        """Whether its events are on several relations, so that transition relations have their names behind them."""
        return len(self.event_relations) > 1

    @property
    def event_relations(self) -> frozenset[str]:
        return frozenset(event.relation for event in self.database_events)

    @property
    def event_text(self) -> str:
        first, last = (" OR ".join(map(str, events)) for events in (self.events, self.last))
        if not last:
            return first
        return f"ANY {first} UNTIL {last}" if self.is_closure else f"{first} THEN {last}"
