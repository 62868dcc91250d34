"""Up to where the parameters of a statement leave it irrelevant, so that nothing is to be proved when it runs (8.2).

For ``DELETE FROM r WHERE i < :p`` the effects that are possible are formulas over the rows and p. With the rows left
out they say for which p there can be an effect; for all others there is none. Where more is let pass than need be,
fewer values of p are called irrelevant: the answer is sound. A parameter is taken not to be NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from tidemark.algebra.expressions import TRUE, Call, Expression, Literal, conjunction, shift
from tidemark.algebra.types import BOOLEAN
from tidemark.analysis.conditions import Facts
from tidemark.analysis.effects import Cells, Effect, Parameters, is_changed, of_deleting, of_inserting, of_updating
from tidemark.analysis.eliminating import said_of
from tidemark.analysis.relevance import Influence, any_of, simplified
from tidemark.analysis.rendering import FALSE
from tidemark.analysis.ways import Way

_OPPOSITES = {"eq": "ne", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
_OPPOSITES |= {opposite: name for name, opposite in _OPPOSITES.items()}


def insert_boundary(influence: Influence, cells: Cells, parameters: Parameters) -> Expression | None:
    """The condition on the parameters, columns by their places, under which INSERT of one row is irrelevant."""
    return _boundary(influence.ways, partial(of_inserting, cells=cells, parameters=parameters), parameters)


def delete_boundary(influence: Influence, where: Expression, parameters: Parameters) -> Expression | None:
    """The condition on the parameters under which DELETE is irrelevant. None if none was found.

    In the statement the parameters are columns behind those of the table; in the result they are the columns.
    """
    return _boundary(influence.ways, partial(of_deleting, where=where, parameters=parameters), parameters)


def update_boundary(influence: Influence, where: Expression, cells: Cells, parameters: Parameters) -> Expression | None:
    """The condition on the parameters under which UPDATE is irrelevant."""
    asking = None if influence.ways is None else [way for way in influence.ways if is_changed(way, cells)]
    effect = partial(of_updating, table=influence.facts, where=where, cells=cells, parameters=parameters)
    return _boundary(asking, effect, parameters)


def _boundary(ways: Iterable[Way] | None, effect: Callable[[Way], Effect], parameters: Parameters) -> Expression | None:
    if ways is None:
        return None
    facts, found = Facts(parameters), list[Expression]()
    for way in ways:
        offset = len(way.facts.columns)
        kept = frozenset(range(offset, offset + len(parameters)))
        possible = effect(way)
        matters = FALSE if possible.impossible else said_of(possible.formula, kept, possible.translation)
        simple = None if matters is None else simplified(shift(matters, -offset), facts)
        if simple is None:
            return None
        if simple != FALSE:
            found.append(simple)
    matters = any_of(found, facts)
    return None if matters is None else simplified(opposite(matters), facts) or TRUE


def opposite(condition: Expression) -> Expression:
    """The opposite of a condition that is never NULL, without NOT where there is a shorter way to say it.

    >>> from tidemark.algebra.expressions import Column
    >>> from tidemark.algebra.printing import show_expression
    >>> from tidemark.algebra.types import INT
    >>> show_expression(opposite(Call("ge", (Column(0, "p", INT, nullable=False), Literal(13, INT)), BOOLEAN)))
    '(p < 13)'
    """
    match condition:
        case Literal(value=value):
            return Literal(not value, BOOLEAN)
        case Call(function="and", arguments=(left, right)):
            return Call("or", (opposite(left), opposite(right)), BOOLEAN, condition.nullable)
        case Call(function="or", arguments=(left, right)):
            return conjunction((opposite(left), opposite(right)))
        case Call(function=name, arguments=arguments) if name in _OPPOSITES:
            return Call(_OPPOSITES[name], arguments, BOOLEAN, condition.nullable)
        case Call(function="not", arguments=(inner,)):
            return inner
    return Call("not", (condition,), BOOLEAN, condition.nullable)
