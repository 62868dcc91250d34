"""Compiled steps over columns: a plan as closures over batches, for some hundreds of changed rows and more.

What is said for rows as tuples (``steps.py``) is said here for columns: a look-up finds the rows of all keys at once, a
join puts places beside places. A batch need not be net while nothing looks at entries that cancel: it is made so before
an expression that can fail, and before an operator that is not linear. An operator that has no form of its own here is
evaluated over rows as tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from tidemark.algebra.aggregates import AggregateCall, AggregateFunction
from tidemark.algebra.cache import PerPlan
from tidemark.algebra.expressions import Column
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
    Stored,
)
from tidemark.algebra.scalar import Row, can_fail
from tidemark.algebra.types import BIGINT, Kind, Schema
from tidemark.engines.engine import Columns, Found, LookUp
from tidemark.engines.limits import PROCESS
from tidemark.engines.local.compiler import (
    Closed,
    Finding,
    Meeting,
    Run,
    TooMany,
    compiled,
    keeps_all,
    names_given,
)
from tidemark.engines.local.steps import ROWS, any_held, evaluate_few
from tidemark.engines.local.vectors import computed, passing
from tidemark.storage.batches import MOST, Batch, Groups, Mask, Unfit, Vector, codes_of_rows, empty_batch, magnitude
from tidemark.storage.delta import Rows
from tidemark.storage.runs import Numbers, places_between


@dataclass(frozen=True)
class Keys:
    """Different keys, by column."""

    vectors: Sequence[Vector]
    count: int

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True)
class Indexed:
    """Rows, and the columns that their keys are in. If they were looked up, ``owners`` has the number of each one's
    key among those that were asked for."""

    rows: Batch
    columns: Columns
    owners: Numbers | None = None


LookUpColumns: TypeAlias = Callable[
    [Stored, Columns, Sequence[Vector], Columns | None], tuple[Batch, Numbers | None] | None
]
"""The rows of a stored relation that have one of these keys in these columns, which are different and without NULL, and
the number of each one's key, if that is known; None if there are too many, or if nobody can tell."""


def nothing_stored(leaf: Stored, columns: Columns, keys: Sequence[Vector], needed: Columns | None) -> None:
    """For plans over what is given alone."""


def evaluate_many(plan: Plan, given: Mapping[str, Rows], look_up: LookUpColumns = nothing_stored) -> Found | None:
    """The plan's net rows, or None if it is not compiled or too many rows come."""
    evaluate = _steps(plan)
    if evaluate is None or sum([given[name].count for name in names_given(plan)]) > PROCESS.many_changed:
        return None
    run = Run({name: given[name].batch for name in names_given(plan)}, look_up, PROCESS.many_met)
    try:
        return Found(Rows(plan.schema, batch=evaluate(run).net()), run.read)
    except (TooMany, Unfit):
        return None


def followed(
    plan: Plan,
    given: Mapping[str, Rows],
    few: LookUp,
    many: LookUpColumns,
    is_held: Callable[[str], bool] = any_held,
) -> Found | None:
    """The plan's net rows by compiled steps: over tuples if there are few rows, else over columns; None if there are
    too many for that, too, or the plan is not compiled."""
    found = evaluate_few(plan, given, few, is_held)
    return evaluate_many(plan, given, many) if found is None else found


class ColumnForm:
    """Rows as columns."""

    all_keys: Keys = Keys((), 1)

    def values(self, rows: Sequence[Row], schema: Schema) -> Batch:
        return Rows(schema, bag=ROWS.values(rows, schema)).batch  # type: ignore[arg-type]

    def nothing(self, schema: Schema) -> Batch:
        return empty_batch(schema)

    def keys(self, columns: Columns) -> Callable[[Batch], Keys]:
        def keys(batch: Batch) -> Keys:
            vectors = [batch.net().vectors[column] for column in columns]
            return _different(vectors, len(batch.net()))

        return keys

    def part(self, places: Sequence[int]) -> Callable[[Keys], Keys]:
        return lambda keys: _different([keys.vectors[place] for place in places], len(keys))

    def chosen(self, columns: Columns) -> Callable[[Batch, Keys], Batch]:
        def chosen(batch: Batch, keys: Keys) -> Batch:
            own = [batch.vectors[column] for column in columns]
            return batch.where(_numbers_of(own, len(batch), keys.vectors, len(keys)) >= 0)

        return chosen

    def unary(self, plan: Plan) -> Callable[[Batch], Batch] | None:
        return _unary(plan)

    def set_operation(self, plan: Difference | Intersection) -> Callable[[Batch, Batch], Batch]:
        operation, schema = ROWS.set_operation(plan), plan.schema

        def of_rows(left: Batch, right: Batch) -> Batch:
            one, other = (Rows(schema, batch=side.net()).bag for side in (left, right))
            return Rows(schema, bag=dict(operation(one, other))).batch

        return of_rows

    def added(self, parts: Sequence[Batch]) -> Batch:
        return Batch.together(parts)

    def without(self, rows: Batch, others: Batch) -> Batch:
        return Batch.together([rows, Batch(others.vectors, -others.weights, others.is_net)])

    def index(self, columns: Columns) -> Callable[[Batch], Indexed]:
        return lambda batch: Indexed(batch, columns)

    def flat(self, index: Indexed) -> Batch:
        return index.rows

    def looked_up(self, leaf: Stored, columns: Columns, needed: Columns | None) -> Finding[Keys, Indexed]:
        return _looked_up(leaf, columns, needed)

    def met(self, meeting: Meeting, finding: Finding[Keys, Indexed]) -> Callable[[Run, Batch], Batch]:
        return _met(meeting, finding)


COLUMNS: Final = ColumnForm()


def _compiled(plan: Plan) -> Closed[Batch] | None:
    return compiled(plan, COLUMNS)


_steps: Final = PerPlan(_compiled)


# Keys


def _different(vectors: Sequence[Vector], count: int) -> Keys:
    """Each key once, in the order in which they come."""
    if not vectors:
        return Keys((), min(count, 1))
    _, firsts = np.unique(codes_of_rows(vectors, count), return_index=True)
    if len(firsts) == count:
        return Keys(vectors, count)
    firsts.sort()
    return Keys([vector.take(firsts) for vector in vectors], len(firsts))


def _numbers_of(vectors: Sequence[Vector], count: int, keys: Sequence[Vector], known: int) -> Numbers:
    """For each row the number of its key, NULL being equal to NULL; -1 if it has none of them."""
    if not vectors:
        return np.full(count, 0 if known else -1, np.int64)
    both = [Vector.together(pair) for pair in zip(keys, vectors, strict=True)]
    codes = codes_of_rows(both, known + count)
    return _places_of(codes[:known], codes[known:])


def _places_of(keys: Numbers, wanted: Numbers) -> Numbers:
    """Where each wanted number stands among the keys, which differ; -1 if nowhere."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    places = np.minimum(np.searchsorted(ordered, wanted), len(keys) - 1)
    return np.where(ordered[places] == wanted, order[places], -1)


def _with_all(vectors: Sequence[Vector]) -> Mask | None:
    """Which rows have no NULL in these columns; None if all have none."""
    found: Mask | None = None
    for vector in vectors:
        present = vector.present()
        if present is not None:
            found = present if found is None else found & present
    return found


# Look-ups and joins


def _looked_up(leaf: Stored, columns: Columns, needed: Columns | None) -> Finding[Keys, Indexed]:
    def finding(run: Run, keys: Keys) -> Indexed:
        if not len(keys):
            return Indexed(empty_batch(leaf.schema), columns)
        if _with_all(keys.vectors) is not None:
            return _with_null(run, leaf, columns, keys, needed)
        found: tuple[Batch, Numbers | None] | None = run.look_up(leaf, columns, keys.vectors, needed)
        if found is None:
            raise TooMany
        run.has_read(leaf.relation, len(found[0]))
        return Indexed(found[0], columns, found[1])

    return finding


def _with_null(run: Run, leaf: Stored, columns: Columns, keys: Keys, needed: Columns | None) -> Indexed:
    """NULL is not looked up: rows are found by the columns in which no key has one, and chosen by all."""
    kept = [place for place in range(len(columns)) if keys.vectors[place].present() is None]
    if not kept:
        raise TooMany
    some = _different([keys.vectors[place] for place in kept], len(keys))
    found = _looked_up(leaf, tuple(columns[place] for place in kept), needed)(run, some).rows
    return Indexed(COLUMNS.chosen(columns)(found, keys), columns)


def _met(meeting: Meeting, finding: Finding[Keys, Indexed]) -> Callable[[Run, Batch], Batch]:
    """The rows are numbered by their keys, and so are those that are found for these."""
    near, is_left, schema = meeting.near, meeting.is_left, meeting.schema
    test = None if meeting.test is None else passing(meeting.test)
    must_be_net = meeting.test is not None and can_fail(meeting.test)

    def met(run: Run, rows: Batch) -> Batch:
        present = _with_all([rows.vectors[column] for column in near])
        if present is not None:
            rows = rows.where(present)
        if must_be_net:
            rows = rows.net()
        if not len(rows):
            return empty_batch(schema)
        own = [rows.vectors[column] for column in near]
        keys = _different(own, len(rows))
        mine = np.arange(len(rows)) if len(keys) == len(rows) and near else _numbers_of(own, len(rows), *_of(keys))
        index = finding(run, keys)
        others = index.rows.net() if must_be_net else index.rows
        owners = index.owners if others is index.rows else None
        if owners is None:
            owners = _numbers_of([others.vectors[column] for column in index.columns], len(others), *_of(keys))
        joined = _paired(run, rows, mine, others, owners, len(keys), is_left=is_left)
        return joined if test is None else test(joined)

    return met


def _of(keys: Keys) -> tuple[Sequence[Vector], int]:
    return keys.vectors, len(keys)


def _paired(
    run: Run, rows: Batch, mine: Numbers, others: Batch, owners: Numbers, count: int, *, is_left: bool
) -> Batch:
    """Each row beside those others that have the same one of so many numbers; a number below zero is none."""
    if len(rows) == count:  # each number is one row's
        first, second = _inverse(mine)[owners], np.arange(len(owners))
        if len(owners) and int(owners.min()) < 0:
            second = np.flatnonzero(owners >= 0)
            first = first[second]
    else:
        order = np.argsort(mine, kind="stable")
        ends = np.cumsum(np.bincount(mine, minlength=count))
        known = np.flatnonzero(owners >= 0)
        high = ends[owners[known]]
        low = np.where(owners[known] > 0, ends[owners[known] - 1], 0)
        if int((high - low).sum()) > run.most:
            raise TooMany
        places, found = places_between(low, high)
        first, second = order[places], known[found]
    if len(first) > run.most:
        raise TooMany
    if magnitude(rows.weights) * magnitude(others.weights) >= MOST:
        raise Unfit
    one, other = rows.vectors_at(first), others.vectors_at(second)
    weights = rows.weights[first] * others.weights[second]
    return Batch([*one, *other] if is_left else [*other, *one], weights, rows.is_net and others.is_net)


def _inverse(numbers: Numbers) -> Numbers:
    found = np.empty(len(numbers), np.int64)
    found[numbers] = np.arange(len(numbers))
    return found


# Operators


def _unary(plan: Plan) -> Callable[[Batch], Batch] | None:
    match plan:
        case Filter(predicate=predicate):
            chosen = passing(predicate)
            return (lambda batch: chosen(batch.net())) if can_fail(predicate) else chosen
        case Project():
            return _projected(plan)
        case Negate():
            return lambda batch: Batch(batch.vectors, -batch.weights, batch.is_net)
        case Net():
            return Batch.net
        case Distinct():
            return _once_each
        case Aggregate():
            of_columns, of_rows = _aggregated(plan), _over_rows(plan)
            if of_columns is None:
                return of_rows

            def groups(batch: Batch) -> Batch:
                try:
                    return of_columns(batch.net())
                except Unfit:
                    assert of_rows is not None, "rows have all operators"
                    return of_rows(batch)

            return groups
    return _over_rows(plan)


def _projected(plan: Project) -> Callable[[Batch], Batch]:
    cells = [computed(expression) for expression in plan.expressions]
    is_plain = all(isinstance(expression, Column) for expression in plan.expressions)
    may_fail = not is_plain and any(map(can_fail, plan.expressions))
    keeps = keeps_all(plan.expressions, len(plan.input.schema))

    def projected(batch: Batch) -> Batch:
        if may_fail:
            batch = batch.net()
        return Batch([cell(batch) for cell in cells], batch.weights, keeps and batch.is_net)

    return projected


def _once_each(batch: Batch) -> Batch:
    there = batch.net()
    there = there.where(there.weights > 0)
    return Batch(there.vectors, np.ones(len(there), np.int64), is_net=True)


def _over_rows(plan: Plan) -> Callable[[Batch], Batch] | None:
    """The operator over rows as tuples."""
    operation = ROWS.unary(plan)
    if operation is None:
        return None
    source, schema = plan.inputs()[0].schema, plan.schema

    def of_rows(batch: Batch) -> Batch:
        return Rows(schema, bag=dict(operation(Rows(source, batch=batch.net()).bag))).batch

    return of_rows


# Groups

_Total: TypeAlias = Callable[[Batch, Groups], Vector]
_ORDERED: Final = frozenset(
    {Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
)


def _aggregated(plan: Aggregate) -> Callable[[Batch], Batch] | None:
    """One row for each group of net rows; None if a call is not known for columns. Unfit if a value is not one of
    numbers of 64 bits, or if there is but the one group without keys and nothing in it."""
    keys, totals = [computed(key) for key in plan.keys], list[_Total]()
    asks_weight = bool(plan.keys) and not plan.signed
    for call in plan.aggregates:
        total = _total(call)
        if total is None:
            return None
        totals.append(total)

    def groups(batch: Batch) -> Batch:
        if not len(batch) and not plan.keys:
            raise Unfit
        own = [key(batch) for key in keys]
        found = Groups.of(own, len(batch))
        first = found.firsts
        vectors = [*(vector.take(first) for vector in own), *(total(batch, found) for total in totals)]
        rows = Batch(vectors, np.ones(len(found), np.int64), is_net=True)
        return rows.where(found.summed(batch.weights) > 0) if asks_weight else rows

    return groups


def _total(call: AggregateCall) -> _Total | None:
    if call.argument is None:
        return lambda batch, groups: Vector(BIGINT, numbers=groups.summed(batch.weights))
    if call.distinct or call.condition is not None:
        return None
    if call.function is AggregateFunction.COUNT:
        of = computed(call.argument)
        return lambda batch, groups: Vector(
            BIGINT, numbers=groups.summed(_weights_of(batch.weights, of(batch).present()))
        )
    if call.is_exact_sum:
        return _sum(call)
    if call.is_extremum and call.argument.type.kind in _ORDERED and call.type == call.argument.type:
        return _extremum(call)
    return None


def _weights_of(weights: Numbers, present: Mask | None) -> Numbers:
    return weights if present is None else np.where(present, weights, 0)


def _sum(call: AggregateCall) -> _Total | None:
    assert call.argument is not None, "sums are of something"
    of, type_ = computed(call.argument), call.type
    if type_.scale != call.argument.type.scale:
        return None
    limit = 2**63 if type_.is_integer else 10**type_.precision

    def total(batch: Batch, groups: Groups) -> Vector:
        numbers, present = of(batch).numbers()
        if magnitude(numbers) * magnitude(batch.weights) >= MOST:
            raise Unfit
        found = groups.summed(numbers * batch.weights)
        if magnitude(found) >= limit:
            raise Unfit
        there = None if present is None else groups.summed(present.astype(np.int64)) > 0
        return Vector(type_, numbers=found, present=None if there is None or bool(there.all()) else there)

    return total


def _extremum(call: AggregateCall) -> _Total:
    assert call.argument is not None, "extrema are of something"
    of, type_ = computed(call.argument), call.type
    is_least = call.function is AggregateFunction.MIN
    reduced, none = (np.minimum, np.iinfo(np.int64).max) if is_least else (np.maximum, np.iinfo(np.int64).min)

    def extremum(batch: Batch, groups: Groups) -> Vector:
        numbers, present = of(batch).numbers()
        counts = batch.weights > 0 if present is None else present & (batch.weights > 0)
        seen = np.where(counts, numbers, none)
        found = reduced.reduceat(seen[groups.order], groups.starts) if len(groups) else seen[:0]
        there = groups.summed(counts.astype(np.int64)) > 0
        if bool(there.all()):
            return Vector(type_, numbers=found)
        return Vector(type_, numbers=np.where(there, found, 0), present=there)

    return extremum
