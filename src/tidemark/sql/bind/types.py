"""Type names as they are written in SQL, values as they are written, and values as a column of a table takes them."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.coerce import Placeholder, Step, coerce, is_text_literal
from tidemark.algebra.expressions import Call, Expression, Literal, Value
from tidemark.algebra.functions import assignment_cast_allowed
from tidemark.algebra.scalar import value_of
from tidemark.algebra.text import exact_number as exact_number
from tidemark.algebra.text import number as number
from tidemark.algebra.text import read_text as read_text
from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INT,
    REAL,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Field,
    Kind,
    Type,
    array_of,
    decimal,
    struct_of,
)
from tidemark.errors import TidemarkError
from tidemark.sql.parse.text import Source, fold

_D = exp.DataType.Type
_SIMPLE = {
    _D.BOOLEAN: BOOLEAN,
    _D.SMALLINT: SMALLINT,
    _D.TINYINT: SMALLINT,
    _D.INT: INT,
    _D.BIGINT: BIGINT,
    _D.FLOAT: REAL,
    _D.DOUBLE: DOUBLE,
    _D.TEXT: VARCHAR,
    _D.VARCHAR: VARCHAR,
    _D.VARBINARY: BYTEA,
    _D.BINARY: BYTEA,
    _D.DATE: DATE,
    _D.TIMESTAMP: TIMESTAMP,
    _D.TIMESTAMPNTZ: TIMESTAMP,
    _D.TIMESTAMPTZ: TIMESTAMPTZ,
}
_HINTS = {
    _D.CHAR: "use VARCHAR(n): CHAR pads with blanks",
    _D.INTERVAL: "an interval is added to a DATE or TIMESTAMP, and is no type of a column",
    _D.TIME: "use TIMESTAMP, or text",
}
BARE_NUMERIC = decimal(38, 10)
"""What NUMERIC without a precision is where nothing tells the digits: in a table, and from text or DOUBLE."""
KNOWN = (
    "BOOLEAN, SMALLINT, INT, BIGINT, DECIMAL(p,s), REAL, DOUBLE PRECISION, VARCHAR, BYTEA, DATE, TIMESTAMP, "
    "TIMESTAMPTZ, INT[], STRUCT(a INT)"
)


def bind_type(node: exp.Expr, source: Source) -> Type:
    """The type that a type name means."""
    if not isinstance(node, exp.DataType):
        raise source.error("unsupported", f"the type {node.sql()} is not supported", node, hint=f"types: {KNOWN}")
    if node.this is _D.DECIMAL:
        return _bind_decimal(node, source)
    if node.this is _D.ARRAY:
        return _bind_array(node, source)
    if node.this is _D.STRUCT:
        return _bind_struct(node, source)
    found = _SIMPLE.get(node.this)
    if found is not None and node.expressions and found != VARCHAR:
        raise source.error("unsupported", f"{found} takes no parameter", node)
    if found is None or node.args.get("nested"):
        hint = _HINTS.get(node.this, f"types: {KNOWN}")
        raise source.error("unsupported", f"the type {node.sql('postgres')} is not supported", node, hint=hint)
    return found


def length_limit(node: exp.Expr, source: Source) -> int | None:
    """The n of VARCHAR(n)."""
    if not isinstance(node, exp.DataType) or node.this not in (_D.VARCHAR, _D.TEXT) or not node.expressions:
        return None
    [limit] = _parameters(node, source)
    if limit < 1:
        raise source.error("type", "the length of VARCHAR must be at least 1", node)
    return limit


def _bind_array(node: exp.DataType, source: Source) -> Type:
    """``INT[]``. Elements are of a simple type, and neither they nor the array have a length."""
    if len(node.expressions) != 1 or node.args.get("values"):
        raise source.error("unsupported", "an array has no fixed length", node, hint="INT[], VARCHAR[]")
    element = bind_type(node.expressions[0], source)
    if not element.can_be_part or length_limit(node.expressions[0], source) is not None:
        raise source.error("unsupported", "the elements of an array have a simple type", node, hint="INT[], VARCHAR[]")
    return array_of(element)


def _bind_struct(node: exp.DataType, source: Source) -> Type:
    """``STRUCT(a INT, b VARCHAR)``. Fields are of a simple type, without a length or a constraint."""
    fields: list[tuple[str, Type]] = []
    for part in node.expressions:
        if not isinstance(part, exp.ColumnDef) or part.args.get("constraints") or part.args.get("kind") is None:
            raise source.error("syntax", "a struct has names and types", node, hint="STRUCT(a INT, b VARCHAR)")
        type = bind_type(part.args["kind"], source)
        if not type.can_be_part or length_limit(part.args["kind"], source) is not None:
            hint = "STRUCT(a INT, b VARCHAR)"
            raise source.error("unsupported", "the fields of a struct have a simple type", node, hint=hint)
        fields.append((fold(part.this), type))
    if not fields:
        raise source.error("syntax", "a struct has fields", node, hint="STRUCT(a INT, b VARCHAR)")
    check_field_names([name for name, _ in fields], node, source)
    return struct_of(*fields)


def check_field_names(names: list[str], node: exp.Expr, source: Source) -> None:
    """They are written into Parquet files and read by every engine, so they are plain, and different in any case."""
    for name in names:
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
            hint = "letters, digits and underscores"
            raise source.error("unsupported", f"{name!r} cannot be the name of a field", node, hint=hint)
    if len({name.lower() for name in names}) < len(names):
        raise source.error("duplicate_column", "two fields of a struct have the same name", node)


def _parameters(node: exp.DataType, source: Source) -> list[int]:
    # A type is what is written: what stands for a value that comes later has a number of its own, which is none of it.
    written = all(isinstance(getattr(parameter, "this", None), exp.Literal) for parameter in node.expressions)
    names = [parameter.name for parameter in node.expressions]
    if not written or not all(name.isdigit() for name in names) or len(names) > 2:
        raise source.error("type", f"{node.sql('postgres')} is not a type: its parameters must be numbers", node)
    return [int(name) for name in names]


def _bind_decimal(node: exp.DataType, source: Source) -> Type:
    parameters = _parameters(node, source)
    if not parameters:
        return BARE_NUMERIC
    precision, scale = ([*parameters, 0])[:2]
    try:
        return decimal(precision, scale)
    except ValueError as error:
        raise source.error("type", str(error), node, hint="1 <= precision <= 38, 0 <= scale <= precision") from error


def canonical_pattern(pattern: str, escape: str = "\\") -> str:
    """A LIKE pattern with backslash escapes only where they are needed, so that all engines read it alike.

    >>> canonical_pattern("50!%_a", escape="!")
    '50\\\\%_a'
    """
    result: list[str] = []
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == escape:
            position += 1
            if position == len(pattern):
                raise TidemarkError("invalid_value", "a LIKE pattern must not end with its escape character")
            letter = pattern[position]
            result.append("\\" + letter if letter in "%_\\" else letter)
        else:
            result.append("\\\\" if letter == "\\" else letter)
        position += 1
    return "".join(result)


def constant(bound: Expression, column: Field, source: Source, node: exp.Expr) -> Value:
    """The value of an expression that reads no column, for a column of a table."""
    try:
        return value_of(bound, ())
    except TidemarkError as error:
        raise error.within(f"column {column.name!r}").restated(place=source.place_of(node)) from error


def assigned(bound: Expression, column: Field, source: Source, node: exp.Expr) -> Expression:
    """The expression as the column's type, by the casts that assignment does silently. What a program hands over is
    taken whole, or refused when it comes."""
    if isinstance(bound, Placeholder) and not bound.steps and (bound.handed or bound.is_text):
        return bound.brought(Step.TAKE if bound.handed else Step.READ, column.type)
    if bound.type == column.type:
        return bound
    if bound.type.kind is Kind.NULL:
        return Literal(None, column.type)
    if isinstance(bound, Call) and bound.function == "struct" and len(bound.arguments) == len(column.type.fields):
        return _assigned_struct(bound, column, source, node)
    try:
        if is_text_literal(bound) and isinstance(bound, Literal):
            return Literal(read_text(str(bound.value), column.type), column.type)
        if assignment_cast_allowed(bound.type, column.type):
            return coerce(bound, column.type)
    except TidemarkError as error:
        raise error.within(f"column {column.name!r}").restated(place=source.place_of(node)) from error
    raise source.error(
        "type",
        f"column {column.name!r} is {column.type}, the value is {bound.type}",
        node,
        hint="CAST converts",
    )


def _assigned_struct(bound: Call, column: Field, source: Source, node: exp.Expr) -> Expression:
    """A row that is written out, field by field as if each were a column."""
    parts = []
    for part, (name, type) in zip(bound.arguments, column.type.fields, strict=True):
        is_null = isinstance(part, Literal) and part.value is None
        wanted = Field(f"{column.name}.{name}", type)
        parts.append(Literal(None, type) if is_null else assigned(part, wanted, source, node))
    return replace(bound, arguments=tuple(parts), type=column.type)
