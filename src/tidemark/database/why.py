"""EXPLAIN WHY and WHY NOT: provenance over what a transaction sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tidemark.algebra.expressions import Value
from tidemark.algebra.plans import Plan, Scan
from tidemark.algebra.types import Schema
from tidemark.database.rows import as_table
from tidemark.database.transaction import Transaction
from tidemark.engines.reference.arrow import to_bag, to_rows
from tidemark.errors import TidemarkError
from tidemark.provenance import Answer
from tidemark.provenance.explaining import Explaining
from tidemark.provenance.questions import Bag
from tidemark.sql.catalog import Relation, Table

WantedRow: TypeAlias = "Sequence[Any] | Mapping[str, Any]"
"""A whole row, or some of its columns by name."""


def wanted_values(row: WantedRow, relation: Relation) -> dict[int, Value]:
    """The values by position of their columns, as values of the columns' types."""
    names = relation.schema.names
    if isinstance(row, Mapping):
        unknown = [str(name) for name in row if name not in names]
        if unknown:
            raise TidemarkError(
                "unknown_column",
                f"{relation.name!r} has no column {unknown[0]!r}",
                hint=f"columns: {', '.join(names)}",
            )
        positions = [relation.schema.position(name) for name in row]
    else:
        positions = list(range(len(names)))
    schema = Schema(tuple(relation.schema[position] for position in positions))
    nullable = Schema(tuple(type(f)(f.name, f.type, True) for f in schema.fields))
    (values,) = to_rows(as_table([row], nullable, relation.name))
    return dict(zip(positions, values, strict=True))


def explained(relation: Relation, wanted: Mapping[int, Value], transaction: Transaction, rows: int = 3) -> Answer:
    """Why the first row with the wanted values is in the relation; or why none is."""

    def ask(plan: Plan) -> Bag:
        return to_bag(transaction.evaluate(plan))

    catalog = transaction.catalog
    views = catalog.materialized_views
    explaining = Explaining(
        ask,
        {view.name: view.plan for view in views},
        {view.name: view.approximate for view in views},
        rows,
    )
    definition = None if isinstance(relation, Table) else relation.plan
    scan = catalog.scan(relation.name) if definition is not None else Scan(relation.name, relation.schema)
    return explaining.explain(relation.name, scan, definition, tuple(wanted.items()))
