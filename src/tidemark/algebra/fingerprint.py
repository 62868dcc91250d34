"""A short, stable name for a plan: equal plans have equal fingerprints, in every process."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from dataclasses import replace

from tidemark.algebra.expressions import Column
from tidemark.algebra.plans import Plan, Project, Scan
from tidemark.algebra.types import Schema


def fingerprint(plan: Plan) -> str:
    """Twelve hexadecimal digits made of everything that takes part in comparison."""
    return hashlib.sha256(_text(plan).encode()).hexdigest()[:12]


def _text(value: object) -> str:
    if isinstance(value, Project):
        value = _as_narrow_scan(value) or value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = (_text(getattr(value, f.name)) for f in dataclasses.fields(value) if f.compare)
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, tuple):
        return f"({','.join(_text(part) for part in value)})"
    if isinstance(value, enum.Enum):
        return value.name
    return f"{type(value).__name__}:{value!r}"


def _as_narrow_scan(plan: Project) -> Scan | None:
    """The first columns of a relation, as they are: read as a scan of a relation that has no others.

    So a plan keeps its name when a relation under it gets more columns.
    """
    source, cells = plan.input, plan.expressions
    if not isinstance(source, Scan) or not all(isinstance(e, Column) and e.index == i for i, e in enumerate(cells)):
        return None
    return replace(source, columns_=Schema(source.schema.fields[: len(cells)]))
