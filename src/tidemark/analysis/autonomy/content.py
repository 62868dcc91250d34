"""Conditionally autonomous statements: Theorems 4.4 and 4.5, for views of a few rows, whose content is looked at.

Each row e of the view stands for at least one combination of base rows, its *components*, for which C holds. Visible
columns of a component are known, the others are unknowns; components of a relation whose key can be seen are the same
row if they agree in it. Of these unknowns two things are known:

    C holds for the components of each row of the view
    C does not hold for components of different rows, put together, whose row is not in the view

The text assumes more, that C holds for recombined components whose row is in the view. But other rows of the base may
stand behind that row. It is so if these are the components of the row itself, which their keys tell; and then it is
the first of the two. That keys can be seen is not enough: a key that C computes from visible columns (k + 1 = c) need
not be the one that the recombined row would have, and assuming C for it would prove anything.

A statement is decided if what is known decides it, whatever the unknowns are (Lemmas 1 to 4). All combinations behind
one row of the view satisfy what is proved for one of them, since any of them could have been taken; so a row stays or
goes with its whole weight. What an insertion adds is complete if it is *covered*: every base row that could join the
new one would already join something that is there, and so is seen in the view (Definition 4.8). Here it is asked for
each relation by itself, so hidden columns in C need a key if more than one relation is joined. The weights of rows
that come are known if every other relation shows its key: then each is one combination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final

from tidemark.algebra.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    Value,
    columns_of,
    conjunction,
    substitute,
)
from tidemark.algebra.keys import RelationKeys
from tidemark.algebra.plans import Scan
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import BOOLEAN, Field
from tidemark.analysis.autonomy.dml import Deletion, stored_part
from tidemark.analysis.autonomy.stored import Kept
from tidemark.analysis.autonomy.terms import NotLinear, Term
from tidemark.analysis.autonomy.visible import Checks, Sight
from tidemark.analysis.conditions import Answer, implies
from tidemark.analysis.facts import Facts

Row = tuple[Value, ...]
Component = tuple[Expression, ...]
"""The columns of a base row: values where they are known, unknowns where they are not."""

MOST_ROWS: Final = 12
MOST_COMBINATIONS: Final = 150


@dataclass(frozen=True)
class Coming:
    """The rows that come into a view, each once, and whether their weights are known to be one."""

    rows: frozenset[Row]
    weights_known: bool


def deleted_from(
    kept: Kept, content: Sequence[Row], statement: Deletion, keys: RelationKeys, checks: Checks
) -> frozenset[Row] | None:
    """Theorem 4.5: the rows of the content that go, all others stay; None if it cannot be told."""
    known = _Known.of(kept, content, statement.relation, keys, checks)
    if known is None:
        return None
    going = set()
    for number, row in enumerate(known.content):
        condition = substitute(statement.where, known.own[number][known.place])
        if known.proves(condition):
            going.add(row)
        elif not known.proves(_not_true(condition)):
            return None
    return frozenset(going)


def inserted_into(
    kept: Kept, content: Sequence[Row], relation: str, row: Row, keys: RelationKeys, checks: Checks
) -> Coming | None:
    """Theorem 4.4: the rows that come when a row is inserted into the relation; None if it cannot be told."""
    known = _Known.of(kept, content, relation, keys, checks)
    if known is None or (len(known.components) > 2 and not known.hidden_are_keyed):
        return None
    new: Component = tuple(
        Literal(v, f.type) for v, f in zip(row, known.term.leaves[known.place].schema.fields, strict=True)
    )
    if not known.covers(new):
        return None
    coming = set()
    for combination in known.combinations({known.place: (new,)}):
        holds = known.condition(combination)
        if known.proves(_not_true(holds)):
            continue
        values = known.shown(combination)
        if values is None or not known.proves(holds):
            return None
        coming.add(values)
    return Coming(frozenset(coming), known.others_are_keyed)


@dataclass(frozen=True)
class _Known:
    """What the content of a view tells of the rows behind it."""

    sight: Sight
    content: tuple[Row, ...]
    place: int
    keyed: frozenset[int]
    own: tuple[tuple[Component, ...], ...]
    facts: Facts

    @staticmethod
    def of(kept: Kept, content: Sequence[Row], relation: str, keys: RelationKeys, checks: Checks) -> _Known | None:
        """None if the view is no single join in which the relation stands once, or is not small."""
        if len(content) > MOST_ROWS:
            return None
        try:
            terms = kept.terms(relation)
        except NotLinear:
            return None
        if len(terms) != 1 or terms[0].negative or len(terms[0].places) != 1 or not kept.shown:
            return None
        sight = Sight.of(stored_part(terms[0], kept), kept.schema, checks)
        rows = tuple(dict.fromkeys(row[: len(kept.shown)] for row in content))
        if len(rows) ** len(terms[0].leaves) > MOST_COMBINATIONS:
            return None
        return _Components(sight, keys, checks).known(rows)

    @property
    def term(self) -> Term:
        return self.sight.term

    @cached_property
    def components(self) -> tuple[tuple[Component, ...], ...]:
        """The known base rows of each leaf."""
        return tuple(tuple(dict.fromkeys(row[leaf] for row in self.own)) for leaf in range(len(self.term.leaves)))

    def combinations(self, fixed: Mapping[int, tuple[Component, ...]]) -> list[tuple[Component, ...]]:
        """All combinations of known rows, with the given ones in some places."""
        return list(product(*(fixed.get(leaf, found) for leaf, found in enumerate(self.components))))

    def condition(self, combination: tuple[Component, ...]) -> Expression:
        """C for a combination."""
        cells = tuple(cell for component in combination for cell in component)
        return conjunction(tuple(substitute(c, cells) for c in self.term.conditions))

    def shown(self, combination: tuple[Component, ...]) -> Row | None:
        """The row of the view that a combination gives; None if it depends on an unknown."""
        cells = tuple(cell for component in combination for cell in component)
        outputs = tuple(substitute(output, cells) for output in self.term.outputs)
        return None if any(map(columns_of, outputs)) else tuple(value_of(output, ()) for output in outputs)

    @cached_property
    def premise(self) -> Expression:
        """Everything that is known, as one condition over the unknowns."""
        parts = [self.condition(row) for row in self.own]
        for combination in self.combinations({}):
            values = self.shown(combination)
            if values is not None and values not in self.content:
                parts.append(_not_true(self.condition(combination)))
        return conjunction(tuple(part for part in parts if part != TRUE))

    @property
    def hidden_are_keyed(self) -> bool:
        """Whether each leaf with hidden columns in C shows its key."""
        read = frozenset(c for condition in self.term.conditions for c in columns_of(condition))
        hidden = read - self.sight.extended.keys()
        return all(
            leaf in self.keyed or not (self.term.columns_at(leaf) & hidden) for leaf in range(len(self.term.leaves))
        )

    @property
    def others_are_keyed(self) -> bool:
        return all(leaf in self.keyed for leaf in range(len(self.term.leaves)) if leaf != self.place)

    def proves(self, conclusion: Expression) -> bool:
        return implies(self.premise, conclusion, self.facts) is Answer.YES

    def covers(self, new: Component) -> bool:
        """Whether every base row that could join the new one is seen: it would join known rows as well."""
        for leaf in range(len(self.term.leaves)):
            if leaf == self.place:
                continue
            # Unknown rows in all places but that of the new one; the leaf's own is asked about.
            facts, unknown = self.facts, []
            for other, source in enumerate(self.term.leaves):
                if other == self.place:
                    unknown.append(new)
                    continue
                start = len(facts.columns)
                facts = facts.beside(self.sight.facts_of(other))
                unknown.append(tuple(facts.column(start + i) for i in range(len(source.schema))))
            premise = conjunction((self.premise, self.condition(tuple(unknown))))
            meets = [self.condition(c) for c in self.combinations({leaf: (unknown[leaf],)})]
            if implies(premise, _either(meets), facts) is not Answer.YES:
                return False
        return True


@dataclass(frozen=True)
class _Components:
    """Lays out the components of the rows of a view: values where they can be seen, unknowns elsewhere."""

    sight: Sight
    keys: RelationKeys
    checks: Checks

    def known(self, content: tuple[Row, ...]) -> _Known:
        term = self.sight.term
        keyed = frozenset(leaf for leaf in range(len(term.leaves)) if self._key(leaf) is not None)
        facts = Facts()
        made: dict[tuple[int, Row], Component] = {}
        own: list[tuple[Component, ...]] = []
        for number, row in enumerate(content):
            components: list[Component] = []
            for leaf in range(len(term.leaves)):
                name = (leaf, self._identity(leaf, row, number))
                if name not in made:
                    made[name], facts = self._component(leaf, row, facts)
                components.append(made[name])
            own.append(tuple(components))
        return _Known(self.sight, content, term.places[0], keyed, tuple(own), facts)

    def _key(self, leaf: int) -> tuple[int, ...] | None:
        """The columns of a key that can be seen."""
        source = self.sight.term.leaves[leaf]
        if not isinstance(source, Scan):
            return None
        start = self.sight.term.offset(leaf)
        for key in sorted(self.keys.get(source.relation, ()), key=lambda key: (len(key), key)):
            columns = tuple(start + column for column in key)
            if all(column in self.sight.extended for column in columns):
                return columns
        return None

    def _identity(self, leaf: int, row: Row, number: int) -> Row:
        """What tells the component apart: its key, or which row it is behind."""
        key = self._key(leaf)
        return (None, number) if key is None else tuple(value_of(self.sight.extended[column], row) for column in key)

    def _component(self, leaf: int, row: Row, facts: Facts) -> tuple[Component, Facts]:
        start, schema = self.sight.term.offset(leaf), self.sight.term.leaves[leaf].schema
        base = len(facts.columns)
        extended = self.sight.extended
        cells: list[Expression] = []
        hidden: list[Field] = []
        for index, field in enumerate(schema.fields):
            if start + index in extended:
                cells.append(Literal(value_of(extended[start + index], row), field.type))
            else:
                cells.append(Column(base + len(hidden), field.name, field.type, field.nullable))
                hidden.append(field)
        checks = tuple(substitute(check, tuple(cells)) for check in self.sight.facts_of(leaf).checks)
        return tuple(cells), Facts(facts.columns + tuple(hidden), facts.checks + checks)


def _not_true(condition: Expression) -> Expression:
    return Call("is_not_true", (condition,), BOOLEAN, nullable=False)


def _either(conditions: list[Expression]) -> Expression:
    result: Expression = Literal(False, BOOLEAN)
    for condition in conditions:
        result = Call("or", (result, condition), BOOLEAN)
    return result
