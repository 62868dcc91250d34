"""Steps that follow from the content of a small view: Theorems 4.4 and 4.5 (``analysis.autonomy_small``).

A view of a few rows is read as a whole, and what it shows may prove what a deletion takes away, or what an inserted
row brings. The proofs take milliseconds, so they are tried only where many rows below would have to be read otherwise.
"""

from __future__ import annotations

import pyarrow as pa

from tidemark.algebra.plans import Aggregate, Stored
from tidemark.analysis.autonomy_kept import Kept
from tidemark.analysis.autonomy_small import MOST_ROWS, deleted_from, inserted_into
from tidemark.analysis.autonomy_updates import Deletion, Insertion, Statement
from tidemark.engines.base import Engine
from tidemark.engines.reference.arrow import from_bag, to_bag
from tidemark.network.autonomous import Known
from tidemark.network.nodes import Node, NodeKind

REASON = "its few rows prove what the statement does to them"


def by_content(node: Node, statement: Statement, delta: pa.Table, engine: Engine, known: Known) -> pa.Table | None:
    """The change of a small view by the only statement of a block, whose delta is given; None if it is not proved."""
    if node.kind is not NodeKind.VIEW or isinstance(node.plan, Aggregate) or engine.rows(node.name) > MOST_ROWS:
        return None
    kept, checks = Kept.of(node.name, node.plan), {name: facts.checks for name, facts in known.facts.items()}
    content = to_bag(engine.evaluate(Stored(node.name, node.schema), {}))
    match statement:
        case Deletion():
            going = deleted_from(kept, list(content), statement, known.keys, checks)
            return None if going is None else from_bag({row: -content[row] for row in going}, node.schema)
        case Insertion(relation=relation):
            rows = to_bag(delta)
            if list(rows.values()) != [1]:
                return None
            coming = inserted_into(kept, list(content), relation, next(iter(rows)), known.keys, checks)
            if coming is None or not coming.weights_known:
                return None
            return from_bag(dict.fromkeys(coming.rows, 1), node.schema)
    return None
