"""The statements about sources.

CREATE [OR REPLACE] SOURCE [IF NOT EXISTS] s TYPE delta OPTIONS (path '…' [, new_columns 'stop' | 'add'])
CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t [(columns)] FROM SOURCE s RELATION 'r' [KEY (columns)]
ALTER SOURCE s PAUSE | RESUME | RESYNC
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidemark.sql.parse.text import Cursor, parse, retokenized

DELTA: Final = "delta"
RESERVED_KINDS: Final = ("postgres", "files", "kafka", "mysql", "iceberg")
"""Kinds of sources that are kept for later."""
NEW_COLUMNS: Final = "new_columns"
STOP, ADD = "stop", "add"
PAUSE, RESUME, RESYNC = "pause", "resume", "resync"
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {"path": (), NEW_COLUMNS: (STOP, ADD)}
"""The options of a source; of some, the values that they can have."""


@dataclass(frozen=True)
class CreateSource:
    name: str
    kind: str
    options: Mapping[str, str]
    text: str
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class CreateSourceTable:
    """CREATE TABLE … FROM SOURCE. ``tree`` is CREATE TABLE with the columns that were listed, None without a list;
    ``text`` is that statement's."""

    name: str
    tree: exp.Create | None
    text: str
    source: str
    relation: str
    key: tuple[str, ...]
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class AlterSource:
    name: str
    action: str


def create_source(cursor: Cursor, *, or_replace: bool) -> CreateSource:
    """What stands behind CREATE SOURCE."""
    if_not_exists = _if_not_exists(cursor, or_replace=or_replace)
    name = cursor.name("the name of the source")
    cursor.expect("TYPE")
    kind = cursor.name("the type of the source")
    if kind != DELTA:
        what = "come with a later version" if kind in RESERVED_KINDS else "are not known"
        raise cursor.source.error(
            "unsupported", f"sources of type {kind} {what}", cursor.tokens[cursor.position - 1], hint="TYPE delta is"
        )
    cursor.expect("OPTIONS")
    options = _options(cursor)
    if "path" not in options:
        raise cursor.error("the path is missing: OPTIONS (path '…')")
    cursor.end()
    return CreateSource(name, kind, options, cursor.source.slice(cursor.tokens), if_not_exists, or_replace)


def _options(cursor: Cursor) -> dict[str, str]:
    cursor.expect("(")
    options: dict[str, str] = {}
    while True:
        name = cursor.name("the name of an option")
        if name not in _OPTIONS or name in options:
            why = "is given twice" if name in options else "is no option of a source"
            token = cursor.tokens[cursor.position - 1]
            raise cursor.source.error("option", f"{name!r} {why}", token, hint=f"options: {', '.join(_OPTIONS)}")
        options[name] = _quoted(cursor, f"the {name}")
        if _OPTIONS[name] and options[name] not in _OPTIONS[name]:
            token, values = cursor.tokens[cursor.position - 1], " or ".join(map(repr, _OPTIONS[name]))
            raise cursor.source.error("option", f"{name} is {options[name]!r}", token, hint=f"{name} is {values}")
        if name == "path" and "://" in options[name]:
            token = cursor.tokens[cursor.position - 1]
            raise cursor.source.error(
                "unsupported", "sources lie on a file system that this process can read", token, hint="give a folder"
            )
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return options


def _quoted(cursor: Cursor, what: str) -> str:
    token = cursor.take(f"{what}, in quotes,")
    if token.token_type is not TokenType.STRING or not token.text:
        raise cursor.source.error("syntax", f"{what}, in quotes, is missing here", token)
    return str(token.text)


def source_clause(tokens: list[Token]) -> int | None:
    """Where FROM SOURCE stands in a CREATE TABLE, outside parentheses."""
    depth = 0
    for place, token in enumerate(tokens[:-1]):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        is_from = depth == 0 and token.token_type is TokenType.FROM
        if is_from and tokens[place + 1].text.upper() == "SOURCE":
            return place
    return None


def create_source_table(cursor: Cursor, place: int, *, or_replace: bool) -> CreateSourceTable:
    """CREATE TABLE … FROM SOURCE, from TABLE on; FROM stands at the place."""
    source, tokens = cursor.source, cursor.tokens
    head = [tokens[0], *tokens[cursor.position : place]]
    cursor.expect("TABLE")
    if_not_exists = _if_not_exists(cursor, or_replace=or_replace)
    name = cursor.name("the name of the table")
    tree, text = None, ""
    if cursor.position < place:
        parsed = parse(source, head)
        if not isinstance(parsed, exp.Create):
            raise source.error("syntax", "the columns of the table are expected here", tokens[cursor.position])
        tree, text = parsed, f"CREATE {source.slice(head[1:])}"
    cursor.position = place + 2
    origin = cursor.name("the name of the source")
    cursor.expect("RELATION")
    relation = _quoted(cursor, "the relation")
    key = cursor.names() if cursor.accept("KEY") else ()
    cursor.end()
    return CreateSourceTable(name, tree, text, origin, relation, key, if_not_exists, or_replace)


def _if_not_exists(cursor: Cursor, *, or_replace: bool) -> bool:
    found = cursor.accept("IF", "NOT", "EXISTS")
    if found and or_replace:
        raise cursor.error("OR REPLACE and IF NOT EXISTS exclude each other")
    return found


def alter_source(cursor: Cursor) -> AlterSource:
    """What stands behind ALTER SOURCE."""
    inner = Cursor(cursor.source, retokenized(cursor))
    name = inner.name("the name of the source")
    action = inner.take("PAUSE, RESUME or RESYNC").text.lower()
    if action not in (PAUSE, RESUME, RESYNC):
        raise inner.source.error(
            "syntax", f"{action.upper()} is nothing that a source does", inner.tokens[1], hint="PAUSE, RESUME, RESYNC"
        )
    inner.end()
    return AlterSource(name, action)
