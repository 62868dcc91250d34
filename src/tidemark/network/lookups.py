"""Look-ups for rules: what they ask of a relation is asked of the engine, many keys at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import pyarrow as pa

from tidemark.algebra.expressions import Value
from tidemark.algebra.plans import Given, Plan
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import BIGINT, INT, Schema, Type
from tidemark.calculus.restrict import restrict
from tidemark.calculus.terms import distribute
from tidemark.datalog.relations import Positions
from tidemark.engines.reference.arrow import from_bag, to_bag

Evaluate = Callable[[Plan, Mapping[str, pa.Table]], pa.Table]
"""An engine's way to the net rows of a resolved plan."""
_KEYS: Final = "keys"


@dataclass
class Readable:
    """A resolved plan whose rows are looked up by some of their columns. The plans of look-ups are worked out once."""

    plan: Plan
    by_positions: dict[Positions, tuple[Plan, Schema]] = field(default_factory=dict)

    def touched(self, positions: Positions) -> tuple[Plan, Schema]:
        """The plan of a look-up, and the columns of the keys that are given to it."""
        if positions not in self.by_positions:
            keys = Schema(tuple(self.plan.schema[position] for position in positions))
            restricted = restrict(self.plan, Given(_KEYS, keys), positions)
            self.by_positions[positions] = distribute(restricted), keys
        return self.by_positions[positions]


@dataclass
class EngineLookup:
    """A ``Lookup`` over readable plans; ``read`` counts the rows that came."""

    relations: Mapping[str, Readable]
    given: Mapping[str, pa.Table]
    evaluate: Evaluate
    read: int = 0

    def matching(self, relation: str, positions: Positions, keys: Collection[Row]) -> Iterable[Row]:
        return self.weights(relation, positions, keys)

    def weights(self, relation: str, positions: Positions, keys: Collection[Row]) -> dict[Row, int]:
        """The rows with their weights: a relation may hold a row more than once."""
        readable = self.relations[relation]
        if not positions:
            return self.rows_of(readable.plan)
        if not keys:
            return {}
        plan, schema = readable.touched(positions)
        wanted = dict.fromkeys(_as_stored(keys, schema), 1)
        if not wanted:
            return {}
        return self._evaluated(plan, {**self.given, _KEYS: from_bag(wanted, schema)})

    def rows_of(self, plan: Plan) -> dict[Row, int]:
        """The rows of any plan over what is stored and given, with their weights."""
        return self._evaluated(plan, self.given)

    def _evaluated(self, plan: Plan, given: Mapping[str, pa.Table]) -> dict[Row, int]:
        bag = to_bag(self.evaluate(plan, given))
        self.read += len(bag)
        return bag


def _as_stored(keys: Collection[Row], schema: Schema) -> Iterable[Row]:
    """The keys in the types of the columns, without those that have a value which their column cannot have."""
    columns = [_fitting(values, field.type) for values, field in zip(zip(*keys, strict=True), schema, strict=True)]
    return (key for key in zip(*columns, strict=True) if _NOWHERE not in key)


def _fitting(values: Sequence[Value], type_: Type) -> Sequence[Value | object]:
    largest = _LARGEST.get(type_)
    if largest is not None and all(type(value) is int and -largest <= value < largest for value in values):
        return values
    return [_number(v, type_) if isinstance(v, int | Decimal) and not isinstance(v, bool) else v for v in values]


def _number(value: int | Decimal, type_: Type) -> Value | object:
    try:
        [stored] = pa.array([value], type_.arrow).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return _NOWHERE
    return stored if stored == value else _NOWHERE


_NOWHERE: Final = object()
_LARGEST: Final = {INT: 2**31, BIGINT: 2**63}
