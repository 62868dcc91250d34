"""The plans of the rules of autonomy: every engine evaluates them alike, also after the passes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import tidemark as tm
from tests.bags import Bag
from tests.support import weights_of
from tidemark.algebra.expressions import Call, Expression, Literal
from tidemark.algebra.plans import Plan, Stored, relations_of
from tidemark.algebra.types import BOOLEAN, INT
from tidemark.analysis.autonomy.criteria import autonomy
from tidemark.analysis.autonomy.dml import Deletion, Update, deleted_by_condition, updated_by_condition
from tidemark.analysis.autonomy.stored import Criterion, Kept
from tidemark.calculus.as_of import Block, delta_name, resolve
from tidemark.calculus.terms import distribute
from tidemark.engines.reference.evaluate import evaluate
from tidemark.passes import optimize
from tidemark.state.pairs import relation_keys
from tidemark.strategy.nodes import Node, NodeKind
from tidemark.strategy.settle import settle

SPARK_VARIANTS = ("spark forced",)

SCRIPT = """
CREATE TABLE c (id INT PRIMARY KEY, name VARCHAR, town VARCHAR);
CREATE TABLE o (id INT PRIMARY KEY, c INT, amount DECIMAL(8,2), note VARCHAR);
INSERT INTO c VALUES (1, 'Ann', 'Oslo'), (2, 'Bob', NULL), (3, 'Cy', 'Rome');
INSERT INTO o VALUES (10, 1, 5, 'a'), (11, 1, 7.5, NULL), (12, 2, 5, 'c'), (13, NULL, 9, 'd'), (14, 1, 5, 'a');
CREATE MATERIALIZED VIEW pairs AS SELECT o.id, c.name, o.amount, o.note FROM o JOIN c ON o.c = c.id WHERE o.amount < 9;
CREATE MATERIALIZED VIEW bag AS SELECT c.id, c.town, o.amount * 2 AS twice FROM o JOIN c ON o.c = c.id;
CREATE MATERIALIZED VIEW found AS SELECT DISTINCT o.c, c.town, o.note FROM o JOIN c ON o.c = c.id;
CREATE MATERIALIZED VIEW totals AS
SELECT c.id, c.town, COUNT(*) AS n, SUM(o.amount) AS t FROM o JOIN c ON o.c = c.id GROUP BY c.id, c.town;
CREATE MATERIALIZED VIEW lefts AS SELECT o.id, o.note, c.name FROM o LEFT JOIN c ON o.c = c.id;
CREATE MATERIALIZED VIEW twins AS SELECT x.id, y.id AS other FROM o x JOIN o y ON x.amount = y.amount;
"""
CHANGES: dict[str, list[tuple[Any, ...]]] = {
    "o": [(10, 1, "5.00", "a", -1), (10, 1, "6.00", None, 1), (12, 2, "5.00", "c", -1), (20, 2, "1.00", "z", 1),
          (21, 3, "1.00", None, 1), (13, None, "9.00", "d", -1)],
    "c": [(1, "Ann", "Oslo", -1), (1, "Ann", "Rome", 1), (2, "Bob", None, -1), (9, "Di", None, 1)],
}  # fmt: skip


def change_of(table: str) -> pa.Table:
    types = {"c": [pa.int32(), pa.string(), pa.string()], "o": [pa.int32(), pa.int32(), pa.string(), pa.string()]}
    columns = zip(*CHANGES[table], strict=True)
    arrays = [pa.array(list(c), t) for c, t in zip(columns, [*types[table], pa.int64()], strict=True)]
    if table == "o":
        arrays[2] = arrays[2].cast(pa.decimal128(8, 2))
    names = {"c": ["id", "name", "town"], "o": ["id", "c", "amount", "note"]}
    return pa.table(arrays, [*names[table], "_weight"])


def both(db: tm.Database, node: Node, plan: Plan, table: str) -> tuple[Bag, Bag]:
    """The plan's rows by the engine, and by the definitions."""
    engine, block, change = db._store.engine, Block(changed=frozenset({table})), change_of(table)
    given = {delta_name(table): change}
    asked = distribute(resolve(optimize(plan), block))
    found = weights_of(engine.evaluate(*settle(asked, given, engine)))
    stored = weights_of(engine.evaluate(Stored(node.name, node.schema), {}))
    return found, evaluate(resolve(plan, block), {node.name: stored}, {delta_name(table): weights_of(change)})


def stored_nodes(db: tm.Database) -> list[Node]:
    return [node for node in db._store.network.nodes.values() if node.kind is not NodeKind.SHARED]


def test_the_rules_about_rows(db: tm.Database) -> None:
    db.execute(SCRIPT)
    keys, tried = relation_keys(db._store.catalog), 0
    for node in stored_nodes(db):
        for table in sorted({"o", "c"} & relations_of(node.plan)):
            for rule in autonomy(node.name, node.plan, table, keys).rules:
                for plan in (rule.delta, rule.undecided):
                    if plan is not None:
                        tried += 1
                        found, expected = both(db, node, plan, table)
                        assert found == expected, f"{node.label} {table}: {rule.reason}"
    assert tried > 15


def test_the_rules_about_statements(db: tm.Database) -> None:
    db.execute(SCRIPT)
    town = db._store.catalog.scan("c").column(2)
    identifier = db._store.catalog.scan("c").column(0)
    where: Expression = Call("is_null", (town,), BOOLEAN, nullable=False)
    beyond = Call("gt", (identifier, Literal(1, INT)), BOOLEAN, nullable=False)
    cells = (identifier, db._store.catalog.scan("c").column(1), Literal("Bonn", town.type))
    tried = 0
    for node in stored_nodes(db):
        if "c" not in relations_of(node.plan):
            continue
        kept = Kept.of(node.name, node.plan)
        for found in (
            deleted_by_condition(kept, Deletion("c", where), {}),
            deleted_by_condition(kept, Deletion("c", beyond), {}),
            updated_by_condition(kept, Update("c", cells, beyond), {}),
        ):
            if isinstance(found, Criterion):
                tried += 1
                mine, expected = both(db, node, found.delta, "c")
                assert mine == expected
    assert tried > 5
