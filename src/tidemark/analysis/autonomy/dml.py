"""Unconditionally autonomous statements: Theorems 4.1, 4.2 and 4.3 A to D, decided before a statement runs.

C are the conditions of the view, V what is stored of it; every row of V stands for combinations of rows for which C
holds.

    DELETE WHERE c             rows of V go for which c holds, if V tells which these are: there is a condition c' over
                               the stored columns with  C ⟹ (c ⟺ c')                                       (4.2)
    UPDATE SET F WHERE m   A   no combination enters:  m ∧ C(F) ⟹ C
                           B   V tells which rows are updated:  C ⟹ (m ⟺ m')
                           C   V tells which of them remain:  C ∧ m ⟹ (C(F) ⟺ n')
                           D   V tells their new values, column by column, given C ∧ m ∧ C(F)

    ΔV = −σ[c'] V                              ΔV = −σ[m'] V  ⊎  π[new values] σ[m' ∧ n'] V

Unlike the text, this is about bags. All combinations behind one row of V satisfy c, or none does, because c' is a
condition of that row; so the weight of a row follows as a whole, and a group goes as a whole. With several occurrences
of the relation in a term, c stands for "c holds for one of them". Rows of V that come from other terms must not satisfy
c'. An UPDATE needs one occurrence, and of groups it moves only those of DISTINCT, whose counts it adds up.

An update out of its domain leaves a row alone in the text, and fails here: that the new row passes the CHECK conditions
may be assumed. A condition that could fail for an updated row is left to the other ways.

Statements that change one relation, as far as an analysis is concerned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from tidemark.algebra.aggregates import AggregateFunction
from tidemark.algebra.expressions import TRUE, Call, Column, Expression, columns_of, conjunction, substitute
from tidemark.algebra.plans import Distinct, Filter, Negate, Plan, Project, Repeat, union
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import BOOLEAN
from tidemark.analysis.autonomy.stored import Criterion, Kept, Refusal
from tidemark.analysis.autonomy.terms import NotLinear, Term, renumbered
from tidemark.analysis.autonomy.visible import FALSE, Checks, Sight, after
from tidemark.analysis.conditions import never_true


@dataclass(frozen=True)
class Insertion:
    """INSERT INTO relation …: rows come, whatever they are."""

    relation: str


@dataclass(frozen=True)
class Deletion:
    """DELETE FROM relation WHERE …: a condition over the columns of the relation."""

    relation: str
    where: Expression = TRUE


@dataclass(frozen=True)
class Update:
    """UPDATE relation SET … WHERE …: for each column of the relation its new value, over the old ones."""

    relation: str
    cells: tuple[Expression, ...]
    where: Expression = TRUE

    @property
    def changed(self) -> frozenset[int]:
        """The columns that get a new value."""
        return frozenset(i for i, cell in enumerate(self.cells) if not (isinstance(cell, Column) and cell.index == i))


AnalysedStatement: TypeAlias = Insertion | Deletion | Update


def deleted_by_condition(kept: Kept, statement: Deletion, checks: Checks) -> Criterion | Refusal:
    """Theorem 4.2."""
    relation = statement.relation
    try:
        terms = kept.terms(relation)
    except NotLinear as refused:
        return Refusal(str(refused))
    if kept.is_grouped and not kept.shown:
        return Refusal("a total over all rows is there also when there are none")
    sights = [Sight.of(stored_part(term, kept), kept.schema, checks) for term in terms]
    found: list[Expression] = []
    for sight in sights:
        if sight.term.places:
            condition = one_of(_at_places(statement.where, sight.term))
            shown = sight.asked(condition)
            if shown is None:
                return _hidden("which rows the deletion is about", condition, sight)
            found.append(shown)
    chosen = _agreed(found, sights, [one_of(_at_places(statement.where, s.term)) for s in sights])
    if chosen is None:
        return Refusal("its parts do not tell in one way which rows the deletion is about")
    return deletion_of(kept, relation, chosen)


def deletion_of(kept: Kept, relation: str, going: Expression) -> Criterion:
    """The rule by which the stored rows go for which a condition over the stored columns holds."""
    reason = f"it shows which of its rows come from rows of {relation!r} that are deleted"
    return Criterion(Negate(Filter(kept.old, going)), reason)


def updated_by_condition(kept: Kept, statement: Update, checks: Checks) -> Criterion | Refusal:
    """Theorems 4.3 A to D."""
    relation = statement.relation
    try:
        terms = kept.terms(relation)
    except NotLinear as refused:
        return Refusal(str(refused))
    if any(len(term.places) != 1 for term in terms):
        return Refusal(f"{relation!r} is not there exactly once in each of its parts")
    if kept.is_grouped and not (kept.shown and _counts_rows(kept)):
        return Refusal("groups with aggregates are not moved by an update")
    steps = [_update_step(Sight.of(stored_part(t, kept), kept.schema, checks), statement, kept) for t in terms]
    for step in steps:
        if isinstance(step, Refusal):
            return step
    first = steps[0]
    assert isinstance(first, _Step)
    if any(step != first for step in steps):
        return Refusal("its parts do not tell in one way what the update does to its rows")
    reason = f"it shows which of its rows come from rows of {relation!r} that are updated, and what becomes of them"
    return Criterion(_moved(kept, first), reason, of_input=kept.is_grouped and bool(kept.calls))


@dataclass(frozen=True)
class _Step:
    """What an update does to stored rows: which it touches, which of these remain, and their new values."""

    touched: Expression
    remaining: Expression
    values: tuple[Expression, ...]


def _update_step(sight: Sight, statement: Update, kept: Kept) -> _Step | Refusal:
    offset = sight.term.offset(sight.term.places[0])
    where = _at_places(statement.where, sight.term)[0]
    changed = frozenset(column + offset for column in statement.changed)
    moving = tuple(c for c in sight.term.conditions if columns_of(c) & changed)
    if any(can_fail(condition) for condition in moving):
        return Refusal("a condition that reads an updated column could fail")
    updated = conjunction(tuple(after(c, statement.cells, offset) for c in sight.term.conditions))
    checked = _new_row_is_allowed(sight, statement, offset)
    entering = replace(sight, term=replace(sight.term, conditions=()), more=()).assuming(where, updated, *checked)
    if not all(entering.implies(TRUE, condition) for condition in moving):
        return Refusal("rows may enter that are not in it yet")
    touched = sight.asked(where)
    if touched is None:
        return _hidden("which rows the update is about", where, sight)
    selected = sight.assuming(where, *checked)
    still = conjunction(tuple(after(c, statement.cells, offset) for c in moving))
    remaining = selected.asked(still)
    if remaining is None:
        return _hidden("which updated rows remain", still, selected)
    last = selected.assuming(still)
    values: list[Expression] = []
    for place in range(len(kept.shown)):
        output = sight.term.outputs[place]
        value = after(output, statement.cells, offset)
        if value == output:
            values.append(kept.old.column(place))
        elif last.can_see(value):
            values.append(last.seen(value))
        else:
            return _hidden(f"the new value of {kept.schema[place].name!r}", value, last)
    return _Step(touched, remaining, tuple(values))


def _new_row_is_allowed(sight: Sight, statement: Update, offset: int) -> tuple[Expression, ...]:
    """That the new row passes the CHECK conditions and has no NULL where there must be none: else the statement
    fails."""
    width = len(statement.cells)
    own = [c for c in sight.facts.checks if columns_of(c) <= frozenset(range(offset, offset + width))]
    passed = (Call("is_not_false", (after(check, statement.cells, offset),), BOOLEAN, nullable=False) for check in own)
    present = (
        Call("is_not_null", (after(sight.facts.column(offset + i), statement.cells, offset),), BOOLEAN, nullable=False)
        for i in statement.changed
        if not sight.facts.columns[offset + i].nullable
    )
    return tuple(c for c in (*passed, *present) if columns_of(c))


def _moved(kept: Kept, step: _Step) -> Plan:
    """−σ[m'] V ⊎ π[new values] σ[m' ∧ n'] V; for groups as rows that are grouped, or as a set."""
    stored: Plan = kept.old
    if kept.is_grouped and kept.calls:
        stored = Repeat(stored, stored.column(len(kept.shown)))
    touched = Filter(stored, step.touched)
    names = kept.row_names if kept.is_grouped and kept.calls else kept.schema.names
    gone = Project(touched, names, stored.columns()[: len(kept.shown)])
    come = Project(Filter(touched, step.remaining), names, step.values)
    if kept.is_grouped and not kept.calls:
        # Two rows of a set may become one, or become one that is there.
        rest = union((stored, Negate(gone), come), kept.schema)
        return union((Distinct(rest), Negate(stored)), kept.schema)
    return union((come, Negate(gone)), come.schema)


def _counts_rows(kept: Kept) -> bool:
    return all(call.function is AggregateFunction.COUNT_ROWS for call in kept.calls)


def stored_part(term: Term, kept: Kept) -> Term:
    """The term with the stored columns alone as its outputs; aggregates tell nothing of single rows."""
    return replace(term, outputs=term.outputs[: len(kept.shown)])


def _at_places(condition: Expression, term: Term) -> tuple[Expression, ...]:
    """The condition of a statement at each occurrence of its relation in the term."""
    moved = []
    for place in term.places:
        offset = term.offset(place)
        moved.append(renumbered(condition, {column: column + offset for column in columns_of(condition)}))
    return tuple(moved)


def one_of(conditions: tuple[Expression, ...]) -> Expression:
    if not conditions:
        return FALSE
    result = conditions[0]
    for condition in conditions[1:]:
        result = Call("or", (result, condition), BOOLEAN, result.nullable or condition.nullable)
    return result


def _agreed(found: list[Expression], sights: list[Sight], asked: list[Expression]) -> Expression | None:
    """A condition over stored columns that is right in every term: the one that was found first, proved for the
    rest."""
    chosen = found[0]
    for sight, condition in zip(sights, asked, strict=True):
        here = substitute(chosen, sight.term.outputs)
        if not sight.term.places:
            if not never_true(conjunction((sight.premise, here)), sight.facts):
                return None
        elif sight.asked(condition) != chosen and not (
            sight.implies(here, condition) and sight.implies(condition, here)
        ):
            return None
    return chosen


def _hidden(what: str, expression: Expression, sight: Sight) -> Refusal:
    """The refusal that names the columns which would have to be shown."""
    hidden = sorted(columns_of(expression) - sight.extended.keys())
    names = tuple(_name(sight.term, column) for column in hidden)
    return Refusal(f"it does not show {what}: {', '.join(names)}", names)


def _name(term: Term, column: int) -> str:
    for place, leaf in enumerate(term.leaves):
        start = term.offset(place)
        if start <= column < start + len(leaf.schema):
            name = leaf.schema[column - start].name
            return f"{leaf.relation}.{name}" if hasattr(leaf, "relation") else name
    raise IndexError(column)
