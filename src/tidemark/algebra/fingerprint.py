"""A short, stable name for a plan: equal plans have equal fingerprints, in every process."""

from __future__ import annotations

import dataclasses
import enum
import hashlib

from tidemark.algebra.plans import Plan


def fingerprint(plan: Plan) -> str:
    """Twelve hexadecimal digits made of everything that takes part in comparison."""
    return hashlib.sha256(_text(plan).encode()).hexdigest()[:12]


def _text(value: object) -> str:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = (_text(getattr(value, f.name)) for f in dataclasses.fields(value) if f.compare)
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, tuple):
        return f"({','.join(_text(part) for part in value)})"
    if isinstance(value, enum.Enum):
        return value.name
    return f"{type(value).__name__}:{value!r}"
