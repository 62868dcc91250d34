"""Small databases, all of them: what the soundness of a rule is checked on.

A rule sees what is stored of a view and a change, and nothing else. So it is sound if it is right for every instance:
two instances that give the same stored rows and the same change, but another new content, would make it wrong for
one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from typing import Any

from sqlglot import exp, parse_one

import tidemark as tm
from tests.bags import Bag, bag, changes, minus, plus
from tidemark.algebra.expressions import TRUE, Expression, Value
from tidemark.algebra.keys import RelationKeys, keys_of
from tidemark.algebra.plans import Aggregate, Filter, Given, Plan, Project, Scan, State, relations_of
from tidemark.algebra.scalar import value_of
from tidemark.algebra.types import Field
from tidemark.analysis.autonomy.criteria import Criterion
from tidemark.analysis.autonomy.dml import Deletion, Update
from tidemark.calculus.as_of import Block, delta_name, new, resolve
from tidemark.calculus.extrema import has_extrema
from tidemark.calculus.group import merged_delta, partial_sums, touched_before, with_column_keys
from tidemark.engines.reference.evaluate import evaluate
from tidemark.network import Network, Node, NodeKind
from tidemark.sql.bind.changes import bind_delete, bind_update
from tidemark.sql.catalog.catalog import Catalog, Table
from tidemark.sql.parse.text import Source
from tidemark.state.pairs import relation_keys
from tidemark.strategy.nodes import expand, refresh

Row = tuple[Any, ...]
Tables = dict[str, Bag]


@dataclass(frozen=True)
class World:
    """The tables and the network of a script, without any data."""

    tables: dict[str, Table]
    network: Network
    keys: RelationKeys
    catalog: Catalog

    @staticmethod
    def of(script: str) -> World:
        with tm.connect("reference") as db:
            db.execute(script)
            catalog = db._store.catalog
            tables = {table.name: table for table in catalog.tables if not table.name.startswith("_")}
            known = dict(relation_keys(catalog))
            for node in db._store.network.nodes.values():
                known[node.name] = keys_of(node.plan, known)
            return World(tables, db._store.network, known, catalog)

    @property
    def checks(self) -> dict[str, tuple[Expression, ...]]:
        return {name: tuple(check.condition for check in table.checks) for name, table in self.tables.items()}

    def statement(self, text: str) -> Deletion | Update:
        """A DELETE or an UPDATE, as far as an analysis is concerned."""
        tree, source = parse_one(text, dialect="postgres"), Source(text)
        if isinstance(tree, exp.Delete):
            bound = bind_delete(tree, self.catalog, source)
            return Deletion(bound.table.name, _where(bound.plan))
        assert isinstance(tree, exp.Update)
        update = bind_update(tree, self.catalog, source)
        assert isinstance(update.coming, Project)
        return Update(update.table.name, update.coming.expressions, _where(update.plan))

    def after(self, statement: Deletion | Update, content: Bag) -> Bag | None:
        """The table after the statement; None if it fails, because a row breaks a constraint."""
        table = self.tables[statement.relation]
        gone = {row: w for row, w in content.items() if value_of(statement.where, row) is True}
        come: Bag = {}
        if isinstance(statement, Update):
            made = [(tuple(value_of(cell, row) for cell in statement.cells), w) for row, w in gone.items()]
            come = plus(*({row: w} for row, w in made))
            present = all(
                v is not None or f.nullable for r in come for v, f in zip(r, table.schema.fields, strict=True)
            )
            if not present or not all(_passes_checks(table, row) for row in come):
                return None
        result = plus(content, minus(gone), come)
        return result if self._is_allowed(table.name, result) else None

    def nodes(self, table: str) -> list[Node]:
        """What is stored and reads the table, each once."""
        nodes = self.network.nodes.values()
        return [n for n in nodes if n.kind is not NodeKind.SHARED and table in relations_of(n.plan)]

    def below(self, node: Node) -> list[Node]:
        """The stored nodes that the node reads."""
        return [self.network.nodes[name] for name in relations_of(node.plan) if name in self.network.nodes]

    def moves_below(self, node: Node, tables: Tables, table: str, after: Bag) -> bool:
        """Whether a change of a table changes something else that the node reads: rules are about one relation
        alone."""
        changed = {**tables, table: after}
        return any(self.content(other, tables) != self.content(other, changed) for other in self.below(node))

    def content(self, node: Node, tables: Tables) -> Bag:
        """What is stored of a node when the tables hold this."""
        definitions = {name: other.plan for name, other in self.network.nodes.items() if name != node.name}
        return evaluate(resolve(new(expand(node.plan, definitions)), Block()), tables, {})

    def rows(self, table: str, values: tuple[Value, ...]) -> list[Row]:
        """Every row of a table that its constraints allow, with the given values in its columns."""
        found = self.tables[table]
        return [
            row for row in product(*(_allowed(f, values) for f in found.schema.fields)) if _passes_checks(found, row)
        ]

    def contents(self, table: str, values: tuple[Value, ...], most: int) -> list[Bag]:
        """Every content of a table of so many rows at most; a table without a key has equal rows too."""
        rows = self.rows(table, values)
        found = (bag(chosen) for n in range(most + 1) for chosen in combinations_with_replacement(rows, n))
        return [content for content in found if self._is_allowed(table, content)]

    def _is_allowed(self, table: str, content: Bag) -> bool:
        key = self.tables[table].primary_key
        taken = [tuple(row[i] for i in key) for row, weight in content.items() for _ in range(weight)]
        return not key or len(set(taken)) == len(taken)

    def random_content(self, table: str, values: tuple[Value, ...], most: int, chance: random.Random) -> Bag:
        rows = self.rows(table, values)
        while True:
            content = bag(chance.choices(rows, k=chance.randint(0, most)))
            if self._is_allowed(table, content):
                return content


def _where(plan: Plan) -> Expression:
    if isinstance(plan, Scan):
        return TRUE
    assert isinstance(plan, Filter)
    assert isinstance(plan.input, Scan)
    return plan.predicate


def _allowed(field: Field, values: tuple[Value, ...]) -> list[Value]:
    return [value for value in values if value is not None or field.nullable]


def _passes_checks(table: Table, row: Row) -> bool:
    return all(value_of(check.condition, row) is not False for check in table.checks)


def undecided(rule: Criterion, node: Node, stored: Bag, table: str, delta: Bag) -> Bag:
    """The entries of a change that the rule does not decide."""
    return {} if rule.undecided is None else _evaluate(rule.undecided, node, stored, table, delta)


def derived(rule: Criterion, node: Node, stored: Bag, table: str, delta: Bag) -> Bag:
    """The change of what is stored, by the rule. Nothing but the stored rows and the change is there to be read."""
    if not rule.of_input:
        return _evaluate(rule.delta, node, stored, table, delta)
    assert isinstance(node.plan, Aggregate)
    prepared = with_column_keys(node.plan)
    assert rule.delta.schema.types == prepared.input.schema.types
    if has_extrema(node.plan):
        return _staged(rule, node, stored, table, delta)
    sums = partial_sums(prepared, rule.delta)
    partial = _evaluate(sums, node, stored, table, delta)
    given = {"partial": partial}
    before = touched_before(node.plan, Scan(node.name, node.schema, State.OLD), Given("partial", node.schema))
    known = evaluate(resolve(before, Block(changed=frozenset({table}))), {node.name: stored}, given)
    merged = merged_delta(node.plan, Given("before", node.schema), Given("partial", node.schema))
    return evaluate(merged, {}, given | {"before": known})


def _staged(rule: Criterion, node: Node, stored: Bag, table: str, delta: Bag) -> Bag:
    """A grouping with extrema: the stages of the network, with the rule's rows as the first."""
    block = Block(changed=frozenset({table}))
    stages = refresh(node, frozenset({table}), block).stages
    given: dict[str, Any] = {"input": _evaluate(rule.delta, node, stored, table, delta)}
    result: Bag = {}
    for stage in stages[1:]:
        idle = stage.when is not None and not given[stage.when]
        result = {} if idle else evaluate(stage.plan, {node.name: stored}, given)
        if stage.result is not None:
            given[stage.result] = result
    return result


def _evaluate(plan: Plan, node: Node, stored: Bag, table: str, delta: Bag) -> Bag:
    resolved = resolve(plan, Block(changed=frozenset({table})))
    assert relations_of(resolved) <= {node.name}, "a rule reads what is stored and the change"
    return evaluate(resolved, {node.name: stored}, {delta_name(table): delta})


def transitions(
    world: World, table: str, values: tuple[Value, ...], most: int, others: int
) -> Iterator[tuple[Tables, Bag]]:
    """All small instances, and all new contents of one table for each of them."""
    names = [name for name in world.tables if name != table]
    for rest in product(*(world.contents(name, values, others) for name in names)):
        for before, after in product(world.contents(table, values, most), repeat=2):
            if before != after:
                yield {table: before, **dict(zip(names, rest, strict=True))}, after


def random_transitions(
    world: World, table: str, values: tuple[Value, ...], most: int, count: int
) -> Iterator[tuple[Tables, Bag]]:
    """Instances by chance. Half of the changes are small, so that most rows stay."""
    chance = random.Random(f"{table}{count}")
    for _ in range(count):
        tables = {name: world.random_content(name, values, most, chance) for name in world.tables}
        after = world.random_content(table, values, most, chance)
        if chance.random() < 0.7:
            after = _near(world, table, tables[table], values, chance)
        yield tables, after


def _near(world: World, table: str, content: Bag, values: tuple[Value, ...], chance: random.Random) -> Bag:
    """A content that differs in few rows: some are deleted, some inserted, some have one value changed."""
    rows = world.rows(table, values)
    for _ in range(20):
        after = dict(content)
        for row in chance.sample(sorted(after, key=str), min(len(after), chance.randint(0, 2))):
            after = plus(after, {row: -1})
            if chance.random() < 0.7:
                column = chance.randrange(len(row))
                changed = (*row[:column], chance.choice(values), *row[column + 1 :])
                after = plus(after, {changed: 1}) if changed in rows else after
        if chance.random() < 0.3:
            after = plus(after, {chance.choice(rows): 1})
        if world._is_allowed(table, after):
            return after
    return content


def check(world: World, table: str, node: Node, rule: Criterion, tables: Tables, after: Bag) -> bool:
    """Whether the rule decides a change; if it does, it must be right."""
    delta = changes(tables[table], after)
    if any(
        world.content(other, tables) != world.content(other, {**tables, table: after}) for other in world.below(node)
    ):
        return False  # a rule is about the change of one relation alone
    stored = world.content(node, tables)
    if not delta or undecided(rule, node, stored, table, delta):
        return False
    expected = changes(stored, world.content(node, {**tables, table: after}))
    found = derived(rule, node, stored, table, delta)
    assert found == expected, f"{rule.reason}\n{tables}\n{table} becomes {after}\nstored {stored}"
    return True
