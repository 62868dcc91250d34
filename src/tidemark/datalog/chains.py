"""One rule, evaluated set at a time in one chain: it begins at one atom and takes the others where they are bound.

The next atom is the first that shares a variable with what is bound, in the order of the body; in maintenance rules the
change stands first there, which is small. Conditions stand as early as their variables allow, those
that can fail and negations after all atoms. An assignment that can fail comes early only if an atom needs its variable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from tidemark.algebra.clauses import Argument, Assign, Atom, Condition, Const, DatalogRule, Not, Part, Var
from tidemark.algebra.expressions import Column, Expression, Value, transform
from tidemark.algebra.scalar import Row, can_fail, value_of
from tidemark.datalog.relations import Positions, Relation, cells_at, cells_of_all

Bindings = Collection[Row]
Hop = Callable[[Bindings, Mapping[str, Relation]], Bindings]
KeysOf = Callable[[Bindings], Iterable[Row]]


def ordered_parts(rule: DatalogRule, start: int) -> tuple[Part, ...]:
    """The parts of the body in the order of the chain that begins at one atom; at -1, there is no atom."""
    atoms = list(enumerate(rule.atoms))
    waiting: list[Part] = [part for part in rule.body if not isinstance(part, Atom)]
    ordered: list[Part] = []
    bound: set[int] = set()

    def settle(kind: type | None = None) -> None:
        """Place what is bound: what may stand early, or after all atoms the parts of one kind."""
        progress = True
        while progress:
            progress = False
            for part in list(waiting):
                fits = _early(part, [a for _, a in atoms]) if kind is None else isinstance(part, kind)
                if fits and _inputs(part) <= bound:
                    waiting.remove(part)
                    ordered.append(part)
                    bound.update(part.variables)
                    progress = True

    if start >= 0:
        first = atoms.pop(start)
        ordered.append(first[1])
        bound |= first[1].variables
    settle()
    while atoms:
        chosen = next((pair for pair in atoms if not pair[1].variables or pair[1].variables & bound), atoms[0])
        atoms.remove(chosen)
        ordered.append(chosen[1])
        bound |= chosen[1].variables
        settle()
    for kind in (Not, Assign, Not, Condition):
        settle(kind)
    assert not waiting, f"a part of {rule} is never bound"
    return tuple(ordered)


def _inputs(part: Part) -> frozenset[int]:
    return part.variables - {part.variable.index} if isinstance(part, Assign) else part.variables


def _early(part: Part, atoms: list[Atom]) -> bool:
    """Whether the part may stand before the atoms that are still to come."""
    match part:
        case Condition(expression=expression):
            return not can_fail(expression)
        case Assign(expression=expression, variable=variable):
            return not can_fail(expression) or any(variable.index in atom.variables for atom in atoms)
    return False


@dataclass(frozen=True)
class Chain:
    """A rule ready to be evaluated from one of its atoms. There is no ``head`` if the last bindings are what it
    gives."""

    steps: tuple[Hop, ...]
    head: Callable[[Row], Row] | None
    begin: Callable[[Iterable[Row]], Bindings]

    def derive(self, rows: Iterable[Row], relations: Mapping[str, Relation]) -> set[Row]:
        """What the rule derives when the first atom is one of ``rows`` and all others are as they stand."""
        bindings = self.begin(rows)
        for step in self.steps:
            if not bindings:
                return set()
            bindings = step(bindings, relations)
        return set(bindings if self.head is None else map(self.head, bindings))


def chain_of(rule: DatalogRule, start: int) -> Chain:
    """The chain of a rule that begins at its atom number ``start``; without atoms it begins at -1, an empty row.

    Chains are kept by the rule's identity: the rules of a view come back with every transaction.
    """
    kept = _KEPT.get((id(rule), start))
    if kept is None:
        if len(_KEPT) >= MOST_KEPT:
            _KEPT.clear()
        # The rule is kept too, so that its identity cannot be taken by another one.
        kept = _KEPT[id(rule), start] = (rule, _compiled(rule, start))
    return kept[1]


MOST_KEPT = 4096
_KEPT: dict[tuple[int, int], tuple[DatalogRule, Chain]] = {}


def _compiled(rule: DatalogRule, start: int) -> Chain:
    parts = ordered_parts(rule, start)
    later = [frozenset[int]()] * (len(parts) + 1)
    later[-1] = rule.head.variables
    for place in range(len(parts) - 1, -1, -1):
        later[place] = later[place + 1] | parts[place].variables
    layout: tuple[int, ...] = ()
    steps: list[Hop] = []
    begin: Callable[[Iterable[Row]], Bindings] = list
    for place, part in enumerate(parts):
        needed = later[place + 1]
        if place == 0 and isinstance(part, Atom) and start >= 0:
            begin, layout = _beginning(part, needed)
            continue
        step, layout = _step(part, layout, needed)
        steps.append(step)
    return Chain(tuple(steps), _picker(rule.head, layout), begin)


def _beginning(atom: Atom, needed: frozenset[int]) -> tuple[Callable[[Iterable[Row]], Bindings], tuple[int, ...]]:
    constants, new, equal = _positions(atom, ())[1:]
    kept = tuple(index for index in new if index in needed)
    positions = tuple(new[index] for index in kept)
    is_whole, cells = positions == tuple(range(len(atom.arguments))), cells_at(positions)

    def begin(rows: Iterable[Row]) -> Bindings:
        if constants or equal:
            rows = (
                row
                for row in rows
                if all(row[p] == v for p, v in constants) and all(row[p] == row[q] for p, q in equal)
            )
        return list(rows) if is_whole else set(map(cells, rows))

    return begin, kept


def _positions(
    atom: Atom, layout: tuple[int, ...]
) -> tuple[list[tuple[int, int]], list[tuple[int, Value]], dict[int, int], list[tuple[int, int]]]:
    """Of an atom's positions: those bound (with their places in the layout), constant, new, and equal to a new one."""
    bound: list[tuple[int, int]] = []
    constants: list[tuple[int, Value]] = []
    new: dict[int, int] = {}
    equal: list[tuple[int, int]] = []
    for position, argument in enumerate(atom.arguments):
        match argument:
            case Const(literal=literal):
                constants.append((position, literal.value))
            case Var(index=index) if index in layout:
                bound.append((position, layout.index(index)))
            case Var(index=index) if index in new:
                equal.append((position, new[index]))
            case Var(index=index):
                new[index] = position
            case _:
                pass
    return bound, constants, new, equal


def _step(part: Part, layout: tuple[int, ...], needed: frozenset[int]) -> tuple[Hop, tuple[int, ...]]:
    match part:
        case Atom():
            return _join(part, layout, needed)
        case Not():
            return _anti_join(part, layout), layout
        case Condition(expression=expression):
            return _filter(_placed(expression, layout)), layout
        case Assign(variable=variable, expression=expression):
            return _assignment(variable.index, _placed(expression, layout), layout)


def _keys(atom: Atom, layout: tuple[int, ...]) -> tuple[Positions, KeysOf]:
    """The positions of an atom that are known before it, and how their values come from bindings."""
    bound, constants, _, _ = _positions(atom, layout)
    values, places = dict(constants), dict(bound)
    positions = tuple(sorted([*values, *places]))
    if not values:
        bound_places = tuple(places[position] for position in positions)
        if bound_places == tuple(range(len(layout))):
            return positions, lambda bindings: bindings
        return positions, lambda bindings: cells_of_all(bindings, bound_places)

    def key(binding: Row) -> Row:
        return tuple(values[p] if p in values else binding[places[p]] for p in positions)

    return positions, lambda bindings: map(key, bindings)


def _join(atom: Atom, layout: tuple[int, ...], needed: frozenset[int]) -> tuple[Hop, tuple[int, ...]]:
    positions, keys_of = _keys(atom, layout)
    _, _, new, equal = _positions(atom, layout)
    old_kept = tuple(place for place, index in enumerate(layout) if index in needed)
    new_kept = tuple(index for index in new if index in needed)
    after = tuple(layout[place] for place in old_kept) + new_kept
    if not new_kept and not equal:
        return _semijoin(atom, positions, keys_of, None if after == layout else cells_at(old_kept)), after
    new_cells = cells_at(tuple(new[index] for index in new_kept))

    def join(bindings: Bindings, relations: Mapping[str, Relation]) -> Bindings:
        groups = defaultdict[Row, list[Row]](list)
        for one, kept_of_it in zip(keys_of(bindings), cells_of_all(bindings, old_kept), strict=True):
            groups[one].append(kept_of_it)
        found = relations[atom.predicate].by_key(positions, groups.keys())
        there = [(rows, kept) for one, kept in groups.items() if (rows := found.get(one))]
        if equal:
            there = [([row for row in rows if all(row[p] == row[q] for p, q in equal)], kept) for rows, kept in there]
        if not old_kept:
            return {new_cells(row) for rows, _ in there for row in rows}
        return {one + added for rows, kept in there for added in map(new_cells, rows) for one in kept}

    return join, after


def _semijoin(atom: Atom, positions: Positions, keys_of: KeysOf, cells: Callable[[Row], Row] | None) -> Hop:
    """The bindings, or some cells of them, for which there is a row."""

    def semijoin(bindings: Bindings, relations: Mapping[str, Relation]) -> Bindings:
        keys = list(keys_of(bindings))
        there = relations[atom.predicate].holding(positions, set(keys))
        if not there:
            return ()
        kept = [binding for one, binding in zip(keys, bindings, strict=True) if one in there]
        return kept if cells is None else set(map(cells, kept))

    return semijoin


def _anti_join(negation: Not, layout: tuple[int, ...]) -> Hop:
    positions, keys_of = _keys(negation.atom, layout)

    def anti_join(bindings: Bindings, relations: Mapping[str, Relation]) -> Bindings:
        keys = list(keys_of(bindings))
        asked = {one for one in keys if None not in one} if negation.strict else set(keys)
        found = relations[negation.atom.predicate].holding(positions, asked)
        if not found:
            return bindings
        return [binding for one, binding in zip(keys, bindings, strict=True) if one not in found]

    return anti_join


def _filter(expression: Expression) -> Hop:
    return lambda bindings, _: [binding for binding in bindings if value_of(expression, binding) is True]


def _assignment(index: int, expression: Expression, layout: tuple[int, ...]) -> tuple[Hop, tuple[int, ...]]:
    if index in layout:
        place = layout.index(index)
        return lambda bindings, _: [b for b in bindings if b[place] == value_of(expression, b)], layout
    return lambda bindings, _: [(*b, value_of(expression, b)) for b in bindings], (*layout, index)


def _placed(expression: Expression, layout: tuple[int, ...]) -> Expression:
    """The expression over a binding instead of over the rule's variables."""
    return transform(expression, lambda e: replace(e, index=layout.index(e.index)) if isinstance(e, Column) else None)


def _picker(head: Atom, layout: tuple[int, ...]) -> Callable[[Row], Row] | None:
    cells = [(layout.index(a.index), None) if isinstance(a, Var) else (-1, _constant(a)) for a in head.arguments]
    if all(place >= 0 for place, _ in cells):
        places = tuple(place for place, _ in cells)
        return None if places == tuple(range(len(layout))) else cells_at(places)
    return lambda binding: tuple(binding[place] if place >= 0 else value for place, value in cells)


def _constant(argument: Argument) -> Value:
    assert isinstance(argument, Const), "a head has variables and constants"
    return argument.literal.value
