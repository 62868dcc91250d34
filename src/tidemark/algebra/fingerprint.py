"""A short, stable name for a plan: equal plans have equal fingerprints, in every process."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from tidemark.algebra import aggregates, expressions, plans, types, windows
from tidemark.algebra import clauses as rules
from tidemark.algebra import windows as frames
from tidemark.algebra.cache import PerPlan, tree_size
from tidemark.algebra.expressions import Expression, columns_of
from tidemark.algebra.plans import Given, Plan, Project, Scan
from tidemark.algebra.types import Schema

SHORT: Final = 12
LONG: Final = 24
MOST_PARTS: Final = 50_000
"""The text of a plan with more parts, as often as they stand in it, is made of the fingerprints of its inputs."""


@PerPlan
def fingerprint(plan: Plan) -> str:
    """Twelve hexadecimal digits made of everything that takes part in comparison."""
    return hashlib.sha256(_Text().of(plan).encode()).hexdigest()[:SHORT]


def digests(parts: Iterable[Plan]) -> list[str]:
    """Longer names for parts of one plan, each of which begins with its fingerprint."""
    text = _Text()
    return [hashlib.sha256(text.of(part).encode()).hexdigest()[:LONG] for part in parts]


class _Text:
    """The text of one plan. What stands in it several times is written once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, str]] = {}

    def of(self, value: object) -> str:
        if not isinstance(value, Plan | Expression):
            return self._written(value)
        known = self._known.get(id(value))
        if known is None:
            # The value is kept too, so that its identity cannot be taken by another one.
            known = self._known[id(value)] = (value, self._written(value))
        return known[1]

    def _written(self, value: object) -> str:
        if isinstance(value, Plan) and tree_size(value) > MOST_PARTS:
            value = value.with_inputs(tuple(Given(fingerprint(child), child.schema) for child in value.inputs()))
        if isinstance(value, Project) and isinstance(value.input, Scan):
            value = _over_what_is_read(value, value.input)
        form = FORMS.get(type(value))
        if form is not None:
            return f"{form.tag}({','.join([self.of(getattr(value, name)) for name in form.fields])})"
        if dataclasses.is_dataclass(value):
            raise TypeError(f"{type(value).__name__} has no form: what is stored could not be named after it")
        if isinstance(value, tuple):
            return f"({','.join([self.of(part) for part in value])})"
        if isinstance(value, enum.Enum):
            return value.name
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            return f"moment:{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat()}"
        if isinstance(value, bytes):
            return f"bytes:{value.hex()}"
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


class Form(NamedTuple):
    """How the objects of a class are written: a tag, and the fields that take part, in order."""

    tag: str
    fields: tuple[str, ...]


def _form(text: str) -> Form:
    tag, *names = text.split()
    return Form(tag, tuple(names))


# What is stored is named by fingerprints. The tag and the order of the fields of a form therefore never change, also
# where a class or a field gets another name.
FORMS: Final = {
    plans.Scan: _form("Scan relation columns_ state"),
    plans.Stored: _form("Stored relation columns_"),
    plans.Given: _form("Given name columns_"),
    plans.Values: _form("Values rows columns_"),
    plans.Filter: _form("Filter input predicate"),
    plans.Project: _form("Project input expressions"),
    plans.Join: _form("Join left right predicate"),
    plans.Touched: _form("Touched input touched keys"),
    plans.Union: _form("Union parts"),
    plans.Difference: _form("Difference left right"),
    plans.Intersection: _form("Intersection left right"),
    plans.Repeat: _form("Repeat input times"),
    plans.Unnest: _form("Unnest input array places"),
    plans.Negate: _form("Negate input"),
    plans.Net: _form("Net input in_place"),
    plans.Distinct: _form("Distinct input"),
    plans.Aggregate: _form("Aggregate input keys aggregates signed"),
    plans.Window: _form("Window input partition order calls"),
    plans.Sort: _form("Sort input keys limit offset visible"),
    plans.Fixpoint: _form("Fixpoint parts sources rules members predicate max_rounds max_rows"),
    expressions.Column: _form("Column index type nullable"),
    expressions.Literal: _form("Literal value type"),
    expressions.Call: _form("Call function arguments type nullable"),
    expressions.Case: _form("Case branches default type"),
    expressions.Cast: _form("Cast argument type"),
    expressions.FieldOf: _form("FieldOf argument place"),
    aggregates.SortKey: _form("SortKey expression descending nulls_first"),
    aggregates.AggregateCall: _form(
        "AggregateCall function argument distinct order separator condition fraction descending"
    ),
    windows.WindowCall: _form("WindowCall function arguments frame ignores_nulls"),
    frames.Span: _form("Span months days microseconds"),
    frames.Bound: _form("Bound offset preceding"),
    frames.Frame: _form("Frame unit start end measure"),
    types.Type: _form("Type kind precision scale element fields"),
    types.Field: _form("Field name type nullable"),
    types.Schema: _form("Schema fields"),
    rules.Var: _form("Var index"),
    rules.Const: _form("Const literal"),
    rules.Anything: _form("Anything"),
    rules.Atom: _form("Atom predicate arguments"),
    rules.Not: _form("Not atom strict"),
    rules.Condition: _form("Condition expression"),
    rules.Assign: _form("Assign variable expression"),
    rules.DatalogRule: _form("Rule head body label"),
    _Plain: _form("_Plain input expressions"),
}
