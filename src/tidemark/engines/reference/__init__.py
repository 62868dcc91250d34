"""The reference engine: small, plain, in memory, obviously right."""

from tidemark.engines.reference.engine import ReferenceEngine

__all__ = ["ReferenceEngine"]
