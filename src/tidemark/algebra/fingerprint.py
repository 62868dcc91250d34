"""A short, stable name for a plan: equal plans have equal fingerprints, in every process."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from dataclasses import replace

from tidemark.algebra.expressions import Expression, columns_of
from tidemark.algebra.plans import Plan, Project, Scan
from tidemark.algebra.types import Schema


def fingerprint(plan: Plan) -> str:
    """Twelve hexadecimal digits made of everything that takes part in comparison."""
    return hashlib.sha256(_text(plan).encode()).hexdigest()[:12]


def _text(value: object) -> str:
    if isinstance(value, Project) and isinstance(value.input, Scan):
        value = _over_what_is_read(value, value.input)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = (_text(getattr(value, f.name)) for f in dataclasses.fields(value) if f.compare)
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, tuple):
        return f"({','.join(_text(part) for part in value)})"
    if isinstance(value, enum.Enum):
        return value.name
    return f"{type(value).__name__}:{value!r}"


def _over_what_is_read(plan: Project, scan: Scan) -> Plan:
    """A projection of a relation that has no columns after those that are read; no projection if it shows just them.

    So a plan keeps its name when a relation under it gets more columns.
    """
    width = 1 + max((column for cell in plan.expressions for column in columns_of(cell)), default=-1)
    narrow = replace(scan, columns_=Schema(scan.schema.fields[:width]))
    return narrow if plan.expressions == narrow.columns() else _Plain(narrow, plan.expressions)


@dataclasses.dataclass(frozen=True)
class _Plain(Plan):
    """What takes part in the comparison of projections. Not a Project, so that it is taken as it is."""

    input: Plan
    expressions: tuple[Expression, ...]
