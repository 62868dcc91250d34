"""A whole program from first principle: stratum by stratum, each semi-naive to its fixpoint."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.datalog.fixpoint import Evaluation, Limits
from tidemark.datalog.grouping import grouped
from tidemark.datalog.program import Program
from tidemark.datalog.relations import Lookup, Relation, Remembered, Rows


def evaluate(program: Program, base: Lookup, limits: Limits | None = None) -> Mapping[str, Rows]:
    """The content of every predicate of the program.

    >>> from tidemark.algebra.types import INT, Field, Schema
    >>> from tidemark.datalog.program import bind_program
    >>> from tidemark.datalog.relations import Memory
    >>> edge = Schema((Field("a", INT, nullable=False), Field("b", INT, nullable=False)))
    >>> text = "closure(x, y) :- edge(x, y). closure(x, y) :- edge(x, z), closure(z, y)."
    >>> content = evaluate(bind_program(text, {"edge": edge}), Memory({"edge": {(1, 2), (2, 3)}}))
    >>> sorted(content["closure"])
    [(1, 2), (1, 3), (2, 3)]
    """
    relations: dict[str, Relation] = {name: Remembered(base, name) for name in program.base}
    derived = {name: Rows() for name in program.predicates}
    relations.update(derived)
    for stratum in program.strata:
        for grouping in program.groupings_of(stratum.predicates):
            rows = derived[grouping.source]
            derived[grouping.predicate].add(grouped(grouping, program.schemas[grouping.source], rows))
        evaluation = Evaluation(relations, limits)
        evaluation.add(program.rules_of(stratum.predicates))
        evaluation.run()
    return derived
