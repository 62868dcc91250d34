"""What is stored of a derived relation, and how it depends on one relation below it.

A stored relation is a sum of terms (``terms.py``) whose rows are kept as they are, or grouped: DISTINCT is a
grouping by all columns, with or without a count. Seen from a relation U that occurs once in each term, everything in
the definition is one of

    local       conditions that read columns of U alone, hold in every term, and cannot fail
    own         stored columns that are computed from the row of U alone, alike in every term
    partners    all the rest: it is a function of the partners of the row and of its *links*

where the links are the columns of U that anything but local conditions and own columns reads. Two rows of U that
agree in their links have the same partners, and these give the same values to all stored columns that are not own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from tidemark.algebra.expressions import Call, Column, Expression, columns_of, substitute
from tidemark.algebra.plans import Aggregate, AggregateCall, Distinct, Filter, Plan, Scan, State
from tidemark.algebra.scalar import can_fail
from tidemark.algebra.types import BOOLEAN, Schema
from tidemark.analysis.autonomy.terms import NotLinear, Term, is_identifying, terms_of

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


@dataclass(frozen=True)
class Kept:
    """A stored relation: its name, and its rows as ``shown`` expressions over a linear input, perhaps grouped by them,
    with ``calls`` behind them."""

    name: str
    schema: Schema
    input: Plan
    shown: tuple[Expression, ...]
    calls: tuple[AggregateCall, ...] = ()
    is_grouped: bool = False

    @staticmethod
    def of(name: str, plan: Plan) -> Kept:
        """What is stored under a name that holds the rows of the plan."""
        match plan:
            case Aggregate(input=source, keys=keys, aggregates=calls, signed=False):
                return Kept(name, plan.schema, source, keys, calls, is_grouped=True)
            case Distinct(input=source):
                return Kept(name, plan.schema, source, source.columns(), is_grouped=True)
        return Kept(name, plan.schema, plan, plan.columns())

    @property
    def old(self) -> Scan:
        """The stored rows before the change."""
        return Scan(self.name, self.schema, State.OLD)

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """What the aggregates read, each once, in order."""
        return tuple(dict.fromkeys(part for call in self.calls for part in call.expressions()))

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names for the rows that are grouped: their keys, then the arguments of aggregates."""
        return tuple(f"k{i}" for i in range(len(self.shown))) + tuple(f"a{i}" for i in range(len(self.arguments)))

    def terms(self, relation: str) -> tuple[Term, ...]:
        """The terms, each with the stored columns and then the arguments of aggregates as its outputs."""
        read = self.shown + self.arguments
        return tuple(
            replace(term, outputs=tuple(substitute(e, term.outputs) for e in read))
            for term in terms_of(self.input, relation)
        )


@dataclass(frozen=True)
class Seen:
    """A stored relation as seen from one relation that occurs once in each of its terms, first among their leaves."""

    kept: Kept
    relation: Scan
    terms: tuple[Term, ...]

    @staticmethod
    def of(kept: Kept, relation: str) -> Seen:
        """Raises ``NotLinear`` if the relation is not there exactly once in each term."""
        terms = kept.terms(relation)
        if any(not term.places for term in terms):
            raise NotLinear(f"it also has rows that do not come from {relation!r}")
        if any(len(term.places) > 1 for term in terms):
            raise NotLinear(f"{relation!r} is joined with itself")
        moved = tuple(term.from_first(term.places[0]) for term in terms)
        scan = moved[0].leaves[0]
        assert isinstance(scan, Scan)
        return Seen(kept, scan, moved)

    @property
    def width(self) -> int:
        return len(self.relation.schema)

    @property
    def others(self) -> tuple[Plan, ...]:
        return tuple(leaf for term in self.terms for leaf in term.leaves[1:])

    def reads_own(self, expression: Expression) -> bool:
        """Whether the expression reads the relation's own columns alone."""
        return all(column < self.width for column in columns_of(expression))

    @cached_property
    def local(self) -> tuple[Expression, ...]:
        """The local conditions. A comparison with a partner that is true has no NULL, which is a local condition
        too."""
        found = [self._local_conditions(term) for term in self.terms]
        return tuple(dict.fromkeys(c for c in found[0] if all(c in others for others in found[1:])))

    def _local_conditions(self, term: Term) -> tuple[Expression, ...]:
        return tuple(
            part
            for condition in term.conditions
            for part in ((condition,) if self.reads_own(condition) else _present(condition, self.width))
            if not can_fail(part) and columns_of(part)
        )

    @cached_property
    def own(self) -> dict[int, Expression]:
        """Stored columns and arguments, by place, that the row of the relation gives alone."""
        first, *rest = self.terms
        return {
            place: output
            for place, output in enumerate(first.outputs)
            if columns_of(output) and self.reads_own(output) and all(t.outputs[place] == output for t in rest)
        }

    @cached_property
    def condition_links(self) -> frozenset[int]:
        """The columns of the relation that decide which partners a row has."""
        local = frozenset(self.local)
        return self._own_columns(
            condition for term in self.terms for condition in term.conditions if condition not in local
        )

    def output_links(self, places: Iterable[int]) -> frozenset[int]:
        """The columns of the relation that stored columns or arguments read which are not its own."""
        return self._own_columns(term.outputs[p] for term in self.terms for p in places if p not in self.own)

    @property
    def argument_links(self) -> frozenset[int]:
        """The columns of the relation that aggregates read."""
        return self._own_columns(output for term in self.terms for output in term.outputs[len(self.kept.shown) :])

    def _own_columns(self, expressions: Iterable[Expression]) -> frozenset[int]:
        return frozenset(c for expression in expressions for c in columns_of(expression) if c < self.width)

    def shown_at(self, column: int) -> int | None:
        """The stored column that has the value of a column of the relation in every row, directly or because
        conditions make the two equal."""
        if not is_identifying(self.relation.schema[column].type):
            return None
        equal = [term.equal_to(column) for term in self.terms]
        for place in range(len(self.kept.shown)):
            outputs = (term.outputs[place] for term in self.terms)
            if all(isinstance(e, Column) and e.index in same for e, same in zip(outputs, equal, strict=True)):
                return place
        return None

    @property
    def change(self) -> Plan:
        """The relation's change, as far as local conditions let it through."""
        changed: Plan = replace(self.relation, state=State.DELTA)
        for condition in self.local:
            changed = Filter(changed, condition)
        return changed


def _present(condition: Expression, width: int) -> tuple[Expression, ...]:
    """The columns that are not NULL when a comparison is true, as conditions."""
    match condition:
        case Call(function=function, arguments=arguments) if function in _COMPARISONS:
            return tuple(
                Call("is_not_null", (part,), BOOLEAN, nullable=False)
                for part in arguments
                if isinstance(part, Column) and part.index < width and part.nullable
            )
    return ()


@dataclass(frozen=True)
class Criterion:
    """How a stored relation follows one change of one relation below it, from what is stored and the change alone.

    ``delta`` reads two things: the stored relation in its old state, and the change of the relation below. It is the
    change of what is stored; with ``of_input`` it is that of the rows that a grouping groups, as its keys and then the
    arguments of its aggregates (each expression once, in order), and counts and sums are merged from it as always.

    It is right if ``undecided``, the entries of the change whose effect depends on more than that, is empty; None says
    that it always is. ``alone``, if it is there, has all of these entries and perhaps more, and reads the change only:
    if it is empty, what is stored need not be looked at.

    ``reason`` says why the rule holds, in words.

    What is known beforehand: whether the rule decides every deletion and every insertion; and every update that leaves
    the ``steady`` columns alone and lets no row pass the ``local`` conditions that did not pass them before (None: it
    decides no update).
    """

    delta: Plan
    reason: str
    undecided: Plan | None = None
    alone: Plan | None = None
    of_input: bool = False
    deletions: bool = True
    insertions: bool = False
    steady: frozenset[int] | None = frozenset()
    local: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """Why a rule does not hold, and the columns that the definition would have to show for it to hold, if that
    helps."""

    reason: str
    missing: tuple[str, ...] = ()
