"""Filling what begins to be stored: new nodes from what is below them, and inner states that are not found."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidemark.algebra.plans import Aggregate, Fixpoint
from tidemark.calculus.as_of import Block
from tidemark.engines.engine import Engine
from tidemark.errors import TidemarkError
from tidemark.network import Network, Node, NodeKind, Step
from tidemark.sql.catalog.catalog import Catalog
from tidemark.state.identity import moves_name, noted
from tidemark.state.tidemarks import Standing, lagging_of, note_name
from tidemark.storage.commit import Creation
from tidemark.strategy.nodes import definition, expand
from tidemark.strategy.settle import settle
from tidemark.strategy.wave import trace_of

_logger = logging.getLogger("tidemark")
NOT_FOUND = "its state was not found under its name, and is filled again"


def filled(
    nodes: Sequence[Node],
    block: Block,
    given: Mapping[str, pa.Table],
    engine: Engine,
    keys: Mapping[str, tuple[int, ...]],
) -> tuple[list[Creation], Mapping[str, pa.Table]]:
    """New nodes, from the lowest level up, each filled from what is below it; and what is given to their plans."""
    created, unstored = list[Creation](), {node.name for node in nodes}
    for node in nodes:
        if isinstance(node.plan, Fixpoint):
            # A recursion is evaluated before anything is stored, so it reads what is below the new nodes.
            below = replace(node, plan=expand(node.plan, {other.name: other.plan for other in nodes}))
            plan, given = settle(definition(below, block), given, engine)
        else:
            plan, given = settle(definition(node, block), given, engine, unstored=unstored)
        created.append(replace(_creation(node, keys), plan=plan))
    return created, given


def _creation(node: Node, keys: Mapping[str, tuple[int, ...]]) -> Creation:
    is_state = node.kind is NodeKind.STATE
    key = node.keys if isinstance(node.plan, Aggregate) and is_state else ()
    return Creation(node.name, node.schema, None, not is_state, is_state, key, key or keys.get(node.name, ()))


@dataclass(frozen=True)
class Refill:
    """What brings the inner states of a database to those that this version derives from its definitions: one that
    another version named or cut otherwise is filled again, and what nothing needs any more goes. Of a lagging
    relation the states are as of its tidemark, so it is evaluated as a whole the next time."""

    created: tuple[Creation, ...]
    given: Mapping[str, pa.Table]
    dropped: tuple[str, ...]
    notes: Mapping[str, str]
    steps: tuple[Step, ...]

    @property
    def trace(self) -> str:
        return trace_of(self.steps)


def refill(catalog: Catalog, network: Network, notes: Mapping[str, str], engine: Engine) -> Refill | None:
    """How the states that are not found are filled again; None if all are there. A view that is not found is an
    error: its content and log are the user's."""
    missing = _missing(network.nodes.values(), engine)
    lagging = {view.name: lagging_of(view).stored for view in catalog.lagging_views}
    behind = {name: _missing(nodes, engine) for name, nodes in lagging.items()}
    empty = [node for nodes in behind.values() for node in nodes]
    if not missing and not empty:
        return None
    created, given = filled(missing, Block(changed=frozenset()), {}, engine, {})
    needed = {*network.nodes, *(node.name for nodes in lagging.values() for node in nodes)}
    needed |= {view.name for view in catalog.external_views} | set(map(moves_name, noted(notes)))
    invalid = {name: notes[note_name(name)] for name, nodes in behind.items() if nodes and note_name(name) in notes}
    for node in (*missing, *empty):
        _logger.warning("%s: %s", node.label, NOT_FOUND)
    return Refill(
        (*created, *(_creation(node, {}) for node in empty)),
        given,
        tuple(sorted(engine.internal() - needed)),
        {note_name(n): replace(Standing.of_note(text), invalid=True).to_note() for n, text in invalid.items()},
        tuple(Step(node.label, "complete", NOT_FOUND, 0, 0, 0, 0.0) for node in (*missing, *empty)),
    )


def unkept(network: Network, engine: Engine) -> frozenset[str]:
    """The assertions and conditions whose states are not there: a version that kept none wrote the database. They go
    without until definitions change."""
    missing = (
        node for node in network.nodes.values() if node.kind is NodeKind.STATE and not _is_there(node.name, engine)
    )
    users = {user for node in missing for user in node.views}
    return frozenset(user for user in users if user not in network.nodes or not network.nodes[user].is_stored)


def _missing(nodes: Iterable[Node], engine: Engine) -> list[Node]:
    found = [node for node in nodes if node.is_stored and not _is_there(node.name, engine)]
    views = [node for node in found if node.kind is NodeKind.VIEW]
    if views:
        raise TidemarkError(
            "format",
            f"the content of the view {' and '.join(repr(node.name) for node in views)} is not in the database",
            hint="open the database with the version of Tidemark that wrote it, or restore a copy of it",
        )
    return found


def _is_there(name: str, engine: Engine) -> bool:
    try:
        engine.rows(name)
    except KeyError:
        return False
    return True
