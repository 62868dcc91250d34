"""Texts of statements, bound at both sides to the same definitions."""

from __future__ import annotations

from collections.abc import Iterable

from tidemark.algebra.expressions import Call, Expression, walk
from tidemark.algebra.types import Kind
from tidemark.errors import TidemarkError
from tidemark.sql.catalog import Catalog
from tidemark.sql.changes import Change, bind_change
from tidemark.sql.parsing import parse_script
from tidemark.sql.text import Source


def bound(text: str, dialect: str, catalog: Catalog) -> Change | None:
    """The statement over these definitions; None if it has no meaning there: it names other columns, or the time."""
    try:
        [(statement, source)] = parse_script(Source(text, dialect))
        return bind_change(statement, catalog, source)
    except (TidemarkError, ValueError):
        return None


def is_exact(expressions: Iterable[Expression]) -> bool:
    """Whether every engine computes the same: the last digits of floating point may differ between them."""
    computed = (part for one in expressions for part in walk(one) if isinstance(part, Call))
    return not any(part.type.kind is Kind.DOUBLE for part in computed)
