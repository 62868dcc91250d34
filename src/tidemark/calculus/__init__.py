"""Differentiate plans: from how the influents changed to how the affected relation changed."""

from tidemark.calculus.as_of import Block, resolve
from tidemark.calculus.chain import Partial, differentiate, partial_differentials

__all__ = ["Block", "Partial", "differentiate", "partial_differentials", "resolve"]
