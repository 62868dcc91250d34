"""Compiled steps: a plan as closures over rows as tuples.

Each operator gives net rows, so that no expression sees entries that cancel. Rows that are known to differ stay a list
of entries: to put a row into a bag is to hash all of its values. A run is given up where more rows come than rows of
this form are good for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from tidemark.algebra.cache import PerPlan
from tidemark.algebra.compiled import compiled as compiled_expression
from tidemark.algebra.compiled import compiled_row, holds, key_of
from tidemark.algebra.expressions import Column, Expression
from tidemark.algebra.plans import (
    Aggregate,
    Difference,
    Distinct,
    Filter,
    Intersection,
    Negate,
    Net,
    Plan,
    Project,
    Repeat,
    Sort,
    Stored,
    Unnest,
    Window,
    walk,
)
from tidemark.algebra.scalar import Row
from tidemark.algebra.types import Schema
from tidemark.engines.engine import Columns, Found, Index, Keys, LookUp
from tidemark.engines.limits import PROCESS
from tidemark.engines.local.compiler import Finding, Meeting, Run, TooMany, compiled, keeps_all, names_given
from tidemark.engines.local.groups import aggregated, first_rows, windowed
from tidemark.storage.delta import Bag, Entry, NetRows, Rows, as_bag, as_rows, entries_of

RowFinding: TypeAlias = Finding[Keys, Index]


Operation: TypeAlias = Callable[[NetRows], NetRows]


@dataclass(frozen=True)
class Steps:
    """A compiled plan, and the names of what it wants given."""

    names: tuple[str, ...]
    follow: Callable[[Run], NetRows]

    def evaluate(self, run: Run) -> Bag:
        return as_bag(self.follow(run))


def given_rows(plan: Plan, given: Mapping[str, pa.Table]) -> dict[str, Rows]:
    """The tables that the plan wants given, as rows."""
    rows = as_rows(given)
    return {name: rows[name] for name in names_given(plan)}


def nothing_stored(leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> None:
    """For plans over what is given alone."""


def any_held(relation: str) -> bool:
    """For plans over what is given alone."""
    return True


def evaluate_few(
    plan: Plan,
    given: Mapping[str, Rows],
    look_up: LookUp = nothing_stored,
    is_held: Callable[[str], bool] = any_held,
) -> Found | None:
    """The plan's net rows, or None if it is not compiled or not a matter of a few rows. More are followed, too, if they
    are at hand, and so are the relations in which they are looked up: all of these that are stored ``is_held``."""
    found = _steps(plan)
    if found is None:
        return None
    wanted = {name: given[name] for name in found.names}
    if not _are_few(plan, wanted.values(), is_held):
        return None
    run = Run({name: rows.net for name, rows in wanted.items()}, look_up, PROCESS.few_met)
    try:
        rows = found.follow(run)
    except TooMany:
        return None
    found_rows = Rows(plan.schema, bag=rows) if isinstance(rows, dict) else Rows(plan.schema, listed=rows)
    return Found(found_rows, run.read)


def _are_few(plan: Plan, given: Collection[Rows], is_held: Callable[[str], bool]) -> bool:
    total = sum([rows.count for rows in given])
    if total <= PROCESS.few_changed:
        return True
    to_make = sum([rows.count for rows in given if not rows.is_bag])
    return to_make <= PROCESS.few_changed and total <= PROCESS.few_at_hand and all(map(is_held, _stored_in(plan)))


_stored_in: Final = PerPlan(lambda plan: tuple({part.relation for part in walk(plan) if isinstance(part, Stored)}))


def steps(plan: Plan) -> Steps | None:
    """The compiled plan; None if a stored relation stays out of reach, or an operator is none of rows."""
    return _steps(plan)


def _compiled(plan: Plan) -> Steps | None:
    follow = compiled(plan, ROWS)
    return None if follow is None else Steps(names_given(plan), follow)


_steps: Final = PerPlan(_compiled)


class RowForm:
    """Rows as tuples, by key in dictionaries."""

    all_keys: Keys = ((),)

    def values(self, rows: Sequence[Row], schema: Schema) -> NetRows:
        return summed([(row, 1) for row in rows])

    def nothing(self, schema: Schema) -> NetRows:
        return []

    def keys(self, columns: Columns) -> Callable[[NetRows], Keys]:
        key = key_of(columns)
        return lambda rows: dict.fromkeys([key(row) for row, _ in entries_of(rows)])

    def part(self, places: Sequence[int]) -> Callable[[Keys], Keys]:
        part = key_of(places)
        return lambda keys: dict.fromkeys(map(part, keys))

    def chosen(self, columns: Columns) -> Callable[[NetRows, Keys], NetRows]:
        key = key_of(columns)
        return lambda rows, keys: [entry for entry in entries_of(rows) if key(entry[0]) in keys]

    def unary(self, plan: Plan) -> Operation | None:
        return _unary(plan)

    def set_operation(self, plan: Difference | Intersection) -> Callable[[NetRows, NetRows], NetRows]:
        return _set_operation(plan)

    def added(self, parts: Sequence[NetRows]) -> NetRows:
        return added(parts)

    def without(self, rows: NetRows, others: NetRows) -> NetRows:
        return without(rows, others)

    def index(self, columns: Columns) -> Callable[[NetRows], Index]:
        key = key_of(columns)
        return lambda rows: by_key(rows, key)

    def flat(self, index: Index) -> NetRows:
        return _flat(index)

    def looked_up(self, leaf: Stored, columns: Columns, needed: Columns | None) -> RowFinding:
        return _looked_up(leaf, columns, needed)

    def met(self, meeting: Meeting, finding: RowFinding) -> Callable[[Run, NetRows], NetRows]:
        return _met(meeting, finding)


ROWS: Final = RowForm()


# What is done with rows


def _met(meeting: Meeting, finding: RowFinding) -> Callable[[Run, NetRows], NetRows]:
    key_of_row, is_left = key_of(meeting.near), meeting.is_left
    test = None if meeting.test is None else holds(meeting.test)

    def met(run: Run, rows: NetRows) -> NetRows:
        mine = by_key(rows, key_of_row)
        for key in [key for key in mine if None in key]:
            del mine[key]
        if not mine:
            return []
        index = finding(run, mine.keys())
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

    return met


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


def _looked_up(leaf: Stored, columns: Columns, needed: Columns | None) -> RowFinding:
    def finding(run: Run, keys: Keys) -> Index:
        if not keys:
            return {}
        for key in keys:
            if None in key:
                return _with_null(run, leaf, columns, keys, needed)
        found: Index | None = run.look_up(leaf, columns, keys, needed)
        if found is None:
            raise TooMany
        run.has_read(leaf.relation, sum(map(len, found.values())))
        return found

    return finding


def _with_null(run: Run, leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> Index:
    """NULL is not looked up: rows are found by the columns in which no key has one, if there are any, and chosen by
    all."""
    part = key_of([place for place in range(len(columns)) if all(key[place] is not None for key in keys)])
    found = _looked_up(leaf, part(columns), needed)(run, dict.fromkeys(map(part, keys)))  # type: ignore[arg-type]
    index = by_key(_flat(found), key_of(columns))
    return {key: rows for key, rows in index.items() if key in keys}


def _flat(index: Index) -> NetRows:
    """The rows of different keys are different."""
    if len(index) == 1:
        [rows] = index.values()
        return rows
    if any(isinstance(rows, list) for rows in index.values()):
        return [entry for rows in index.values() for entry in entries_of(rows)]
    together: Bag = {}
    for rows in index.values():
        together.update(rows)  # which takes their hashes over
    return together


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
    if len(there) <= 1:
        return there[0] if there else []
    total = dict(there[0])
    for part in there[1:]:
        for row, weight in entries_of(part):
            after = total.get(row, 0) + weight
            if after:
                total[row] = after
            else:
                del total[row]
    return total


def without(rows: NetRows, others: NetRows) -> NetRows:
    """The rows minus others, net. Where most are among both, each is looked at once."""
    if not others:
        return rows
    left, different = dict(others), Bag()
    for row, weight in entries_of(rows):
        other = left.pop(row, 0)
        if other != weight:
            different[row] = weight - other
    for row, weight in left.items():
        different[row] = -weight
    return different


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
            if _is_all(expressions, len(source.schema)):
                return lambda rows: rows
            of = compiled_row(expressions)
            if keeps_all(expressions, len(source.schema)):
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


def _over_entries(of: Callable[[Collection[Entry]], NetRows] | None) -> Operation | None:
    return None if of is None else lambda rows: of(entries_of(rows))


def _is_all(expressions: Sequence[Expression], width: int) -> bool:
    """Whether the columns of the input are those of the output, in this order."""
    places = [expression.index for expression in expressions if isinstance(expression, Column)]
    return len(expressions) == width and places == list(range(width))
