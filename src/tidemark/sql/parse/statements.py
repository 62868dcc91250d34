"""The statements of Tidemark's SQL, as they are written: names are not looked up, expressions are syntax."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from tidemark.sql.parse.lagging import AlterLog, Lag, Refresh
from tidemark.sql.parse.rules import CreateRule, SetActive
from tidemark.sql.parse.sources import AlterSource, CreateSource, CreateSourceTable
from tidemark.sql.parse.why import ExplainWhy as ExplainWhy


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
    """A query; ``as_of`` is the version, or the time, at which it reads everything, if it says one."""

    tree: exp.Expr
    as_of: int | dt.datetime | None = None


@dataclass(frozen=True)
class Explain:
    name: str


@dataclass(frozen=True)
class ExplainEffect:
    """EXPLAIN EFFECT OF a statement that changes a table ON a view."""

    change: Insert | Update | Delete
    view: str


@dataclass(frozen=True)
class AnalyzeQuery:
    """EXPLAIN ANALYZE of a query, with its text and where that begins in the source."""

    query: Query
    text: str
    start: int


@dataclass(frozen=True)
class AnalyzeChange:
    """EXPLAIN ANALYZE of a statement that changes a table."""

    change: Insert | Update | Delete
    text: str
    start: int


@dataclass(frozen=True)
class AnalyzeVersion:
    """EXPLAIN ANALYZE VERSION n, which was committed before."""

    version: int


@dataclass(frozen=True)
class Audit:
    name: str


@dataclass(frozen=True)
class Backup:
    """BACKUP TO a path."""

    path: str


@dataclass(frozen=True)
class Checkpoint:
    pass


@dataclass(frozen=True)
class Publish:
    """PUBLISH, of one relation or of all."""

    name: str | None


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
    | AnalyzeQuery
    | AnalyzeChange
    | AnalyzeVersion
    | Audit
    | Backup
    | Checkpoint
    | Publish
    | Show
    | Refresh
    | AlterLog
    | CreateRule
    | SetActive
    | CreateSource
    | CreateSourceTable
    | AlterSource
)
