"""When a lagging relation is brought up to date: the trigger, the end, and what is delivered, as text says
it.

    trigger  =  AT 'minute hour day month weekday'  |  EVERY 'interval'  |  ON CHANGE [OF n ROWS] [IN relation]
             |  WHEN condition [IN relation]  |  trigger AND trigger  |  trigger OR trigger  |  ( trigger )

AND binds tighter than OR. A condition goes on until a word that cannot belong to it: what begins another trigger behind
AND or OR, or UNTIL, or DELIVER. In parentheses it can hold anything.

The statements of snapshots, continual queries and the log.

CREATE SNAPSHOT s [WITH (…)] AS query REFRESH ON DEMAND | EVERY 'interval' | AT 'times'
CREATE CONTINUAL QUERY q [WITH (…)] AS query TRIGGER trigger [UNTIL end] [DELIVER what]
REFRESH s
ALTER LOG SET (versions = n, age = 'interval', size = 'n MB')
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.errors import TidemarkError
from tidemark.sql.functions.intervals import interval_of
from tidemark.sql.parse.cron import Cron, cron_of
from tidemark.sql.parse.text import Source, parse

DELIVERIES = ("changes", "insertions", "deletions", "complete")


@dataclass(frozen=True)
class Period:
    """An interval as numbers: months, which have no fixed length, and the rest."""

    months: int
    rest: dt.timedelta
    text: str


@dataclass(frozen=True)
class At:
    """At the times of a calendar."""

    cron: Cron


@dataclass(frozen=True)
class Every:
    """So long after the last time."""

    period: Period


@dataclass(frozen=True)
class OnChange:
    """When so many rows have changed since the last time, net: of the query's own result, or of a relation."""

    rows: int = 1
    relation: str | None = None


@dataclass(frozen=True)
class When:
    """When a condition is true: over the state of the database, or over what has changed since the last time
    (``old`` and ``new`` rows) of the query's own result or of a relation."""

    condition: exp.Expr
    text: str
    relation: str | None = None


@dataclass(frozen=True)
class Both:
    parts: tuple[Trigger, ...]


@dataclass(frozen=True)
class Either:
    parts: tuple[Trigger, ...]


Trigger: TypeAlias = At | Every | OnChange | When | Both | Either


@dataclass(frozen=True)
class Until:
    """The end: whichever comes first of a time, a number of results and a condition."""

    time: dt.datetime | None = None
    results: int | None = None
    condition: When | None = None


def leaves(trigger: Trigger | None) -> Iterator[At | Every | OnChange | When]:
    """The simple triggers of which one is made."""
    match trigger:
        case Both(parts=parts) | Either(parts=parts):
            for part in parts:
                yield from leaves(part)
        case None:
            return
        case _:
            yield trigger


_TRIGGERS = ("AT", "EVERY", "ON", "WHEN")
_ENDS = ("UNTIL", "DELIVER")


class TriggerParser:
    """Reads the clauses behind a query, from its tokens."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source, self.tokens, self.position = source, tokens, 0

    # Tokens

    def peek(self, ahead: int = 0) -> str:
        place = self.position + ahead
        return self.tokens[place].text.upper() if place < len(self.tokens) else ""

    def accept(self, *words: str) -> bool:
        if [self.peek(i) for i in range(len(words))] != list(words):
            return False
        self.position += len(words)
        return True

    def take(self, what: str) -> Token:
        if self.position >= len(self.tokens):
            raise self.error(f"{what} is missing here")
        self.position += 1
        return self.tokens[self.position - 1]

    def error(self, message: str) -> TidemarkError:
        return self.source.error("syntax", message, self.tokens[min(self.position, len(self.tokens) - 1)])

    def end(self) -> None:
        if self.position < len(self.tokens):
            raise self.error("nothing more is expected here")

    # Clauses

    def trigger(self) -> Trigger:
        parts = [self._both()]
        while self.peek() == "OR":
            self.position += 1
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _both(self) -> Trigger:
        parts = [self._one()]
        while self.peek() == "AND":
            self.position += 1
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _one(self) -> Trigger:
        if self.peek() == "(":
            self.position += 1
            inner = self.trigger()
            if not self.accept(")"):
                raise self.error(") is missing here")
            return inner
        if self.accept("AT"):
            return At(self.cron())
        if self.accept("EVERY"):
            return Every(self.period())
        if self.accept("ON", "CHANGE"):
            rows = 1
            if self.accept("OF"):
                rows = self._number("a number of rows")
                if not (self.accept("ROWS") or self.accept("ROW")):
                    raise self.error("ROWS is missing here")
            return OnChange(rows, self._in())
        if self.accept("WHEN"):
            return self.when()
        raise self.error("AT, EVERY, ON CHANGE or WHEN is expected here")

    def when(self) -> When:
        start, depth = self.position, 0
        while self.position < len(self.tokens):
            word = self.peek()
            if depth == 0 and self.position > start:
                if word in _ENDS or (word == "IN" and self._is_last_in()):
                    break
                if word in ("AND", "OR") and self.peek(1) in _TRIGGERS:
                    break
                if word == "OR" and (self.peek(2) in ("RESULT", "RESULTS") or self._is_time(self.position + 1)):
                    break
            depth += (word == "(") - (word == ")")
            if depth < 0:
                break
            self.position += 1
        tokens = self.tokens[start : self.position]
        if not tokens:
            raise self.error("a condition is missing here")
        condition = parse(self.source, [_word("SELECT", TokenType.SELECT, tokens[0]), *tokens])
        [listed] = condition.expressions if len(condition.expressions) == 1 else [None]
        if not isinstance(condition, exp.Select) or listed is None or isinstance(listed, exp.Alias):
            raise self.source.error("syntax", "a condition is expected here", tokens[0])
        if any(value for part, value in condition.args.items() if part != "expressions"):
            raise self.source.error("syntax", "a condition is expected here", tokens[0])
        return When(listed.copy(), self.source.slice(tokens), self._in())

    def _is_time(self, place: int) -> bool:
        """Whether a text stands alone, as the time of an end does."""
        is_text = place < len(self.tokens) and self.tokens[place].token_type is TokenType.STRING
        return is_text and self.peek(place + 1 - self.position) in ("", "OR", "DELIVER")

    def _is_last_in(self) -> bool:
        """Whether IN names the relation of the condition, and is not the operator: no list follows it."""
        return self.peek(1) != "("

    def until(self) -> Until:
        found = Until()
        while True:
            if self.accept("WHEN"):
                found = Until(found.time, found.results, self.when())
            elif self.tokens[self.position : self.position + 1] and self._is_text():
                found = Until(self.moment(), found.results, found.condition)
            else:
                results = self._number("a time, a number of results, or WHEN")
                if not (self.accept("RESULTS") or self.accept("RESULT")):
                    raise self.error("RESULTS is missing here")
                found = Until(found.time, results, found.condition)
            if not self.accept("OR"):
                return found

    def deliver(self) -> str:
        word = self.take("what to deliver").text.lower()
        if word not in DELIVERIES:
            self.position -= 1
            raise self.error("CHANGES, INSERTIONS, DELETIONS or COMPLETE is expected here")
        return word

    # Values

    def cron(self) -> Cron:
        token = self._text("the times, as in '0 9 * * 1'")
        try:
            return cron_of(token.text)
        except ValueError as error:
            raise self.source.error("syntax", str(error), token, hint="minute hour day month weekday") from error

    def period(self) -> Period:
        token = self._text("an interval, as in '1 hour'")
        return period_of(token.text, self.source, token)

    def moment(self) -> dt.datetime:
        token = self._text("a time, as in '2027-01-01 12:00'")
        try:
            found = dt.datetime.fromisoformat(token.text)
        except ValueError as error:
            raise self.source.error("syntax", f"{token.text!r} is not a time", token) from error
        return found if found.tzinfo is None else found.astimezone(dt.UTC).replace(tzinfo=None)

    def _is_text(self) -> bool:
        return bool(self.tokens[self.position].token_type is TokenType.STRING)

    def _text(self, what: str) -> Token:
        token = self.take(what)
        if token.token_type is not TokenType.STRING:
            self.position -= 1
            raise self.error(f"{what} is expected here")
        return token

    def _number(self, what: str) -> int:
        token = self.take(what)
        if not token.text.isdecimal() or int(token.text) < 1:
            self.position -= 1
            raise self.error(f"{what} is expected here")
        return int(token.text)

    def _in(self) -> str | None:
        if not self.accept("IN"):
            return None
        token = self.take("the name of a relation")
        return token.text if token.token_type is TokenType.IDENTIFIER else token.text.lower()


def period_of(text: str, source: Source, node: Token | None = None) -> Period:
    """The interval that a text says; it must be longer than nothing."""
    try:
        parts = [getattr(part, "value", 0) for part in interval_of(text).parts]
    except TidemarkError as error:
        raise source.error("syntax", f"{text!r} is not an interval", node, hint="as in '15 minutes'") from error
    months, days, microseconds = (int(part) for part in parts)
    rest = dt.timedelta(days=days, microseconds=microseconds)
    if months < 0 or rest < dt.timedelta(0) or (not months and not rest):
        raise source.error("syntax", f"{text!r} is not an interval that can pass", node)
    return Period(months, rest, text)


def _word(text: str, kind: TokenType, before: Token) -> Token:
    return Token(kind, text, line=before.line, col=before.col, start=before.start, end=before.start)


SNAPSHOT, QUERY, ON_READ = "snapshot", "continual query", "view refreshed on read"
LAG_POLICIES = ("keep", "refresh", "invalidate")


@dataclass(frozen=True)
class Lag:
    """How a derived relation lags: what it is, when it is brought up to date, and what it is when the log cannot wait
    for it: the log waits (keep), it is brought up to date (refresh), or it will be evaluated as a whole
    (invalidate)."""

    kind: str
    trigger: Trigger | None = None
    until: Until = field(default_factory=Until)
    deliver: str = "changes"

    @property
    def is_read_through(self) -> bool:
        return self.kind == ON_READ


@dataclass(frozen=True)
class Refresh:
    """REFRESH a snapshot, or ask a continual query now."""

    name: str


@dataclass(frozen=True)
class AlterLog:
    """Set how much of the log is kept; an option that is NULL or 'none' is no limit."""

    options: Mapping[str, str]


def lag_clauses(source: Source, tokens: list[Token], kind: str) -> tuple[list[Token], Lag]:
    """The tokens of the query, and the clauses behind it."""
    word = "REFRESH" if kind == SNAPSHOT else "TRIGGER"
    place = _last(tokens, word)
    if place is None:
        form = "ON DEMAND, EVERY 'interval' or AT 'times'" if kind == SNAPSHOT else "what asks the query"
        raise source.error("syntax", f"{word} is missing: {form}", tokens[-1] if tokens else None)
    clauses = TriggerParser(source, tokens[place + 1 :] or tokens[place:])
    if kind == SNAPSHOT:
        trigger = None if clauses.accept("ON", "DEMAND") else clauses.trigger()
        clauses.end()
        return tokens[:place], Lag(kind, trigger)
    trigger = clauses.trigger()
    until = clauses.until() if clauses.accept("UNTIL") else Until()
    deliver = clauses.deliver() if clauses.accept("DELIVER") else "changes"
    clauses.end()
    return tokens[:place], Lag(kind, trigger, until, deliver)


def _last(tokens: list[Token], word: str) -> int | None:
    """The last place of a word outside parentheses: what comes before it is the query."""
    depth, found = 0, None
    for place, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        is_word = token.text.upper() == word and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
        if depth == 0 and is_word:
            found = place
    return found
