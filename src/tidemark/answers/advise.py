"""What is said of a statement and a view before the statement runs: EXPLAIN EFFECT, and ``advise``, an aid for
those who design views and statements (BLAKELEY 8.2).

For a view and a statement, perhaps with parameters: what the statement is to the view; for which values of the
parameters it is irrelevant, and for which it is autonomous; and which columns the view would have to show besides for
it to be autonomous. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import pyarrow as pa

from tidemark.algebra.expressions import TRUE, Call, Column, Expression, columns_of, substitute, transform
from tidemark.algebra.plans import relations_of
from tidemark.algebra.types import Field
from tidemark.analysis.autonomy.classes import Class, advice_of, class_of, decides, showing
from tidemark.analysis.autonomy.criteria import boundaries, rules_of
from tidemark.analysis.autonomy.dml import AnalysedStatement, Deletion, Insertion, Update
from tidemark.analysis.autonomy.stored import Kept
from tidemark.analysis.facts import Facts
from tidemark.analysis.relevance.filters import simplified
from tidemark.analysis.relevance.shapes import Shape, numbered
from tidemark.analysis.rendering import FALSE, plain
from tidemark.answers.classify import Classification, classify
from tidemark.network import build
from tidemark.network.build import Definition
from tidemark.sql.bind.changes import bind_change
from tidemark.sql.bind.templates import Template, bind_template, has_parameters
from tidemark.sql.catalog.catalog import Catalog, View
from tidemark.sql.parse.statements import ExplainEffect
from tidemark.sql.parse.statements import Statement as StatementsStatement
from tidemark.sql.parse.text import Source
from tidemark.state.facts import Boundaries
from tidemark.state.names import must_be_view, relation_named
from tidemark.state.state import Store
from tidemark.strategy.autonomous import KnownFacts
from tidemark.strategy.nodes import expand

ALWAYS: Final = "always"


@dataclass(frozen=True)
class Wider:
    """Columns, as table.column, that a view would have to show besides, and what the statement would be to it then."""

    columns: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Advice:
    """What is known of a statement for any values of its parameters.

    ``irrelevant`` and ``autonomous`` are conditions on the parameters, ``always``, or None where none was found;
    ``wider`` has the ways to make more of it autonomous, those with the fewest columns first.
    """

    irrelevant: str | None
    autonomous: str | None
    wider: tuple[Wider, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"irrelevant: {self.irrelevant or 'not for any values that could be found'}",
            f"autonomous: {self.autonomous or 'not for any values that could be found'}",
        ]
        shown = (f"{way.kind} always: if the view shows {', '.join(way.columns)} too" for way in self.wider)
        return "\n".join([*lines, *shown])


def advise(view: View, template: Template, catalog: Catalog, known: KnownFacts, kept: Boundaries) -> Advice:
    """What can be said of a statement with parameters, and how to make more of it."""
    table = template.table.name
    definitions = {
        other.name: other.plan for other in catalog.relations.values() if isinstance(other, View) and other.lag is None
    }
    whole = expand(view.plan, definitions)
    if table not in relations_of(whole):
        return Advice(ALWAYS, ALWAYS)
    shape = Shape(template.kind, table, template.parameters, template.where, template.cells)
    general, order = numbered(shape, len(template.table.schema))
    boundary = kept.of(view.name, whole, known.facts).boundary(general)
    if boundary is not None:
        own = Facts(template.parameters).all_columns()
        boundary = substitute(boundary, tuple(own[place] for place in order))
    nodes = [node for node in build([Definition(view.name, view.plan)]).nodes.values() if table in node.influents]
    if not view.materialized or not nodes:
        return Advice(words(boundary, template.parameters), None)
    found = [_Analysis(Kept.of(node.name, node.plan), template, known) for node in nodes]
    autonomous = found[0].autonomous if len(found) == 1 else _all_always(found)
    wider = found[0].wider() if len(found) == 1 and autonomous != ALWAYS else ()
    return Advice(words(boundary, template.parameters), autonomous, wider)


def _all_always(found: list[_Analysis]) -> str | None:
    return ALWAYS if all(one.autonomous == ALWAYS for one in found) else None


@dataclass(frozen=True)
class _Analysis:
    """A statement with parameters and one stored relation."""

    kept: Kept
    template: Template
    known: KnownFacts

    @property
    def checks(self) -> dict[str, tuple[Expression, ...]]:
        return {name: facts.checks for name, facts in self.known.facts.items()}

    @cached_property
    def autonomous(self) -> str | None:
        """For which parameters the statement is autonomous."""
        table = self.template.table.name
        if not self.template.parameters:
            verdict = class_of(self.kept, self._statement, self.known.keys, self.checks)
            return ALWAYS if verdict.kind is Class.AUTONOMOUS else None
        rules = rules_of(self.kept, table, self.known.keys).rules
        # A rule about any change of the table needs no look at the condition.
        facts = self.known.facts[table].beside(Facts(self.template.parameters))
        if any(decides(rule, self._statement, facts) for rule in rules):
            return ALWAYS
        if self.template.kind != "delete":
            return None
        bounds = boundaries(self.kept, table, self.template.where, self.template.parameters, self.checks)
        return None if bounds is None else words(bounds.autonomous, self.template.parameters)

    def wider(self) -> tuple[Wider, ...]:
        """Columns that would make the statement autonomous for all parameters; no set that contains a smaller one."""
        table = self.template.table
        if not self.template.parameters:
            wider = advice_of(self.kept, self._statement, self.known.keys, self.checks)
            return tuple(Wider(way.columns, "autonomous") for way in wider if way.kind is Class.AUTONOMOUS)
        refusals = rules_of(self.kept, table.name, self.known.keys).refusals
        own = (column for column in columns_of(self.template.where) if column < len(table.schema))
        asked = {f"{table.name}.{table.schema[column].name}" for column in own}
        wanted = [frozenset(refusal.missing) for refusal in refusals if refusal.missing] + [frozenset(asked)]
        found: list[frozenset[str]] = []
        for columns in sorted(set(filter(None, wanted)), key=lambda columns: (len(columns), sorted(columns))):
            kept = showing(self.kept, table.name, tuple(sorted(columns)))
            if kept is not None and replace(self, kept=kept).autonomous == ALWAYS:
                found += [columns] if not any(known < columns for known in found) else []
        return tuple(Wider(tuple(sorted(columns)), "autonomous") for columns in found)

    @property
    def _statement(self) -> AnalysedStatement:
        """The statement; parameters stand behind the columns of its table."""
        name, schema = self.template.table.name, self.template.table.schema
        where = self.template.where
        match self.template.kind:
            case "delete":
                return Deletion(name, where)
            case "update":
                given = dict(self.template.cells)
                own = (Column(i, f.name, f.type, f.nullable) for i, f in enumerate(schema.fields))
                return Update(name, tuple(given.get(column.index, column) for column in own), where)
        return Insertion(name)


def words(condition: Expression | None, parameters: tuple[Field, ...]) -> str | None:
    """A condition on the parameters in words."""
    if condition is None:
        return None
    simple = simplified(transform(condition, _positive), Facts(parameters))
    if simple is None or simple == TRUE:
        return ALWAYS
    return None if simple == FALSE else plain(simple)


_OPPOSITES: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def _positive(part: Expression) -> Expression | None:
    """A comparison that is not true, said as the opposite one: parameters are not NULL."""
    match part:
        case Call(function="is_not_true", arguments=(Call(function=name) as compared,)) if name in _OPPOSITES:
            return replace(compared, function=_OPPOSITES[name])
    return None


def effect_of(statement: ExplainEffect, store: Store, source: Source) -> pa.Table:
    """The class of a statement; of one with parameters, for which of them it is of which."""
    if not has_parameters(statement.change):
        effect = classified(statement.view, [(statement.change, source)], store)
        return pa.table({"kind": [effect.kind], "reason": [effect.reason]})
    advice = advised(statement.view, statement.change, store, source)
    lines = [line.partition(": ") for line in str(advice).splitlines()]
    return pa.table({"kind": [kind for kind, _, _ in lines], "reason": [reason for _, _, reason in lines]})


def classified(view: str, script: Iterable[tuple[StatementsStatement, Source]], store: Store) -> Classification:
    """What the statements, as one transaction, are to a view."""
    relation = view_asked(view, store.catalog)
    changes = [bind_change(statement, store.catalog, source) for statement, source in script]
    return classify(relation, changes, store.catalog, store.refreshes.known, store.boundaries)


def advised(view: str, statement: StatementsStatement, store: Store, source: Source) -> Advice:
    """For which values of its parameters a statement is of which class to a view."""
    template = bind_template(statement, store.catalog, source)
    return advise(view_asked(view, store.catalog), template, store.catalog, store.refreshes.known, store.boundaries)


def view_asked(name: str, catalog: Catalog) -> View:
    return must_be_view(relation_named(name, catalog), "a statement changes it or does not")
