"""The statements of Tidemark's SQL, recognised from the token stream before sqlglot parses what is plain SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.errors import TidemarkError
from tidemark.sql.text import Source, fold, parse, split, tokenize
from tidemark.sql.why import ExplainWhy as ExplainWhy
from tidemark.sql.why import parse_why


@dataclass(frozen=True)
class Begin:
    pass


@dataclass(frozen=True)
class Commit:
    pass


@dataclass(frozen=True)
class Rollback:
    pass


@dataclass(frozen=True)
class CreateTable:
    tree: exp.Create
    text: str


@dataclass(frozen=True)
class CreateView:
    name: str
    query: exp.Expr
    text: str
    materialized: bool
    columns: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class AlterTable:
    name: str
    tree: exp.Alter
    text: str


@dataclass(frozen=True)
class Drop:
    kind: str
    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True)
class Insert:
    tree: exp.Insert


@dataclass(frozen=True)
class Update:
    tree: exp.Update


@dataclass(frozen=True)
class Delete:
    tree: exp.Delete


@dataclass(frozen=True)
class Query:
    tree: exp.Expr


@dataclass(frozen=True)
class Explain:
    name: str


@dataclass(frozen=True)
class ExplainEffect:
    """EXPLAIN EFFECT OF a statement that changes a table ON a view."""

    change: Insert | Update | Delete
    view: str


@dataclass(frozen=True)
class Audit:
    name: str


@dataclass(frozen=True)
class Show:
    what: str


Statement: TypeAlias = (
    Begin
    | Commit
    | Rollback
    | CreateTable
    | CreateView
    | AlterTable
    | Drop
    | Insert
    | Update
    | Delete
    | Query
    | Explain
    | ExplainEffect
    | ExplainWhy
    | Audit
    | Show
)

_SHOWN = ("TABLES", "VIEWS")
ALTER_HINT = "ALTER TABLE t ADD COLUMN c type [DEFAULT value] [NOT NULL] [CHECK (…)] is"
# What sqlglot is asked to parse. Anything else is refused before, because sqlglot makes opaque commands of it.
_PLAIN = frozenset({"SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE", "("})
_BEGINNINGS = (
    "SELECT, WITH, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, BEGIN, COMMIT, ROLLBACK, EXPLAIN, AUDIT, SHOW do"
)


def parse_script(source: Source) -> list[tuple[Statement, Source]]:
    """The statements of a script, in order. Syntax errors anywhere are found before anything runs."""
    return [(_statement(source, tokens), source) for tokens in split(source)]


class _Cursor:
    """Reads tokens one by one, for the headers of statements that sqlglot does not know."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source, self.tokens, self.position = source, tokens, 0

    def peek(self) -> str:
        return self.tokens[self.position].text.upper() if self.position < len(self.tokens) else ""

    def accept(self, *words: str) -> bool:
        """Step over the words if they come next."""
        ahead = self.tokens[self.position : self.position + len(words)]
        if [token.text.upper() for token in ahead] != list(words):
            return False
        self.position += len(words)
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.error(f"{word} is missing here")

    def take(self, what: str) -> Token:
        if self.position >= len(self.tokens):
            raise self.error(f"{what} is missing here")
        token = self.tokens[self.position]
        self.position += 1
        return token

    def name(self, what: str) -> str:
        token = self.take(what)
        if not (token.text[:1].isalpha() or token.text[:1] == "_" or token.token_type is TokenType.IDENTIFIER):
            raise self.source.error("syntax", f"{what} is missing here", token)
        if self.peek() == ".":
            raise self.source.error("unsupported", "schema names are not supported", token)
        return fold(token)

    def rest(self) -> list[Token]:
        return self.tokens[self.position :]

    def end(self) -> None:
        if self.position < len(self.tokens):
            raise self.source.error("syntax", "nothing more is expected here", self.tokens[self.position])

    def error(self, message: str) -> Exception:
        if not self.tokens:
            return TidemarkError("syntax", message, place=self.source.place(len(self.source.text)))
        return self.source.error("syntax", message, self.tokens[min(self.position, len(self.tokens) - 1)])


def _statement(source: Source, tokens: list[Token]) -> Statement:
    cursor = _Cursor(source, tokens)
    first = cursor.peek()
    if first in ("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"):
        return _transaction_statement(cursor)
    if first == "CREATE":
        return _create(cursor)
    if first == "ALTER":
        return _alter(cursor)
    if first == "DROP":
        return _drop(cursor)
    if first in ("EXPLAIN", "AUDIT", "SHOW"):
        return _question(cursor)
    if first not in _PLAIN:
        raise source.error("syntax", f"no statement begins with {first}", tokens[0], hint=_BEGINNINGS)
    tree = parse(source, tokens)
    match tree:
        case exp.Insert():
            return Insert(tree)
        case exp.Update():
            return Update(tree)
        case exp.Delete():
            return Delete(tree)
        case exp.Select() | exp.SetOperation() | exp.Subquery() | exp.Values():
            return Query(tree)
    raise source.error("unsupported", f"{tokens[0].text.upper()} statements are not supported", tokens[0])


def _transaction_statement(cursor: _Cursor) -> Statement:
    word = cursor.take("a statement").text.upper()
    if word == "START":
        cursor.expect("TRANSACTION")
    elif not cursor.accept("TRANSACTION"):
        cursor.accept("WORK")
    cursor.end()
    if word in ("BEGIN", "START"):
        return Begin()
    return Commit() if word in ("COMMIT", "END") else Rollback()


def _create(cursor: _Cursor) -> Statement:
    cursor.expect("CREATE")
    or_replace = cursor.accept("OR", "REPLACE")
    materialized = cursor.accept("MATERIALIZED")
    if cursor.accept("VIEW"):
        return _create_view(cursor, materialized=materialized, or_replace=or_replace)
    if materialized or or_replace:
        raise cursor.error("VIEW is missing here")
    if cursor.peek() == "TABLE":
        tree = parse(cursor.source, cursor.tokens)
        if isinstance(tree, exp.Create):
            return CreateTable(tree, cursor.source.slice(cursor.tokens))
    raise cursor.source.error(
        "unsupported",
        f"CREATE {cursor.peek()} is not supported",
        cursor.tokens[min(cursor.position, len(cursor.tokens) - 1)],
        hint="CREATE TABLE, CREATE VIEW and CREATE MATERIALIZED VIEW are",
    )


def _create_view(cursor: _Cursor, *, materialized: bool, or_replace: bool) -> CreateView:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        raise cursor.error("OR REPLACE and IF NOT EXISTS exclude each other")
    name = cursor.name("the name of the view")
    columns = _name_list(cursor) if cursor.peek() == "(" else ()
    options = _options(cursor) if cursor.accept("WITH") else {}
    cursor.expect("AS")
    if cursor.peek() == "DATALOG":
        raise cursor.source.error("unsupported", "AS DATALOG is not supported yet", cursor.rest()[0])
    query = parse(cursor.source, cursor.rest())
    text = cursor.source.slice(cursor.tokens)
    return CreateView(name, query, text, materialized, columns, options, if_not_exists, or_replace)


def _name_list(cursor: _Cursor) -> tuple[str, ...]:
    cursor.expect("(")
    names = [cursor.name("a column name")]
    while cursor.accept(","):
        names.append(cursor.name("a column name"))
    cursor.expect(")")
    return tuple(names)


def _options(cursor: _Cursor) -> dict[str, str]:
    cursor.expect("(")
    options: dict[str, str] = {}
    while True:
        key = cursor.name("the name of an option")
        cursor.expect("=")
        options[key] = cursor.take("the value of an option").text
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return options


def _alter(cursor: _Cursor) -> AlterTable:
    cursor.expect("ALTER")
    if cursor.accept("MATERIALIZED", "VIEW") or cursor.accept("VIEW"):
        raise cursor.source.error(
            "unsupported", "ALTER VIEW is not supported", cursor.tokens[0], hint="CREATE OR REPLACE VIEW is"
        )
    cursor.expect("TABLE")
    cursor.accept("IF", "EXISTS")
    cursor.accept("ONLY")
    name = cursor.name("the name of the table")
    try:
        tree = parse(cursor.source, cursor.tokens)
    except TidemarkError as error:
        raise TidemarkError(error.code, error.message, place=error.place, hint=ALTER_HINT) from error
    if not isinstance(tree, exp.Alter):
        raise cursor.source.error("unsupported", "this form of ALTER is not supported", tree, hint=ALTER_HINT)
    return AlterTable(name, tree, cursor.source.slice(cursor.tokens))


def _drop(cursor: _Cursor) -> Drop:
    cursor.expect("DROP")
    kind = "VIEW" if cursor.accept("MATERIALIZED", "VIEW") or cursor.accept("VIEW") else ""
    if not kind:
        cursor.expect("TABLE")
        kind = "TABLE"
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("a name")
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    cursor.end()
    return Drop(kind, name, if_exists, cascade)


def _question(cursor: _Cursor) -> Statement:
    word = cursor.take("a statement").text.upper()
    if word == "SHOW":
        # The tokenizer may keep the words of SHOW as one piece.
        what = " ".join(token.text for token in cursor.rest()).strip().upper()
        if what not in _SHOWN:
            raise cursor.source.error(
                "unsupported",
                f"SHOW {what} is not supported",
                cursor.tokens[0],
                hint=f"SHOW {' or '.join(_SHOWN)}",
            )
        return Show(what.lower())
    inner = _Cursor(cursor.source, _retokenized(cursor))
    if word == "EXPLAIN" and inner.accept("EFFECT", "OF"):
        return _effect(inner)
    if word == "EXPLAIN" and len(inner.rest()) > 1 and inner.accept("WHY"):
        negated = inner.accept("NOT")
        return parse_why(inner.source, inner.rest(), negated)
    name = inner.name("the name of a view")
    inner.end()
    return Explain(name) if word == "EXPLAIN" else Audit(name)


def _effect(cursor: _Cursor) -> ExplainEffect:
    """What stands between OF and the last ON is the statement."""
    tokens, source = cursor.rest(), cursor.source
    last = max((i for i, token in enumerate(tokens) if token.token_type is TokenType.ON), default=0)
    if not last:
        raise source.error(
            "syntax",
            "EXPLAIN EFFECT OF needs a statement and ON a view",
            cursor.tokens[0],
            hint="EXPLAIN EFFECT OF DELETE FROM t WHERE a < 5 ON v",
        )
    named = _Cursor(source, tokens[last + 1 :])
    view = named.name("the name of a view")
    named.end()
    change = _statement(source, tokens[:last])
    if not isinstance(change, Insert | Update | Delete):
        raise source.error("syntax", "INSERT, UPDATE or DELETE is expected here", tokens[0])
    return ExplainEffect(change, view)


def _retokenized(cursor: _Cursor) -> list[Token]:
    """Some dialects keep what follows a command word as one string; take it apart again."""
    rest = cursor.rest()
    if len(rest) == 1 and rest[0].token_type is TokenType.STRING:
        # Blanks in front keep the positions of the whole text.
        before = " " * (rest[0].end + 1 - len(rest[0].text))
        return tokenize(Source(before + rest[0].text, cursor.source.dialect))
    return rest
