"""Nearby: of each stored relation in a differential only the rows that the delta can meet.

    ΔQ ⋈ R  =  ΔQ ⋈ (R ⋉ π[a](ΔQ))          if the join asks for Q.a = R.b

and what is found of R leads on to the next relation in the same way. A differential of a small delta so becomes a plan
over small relations, each found by one look-up; whoever asks for the same rows again (another view, another term) is
given them again. The same holds for a restriction to touched keys.

A relation that no plain equality leads to, or of which too many rows would come, stays in the plan as it is: leaving
rows out that meet nothing is all that is done here, so any part of it may be left undone.

Answers from memory, for every engine: the rows of a stored relation that have some keys, if they are arranged.

Compiled steps and the rules of recursion ask with a few keys and want the rows of each, or with columns and want
columns; what goes to a statement asks with all that a delta leads to, and wants the rows together.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Final, TypeVar

import pyarrow as pa

from tidemark.algebra.cache import PerPlan, tree_size
from tidemark.algebra.columns import Columns, columns_read
from tidemark.algebra.expressions import Call, Column, Expression, Literal, Value, conjuncts
from tidemark.algebra.plans import Filter, Given, Join, Negate, Net, Plan, Project, Repeat, Stored, Touched, Union, walk
from tidemark.algebra.types import Schema, Type
from tidemark.engines.engine import Columns as Positions
from tidemark.engines.engine import Index, Keys
from tidemark.engines.limits import PROCESS
from tidemark.storage.arrangements import Arrangement, Arrangements
from tidemark.storage.batches import Batch, Numbers, Vector
from tidemark.storage.delta import Rows
from tidemark.storage.whole import Whole

MOST_PARTS: Final = 300_000
"""A plan of more parts, as often as they stand in it, is not looked through."""
MOST_CONSTANTS: Final = 2_000
"""So many keys of constants are looked up; each is put together from the constants of its columns."""
Origin = tuple[tuple[int, int], ...] | None
"""Where a column's values come from: for each leaf that may give them, its number and its column. None: computed."""


Leaf = TypeVar("Leaf", Stored, Given)


@dataclass(frozen=True)
class Link:
    """Rows of the far leaf only count if they have, in these columns, the values of a row of one of the near leaves.

    In a restriction to touched keys NULL matches NULL, in a join it does not. ``is_all`` marks a link that says all
    that a restriction says, so that the rows it leads to need not be restricted again.
    """

    far: int
    columns: tuple[int, ...]
    near: tuple[tuple[int, tuple[int, ...]], ...]
    matches_null: bool = False
    is_all: bool = False


@dataclass(frozen=True)
class Question:
    """Which rows of a stored relation have, in these columns, the values that some row of a source has in its own?

    Sources may hold more than they need to; so may the answer. ``needed`` has the columns that must be filled, if not
    all: the others may be left NULL. If the values are constants of the plan, a statement finds the rows as quickly as
    a look-up by one would, so that it ``is_constant`` asks for an answer from memory.
    """

    relation: Stored
    columns: tuple[int, ...]
    sources: tuple[tuple[Rows, tuple[int, ...]], ...]
    needed: tuple[int, ...] | None = None
    is_constant: bool = False

    def by(self, columns: tuple[int, ...]) -> Question:
        """The same by fewer columns, which asks for more rows."""
        if columns == self.columns:
            return self
        places = [self.columns.index(column) for column in columns]
        sources = tuple((rows, tuple(near[place] for place in places)) for rows, near in self.sources)
        return replace(self, columns=columns, sources=sources)


Lookup = Callable[[Question], Rows | None]
"""Answers a question, with None if there would be too many rows."""


def whole_name(given: str) -> str:
    """The name under which all of a delta may be given of which the plan reads a part.

    What a part meets is among what all of it meets, so the question is asked for all of it: then others who read it,
    or another part of it, need not ask again.
    """
    return f"whole {given}"


def near(plan: Plan, given: Mapping[str, pa.Table], lookup: Lookup) -> tuple[Plan, dict[str, Rows]]:
    """The same plan over what is near its deltas, as far as they lead; and the rows that it needs given."""
    if tree_size(plan) > MOST_PARTS:
        return plan, {p.name: Rows(p.schema, table=given[p.name]) for p in walk(plan) if isinstance(p, Given)}
    surroundings = _surroundings(plan)
    rows = {leaf.name: Rows.of(given[leaf.name]) for leaf in surroundings.leaves if isinstance(leaf, Given)}
    has_ways = surroundings.links or surroundings.constants
    if not has_ways or any(delta.count > PROCESS.most_looked_up for delta in rows.values()):
        return plan, rows
    asked = {name: given.get(whole_name(name)) for name in rows}
    wholes = {name: Rows.of(whole) for name, whole in asked.items() if whole is not None}
    search = _Search(surroundings, {**rows, **wholes}, frozenset(wholes), lookup)
    search.run()
    search.run_constants()
    rows.update((_near_name(leaf), found) for leaf, found in search.found.items())
    return surroundings.rebuilt(frozenset(search.found), frozenset(search.settled)), rows


def out_of_reach(plan: Plan) -> frozenset[str]:
    """The stored relations of a plan that no equality leads to from its deltas: whatever they are, all of them is
    read."""
    if tree_size(plan) > MOST_PARTS:
        return frozenset(part.relation for part in walk(plan) if isinstance(part, Stored))
    surroundings = _surroundings(plan)
    reached = {number for number, leaf in enumerate(surroundings.leaves) if isinstance(leaf, Given)}
    while more := {
        link.far
        for link in surroundings.links
        if link.far not in reached and all(number in reached for number, _ in link.near)
    }:
        reached |= more
    leaves = enumerate(surroundings.leaves)
    return frozenset(leaf.relation for i, leaf in leaves if isinstance(leaf, Stored) and i not in reached)


class _Search:
    """Follows the links of a plan from its deltas, and collects what it finds."""

    def __init__(
        self, surroundings: _Surroundings, given: Mapping[str, Rows], wholes: frozenset[str], lookup: Lookup
    ) -> None:
        self._surroundings, self._lookup = surroundings, lookup
        deltas = {number: leaf.name for number, leaf in enumerate(surroundings.leaves) if isinstance(leaf, Given)}
        self._near = {number: given[name] for number, name in deltas.items()}
        self._wholes = {number for number, name in deltas.items() if name in wholes}
        self._links = _Waiting(surroundings, self._near)
        self.found: dict[int, Rows] = {}
        self.settled: set[int] = set()
        """The leaves whose rows satisfy the restriction above them already."""

    def run(self) -> None:
        while links := self._links.next():
            question = self._question(links)
            answer = self._lookup(question) if question is not None else None
            if question is None or answer is None:
                continue
            for link in links:
                self._near[link.far] = self.found[link.far] = answer
                self._links.reached(link.far)
            if len(links) == 1 and self._says_all(links[0], question):
                self.settled.add(links[0].far)

    def run_constants(self) -> None:
        """Find what has constants in some columns, if with it everything is found: then no statement is needed."""
        settled, found = set(self.settled), dict(self.found)
        constants, leaves = self._surroundings.constants, self._surroundings.leaves
        missing = {i for i, leaf in enumerate(leaves) if isinstance(leaf, Stored) and i not in self.found}
        for number in sorted(missing & constants.keys()):
            question = self._constant_question(number) if number not in self.found else None
            answer = None if question is None else self._lookup(question)
            if answer is not None:
                self._near[number] = self.found[number] = answer
                self._links.reached(number)
                self.run()
        if not missing <= self.found.keys():
            self.found, self.settled = found, settled

    def _constant_question(self, number: int) -> Question | None:
        """None if there are too many keys."""
        relation, constants = self._surroundings.leaves[number], self._surroundings.constants[number]
        assert isinstance(relation, Stored)
        columns = tuple(sorted(constants))
        if prod(len(constants[column]) for column in columns) > MOST_CONSTANTS:
            return None
        schema = Schema(tuple(relation.schema[column] for column in columns))
        source = Rows(schema, bag=dict.fromkeys(product(*(constants[column] for column in columns)), 1))
        needed = self._surroundings.needed(number)
        return Question(relation, columns, ((source, tuple(range(len(columns)))),), needed, is_constant=True)

    def _says_all(self, link: Link, question: Question) -> bool:
        """Whether what was asked is all that the restriction asks. Where the question was asked for all of a delta, the
        restriction to the part that is read remains."""
        is_part = any(number in self._wholes for number, _ in link.near)
        return link.is_all and question.columns == link.columns and not is_part

    def _question(self, links: list[Link]) -> Question | None:
        """None if the links cannot be followed, because NULL would have to match NULL in every column."""
        far = links[0].far
        sources = [(self._near[number], columns) for link in links for number, columns in link.near]
        kept = list(range(len(links[0].columns)))
        if links[0].matches_null:
            kept = [i for i in kept if not any(rows.has_null((columns[i],)) for rows, columns in sources)]
        if not kept:
            return None
        relation = self._surroundings.leaves[far]
        assert isinstance(relation, Stored)
        once = {(id(rows), columns): (rows, tuple(columns[i] for i in kept)) for rows, columns in sources}
        columns = tuple(links[0].columns[i] for i in kept)
        return Question(relation, columns, tuple(once.values()), self._surroundings.needed(far))


Asked = tuple[str, tuple[int, ...], bool]


class _Waiting:
    """The links that are still to be followed, by what they ask. Each is looked at when something that it waits for is
    reached, and not before: of many copies of a relation there are many links."""

    def __init__(self, surroundings: _Surroundings, reached: Collection[int]) -> None:
        self._surroundings = surroundings
        self._links = [link for link in surroundings.links if link.far not in reached]
        self._reached = set(reached)
        self._missing: list[int] = []
        self._from: dict[int, list[int]] = {}
        self._open: dict[Asked, list[int]] = {}
        self._closed: dict[Asked, dict[int, None]] = {}
        for place, link in enumerate(self._links):
            missing = {number for number, _ in link.near if number not in self._reached}
            self._missing.append(len(missing))
            for number in (*missing, link.far):
                self._from.setdefault(number, []).append(place)
            asked = self._asks(link)
            if missing:
                self._closed.setdefault(asked, {})[place] = None
            else:
                self._open.setdefault(asked, []).append(place)

    def reached(self, number: int) -> None:
        """A leaf is reached: links to it are not followed any more, and those from it may be."""
        if number in self._reached:
            return
        self._reached.add(number)
        for place in self._from.pop(number, ()):
            link = self._links[place]
            closed = self._closed.get(self._asks(link), {})
            if link.far == number:
                closed.pop(place, None)
                continue
            self._missing[place] -= 1
            if not self._missing[place] and place in closed:
                del closed[place]
                insort(self._open.setdefault(self._asks(link), []), place)

    def next(self) -> list[Link]:
        """The links to follow now: those that can be, and ask the same of the same relation.

        Links whose start is not reached yet may come to ask it too. Those are waited for, if there is other work.
        """
        for asked, places in tuple(self._open.items()):
            self._open[asked] = [place for place in places if self._links[place].far not in self._reached]
            if not self._open[asked]:
                del self._open[asked]
        if not self._open:
            return []
        first = sorted(self._open, key=lambda asked: self._open[asked][0])
        chosen = next((asked for asked in first if not self._closed.get(asked)), first[0])
        return [self._links[place] for place in self._open.pop(chosen)]

    def _asks(self, link: Link) -> Asked:
        relation = self._surroundings.leaves[link.far]
        assert isinstance(relation, Stored)
        return relation.relation, link.columns, link.matches_null


@dataclass
class _Surroundings:
    """The leaves of a plan in order, and the links between them."""

    plan: Plan
    leaves: list[Plan] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    constants: dict[int, dict[int, tuple[Value, ...]]] = field(default_factory=dict)
    """By leaf that is stored, the values of which its columns must have one each."""
    _rebuilt: dict[tuple[frozenset[int], frozenset[int]], Plan] = field(default_factory=dict)

    def needed(self, leaf: int) -> tuple[int, ...] | None:
        """The columns of a relation that matter to the plan; None if all do."""
        relation = self.leaves[leaf]
        assert isinstance(relation, Stored)
        columns = self._read[relation.relation]
        return None if len(columns) == len(relation.schema) else tuple(sorted(columns))

    @cached_property
    def _read(self) -> dict[str, Columns]:
        return columns_read(self.plan, named={leaf: leaf.relation for leaf in self.leaves if isinstance(leaf, Stored)})

    def rebuilt(self, found: frozenset[int], settled: frozenset[int]) -> Plan:
        """The plan with what was found instead of the leaves, and without restrictions that are settled."""
        key = (found, settled)
        if not found:
            return self.plan
        if key not in self._rebuilt:
            self._rebuilt[key] = _with_found(self.plan, found, settled, iter(range(len(self.leaves))))
        return self._rebuilt[key]

    def trace(self, plan: Plan) -> tuple[Origin, ...]:
        """Number the leaves, collect the links, and say where the columns come from."""
        match plan:
            case Stored() | Given():
                self.leaves.append(plan)
                number = len(self.leaves) - 1
                return tuple(((number, column),) for column in range(len(plan.schema)))
            case Filter(input=source, predicate=predicate):
                origins = self.trace(source)
                self._link_equal(origins, predicate)
                return origins
            case Join(left=left, right=right, predicate=predicate):
                origins = self.trace(left) + self.trace(right)
                self._link_equal(origins, predicate)
                return origins
            case Negate(input=source) | Repeat(input=source) | Net(input=source):
                return self.trace(source)
            case Project(input=source, expressions=expressions):
                origins = self.trace(source)
                return tuple(origins[e.index] if isinstance(e, Column) else None for e in expressions)
            case Union(parts=parts):
                return tuple(_either(origins) for origins in zip(*map(self.trace, parts), strict=True))
            case Touched(input=source, touched=touched, keys=keys):
                origins = self.trace(source)
                wanted = self.trace(touched)
                is_bare = _bare(source, Stored) is not None and _bare(touched, Given) is not None
                self._link([(wanted[i], origins[key]) for i, key in enumerate(keys)], all_of=keys if is_bare else ())
                return origins
        for child in plan.inputs():
            self.trace(child)
        return (None,) * len(plan.schema)

    def _link_equal(self, origins: tuple[Origin, ...], predicate: Expression) -> None:
        pairs: list[tuple[Origin, Origin]] = []
        for condition in conjuncts(predicate):
            match condition:
                case Call(function="eq", arguments=(Column(index=a, type=one), Column(index=b, type=other))):
                    if one == other:
                        pairs += [(origins[a], origins[b]), (origins[b], origins[a])]
                case Call(function="eq" | "in_list", arguments=(Column(index=a, type=type_), *others)):
                    self._hold(origins[a], type_, others)
                case Call(function="eq", arguments=(other, Column(index=a, type=type_))):
                    self._hold(origins[a], type_, [other])
        self._link(pairs)

    def _hold(self, origin: Origin, type_: Type, others: list[Expression]) -> None:
        """A column has one of these values, if they are constants of its type. NULL is none that equals anything."""
        values = [other.value for other in others if isinstance(other, Literal) and other.type == type_]
        if len(values) < len(others):
            return
        for leaf, column in origin or ():
            if isinstance(self.leaves[leaf], Stored):
                known = self.constants.setdefault(leaf, {})
                known.setdefault(column, tuple(value for value in values if value is not None))

    def _link(self, pairs: list[tuple[Origin, Origin]], all_of: tuple[int, ...] | None = None) -> None:
        """Links along equal columns, those between the same leaves together. ``all_of`` has a restriction's keys."""
        together: dict[tuple[int, tuple[int, ...]], list[tuple[int, tuple[int, ...]]]] = {}
        for start, end in pairs:
            if start is None or end is None:
                continue
            numbers = tuple(number for number, _ in start)
            for far, column in end:
                if far not in numbers and isinstance(self.leaves[far], Stored):
                    together.setdefault((far, numbers), []).append((column, tuple(c for _, c in start)))
        for (far, numbers), columns in together.items():
            near_columns = zip(numbers, zip(*(starts for _, starts in columns), strict=True), strict=True)
            is_all = bool(all_of) and len(columns) == len(all_of or ())
            link = Link(far, tuple(c for c, _ in columns), tuple(near_columns), all_of is not None, is_all)
            self.links.append(link)


def _surroundings_of(plan: Plan) -> _Surroundings:
    surroundings = _Surroundings(plan)
    surroundings.trace(plan)
    return surroundings


_surroundings = PerPlan(_surroundings_of)


def _with_found(plan: Plan, found: frozenset[int], settled: frozenset[int], numbers: Iterator[int]) -> Plan:
    match plan:
        case Stored() | Given():
            number = next(numbers)
            return Given(_near_name(number), plan.schema) if number in found else plan
        case Touched(input=source, touched=touched):
            restricted = _with_found(source, found, settled, numbers)
            keys = _with_found(touched, found, settled, numbers)
            leaf = _bare(restricted, Given)
            is_settled = leaf is not None and leaf.name in {_near_name(number) for number in settled}
            return restricted if is_settled else plan.with_inputs((restricted, keys))
    inputs = plan.inputs()
    return plan.with_inputs(tuple(_with_found(child, found, settled, numbers) for child in inputs)) if inputs else plan


def _bare(plan: Plan, kind: type[Leaf]) -> Leaf | None:
    """The leaf, if the plan is nothing but a leaf of this kind or some columns of one."""
    if isinstance(plan, Project) and all(isinstance(expression, Column) for expression in plan.expressions):
        plan = plan.input
    return plan if isinstance(plan, kind) else None


def _either(origins: tuple[Origin, ...]) -> Origin:
    """The origin of a union's column: the leaf of each part, if all are known and different."""
    together: list[tuple[int, int]] = []
    for origin in origins:
        if origin is None:
            return None
        together += origin
    return tuple(together)


def _near_name(leaf: int) -> str:
    return f"near {leaf}"


# What is arranged


class StoredRows(Rows):
    """Rows of a stored relation."""


def arranged_by_key(
    arrangements: Arrangements, leaf: Stored, columns: Positions, keys: Keys, needed: Positions | None, most: int
) -> Index | None:
    """The rows of each key that has some; None if they are not arranged, or one key has more entries than ``most``."""
    held = _serving(arrangements, leaf, columns, needed, len(keys))
    return None if held is None else held.matching(columns, keys, most)


def arranged_columns(
    arrangements: Arrangements, leaf: Stored, columns: Positions, keys: Sequence[Vector], needed: Positions | None
) -> tuple[Batch, Numbers | None] | None:
    """The same for many keys, given by column: the rows as columns, too."""
    held = _serving(arrangements, leaf, columns, needed, len(keys[0]) if keys else 1)
    return None if held is None else held.matching_batch(columns, keys, PROCESS.many_met)


def arranged_rows(arrangements: Arrangements, question: Question) -> StoredRows | None:
    """The rows that a question asks for; None if they are not arranged, or are too many."""
    relation, size = question.relation.relation, size_of(question)
    if question.is_constant:
        question = question.by(arrangements.narrower(relation, question.columns))
    held = _serving(arrangements, question.relation, question.columns, question.needed, size)
    if held is None:
        return None
    schema = question.relation.schema
    if size <= PROCESS.few_keys:
        found = held.matching(question.columns, few_keys(question), PROCESS.met_by_few)
        if found is not None:
            return StoredRows(schema, bag={row: times for rows in found.values() for row, times in rows.items()})
    table = held.matching_table(question.columns, key_values(question), PROCESS.most_looked_up)
    if table is None:
        arrangements.in_vain(relation, question.columns)
        return None
    return StoredRows(schema, table=table)


def _serving(
    arrangements: Arrangements, leaf: Stored, columns: Positions, needed: Positions | None, keys: int
) -> Arrangement | Whole | None:
    """The arrangement that answers, if it has the columns that the relation has where it is read."""
    held = arrangements.serving(leaf.relation, columns, needed, keys)
    return held if held is not None and len(held.schema) == len(leaf.schema) else None


def size_of(question: Question) -> int:
    """How many rows may have a key that is looked for."""
    return sum(rows.count for rows, _ in question.sources)


def few_keys(question: Question) -> list[tuple[Value, ...]]:
    """The different keys of a few rows. Keys with NULL equal nothing and are left out."""
    keys = dict.fromkeys(tuple(row[c] for c in columns) for rows, columns in question.sources for row in rows.bag)
    return [key for key in keys if None not in key]


def columns_of_keys(question: Question, keys: Sequence[tuple[Value, ...]]) -> list[pa.ChunkedArray]:
    types = (question.relation.schema[column].type.arrow for column in question.columns)
    return [pa.chunked_array([pa.array(column, t)]) for column, t in zip(zip(*keys, strict=True), types, strict=True)]


def key_values(question: Question) -> list[pa.ChunkedArray]:
    """The values that are looked up, by column. Keys with NULL equal nothing and are left out."""
    parts = [rows.table.select(list(columns)) for rows, columns in question.sources]
    names = [str(i) for i in range(len(question.columns))]
    return list(pa.concat_tables([part.rename_columns(names) for part in parts]).drop_null().columns)
