"""Provenance: why a row is in a relation, why it is not, and which changes brought it."""

from tidemark.provenance.causes import BaseChange, Cause
from tidemark.provenance.tree import Absence, Answer, Derivation, Kind

__all__ = ["Absence", "Answer", "BaseChange", "Cause", "Derivation", "Kind"]
