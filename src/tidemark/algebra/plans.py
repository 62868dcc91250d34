"""The plan: immutable, typed, validated when it is built; no engine in sight.

A plan denotes a *weighted relation*: rows with a signed multiplicity. A base relation has positive weights, a delta
has both signs. Filters and projections keep weights, joins multiply them, unions add them; Distinct, Aggregate and
the set operations look at the net weight of each row.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from tidemark.algebra.aggregates import AggregateCall as AggregateCall
from tidemark.algebra.aggregates import AggregateFunction as AggregateFunction
from tidemark.algebra.aggregates import SortKey as SortKey
from tidemark.algebra.clauses import DatalogRule
from tidemark.algebra.expressions import Column, Expression, Value, columns_of
from tidemark.algebra.structure import structural
from tidemark.algebra.types import BIGINT, BOOLEAN, Field, Schema
from tidemark.algebra.windows import WindowCall as WindowCall


class State(enum.Enum):
    """At which point a relation is read, relative to a block of changes."""

    NEW = "new"
    OLD = "old"
    DELTA = "Δ"
    INSERTED = "Δ+"
    DELETED = "Δ-"


class Plan:
    """The base of all plans."""

    @property
    def schema(self) -> Schema:
        raise NotImplementedError  # every node below defines it

    def inputs(self) -> tuple[Plan, ...]:
        return ()

    def with_inputs(self, inputs: tuple[Plan, ...]) -> Plan:
        return self

    def column(self, index: int) -> Column:
        """A reference to one column of this plan's output."""
        source = self.schema[index]
        return Column(index, source.name, source.type, source.nullable)

    def columns(self) -> tuple[Column, ...]:
        return tuple(self.column(index) for index in range(len(self.schema)))


class _Leaf(Plan):
    """A plan over no other, which says what its columns are."""

    columns_: Schema

    @property
    def schema(self) -> Schema:
        return self.columns_


@structural
@dataclass(frozen=True)
class Scan(_Leaf):
    """A named relation (table, view or network node) at one state of a block of changes."""

    relation: str
    columns_: Schema
    state: State = State.NEW


@structural
@dataclass(frozen=True)
class Stored(_Leaf):
    """What an engine holds of a relation, at the last committed version. Engines read this leaf and ``Given``."""

    relation: str
    columns_: Schema


@structural
@dataclass(frozen=True)
class Given(_Leaf):
    """A weighted relation handed to the engine together with the plan, under a name."""

    name: str
    columns_: Schema


@structural
@dataclass(frozen=True)
class Values(_Leaf):
    """Rows written into the plan, each of weight one. ``Values((), schema)`` is the empty relation."""

    rows: tuple[tuple[Value, ...], ...]
    columns_: Schema

    def __post_init__(self) -> None:
        width = len(self.columns_)  # there may be very many rows
        _require(set(map(len, self.rows)) <= {width}, "a row of VALUES has the wrong length")


@dataclass(frozen=True)
class _Unary(Plan):
    """A plan over one other, whose columns it has unless it says otherwise."""

    input: Plan

    @property
    def schema(self) -> Schema:
        return self.input.schema

    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Plan, ...]) -> Plan:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class _Binary(Plan):
    """A plan over two others."""

    left: Plan
    right: Plan

    def inputs(self) -> tuple[Plan, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Plan, ...]) -> Plan:
        return replace(self, left=inputs[0], right=inputs[1])


@structural
@dataclass(frozen=True)
class Filter(_Unary):
    """The rows for which the predicate is true (neither false nor NULL)."""

    predicate: Expression

    def __post_init__(self) -> None:
        _require(self.predicate.type == BOOLEAN, "a filter needs a BOOLEAN predicate")
        _require_columns(self.predicate, self.input.schema)


@structural
@dataclass(frozen=True)
class Project(_Unary):
    """One row out for each row in; equal rows are kept, with their weights (the bag projection)."""

    names: tuple[str, ...] = field(compare=False)
    expressions: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _require(len(self.names) == len(self.expressions), "a projection needs one name for each expression")
        for expression in self.expressions:
            _require_columns(expression, self.input.schema)

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple(Field(n, e.type, e.nullable) for n, e in zip(self.names, self.expressions, strict=True)))


@structural
@dataclass(frozen=True)
class Join(_Binary):
    """Inner join: every pair of rows for which the predicate is true, with the product of their weights.

    The predicate reads the columns of the left side first, then those of the right. A product has the predicate TRUE.
    """

    predicate: Expression

    def __post_init__(self) -> None:
        _require(self.predicate.type == BOOLEAN, "a join needs a BOOLEAN predicate")
        _require_columns(self.predicate, self.schema)

    @cached_property
    def schema(self) -> Schema:
        return self.left.schema + self.right.schema


@structural
@dataclass(frozen=True)
class Touched(Plan):
    """The rows of ``input`` whose ``keys`` columns occur in ``touched``, NULL matching NULL; weights of ``input``.

    This is the restriction to touched keys. The first columns of ``touched`` are the keys; it may have more, and must
    have them when it is a delta: a change of (1, 'a') to (1, 'b') touches the key 1, although its projection to the
    key cancels. Entries of ``touched`` that cancel as whole rows may still count, since restricting to too many keys
    is only wasteful, never wrong.
    """

    input: Plan
    touched: Plan
    keys: tuple[int, ...]

    def __post_init__(self) -> None:
        _require(len(self.keys) <= len(self.touched.schema), "touched keys do not fit the input's keys")
        for key, wanted in zip(self.keys, self.touched.schema.types, strict=False):
            _require(self.input.schema[key].type == wanted, "a touched key has another type")

    @property
    def schema(self) -> Schema:
        return self.input.schema

    def inputs(self) -> tuple[Plan, ...]:
        return (self.input, self.touched)

    def with_inputs(self, inputs: tuple[Plan, ...]) -> Plan:
        return replace(self, input=inputs[0], touched=inputs[1])


@structural
@dataclass(frozen=True)
class Union(Plan):
    """UNION ALL: weights add up. Names come from the first part."""

    parts: tuple[Plan, ...]

    def __post_init__(self) -> None:
        _require(len(self.parts) > 0, "a union needs at least one part")
        for part in self.parts[1:]:
            _require(part.schema.types == self.parts[0].schema.types, "the parts of a union have different types")

    @cached_property
    def schema(self) -> Schema:
        columns = zip(*(part.schema.fields for part in self.parts), strict=True)
        return Schema(tuple(Field(c[0].name, c[0].type, any(f.nullable for f in c)) for c in columns))

    def inputs(self) -> tuple[Plan, ...]:
        return self.parts

    def with_inputs(self, inputs: tuple[Plan, ...]) -> Plan:
        return replace(self, parts=inputs)


@dataclass(frozen=True)
class _SetOperation(_Binary):
    """What EXCEPT ALL and INTERSECT ALL have in common: two relations with columns of the same types.

    Rows are compared as a whole, NULL equal to NULL. Both sides are relations, not deltas: their net weights are not
    negative. The set forms are these over Distinct sides.
    """

    def __post_init__(self) -> None:
        _require(self.left.schema.types == self.right.schema.types, "the sides of a set operation have different types")

    @property
    def schema(self) -> Schema:
        return self.left.schema


@structural
@dataclass(frozen=True)
class Difference(_SetOperation):
    """EXCEPT ALL: a row that is a times on the left and b times on the right is max(0, a − b) times there."""


@structural
@dataclass(frozen=True)
class Intersection(_SetOperation):
    """INTERSECT ALL: a row that is a times on the left and b times on the right is min(a, b) times there."""


@structural
@dataclass(frozen=True)
class Repeat(_Unary):
    """Each row as often again as ``times`` says, a BIGINT of its own columns: weights are multiplied by it."""

    times: Expression

    def __post_init__(self) -> None:
        _require(self.times.type == BIGINT, "rows are repeated a BIGINT number of times")
        _require_columns(self.times, self.input.schema)


@structural
@dataclass(frozen=True)
class Unnest(_Unary):
    """Each row once for each element of ``array``, an expression of its own columns, with the element as a further
    column, and with its place (from 1) after that if there are two ``names``. An empty array, or NULL, gives no row."""

    array: Expression
    names: tuple[str, ...] = field(compare=False)
    places: bool = False

    def __post_init__(self) -> None:
        _require(self.array.type.element is not None, "only an array has elements")
        _require(len(self.names) == 1 + self.places, "an element and its place need a name each")
        _require_columns(self.array, self.input.schema)

    @cached_property
    def schema(self) -> Schema:
        assert self.array.type.element is not None
        element = Field(self.names[0], self.array.type.element)
        places = (Field(self.names[1], BIGINT, nullable=False),) if self.places else ()
        return Schema((*self.input.schema.fields, element, *places))


@structural
@dataclass(frozen=True)
class Negate(_Unary):
    """The same rows with the opposite weights."""


@structural
@dataclass(frozen=True)
class Net(_Unary):
    """The same relation, with each row once under its net weight and without rows that cancel.

    It means nothing for weights, which always count net; it stands below an expression that can fail, which must not
    see entries that cancel: then it is evaluated by itself. ``in_place`` it stands where entries that cancel would only
    be too many: below many joins each of which would double them.
    """

    in_place: bool = False


@structural
@dataclass(frozen=True)
class Distinct(_Unary):
    """Each row of positive net weight once."""


@structural
@dataclass(frozen=True)
class Aggregate(_Unary):
    """One row for each group of equal keys (NULL equals NULL) whose net weight is positive.

    Without keys there is one group, which always gives a row. The input may be signed: counts and sums are then
    those of the net bag, and with ``signed`` a group is kept while any of its entries remain, even if the weights
    add up to zero or less (the partial sums of a delta). Functions that are not sums see the rows of positive net
    weight.
    """

    names: tuple[str, ...] = field(compare=False)
    keys: tuple[Expression, ...]
    aggregates: tuple[AggregateCall, ...]
    signed: bool = False

    def __post_init__(self) -> None:
        _require(len(self.names) == len(self.keys) + len(self.aggregates), "an aggregate needs one name per column")
        for expression in expressions_of(self):
            _require_columns(expression, self.input.schema)

    @cached_property
    def schema(self) -> Schema:
        parts: tuple[Expression | AggregateCall, ...] = self.keys + self.aggregates
        return Schema(tuple(Field(n, p.type, p.nullable) for n, p in zip(self.names, parts, strict=True)))


@structural
@dataclass(frozen=True)
class Window(_Unary):
    """Each row with further columns, which are computed from the rows of its partition in their order.

    Rows are those of the net bag, equal ones repeated. Partitions are by columns, NULL equal to NULL. Where a function
    tells rows of the same place apart, ties are broken by all columns, so that the result is determined.
    """

    names: tuple[str, ...] = field(compare=False)
    partition: tuple[Column, ...]
    order: tuple[SortKey, ...]
    calls: tuple[WindowCall, ...]

    def __post_init__(self) -> None:
        _require(len(self.names) == len(self.calls), "a window needs one name for each function")
        for expression in expressions_of(self):
            _require_columns(expression, self.input.schema)

    @cached_property
    def schema(self) -> Schema:
        added = zip(self.names, self.calls, strict=True)
        return self.input.schema + Schema(tuple(Field(name, call.type, call.nullable) for name, call in added))


@structural
@dataclass(frozen=True)
class Sort(_Unary):
    """ORDER BY, OFFSET and LIMIT.

    As the last step of a query it gives rows in order, inside a plan the bag of the first rows. Where it leaves rows
    out, ties are broken by all columns of the input (``total``), so that which rows it takes is determined. ``visible``
    is how many of the input's columns remain; those after it serve the order only.
    """

    keys: tuple[SortKey, ...]
    limit: int | None = None
    offset: int = 0
    visible: int | None = None

    def __post_init__(self) -> None:
        for key in self.keys:
            _require_columns(key.expression, self.input.schema)

    @property
    def schema(self) -> Schema:
        return Schema(self.input.schema.fields[: self.visible])

    @property
    def leaves_out(self) -> bool:
        """Whether there may be rows that it does not take."""
        return self.limit is not None or self.offset > 0

    @property
    def total(self) -> Sort:
        """The same with all columns behind its keys, ascending and NULL last: no two different rows are equal then."""
        named = {key.expression.index for key in self.keys if isinstance(key.expression, Column)}
        return replace(self, keys=self.keys + tuple(SortKey(c) for c in self.input.columns() if c.index not in named))


@structural
@dataclass(frozen=True)
class Fixpoint(Plan):
    """The rows of one predicate in the least fixpoint of some rules: a set, so that each row has weight one.

    The rules read the ``parts`` as sets, under the names in ``sources``, and derive the ``members``, of which
    ``predicate`` is one. Everything that the members need of one another is here. Recursion that goes on for more
    rounds, or derives more rows of one member, than the limits say is taken for one that does not end.
    """

    parts: tuple[Plan, ...]
    sources: tuple[str, ...]
    rules: tuple[DatalogRule, ...]
    members: tuple[tuple[str, Schema], ...]
    predicate: str
    max_rounds: int = 10_000
    max_rows: int = 10_000_000

    def __post_init__(self) -> None:
        _require(len(self.parts) == len(self.sources), "a fixpoint needs one name for each part")
        _require(self.predicate in dict(self.members), f"no rule derives {self.predicate}")
        known = {*self.sources, *dict(self.members)}
        _require(all(rule.reads <= known for rule in self.rules), "a rule reads what is neither part nor member")

    @property
    def schema(self) -> Schema:
        return dict(self.members)[self.predicate]

    def inputs(self) -> tuple[Plan, ...]:
        return self.parts

    def with_inputs(self, inputs: tuple[Plan, ...]) -> Plan:
        return replace(self, parts=inputs)

    def of(self, member: str) -> Fixpoint:
        """The rows of another member of the same fixpoint."""
        return replace(self, predicate=member)


def empty(schema: Schema) -> Values:
    """The relation without rows."""
    return Values((), schema)


def is_empty(plan: Plan) -> bool:
    return isinstance(plan, Values) and not plan.rows


def union(parts: tuple[Plan, ...], schema: Schema) -> Plan:
    """The union of the parts that are not empty, flattened, under the names of the schema."""
    flat: list[Plan] = []
    for part in parts:
        if is_empty(part):
            continue
        flat.extend(part.parts if isinstance(part, Union) else (part,))
    if not flat:
        return empty(schema)
    if flat[0].schema.names != schema.names:
        # The first part names the columns, and it may not be the one that named them before.
        flat[0] = Project(flat[0], schema.names, flat[0].columns())
    return flat[0] if len(flat) == 1 else Union(tuple(flat))


def walk(plan: Plan) -> Iterator[Plan]:
    """The plan and every plan in it, from the top down, left to right; one that stands in several places once."""
    seen: set[int] = set()
    waiting = [plan]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting.extend(reversed(part.inputs()))


def leaves(plan: Plan) -> Iterator[tuple[Plan, int]]:
    """Each leaf of the plan, and how often it is read: a part that stands in several places is read in each."""
    times = {id(plan): 1}
    for part in _inputs_last(plan):
        if not part.inputs():
            yield part, times[id(part)]
        for child in part.inputs():
            times[id(child)] = times.get(id(child), 0) + times[id(part)]


def _inputs_last(plan: Plan) -> list[Plan]:
    """Every part of the plan once, before its inputs."""
    order: list[Plan] = []
    seen: set[int] = set()
    waiting: list[tuple[Plan, bool]] = [(plan, False)]
    while waiting:
        part, is_done = waiting.pop()
        if is_done:
            order.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            waiting.append((part, True))
            waiting.extend((child, False) for child in part.inputs())
    return order[::-1]


def transform(plan: Plan, change: Callable[[Plan], Plan | None]) -> Plan:
    """Replace, from the top down, each part for which ``change`` gives something; one that stands in several places is
    looked at once."""
    known: dict[int, Plan] = {}

    def transformed(part: Plan) -> Plan:
        found = known.get(id(part))
        if found is None:
            found = known[id(part)] = _transformed(part)
        return found

    def _transformed(part: Plan) -> Plan:
        changed = change(part)
        if changed is not None:
            return changed
        children = part.inputs()
        rebuilt = tuple([transformed(child) for child in children])
        same = all(new is old for new, old in zip(rebuilt, children, strict=True))
        return part if same else part.with_inputs(rebuilt)

    return transformed(plan)


def given_name(name: str) -> str:
    """The name that a relation which stands for what happened has in plans: no other relation has it."""
    return f"{_GIVEN}{name}"


def is_given_name(relation: str) -> bool:
    return relation.startswith(_GIVEN)


_GIVEN: Final = "_given "


def relations_of(plan: Plan) -> frozenset[str]:
    """The names of the relations that the plan reads; worked out once."""
    if _RELATIONS not in plan.__dict__:
        for part in reversed(_inputs_last(plan)):
            if isinstance(part, Scan | Stored):
                part.__dict__[_RELATIONS] = frozenset((part.relation,))
            else:
                part.__dict__[_RELATIONS] = _NO_RELATIONS.union(*[i.__dict__[_RELATIONS] for i in part.inputs()])
    known: frozenset[str] = plan.__dict__[_RELATIONS]
    return known


_RELATIONS: Final = "_relations"
_NO_RELATIONS: Final[frozenset[str]] = frozenset()


def expressions_of(plan: Plan) -> tuple[Expression, ...]:
    """The expressions that stand directly in this node."""
    match plan:
        case Filter(predicate=predicate) | Join(predicate=predicate):
            return (predicate,)
        case Project(expressions=expressions):
            return expressions
        case Repeat(times=times):
            return (times,)
        case Unnest(array=array):
            return (array,)
        case Aggregate(keys=keys, aggregates=aggregates):
            return keys + tuple(part for call in aggregates for part in call.expressions())
        case Window(partition=partition, order=order, calls=calls):
            computed = tuple(argument for call in calls for argument in call.arguments)
            return (*partition, *(key.expression for key in order), *computed)
        case Sort(keys=sort_keys):
            return tuple(key.expression for key in sort_keys)
    return ()


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _require_columns(expression: Expression, schema: Schema) -> None:
    highest = max(columns_of(expression), default=-1)
    if highest >= len(schema):  # The message takes long to write, and plans are built all the time.
        raise ValueError(f"column {highest} does not exist in ({schema})")
