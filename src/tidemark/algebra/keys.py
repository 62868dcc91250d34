"""Keys of plans: columns that tell the rows apart, derived from the keys of relations.

A *key* of a relation is a set of columns such that no two of its rows, equal ones counted as often as they are there,
agree in all of them. Values are compared as grouping does: NULL equals NULL, so a group's key may be NULL and is a key
all the same. The empty key says that there is one row at most.

Beside keys the derivation follows what *determines* what: rows that agree in the first columns agree in the second.
That holds for any part of the rows, so selections, joins and the groups of a grouping keep it. An equality that is
true for every row (a condition of WHERE or ON) has no NULL on either side and determines both ways; a constant is
determined by nothing.

    σ   keys of its input                        π   keys whose columns are kept, or determined by those kept
    ⋈   a key of each side together, without what the rest determines
    δ   all columns                              γ   the grouping's columns
    −   keys of the left side                    ∩   keys of either side
    ω   keys of its input; the partition with the row's number
    ⊎   none, since a row may come from several parts; negative parts give none either

What is derived is true of all data; that there is no other key is not claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tidemark.algebra.cache import Once
from tidemark.algebra.expressions import Call, Column, Expression, columns_of, conjuncts
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Filter,
    Fixpoint,
    Intersection,
    Join,
    Net,
    Plan,
    Project,
    Repeat,
    Scan,
    Sort,
    State,
    Stored,
    Touched,
    Union,
    Values,
    Window,
    WindowCall,
)
from tidemark.algebra.windows import WindowFunction

MOST_KEYS: Final = 16
"""How many keys of one plan are followed: a join has as many as the product of its sides'."""

Columns = frozenset[int]
Dependency = tuple[Columns, Columns]
RelationKeys = Mapping[str, frozenset[tuple[int, ...]]]


def keys_of(plan: Plan, relation_keys: RelationKeys) -> frozenset[tuple[int, ...]]:
    """The candidate keys of a plan as positions of its columns, given those of the relations that it reads.

    >>> from tidemark.algebra.types import INT, Field, Schema
    >>> orders = Scan("orders", Schema((Field("id", INT), Field("customer", INT))))
    >>> keys_of(orders, {"orders": frozenset({(0,)})})
    frozenset({(0,)})
    """
    return _keys(_facts(relation_keys)(plan))


@dataclass(frozen=True)
class _Facts:
    """The keys of a plan's rows, and which columns determine which."""

    width: int
    keys: frozenset[Columns] = frozenset()
    dependencies: tuple[Dependency, ...] = ()

    def closure(self, columns: Iterable[int]) -> Columns:
        """All columns that the given ones determine."""
        found = set(columns)
        whole = frozenset(range(self.width))
        rules = self.dependencies + tuple((key, whole) for key in self.keys)
        grown = True
        while grown:
            grown = False
            for left, right in rules:
                if left <= found and not right <= found:
                    found |= right
                    grown = True
        return frozenset(found)

    def reduced(self, columns: Columns) -> Columns:
        """A key without the columns that the rest of it determines, the rightmost left out first."""
        for column in sorted(columns, reverse=True):
            if column in self.closure(columns - {column}):
                columns = columns - {column}
        return columns

    def minimal(self) -> _Facts:
        """The same facts with keys that have no column too many."""
        keys = {self.reduced(key) for key in self.keys}
        fewest = sorted((key for key in keys if not any(other < key for other in keys)), key=_order)
        return replace(self, keys=frozenset(fewest[:MOST_KEYS]))

    def with_condition(self, predicate: Expression) -> _Facts:
        """The facts about the rows for which the condition is true."""
        added = tuple(dependency for part in conjuncts(predicate) for dependency in _determined(part))
        return replace(self, dependencies=self.dependencies + added).minimal()


def _keys(facts: _Facts) -> frozenset[tuple[int, ...]]:
    return frozenset(tuple(sorted(key)) for key in facts.keys)


def _facts(relation_keys: RelationKeys) -> Once[_Facts]:
    return Once[_Facts](lambda part, of: _facts_of(part, relation_keys, of))


def _facts_of(plan: Plan, relation_keys: RelationKeys, of: Callable[[Plan], _Facts]) -> _Facts:
    nothing = _Facts(len(plan.schema))
    match plan:
        case Scan(relation=relation, state=State.NEW | State.OLD) | Stored(relation=relation):
            return replace(nothing, keys=frozenset(map(frozenset, relation_keys.get(relation, ())))).minimal()
        case Values(rows=rows) if len(rows) <= 1:
            return replace(nothing, keys=frozenset({frozenset()}))
        case Filter(input=source, predicate=predicate):
            return of(source).with_condition(predicate)
        case Project(input=source, expressions=expressions):
            return _projected(of(source), expressions)
        case Join(left=left, right=right, predicate=predicate):
            return _joined(of(left), of(right)).with_condition(predicate)
        case Touched(input=source) | Net(input=source):
            return of(source)
        case Window(input=source, partition=partition, calls=calls):
            return _windowed(of(source), nothing.width, partition, calls)
        case Sort(input=source):
            return _projected(of(source), source.columns()[: len(plan.schema)])
        case Repeat(input=source):
            return _without_keys(of(source))
        case Distinct(input=source):
            facts = of(source)
            return replace(facts, keys=facts.keys | {frozenset(range(facts.width))}).minimal()
        case Aggregate(input=source, keys=keys, signed=False):
            groups = _projected(_without_keys(of(source)), keys)
            return _Facts(nothing.width, frozenset({frozenset(range(len(keys)))}), groups.dependencies).minimal()
        case Fixpoint():
            return replace(nothing, keys=frozenset({frozenset(range(nothing.width))}))
        case Difference(left=left):
            return of(left)
        case Intersection(left=left, right=right):
            mine, others = of(left), of(right)
            return _Facts(mine.width, mine.keys | others.keys, mine.dependencies + others.dependencies).minimal()
        case Union(parts=(only,)):
            return of(only)
    return nothing


def _joined(left: _Facts, right: _Facts) -> _Facts:
    """A pair of rows is told apart by what tells its left and what tells its right row apart."""
    width = left.width + right.width
    pairs = frozenset(mine | _moved(others, left.width) for mine in left.keys for others in right.keys)
    mine = _as_dependencies(left)
    others = tuple((_moved(a, left.width), _moved(b, left.width)) for a, b in _as_dependencies(right))
    return _Facts(width, pairs, mine + others)


def _projected(facts: _Facts, expressions: tuple[Expression, ...]) -> _Facts:
    """Columns that are shown as they are keep what they determine; anything else is determined by what it reads."""
    places: dict[int, int] = {}
    dependencies: list[Dependency] = []
    for place, expression in enumerate(expressions):
        if isinstance(expression, Column):
            first = places.setdefault(expression.index, place)
            dependencies += [(frozenset({first}), frozenset({place})), (frozenset({place}), frozenset({first}))]
    kept = frozenset(places)
    for place, expression in enumerate(expressions):
        reads = columns_of(expression)
        if not isinstance(expression, Column) and reads <= kept:
            dependencies.append((_through(reads, places), frozenset({place})))
    for left, _ in _as_dependencies(facts):
        if left <= kept:
            dependencies.append((_through(left, places), _through(facts.closure(left) & kept, places)))
    keys = {_through(key, places) for key in facts.keys if key <= kept}
    if not keys and any(key <= facts.closure(kept) for key in facts.keys):
        keys = {_through(kept, places)}
    return _Facts(len(expressions), frozenset(keys), tuple(d for d in dependencies if not d[1] <= d[0])).minimal()


def _windowed(facts: _Facts, width: int, partition: tuple[Column, ...], calls: tuple[WindowCall, ...]) -> _Facts:
    """A window keeps its rows; within a partition they are told apart by their number."""
    parts = frozenset(column.index for column in partition)
    numbers = {facts.width + i for i, call in enumerate(calls) if call.function is WindowFunction.ROW_NUMBER}
    return _Facts(width, facts.keys | {parts | {number} for number in numbers}, facts.dependencies).minimal()


def _without_keys(facts: _Facts) -> _Facts:
    """The facts when rows may stand more than once: what determined the others goes on doing so."""
    return _Facts(facts.width, frozenset(), _as_dependencies(facts))


def _as_dependencies(facts: _Facts) -> tuple[Dependency, ...]:
    return facts.dependencies + tuple((key, frozenset(range(facts.width))) for key in sorted(facts.keys, key=_order))


def _determined(condition: Expression) -> list[Dependency]:
    """What a condition that is true lets columns determine."""
    match condition:
        case Call(function="eq" | "is_not_distinct", arguments=(left, right)):
            pairs = ((left, right), (right, left))
            return [(columns_of(a), frozenset({b.index})) for a, b in pairs if isinstance(b, Column)]
        case Call(function="is_null", arguments=(Column(index=index),)):
            return [(frozenset(), frozenset({index}))]
    return []


def _moved(columns: Columns, by: int) -> Columns:
    return frozenset(column + by for column in columns)


def _through(columns: Iterable[int], places: Mapping[int, int]) -> Columns:
    return frozenset(places[column] for column in columns)


def _order(key: Columns) -> tuple[int, list[int]]:
    return len(key), sorted(key)


def why_no_key(plan: Plan, relation_keys: RelationKeys) -> str:
    """Where the keys end, in words, for a plan that has none."""
    return _why_no_key(plan, _facts(relation_keys))


def _why_no_key(plan: Plan, facts: Once[_Facts]) -> str:
    for source in plan.inputs():
        if not isinstance(plan, Union | Touched) and not facts(source).keys:
            return _why_no_key(source, facts)
    match plan:
        case Scan(relation=relation) | Stored(relation=relation):
            return f"{relation!r} has no key"
        case Union():
            return "rows of a UNION ALL may come from several of its parts"
        case Project(input=source):
            names = source.schema.names
            shown = " or ".join(f"({', '.join(names[i] for i in key)})" for key in sorted(_keys(facts(source))))
            return f"the select list leaves out what tells its rows apart, {shown}"
        case Values():
            return "rows of VALUES may repeat"
    return f"the rows of {type(plan).__name__.lower()} are not told apart by columns"
