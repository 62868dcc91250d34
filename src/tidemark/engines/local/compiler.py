"""Compiles plans to closures, from their deltas outward, whatever form the rows have.

    closed(P)(run)        = the net rows of P                       if P follows from what is given
    bound(P, c)(run, K)   = σ[c ∈ K](P), NULL matching NULL         if the restriction leads to keys of each stored leaf

A join begins with the side that is closed, or that its own restriction leads into, and binds the other side by the
columns that must be equal:

    ΔQ ⋈ R  =  ΔQ ⋈ σ[b ∈ π[a](ΔQ)](R)           if the join asks for Q.a = R.b

so of each stored relation only rows with keys that reach it are fetched. Where nothing leads into a relation all of it
is asked for, by no column and the one key (), which is answered of few rows. All of this is decided once, from the plan
alone. What is done with rows and keys is said by a *form*, of which there are two: rows as tuples (``steps.py``) and
as columns (``columns.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from tidemark.algebra.cache import PerPlan, is_tangled
from tidemark.algebra.columns import columns_read
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
from tidemark.algebra.types import Schema
from tidemark.engines.engine import Columns

MOST_PARTS: Final = 2_000
"""A plan of more parts is not compiled."""

R = TypeVar("R", bound=Sized)
"""Rows."""
K = TypeVar("K", bound=Sized)
"""Different keys, in the order of the rows that they are of, so that answers come in the same order each time."""
I = TypeVar("I")  # noqa: E741
"""Rows by their keys."""


class TooMany(Exception):
    """More rows came than this form of rows is good for, or some that cannot be looked up."""


@dataclass
class Run:
    """One evaluation: what is given, where rows are looked up, how many may be found, and how many of each relation
    were. Rows and look-ups have the form for which the plan was compiled."""

    given: Mapping[str, Any]
    look_up: Callable[..., Any]
    most: int
    read: dict[str, int] = field(default_factory=dict)
    known: dict[int, Any] = field(default_factory=dict)

    def has_read(self, relation: str, rows: int) -> None:
        self.read[relation] = read = self.read.get(relation, 0) + rows
        if read > self.most:
            raise TooMany


Closed: TypeAlias = Callable[[Run], R]
Bound: TypeAlias = Callable[[Run, K], R]
Finding: TypeAlias = Callable[[Run, K], I]


@dataclass(frozen=True)
class Meeting:
    """How rows of one side of a join, by some columns of theirs, meet those of the other: with what ``schema``, what
    else is asked of a pair, and on which side the first ones stand."""

    schema: Schema
    near: Columns
    test: Expression | None
    is_left: bool


class Form(Protocol[R, K, I]):
    """What is done with rows of one form. Each operator takes net rows and gives net rows, or such as the form itself
    makes net before anybody sees entries that cancel."""

    all_keys: K
    """The key, in no column, of all rows."""

    def values(self, rows: Sequence[Row], schema: Schema) -> R: ...

    def nothing(self, schema: Schema) -> R: ...

    def keys(self, columns: Columns) -> Callable[[R], K]:
        """The different keys that rows have in these columns."""
        ...

    def part(self, places: Sequence[int]) -> Callable[[K], K]:
        """Some columns of keys."""
        ...

    def chosen(self, columns: Columns) -> Callable[[R, K], R]:
        """The rows that have one of the keys, NULL being equal to NULL."""
        ...

    def unary(self, plan: Plan) -> Callable[[R], R] | None:
        """What an operator does with the rows of its one input; None if it is none of rows."""
        ...

    def set_operation(self, plan: Difference | Intersection) -> Callable[[R, R], R]: ...

    def added(self, parts: Sequence[R]) -> R: ...

    def without(self, rows: R, others: R) -> R:
        """The rows minus others."""
        ...

    def index(self, columns: Columns) -> Callable[[R], I]:
        """Rows by a key of theirs."""
        ...

    def flat(self, index: I) -> R:
        """All rows of an index."""
        ...

    def looked_up(self, leaf: Stored, columns: Columns, needed: Columns | None) -> Finding[K, I]:
        """The rows of a stored relation that have one of some keys, NULL being equal to NULL; ``needed`` has the
        columns that must be filled, if not all."""
        ...

    def met(self, meeting: Meeting, finding: Finding[K, I]) -> Callable[[Run, R], R]:
        """Each row beside those of the other side that have its key. NULL equals nothing."""
        ...


def compiled(plan: Plan, form: Form[R, K, I]) -> Closed[R] | None:
    """The plan in a form; None if a stored relation stays out of reach, or an operator is none of rows."""
    if (is_tangled(plan) and relations_of(plan)) or sum(1 for _ in walk(plan)) > MOST_PARTS:
        return None
    followed = Compiler(plan, form)
    return followed.closed(plan) or Compiler(plan, form, followed).closed(plan)


names_given: Final = PerPlan(
    lambda plan: tuple(dict.fromkeys(part.name for part in walk(plan) if isinstance(part, Given)))
)
"""What a plan wants given."""


class Compiler(Generic[R, K, I]):
    """Compiles the parts of one plan, each once for the columns that it is bound by.

    One that has another ``followed`` before it, which reads only what keys lead into, takes from it what it can, and
    reads the other stored relations as a whole.
    """

    def __init__(self, plan: Plan, form: Form[R, K, I], followed: Compiler[R, K, I] | None = None) -> None:
        self._form, self._followed = form, followed
        leaves: dict[Plan, str] = {part: part.relation for part in walk(plan) if isinstance(part, Stored)}
        self._read = columns_read(plan, named=leaves)
        self._closed: dict[int, Closed[R] | None] = {}
        self._bound: dict[tuple[int, Columns], Bound[K, R] | None] = {}
        times: dict[int, int] = {}
        for part in walk(plan):
            for child in part.inputs():
                times[id(child)] = times.get(id(child), 0) + 1
        self._repeated = {part for part, count in times.items() if count > 1}

    # What follows from what is given

    def closed(self, plan: Plan) -> Closed[R] | None:
        if id(plan) not in self._closed:
            found = (self._followed and self._followed.closed(plan)) or self._closed_part(plan)
            if found is not None and id(plan) in self._repeated and plan.inputs():
                found = _once(id(plan), found)
            self._closed[id(plan)] = found
        return self._closed[id(plan)]

    def _closed_part(self, plan: Plan) -> Closed[R] | None:
        match plan:
            case Given(name=name):
                return lambda run: run.given[name]
            case Values(rows=rows):
                listed = self._form.values(rows, plan.schema)
                return lambda run: listed
            case Stored():
                return self._whole(plan)
            case Filter(input=Stored(), predicate=predicate) if _names_constants(predicate):
                return None  # by constants its rows are found sooner (``lookups.py``)
            case Union(parts=(one, Negate(input=other))):
                return _of_two(self._form.without, self.closed(one), self.closed(other))
            case Union(parts=parts):
                return self._union([self.closed(part) for part in parts])
            case Join():
                return self._closed_join(plan)
            case Touched():
                return self._closed_touched(plan)
            case Difference(left=left, right=right) | Intersection(left=left, right=right):
                return _of_two(self._form.set_operation(plan), self.closed(left), self.closed(right))
        return self._after(plan) if len(plan.inputs()) == 1 else None

    def _whole(self, leaf: Stored) -> Closed[R] | None:
        if self._followed is None:
            return None
        finding, flat, all_ = self._finding(leaf, ()), self._form.flat, self._form.all_keys
        return lambda run: flat(finding(run, all_))

    def _follows(self, plan: Plan) -> bool:
        """Whether the plan is followed from what is given, and nothing is read as a whole for it."""
        return self._followed is None or self._followed.closed(plan) is not None

    def _closed_join(self, plan: Join) -> Closed[R] | None:
        for is_left in (True, False) if self._follows(plan.left) else (False, True):
            first = self.closed(plan.left if is_left else plan.right)
            rest = None if first is None else self._rest(plan, is_left=is_left)
            if first is not None and rest is not None:
                return _joined(first, rest)
        return None

    def _closed_touched(self, plan: Touched) -> Closed[R] | None:
        if not plan.keys:
            return self._touched_at_all(plan)
        touched_keys, nothing = self._form.keys(tuple(range(len(plan.keys)))), self._form.nothing(plan.schema)
        touched, source = self.closed(plan.touched), self.bound(plan.input, plan.keys)
        if touched is not None and source is not None:

            def restricted(run: Run) -> R:
                keys = touched_keys(touched(run))
                return source(run, keys) if len(keys) else nothing

            return restricted
        whole, kept = self.closed(plan.input), self._kept_if_touched(plan)
        if whole is None or kept is None:
            return None
        return lambda run: kept(run, whole(run))

    def _kept_if_touched(self, plan: Touched) -> Callable[[Run, R], R] | None:
        places = tuple(range(len(plan.keys)))
        wanted = self.bound(plan.touched, places)
        if wanted is None:
            return None
        keys_of, touched_keys, nothing = (
            self._form.keys(plan.keys),
            self._form.keys(places),
            self._form.nothing(plan.schema),
        )
        chosen = self._form.chosen(plan.keys)

        def kept(run: Run, rows: R) -> R:
            keys = keys_of(rows)
            return chosen(rows, touched_keys(wanted(run, keys))) if len(keys) else nothing

        return kept

    def _touched_at_all(self, plan: Touched) -> Closed[R] | None:
        touched, source = self.closed(plan.touched), self.closed(plan.input)
        if touched is None or source is None:
            return None
        nothing = self._form.nothing(plan.schema)
        return lambda run: source(run) if len(touched(run)) else nothing

    def _after(self, plan: Plan) -> Closed[R] | None:
        operation = self._form.unary(plan)
        source = None if operation is None else self.closed(plan.inputs()[0])
        if operation is None or source is None:
            return None
        return lambda run: operation(source(run))

    def _union(self, parts: Sequence[Closed[R] | None]) -> Closed[R] | None:
        known, added = [part for part in parts if part is not None], self._form.added
        return (lambda run: added([part(run) for part in known])) if len(known) == len(parts) else None

    def _bound_union(self, parts: Sequence[Bound[K, R] | None]) -> Bound[K, R] | None:
        known, added = [part for part in parts if part is not None], self._form.added
        return (lambda run, keys: added([part(run, keys) for part in known])) if len(known) == len(parts) else None

    # What follows from some keys

    def bound(self, plan: Plan, columns: Columns) -> Bound[K, R] | None:
        """The rows that have one of the keys in these columns, of which there is at least one."""
        key = (id(plan), columns)
        if key not in self._bound:
            self._bound[key] = (self._followed and self._followed.bound(plan, columns)) or self._bound_part(
                plan, columns
            )
        return self._bound[key]

    def _bound_part(self, plan: Plan, columns: Columns) -> Bound[K, R] | None:
        once = tuple(dict.fromkeys(columns))
        if len(once) < len(columns):
            return self._partly(plan, columns, once)
        found = self._bound_by(plan, columns) if relations_of(plan) else None
        if found is not None:
            return found
        closed = self.closed(plan)
        if closed is None:
            return None
        chosen = self._form.chosen(columns)
        return lambda run, keys: chosen(closed(run), keys)

    def _bound_by(self, plan: Plan, columns: Columns) -> Bound[K, R] | None:
        match plan:
            case Stored():
                finding, flat = self._finding(plan, columns), self._form.flat
                return lambda run, keys: flat(finding(run, keys))
            case Union(parts=parts):
                return self._bound_union([self.bound(part, columns) for part in parts])
            case Join():
                return self._bound_join(plan, columns)
            case Touched():
                return self._bound_touched(plan, columns)
            case Difference(left=left, right=right) | Intersection(left=left, right=right):
                one, other, apply = (
                    self.bound(left, columns),
                    self.bound(right, columns),
                    self._form.set_operation(plan),
                )
                if one is None or other is None:
                    return None
                return lambda run, keys: apply(one(run, keys), other(run, keys))
        origins = [_origin(plan, column) for column in columns]
        if None in origins:
            known = tuple(column for column, origin in zip(columns, origins, strict=True) if origin is not None)
            return self._partly(plan, columns, known) if known else None
        operation = self._form.unary(plan)
        source = self.bound(plan.inputs()[0], tuple(o for o in origins if o is not None)) if operation else None
        if operation is None or source is None:
            return None
        return lambda run, keys: operation(source(run, keys))

    def _partly(self, plan: Plan, columns: Columns, some: Columns) -> Bound[K, R] | None:
        """Bound by some of the columns, and chosen by all."""
        source = self.bound(plan, some)
        if source is None:
            return None
        part, chosen = self._form.part([columns.index(column) for column in some]), self._form.chosen(columns)
        return lambda run, keys: chosen(source(run, part(keys)), keys)

    def _bound_join(self, plan: Join, columns: Columns) -> Bound[K, R] | None:
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
                found = _bound_joined(source, self._form.part(tuple(places.values())), rest)
                if len(set(places.values())) == len(columns):
                    return found
                chosen = self._form.chosen(columns)
                return lambda run, keys: chosen(found(run, keys), keys)
        return None

    def _bound_touched(self, plan: Touched, columns: Columns) -> Bound[K, R] | None:
        source = self.bound(plan.input, columns)
        kept = self._kept_if_touched(plan) if plan.keys else None
        if source is None or kept is None:
            return None
        return lambda run, keys: kept(run, source(run, keys))

    def _rest(self, plan: Join, *, is_left: bool) -> Callable[[Run, R], R] | None:
        """What joins the rows of one side, which are there, with those of the other side that they lead to."""
        other = plan.right if is_left else plan.left
        pairs, residual = _equal_columns(plan)
        near: dict[int, int] = {}
        for left, right in pairs:
            there, here = (right, left) if is_left else (left, right)
            if near.setdefault(there, here) != here:
                residual = (*residual, pairs[left, right])
        finding = self._index(other, tuple(near))
        if finding is None:
            return None
        test = conjunction(residual) if residual else None
        return self._form.met(Meeting(plan.schema, tuple(near.values()), test, is_left), finding)

    def _index(self, plan: Plan, columns: Columns) -> Finding[K, I] | None:
        """The rows by their keys, at least those that have one of some keys."""
        if columns and isinstance(plan, Stored):
            return self._finding(plan, columns)
        by_key = self._form.index(columns)
        if isinstance(plan, Values):
            index = by_key(self._form.values(plan.rows, plan.schema))
            return lambda run, keys: index
        source = self.bound(plan, columns) if columns and relations_of(plan) else None
        if source is not None:
            return lambda run, keys: by_key(source(run, keys))
        whole = self.closed(plan)
        return None if whole is None else lambda run, keys: by_key(whole(run))

    def _finding(self, leaf: Stored, columns: Columns) -> Finding[K, I]:
        read = self._read.get(leaf.relation, frozenset()) | set(columns)
        needed = None if len(read) == len(leaf.schema) else tuple(sorted(read))
        return self._form.looked_up(leaf, columns, needed)


def _once(name: int, evaluate: Closed[R]) -> Closed[R]:
    """A part that stands in several places is evaluated once in a run."""

    def once(run: Run) -> R:
        if name not in run.known:
            run.known[name] = evaluate(run)
        found: R = run.known[name]
        return found

    return once


def _of_two(apply: Callable[[R, R], R], one: Closed[R] | None, other: Closed[R] | None) -> Closed[R] | None:
    if one is None or other is None:
        return None
    return lambda run: apply(one(run), other(run))


def _joined(first: Closed[R], rest: Callable[[Run, R], R]) -> Closed[R]:
    return lambda run: rest(run, first(run))


def _bound_joined(first: Bound[K, R], part: Callable[[K], K], rest: Callable[[Run, R], R]) -> Bound[K, R]:
    return lambda run, keys: rest(run, first(run, part(keys)))


def keeps_all(expressions: Sequence[Expression], width: int) -> bool:
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
    return any(_chooses(condition) for predicate in chosen for condition in conjuncts(predicate))


def _chooses(condition: Expression) -> bool:
    if not isinstance(condition, Call) or condition.function not in _CHOOSING:
        return False
    return all(isinstance(argument, Literal) for argument in condition.arguments[1:])


def _names_constants(predicate: Expression) -> bool:
    """Whether it says of a column, and not of what is computed, which values it has."""
    return any(_chooses(part) and isinstance(part.children()[0], Column) for part in conjuncts(predicate))


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
