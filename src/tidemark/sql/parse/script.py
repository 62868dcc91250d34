"""From text to statements. What is no plain SQL is recognised from the token stream, before sqlglot parses the rest."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.errors import TidemarkError
from tidemark.sql.parse.as_of import parse_query
from tidemark.sql.parse.lagging import QUERY, SNAPSHOT, AlterLog, Refresh, lag_clauses
from tidemark.sql.parse.lists import read_apart
from tidemark.sql.parse.rules import create_assertion, create_rule, set_active
from tidemark.sql.parse.sources import (
    AlterSource,
    alter_source,
    create_source,
    create_source_table,
    source_clause,
)
from tidemark.sql.parse.statements import (
    AlterTable,
    AnalyzeChange,
    AnalyzeQuery,
    AnalyzeVersion,
    Audit,
    Backup,
    Begin,
    Checkpoint,
    Commit,
    CreateProgram,
    CreateTable,
    CreateView,
    Delete,
    Drop,
    Explain,
    ExplainEffect,
    Insert,
    Publish,
    Query,
    Rollback,
    Show,
    Statement,
    Update,
)
from tidemark.sql.parse.text import Cursor, Source, parse, retokenized
from tidemark.sql.parse.why import parse_why

SHOWN = (
    "TABLES",
    "VIEWS",
    "SNAPSHOTS",
    "CONTINUAL QUERIES",
    "LOG",
    "CONSUMERS",
    "VERSIONS",
    "RULES",
    "ASSERTIONS",
    "ARRANGEMENTS",
    "MEMORY",
    "SOURCES",
    "PUBLICATIONS",
)
ALTER_HINT = "ALTER TABLE t ADD COLUMN c type [DEFAULT value] [NOT NULL] [CHECK (…)] is"
# What sqlglot is asked to parse. Anything else is refused before, because sqlglot makes opaque commands of it.
_PLAIN = frozenset({"SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE", "("})
_BEGINNINGS = (
    "SELECT, WITH, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, BEGIN, COMMIT, ROLLBACK, EXPLAIN, AUDIT, SHOW, "
    "REFRESH, BACKUP, CHECKPOINT, PUBLISH, ACTIVATE and DEACTIVATE do"
)


def parse_script(source: Source) -> list[tuple[Statement, Source]]:
    """The statements of a script, in order. Syntax errors anywhere are found before anything runs."""
    source, statements = read_apart(source)
    return [(parse_statement(source, tokens), source) for tokens in statements]


def parse_statement(source: Source, tokens: list[Token]) -> Statement:
    """One statement, of its tokens."""
    cursor = Cursor(source, tokens)
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
        inner = Cursor(source, tokens[:1] + retokenized(_after_first(cursor)))
        inner.position = 1
        return set_active(inner, active=first == "ACTIVATE")
    if first in ("EXPLAIN", "AUDIT", "SHOW"):
        return _question(cursor)
    if first == "REFRESH":
        return _refresh(cursor)
    if first == "BACKUP":
        return _backup(cursor)
    if first == "CHECKPOINT":
        _after_first(cursor).end()
        return Checkpoint()
    if first == "PUBLISH":
        return _publish(cursor)
    if first not in _PLAIN:
        raise source.error("syntax", f"no statement begins with {first}", tokens[0], hint=_BEGINNINGS)
    tree, version = parse_query(source, tokens)
    match tree:
        case _ if version is not None and isinstance(tree, exp.Insert | exp.Update | exp.Delete):
            raise source.error(
                "unsupported", f"AS OF {tokens[-2].text.upper()} stands behind a relation here", tokens[-4]
            )
        case exp.Insert():
            return Insert(tree, source.slice(tokens))
        case exp.Update():
            return Update(tree, source.slice(tokens))
        case exp.Delete():
            return Delete(tree, source.slice(tokens))
        case exp.Select() | exp.SetOperation() | exp.Subquery() | exp.Values():
            return Query(tree, version)
    raise source.error("unsupported", f"{tokens[0].text.upper()} statements are not supported", tokens[0])


def _transaction_statement(cursor: Cursor) -> Statement:
    word = cursor.take("a statement").text.upper()
    if word == "START":
        cursor.expect("TRANSACTION")
    elif not cursor.accept("TRANSACTION"):
        cursor.accept("WORK")
    cursor.end()
    if word in ("BEGIN", "START"):
        return Begin()
    return Commit() if word in ("COMMIT", "END") else Rollback()


def _create(cursor: Cursor) -> Statement:
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
    if not (materialized or external) and (made := _create_from_source(cursor, or_replace=or_replace)):
        return made
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
        hint="CREATE TABLE, VIEW, MATERIALIZED VIEW, EXTERNAL VIEW, SNAPSHOT, CONTINUAL QUERY, RULE, ASSERTION and "
        "SOURCE are",
    )


def _create_from_source(cursor: Cursor, *, or_replace: bool) -> Statement | None:
    """A source, or a table that follows one."""
    if cursor.accept("SOURCE"):
        return create_source(cursor, or_replace=or_replace)
    place = source_clause(cursor.tokens) if cursor.peek() == "TABLE" else None
    return None if place is None else create_source_table(cursor, place, or_replace=or_replace)


def _create_assertion(cursor: Cursor) -> CreateView:
    """An assertion is a view of its violations: kept if they are reported, watched alone if they are refused."""
    found = create_assertion(cursor)
    return CreateView(
        found.name, found.query, found.text, found.policy == "report", options={"assertion": found.policy}
    )


def _backup(cursor: Cursor) -> Backup:
    cursor.expect("BACKUP")
    cursor.expect("TO")
    token = cursor.take("the path, in quotes,")
    if token.token_type is not TokenType.STRING or not token.text:
        raise cursor.source.error("syntax", "the path, in quotes, is missing here", token)
    cursor.end()
    return Backup(token.text)


def _after_first(cursor: Cursor) -> Cursor:
    cursor.position = 1
    return cursor


def _create_view(cursor: Cursor, *, materialized: bool, or_replace: bool, external: bool) -> Statement:
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


def _head(cursor: Cursor) -> tuple[str, tuple[str, ...]]:
    """The name of a view, and those of its columns if they are given."""
    name = cursor.name("the name of the view")
    return name, cursor.names() if cursor.peek() == "(" else ()


def _program(cursor: Cursor) -> tuple[int, int]:
    """Where the text between $$ and $$ stands. Some dialects take it for one piece, others for its tokens."""
    tokens = cursor.rest()
    text = cursor.source.text
    start, end = (tokens[0].start, tokens[-1].end + 1) if tokens else (0, 0)
    if end - start < 4 or text[start : start + 2] != "$$" or text[end - 2 : end] != "$$":
        raise cursor.error("a program in $$ … $$ is missing here")
    return start + 2, end - 2


def _lagging_kind(cursor: Cursor) -> str:
    if cursor.accept("SNAPSHOT"):
        return SNAPSHOT
    return QUERY if cursor.accept("CONTINUAL", "QUERY") else ""


def _create_lagging(cursor: Cursor, kind: str) -> CreateView:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name(f"the name of the {kind}")
    columns = cursor.names() if cursor.peek() == "(" else ()
    options = _options(cursor) if cursor.accept("WITH") else {}
    cursor.expect("AS")
    tokens, lag = lag_clauses(cursor.source, cursor.rest(), kind)
    query = parse(cursor.source, tokens)
    text = cursor.source.slice(cursor.tokens)
    return CreateView(name, query, text, True, columns, options, if_not_exists, lag=lag)


def _refresh(cursor: Cursor) -> Refresh:
    cursor.expect("REFRESH")
    inner = Cursor(cursor.source, retokenized(cursor))
    if not inner.accept("CONTINUAL", "QUERY"):
        inner.accept("SNAPSHOT")
    name = inner.name("the name of a snapshot")
    inner.end()
    return Refresh(name)


def _publish(cursor: Cursor) -> Publish:
    cursor.expect("PUBLISH")
    inner = Cursor(cursor.source, retokenized(cursor))
    name = inner.name("the name of a table or a view") if inner.rest() else None
    inner.end()
    return Publish(name)


def _options(cursor: Cursor) -> dict[str, str]:
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


def _alter(cursor: Cursor) -> AlterTable | AlterLog | AlterSource:
    cursor.expect("ALTER")
    if cursor.accept("SOURCE"):
        return alter_source(cursor)
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
        raise error.restated(hint=ALTER_HINT) from error
    if not isinstance(tree, exp.Alter):
        raise cursor.source.error("unsupported", "this form of ALTER is not supported", tree, hint=ALTER_HINT)
    return AlterTable(name, tree, cursor.source.slice(cursor.tokens))


def _drop(cursor: Cursor) -> Drop:
    cursor.expect("DROP")
    kind = "VIEW" if cursor.accept("MATERIALIZED", "VIEW") or cursor.accept("VIEW") else _lagging_kind(cursor).upper()
    if not kind:
        kind = next((word for word in ("RULE", "ASSERTION", "SOURCE") if cursor.accept(word)), "")
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


def _question(cursor: Cursor) -> Statement:
    word = cursor.take("a statement").text.upper()
    if word == "SHOW":
        # The tokenizer may keep the words of SHOW as one piece.
        what = " ".join(token.text for token in cursor.rest()).strip().upper()
        if what not in SHOWN:
            raise cursor.source.error(
                "unsupported",
                f"SHOW {what} is not supported",
                cursor.tokens[0],
                hint=f"SHOW {', '.join(SHOWN)}",
            )
        return Show(what.lower())
    inner = Cursor(cursor.source, retokenized(cursor))
    if word == "EXPLAIN" and inner.accept("EFFECT", "OF"):
        return _effect(inner)
    if word == "EXPLAIN" and len(inner.rest()) > 1 and inner.accept("ANALYZE"):
        return _analyze(inner)
    if word == "EXPLAIN" and len(inner.rest()) > 1 and inner.accept("WHY"):
        negated = inner.accept("NOT")
        return parse_why(inner.source, inner.rest(), negated)
    name = inner.name("the name of a view")
    inner.end()
    return Explain(name) if word == "EXPLAIN" else Audit(name)


def _analyze(cursor: Cursor) -> Statement:
    """What stands behind ANALYZE is a statement, or a version."""
    source, first = cursor.source, cursor.rest()[0]
    if cursor.accept("VERSION"):
        number = cursor.take("the number of the version")
        if not number.text.isdecimal():
            raise source.error("version", f"{number.text!r} is not a version", number, hint="versions are 1, 2, 3 …")
        cursor.end()
        return AnalyzeVersion(int(number.text))
    if first.text.upper() not in _PLAIN:
        raise source.error(
            "unsupported",
            f"EXPLAIN ANALYZE {first.text} is not supported",
            first,
            hint="EXPLAIN ANALYZE of a SELECT, INSERT, UPDATE or DELETE is, and EXPLAIN ANALYZE VERSION n",
        )
    statement, text = parse_statement(source, cursor.rest()), source.slice(cursor.rest())
    if isinstance(statement, Query):
        return AnalyzeQuery(statement, text, first.start)
    assert isinstance(statement, Insert | Update | Delete), "nothing else is plain"
    return AnalyzeChange(statement, text, first.start)


def _effect(cursor: Cursor) -> ExplainEffect:
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
    named = Cursor(source, tokens[last + 1 :])
    view = named.name("the name of a view")
    named.end()
    change = parse_statement(source, tokens[:last])
    if not isinstance(change, Insert | Update | Delete):
        raise source.error("syntax", "INSERT, UPDATE or DELETE is expected here", tokens[0])
    return ExplainEffect(change, view)
