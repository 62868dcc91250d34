"""Recursion as one statement.

    WITH RECURSIVE part AS MATERIALIZED (…), rows(c0, …) AS (first UNION step) SELECT * FROM rows

UNION keeps a set, and gives to the next round the rows that came last, NULL the same as NULL. The parts that the step
reads are computed once, not in every round; one that is a stored relation may be read where it lies.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tidemark.algebra.plans import Given, Stored, walk
from tidemark.algebra.types import WEIGHT
from tidemark.engines.engine import Iteration
from tidemark.engines.sqltext.blocks import FromItem, names_of
from tidemark.engines.sqltext.compiler import Compiler

_ROWS = "iterated"


def iteration_text(compiler: Compiler, iteration: Iteration, *, in_place: bool) -> str:
    """The statement for the rows of the set, each with weight one. ``in_place``: stored relations are not copied."""
    queries = []
    again = {part.name for part in walk(iteration.step) if isinstance(part, Given)}
    for number, (name, part) in enumerate(iteration.parts):
        if in_place and isinstance(part, Stored):
            compiler.named[name] = compiler.dialect.stored(part)
            continue
        source = FromItem(f"part{number}", names_of(len(part.schema)))
        kept = "MATERIALIZED " if name in again else ""
        queries.append(f"{source.text}({', '.join(source.columns)}) AS {kept}({compiler.set_of(part)})")
        compiler.named[name] = source
    columns = names_of(len(iteration.first.schema))
    first = compiler.set_of(iteration.first)
    compiler.named[iteration.last] = FromItem(_ROWS, columns, small=True)
    listed = ", ".join(columns)
    queries.append(f"{_ROWS}({listed}) AS (({first}) UNION ({compiler.set_of(iteration.step)}))")
    shown = f"SELECT {listed}, CAST(1 AS BIGINT) AS {WEIGHT} FROM {_ROWS} LIMIT {iteration.most_rows + 1}"
    return f"WITH RECURSIVE {', '.join(queries)} {shown}"


def given_to(iteration: Iteration, given: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Of the given relations those that the plans read, as far as they are there."""
    return {name: given[name] for name in iteration.given if name in given}
