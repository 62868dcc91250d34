"""Type names as they are written in SQL."""

from __future__ import annotations

import re

from sqlglot import exp

from tidemark.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    Type,
    array_of,
    decimal,
    struct_of,
)
from tidemark.sql.text import Source, fold

_D = exp.DataType.Type
_SIMPLE = {
    _D.BOOLEAN: BOOLEAN,
    _D.SMALLINT: SMALLINT,
    _D.INT: INT,
    _D.BIGINT: BIGINT,
    _D.DOUBLE: DOUBLE,
    _D.TEXT: VARCHAR,
    _D.VARCHAR: VARCHAR,
    _D.DATE: DATE,
    _D.TIMESTAMP: TIMESTAMP,
    _D.TIMESTAMPNTZ: TIMESTAMP,
}
_HINTS = {
    _D.FLOAT: "use DOUBLE PRECISION",
    _D.CHAR: "use VARCHAR(n): CHAR pads with blanks",
    _D.TIMESTAMPTZ: "use TIMESTAMP: times are stored without a zone",
    _D.TINYINT: "use SMALLINT",
    _D.INTERVAL: "an interval is added to a DATE or TIMESTAMP, and is no type of a column",
    _D.TIME: "use TIMESTAMP, or text",
}
BARE_NUMERIC = decimal(38, 10)
"""What NUMERIC without a precision is where nothing tells the digits: in a table, and from text or DOUBLE."""
KNOWN = "BOOLEAN, SMALLINT, INT, BIGINT, DECIMAL(p,s), DOUBLE PRECISION, VARCHAR, DATE, TIMESTAMP, INT[], STRUCT(a INT)"


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
    if element.is_nested or length_limit(node.expressions[0], source) is not None:
        raise source.error("unsupported", "the elements of an array have a simple type", node, hint="INT[], VARCHAR[]")
    return array_of(element)


def _bind_struct(node: exp.DataType, source: Source) -> Type:
    """``STRUCT(a INT, b VARCHAR)``. Fields are of a simple type, without a length or a constraint."""
    fields: list[tuple[str, Type]] = []
    for part in node.expressions:
        if not isinstance(part, exp.ColumnDef) or part.args.get("constraints") or part.args.get("kind") is None:
            raise source.error("syntax", "a struct has names and types", node, hint="STRUCT(a INT, b VARCHAR)")
        type = bind_type(part.args["kind"], source)
        if type.is_nested or length_limit(part.args["kind"], source) is not None:
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
    names = [parameter.name for parameter in node.expressions]
    if not all(name.isdigit() for name in names) or len(names) > 2:
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
