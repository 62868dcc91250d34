"""The statements of snapshots, continual queries and the log.

CREATE SNAPSHOT s [WITH (…)] AS query REFRESH ON DEMAND | EVERY 'interval' | AT 'times'
CREATE CONTINUAL QUERY q [WITH (…)] AS query TRIGGER trigger [UNTIL end] [DELIVER what]
REFRESH s
ALTER LOG SET (versions = n, age = 'interval', size = 'n MB')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.sql.text import Source
from tidemark.sql.triggers import Trigger, TriggerParser, Until

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
