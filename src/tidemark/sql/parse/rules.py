"""The statements about active rules and assertions, read from the token stream.

    CREATE RULE r [(:p, …)] [ON [AFTER 'interval'] event [OR event …]] [FOR EACH (cols)] [WHEN query]
        DO action [WITH (…)]
    where events are [ANY] event [OR event …] [THEN | UNTIL event [OR event …]]
    CREATE ASSERTION a CHECK (NOT EXISTS (query)) [ON VIOLATION REJECT | REPORT]
    ACTIVATE | DEACTIVATE RULE r [(value, …)]     ACTIVATE | DEACTIVATE RULES group

Several actions stand between DO BEGIN and END, each with a semicolon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.sql.parse.text import Cursor, Source, parse


@dataclass(frozen=True)
class DatabaseEvent:
    """INSERT, DELETE or UPDATE (of some columns) on a table or view."""

    kind: str
    relation: str
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        of = f" OF {', '.join(self.columns)}" if self.columns else ""
        return f"{self.kind.upper()}{of} ON {self.relation}"


@dataclass(frozen=True)
class SignalEvent:
    """SIGNAL name: the program says ``db.signal(name)``."""

    name: str

    def __str__(self) -> str:
        return f"SIGNAL {self.name}"


@dataclass(frozen=True)
class TimeEvent:
    """AT 'time' once, or EVERY 'interval' again and again."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind.upper()} '{self.text}'"


Event: TypeAlias = DatabaseEvent | SignalEvent | TimeEvent


@dataclass(frozen=True)
class Call:
    """CALL name: a Python function that the program registered."""

    name: str


@dataclass(frozen=True)
class Notify:
    """NOTIFY channel: its listeners in this process get the instances."""

    channel: str


Action: TypeAlias = exp.Insert | exp.Update | exp.Delete | Call | Notify


@dataclass(frozen=True)
class CreateRule:
    name: str
    text: str
    actions: tuple[Action, ...]
    events: tuple[Event, ...] = ()
    each: tuple[str, ...] = ()
    when: exp.Expr | None = None
    parameters: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    delay: str | None = None
    last: tuple[Event, ...] = ()
    is_closure: bool = False

    @property
    def all_events(self) -> tuple[Event, ...]:
        return self.events + self.last


@dataclass(frozen=True)
class SetActive:
    """ACTIVATE or DEACTIVATE, of one rule (for values of its parameters) or of a group."""

    active: bool
    name: str
    is_group: bool = False
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Assertion:
    """The parts of CREATE ASSERTION: the query of the violations, and what to do about them."""

    name: str
    query: exp.Expr
    policy: str
    text: str


def create_rule(cursor: Cursor) -> CreateRule:
    name = cursor.name("the name of the rule")
    if "(" in name:
        raise cursor.error("the name of a rule has no parentheses: parameters stand behind it")
    parameters = tuple(_parameters(cursor)) if cursor.peek() == "(" else ()
    if len(set(parameters)) < len(parameters):
        raise cursor.error("a parameter is named twice")
    has_events = cursor.accept("ON")
    delay = cursor.take("an interval").text if has_events and cursor.accept("AFTER") else None
    is_closure = has_events and cursor.accept("ANY")
    events = tuple(_events(cursor)) if has_events else ()
    if is_closure:
        cursor.expect("UNTIL")
    last = tuple(_events(cursor)) if is_closure or (has_events and cursor.accept("THEN")) else ()
    each = cursor.names() if cursor.accept("FOR", "EACH") else ()
    when = parse(cursor.source, _until(cursor, "DO")) if cursor.accept("WHEN") else None
    cursor.expect("DO")
    body, options = _body_and_options(cursor)
    if when is None and not events:
        raise cursor.error("a rule needs an event (ON …) or a condition (WHEN …)")
    if when is None and each:
        raise cursor.error("FOR EACH names columns of WHEN, which is missing")
    actions = tuple(_actions(cursor, body))
    if not actions:
        raise cursor.error("there is no action between BEGIN and END")
    text = cursor.source.slice(cursor.tokens)
    return CreateRule(name, text, actions, events, each, when, parameters, options, delay, last, is_closure)


def create_assertion(cursor: Cursor) -> Assertion:
    name = cursor.name("the name of the assertion")
    for word in ("CHECK", "(", "NOT", "EXISTS"):
        cursor.expect(word)
    query = _parenthesised(cursor)
    cursor.expect(")")
    policy = "reject"
    if cursor.accept("ON", "VIOLATION"):
        policy = cursor.take("REJECT or REPORT").text.lower()
        if policy not in ("reject", "report"):
            raise cursor.error("ON VIOLATION takes REJECT or REPORT")
    cursor.end()
    return Assertion(name, parse(cursor.source, query), policy, cursor.source.slice(cursor.tokens))


def set_active(cursor: Cursor, *, active: bool) -> SetActive:
    if cursor.accept("RULES"):
        name = cursor.name("the name of a group")
        cursor.end()
        return SetActive(active, name, is_group=True)
    cursor.expect("RULE")
    name = cursor.name("the name of the rule")
    arguments = tuple(_value(cursor, part) for part in _listed(_parenthesised(cursor))) if cursor.rest() else ()
    cursor.end()
    return SetActive(active, name, arguments=arguments)


def _value(cursor: Cursor, tokens: list[Token]) -> str:
    """The text of a value, in one form; what is computed or read somewhere is none."""
    tree = parse(cursor.source, tokens) if tokens else None
    inner = tree.this if isinstance(tree, exp.Neg | exp.Cast) else tree
    if tree is None or not isinstance(inner, exp.Literal | exp.Null | exp.Boolean | exp.Interval):
        raise cursor.source.error(
            "syntax",
            "a rule is activated for values of its parameters",
            tokens[0] if tokens else None,
            hint="ACTIVATE RULE r(1, 'text', DATE '2030-01-31', NULL)",
        )
    return tree.sql(cursor.source.dialect)


def _parameters(cursor: Cursor) -> Iterator[str]:
    cursor.expect("(")
    while True:
        cursor.expect(":")
        yield cursor.name("the name of a parameter")
        if not cursor.accept(","):
            break
    cursor.expect(")")


def _events(cursor: Cursor) -> Iterator[Event]:
    """Kinds that share one ON: INSERT OR UPDATE OF a ON t; and whole events: … ON t OR DELETE ON u."""
    waiting: list[tuple[str, tuple[str, ...]]] = []
    while True:
        kind = cursor.take("an event").text.upper()
        if kind == "SIGNAL":
            yield SignalEvent(cursor.name("the name of a signal"))
        elif kind in ("AT", "EVERY"):
            yield TimeEvent(kind.lower(), cursor.take("a time").text)
        elif kind in ("INSERT", "DELETE", "UPDATE"):
            waiting.append((kind.lower(), _columns(cursor) if kind == "UPDATE" else ()))
            if cursor.accept("ON"):
                relation = cursor.name("the name of a table or view")
                yield from (DatabaseEvent(kind, relation, columns) for kind, columns in waiting)
                waiting = []
        else:
            cursor.position -= 1
            raise cursor.error("an event is INSERT, DELETE or UPDATE ON a relation, SIGNAL name, AT or EVERY a time")
        if not cursor.accept("OR"):
            break
    if waiting:
        raise cursor.error("ON and the name of a relation are missing here")


def _columns(cursor: Cursor) -> tuple[str, ...]:
    if not cursor.accept("OF"):
        return ()
    names = [cursor.name("a column name")]
    while cursor.accept(","):
        names.append(cursor.name("a column name"))
    return tuple(names)


def _word(token: Token) -> str:
    """The word or sign that a token is, in capitals; texts and names in quotes are none."""
    is_quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return "" if is_quoted else str(token.text).upper()


def _depth(token: Token) -> int:
    return {"(": 1, ")": -1}.get(_word(token), 0)


def _until(cursor: Cursor, word: str) -> list[Token]:
    """The tokens up to a word that stands outside parentheses (and outside CASE, which has none of them)."""
    depth, start = 0, cursor.position
    for place in range(start, len(cursor.tokens)):
        depth += _depth(cursor.tokens[place])
        if not depth and _word(cursor.tokens[place]) == word:
            cursor.position = place
            return cursor.tokens[start:place]
    cursor.position = len(cursor.tokens)
    raise cursor.error(f"{word} is missing here")


def _parenthesised(cursor: Cursor) -> list[Token]:
    cursor.expect("(")
    depth, start = 1, cursor.position
    for place in range(start, len(cursor.tokens)):
        depth += _depth(cursor.tokens[place])
        if not depth:
            cursor.position = place + 1
            return cursor.tokens[start:place]
    raise cursor.error(") is missing here")


def _listed(tokens: list[Token]) -> Iterator[list[Token]]:
    """What stands between the commas, outside parentheses."""
    if not tokens:
        return
    part, depth = list[Token](), 0
    for token in tokens:
        depth += _depth(token)
        if token.token_type is TokenType.COMMA and not depth:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _body_and_options(cursor: Cursor) -> tuple[list[Token], dict[str, str]]:
    """What stands after DO, and the options behind it: WITH, a parenthesis, a name and =, which is no CTE."""
    rest, depth = cursor.rest(), 0
    for place, token in enumerate(rest):
        depth += _depth(token)
        if depth or token.token_type is not TokenType.WITH or rest[place + 1 : place + 2] == []:
            continue
        if _word(rest[place + 1]) == "(":
            cursor.position += place + 1
            return rest[:place], _options(cursor)
    cursor.position = len(cursor.tokens)
    return rest, {}


def _options(cursor: Cursor) -> dict[str, str]:
    cursor.expect("(")
    options: dict[str, str] = {}
    while True:
        key = cursor.name("the name of an option")
        if key in options:
            raise cursor.error(f"the option {key!r} is given twice")
        cursor.expect("=")
        sign = "-" if cursor.accept("-") else ""
        token = cursor.take("the value of an option")
        if token.token_type is not TokenType.STRING and not token.text.replace("_", "a").replace(".", "0").isalnum():
            raise cursor.source.error("syntax", "the value of an option is missing here", token)
        options[key] = sign + token.text
        if not cursor.accept(","):
            break
    cursor.expect(")")
    cursor.end()
    return options


def _actions(cursor: Cursor, body: list[Token]) -> Iterator[Action]:
    if body and _word(body[0]) == "BEGIN":
        if _word(body[-1]) != "END":
            raise cursor.source.error("syntax", "END is missing after DO BEGIN", body[0])
        parts, part = list[list[Token]](), list[Token]()
        for token in body[1:-1]:
            if token.token_type is TokenType.SEMICOLON:
                parts.append(part)
                part = []
            else:
                part.append(token)
        parts.append(part)
        for one in parts:
            if one:
                yield _action(cursor.source, one)
        return
    yield _action(cursor.source, body)


def _action(source: Source, tokens: list[Token]) -> Action:
    word = tokens[0].text.upper() if tokens else ""
    if word in ("CALL", "NOTIFY"):
        rest = " ".join(token.text for token in tokens[1:]).strip()
        if not rest.replace("_", "a").isalnum():
            raise source.error("syntax", f"{word} takes one name", tokens[0])
        return Call(rest.lower()) if word == "CALL" else Notify(rest.lower())
    if word in ("INSERT", "UPDATE", "DELETE", "WITH"):
        tree = parse(source, tokens)
        if isinstance(tree, exp.Insert | exp.Update | exp.Delete):
            return tree
    raise source.error(
        "syntax",
        "DO takes INSERT, UPDATE, DELETE, CALL function or NOTIFY channel",
        tokens[0] if tokens else None,
        hint="several stand between DO BEGIN and END",
    )
