"""Look-ups for rules: what they ask of a relation is asked of the engine, many keys at once.

What rules read of the relations below: their old state by look-ups, and their changes as changes of sets.

Rules see sets. The change of a part is what its differential says, reduced to the rows that come or go altogether.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Final

import pyarrow as pa

from tidemark.algebra.cache import PerPlan
from tidemark.algebra.expressions import Value
from tidemark.algebra.keys import RelationKeys, keys_of
from tidemark.algebra.plans import Filter, Given, Negate, Net, Plan, Project, Stored, Union, relations_of, walk
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import BIGINT, INT, Schema, Type
from tidemark.calculus.as_of import Block, old, resolve
from tidemark.calculus.chain import differentiate
from tidemark.calculus.clock import with_steps
from tidemark.calculus.terms import distribute
from tidemark.calculus.touched import restrict
from tidemark.datalog.maintain import FactChange
from tidemark.datalog.relations import Positions
from tidemark.engines.engine import Engine
from tidemark.passes import optimize
from tidemark.storage.delta import Bag, Rows, Tables, entries_of

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
    """A ``Lookup`` over readable plans; ``read`` counts the rows that came.

    What is stored is looked up, what follows from it is found by compiled steps, and all else is ``evaluated``.
    """

    relations: Mapping[str, Readable]
    given: Mapping[str, Rows]
    engine: Engine
    evaluate: Evaluate
    read: int = 0

    @property
    def is_near(self) -> bool:
        """Whether all of it is found in memory."""
        held, plans = self.engine.arrangements, [readable.plan for readable in self.relations.values()]
        if held is None or not all(map(_is_row_by_row, plans)):
            return False
        return all(held.holds(relation) for plan in plans for relation in relations_of(plan))

    def matching(self, relation: str, positions: Positions, keys: Collection[Row]) -> Iterable[Row]:
        return self.weights(relation, positions, keys)

    def weights(self, relation: str, positions: Positions, keys: Collection[Row]) -> Bag:
        """The rows with their weights: a relation may hold a row more than once."""
        readable = self.relations[relation]
        if not positions:
            return self.rows_of(readable.plan)
        if not keys:
            return {}
        plan, schema = readable.touched(positions)
        fitting = _as_stored(keys, schema)
        wanted = dict.fromkeys(fitting, 1)
        if not wanted:
            return {}
        found = None
        if isinstance(readable.plan, Stored) and (fitting is keys or not any(None in key for key in wanted)):
            found = self._looked_up(readable.plan, positions, wanted)
        return self._evaluated(plan, {**self.given, _KEYS: Rows(schema, bag=wanted)}) if found is None else found

    def _looked_up(self, stored: Stored, positions: Positions, wanted: Bag) -> Bag | None:
        index = self.engine.look_up(stored, positions, wanted, None)
        if index is None:
            return None
        found = {row: weight for rows in index.values() for row, weight in entries_of(rows)}
        self.read += len(found)
        return found

    def rows_of(self, plan: Plan) -> Bag:
        """The rows of any plan over what is stored and given, with their weights."""
        return self._evaluated(plan, self.given)

    def _evaluated(self, plan: Plan, given: Mapping[str, Rows]) -> Bag:
        found = self.engine.follow(plan, given)
        bag = found.rows.bag if found is not None else Rows.of(self.evaluate(plan, Tables(given))).bag
        self.read += len(bag)
        return bag


_is_row_by_row: Final = PerPlan(
    lambda plan: all(isinstance(part, Stored | Given | Filter | Project | Union | Negate | Net) for part in walk(plan))
)
"""Whether a look-up in a plan is one in each of the relations below it."""


def _as_stored(keys: Collection[Row], schema: Schema) -> Collection[Row]:
    """The keys in the types of the columns, without those that have a value which their column cannot have. They are
    the same again if all are numbers that fit."""
    given = list(zip(*keys, strict=True))
    columns = [_fitting(values, field.type) for values, field in zip(given, schema, strict=True)]
    if all(fitting is values for fitting, values in zip(columns, given, strict=True)):
        return keys
    return [key for key in zip(*columns, strict=True) if _NOWHERE not in key]


def _fitting(values: Sequence[Value], type_: Type) -> Sequence[Value | object]:
    largest = _LARGEST.get(type_)
    if largest is not None and set(map(type, values)) == {int}:
        numbers: Sequence[int] = values  # type: ignore[assignment]
        if -largest <= min(numbers) and max(numbers) < largest:
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


@dataclass(frozen=True)
class Parts:
    """Plans under the names by which rules know them, for one set of changed relations."""

    plans: Mapping[str, Plan]
    block: Block
    keys: RelationKeys

    @cached_property
    def before(self) -> Mapping[str, Readable]:
        """The parts as they were."""
        return {name: Readable(distribute(resolve(old(part), self.block))) for name, part in self.plans.items()}

    @cached_property
    def differentials(self) -> Mapping[str, Plan]:
        """The differentials of the parts that can have changed."""
        return {
            name: distribute(resolve(optimize(with_steps(differentiate(part, self.block.changed))), self.block))
            for name, part in self.plans.items()
            if relations_of(part) & self.block.changed
        }

    @cached_property
    def sets(self) -> frozenset[str]:
        """The parts that are known to have no row twice."""
        return frozenset(name for name, part in self.plans.items() if keys_of(part, self.keys))

    def changes(self, lookup: EngineLookup) -> dict[str, FactChange]:
        """What comes to each part and what goes from it altogether."""
        return {name: self._change(name, plan, lookup) for name, plan in self.differentials.items()}

    def _change(self, name: str, differential: Plan, lookup: EngineLookup) -> FactChange:
        delta = lookup.rows_of(differential)
        before: Mapping[Row, int] = {}
        if delta and name not in self.sets:
            before = lookup.weights(name, tuple(range(len(self.before[name].plan.schema))), delta)
        return set_change(delta, before, is_set=name in self.sets)


def set_change(delta: Mapping[Row, int], before: Mapping[Row, int], *, is_set: bool) -> FactChange:
    """The rows that come or go altogether, of a change of a bag. A set needs no look at what was there before.

    >>> change = set_change({("a",): 1, ("b",): -1, ("c",): 2}, {("a",): 1, ("b",): 2}, is_set=False)
    >>> change.plus, change.minus
    (frozenset({('c',)}), frozenset())
    """
    if is_set:
        coming = (row for row, weight in delta.items() if weight > 0)
        return FactChange(frozenset(coming), frozenset(row for row, weight in delta.items() if weight < 0))
    coming = (row for row, weight in delta.items() if weight > 0 and not before.get(row, 0))
    going = (row for row, weight in delta.items() if weight < 0 and before.get(row, 0) + weight == 0)
    return FactChange(frozenset(coming), frozenset(going))


def weights_of(change: FactChange) -> dict[Row, int]:
    """A change of a set as a delta."""
    return {**dict.fromkeys(change.plus, 1), **dict.fromkeys(change.minus, -1)}
