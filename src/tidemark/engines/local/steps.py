"""Compiled steps: a plan as closures over rows, from its deltas outward.

    closed(P)(run)        = the net rows of P                       if P follows from what is given
    bound(P, c)(run, K)   = σ[c ∈ K](P), NULL matching NULL         if the restriction leads to keys of each stored leaf

A join begins with the side that is closed, or that its own restriction leads into, and binds the other side by the
columns that must be equal:

    ΔQ ⋈ R  =  ΔQ ⋈ σ[b ∈ π[a](ΔQ)](R)           if the join asks for Q.a = R.b

so of each stored relation only rows with keys that reach it are fetched. Where nothing leads into a relation all of it
is asked for, by no column and the one key (), which is answered of few rows. All of this is decided once, from the plan
alone. Each operator gives net rows, so that no expression sees entries that cancel. Rows that are known to differ stay
a list of entries: to put a row into a bag is to hash all of its values. A plan is not compiled if a stored relation
stays out of reach, and a run is given up where more rows come than rows are good for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

from tidemark.algebra.cache import PerPlan, is_tangled
from tidemark.algebra.columns import columns_read
from tidemark.algebra.compiled import Of, compiled_row, holds, key_of
from tidemark.algebra.compiled import compiled as compiled_expression
from tidemark.algebra.expressions import TRUE, Call, Column, Expression, Literal, conjunction, conjuncts
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Filter,
    Given,
    Intersection,
    Join,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Sort,
    Stored,
    Touched,
    Union,
    Unnest,
    Values,
    Window,
    relations_of,
    walk,
)
from tidemark.algebra.scalar import Row
from tidemark.engines.engine import Columns, Entry, Found, Index, Keys, LookUp, NetRows
from tidemark.engines.limits import PROCESS
from tidemark.engines.local.groups import aggregated, first_rows, windowed
from tidemark.storage.delta import Bag, Rows


def entries_of(rows: NetRows) -> Collection[Entry]:
    return rows.items() if isinstance(rows, dict) else rows


def as_bag(rows: NetRows) -> Bag:
    return rows if isinstance(rows, dict) else dict(rows)


MOST_PARTS: Final = 2_000
"""A plan of more parts is not compiled."""


class TooMany(Exception):
    """More rows came than rows are good for, or some that cannot be looked up."""


@dataclass
class Run:
    """One evaluation: what is given, where rows are looked up, how many may be found, and how many of each relation
    were."""

    given: Mapping[str, Bag]
    look_up: LookUp
    most: int
    read: dict[str, int] = field(default_factory=dict)
    known: dict[int, NetRows] = field(default_factory=dict)


Closed: TypeAlias = Callable[[Run], NetRows]
Bound: TypeAlias = Callable[[Run, Keys], NetRows]
Finding: TypeAlias = Callable[[Run, Keys], Index]
Operation: TypeAlias = Callable[[NetRows], NetRows]


@dataclass(frozen=True)
class _Rest:
    """What joins rows of one side, by a key of their own, with rows of the other."""

    key: Callable[[Row], Row]
    finding: Finding
    test: Of | None
    is_left: bool


@dataclass(frozen=True)
class Steps:
    """A compiled plan, and the names of what it wants given."""

    names: tuple[str, ...]
    evaluate: Callable[[Run], Bag]


def given_rows(plan: Plan, given: Mapping[str, pa.Table]) -> dict[str, Rows]:
    """The tables that the plan wants given, as rows."""
    return {name: Rows.of(given[name]) for name in _names(plan)}


def nothing_stored(leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> None:
    """For plans over what is given alone."""


def evaluate_few(plan: Plan, given: Mapping[str, Rows], look_up: LookUp = nothing_stored) -> Found | None:
    """The plan's net rows, or None if it is not compiled or not a matter of a few rows."""
    found = steps(plan)
    if found is None or sum([given[name].count for name in found.names]) > PROCESS.few_changed:
        return None
    run = Run({name: given[name].bag for name in found.names}, look_up, PROCESS.few_met)
    try:
        return Found(Rows(plan.schema, bag=found.evaluate(run)), run.read)
    except TooMany:
        return None


def steps(plan: Plan) -> Steps | None:
    """The compiled plan; None if a stored relation stays out of reach, or an operator is none of rows."""
    return _steps(plan)


def _compiled(plan: Plan) -> Steps | None:
    if (is_tangled(plan) and relations_of(plan)) or sum(1 for _ in walk(plan)) > MOST_PARTS:
        return None
    followed = _Compiler(plan)
    evaluate = followed.closed(plan) or _Compiler(plan, followed).closed(plan)
    return None if evaluate is None else Steps(_names(plan), lambda run: as_bag(evaluate(run)))


_steps: Final = PerPlan(_compiled)
_names: Final = PerPlan(lambda plan: tuple(dict.fromkeys(part.name for part in walk(plan) if isinstance(part, Given))))


class _Compiler:
    """Compiles the parts of one plan, each once for the columns that it is bound by.

    One that has another ``followed`` before it, which reads only what keys lead into, takes from it what it can, and
    reads the other stored relations as a whole.
    """

    def __init__(self, plan: Plan, followed: _Compiler | None = None) -> None:
        self._followed = followed
        leaves: dict[Plan, str] = {part: part.relation for part in walk(plan) if isinstance(part, Stored)}
        self._read = columns_read(plan, named=leaves)
        self._closed: dict[int, Closed | None] = {}
        self._bound: dict[tuple[int, Columns], Bound | None] = {}
        times: dict[int, int] = {}
        for part in walk(plan):
            for child in part.inputs():
                times[id(child)] = times.get(id(child), 0) + 1
        self._repeated = {part for part, count in times.items() if count > 1}

    # What follows from what is given

    def closed(self, plan: Plan) -> Closed | None:
        if id(plan) not in self._closed:
            found = (self._followed and self._followed.closed(plan)) or self._closed_part(plan)
            if found is not None and id(plan) in self._repeated and plan.inputs():
                found = _once(id(plan), found)
            self._closed[id(plan)] = found
        return self._closed[id(plan)]

    def _closed_part(self, plan: Plan) -> Closed | None:
        match plan:
            case Given(name=name):
                return lambda run: run.given[name]
            case Values(rows=rows):
                bag = summed([(row, 1) for row in rows])
                return lambda run: bag
            case Stored():
                return self._whole(plan)
            case Filter(input=Stored()) if _is_chosen(plan):
                return None  # by constants its rows are found sooner (``lookups.py``)
            case Union(parts=parts):
                return _union([self.closed(part) for part in parts])
            case Join():
                return self._closed_join(plan)
            case Touched():
                return self._closed_touched(plan)
            case Difference(left=left, right=right) | Intersection(left=left, right=right):
                one, other, apply = self.closed(left), self.closed(right), _set_operation(plan)
                if one is None or other is None:
                    return None
                return lambda run: apply(one(run), other(run))
        return _after(_unary(plan), self.closed(plan.inputs()[0])) if len(plan.inputs()) == 1 else None

    def _whole(self, leaf: Stored) -> Closed | None:
        if self._followed is None:
            return None
        finding = self._finding(leaf, ())
        return lambda run: _flat(finding(run, _ALL))

    def _follows(self, plan: Plan) -> bool:
        """Whether the plan is followed from what is given, and nothing is read as a whole for it."""
        return self._followed is None or self._followed.closed(plan) is not None

    def _closed_join(self, plan: Join) -> Closed | None:
        for is_left in (True, False) if self._follows(plan.left) else (False, True):
            first = self.closed(plan.left if is_left else plan.right)
            rest = None if first is None else self._rest(plan, is_left=is_left)
            if first is not None and rest is not None:
                return _joined(first, rest)
        return None

    def _closed_touched(self, plan: Touched) -> Closed | None:
        if not plan.keys:
            return self._touched_at_all(plan)
        key, touched_key = key_of(plan.keys), key_of(range(len(plan.keys)))
        touched, source = self.closed(plan.touched), self.bound(plan.input, plan.keys)
        if touched is not None and source is not None:

            def restricted(run: Run) -> NetRows:
                keys = dict.fromkeys([touched_key(row) for row, _ in entries_of(touched(run))])
                return source(run, keys) if keys else []

            return restricted
        whole, wanted = self.closed(plan.input), self.bound(plan.touched, tuple(range(len(plan.keys))))
        if whole is None or wanted is None:
            return None
        return lambda run: _kept_if_touched(run, whole(run), key, wanted, touched_key)

    def _touched_at_all(self, plan: Touched) -> Closed | None:
        touched, source = self.closed(plan.touched), self.closed(plan.input)
        if touched is None or source is None:
            return None
        return lambda run: source(run) if touched(run) else []

    # What follows from some keys

    def bound(self, plan: Plan, columns: Columns) -> Bound | None:
        """The rows that have one of the keys in these columns, of which there is at least one."""
        key = (id(plan), columns)
        if key not in self._bound:
            self._bound[key] = (self._followed and self._followed.bound(plan, columns)) or self._bound_part(
                plan, columns
            )
        return self._bound[key]

    def _bound_part(self, plan: Plan, columns: Columns) -> Bound | None:
        once = tuple(dict.fromkeys(columns))
        if len(once) < len(columns):
            return self._partly(plan, columns, once)
        found = self._bound_by(plan, columns) if relations_of(plan) else None
        if found is not None:
            return found
        closed = self.closed(plan)
        return None if closed is None else _chosen(lambda run, keys: closed(run), columns)

    def _bound_by(self, plan: Plan, columns: Columns) -> Bound | None:
        match plan:
            case Stored():
                finding = self._finding(plan, columns)
                return lambda run, keys: _flat(finding(run, keys))
            case Union(parts=parts):
                return _bound_union([self.bound(part, columns) for part in parts])
            case Join():
                return self._bound_join(plan, columns)
            case Touched():
                return self._bound_touched(plan, columns)
            case Difference(left=left, right=right) | Intersection(left=left, right=right):
                one, other, apply = self.bound(left, columns), self.bound(right, columns), _set_operation(plan)
                if one is None or other is None:
                    return None
                return lambda run, keys: apply(one(run, keys), other(run, keys))
        origins = [_origin(plan, column) for column in columns]
        if None in origins:
            known = tuple(column for column, origin in zip(columns, origins, strict=True) if origin is not None)
            return self._partly(plan, columns, known) if known else None
        operation = _unary(plan)
        source = self.bound(plan.inputs()[0], tuple(o for o in origins if o is not None)) if operation else None
        if operation is None or source is None:
            return None
        return lambda run, keys: operation(source(run, keys))

    def _partly(self, plan: Plan, columns: Columns, some: Columns) -> Bound | None:
        """Bound by some of the columns, and chosen by all."""
        source, part = self.bound(plan, some), key_of([columns.index(column) for column in some])
        return (
            None if source is None else _chosen(lambda run, keys: source(run, dict.fromkeys(map(part, keys))), columns)
        )

    def _bound_join(self, plan: Join, columns: Columns) -> Bound | None:
        width = len(plan.left.schema)
        sides = (
            {column: place for place, column in enumerate(columns) if column < width},
            {column - width: place for place, column in enumerate(columns) if column >= width},
        )
        pairs, _ = _equal_columns(plan)
        alike = tuple(dict(side) for side in sides)
        for left, right in pairs:  # what binds a column binds those that must be equal to it
            if left in sides[0]:
                alike[1].setdefault(right, sides[0][left])
            if right in sides[1]:
                alike[0].setdefault(left, sides[1][right])

        def promise(number: int) -> tuple[int, bool, bool]:
            side = (plan.left, plan.right)[number]
            return -len(alike[number]), self.closed(side) is None, not _is_chosen(side)

        for number in sorted((0, 1), key=promise):
            places, is_left = alike[number], number == 0
            if not places:
                continue
            source = self.bound(plan.left if is_left else plan.right, tuple(places))
            rest = None if source is None else self._rest(plan, is_left=is_left)
            if source is not None and rest is not None:
                found = _bound_joined(source, tuple(places.values()), rest)
                return found if len(set(places.values())) == len(columns) else _chosen(found, columns)
        return None

    def _bound_touched(self, plan: Touched, columns: Columns) -> Bound | None:
        source = self.bound(plan.input, columns)
        wanted = self.bound(plan.touched, tuple(range(len(plan.keys)))) if plan.keys else None
        if source is None or wanted is None:
            return None
        key, touched_key = key_of(plan.keys), key_of(range(len(plan.keys)))

        return lambda run, keys: _kept_if_touched(run, source(run, keys), key, wanted, touched_key)

    def _rest(self, plan: Join, *, is_left: bool) -> _Rest | None:
        """What joins the rows of one side, which are there, with those of the other side that they lead to."""
        other = plan.right if is_left else plan.left
        pairs, residual = _equal_columns(plan)
        near: dict[int, int] = {}
        for left, right in pairs:
            there, here = (right, left) if is_left else (left, right)
            if near.setdefault(there, here) != here:
                residual = (*residual, pairs[left, right])
        finding = self._index(other, tuple(near))
        test = holds(conjunction(residual)) if residual else None
        return None if finding is None else _Rest(key_of(tuple(near.values())), finding, test, is_left)

    def _index(self, plan: Plan, columns: Columns) -> Finding | None:
        """The rows by their keys, at least those that have one of some keys."""
        if columns and isinstance(plan, Stored):
            return self._finding(plan, columns)
        key = key_of(columns)
        if isinstance(plan, Values):
            index = by_key(summed([(row, 1) for row in plan.rows]), key)
            return lambda run, keys: index
        source = self.bound(plan, columns) if columns and relations_of(plan) else None
        if source is not None:
            return lambda run, keys: by_key(source(run, keys), key)
        whole = self.closed(plan)
        return None if whole is None else lambda run, keys: by_key(whole(run), key)

    def _finding(self, leaf: Stored, columns: Columns) -> Finding:
        read = self._read.get(leaf.relation, frozenset()) | set(columns)
        needed = None if len(read) == len(leaf.schema) else tuple(sorted(read))
        return _looked_up(leaf, columns, needed)


# What is done with rows

_ALL: Final[Keys] = ((),)
"""The key, in no column, of all rows."""


def _once(name: int, evaluate: Closed) -> Closed:
    """A part that stands in several places is evaluated once in a run."""

    def once(run: Run) -> NetRows:
        if name not in run.known:
            run.known[name] = evaluate(run)
        return run.known[name]

    return once


def _after(operation: Operation | None, source: Closed | None) -> Closed | None:
    if operation is None or source is None:
        return None
    return lambda run: operation(source(run))


def _chosen(source: Bound, columns: Columns) -> Bound:
    """The rows that have one of the keys, of some that may have others."""
    key = key_of(columns)
    return lambda run, keys: [entry for entry in entries_of(source(run, keys)) if key(entry[0]) in keys]


def _union(parts: Sequence[Closed | None]) -> Closed | None:
    known = [part for part in parts if part is not None]
    return (lambda run: added([part(run) for part in known])) if len(known) == len(parts) else None


def _bound_union(parts: Sequence[Bound | None]) -> Bound | None:
    known = [part for part in parts if part is not None]
    return (lambda run, keys: added([part(run, keys) for part in known])) if len(known) == len(parts) else None


def _joined(first: Closed, rest: _Rest) -> Closed:
    return lambda run: _met(run, first(run), rest)


def _bound_joined(first: Bound, places: Columns, rest: _Rest) -> Bound:
    part = key_of(places)
    return lambda run, keys: _met(run, first(run, dict.fromkeys(map(part, keys))), rest)


def _met(run: Run, rows: NetRows, rest: _Rest) -> NetRows:
    """Each row beside those of the other side that have its key. NULL equals nothing."""
    mine = by_key(rows, rest.key)
    for key in [key for key in mine if None in key]:
        del mine[key]
    if not mine:
        return []
    index, test, is_left = rest.finding(run, mine.keys()), rest.test, rest.is_left
    joined: list[Entry] = []
    for key, own in mine.items():
        others = index.get(key)
        if others is None:
            continue
        if len(own) * len(others) > run.most:
            raise TooMany
        there = entries_of(others)
        if is_left:
            pairs = [(row + other, weight * times) for row, weight in own for other, times in there]
        else:
            pairs = [(other + row, weight * times) for row, weight in own for other, times in there]
        joined += pairs if test is None else [entry for entry in pairs if test(entry[0])]
        if len(joined) > run.most:
            raise TooMany
    return joined


def by_key(rows: NetRows, key: Callable[[Row], Row]) -> dict[Row, list[Entry]]:
    """The rows by a key of theirs."""
    index: dict[Row, list[Entry]] = {}
    for entry in entries_of(rows):
        found = key(entry[0])
        known = index.get(found)
        if known is None:
            index[found] = [entry]
        else:
            known.append(entry)
    return index


def _kept_if_touched(
    run: Run, rows: NetRows, key: Callable[[Row], Row], wanted: Bound, touched_key: Callable[[Row], Row]
) -> NetRows:
    entries = entries_of(rows)
    keys = dict.fromkeys([key(row) for row, _ in entries])
    touched = {touched_key(row) for row, _ in entries_of(wanted(run, keys))} if keys else set()
    return [entry for entry in entries if key(entry[0]) in touched]


def _looked_up(leaf: Stored, columns: Columns, needed: Columns | None) -> Finding:
    def finding(run: Run, keys: Keys) -> Index:
        if not keys:
            return {}
        for key in keys:
            if None in key:
                return _with_null(run, leaf, columns, keys, needed)
        found = run.look_up(leaf, columns, keys, needed)
        if found is None:
            raise TooMany
        run.read[leaf.relation] = read = run.read.get(leaf.relation, 0) + sum(map(len, found.values()))
        if read > run.most:
            raise TooMany
        return found

    return finding


def _with_null(run: Run, leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> Index:
    """NULL is not looked up: rows are found by the columns in which no key has one, and chosen by all."""
    kept = [place for place in range(len(columns)) if all(key[place] is not None for key in keys)]
    if not kept:
        raise TooMany
    part = key_of(kept)
    found = _looked_up(leaf, part(columns), needed)(run, dict.fromkeys(map(part, keys)))  # type: ignore[arg-type]
    index = by_key(_flat(found), key_of(columns))
    return {key: rows for key, rows in index.items() if key in keys}


def _flat(index: Index) -> NetRows:
    """The rows of different keys are different."""
    if len(index) == 1:
        [rows] = index.values()
        return rows
    return [entry for rows in index.values() for entry in entries_of(rows)]


# Operators


def summed(entries: Iterable[tuple[Row, int]]) -> Bag:
    """The net bag of some entries."""
    bag: Bag = {}
    is_net = True
    for row, weight in entries:
        before = bag.get(row)
        if before is None:
            bag[row] = weight
        else:
            bag[row] = before + weight
            is_net = False
    return bag if is_net and 0 not in bag.values() else {row: weight for row, weight in bag.items() if weight}


def added(parts: Sequence[NetRows]) -> NetRows:
    """The union, net. One that is alone is that one."""
    there = [part for part in parts if part]
    if len(there) == 1:
        return there[0]
    return summed([entry for part in there for entry in entries_of(part)])


def _set_operation(plan: Difference | Intersection) -> Callable[[NetRows, NetRows], NetRows]:
    def difference(left: NetRows, right: NetRows) -> NetRows:
        other = as_bag(right)
        mine = ((row, weight - max(0, other.get(row, 0))) for row, weight in entries_of(left) if weight > 0)
        return [(row, weight) for row, weight in mine if weight > 0]

    def intersection(left: NetRows, right: NetRows) -> NetRows:
        other = as_bag(right)
        mine = ((row, min(weight, other.get(row, 0))) for row, weight in entries_of(left))
        return [(row, weight) for row, weight in mine if weight > 0]

    return difference if isinstance(plan, Difference) else intersection


def _unary(plan: Plan) -> Operation | None:
    """What an operator does with the rows of its one input; None if it is none of rows."""
    match plan:
        case Filter(predicate=predicate):
            test = holds(predicate)
            return lambda rows: [entry for entry in entries_of(rows) if test(entry[0])]
        case Project(input=source, expressions=expressions):
            of = compiled_row(expressions)
            if _keeps_all(expressions, len(source.schema)):
                return lambda rows: [(of(row), weight) for row, weight in entries_of(rows)]
            return lambda rows: summed([(of(row), weight) for row, weight in entries_of(rows)])
        case Negate():
            return lambda rows: [(row, -weight) for row, weight in entries_of(rows)]
        case Net():
            return lambda rows: rows
        case Distinct():
            return lambda rows: [(row, 1) for row, weight in entries_of(rows) if weight > 0]
        case Repeat(times=times):
            number = compiled_expression(times)
            return lambda rows: [(r, w * n) for r, w in entries_of(rows) if (n := number(r))]
        case Unnest(array=array, places=places):
            elements = compiled_expression(array)
            width = 1 + places
            return lambda rows: summed(
                [
                    (row + (element, place)[:width], weight)
                    for row, weight in entries_of(rows)
                    for place, element in enumerate(elements(row) or (), 1)
                ]
            )
        case Aggregate():
            return _over_entries(aggregated(plan))
        case Window():
            return _over_entries(windowed(plan))
        case Sort():
            return _over_entries(first_rows(plan))
    return None


def _over_entries(of: Callable[[Collection[Entry]], Bag] | None) -> Operation | None:
    return None if of is None else lambda rows: of(entries_of(rows))


def _keeps_all(expressions: Sequence[Expression], width: int) -> bool:
    """Whether all columns of the input are among those of the output, so that different rows stay different."""
    return len({expression.index for expression in expressions if isinstance(expression, Column)}) == width


def _origin(plan: Plan, column: int) -> int | None:
    """The column of an operator's input by which its rows can be bound instead: rows that have the same value there
    come from no others."""
    match plan:
        case Filter() | Negate() | Net() | Repeat() | Distinct():
            return column
        case Project(expressions=expressions) | Aggregate(keys=expressions):
            expression = expressions[column] if column < len(expressions) else None
            return expression.index if isinstance(expression, Column) else None
        case Unnest(input=source):
            return column if column < len(source.schema) else None
        case Window(partition=partition):
            return column if any(part.index == column for part in partition) else None
    return None


_CHOOSING: Final = frozenset({"eq", "in_list", "like"})


def _has_constants(plan: Plan) -> bool:
    chosen = (part.predicate for part in walk(plan) if isinstance(part, Filter))
    conditions = (condition for predicate in chosen for condition in conjuncts(predicate))
    return any(isinstance(c, Call) and c.function in _CHOOSING and _is_constant(c.arguments[1:]) for c in conditions)


def _is_constant(arguments: Sequence[Expression]) -> bool:
    return all(isinstance(argument, Literal) for argument in arguments)


_is_chosen: Final = PerPlan(_has_constants)
"""Whether columns of a plan must have constant values: few of its rows do, so that it is best looked into first."""

Pairs: TypeAlias = dict[tuple[int, int], Expression]


def _columns_to_equal(plan: Plan) -> tuple[Pairs, tuple[Expression, ...]]:
    """The pairs of columns, of the left and the right side, that a join wants to be equal, and what else it wants."""
    assert isinstance(plan, Join)
    width, pairs, residual = len(plan.left.schema), Pairs(), list[Expression]()
    for condition in conjuncts(plan.predicate):
        match condition:
            case Call(function="eq", arguments=(Column(index=a, type=one), Column(index=b, type=other))) if (
                one == other and min(a, b) < width <= max(a, b)
            ):
                pairs.setdefault((min(a, b), max(a, b) - width), condition)
            case _ if condition != TRUE:
                residual.append(condition)
    return pairs, tuple(residual)


_equal_columns: Final = PerPlan(_columns_to_equal)
