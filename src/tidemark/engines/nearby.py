"""Nearby: of each stored relation in a differential only the rows that the delta can meet.

    ΔQ ⋈ R  =  ΔQ ⋈ (R ⋉ π[a](ΔQ))          if the join asks for Q.a = R.b

and what is found of R leads on to the next relation in the same way. A differential of a small delta so becomes a plan
over small relations, each found by one look-up; whoever asks for the same rows again (another view, another term) is
given them again. The same holds for a restriction to touched keys.

A relation that no plain equality leads to, or of which too many rows would come, stays in the plan as it is: leaving
rows out that meet nothing is all that is done here, so any part of it may be left undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

import pyarrow as pa

from tidemark.algebra.derived import PerPlan
from tidemark.algebra.expressions import Call, Column, Expression, conjuncts
from tidemark.algebra.plans import Filter, Given, Join, Negate, Net, Plan, Project, Repeat, Stored, Touched, Union
from tidemark.algebra.reading import Columns, columns_read
from tidemark.engines.rows import Rows

MOST_ROWS: Final = 50_000
"""A delta of more rows is left to one statement, and so is a relation of which more would be found."""
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
    all: the others may be left NULL.
    """

    relation: Stored
    columns: tuple[int, ...]
    sources: tuple[tuple[Rows, tuple[int, ...]], ...]
    needed: tuple[int, ...] | None = None


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
    surroundings = _surroundings(plan)
    rows = {
        leaf.name: Rows(leaf.schema, table=given[leaf.name]) for leaf in surroundings.leaves if isinstance(leaf, Given)
    }
    if not surroundings.links or any(delta.count > MOST_ROWS for delta in rows.values()):
        return plan, rows
    asked = {name: given.get(whole_name(name)) for name in rows}
    wholes = {name: Rows(rows[name].schema, table=whole) for name, whole in asked.items() if whole is not None}
    search = _Search(surroundings, {**rows, **wholes}, frozenset(wholes), lookup)
    search.run()
    rows.update((_near_name(leaf), found) for leaf, found in search.found.items())
    return surroundings.rebuilt(frozenset(search.found), frozenset(search.settled)), rows


def out_of_reach(plan: Plan) -> frozenset[str]:
    """The stored relations of a plan that no equality leads to from its deltas: whatever they are, all of them is
    read."""
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
        self._waiting = list(surroundings.links)
        self.found: dict[int, Rows] = {}
        self.settled: set[int] = set()
        """The leaves whose rows satisfy the restriction above them already."""

    def run(self) -> None:
        while links := self._next():
            question = self._question(links)
            answer = self._lookup(question) if question is not None else None
            if question is None or answer is None:
                continue
            for link in links:
                self._near[link.far] = self.found[link.far] = answer
            if len(links) == 1 and self._says_all(links[0], question):
                self.settled.add(links[0].far)

    def _says_all(self, link: Link, question: Question) -> bool:
        """Whether what was asked is all that the restriction asks. Where the question was asked for all of a delta, the
        restriction to the part that is read remains."""
        is_part = any(number in self._wholes for number, _ in link.near)
        return link.is_all and question.columns == link.columns and not is_part

    def _next(self) -> list[Link]:
        """The links to follow now: those that can be, and ask the same of the same relation.

        Links whose start is not reached yet may come to ask it too. Those are waited for, if there is other work.
        """
        self._waiting = [link for link in self._waiting if link.far not in self._near]
        open_ = [link for link in self._waiting if all(number in self._near for number, _ in link.near)]
        if not open_:
            return []
        closed = {self._asks(link) for link in self._waiting if link not in open_}
        chosen = next((self._asks(link) for link in open_ if self._asks(link) not in closed), self._asks(open_[0]))
        links = [link for link in open_ if self._asks(link) == chosen]
        self._waiting = [link for link in self._waiting if link not in links]
        return links

    def _asks(self, link: Link) -> tuple[str, tuple[int, ...], bool]:
        relation = self._surroundings.leaves[link.far]
        assert isinstance(relation, Stored)
        return relation.relation, link.columns, link.matches_null

    def _question(self, links: list[Link]) -> Question | None:
        """None if the links cannot be followed, because NULL would have to match NULL in every column."""
        far = links[0].far
        sources = [(self._near[number], columns) for link in links for number, columns in link.near]
        kept = list(range(len(links[0].columns)))
        if links[0].matches_null:
            kept = [i for i in kept if not any(rows.has_null(columns[i]) for rows, columns in sources)]
        if not kept:
            return None
        relation = self._surroundings.leaves[far]
        assert isinstance(relation, Stored)
        once = {(id(rows), columns): (rows, tuple(columns[i] for i in kept)) for rows, columns in sources}
        columns = tuple(links[0].columns[i] for i in kept)
        return Question(relation, columns, tuple(once.values()), self._surroundings.needed(far))


@dataclass
class _Surroundings:
    """The leaves of a plan in order, and the links between them."""

    plan: Plan
    leaves: list[Plan] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
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
        self._link(pairs)

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
