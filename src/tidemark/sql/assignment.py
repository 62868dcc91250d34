"""Giving a value to a column of a table: INSERT, UPDATE and DEFAULT."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.expressions import Call, Expression, Literal, Value
from tidemark.algebra.functions import assignment_cast_allowed
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import Field, Kind
from tidemark.errors import TidemarkError
from tidemark.sql.coerce import coerce, is_text_literal
from tidemark.sql.literals import read_text
from tidemark.sql.text import Source


def constant(bound: Expression, column: Field, source: Source, node: exp.Expr) -> Value:
    """The value of an expression that reads no column, for a column of a table."""
    try:
        return value_of(bound, ())
    except TidemarkError as error:
        place = source.place_of(node)
        raise TidemarkError(error.code, f"column {column.name!r}: {error.message}", place=place) from error


def assigned(bound: Expression, column: Field, source: Source, node: exp.Expr) -> Expression:
    """The expression as the column's type, by the casts that assignment does silently."""
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
        place = source.place_of(node)
        raise TidemarkError(error.code, f"column {column.name!r}: {error.message}", place=place) from error
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
