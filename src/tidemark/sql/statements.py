"""The statements of Tidemark's SQL, recognised from the token stream before sqlglot parses what is plain SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.errors import TidemarkError
from tidemark.sql.as_of import parse_query
from tidemark.sql.continual_statements import QUERY, SNAPSHOT, AlterLog, Lag, Refresh, lag_clauses
from tidemark.sql.rule_statements import CreateRule, SetActive, create_assertion, create_rule, set_active
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
    external: bool = False
    lag: Lag | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class CreateProgram:
    """CREATE … VIEW p (a, b), q AS DATALOG $$ … $$: each of the views is a predicate of one program.

    ``heads`` has their names and those of their columns, if they are given; the program stands from ``start`` to
    ``end`` in the source.
    """

    heads: tuple[tuple[str, tuple[str, ...]], ...]
    start: int
    end: int
    text: str
    materialized: bool
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    or_replace: bool = False
    external: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.heads)


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
    text: str


@dataclass(frozen=True)
class Update:
    tree: exp.Update
    text: str


@dataclass(frozen=True)
class Delete:
    tree: exp.Delete
    text: str


@dataclass(frozen=True)
class Query:
    """A query; ``as_of`` is the version at which it reads everything, if it says one."""

    tree: exp.Expr
    as_of: int | None = None


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
    | CreateProgram
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
    | Refresh
    | AlterLog
    | CreateRule
    | SetActive
)

_SHOWN = ("TABLES", "VIEWS", "SNAPSHOTS", "CONTINUAL QUERIES", "LOG", "CONSUMERS", "RULES", "ASSERTIONS")
ALTER_HINT = "ALTER TABLE t ADD COLUMN c type [DEFAULT value] [NOT NULL] [CHECK (…)] is"
# What sqlglot is asked to parse. Anything else is refused before, because sqlglot makes opaque commands of it.
_PLAIN = frozenset({"SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE", "("})
_BEGINNINGS = (
    "SELECT, WITH, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, BEGIN, COMMIT, ROLLBACK, EXPLAIN, AUDIT, SHOW, "
    "REFRESH, ACTIVATE and DEACTIVATE do"
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
    if first in ("ACTIVATE", "DEACTIVATE"):
        inner = _Cursor(source, tokens[:1] + _retokenized(_after_first(cursor)))
        inner.position = 1
        return set_active(inner, active=first == "ACTIVATE")
    if first in ("EXPLAIN", "AUDIT", "SHOW"):
        return _question(cursor)
    if first == "REFRESH":
        return _refresh(cursor)
    if first not in _PLAIN:
        raise source.error("syntax", f"no statement begins with {first}", tokens[0], hint=_BEGINNINGS)
    tree, version = parse_query(source, tokens)
    match tree:
        case _ if version is not None and isinstance(tree, exp.Insert | exp.Update | exp.Delete):
            raise source.error("unsupported", "AS OF VERSION stands behind a relation here", tokens[-4])
        case exp.Insert():
            return Insert(tree, source.slice(tokens))
        case exp.Update():
            return Update(tree, source.slice(tokens))
        case exp.Delete():
            return Delete(tree, source.slice(tokens))
        case exp.Select() | exp.SetOperation() | exp.Subquery() | exp.Values():
            return Query(tree, version)
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
    if not (materialized or or_replace) and cursor.accept("RULE"):
        return create_rule(cursor)
    if not (materialized or or_replace) and cursor.accept("ASSERTION"):
        return _create_assertion(cursor)
    if not materialized and not or_replace and (kind := _lagging_kind(cursor)):
        return _create_lagging(cursor, kind)
    external = not materialized and cursor.accept("EXTERNAL")
    if cursor.accept("VIEW"):
        return _create_view(cursor, materialized=materialized, or_replace=or_replace, external=external)
    if materialized or or_replace or external:
        raise cursor.error("VIEW is missing here")
    if cursor.peek() == "TABLE":
        tree = parse(cursor.source, cursor.tokens)
        if isinstance(tree, exp.Create):
            return CreateTable(tree, cursor.source.slice(cursor.tokens))
    raise cursor.source.error(
        "unsupported",
        f"CREATE {cursor.peek()} is not supported",
        cursor.tokens[min(cursor.position, len(cursor.tokens) - 1)],
        hint="CREATE TABLE, VIEW, MATERIALIZED VIEW, EXTERNAL VIEW, SNAPSHOT, CONTINUAL QUERY, RULE and ASSERTION are",
    )


def _create_assertion(cursor: _Cursor) -> CreateView:
    """An assertion is a view of its violations: kept if they are reported, watched alone if they are refused."""
    found = create_assertion(cursor)
    return CreateView(
        found.name, found.query, found.text, found.policy == "report", options={"assertion": found.policy}
    )


def _after_first(cursor: _Cursor) -> _Cursor:
    cursor.position = 1
    return cursor


def _create_view(cursor: _Cursor, *, materialized: bool, or_replace: bool, external: bool) -> Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        raise cursor.error("OR REPLACE and IF NOT EXISTS exclude each other")
    heads = [_head(cursor)]
    while cursor.accept(","):
        heads.append(_head(cursor))
    options = _options(cursor) if cursor.accept("WITH") else {}
    cursor.expect("AS")
    text = cursor.source.slice(cursor.tokens)
    if cursor.accept("DATALOG"):
        start, end = _program(cursor)
        return CreateProgram(tuple(heads), start, end, text, materialized, options, if_not_exists, or_replace, external)
    if len(heads) > 1:
        raise cursor.error("several views in one statement are predicates of one program: AS DATALOG $$ … $$")
    [(name, columns)] = heads
    query, version = parse_query(cursor.source, cursor.rest())
    if version is not None:
        raise cursor.source.error("unsupported", "what a definition reads has no versions", cursor.tokens[-4])
    return CreateView(name, query, text, materialized, columns, options, if_not_exists, or_replace, external)


def _head(cursor: _Cursor) -> tuple[str, tuple[str, ...]]:
    """The name of a view, and those of its columns if they are given."""
    name = cursor.name("the name of the view")
    return name, _name_list(cursor) if cursor.peek() == "(" else ()


def _program(cursor: _Cursor) -> tuple[int, int]:
    """Where the text between $$ and $$ stands. Some dialects take it for one piece, others for its tokens."""
    tokens = cursor.rest()
    text = cursor.source.text
    start, end = (tokens[0].start, tokens[-1].end + 1) if tokens else (0, 0)
    if end - start < 4 or text[start : start + 2] != "$$" or text[end - 2 : end] != "$$":
        raise cursor.error("a program in $$ … $$ is missing here")
    return start + 2, end - 2


def _lagging_kind(cursor: _Cursor) -> str:
    if cursor.accept("SNAPSHOT"):
        return SNAPSHOT
    return QUERY if cursor.accept("CONTINUAL", "QUERY") else ""


def _create_lagging(cursor: _Cursor, kind: str) -> CreateView:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name(f"the name of the {kind}")
    columns = _name_list(cursor) if cursor.peek() == "(" else ()
    options = _options(cursor) if cursor.accept("WITH") else {}
    cursor.expect("AS")
    tokens, lag = lag_clauses(cursor.source, cursor.rest(), kind)
    query = parse(cursor.source, tokens)
    text = cursor.source.slice(cursor.tokens)
    return CreateView(name, query, text, True, columns, options, if_not_exists, lag=lag)


def _refresh(cursor: _Cursor) -> Refresh:
    cursor.expect("REFRESH")
    inner = _Cursor(cursor.source, _retokenized(cursor))
    if not inner.accept("CONTINUAL", "QUERY"):
        inner.accept("SNAPSHOT")
    name = inner.name("the name of a snapshot")
    inner.end()
    return Refresh(name)


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


def _alter(cursor: _Cursor) -> AlterTable | AlterLog:
    cursor.expect("ALTER")
    if cursor.accept("LOG"):
        cursor.expect("SET")
        options = _options(cursor)
        cursor.end()
        return AlterLog(options)
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
    kind = "VIEW" if cursor.accept("MATERIALIZED", "VIEW") or cursor.accept("VIEW") else _lagging_kind(cursor).upper()
    if not kind:
        kind = next((word for word in ("RULE", "ASSERTION") if cursor.accept(word)), "")
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
                hint=f"SHOW {', '.join(_SHOWN)}",
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
