"""Binding CREATE TABLE … FROM SOURCE: which columns of a relation a table has, and as which types.

Without a list it has all of them, named in lower case, and each must have a type here that holds just its values. A
list names those that are wanted, and can ask for a type that holds more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.types import RESERVED, RESERVED_SINCE, Kind, Type
from tidemark.errors import TidemarkError
from tidemark.sql.bind.tables import bind_table
from tidemark.sql.catalog.catalog import Table
from tidemark.sql.catalog.sources import Origin, SourceColumn
from tidemark.sql.parse.script import parse_script
from tidemark.sql.parse.sources import CreateSourceTable
from tidemark.sql.parse.statements import CreateTable
from tidemark.sql.parse.text import Source


def bind_source_table(statement: CreateSourceTable, found: Sequence[SourceColumn], source: Source) -> Table:
    """The table that follows a relation of a source, which has these columns now."""
    if statement.tree is None:
        table = _bound(statement, _whole(statement, found), replace(source, text="", dialect="postgres"))
    else:
        table = bind_listed(statement, source)
    taken_columns(table, found, is_new=True)
    return table


def bind_listed(statement: CreateSourceTable, source: Source) -> Table:
    """A table whose columns are listed, whatever its source has."""
    return _bound(statement, _listed(statement, source.dialect), source)


def _bound(statement: CreateSourceTable, text: str, source: Source) -> Table:
    """The table of a text in the dialect of the source, which says, too, whether it is a new one."""
    [(parsed, its)] = parse_script(Source(text, source.dialect, source.now))
    assert isinstance(parsed, CreateTable)
    try:
        table = bind_table(parsed, its)
    except TidemarkError as error:
        is_reserved = error.code == "reserved_name" and statement.tree is None
        raise error.restated(hint=_listing(statement) if is_reserved else None).without_place() from error
    if any(value is not None for value in table.defaults):
        raise TidemarkError("unsupported", "a column that comes from a source has no DEFAULT")
    return replace(table, origin=origin_of(statement))


def origin_of(statement: CreateSourceTable) -> Origin:
    """Where the rows come from that a statement asks for."""
    return Origin(statement.source, statement.relation, whole=statement.tree is None)


def taken_columns(table: Table, found: Sequence[SourceColumn], *, is_new: bool = False) -> tuple[str, ...]:
    """The names that the columns of a table have in the source; an error names those that do not fit, or do not fit any
    more if the table is not a new one."""
    origin = table.origin
    assert origin is not None
    known = {column.name.lower(): column for column in found}
    names = []
    for field in table.schema.fields:
        column = known.get(field.name.lower())
        if column is None:
            raise TidemarkError(
                "columns",
                f"{origin.relation!r} of the source {origin.source!r} has no column {field.name!r}, which "
                f"{table.name!r} takes from it",
                hint=f"it has: {', '.join(c.name for c in found)}" + ("" if is_new else f"; {_anew(table)}"),
            )
        if not _holds(field.type, column):
            raise TidemarkError(
                "type",
                f"column {field.name!r} of {origin.relation!r} is {column.told} in the source {origin.source!r}, which "
                f"is no {field.type}",
                hint=_types_of(column) if is_new else _anew(table),
            )
        names.append(column.name)
    return tuple(names)


def _anew(table: Table) -> str:
    """What begins a table anew, with the columns that its source has now."""
    name = table.name
    return (
        f"CREATE OR REPLACE TABLE {name} FROM SOURCE … begins it anew; if something stands on it, "
        f"DROP TABLE {name} CASCADE, and create all anew"
    )


def _types_of(column: SourceColumn) -> str:
    """Which types a column can have here."""
    types = [*([] if column.type is None else [column.type]), *column.accepted]
    if not types:
        return f"{column.told} has no type here: leave {column.name!r} out of the list"
    return f"{column.name!r} can be {' or '.join(map(str, types))}, or be left out of the list"


def missing_columns(table: Table, found: Sequence[SourceColumn]) -> list[SourceColumn]:
    """The columns that a relation has and a table has not that was to have all of them."""
    assert table.origin is not None
    known = {name.lower() for name in table.schema.names}
    return [c for c in found if table.origin.whole and c.name.lower() not in known]


def addition(table: Table, column: SourceColumn) -> str:
    """The statement that adds a column, in the dialect of PostgreSQL."""
    names = _quoted(table.name, "postgres"), _quoted(column.name.lower(), "postgres")
    return f"ALTER TABLE {names[0]} ADD COLUMN {names[1]} {column.type}"


def must_have_all(table: Table, found: Sequence[SourceColumn]) -> None:
    """Refuse that a relation has more columns than a table that was to have all of them."""
    assert table.origin is not None
    missing = missing_columns(table, found)
    if not missing:
        return
    column = missing[0]
    hint = f"{addition(table, column)}; or"
    if column.type is None:
        hint = f"{column.told} is not supported:"
    elif column.name.lower() in RESERVED | RESERVED_SINCE:
        hint = "its name is reserved:"
    raise TidemarkError(
        "columns",
        f"{table.origin.relation!r} of the source {table.origin.source!r} has a new column {column.name!r} "
        f"({column.told}), which {table.name!r} does not have",
        hint=f"{hint} drop the table, and create it anew with a list of the columns that it is to have",
    )


def _holds(type: Type, column: SourceColumn) -> bool:
    """Whether a type takes all values of a column as they are."""
    if type == column.type or type in column.accepted:
        return True
    told = column.type
    is_decimal = told is not None and told.kind is Kind.DECIMAL and type.kind is Kind.DECIMAL
    return is_decimal and _digits(type) >= _digits(told) and type.scale >= told.scale  # type: ignore[arg-type,union-attr]


def _digits(type: Type) -> int:
    return type.precision - type.scale


def _whole(statement: CreateSourceTable, found: Sequence[SourceColumn]) -> str:
    columns = []
    for column in found:
        if column.type is None:
            others = " or ".join(map(str, column.accepted))
            listed = _listing(statement)
            raise TidemarkError(
                "unsupported",
                f"column {column.name!r} of {statement.relation!r} is {column.told}, for which there is no type here",
                hint=f"{listed}; there it can be {others}" if others else listed,
            )
        required = "" if column.nullable else " NOT NULL"
        columns.append(f"{_quoted(column.name.lower(), 'postgres')} {column.type}{required}")
    key = [f"PRIMARY KEY ({_names(statement.key, 'postgres')})"] if statement.key else []
    return f"CREATE TABLE {_quoted(statement.name, 'postgres')} ({', '.join((*columns, *key))})"


def _listing(statement: CreateSourceTable) -> str:
    return f"list the columns that are wanted: CREATE TABLE {statement.name} (…) FROM SOURCE …"


def _listed(statement: CreateSourceTable, dialect: str) -> str:
    """The statement with the key inside the list."""
    text = statement.text
    if not statement.key:
        return text
    return f"{text[: text.rindex(')')]}, PRIMARY KEY ({_names(statement.key, dialect)}))"


def _names(names: Sequence[str], dialect: str) -> str:
    return ", ".join(_quoted(name, dialect) for name in names)


def _quoted(name: str, dialect: str) -> str:
    return str(exp.to_identifier(name, quoted=True).sql(dialect))
