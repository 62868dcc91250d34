"""Binding arrays: ``ARRAY[…]``, ``a[i]``, ``= ANY``, and UNNEST in FROM.

Binding structs: ``ROW(…)``, ``STRUCT(a AS x, …)``, ``(s).x``, comparisons with rows, and IS NULL.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types

from tidemark.algebra.coerce import adapt_text_literals, is_text_literal
from tidemark.algebra.expressions import Call, Cast, Expression, FieldOf, Literal
from tidemark.algebra.functions import explicit_cast_allowed
from tidemark.algebra.plans import Filter, Plan, Project, Union, Unnest
from tidemark.algebra.types import INT, VARCHAR, Field, Kind, Schema, Type, array_of, struct_of
from tidemark.sql.bind.scope import Binder, Scope
from tidemark.sql.bind.types import check_field_names, read_text
from tidemark.sql.parse.text import Source, fold


def refuse_array(key: Expression, node: exp.Expr, source: Source) -> None:
    """Arrays and structs are equal or not, but have no order."""
    if key.type.fields:
        raise source.error("ordering", "structs have no order", node, hint="ORDER BY (s).a, (s).b")
    if key.type.element is not None:
        raise source.error("ordering", "arrays have no order", node, hint="ORDER BY a[1], or cardinality(a)")


def bind_array(binder: Binder, node: exp.Expr) -> Expression:
    """``ARRAY[a, …]``."""
    if not node.expressions:
        hint = "say what its elements are: ARRAY[]::INT[]"
        raise binder.source.error("type", "an empty array has no type", node, hint=hint)
    return binder.call("array", adapt_text_literals(tuple(map(binder.bind, node.expressions))), node)


def bind_place(binder: Binder, node: exp.Expr) -> Expression:
    """``a[i]``, counted from 1. sqlglot counts from 0, and has subtracted 1 where it takes the place for an integer."""
    if len(node.expressions) != 1:
        raise binder.source.error("unsupported", "an array is read at one place", node)
    if isinstance(node.expressions[0], exp.Slice):
        return _slice(binder, node.expressions[0], node)
    (written,) = node.expressions
    place = binder.bind(written)
    known = annotate_types(written.copy()).type
    if known is not None and known.this in exp.DataType.INTEGER_TYPES:
        place = binder.call("add", (place, Literal(1, INT)), node)
    return binder.call("element", (binder.bind(node.this), place), node)


def _slice(binder: Binder, part: exp.Slice, node: exp.Expr) -> Expression:
    """``a[first:last]``; without them from the first element, or to the last. sqlglot leaves these as they are."""
    if part.args.get("step") is not None:
        raise binder.source.error("unsupported", "a slice has no step", node)
    array = binder.bind(node.this)
    first = Literal(1, INT) if part.this is None else binder.bind(part.this)
    last = part.args.get("expression")
    end = binder.call("cardinality", (array,), node) if last is None else binder.bind(last)
    return binder.call("array_slice", (array, first, end), node)


def bind_contained_by(binder: Binder, node: exp.Expr) -> Expression:
    """``a <@ b``: all elements of a are in b."""
    return binder.call("array_contains_all", (binder.bind(node.expression), binder.bind(node.this)), node)


def bind_array_to_string(binder: Binder, node: exp.Expr) -> Expression:
    """array_to_string(array, separator [, text for NULL]); elements of other types are written as text."""
    array = binder.bind(node.this)
    texts = array_of(VARCHAR)
    if array.type.element is not None and array.type != texts:
        if not explicit_cast_allowed(array.type, texts):
            raise binder.source.error("type", f"a {array.type.element} has no one text", node)
        array = Cast(array, texts)
    if node.args.get("null") is not None:
        array = binder.call("array_replace", (array, Literal(None, VARCHAR), binder.bind(node.args["null"])), node)
    return binder.call("array_to_string", (array, binder.bind(node.expression)), node)


def bind_array_length(binder: Binder, node: exp.Expr) -> Expression:
    """array_length(a, 1): NULL for an empty array, as in PostgreSQL."""
    dimension = node.args.get("expression")
    if not isinstance(dimension, exp.Literal) or dimension.name != "1":
        raise binder.source.error("unsupported", "arrays have one dimension", node, hint="array_length(a, 1)")
    count = binder.call("cardinality", (binder.bind(node.this),), node)
    return binder.call("nullif", (count, Literal(0, INT)), node)


def bind_array_cat(binder: Binder, node: exp.Expr) -> Expression:
    """array_cat(a, b)."""
    if len(node.expressions) != 1:
        raise binder.source.error("type", "array_cat takes two arrays", node)
    return binder.call("array_cat", (binder.bind(node.this), binder.bind(node.expressions[0])), node)


def joined_arrays(binder: Binder, sides: tuple[Expression, Expression], node: exp.Expr) -> Expression:
    """``a || b`` of arrays, or of an array and a value; a bare NULL is taken for an array, as in PostgreSQL."""
    for name, value in (("array_append", sides[1]), ("array_prepend", sides[0])):
        if value.type.element is None and value.type.kind is not Kind.NULL:
            return binder.call(name, sides, node)
    return binder.call("array_cat", sides, node)


def bind_string_to_array(binder: Binder, node: exp.Expr) -> Expression:
    separator = binder.bind(node.expression)
    if not isinstance(separator, Literal) or separator.value is None or separator.type != VARCHAR:
        raise binder.source.error("unsupported", "string_to_array takes a literal separator", node)
    array = binder.call("string_to_array", (binder.bind(node.this), separator), node)
    if node.args.get("null") is None:
        return array
    return binder.call("array_replace", (array, binder.bind(node.args["null"]), Literal(None, VARCHAR)), node)


def bind_quantified(binder: Binder, name: str, node: exp.Expr) -> Expression | None:
    """``a = ANY(array)`` and ``a <> ALL(array)``, or None if this is another comparison."""
    right = node.expression
    every = isinstance(right, exp.All) or _is_call(right, "ALL")
    if not every and not isinstance(right, exp.Any) and not _is_call(right, "SOME"):
        return None
    inner = right.expressions[0] if isinstance(right, exp.Anonymous) else right.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Select | exp.Subquery | exp.SetOperation):
        return None
    if (name, every) not in (("eq", False), ("ne", True)):
        raise binder.source.error("unsupported", "of ANY and ALL, = ANY and <> ALL are supported for arrays", node)
    found = binder.call("any_equal", (binder.bind(node.this), binder.bind(inner)), node)
    return binder.call("not", (found,), node) if every else found


def _is_call(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == name and len(node.expressions) == 1


def unnest_node(node: exp.Expr) -> exp.Unnest | None:
    """The UNNEST that stands in FROM here, perhaps behind LATERAL, with its alias; or None."""
    if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Unnest) and not node.args.get("outer"):
        inner = node.this.copy()
        if node.args.get("alias") is not None:
            inner.set("alias", node.args["alias"].copy())
        return inner
    return node if isinstance(node, exp.Unnest) else None


def bind_unnest(
    binder: Binder, node: exp.Unnest, plan: Plan, scope: Scope, source: Source, *, keep: bool = False
) -> tuple[Plan, Scope]:
    """The rows of ``plan``, each once for each element of an array of its columns, under a name of their own.

    To ``keep`` those without any element, they are added once each, with NULL instead of the element and its place.
    """
    if len(node.expressions) != 1:
        raise source.error("unsupported", "UNNEST takes one array", node)
    array = binder.bind(node.expressions[0])
    if array.type.element is None:
        raise source.error("type", f"UNNEST takes an array, this is a {array.type}", node)
    alias, place = node.args.get("alias"), node.args.get("offset")
    relation = fold(alias.this) if alias is not None and alias.this is not None else "unnest"
    columns = [fold(column) for column in alias.args.get("columns") or ()] if alias is not None else []
    names = [columns[0] if columns else relation]
    if place:
        named = place if isinstance(place, exp.Identifier) else columns[1] if len(columns) > 1 else "ordinality"
        names.append(named if isinstance(named, str) else fold(named))
    if relation in scope.relations:
        raise source.error("ambiguous_name", f"{relation!r} is named twice in FROM", node, hint="give it an alias")
    result: Plan = Unnest(plan, array, tuple(names), places=bool(place))
    if keep:
        count = binder.call("coalesce", (binder.call("cardinality", (array,), node), Literal(0, INT)), node)
        rest = Filter(plan, binder.call("eq", (count, Literal(0, INT)), node))
        nothing = tuple(Literal(None, field.type) for field in result.schema.fields[len(plan.schema) :])
        result = Union((result, Project(rest, result.schema.names, rest.columns() + nothing)))
    added: tuple[Field, ...] = result.schema.fields[len(plan.schema) :]
    return result, scope.beside(Scope.of(relation, Schema(added)).shifted(len(plan.schema)))


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
