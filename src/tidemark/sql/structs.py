"""Binding structs: ``ROW(…)``, ``STRUCT(a AS x, …)``, ``(s).x``, comparisons with rows, and IS NULL."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidemark.algebra.expressions import Call, Expression, FieldOf, Literal
from tidemark.algebra.types import VARCHAR, Type, struct_of
from tidemark.sql.binding import Binder
from tidemark.sql.coerce import is_text_literal
from tidemark.sql.literals import read_text
from tidemark.sql.text import fold
from tidemark.sql.types import check_field_names


def bind_row(binder: Binder, node: exp.Expr) -> Expression:
    """``ROW(a, …)``: a struct whose fields are named f1, f2, …"""
    return _made(binder, tuple(map(binder.bind, node.expressions)), node)


def bind_struct(binder: Binder, node: exp.Expr) -> Expression:
    """``STRUCT(a AS x, b)`` with a name for each field, which a column has by itself."""
    names: list[str] = []
    parts: list[Expression] = []
    for part in node.expressions:
        match part:
            case exp.PropertyEQ(this=name, expression=value):
                names.append(fold(name))
                parts.append(binder.bind(value))
            case exp.Column():
                names.append(fold(part.this))
                parts.append(binder.bind(part))
            case _:
                raise binder.source.error("syntax", "a field has no name", part, hint="STRUCT(a + 1 AS x)")
    made = _made(binder, tuple(parts), node)
    check_field_names(names, node, binder.source)
    return replace(made, type=struct_of(*zip(names, made.type.parts, strict=True)))


def _made(binder: Binder, parts: tuple[Expression, ...], node: exp.Expr) -> Call:
    if not parts:
        raise binder.source.error("unsupported", "a row without fields has no type", node)
    if any(part.type.is_nested for part in parts):
        raise binder.source.error("unsupported", "the fields of a struct are values of a simple type", node)
    made = binder.call("struct", parts, node)
    assert isinstance(made, Call)
    return made


def bind_dot(binder: Binder, node: exp.Expr) -> Expression:
    """``(s).x``."""
    whole = binder.bind(node.this)
    if not isinstance(node.expression, exp.Identifier):
        hint = "(s).* stands in the select list of a query without groups"
        raise binder.source.error("unsupported", f"{node.sql('postgres')!r} is not a field", node, hint=hint)
    return field_of(binder, whole, fold(node.expression), node)


def field_of(binder: Binder, whole: Expression, name: str, node: exp.Expr) -> Expression:
    names = [field for field, _ in whole.type.fields]
    if not names:
        raise binder.source.error("type", f"a {whole.type} has no fields", node)
    if name not in names:
        hint = f"fields: {', '.join(names)}"
        raise binder.source.error("unknown_column", f"there is no field {name!r} here", node, hint=hint)
    return FieldOf(whole, names.index(name))


def fields_of(whole: Expression) -> tuple[FieldOf, ...]:
    return tuple(FieldOf(whole, place) for place in range(len(whole.type.fields)))


def bind_null_test(binder: Binder, whole: Expression, node: exp.Expr, *, negate: bool) -> Expression:
    """``s IS NULL``: it is NULL or all its fields are; ``s IS NOT NULL``: none of them is. So it is in PostgreSQL."""
    name = "is_not_null" if negate else "is_null"
    fields = [binder.call(name, (field,), node) for field in fields_of(whole)]
    result = fields[0]
    for field in fields[1:]:
        result = binder.call("and", (result, field), node)
    return result


def row_like(parts: list[Expression], target: Type) -> Expression | None:
    """A row to be compared with values of a struct type, literals read as the fields' types; None if it cannot be."""
    if len(parts) != len(target.fields) or any(part.type.is_nested for part in parts):
        return None
    read = tuple(_read(part, wanted) for part, wanted in zip(parts, target.parts, strict=True))
    names = [name for name, _ in target.fields]
    return Call("struct", read, struct_of(*zip(names, (part.type for part in read), strict=True)), nullable=False)


def _read(part: Expression, wanted: Type) -> Expression:
    if isinstance(part, Literal) and part.value is None:
        return Literal(None, wanted)
    if isinstance(part, Literal) and is_text_literal(part) and wanted != VARCHAR:
        return Literal(read_text(str(part.value), wanted), wanted)
    return part
