"""Statements that a holder of a view can follow by itself: the view and the statement say all (BLAKELEY, Theorems 4.2
and 4.3). The source and the holder derive the same step from the same definitions, so that only the text is shipped."""

from __future__ import annotations

from tidemark.algebra.plans import Given, Stored, walk
from tidemark.database.analysed import analysed
from tidemark.database.known import known_of
from tidemark.database.transition import network_of
from tidemark.errors import TidemarkError
from tidemark.network.autonomous import Known, by_statement
from tidemark.network.nodes import Refresh
from tidemark.sql.catalog import Catalog
from tidemark.sql.changes import bind_change
from tidemark.sql.statements import Delete, Update, parse_script
from tidemark.sql.text import Source


def step_of(view: str, sql: str, dialect: str, catalog: Catalog) -> Refresh | None:
    """The step that brings a view up to date from its content and a statement alone; None if there is none.

    Nothing is taken from CHECK constraints, which a holder does not know.
    """
    try:
        script = parse_script(Source(sql, dialect))
        if len(script) != 1 or not isinstance(script[0][0], Delete | Update):
            return None
        statement, is_whole = analysed(bind_change(script[0][0], catalog, script[0][1]))
    except TidemarkError:
        return None  # what fails, or is no change, is for the database to say
    node = network_of(catalog).nodes.get(view)
    if node is None or not is_whole or statement is None:
        return None
    known = known_of(catalog)
    step = by_statement(node, statement, Known({}, known.keys), frozenset())
    if step is None:
        return None
    leaves = [part for stage in step.stages for part in walk(stage.plan) if isinstance(part, Stored | Given)]
    alone = all(isinstance(part, Stored) and part.relation == view for part in leaves)
    return step if alone and len(step.stages) == 1 else None
